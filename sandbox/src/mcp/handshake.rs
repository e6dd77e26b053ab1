//! 2025-11-25: `initialize` first, then requests in a session, or without one.

use std::{
    collections::HashMap,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
};

use axum::{
    http::{HeaderMap, HeaderValue, StatusCode},
    response::{IntoResponse, Response},
};
use base64::{Engine, prelude::BASE64_URL_SAFE_NO_PAD};
use rand::random;
use serde_json::{Value, json};

use super::{
    INSTRUCTIONS, Posted, calls,
    calls::{Asked, Protocol},
    refuse_media,
    rpc::{self, Message, Reply},
    server_info, text,
};

const SESSION: &str = "mcp-session-id";
const VERSION_HEADER: &str = "mcp-protocol-version";
const VERSIONS: [&str; 3] = ["2025-11-25", "2025-06-18", "2025-03-26"];
const MOST_SESSIONS: usize = 1000;

/// The server's memory besides the workspaces: who has an open session.
#[derive(Debug, Default)]
pub(crate) struct Demo {
    sessions: Mutex<HashMap<String, Session>>,
    /// Whether the next request ends all sessions.
    drop_armed: AtomicBool,
}

#[derive(Debug)]
struct Session {
    tenant: String,
    number: usize,
}

impl Demo {
    /// Sets whether the next request finds every open session gone.
    pub(crate) fn arm_drop(&self, armed: bool) {
        self.drop_armed.store(armed, Ordering::Release);
    }

    pub(crate) fn end_sessions(&self) {
        self.sessions().clear();
    }

    fn sessions(&self) -> std::sync::MutexGuard<'_, HashMap<String, Session>> {
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn open_session(&self, tenant: &str) -> String {
        let id = BASE64_URL_SAFE_NO_PAD.encode(random::<[u8; 24]>());
        let mut sessions = self.sessions();
        let newest = sessions
            .values()
            .map(|session| session.number)
            .max()
            .unwrap_or(0);
        if sessions.len() >= MOST_SESSIONS {
            sessions.retain(|_, session| session.number + MOST_SESSIONS / 2 > newest);
        }
        sessions.insert(
            id.clone(),
            Session {
                tenant: tenant.to_owned(),
                number: newest + 1,
            },
        );
        id
    }

    fn has_session(&self, id: &str, tenant: &str) -> bool {
        self.sessions()
            .get(id)
            .is_some_and(|session| session.tenant == tenant)
    }
}

pub(super) fn end(demo: &Demo, tenant: &str, headers: &HeaderMap) -> Response {
    let Some(id) = text(headers, SESSION) else {
        return rpc::refused(StatusCode::BAD_REQUEST, -32600, "the session id is missing");
    };
    if !demo.has_session(id, tenant) {
        return no_session();
    }
    demo.sessions().remove(id);
    StatusCode::NO_CONTENT.into_response()
}

pub(super) fn no_session() -> Response {
    rpc::refused(StatusCode::NOT_FOUND, -32001, "session not found")
}

pub(super) async fn post(posted: Posted<'_>, has_sessions: bool) -> Response {
    let Posted {
        app,
        tenant,
        headers,
        ..
    } = posted;
    if let Some(refusal) = refuse_media(headers).or_else(|| refuse_version(headers)) {
        return refusal;
    }
    let message = match rpc::parse(posted.body) {
        Ok(message) => message,
        Err(refusal) => return refusal.into_response(),
    };
    // Without sessions there is none to know or to lose.
    let unknown = || match text(headers, SESSION) {
        _ if !has_sessions => None,
        Some(session) if app.demo.has_session(session, tenant) => None,
        Some(_) => Some(no_session()),
        None => Some(rpc::refused(
            StatusCode::BAD_REQUEST,
            -32600,
            "the session id is missing",
        )),
    };
    let Message::Request { id, method, params } = message else {
        // A notification or an answer: there is nothing to do, but the session must be known.
        return unknown().unwrap_or_else(|| StatusCode::ACCEPTED.into_response());
    };
    let protocol = if has_sessions {
        Protocol::Sessions
    } else {
        Protocol::NoSessions
    };
    let asked = Asked::new(posted, protocol, id, method, params);
    if asked.method == "initialize" {
        let mut response = asked.answer(Reply::Result(initialize(&asked.params)));
        if has_sessions && let Ok(session) = HeaderValue::from_str(&app.demo.open_session(tenant)) {
            response.headers_mut().insert(SESSION, session);
        }
        return response;
    }
    if let Some(refusal) = calls::reject(&asked) {
        return refusal;
    }
    if has_sessions
        && app.demo.drop_armed.load(Ordering::Acquire)
        && app.switches.is_on("mcp.demo.drop_session", asked.tool())
    {
        app.demo.arm_drop(false);
        app.demo.end_sessions();
    }
    if let Some(refusal) = unknown() {
        return refusal;
    }
    match asked.method.as_str() {
        "ping" => asked.answer(Reply::Result(json!({}))),
        "tools/list" | "tools/call" => calls::serve(&asked).await,
        method => asked.answer(Reply::Error(-32601, format!("there is no method {method}"))),
    }
}

fn refuse_version(headers: &HeaderMap) -> Option<Response> {
    let version = text(headers, VERSION_HEADER)?;
    let why = "this protocol version is not supported";
    let refused = || rpc::refused(StatusCode::BAD_REQUEST, -32600, why);
    (!VERSIONS.contains(&version)).then(refused)
}

fn initialize(params: &Value) -> Value {
    let asked = params["protocolVersion"].as_str().unwrap_or_default();
    let version = VERSIONS
        .into_iter()
        .find(|known| *known == asked)
        .unwrap_or(VERSIONS[0]);
    json!({
        "protocolVersion": version,
        "capabilities": {"tools": {"listChanged": false}},
        "serverInfo": server_info(),
        "instructions": INSTRUCTIONS,
    })
}
