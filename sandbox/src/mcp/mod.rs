//! The demo workspace as an MCP server: streamable HTTP, protocol 2025-11-25, with sessions.

mod rpc;
mod tools;
pub(crate) mod workspace;

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use axum::{
    Router,
    body::Bytes,
    extract::{ConnectInfo, DefaultBodyLimit, Path, State},
    http::{HeaderMap, HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
    routing::any,
};
use base64::{Engine, prelude::BASE64_URL_SAFE_NO_PAD};
use rand::random;
use serde_json::{Value, json};

use crate::{App, wire::Connection};
use rpc::{Message, Reply};
use tools::BadCall;

const SESSION: &str = "mcp-session-id";
const VERSION_HEADER: &str = "mcp-protocol-version";
const VERSIONS: [&str; 3] = ["2025-11-25", "2025-06-18", "2025-03-26"];
const MOST_SESSIONS: usize = 1000;
const LARGEST_BODY: usize = 1024 * 1024;
const LONGEST_HANG: Duration = Duration::from_secs(600);
const USUAL_OVERSIZE: i64 = 20 * 1024 * 1024;

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
    match method.as_str() {
        "POST" => post(&app, &tenant, &connection, &headers, &body).await,
        "DELETE" => end(&app.demo, &tenant, &headers),
        _ => (
            StatusCode::METHOD_NOT_ALLOWED,
            [(header::ALLOW, "POST, DELETE")],
        )
            .into_response(),
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

fn end(demo: &Demo, tenant: &str, headers: &HeaderMap) -> Response {
    let Some(id) = text(headers, SESSION) else {
        return rpc::refused(StatusCode::BAD_REQUEST, -32600, "the session id is missing");
    };
    if !demo.has_session(id, tenant) {
        return no_session();
    }
    demo.sessions().remove(id);
    StatusCode::NO_CONTENT.into_response()
}

fn no_session() -> Response {
    rpc::refused(StatusCode::NOT_FOUND, -32001, "session not found")
}

fn text<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name).and_then(|value| value.to_str().ok())
}

async fn post(
    app: &App,
    tenant: &str,
    connection: &Connection,
    headers: &HeaderMap,
    body: &Bytes,
) -> Response {
    if let Some(refusal) = refuse_headers(headers) {
        return refusal;
    }
    let message = match rpc::parse(body) {
        Ok(message) => message,
        Err(refusal) => return refusal.into_response(),
    };
    let Message::Request { id, method, params } = message else {
        // A notification or an answer: there is nothing to do, but the session must be known.
        return match text(headers, SESSION) {
            Some(session) if app.demo.has_session(session, tenant) => {
                StatusCode::ACCEPTED.into_response()
            }
            Some(_) => no_session(),
            None => rpc::refused(StatusCode::BAD_REQUEST, -32600, "the session id is missing"),
        };
    };
    let sse = app.switches.is_on("mcp.demo.sse", None);
    if method == "initialize" {
        let session = app.demo.open_session(tenant);
        let mut response = Reply::Result(initialize(&params)).respond(&id, sse);
        if let Ok(session) = HeaderValue::from_str(&session) {
            response.headers_mut().insert(SESSION, session);
        }
        return response;
    }
    let tool = (method == "tools/call").then(|| params["name"].as_str().unwrap_or_default());
    if let Some(tool) = tool
        && let Some(status) = app.switches.status("mcp.demo.reject_with", Some(tool))
    {
        return reject(status);
    }
    if app.demo.drop_armed.load(Ordering::Acquire)
        && app.switches.is_on("mcp.demo.drop_session", tool)
    {
        app.demo.arm_drop(false);
        app.demo.end_sessions();
    }
    match text(headers, SESSION) {
        Some(session) if app.demo.has_session(session, tenant) => {}
        Some(_) => return no_session(),
        None => {
            return rpc::refused(StatusCode::BAD_REQUEST, -32600, "the session id is missing");
        }
    }
    if let Some(quoted) = quote(app, headers, &method, tool) {
        return match quoted {
            Quoted::Reply(reply) => reply.respond(&id, sse),
            Quoted::Status(response) => response,
        };
    }
    match method.as_str() {
        "ping" => Reply::Result(json!({})).respond(&id, sse),
        "tools/list" => list(app, &params).respond(&id, sse),
        "tools/call" => {
            let name = tool.unwrap_or_default();
            call(
                app,
                tenant,
                connection,
                name,
                &params["arguments"],
                &id,
                sse,
            )
            .await
        }
        _ => Reply::Error(-32601, format!("there is no method {method}")).respond(&id, sse),
    }
}

enum Quoted {
    Reply(Reply),
    Status(Response),
}

/// An answer that tells its caller what they sent, as careless servers do.
fn quote(app: &App, headers: &HeaderMap, method: &str, tool: Option<&str>) -> Option<Quoted> {
    let how = app.switches.value("mcp.demo.quote_authorization", tool)?;
    let how = how.as_str().unwrap_or("result");
    let sent = text(headers, "authorization").unwrap_or_default();
    let words = format!("You sent {sent} with this request.");
    match (method, how) {
        ("tools/list", "list") => Some(Quoted::Reply(Reply::Error(-32603, words))),
        ("tools/call", "result") => {
            let result = json!({"ok": false, "headers": {"authorization": sent}, "said": words});
            Some(Quoted::Reply(rpc::tool_result(&result)))
        }
        ("tools/call", "is_error") => Some(Quoted::Reply(rpc::tool_error(&words))),
        ("tools/call", "rpc_error") => Some(Quoted::Reply(Reply::Error(-32603, words))),
        ("tools/call", "status") => Some(Quoted::Status(
            (StatusCode::BAD_GATEWAY, words).into_response(),
        )),
        _ => None,
    }
}

