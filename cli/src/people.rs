//! The demo schools and their people: roles, not persons.

use toshi_core::Role;

/// A school's id and name.
pub(crate) const SCHOOLS: [(&str, &str); 2] = [("lakeside", "Lakeside"), ("hilltop", "Hilltop")];

/// What a person is called in ids, their role, and their title.
pub(crate) const PEOPLE: [(&str, Role, &str); 10] = [
    ("admin", Role::Admin, "admin"),
    ("deputy", Role::Deputy, "deputy"),
    ("teacher", Role::Teacher, "teacher"),
    ("teacher2", Role::Teacher, "second teacher"),
    ("student", Role::Student, "student"),
    ("parent", Role::Parent, "parent"),
    ("parent2", Role::Parent, "second parent"),
    ("accountant", Role::Accountant, "accountant"),
    ("librarian", Role::Librarian, "librarian"),
    ("receptionist", Role::Receptionist, "receptionist"),
];

pub(crate) const OPERATOR: &str = "operator";
pub(crate) const OPERATOR_NAME: &str = "Platform operator";

/// What the sandbox's issuer writes into its tokens.
pub(crate) const AUDIENCE: &str = "https://api.toshi.test";
