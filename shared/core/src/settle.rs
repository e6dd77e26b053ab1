//! What became of a call that was sent: the one table that turns a wire fault into an outcome.

use serde::{Deserialize, Serialize};

/// What the transport saw instead of a result.
///
/// The transport maps its library's errors here; whatever it does not know is [`Self::Other`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WireFault {
    /// Name resolution, connect or TLS failed, or we refused ourselves: no byte of the call left.
    NotSent(String),
    /// An HTTP status instead of an answer. `session` says if the request named a session.
    HttpStatus {
        status: u16,
        session: bool,
    },
    /// A JSON-RPC error, with the HTTP status it came with. A 404 to a request that named a session
    /// is never read as one: it says that the session is lost.
    Rpc {
        code: i64,
        message: String,
        status: u16,
    },
    Timeout,
    /// The connection ended before an answer: reset, cut stream, no content.
    Cut,
    TooLarge,
    /// A result of a kind that ends nothing, by its name: `input_required`, `task`, or a later one.
    Unfinished(String),
    /// Anything else, new variants included.
    Other(String),
}

/// What became of an attempt.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Outcome {
    /// The tool answered.
    Succeeded {
        text: String,
        structured: Option<serde_json::Value>,
        bytes: u64,
    },
    /// The tool answered that it failed; part of it may have been done.
    ReportedError { text: String },
    /// The server refused the request before it could run.
    Refused { why: String },
    /// No byte of the call left this process.
    NotSent { why: String },
    /// It may have run.
    Unknown { why: String },
}

/// Codes that JSON-RPC 2.0 and MCP define for requests that were not run.
const NOT_RUN: [i64; 4] = [-32700, -32600, -32601, -32602];
/// Codes of the 2026-07-28 protocol that come with HTTP 400: header mismatch, missing capability,
/// unsupported version.
const MODERN_NOT_RUN: [i64; 3] = [-32020, -32021, -32022];
/// Comes with HTTP 404 in that protocol: the server has no such method, so nothing ran.
const NO_SUCH_METHOD: i64 = -32601;
/// Statuses that a server answers before it runs anything.
const STATUS_NOT_RUN: [u16; 8] = [400, 401, 403, 405, 406, 413, 415, 429];

/// The outcome of a write whose answer was this fault. When in doubt it is unknown: a person finds
/// out, and nothing is sent again.
pub fn classify_write(fault: &WireFault) -> Outcome {
    match fault {
        WireFault::NotSent(why) => Outcome::NotSent { why: why.clone() },
        WireFault::HttpStatus { status, session: _ } if STATUS_NOT_RUN.contains(status) => {
            Outcome::Refused {
                why: format!("the server answered HTTP {status}"),
            }
        }
        WireFault::HttpStatus {
            status: 404,
            session: true,
        } => Outcome::Unknown {
            why: "the server lost the session (HTTP 404)".to_owned(),
        },
        WireFault::HttpStatus { status, session: _ } => Outcome::Unknown {
            why: format!("the server answered HTTP {status}"),
        },
        WireFault::Rpc {
            code,
            status,
            message: _,
        } if (NOT_RUN.contains(code) && *status != 404 && *status < 500)
            || (*status == 400 && MODERN_NOT_RUN.contains(code))
            || (*status == 404 && *code == NO_SUCH_METHOD) =>
        {
            Outcome::Refused {
                why: format!("the server answered error {code}"),
            }
        }
        WireFault::Rpc { code, .. } => Outcome::Unknown {
            why: format!("the server answered error {code}"),
        },
        WireFault::Timeout => Outcome::Unknown {
            why: "the server did not answer in time".into(),
        },
        WireFault::Cut => Outcome::Unknown {
            why: "the connection ended before an answer".into(),
        },
        WireFault::TooLarge => Outcome::Unknown {
            why: "the answer was too large to read".into(),
        },
        // The protocol lets a tool do part of its work before it asks back, and a task goes on by
        // itself: neither says that nothing ran.
        WireFault::Unfinished(kind) => Outcome::Unknown {
            why: match kind.as_str() {
                "input_required" => "the tool asked for something more instead of finishing",
                "task" => "the tool went on working without saying how it ended",
                _ => "the server's answer could not be understood",
            }
            .into(),
        },
        WireFault::Other(_) => Outcome::Unknown {
            why: "the server's answer could not be understood".into(),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kind(fault: &WireFault) -> &'static str {
        match classify_write(fault) {
            Outcome::Succeeded { .. } => "succeeded",
            Outcome::ReportedError { .. } => "reported_error",
            Outcome::Refused { .. } => "refused",
            Outcome::NotSent { .. } => "not_sent",
            Outcome::Unknown { .. } => "unknown",
        }
    }

    #[test]
    fn the_settle_table_holds_row_by_row() {
        let status = |status| WireFault::HttpStatus {
            status,
            session: true,
        };
        let rpc = |code, status| WireFault::Rpc {
            code,
            message: String::new(),
            status,
        };
        let mut rows = vec![
            (WireFault::NotSent("dns".into()), "not_sent"),
            (status(404), "unknown"),
            (
                WireFault::HttpStatus {
                    status: 404,
                    session: false,
                },
                "unknown",
            ),
            (WireFault::Timeout, "unknown"),
            (WireFault::Cut, "unknown"),
            (WireFault::TooLarge, "unknown"),
            (WireFault::Other("new variant".into()), "unknown"),
            (rpc(-32603, 200), "unknown"),
            (rpc(-32000, 200), "unknown"),
            (rpc(-32002, 200), "unknown"),
            (rpc(-32020, 200), "unknown"),
            (rpc(-32601, 404), "refused"),
            (rpc(-32601, 500), "unknown"),
            (rpc(-32602, 404), "unknown"),
            (WireFault::Unfinished("input_required".into()), "unknown"),
            (WireFault::Unfinished("task".into()), "unknown"),
            (WireFault::Unfinished("later".into()), "unknown"),
            (rpc(1, 200), "unknown"),
            (rpc(-32600, 503), "unknown"),
            // How some servers say that they lost the session.
            (rpc(-32600, 404), "unknown"),
        ];
        rows.extend([400, 401, 403, 405, 406, 413, 415, 429].map(|s| (status(s), "refused")));
        rows.extend([402, 408, 409, 418, 500, 502, 503, 504, 302].map(|s| (status(s), "unknown")));
        rows.extend([-32020, -32021, -32022].map(|code| (rpc(code, 400), "refused")));
        rows.extend([-32700, -32600, -32601, -32602].map(|code| (rpc(code, 200), "refused")));
        for (fault, expected) in rows {
            assert_eq!(kind(&fault), expected, "{fault:?}");
        }
    }
}
