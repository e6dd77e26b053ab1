//! The JSON of the interface, made from the rules' own types with every field named: one that is
//! added there must be looked at here.

mod approval;
mod audit;
mod conversation;
mod me;

use serde::Serialize;
use toshi_core::Actor;
use utoipa::ToSchema;

pub use approval::{Approval, Connection, Decided, Risk, State};
pub use audit::{ActorKind, AuditRecord, FirstBad, RecordActor, RecordEvent, Verification};
pub use conversation::{ConversationSummary, Messages};
pub use me::{Agent, Health, LlmHealth, Me, School};

/// A person by id and by the name they had then.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[schema(as = PersonName)]
pub struct Named {
    pub id: String,
    pub name: String,
}

impl Named {
    fn of(actor: &Actor) -> Option<Self> {
        match actor {
            Actor::User { id, name, role: _ } => Some(Self {
                id: id.to_string(),
                name: name.clone(),
            }),
            Actor::System => None,
        }
    }
}

/// Through which surface something was done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum How {
    Web,
    Chat,
    System,
}

impl From<toshi_core::How> for How {
    fn from(how: toshi_core::How) -> Self {
        match how {
            toshi_core::How::Web => Self::Web,
            toshi_core::How::Chat => Self::Chat,
            toshi_core::How::System => Self::System,
        }
    }
}

/// Part of a list. `next` is the cursor of the part after it.
#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
pub struct Page<T> {
    pub items: Vec<T>,
    pub next: Option<String>,
}
