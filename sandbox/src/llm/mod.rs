//! A scripted model behind the OpenAI-compatible chat completions interface.

pub(crate) mod junk;
mod request;
mod script;
mod understand;
mod write;

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use axum::{
    Json, Router,
    body::Bytes,
    extract::{DefaultBodyLimit, State},
    http::{HeaderMap, StatusCode, header},
    response::{IntoResponse, Response},
    routing::{get, post},
};
use serde_json::{Value, json};

use crate::{App, switches::Switches};
use request::Request;
use script::Step;

/// The model's name where no other is configured.
pub(crate) const NAME: &str = "scripted";

const LARGEST_BODY: usize = 4 * 1024 * 1024;
const MOST_REMEMBERED: usize = 50;
const MOST_REMEMBERED_BYTES: usize = 16 * 1024 * 1024;

/// The last requests, for tests that look at what the model is told.
#[derive(Debug, Default)]
pub(crate) struct Heard(Mutex<VecDeque<Bytes>>);

impl Heard {
    fn remember(&self, body: Bytes) {
        let mut bodies = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        bodies.push_back(body);
        while bodies.len() > MOST_REMEMBERED
            || bodies.iter().map(Bytes::len).sum::<usize>() > MOST_REMEMBERED_BYTES
        {
            bodies.pop_front();
        }
    }

    pub(crate) fn clear(&self) {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clear();
    }

    /// The bodies, oldest first; what was not JSON is shown as text.
    pub(crate) fn all(&self) -> Value {
        let bodies = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let read = |body: &Bytes| {
            serde_json::from_slice(body).unwrap_or_else(|_| json!(String::from_utf8_lossy(body)))
        };
        bodies.iter().map(read).collect()
    }
}

/// How the model misbehaves while it answers one request.
#[derive(Debug)]
struct Manners {
    pause: Duration,
    cut: bool,
    /// Where the output is cut off, and the finish reason that is told then.
    short: Option<(Short, String)>,
    repeat_call_id: bool,
    same_call_ids: bool,
    error_midstream: bool,
    junk: Option<String>,
}

/// Where an output at its token limit ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Short {
    /// Inside the arguments, which are no JSON then.
    Arguments,
    /// Before the last argument; a server closed the object.
    Keys,
    /// Inside the text.
    Text,
}

impl Manners {
    fn read(switches: &Switches) -> Self {
        let told = |name| {
            let value = switches.value(name, None)?;
            Some(value.as_str().unwrap_or("length").to_owned())
        };
        let short = [
            ("llm.finish_length", Short::Arguments),
            ("llm.cut_keys", Short::Keys),
            ("llm.cut_text", Short::Text),
        ];
        let short = short
            .into_iter()
            .find_map(|(name, short)| Some((short, told(name)?)));
        let junk = switches.value("llm.junk", None);
        Self {
            pause: millis(switches, "llm.delay_ms").unwrap_or(Duration::from_millis(25)),
            cut: switches.is_on("llm.cut", None),
            short,
            repeat_call_id: switches.is_on("llm.repeat_call_id", None),
            same_call_ids: switches.is_on("llm.same_call_ids", None),
            error_midstream: switches.is_on("llm.error_midstream", None),
            junk: junk.and_then(|kind| kind.as_str().map(ToOwned::to_owned)),
        }
    }
}

fn millis(switches: &Switches, name: &str) -> Option<Duration> {
    u64::try_from(switches.number(name, None)?)
        .ok()
        .map(Duration::from_millis)
}

pub(crate) fn routes() -> Router<Arc<App>> {
    Router::new()
        .route("/v1/models", get(models))
        .route("/v1/chat/completions", post(complete))
        .layer(DefaultBodyLimit::max(LARGEST_BODY))
}

async fn models(headers: HeaderMap) -> Response {
    if let Some(refusal) = refuse_stranger(&headers) {
        return refusal;
    }
    let model = json!({"id": NAME, "object": "model", "created": 0, "owned_by": "sandbox"});
    Json(json!({"object": "list", "data": [model]})).into_response()
}

async fn complete(State(app): State<Arc<App>>, headers: HeaderMap, body: Bytes) -> Response {
    if let Some(refusal) = refuse_stranger(&headers) {
        return refusal;
    }
    app.heard.remember(body.clone());
    let request = match Request::parse(&body) {
        Ok(request) => request,
        Err(sentence) => return error(StatusCode::BAD_REQUEST, "invalid_request_error", &sentence),
    };
    let switches = &app.switches;
    if let Some(wait) = millis(switches, "llm.first_byte_delay_ms") {
        tokio::time::sleep(wait).await;
    }
    if let Some(status) = switches.status("llm.status", None) {
        let kind = if status == StatusCode::TOO_MANY_REQUESTS {
            "requests"
        } else {
            "server_error"
        };
        let mut refusal = error(status, kind, "The sandbox was told to fail.");
        if let Some(seconds) = switches.number("llm.retry_after", None) {
            let headers = refusal.headers_mut();
            headers.insert(header::RETRY_AFTER, seconds.into());
        }
        return refusal;
    }
    if let Some(how) = switches.value("llm.quote_key", None) {
        let sent = sent_key(&headers).unwrap_or_default();
        return quote_key(how.as_str().unwrap_or("status"), sent);
    }
    let again = switches
        .is_on("llm.loop", None)
        .then(|| script::read_again(&request))
        .flatten();
    let step = again.map_or_else(
        || script::next_step(&request),
        |call| Step::Call(vec![call]),
    );
    let answer = write::Answer::new(&request, step, Manners::read(switches));
    if request.stream {
        answer.stream()
    } else {
        answer.whole()
    }
}

/// A refusal that tells its caller what they sent, as careless providers do.
fn quote_key(how: &str, sent: &str) -> Response {
    let words = format!("Incorrect API key provided: {sent}.");
    if how == "stream" {
        let event = json!({"error": {"message": words, "type": "invalid_request_error"}});
        let headers = [(header::CONTENT_TYPE, "text/event-stream")];
        return (headers, format!("data: {event}\n\n")).into_response();
    }
    error(StatusCode::UNAUTHORIZED, "invalid_request_error", &words)
}

fn sent_key(headers: &HeaderMap) -> Option<&str> {
    let sent = headers.get(header::AUTHORIZATION)?.to_str().ok()?;
    sent.strip_prefix("Bearer ")
}

fn refuse_stranger(headers: &HeaderMap) -> Option<Response> {
    let has_key = sent_key(headers).is_some_and(|key| !key.trim().is_empty());
    let why = "You didn't provide an API key.";
    (!has_key).then(|| error(StatusCode::UNAUTHORIZED, "invalid_request_error", why))
}

fn error(status: StatusCode, kind: &str, message: &str) -> Response {
    let error = json!({"message": message, "type": kind, "param": null, "code": null});
    (status, Json(json!({"error": error}))).into_response()
}
