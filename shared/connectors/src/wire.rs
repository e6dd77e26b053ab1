//! The seam: every byte that goes to a tool's server is sent here.
//!
//! `rmcp` keeps the protocol (handshake, request ids, answers to the server's own requests); this
//! type is its only way out. It sends nothing on a URL or with a token other than its own, no request
//! of another kind than is listed here, and a `tools/call` only with a [`Shot`] that allows exactly
//! that. Headers, and `_meta` inside a message, are written here: what `rmcp` says of them does not
//! leave, except for the version that the server chose in a handshake.

use std::borrow::Cow;
use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures::stream::BoxStream;
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use reqwest::Url;
use rmcp::model::{ClientJsonRpcMessage, GetExtensions, ServerJsonRpcMessage};
use rmcp::transport::streamable_http_client::{
    SseError, StreamableHttpClient, StreamableHttpError, StreamableHttpPostResponse,
    StreamableHttpResponseLimits,
};
use secrecy::{ExposeSecret, SecretString};
use serde_json::{Value, json};
use sse_stream::Sse;
use toshi_core::{Era, TOOL_TIMEOUT_MS, WireFault};
use toshi_failpoints::{Point, reach};

use crate::headers::{self, VERSION};
use crate::reply::{Media, answer_to, media, send_fault, status_fault, watched_events, whole_body};
use crate::shot::{Fault, Refusal, Shot};

pub(crate) const OWN_NAME: &str = "toshi";
pub(crate) const OWN_VERSION: &str = env!("CARGO_PKG_VERSION");
const STATELESS: &str = "2026-07-28";

/// Initialize, discover and one page of a list.
pub(crate) const QUESTION_WITHIN: Duration = Duration::from_secs(10);
/// Notifications, and answers to the server's own requests.
pub(crate) const CONTROL_WITHIN: Duration = Duration::from_secs(3);
/// Ending a session is a courtesy.
const GOODBYE_WITHIN: Duration = Duration::from_secs(1);
/// The caller's own limit is the one that counts; this one holds if the caller is gone.
const CALL_GUARD: Duration =
    Duration::from_millis(TOOL_TIMEOUT_MS.unsigned_abs()).saturating_add(Duration::from_secs(1));

const SESSION: HeaderName = HeaderName::from_static("mcp-session-id");
const SESSION_ID_MAX: usize = 512;
const ACCEPT: HeaderValue = HeaderValue::from_static("application/json, text/event-stream");
const JSON: HeaderValue = HeaderValue::from_static("application/json");

/// What `rmcp` is told; the facts are in the shot.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct Refused(Cow<'static, str>);

type RmcpError = StreamableHttpError<Refused>;

fn refused(why: impl Into<Cow<'static, str>>) -> RmcpError {
    StreamableHttpError::Client(Refused(why.into()))
}

/// One session's way out. A copy is the same way.
#[derive(Clone)]
pub(crate) struct Wire(Arc<Inner>);

struct Inner {
    client: reqwest::Client,
    endpoint: Url,
    token: SecretString,
    era: Era,
    /// Why the handshake failed. `rmcp` builds these messages, so no shot travels with them.
    handshake: Mutex<Option<Fault>>,
}

impl fmt::Debug for Wire {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Wire")
            .field("endpoint", &self.0.endpoint.as_str())
            .finish_non_exhaustive()
    }
}

/// What kind of message is about to be sent.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Initialize,
    Discover,
    List,
    Call,
    /// Notifications, and answers to the server's requests: nothing comes back.
    Control,
}

impl Kind {
    /// By the bytes, not by the type that they were made from. `None` is never sent.
    fn of(message: &Value, era: Era) -> Option<Self> {
        let has_id = message.get("id").is_some();
        let method = message.get("method").and_then(Value::as_str);
        match (era, method) {
            (_, Some("tools/list")) if has_id => Some(Self::List),
            (_, Some("tools/call")) if has_id => Some(Self::Call),
            (Era::Stateless, Some("server/discover")) if has_id => Some(Self::Discover),
            // Without a handshake there is nothing to notify of, and a server may ask nothing.
            (Era::Stateless, _) => None,
            (Era::Handshake, Some("initialize")) if has_id => Some(Self::Initialize),
            (Era::Handshake, Some("notifications/initialized" | "notifications/cancelled"))
                if !has_id =>
            {
                Some(Self::Control)
            }
            (Era::Handshake, Some(_)) => None,
            (Era::Handshake, None) => {
                let answers = message.get("result").is_some() || message.get("error").is_some();
                answers.then_some(Self::Control)
            }
        }
    }

