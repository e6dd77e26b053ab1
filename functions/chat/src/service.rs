//! Who am I, is it alive, does the model answer, what is the interface.

use std::sync::{Mutex, PoisonError};

use axum::Json;
use axum::extract::State;
use axum::http::{HeaderMap, header};
use toshi_core::{Millis, Role};
use toshi_http::wire::{Health, LlmHealth, Me};
use toshi_http::{Code, Problem, Signed, start};

use crate::Chat;

pub(crate) async fn me(State(chat): State<Chat>, headers: HeaderMap) -> Result<Json<Me>, Problem> {
    let model = chat.agent.model.name();
    match chat.identity.signed(&headers, start::now()).await? {
        Signed::Member(caller) => {
            let row = chat
                .agent
                .store
                .school(&caller.tenant.tenant)
                .user(&caller.user)
                .await?;
            Ok(Json(Me::of(&caller.person(row)?, model)))
        }
        Signed::Operator(operator) => Ok(Json(Me::of_operator(
            &chat.identity.operator(&operator).await?,
            model,
        ))),
    }
}

pub(crate) async fn health() -> Json<Health> {
    Json(Health::ok())
}

/// How long an answer about the model is believed, in milliseconds: a call costs money.
const BELIEVED_MS: i64 = 60_000;
static LAST: Mutex<Option<(Millis, bool, String)>> = Mutex::new(None);

pub(crate) async fn llm_health(
    State(chat): State<Chat>,
    headers: HeaderMap,
) -> Result<Json<LlmHealth>, Problem> {
    let now = start::now();
    let person = chat.identity.person(&headers, now).await?;
    if person.role != Role::Admin {
        return Err(Problem::new(Code::NotAllowed));
    }
    let kept = LAST.lock().unwrap_or_else(PoisonError::into_inner).clone();
    let kept = kept.filter(|(at, ..)| at.until(now) < BELIEVED_MS);
    let (at, ok, detail) = match kept {
        Some(kept) => kept,
        None => {
            let health = chat.agent.model_health(now).await;
            let fresh = (now, health.ok, health.detail);
            *LAST.lock().unwrap_or_else(PoisonError::into_inner) = Some(fresh.clone());
            fresh
        }
    };
    let model = chat.agent.model.name().to_owned();
    Ok(Json(LlmHealth {
        ok,
        model,
        detail,
        checked_at: at.to_string(),
    }))
}

pub(crate) async fn openapi() -> impl axum::response::IntoResponse {
    (
        [(header::CONTENT_TYPE, "application/json")],
        toshi_http::openapi::KEPT,
    )
}
