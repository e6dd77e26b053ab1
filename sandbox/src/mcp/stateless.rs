//! 2026-07-28: every request stands alone and repeats itself in its headers, which are held against
//! the body as the protocol demands.

use axum::{
    http::StatusCode,
    response::{IntoResponse, Response},
};
use base64::{Engine, prelude::BASE64_STANDARD};
use serde_json::{Value, json};

use super::{
    INSTRUCTIONS, Posted,
    calls::{self, Asked, Protocol},
    refuse_media,
    rpc::{self, Message, Reply},
};

const VERSION: &str = "2026-07-28";
const MISMATCH: i64 = -32020;
const UNSUPPORTED: i64 = -32022;

/// The key of what a request says of itself.
fn key(name: &str) -> String {
    format!("io.modelcontextprotocol/{name}")
}

/// Whether a body is a request of this protocol.
pub(super) fn is_asked(body: &[u8]) -> bool {
    let message: Value = serde_json::from_slice(body).unwrap_or_default();
    !message["params"]["_meta"][key("protocolVersion")].is_null()
}

pub(super) async fn post(posted: Posted<'_>) -> Response {
    if let Some(refusal) = refuse_media(posted.headers) {
        return refusal;
    }
    let message = match rpc::parse(posted.body) {
        Ok(message) => message,
        Err(refusal) => return refusal.into_response(),
    };
    let Message::Request { id, method, params } = message else {
        let why = "a client of this protocol sends requests only";
        return rpc::refused(StatusCode::BAD_REQUEST, -32600, why);
    };
    let asked = Asked::new(posted, Protocol::Stateless, id, method, params);
    if let Some(refusal) = refuse(posted, &asked).or_else(|| calls::reject(&asked)) {
        return refusal;
    }
    match asked.method.as_str() {
        "server/discover" => asked.answer(Reply::Result(json!({
            "supportedVersions": [VERSION],
            "capabilities": {"tools": {"listChanged": false}},
            "instructions": INSTRUCTIONS,
        }))),
        "tools/list" | "tools/call" => calls::serve(&asked).await,
        method => {
            let why = format!("there is no method {method}");
            asked.refuse(StatusCode::NOT_FOUND, -32601, &why)
        }
    }
}

/// What is wrong with how a request describes itself.
fn refuse(posted: Posted<'_>, asked: &Asked<'_>) -> Option<Response> {
    let bad = StatusCode::BAD_REQUEST;
    let meta = &asked.params["_meta"];
    let version = meta[key("protocolVersion")].as_str();
    if let Some(why) = mismatch(posted, asked, version) {
        return Some(asked.refuse(bad, MISMATCH, &why));
    }
    if version != Some(VERSION) {
        let why = "this protocol version is not supported";
        let data = json!({"supported": [VERSION], "requested": version});
        return Some(asked.refuse_with(bad, UNSUPPORTED, why, &data));
    }
    if !meta[key("clientCapabilities")].is_object() {
        return Some(asked.refuse(bad, -32602, "the client does not say what it can do"));
    }
    None
}

/// The first header that says something else than the body.
fn mismatch(posted: Posted<'_>, asked: &Asked<'_>, version: Option<&str>) -> Option<String> {
    let name = asked.tool();
    let mut expected = vec![
        (
            "mcp-protocol-version".to_owned(),
            version.map(str::to_owned),
        ),
        ("mcp-method".to_owned(), Some(asked.method.clone())),
        ("mcp-name".to_owned(), name.map(str::to_owned)),
    ];
    if let Some(name) = name {
        let definitions = calls::listed(asked.app);
        let tool = definitions.iter().find(|tool| tool["name"] == name);
        let properties = tool.and_then(|tool| tool["inputSchema"]["properties"].as_object());
        for (argument, schema) in properties.into_iter().flatten() {
            if let Some(header) = schema["x-mcp-header"].as_str() {
                let header = format!("mcp-param-{}", header.to_ascii_lowercase());
                expected.push((header, in_words(&asked.params["arguments"][argument])));
            }
        }
    }
    for (header, value) in &expected {
        let mut sent = posted.headers.get_all(header).iter();
        let first = sent.next().map(|sent| sent.to_str().ok().and_then(decoded));
        let is_right = match (first, value) {
            (None, None) => true,
            (Some(Some(sent)), Some(value)) => sent == *value,
            (Some(_), _) | (None, Some(_)) => false,
        };
        if !is_right || sent.next().is_some() {
            return Some(format!("the header {header} does not match the body"));
        }
    }
    let is_known = |name: &str| expected.iter().any(|(known, _)| known == name);
    let stray = posted.headers.keys().map(|name| name.as_str());
    let stray = stray.filter(|name| name.starts_with("mcp-param-") && !is_known(name));
    stray
        .map(|name| format!("the header {name} repeats no argument"))
        .next()
}

fn in_words(argument: &Value) -> Option<String> {
    match argument {
        Value::Null => None,
        Value::String(text) => Some(text.clone()),
        other => Some(other.to_string()),
    }
}

/// A header's value as it was before it was made fit for a header.
fn decoded(value: &str) -> Option<String> {
    let inside = value
        .strip_prefix("=?base64?")
        .and_then(|rest| rest.strip_suffix("?="));
    match inside {
        Some(inside) => String::from_utf8(BASE64_STANDARD.decode(inside).ok()?).ok(),
        None => Some(value.to_owned()),
    }
}
