//! The demo workspace as an MCP server over streamable HTTP, in both protocols: 2025-11-25, with
//! sessions or without, and the stateless 2026-07-28. A switch says which.

mod calls;
mod handshake;
mod rpc;
mod stateless;
mod tools;
pub(crate) mod workspace;

use std::sync::Arc;

use axum::{
    Router,
    body::Bytes,
    extract::{ConnectInfo, DefaultBodyLimit, Path, State},
    http::{HeaderMap, HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
    routing::any,
};
use serde_json::Value;

use crate::{App, switches::Switches, wire::Connection};

pub(crate) use handshake::Demo;

const LARGEST_BODY: usize = 1024 * 1024;

/// What the server speaks, as the switch `mcp.demo.protocol` names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Speaks {
    Sessions,
    NoSessions,
    Stateless,
    /// Stateless to who asks so, with sessions to others.
    Both,
}

impl Speaks {
    fn by(switches: &Switches) -> Self {
        match switches.value("mcp.demo.protocol", None) {
            Some(word) if word == "2025-11-25-stateless" => Self::NoSessions,
            Some(word) if word == "2026-07-28" => Self::Stateless,
            Some(word) if word == "both" => Self::Both,
            _ => Self::Sessions,
        }
    }
}

/// A POST of one school.
#[derive(Debug, Clone, Copy)]
struct Posted<'a> {
    app: &'a App,
    tenant: &'a str,
    connection: &'a Connection,
    headers: &'a HeaderMap,
    body: &'a [u8],
}

pub(crate) fn routes() -> Router<Arc<App>> {
    Router::new()
        .route("/demo/{tenant}", any(serve))
        .layer(DefaultBodyLimit::max(LARGEST_BODY))
}

async fn serve(
    State(app): State<Arc<App>>,
    Path(tenant): Path<String>,
    ConnectInfo(connection): ConnectInfo<Connection>,
    method: axum::http::Method,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    if !is_tenant(&tenant) {
        return (StatusCode::NOT_FOUND, "no such workspace").into_response();
    }
    if !is_authorized(&headers, &tenant) {
        return challenge("the token is missing or wrong");
    }
    let speaks = Speaks::by(&app.switches);
    let has_sessions = matches!(speaks, Speaks::Sessions | Speaks::Both);
    let posted = Posted {
        app: &app,
        tenant: &tenant,
        connection: &connection,
        headers: &headers,
        body: &body,
    };
    match method.as_str() {
        "POST" if speaks == Speaks::Stateless => stateless::post(posted).await,
        "POST" if speaks == Speaks::Both && stateless::is_asked(&body) => {
            stateless::post(posted).await
        }
        "POST" => handshake::post(posted, has_sessions).await,
        "DELETE" if has_sessions => handshake::end(&app.demo, &tenant, &headers),
        _ => {
            let allowed = if has_sessions { "POST, DELETE" } else { "POST" };
            (StatusCode::METHOD_NOT_ALLOWED, [(header::ALLOW, allowed)]).into_response()
        }
    }
}

fn is_tenant(tenant: &str) -> bool {
    (1..=64).contains(&tenant.len())
        && tenant
            .bytes()
            .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-')
}

fn is_authorized(headers: &HeaderMap, tenant: &str) -> bool {
    let presented = headers
        .get(header::AUTHORIZATION)
        .and_then(|value| value.to_str().ok());
    let token = presented.and_then(|value| {
        let (scheme, token) = value.split_once(' ')?;
        scheme.eq_ignore_ascii_case("bearer").then_some(token)
    });
    token == Some(format!("demo-{tenant}-token").as_str())
}

fn challenge(description: &str) -> Response {
    let value = format!(
        "Bearer realm=\"demo\", error=\"invalid_token\", error_description=\"{description}\""
    );
    let mut response = (StatusCode::UNAUTHORIZED, "unauthorized").into_response();
    if let Ok(value) = HeaderValue::from_str(&value) {
        response
            .headers_mut()
            .insert(header::WWW_AUTHENTICATE, value);
    }
    response
}

fn text<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name).and_then(|value| value.to_str().ok())
}

/// What every POST must say of itself, in both protocols.
fn refuse_media(headers: &HeaderMap) -> Option<Response> {
    let accept = text(headers, "accept").unwrap_or_default();
    let takes = |kind: &str| accept.contains(kind) || accept.contains("*/*");
    if !takes("application/json") || !takes("text/event-stream") {
        let why = "the client must accept application/json and text/event-stream";
        return Some(rpc::refused(StatusCode::NOT_ACCEPTABLE, -32600, why));
    }
    if !text(headers, "content-type").is_some_and(|kind| kind.starts_with("application/json")) {
        let why = "the content type must be application/json";
        return Some(rpc::refused(
            StatusCode::UNSUPPORTED_MEDIA_TYPE,
            -32600,
            why,
        ));
    }
    None
}

/// Who the server is, as both protocols tell it.
fn server_info() -> Value {
    serde_json::json!({
        "name": "demo-workspace",
        "title": "Demo workspace",
        "version": env!("CARGO_PKG_VERSION"),
    })
}

const INSTRUCTIONS: &str = "A school's team chat. Channels start with #.";
