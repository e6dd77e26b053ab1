//! Conversations: the list, one's messages, its deletion. Only ever one's own.

use axum::Json;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use toshi_core::{ClientId, ConversationId};
use toshi_http::wire::Page;
use toshi_http::{Code, Cursor, IdPath, Paging, Problem, Search, start};

use crate::Chat;

#[derive(Debug, Deserialize)]
pub(crate) struct Wanted {
    limit: Option<String>,
    cursor: Option<String>,
}

#[derive(Debug, Serialize)]
pub(crate) struct Item {
    id: ClientId,
    title: String,
    last_activity: String,
}

pub(crate) async fn list(
    State(chat): State<Chat>,
    headers: HeaderMap,
    Search(wanted): Search<Wanted>,
) -> Result<Json<Page<Item>>, Problem> {
    let person = chat.identity.person(&headers, start::now()).await?;
    let cursor = Cursor {
        route: "conversations",
        tenant: &person.tenant,
    };
    let paging = Paging::new(wanted.limit, wanted.cursor);
    let after = paging.after(cursor)?;
    let school = chat.agent.store.school(&person.tenant);
    let page = school
        .conversations(&person.user, after.as_deref(), paging.limit()?)
        .await?;
    let items = page.items.into_iter().map(|row| Item {
        id: row.client_id,
        title: row.title,
        last_activity: row.last_activity.to_string(),
    });
    Ok(Json(Page {
        items: items.collect(),
        next: page.next.map(|next| cursor.make(&next)),
    }))
}

pub(crate) async fn messages(
    State(chat): State<Chat>,
    headers: HeaderMap,
    IdPath(client): IdPath<ClientId>,
    Search(wanted): Search<Wanted>,
) -> Result<Json<Value>, Problem> {
    let person = chat.identity.person(&headers, start::now()).await?;
    let cursor = Cursor {
        route: "messages",
        tenant: &person.tenant,
    };
    let paging = Paging::new(wanted.limit, wanted.cursor);
    let before = paging.after(cursor)?.and_then(|text| text.parse().ok());
    let conversation = ConversationId::of(&person.user, &client);
    let read = chat
        .agent
        .messages(&person.tenant, &conversation, before, paging.limit()?)
        .await?
        .ok_or_else(|| Problem::new(Code::UnknownConversation))?;
    Ok(Json(json!({
        "items": read.items,
        "next": read.next.map(|next| cursor.make(&next.to_string())),
        "running": read.running,
    })))
}

pub(crate) async fn erase(
    State(chat): State<Chat>,
    headers: HeaderMap,
    IdPath(client): IdPath<ClientId>,
) -> Result<StatusCode, Problem> {
    let person = chat.identity.person(&headers, start::now()).await?;
    let conversation = ConversationId::of(&person.user, &client);
    use toshi_agent::Erased;
    match chat.agent.erase(&person.tenant, &conversation).await? {
        Erased::Done => Ok(StatusCode::NO_CONTENT),
        Erased::Busy => Err(Problem::new(Code::TurnInProgress)),
        Erased::NotFound => Err(Problem::new(Code::UnknownConversation)),
    }
}
