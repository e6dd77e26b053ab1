//! What a server sent back, read within bounds and turned into facts.

use bytes::Bytes;
use futures::stream::BoxStream;
use futures::{Stream, StreamExt};
use http::{HeaderMap, StatusCode, header};
use serde_json::Value;
use sse_stream::{Error as SseError, Sse, SseStream};
use toshi_core::{TOOL_BODY_MAX, WireFault};

use crate::shot::{Fault, Shot};

/// An error page beyond this is not read: only a JSON-RPC error in it would tell us anything.
const ERROR_BODY_MAX: usize = 64 * 1024;

/// How a body ended before its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum BodyFault {
    #[error("the answer is too large")]
    TooLarge,
    #[error("the answer did not come in time")]
    Timeout,
    #[error("the answer was cut off")]
    Cut,
}

impl From<BodyFault> for WireFault {
    fn from(fault: BodyFault) -> Self {
        match fault {
            BodyFault::TooLarge => Self::TooLarge,
            BodyFault::Timeout => Self::Timeout,
            BodyFault::Cut => Self::Cut,
        }
    }
}

/// What an error of the HTTP client says about the request.
pub(crate) fn send_fault(error: &reqwest::Error) -> WireFault {
    if error.is_builder() || error.is_connect() {
        return WireFault::NotSent("the server could not be reached".to_owned());
    }
    body_fault(error).into()
}

fn body_fault(error: &reqwest::Error) -> BodyFault {
    if error.is_timeout() {
        BodyFault::Timeout
    } else {
        BodyFault::Cut
    }
}

pub(crate) enum Media {
    Json,
    Events,
    Other,
}

pub(crate) fn media(headers: &HeaderMap) -> Media {
    let text = headers
        .get(header::CONTENT_TYPE)
        .and_then(|value| value.to_str().ok());
    let essence = text
        .and_then(|text| text.split(';').next())
        .unwrap_or_default()
        .trim();
    if essence.eq_ignore_ascii_case("application/json") {
        Media::Json
    } else if essence.eq_ignore_ascii_case("text/event-stream") {
        Media::Events
    } else {
        Media::Other
    }
}

/// Reads a whole body of at most [`TOOL_BODY_MAX`].
pub(crate) async fn whole_body(response: reqwest::Response) -> Result<Vec<u8>, BodyFault> {
    body_up_to(response, TOOL_BODY_MAX).await
}

async fn body_up_to(mut response: reqwest::Response, most: usize) -> Result<Vec<u8>, BodyFault> {
    let mut body = Vec::new();
    loop {
        match response.chunk().await {
            Ok(Some(chunk)) if body.len() + chunk.len() > most => return Err(BodyFault::TooLarge),
            Ok(Some(chunk)) => body.extend_from_slice(&chunk),
            Ok(None) => return Ok(body),
            Err(error) => return Err(body_fault(&error)),
        }
    }
}

/// What a status that is no success says.
///
/// Statuses of which every server knows that nothing ran stand for themselves. A 400 or a server
/// error may carry a JSON-RPC error, which says more.
pub(crate) async fn status_fault(response: reqwest::Response, session: bool) -> Fault {
    let code = response.status();
    let status = code.as_u16();
    let challenged = code == StatusCode::UNAUTHORIZED
        && response.headers().contains_key(header::WWW_AUTHENTICATE);
    let plain = WireFault::HttpStatus { status, session };
    let lost_session = code == StatusCode::NOT_FOUND && session;
    let may_say_more = !lost_session
        && (code == StatusCode::BAD_REQUEST
            || code == StatusCode::NOT_FOUND
            || code.is_server_error());
    let wire = match media(response.headers()) {
        Media::Json if may_say_more => body_up_to(response, ERROR_BODY_MAX)
            .await
            .ok()
            .and_then(|body| serde_json::from_slice(&body).ok())
            .and_then(|message: Value| rpc_fault(&message, status))
            .unwrap_or(plain),
        Media::Json | Media::Events | Media::Other => plain,
    };
    Fault { wire, challenged }
}

fn rpc_fault(message: &Value, status: u16) -> Option<WireFault> {
    let error = message.get("error")?.as_object()?;
    let code = error.get("code")?.as_i64()?;
    let text = error
        .get("message")
        .and_then(Value::as_str)
        .unwrap_or_default();
    Some(WireFault::Rpc {
        code,
        message: text.chars().take(500).collect(),
        status,
    })
}

