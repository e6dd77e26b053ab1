//! The roles of a person in a school.

use serde::{Deserialize, Serialize};

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    Admin,
    Deputy,
    Teacher,
    Student,
    Parent,
    Accountant,
    Librarian,
    Receptionist,
    /// The platform's own people. They belong to no school and see no contents.
    Operator,
}

impl Role {
    pub const ALL: [Self; 9] = [
        Self::Admin,
        Self::Deputy,
        Self::Teacher,
        Self::Student,
        Self::Parent,
        Self::Accountant,
        Self::Librarian,
        Self::Receptionist,
        Self::Operator,
    ];

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Admin => "admin",
            Self::Deputy => "deputy",
            Self::Teacher => "teacher",
            Self::Student => "student",
            Self::Parent => "parent",
            Self::Accountant => "accountant",
            Self::Librarian => "librarian",
            Self::Receptionist => "receptionist",
            Self::Operator => "operator",
        }
    }

    /// A deputy reads as an admin does and changes nothing.
    pub const fn may_write(self) -> bool {
        match self {
            Self::Admin
            | Self::Teacher
            | Self::Student
            | Self::Parent
            | Self::Accountant
            | Self::Librarian
            | Self::Receptionist => true,
            Self::Deputy | Self::Operator => false,
        }
    }

    /// What the HTTP interface offers this role; clients ask for these tokens, never for versions.
    pub fn capabilities(self) -> Vec<&'static str> {
        match self {
            Self::Admin => {
                vec![
                    "chat",
                    "approvals.decide",
                    "approvals.resolve",
                    "audit.read",
                    "llm.health",
                ]
            }
            Self::Operator => vec!["approvals.resolve"],
            Self::Deputy
            | Self::Teacher
            | Self::Student
            | Self::Parent
            | Self::Accountant
            | Self::Librarian
            | Self::Receptionist => vec!["chat", "approvals.decide", "approvals.resolve"],
        }
    }
}
