//! What a server sent back, read within bounds and turned into facts.

use std::collections::VecDeque;

use bytes::Bytes;
use futures::StreamExt;
use futures::stream::BoxStream;
use http::{HeaderMap, StatusCode, header};
use serde_json::Value;
use sse_stream::{Error as SseError, Sse};
use toshi_core::{TOOL_BODY_MAX, WireFault};

use crate::events::Parser;
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
        || (answered.is_null() && message.get("error").is_some_and(Value::is_object));
    if !matches || message.get("method").is_some() {
        return None;
    }
    let result = message.get("result").filter(|result| result.is_object());
    match (rpc_fault(message, status), result) {
        (Some(_), Some(_)) => {
            let why = "the answer says that it worked and that it did not";
            Some(Err(WireFault::Other(why.to_owned())))
        }
        (Some(fault), None) => Some(Err(fault)),
        (None, result) => result.cloned().map(Ok),
    }
}

/// The events of an answer, watched on their way to `rmcp`.
///
/// The bound is on the whole stream, counted in bytes: no event, and no number of events, can be
/// larger, however they are cut into chunks.
pub(crate) fn watched_events(
    response: reqwest::Response,
    shot: Option<Shot>,
    id: Value,
) -> BoxStream<'static, Result<Sse, SseError>> {
    let status = response.status().as_u16();
    let reading = Reading {
        chunks: response.bytes_stream().boxed(),
        parser: Parser::default(),
        left: TOOL_BODY_MAX,
        ready: VecDeque::new(),
        fault: None,
        watch: Watch { shot, id, status },
    };
    futures::stream::unfold(reading, |mut reading| async move {
        let event = reading.next().await?;
        Some((event, reading))
    })
    .boxed()
}

struct Reading {
    chunks: BoxStream<'static, Result<Bytes, reqwest::Error>>,
    parser: Parser,
    /// Bytes that may still come.
    left: usize,
    ready: VecDeque<Sse>,
    /// What ends the stream, after what is ready.
    fault: Option<BodyFault>,
    watch: Watch,
}

impl Reading {
    async fn next(&mut self) -> Option<Result<Sse, SseError>> {
        loop {
            if let Some(event) = self.ready.pop_front() {
                return Some(Ok(event));
            }
            if let Some(fault) = self.fault {
                self.chunks = futures::stream::empty().boxed();
                self.fault = None;
                return Some(Err(SseError::Body(Box::new(fault))));
            }
            match self.chunks.next().await? {
                Ok(chunk) => self.take(&chunk),
                Err(error) => self.end(body_fault(&error)),
            }
        }
    }

    /// Looks at what comes as soon as it is there. Of a chunk that is too large the beginning counts,
    /// as it would have in a chunk of its own.
    fn take(&mut self, chunk: &[u8]) {
        let (chunk, beyond) = chunk.split_at(chunk.len().min(self.left));
        self.left -= chunk.len();
        for event in self.parser.push(chunk) {
            self.watch.look(&event);
            self.ready.push_back(event);
        }
        if !beyond.is_empty() {
            self.end(BodyFault::TooLarge);
        }
    }

    fn end(&mut self, fault: BodyFault) {
        self.fault = Some(fault);
        self.watch.over(fault);
    }
}

/// Settles its shot by the answer it sees, or, when the stream ends or is dropped without one, by how
/// it ended. The first word stands.
struct Watch {
    shot: Option<Shot>,
    id: Value,
    status: u16,
}

impl Watch {
    fn look(&self, event: &Sse) {
        let data = event.data.as_deref().unwrap_or_default();
        let message = serde_json::from_str::<Value>(data).ok();
        let seen = message.and_then(|message| answer_to(&message, &self.id, self.status));
        if let (Some(shot), Some(seen)) = (&self.shot, seen) {
            shot.settle(seen.map_err(Fault::from));
        }
    }

    fn over(&self, fault: BodyFault) {
        if let Some(shot) = &self.shot {
            shot.settle(Err(WireFault::from(fault).into()));
        }
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.over(BodyFault::Cut);
    }
}

#[cfg(test)]
#[path = "reply_tests.rs"]
mod tests;
