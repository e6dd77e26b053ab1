//! The list and the calls of the demo workspace, the same in both protocols, with their switches.

use std::time::Duration;

use axum::{
    http::{HeaderMap, StatusCode, header},
    response::{IntoResponse, Response},
};
use serde_json::{Value, json};

use super::{
    Posted, challenge, handshake,
    rpc::{self, Reply},
    server_info, text,
    tools::{self, BadCall},
};
use crate::{App, wire::Connection};

const LONGEST_HANG: Duration = Duration::from_secs(600);
const USUAL_OVERSIZE: i64 = 20 * 1024 * 1024;
/// How long lists of the stateless protocol claim to be fresh. Who believes it misses a change.
const FRESH_MS: u64 = 300_000;

/// In which protocol a request came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Protocol {
    Sessions,
    NoSessions,
    Stateless,
}

/// One request, whichever protocol it came in.
#[derive(Debug)]
pub(super) struct Asked<'a> {
    pub(super) app: &'a App,
    tenant: &'a str,
    connection: &'a Connection,
    headers: &'a HeaderMap,
    protocol: Protocol,
    id: Value,
    pub(super) method: String,
    pub(super) params: Value,
    sse: bool,
}

impl<'a> Asked<'a> {
    pub(super) fn new(
        posted: Posted<'a>,
        protocol: Protocol,
        id: Value,
        method: String,
        params: Value,
    ) -> Self {
        Self {
            app: posted.app,
            tenant: posted.tenant,
            connection: posted.connection,
            headers: posted.headers,
            protocol,
            id,
            method,
            params,
            sse: posted.app.switches.is_on("mcp.demo.sse", None),
        }
    }

    /// The called tool; `None` for other requests.
    pub(super) fn tool(&self) -> Option<&str> {
        (self.method == "tools/call").then(|| self.params["name"].as_str().unwrap_or_default())
    }

    pub(super) fn answer(&self, mut reply: Reply) -> Response {
        if let (Protocol::Stateless, Reply::Result(result)) = (self.protocol, &mut reply) {
            if result["resultType"].is_null() {
                result["resultType"] = json!("complete");
            }
            result["_meta"] = json!({"io.modelcontextprotocol/serverInfo": server_info()});
            if self.method != "tools/call" {
                result["ttlMs"] = json!(FRESH_MS);
                result["cacheScope"] = json!("private");
            }
        }
        reply.respond(&self.id, self.sse)
    }

    /// An HTTP error whose body is a JSON-RPC error to this request.
    pub(super) fn refuse(&self, status: StatusCode, code: i64, message: &str) -> Response {
        self.refuse_with(status, code, message, &Value::Null)
    }

    pub(super) fn refuse_with(
        &self,
        status: StatusCode,
        code: i64,
        message: &str,
        data: &Value,
    ) -> Response {
        rpc::refused_request(status, &self.id, code, message, data)
    }
}

/// The refusals of calls that come before anything else is looked at.
pub(super) fn reject(asked: &Asked<'_>) -> Option<Response> {
    let tool = asked.tool()?;
    let switches = &asked.app.switches;
    if let Some(status) = switches.status("mcp.demo.reject_with", Some(tool)) {
        return Some(reject_with(status));
    }
    let named = switches.value("mcp.demo.refuse_as", Some(tool))?;
    let bad = StatusCode::BAD_REQUEST;
    let (status, code, message) = match named.as_str()? {
        "header_mismatch" => (bad, -32020, "a header does not match the body"),
        "missing_capability" => (bad, -32021, "a capability of the client is missing"),
        "unsupported_version" => (bad, -32022, "this protocol version is not supported"),
        _ => (StatusCode::NOT_FOUND, -32601, "there is no such method"),
    };
    Some(asked.refuse(status, code, message))
}

fn reject_with(status: StatusCode) -> Response {
    match status {
        StatusCode::UNAUTHORIZED => challenge("the token was revoked"),
        StatusCode::TOO_MANY_REQUESTS => {
            (status, [(header::RETRY_AFTER, "1")], "too many requests").into_response()
        }
        _ => (status, "rejected").into_response(),
    }
}

/// Lists the tools, or calls one.
pub(super) async fn serve(asked: &Asked<'_>) -> Response {
    if let Some(quoted) = quote(asked) {
        return match quoted {
            Quoted::Reply(reply) => asked.answer(reply),
            Quoted::Status(response) => response,
        };
    }
    match asked.tool() {
        Some(tool) => call(asked, tool).await,
        None => asked.answer(list(asked.app, &asked.params)),
    }
}