    fn within(self) -> Duration {
        match self {
            Self::Initialize | Self::Discover | Self::List => QUESTION_WITHIN,
            Self::Call => CALL_GUARD,
            Self::Control => CONTROL_WITHIN,
        }
    }
}

enum Arrived {
    Nothing,
    Json(Vec<u8>, Option<String>),
    Events(reqwest::Response, Option<String>),
}

impl Wire {
    pub(crate) fn new(
        client: reqwest::Client,
        endpoint: Url,
        token: SecretString,
        era: Era,
    ) -> Self {
        Self(Arc::new(Inner {
            client,
            endpoint,
            token,
            era,
            handshake: Mutex::new(None),
        }))
    }

    pub(crate) fn endpoint(&self) -> &Url {
        &self.0.endpoint
    }

    /// Why the handshake failed, if the seam saw it fail.
    pub(crate) fn handshake_fault(&self) -> Option<Fault> {
        self.0
            .handshake
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take()
    }

    fn authorization(&self) -> Result<HeaderValue, WireFault> {
        let mut value =
            HeaderValue::try_from(format!("Bearer {}", self.0.token.expose_secret()))
                .map_err(|_| WireFault::NotSent("the stored token is not usable".to_owned()))?;
        value.set_sensitive(true);
        Ok(value)
    }

    async fn post(
        &self,
        message: ClientJsonRpcMessage,
        session: Option<Arc<str>>,
        headers: HashMap<HeaderName, HeaderValue>,
    ) -> Result<StreamableHttpPostResponse, RmcpError> {
        let era = self.0.era;
        let shot = shot_in(&message);
        let mut message = serde_json::to_value(&message).map_err(RmcpError::Deserialize)?;
        write_meta(&mut message, era);
        let body = serde_json::to_vec(&message).map_err(RmcpError::Deserialize)?;
        let sent: Value = serde_json::from_slice(&body).map_err(RmcpError::Deserialize)?;
        let Some(kind) = Kind::of(&sent, era) else {
            return Err(refused("this kind of request is never sent"));
        };
        let session = session.filter(|_| era == Era::Handshake);
        let has_session = session.is_some();
        let headers = match era {
            Era::Handshake => Ok(chosen_version(&headers)),
            Era::Stateless => {
                let repeated = shot.as_ref().map_or(&[][..], Shot::repeated);
                headers::repeating(&sent, STATELESS, repeated)
            }
        };
        let headers = headers.map_err(|why| {
            let fault = WireFault::NotSent(why.to_owned());
            self.fail(shot.as_ref(), kind, fault.into())
        })?;
        let request = self
            .0
            .client
            .post(self.0.endpoint.clone())
            .header(header::ACCEPT, ACCEPT)
            .header(header::CONTENT_TYPE, JSON)
            .headers(headers)
            .timeout(kind.within())
            .body(body);
        let request = match session {
            Some(id) => request.header(SESSION, id.as_ref()),
            None => request,
        };
        let request = self
            .authorization()
            .and_then(|token| {
                let request = request.header(header::AUTHORIZATION, token).build();
                request.map_err(|error| send_fault(&error))
            })
            .map_err(|fault| self.fail(shot.as_ref(), kind, fault.into()))?;
        // Nothing may stand between this check and the send.
        match (&shot, kind) {
            (Some(shot), Kind::Discover | Kind::List | Kind::Call) => {
                match shot.spend(&sent, kind == Kind::Call) {
                    Ok(()) => {}
                    Err(Refusal::Never(why)) => {
                        let fault = WireFault::NotSent(why.to_owned());
                        return Err(self.fail(Some(shot), kind, fault.into()));
                    }
                    Err(Refusal::Spent) => return Err(refused("the request was sent before")),
                }
            }
            (None, Kind::Initialize | Kind::Control) => {}
            (None, Kind::Discover | Kind::List | Kind::Call)
            | (Some(_), Kind::Initialize | Kind::Control) => {
                return Err(refused("the request has no permit"));
            }
        }
        let exchange = self.exchange(request, kind, has_session);
        let arrived = match &shot {
            // A shot that is settled while it is under way was given up: the request is dropped.
            Some(shot) => tokio::select! {
                arrived = exchange => arrived,
                () = shot.settled() => return Err(refused("the caller gave up")),
            },
            None => exchange.await,
        };
        match arrived {
            Ok(Arrived::Nothing) => Ok(StreamableHttpPostResponse::Accepted),
            Ok(Arrived::Events(response, session)) => {
                let id = sent.get("id").cloned().unwrap_or_default();
                let events = watched_events(response, shot, id);
                Ok(StreamableHttpPostResponse::Sse(events, session))
            }
            Ok(Arrived::Json(body, session)) => {
                let result = read_json(&body, &sent)
                    .map_err(|fault| self.fail(shot.as_ref(), kind, fault.into()))?;
                if let Some(shot) = &shot {
                    shot.settle(Ok(result));
                }
                let message: ServerJsonRpcMessage =
                    serde_json::from_slice(&body).map_err(RmcpError::Deserialize)?;
                Ok(StreamableHttpPostResponse::Json(message, session))
            }
            Err(fault) => Err(self.fail(shot.as_ref(), kind, fault)),
        }
    }

