//! Conversations as their owner lists and reads them.

use serde::Serialize;
use serde_json::Value;
use toshi_store::Listed;
use utoipa::ToSchema;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct ConversationSummary {
    /// As its client made it.
    pub id: String,
    pub title: Option<String>,
    #[schema(format = DateTime)]
    pub last_activity: String,
}

impl From<Listed> for ConversationSummary {
    fn from(row: Listed) -> Self {
        let Listed {
            client_id,
            // Our key; people know the client's id.
            conversation: _,
            title,
            last_activity,
        } = row;
        Self {
            id: client_id.to_string(),
            title: (!title.is_empty()).then_some(title),
            last_activity: last_activity.to_string(),
        }
    }
}

/// Part of a conversation, oldest first.
#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
pub struct Messages {
    /// UI messages of the AI SDK: `{"id", "role", "parts": […], "metadata"}`.
    #[schema(value_type = Vec<Object>)]
    pub items: Vec<Value>,
    pub next: Option<String>,
    /// Whether an answer is being made: follow it at `/chat/{id}/stream`.
    pub running: bool,
}
