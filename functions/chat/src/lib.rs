//! The chat function's routes: wire in, one domain call, wire out.

mod chat;
mod conversations;
mod service;

use std::sync::Arc;

use axum::Router;
use axum::routing::{get, post};
use toshi_agent::Agent;
use toshi_http::Identity;

/// What the handlers share.
#[derive(Clone, Debug)]
pub struct Chat {
    pub agent: Arc<Agent>,
    pub identity: Arc<Identity>,
}

pub fn routes(chat: Chat) -> Router {
    Router::new()
        .route("/chat", post(chat::post))
        .route("/chat/{id}/stream", get(chat::stream))
        .route("/conversations", get(conversations::list))
        .route(
            "/conversations/{id}",
            axum::routing::delete(conversations::erase),
        )
        .route("/conversations/{id}/messages", get(conversations::messages))
        .route("/me", get(service::me))
        .route("/health", get(service::health))
        .route("/llm/health", get(service::llm_health))
        .route("/openapi.json", get(service::openapi))
        .with_state(chat)
}