    /// Records a fault where it belongs and gives back what `rmcp` is told.
    fn fail(&self, shot: Option<&Shot>, kind: Kind, fault: Fault) -> RmcpError {
        // The library logs what it is told: nothing of the server's words.
        let told = refused("the request failed");
        match (shot, kind) {
            (Some(shot), _) => shot.settle(Err(fault)),
            // The first of these is the reason; a later goodbye may fail for another.
            (None, Kind::Initialize | Kind::Control) => {
                let mut first = self
                    .0
                    .handshake
                    .lock()
                    .unwrap_or_else(PoisonError::into_inner);
                first.get_or_insert(fault);
            }
            (None, Kind::Discover | Kind::List | Kind::Call) => {}
        }
        told
    }

    async fn exchange(
        &self,
        request: reqwest::Request,
        kind: Kind,
        has_session: bool,
    ) -> Result<Arrived, Fault> {
        let response = self
            .0
            .client
            .execute(request)
            .await
            .map_err(|error| Fault::from(send_fault(&error)))?;
        if kind == Kind::Call {
            reach(Point::SendAfterBytes);
        }
        let status = response.status();
        if !status.is_success() {
            return Err(status_fault(response, has_session).await);
        }
        if kind == Kind::Control {
            return Ok(Arrived::Nothing);
        }
        let session = response
            .headers()
            .get(SESSION)
            .filter(|id| self.0.era == Era::Handshake && id.len() <= SESSION_ID_MAX)
            .and_then(|id| id.to_str().ok())
            .map(str::to_owned);
        match media(response.headers()) {
            Media::Json => {
                let body = whole_body(response)
                    .await
                    .map_err(|fault| Fault::from(WireFault::from(fault)))?;
                Ok(Arrived::Json(body, session))
            }
            Media::Events => Ok(Arrived::Events(response, session)),
            // A request needs its answer here: there is no other stream on which it could come.
            Media::Other if response.content_length() == Some(0) => Err(WireFault::Cut.into()),
            Media::Other => {
                Err(WireFault::Other("the answer is neither JSON nor events".to_owned()).into())
            }
        }
    }
}

/// Replaces what the library put into a request's `_meta` by what this client says of itself: in the
/// older protocol nothing, where the handshake has said it.
fn write_meta(message: &mut Value, era: Era) {
    let is_request = message.get("id").is_some() && message.get("method").is_some();
    let Some(message) = message.as_object_mut().filter(|_| is_request) else {
        return;
    };
    match era {
        Era::Handshake => {
            if let Some(Value::Object(params)) = message.get_mut("params") {
                params.remove("_meta");
            }
        }
        Era::Stateless => {
            let params = message.entry("params").or_insert_with(|| json!({}));
            if let Value::Object(params) = params {
                let meta = json!({
                    "io.modelcontextprotocol/protocolVersion": STATELESS,
                    "io.modelcontextprotocol/clientInfo": {
                        "name": OWN_NAME,
                        "version": OWN_VERSION,
                    },
                    "io.modelcontextprotocol/clientCapabilities": {},
                });
                params.insert("_meta".to_owned(), meta);
            }
        }
    }
}

