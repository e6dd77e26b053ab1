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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_deputy_and_the_operator_change_nothing() {
        let readers: Vec<Role> = Role::ALL
            .into_iter()
            .filter(|role| !role.may_write())
            .collect();
        assert_eq!(readers, [Role::Deputy, Role::Operator]);
    }

    #[test]
    fn the_operator_has_no_chat_and_only_an_admin_reads_the_audit() {
        for role in Role::ALL {
            let capabilities = role.capabilities();
            assert_eq!(capabilities.contains(&"chat"), role != Role::Operator);
            assert_eq!(capabilities.contains(&"audit.read"), role == Role::Admin);
        }
    }

    #[test]
    fn a_role_is_stored_by_its_name() {
        for role in Role::ALL {
            let text = format!("{:?}", role.as_str());
            assert_eq!(serde_json::to_string(&role).unwrap(), text);
            assert_eq!(serde_json::from_str::<Role>(&text).unwrap(), role);
        }
        assert!(serde_json::from_str::<Role>("\"Admin\"").is_err());
    }
}
