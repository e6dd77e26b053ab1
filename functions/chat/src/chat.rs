//! `POST /chat` and `GET /chat/{id}/stream`: server-sent events in the AI SDK's UI message stream
//! protocol.

use std::convert::Infallible;

use axum::Extension;
use axum::body::Body as HttpBody;
use axum::extract::State;
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use futures::stream;
use serde_json::Value;
use toshi_agent::{Budget, ChatError, ChatRequest, ChatStream, KEEP_ALIVE, Posted, RequestError};
use toshi_core::{ClientId, ConversationId, RequestId};
use toshi_http::{Body, Code, IdPath, Problem, start};

use crate::Chat;

/// A request carries the whole history with it; none of that is looked at.
const BODY_MAX: usize = 5 * 1024 * 1024;
/// Without a runtime's word (tests), an invocation is taken to last this long.
const INVOCATION_MS: i64 = 290_000;

pub(crate) async fn post(
    State(chat): State<Chat>,
    Extension(request): Extension<RequestId>,
    lambda: Option<Extension<lambda_http::Context>>,
    headers: HeaderMap,
    Body(body): Body<Value, BODY_MAX>,
) -> Result<Response, Problem> {
    let caller = chat.identity.authenticate(&headers, start::now()).await?;
    let posted = Posted::parse(&body).map_err(|error| match error {
        RequestError::TooLarge { .. } => Problem::saying(Code::TooLarge, sentence(&error)),
        RequestError::Bad(_) => Problem::bad_request(sentence(&error)),
    })?;
    let request = ChatRequest {
        tenant: caller.tenant.tenant,
        user: caller.user,
        posted,
        request: Some(request),
        budget: budget(lambda),
    };
    chat.agent.chat(request).await.map(respond).map_err(problem)
}

/// A replay of what is running, from its start and on; 204 if nothing is, also for ids that do not
/// exist: a plain client takes any other status for an error.
pub(crate) async fn stream(
    State(chat): State<Chat>,
    lambda: Option<Extension<lambda_http::Context>>,
    headers: HeaderMap,
    IdPath(id): IdPath<String>,
) -> Result<Response, Problem> {
    let person = chat.identity.person(&headers, start::now()).await?;
    let Ok(client) = id.parse::<ClientId>() else {
        return Ok(StatusCode::NO_CONTENT.into_response());
    };
    let conversation = ConversationId::of(&person.user, &client);
    let stream = chat
        .agent
        .resume(&person.tenant, &conversation, budget(lambda))
        .await?;
    Ok(stream.map_or_else(|| StatusCode::NO_CONTENT.into_response(), respond))
}

fn budget(lambda: Option<Extension<lambda_http::Context>>) -> Budget {
    let now = start::now();
    let deadline = lambda
        .and_then(|Extension(context)| i64::try_from(context.deadline).ok())
        .map(toshi_core::Millis::from_epoch)
        .filter(|deadline| *deadline > now);
    Budget::until(deadline.unwrap_or_else(|| now.plus(INVOCATION_MS)))
}

fn respond(stream: ChatStream) -> Response {
    // The first event goes out at once, and a silent stream says that it is alive.
    let events = stream::unfold(stream, |mut stream| async move {
        let text = match tokio::time::timeout(KEEP_ALIVE, stream.recv()).await {
            Ok(Some(chunk)) => chunk.to_event(),
            Ok(None) => return None,
            Err(_) => toshi_agent::keep_alive().to_owned(),
        };
        Some((Ok::<_, Infallible>(text), stream))
    });
    let mut response = HttpBody::from_stream(events).into_response();
    let headers = response.headers_mut();
    for (name, value) in [
        (header::CONTENT_TYPE, "text/event-stream"),
        (header::CACHE_CONTROL, "no-cache"),
        (
            HeaderName::from_static("x-vercel-ai-ui-message-stream"),
            "v1",
        ),
        (HeaderName::from_static("x-accel-buffering"), "no"),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
    response
}

fn problem(error: ChatError) -> Problem {
    match error {
        ChatError::NoPerson(why) => why.into(),
        ChatError::RateLimited { retry_after_s } => {
            Problem::new(Code::RateLimited).retry_after(retry_after_s)
        }
        ChatError::TooManyOpen => Problem::new(Code::TooManyOpen),
        ChatError::Deleted => Problem::new(Code::UnknownConversation),
        ChatError::NothingToRegenerate => {
            Problem::bad_request("There is no message to answer again.")
        }
        ChatError::Store(error) => error.into(),
    }
}

/// An error's words as a sentence.
fn sentence(error: &RequestError) -> String {
    let text = error.to_string();
    let mut letters = text.chars();
    let first: String = letters
        .next()
        .into_iter()
        .flat_map(char::to_uppercase)
        .collect();
    format!("{first}{}.", letters.as_str())
}