/// Of the library's headers, the version that the server chose.
fn chosen_version(headers: &HashMap<HeaderName, HeaderValue>) -> HeaderMap {
    let version = headers.get(&VERSION).cloned();
    version
        .map(|version| (VERSION, version))
        .into_iter()
        .collect()
}

fn read_json(body: &[u8], sent: &Value) -> Result<Value, WireFault> {
    if body.is_empty() {
        return Err(WireFault::Cut);
    }
    let message: Value = serde_json::from_slice(body)
        .map_err(|_| WireFault::Other("the answer is not JSON".to_owned()))?;
    let id = sent.get("id").unwrap_or(&Value::Null);
    answer_to(&message, id, StatusCode::OK.as_u16()).unwrap_or_else(|| {
        Err(WireFault::Other(
            "the answer is to another request".to_owned(),
        ))
    })
}

fn shot_in(message: &ClientJsonRpcMessage) -> Option<Shot> {
    match message {
        ClientJsonRpcMessage::Request(request) => request.request.extensions().get().cloned(),
        ClientJsonRpcMessage::Response(_)
        | ClientJsonRpcMessage::Notification(_)
        | ClientJsonRpcMessage::Error(_) => None,
    }
}

/// The token is ours, so what `rmcp` hands over for it is always empty; the URL too is our own.
impl StreamableHttpClient for Wire {
    type Error = Refused;

    async fn post_message(
        &self,
        _uri: Arc<str>,
        message: ClientJsonRpcMessage,
        session_id: Option<Arc<str>>,
        _auth_header: Option<String>,
        custom_headers: HashMap<HeaderName, HeaderValue>,
    ) -> Result<StreamableHttpPostResponse, RmcpError> {
        self.post(message, session_id, custom_headers).await
    }

    /// The bounds are this crate's own, so the transport's are not needed.
    async fn post_message_with_response_limits(
        &self,
        _uri: Arc<str>,
        message: ClientJsonRpcMessage,
        session_id: Option<Arc<str>>,
        _auth_header: Option<String>,
        custom_headers: HashMap<HeaderName, HeaderValue>,
        _limits: StreamableHttpResponseLimits,
    ) -> Result<StreamableHttpPostResponse, RmcpError> {
        self.post(message, session_id, custom_headers).await
    }

    async fn delete_session(
        &self,
        _uri: Arc<str>,
        session_id: Arc<str>,
        _auth_header: Option<String>,
        custom_headers: HashMap<HeaderName, HeaderValue>,
    ) -> Result<(), RmcpError> {
        let authorization = self
            .authorization()
            .map_err(|_| refused("no usable token"))?;
        let request = self
            .0
            .client
            .delete(self.0.endpoint.clone())
            .headers(chosen_version(&custom_headers))
            .header(SESSION, session_id.as_ref())
            .header(header::AUTHORIZATION, authorization)
            .timeout(GOODBYE_WITHIN);
        match request.send().await {
            Ok(_) => Ok(()),
            Err(_) => Err(StreamableHttpError::ServerDoesNotSupportDeleteSession),
        }
    }

    /// No stream is ever opened besides a request's own: not for the server's notices, which nothing
    /// here waits for, and not to resume an answer that was cut off, which settles as it is.
    async fn get_stream(
        &self,
        _uri: Arc<str>,
        _session_id: Option<Arc<str>>,
        _last_event_id: Option<String>,
        _auth_header: Option<String>,
        _custom_headers: HashMap<HeaderName, HeaderValue>,
    ) -> Result<BoxStream<'static, Result<Sse, SseError>>, RmcpError> {
        Err(StreamableHttpError::ServerDoesNotSupportSse)
    }
}