fn refuse_headers(headers: &HeaderMap) -> Option<Response> {
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
    if text(headers, VERSION_HEADER).is_some_and(|version| !VERSIONS.contains(&version)) {
        let why = "this protocol version is not supported";
        return Some(rpc::refused(StatusCode::BAD_REQUEST, -32600, why));
    }
    None
}

fn reject(status: StatusCode) -> Response {
    match status {
        StatusCode::UNAUTHORIZED => challenge("the token was revoked"),
        StatusCode::TOO_MANY_REQUESTS => {
            (status, [(header::RETRY_AFTER, "1")], "too many requests").into_response()
        }
        _ => (status, "rejected").into_response(),
    }
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
        "serverInfo": {
            "name": "demo-workspace",
            "title": "Demo workspace",
            "version": env!("CARGO_PKG_VERSION"),
        },
        "instructions": "A school's team chat. Channels start with #.",
    })
}

fn list(app: &App, params: &Value) -> Reply {
    // The switch may name the tool to change; the other tools ask about themselves.
    let names = ["post_message", "list_messages", "list_channels"];
    let change = names.into_iter().find_map(|tool| {
        Some((
            app.switches
                .value("mcp.demo.changed_definition", Some(tool))?,
            tool,
        ))
    });
    let all = match change {
        Some((value, tool)) => tools::changed(value.as_str().unwrap_or("description"), tool),
        None => tools::definitions(),
    };
    let start = match &params["cursor"] {
        Value::Null => Some(0),
        Value::String(cursor) => cursor.strip_prefix("from-").and_then(|n| n.parse().ok()),
        _ => None,
    };
    let Some(start) = start.filter(|start| *start < all.len()) else {
        return Reply::Error(-32602, "the cursor is not valid".to_owned());
    };
    let size = app.switches.number("mcp.demo.page_size", None);
    let size = size
        .and_then(|size| usize::try_from(size).ok())
        .unwrap_or(all.len());
    let end = all.len().min(start + size);
    let mut result = json!({"tools": all[start..end]});
    if end < all.len() {
        result["nextCursor"] = json!(format!("from-{end}"));
    }
    Reply::Result(result)
}

/// A text of which every place says where it is.
fn numbered_lines(size: usize) -> String {
    const LINE: usize = 16;
    let mut text: String = (0..size.div_ceil(LINE))
        .map(|n| format!("line {n:010}\n"))
        .collect();
    text.truncate(size);
    text
}

/// One tool call. Everything up to the commit happens without waiting, so a client that goes away
/// cannot leave half a call behind.
async fn call(
    app: &App,
    tenant: &str,
    connection: &Connection,
    tool: &str,
    arguments: &Value,
    id: &Value,
    sse: bool,
) -> Response {
    let switches = &app.switches;
    let on = |name: &str| switches.is_on(&format!("mcp.demo.{name}"), Some(tool));
    let number = |name: &str| switches.number(&format!("mcp.demo.{name}"), Some(tool));
    if let Some(code) = number("rpc_error") {
        return Reply::Error(code, "the sandbox was told to fail".to_owned()).respond(id, sse);
    }
    if on("hang") {
        tokio::time::sleep(LONGEST_HANG).await;
        match connection.cut().await {}
    }
    if on("is_error") {
        return rpc::tool_error("The workspace is closed for maintenance.").respond(id, sse);
    }
    let nothing = json!({});
    let arguments = if arguments.is_null() {
        &nothing
    } else {
        arguments
    };
    let action = match tools::action(tool, arguments) {
        Ok(action) => action,
        Err(BadCall::UnknownTool) => {
            return Reply::Error(-32602, format!("there is no tool {tool}")).respond(id, sse);
        }
        Err(BadCall::BadArguments(sentence)) => return rpc::tool_error(&sentence).respond(id, sse),
    };
    let committed = app
        .saved
        .change(|data| data.workspaces.commit(tenant, tool, arguments, &action));
    let result = match committed {
        Ok(result) => result,
        Err(sentence) => return rpc::tool_error(&sentence).respond(id, sse),
    };
    if let Some(delay) = number("delay_ms").and_then(|ms| u64::try_from(ms).ok()) {
        tokio::time::sleep(Duration::from_millis(delay)).await;
    }
    if on("drop_reply_after_commit") {
        match connection.cut().await {}
    }
    if let Some(status) = switches.status("mcp.demo.status_after_commit", Some(tool)) {
        return match status {
            StatusCode::NOT_FOUND => no_session(),
            status => (status, "the server failed").into_response(),
        };
    }
    if let Some(size) = switches.value("mcp.demo.oversized_result", Some(tool)) {
        let size = usize::try_from(size.as_i64().unwrap_or(USUAL_OVERSIZE)).unwrap_or_default();
        let content = json!([{"type": "text", "text": numbered_lines(size)}]);
        return Reply::Result(json!({"content": content, "isError": false})).respond(id, sse);
    }
    rpc::tool_result(&result).respond(id, sse)
}