/// Whether `message` is the answer to the request `id`, and if so, what it says.
///
/// An error without an id comes from a server that could not read the request's: it was the only
/// request of its POST.
pub(crate) fn answer_to(
    message: &Value,
    id: &Value,
    status: u16,
) -> Option<Result<Value, WireFault>> {
    let answered = message.get("id").unwrap_or(&Value::Null);
    let matches = answered == id
        || answered.as_str().is_some_and(|text| {
            text.parse()
                .is_ok_and(|text: i64| id.as_i64() == Some(text))
        })
        || (answered.is_null() && message.get("error").is_some());
    if !matches || message.get("method").is_some() {
        return None;
    }
    if let Some(fault) = rpc_fault(message, status) {
        return Some(Err(fault));
    }
    let result = message.get("result").filter(|result| result.is_object())?;
    Some(Ok(result.clone()))
}

/// The events of an answer, watched on their way to `rmcp`.
///
/// The bound is on the whole stream, counted in bytes as they arrive: no event, and no number of
/// events, can be larger, however they are cut into chunks.
pub(crate) fn watched_events(
    response: reqwest::Response,
    shot: Option<Shot>,
    id: Value,
) -> BoxStream<'static, Result<Sse, SseError>> {
    let status = response.status().as_u16();
    let events = SseStream::from_bytes_stream(bounded(response.bytes_stream())).boxed();
    let watch = Watch {
        shot,
        id,
        status,
        over: WireFault::Cut,
    };
    futures::stream::unfold((events, watch), |(mut events, mut watch)| async move {
        let event = events.next().await?;
        watch.look(&event);
        Some((event, (events, watch)))
    })
    .boxed()
}

fn bounded(
    chunks: impl Stream<Item = Result<Bytes, reqwest::Error>> + Send + 'static,
) -> impl Stream<Item = Result<Bytes, BodyFault>> + Send + 'static {
    let mut seen = 0;
    chunks.map(move |chunk| {
        let chunk = chunk.map_err(|error| body_fault(&error))?;
        seen += chunk.len();
        if seen > TOOL_BODY_MAX {
            Err(BodyFault::TooLarge)
        } else {
            Ok(chunk)
        }
    })
}

/// Settles its shot by the answer it sees, or, when the stream ends or is dropped without one, by how
/// it ended.
struct Watch {
    shot: Option<Shot>,
    id: Value,
    status: u16,
    over: WireFault,
}

impl Watch {
    fn look(&mut self, event: &Result<Sse, SseError>) {
        match event {
            Ok(event) => {
                let message = event
                    .data
                    .as_deref()
                    .and_then(|data| serde_json::from_str::<Value>(data).ok());
                let seen = message.and_then(|message| answer_to(&message, &self.id, self.status));
                if let (Some(shot), Some(seen)) = (&self.shot, seen) {
                    shot.settle(seen.map_err(Fault::from));
                }
            }
            Err(SseError::Body(error)) => {
                let known = error.downcast_ref::<BodyFault>().copied();
                self.over = known.unwrap_or(BodyFault::Cut).into();
            }
            Err(_) => {
                self.over = WireFault::Other("the event stream is not well formed".to_owned());
            }
        }
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        if let Some(shot) = &self.shot {
            shot.settle(Err(self.over.clone().into()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn only_an_answer_to_this_request_counts() {
        let id = json!(7);
        let ok = |message: Value| answer_to(&message, &id, 200);
        assert_eq!(
            ok(json!({"id": 7, "result": {"a": 1}})),
            Some(Ok(json!({"a": 1})))
        );
        assert_eq!(ok(json!({"id": "7", "result": {}})), Some(Ok(json!({}))));
        assert_eq!(ok(json!({"id": 8, "result": {}})), None);
        assert_eq!(ok(json!({"id": null, "result": {}})), None);
        assert_eq!(ok(json!({"id": 7, "result": "text"})), None);
        assert_eq!(ok(json!({"id": 7, "method": "ping", "result": {}})), None);
        assert_eq!(ok(json!([{"id": 7, "result": {}}])), None);
        let fault = WireFault::Rpc {
            code: -32602,
            message: "no".to_owned(),
            status: 200,
        };
        for error_id in [json!(7), json!("7"), Value::Null] {
            let message = json!({"id": error_id, "error": {"code": -32602, "message": "no"}});
            assert_eq!(ok(message), Some(Err(fault.clone())));
        }
        assert_eq!(
            ok(json!({"id": 8, "error": {"code": -32602, "message": "no"}})),
            None
        );
    }
}