enum Quoted {
    Reply(Reply),
    Status(Response),
}

/// An answer that tells its caller what they sent, as careless servers do.
fn quote(asked: &Asked<'_>) -> Option<Quoted> {
    let switches = &asked.app.switches;
    let how = switches.value("mcp.demo.quote_authorization", asked.tool())?;
    let how = how.as_str().unwrap_or("result");
    let sent = text(asked.headers, "authorization").unwrap_or_default();
    let words = format!("You sent {sent} with this request.");
    match (asked.method.as_str(), how) {
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

/// The definitions as they are listed now.
pub(super) fn listed(app: &App) -> Vec<Value> {
    // The switch may name the tool to change; the other tools ask about themselves.
    let names = ["post_message", "list_messages", "list_channels"];
    let change = names.into_iter().find_map(|tool| {
        Some((
            app.switches
                .value("mcp.demo.changed_definition", Some(tool))?,
            tool,
        ))
    });
    match change {
        Some((value, tool)) => tools::changed(value.as_str().unwrap_or("description"), tool),
        None => tools::definitions(),
    }
}

fn list(app: &App, params: &Value) -> Reply {
    let all = listed(app);
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
async fn call(asked: &Asked<'_>, tool: &str) -> Response {
    let Asked {
        app,
        tenant,
        connection,
        ..
    } = *asked;
    let arguments = &asked.params["arguments"];
    let switches = &app.switches;
    let on = |name: &str| switches.is_on(&format!("mcp.demo.{name}"), Some(tool));
    let number = |name: &str| switches.number(&format!("mcp.demo.{name}"), Some(tool));
    if let Some(code) = number("rpc_error") {
        return asked.answer(Reply::Error(
            code,
            "the sandbox was told to fail".to_owned(),
        ));
    }
    if on("hang") {
        tokio::time::sleep(LONGEST_HANG).await;
        match connection.cut().await {}
    }
    if on("is_error") {
        return asked.answer(rpc::tool_error("The workspace is closed for maintenance."));
    }
    let unfinished = switches.value("mcp.demo.unfinished", Some(tool));
    if unfinished.as_ref().is_some_and(|kind| kind != "task") {
        return asked.answer(Reply::Result(input_required()));
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
            return asked.answer(Reply::Error(-32602, format!("there is no tool {tool}")));
        }
        Err(BadCall::BadArguments(sentence)) => return asked.answer(rpc::tool_error(&sentence)),
    };
    let committed = app
        .saved
        .change(|data| data.workspaces.commit(tenant, tool, arguments, &action));
    let result = match committed {
        Ok(result) => result,
        Err(sentence) => return asked.answer(rpc::tool_error(&sentence)),
    };
    if let Some(delay) = number("delay_ms").and_then(|ms| u64::try_from(ms).ok()) {
        tokio::time::sleep(Duration::from_millis(delay)).await;
    }
    if on("drop_reply_after_commit") {
        match connection.cut().await {}
    }
    if let Some(status) = switches.status("mcp.demo.status_after_commit", Some(tool)) {
        return match status {
            StatusCode::NOT_FOUND if asked.protocol == Protocol::Sessions => {
                handshake::no_session()
            }
            status => (status, "the server failed").into_response(),
        };
    }
    if let Some(size) = switches.value("mcp.demo.oversized_result", Some(tool)) {
        let size = usize::try_from(size.as_i64().unwrap_or(USUAL_OVERSIZE)).unwrap_or_default();
        let content = json!([{"type": "text", "text": numbered_lines(size)}]);
        return asked.answer(Reply::Result(json!({"content": content, "isError": false})));
    }
    if unfinished.is_some() {
        let task = json!({"resultType": "task", "taskId": "task-1", "status": "working"});
        return asked.answer(Reply::Result(task));
    }
    asked.answer(rpc::tool_result(&result))
}

/// A question back instead of a result.
fn input_required() -> Value {
    json!({
        "resultType": "input_required",
        "requestState": "sandbox",
        "inputRequests": {"sure": {
            "method": "elicitation/create",
            "params": {
                "mode": "form",
                "message": "Are you sure?",
                "requestedSchema": {
                    "type": "object",
                    "properties": {"sure": {"type": "boolean"}},
                },
            },
        }},
    })
}
