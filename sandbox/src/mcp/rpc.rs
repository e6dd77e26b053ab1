//! JSON-RPC envelopes over streamable HTTP.

use axum::{
    Json,
    http::{StatusCode, header},
    response::{IntoResponse, Response},
};
use serde_json::{Value, json};

#[derive(Debug)]
pub(super) enum Message {
    Request {
        id: Value,
        method: String,
        params: Value,
    },
    /// A notification, or an answer to a request this server never makes.
    OneWay,
}

#[derive(Debug)]
pub(super) enum Reply {
    Result(Value),
    Error(i64, String),
}

/// Why a body is no message: a JSON-RPC code and its words.
#[derive(Debug)]
pub(super) struct NoMessage(i64, &'static str);

impl IntoResponse for NoMessage {
    fn into_response(self) -> Response {
        refused(StatusCode::BAD_REQUEST, self.0, self.1)
    }
}

/// Reads one message.
pub(super) fn parse(body: &[u8]) -> Result<Message, NoMessage> {
    let Ok(mut message) = serde_json::from_slice::<Value>(body) else {
        return Err(NoMessage(-32700, "the body is not JSON"));
    };
    let invalid = |why| Err(NoMessage(-32600, why));
    if !message.is_object() {
        return invalid("the body must be one message, batches are not supported");
    }
    if message["jsonrpc"] != "2.0" {
        return invalid("jsonrpc must be 2.0");
    }
    let Some(method) = message["method"].as_str().map(str::to_owned) else {
        let answer = message.get("result").is_some() || message.get("error").is_some();
        return if answer {
            Ok(Message::OneWay)
        } else {
            invalid("the method is missing")
        };
    };
    match message["id"].take() {
        Value::Null => Ok(Message::OneWay),
        id @ (Value::String(_) | Value::Number(_)) => Ok(Message::Request {
            id,
            method,
            params: message["params"].take(),
        }),
        Value::Bool(_) | Value::Array(_) | Value::Object(_) => {
            invalid("the id must be a string or a number")
        }
    }
}

/// An HTTP error whose body is a JSON-RPC error without a request.
pub(super) fn refused(status: StatusCode, code: i64, message: &str) -> Response {
    refused_request(status, &Value::Null, code, message, &Value::Null)
}

/// The same to a request that could be read. `data` is left out where it is null.
pub(super) fn refused_request(
    status: StatusCode,
    id: &Value,
    code: i64,
    message: &str,
    data: &Value,
) -> Response {
    let mut error = json!({"code": code, "message": message});
    if !data.is_null() {
        error["data"] = data.clone();
    }
    (
        status,
        Json(json!({"jsonrpc": "2.0", "id": id, "error": error})),
    )
        .into_response()
}

/// A tool's result, as data and as text for clients that only read text.
pub(super) fn tool_result(result: &Value) -> Reply {
    Reply::Result(json!({
        "content": [{"type": "text", "text": result.to_string()}],
        "structuredContent": result,
        "isError": false,
    }))
}

/// The tool ran into something that the model should read.
pub(super) fn tool_error(sentence: &str) -> Reply {
    Reply::Result(json!({"content": [{"type": "text", "text": sentence}], "isError": true}))
}

impl Reply {
    pub(super) fn respond(self, id: &Value, sse: bool) -> Response {
        let message = match self {
            Self::Result(result) => json!({"jsonrpc": "2.0", "id": id, "result": result}),
            Self::Error(code, message) => {
                let error = json!({"code": code, "message": message});
                json!({"jsonrpc": "2.0", "id": id, "error": error})
            }
        };
        if !sse {
            return Json(message).into_response();
        }
        let headers = [
            (header::CONTENT_TYPE, "text/event-stream"),
            (header::CACHE_CONTROL, "no-cache"),
        ];
        (headers, format!("event: message\ndata: {message}\n\n")).into_response()
    }
}
