//! What a client learns about its person and about the service.

use serde::Serialize;
use utoipa::ToSchema;

use crate::Person;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct School {
    pub id: String,
    pub name: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct Agent {
    pub model: String,
}

/// The person who signed in. Clients ask for capabilities, never for roles or versions.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct Me {
    pub user_id: String,
    pub name: String,
    pub role: String,
    /// Absent for the platform's own people.
    pub tenant: Option<School>,
    pub capabilities: Vec<String>,
    pub agent: Agent,
}

impl Me {
    pub fn of(person: &Person, model: &str) -> Self {
        let Person {
            tenant,
            tenant_name,
            user,
            name,
            role,
        } = person;
        Self {
            user_id: user.to_string(),
            name: name.clone(),
            role: role.as_str().to_owned(),
            tenant: Some(School {
                id: tenant.to_string(),
                name: tenant_name.clone(),
            }),
            capabilities: capabilities(*role),
            agent: Agent {
                model: model.to_owned(),
            },
        }
    }

    pub fn of_operator(row: &toshi_store::UserRow, model: &str) -> Self {
        let toshi_store::UserRow {
            user,
            name,
            role,
            status: _,
        } = row;
        Self {
            user_id: user.to_string(),
            name: name.clone(),
            role: role.as_str().to_owned(),
            tenant: None,
            capabilities: capabilities(*role),
            agent: Agent {
                model: model.to_owned(),
            },
        }
    }
}

fn capabilities(role: toshi_core::Role) -> Vec<String> {
    role.capabilities()
        .into_iter()
        .map(ToOwned::to_owned)
        .collect()
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct Health {
    pub status: String,
}

impl Health {
    pub fn ok() -> Self {
        Self {
            status: "ok".to_owned(),
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct LlmHealth {
    pub ok: bool,
    pub model: String,
    /// What was wrong, or what answered.
    pub detail: String,
    #[schema(format = DateTime)]
    pub checked_at: String,
}
