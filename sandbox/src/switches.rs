//! The switches that make the stand-ins misbehave. They hold until they are changed.

use std::{collections::BTreeMap, sync::Arc};

use serde_json::{Map, Value, json};

use crate::saved::Saved;

/// What a switch accepts besides `null` and `false`, which turn it off.
#[derive(Debug, Clone, Copy)]
enum Accepts {
    Flag,
    Between(i64, i64),
    OneOf(&'static [i64]),
    FlagOrBetween(i64, i64),
    FlagOrWord(&'static [&'static str]),
    OneWord(&'static [&'static str]),
}

#[derive(Debug)]
struct Known {
    name: &'static str,
    accepts: Accepts,
    what: &'static str,
}

const TEN_MINUTES_MS: i64 = 600_000;

/// The largest answer `mcp.demo.oversized_result` makes.
pub(crate) const LARGEST_RESULT: i64 = 32 * 1024 * 1024;

const KNOWN: &[Known] = &[
    known(
        "mcp.demo.protocol",
        Accepts::OneWord(&["2025-11-25-stateless", "2026-07-28", "both"]),
        "what the server speaks (usual: 2025-11-25 with sessions; both: also 2026-07-28)",
    ),
    known(
        "mcp.demo.refuse_as",
        Accepts::OneWord(&[
            "header_mismatch",
            "missing_capability",
            "unsupported_version",
            "unknown_method",
        ]),
        "tools/call takes no effect and answers this refusal of the stateless protocol, with its HTTP status",
    ),
    known(
        "mcp.demo.unfinished",
        Accepts::FlagOrWord(&["input_required", "task"]),
        "tools/call answers a result that ends nothing: a question back, without effect (true: that), or a task, with it",
    ),
    known(
        "mcp.demo.drop_reply_after_commit",
        Accepts::Flag,
        "tools/call takes effect, then the connection is reset without an answer",
    ),
    known(
        "mcp.demo.status_after_commit",
        Accepts::OneOf(&[404, 500, 503]),
        "tools/call takes effect, then this HTTP status is the answer",
    ),
    known(
        "mcp.demo.delay_ms",
        Accepts::Between(1, TEN_MINUTES_MS),
        "tools/call takes effect at once and answers this much later",
    ),
    known(
        "mcp.demo.hang",
        Accepts::Flag,
        "tools/call takes no effect and never answers (cut after ten minutes)",
    ),
    known(
        "mcp.demo.changed_definition",
        Accepts::FlagOrWord(&[
            "description",
            "schema",
            "annotations",
            "added",
            "headers",
            "bad_headers",
        ]),
        "tools/list shows a changed definition of post_message (true: description; headers: the channel as a header), or one more tool (added; bad_headers: with a header's name that is none)",
    ),
    known(
        "mcp.demo.oversized_result",
        Accepts::FlagOrBetween(1, LARGEST_RESULT),
        "tools/call takes effect, then answers with this many bytes of text (true: 20 MiB)",
    ),
    known(
        "mcp.demo.rpc_error",
        Accepts::Between(-40_000, 40_000),
        "tools/call takes no effect and answers this JSON-RPC error code",
    ),
    known(
        "mcp.demo.reject_with",
        Accepts::OneOf(&[400, 401, 403, 429]),
        "tools/call takes no effect and answers this HTTP status",
    ),
    known(
        "mcp.demo.drop_session",
        Accepts::Flag,
        "every session open at the next request after this was set is gone: 404; later sessions work",
    ),
    known(
        "mcp.demo.is_error",
        Accepts::Flag,
        "tools/call takes no effect and answers a result with isError",
    ),
    known(
        "mcp.demo.quote_authorization",
        Accepts::FlagOrWord(&["result", "is_error", "rpc_error", "status", "list"]),
        "tools/call takes no effect and quotes the request's Authorization header in its answer (true: result); list: tools/list does, as an error",
    ),
    known(
        "mcp.demo.sse",
        Accepts::Flag,
        "answers arrive as an event stream instead of JSON",
    ),
    known(
        "mcp.demo.page_size",
        Accepts::Between(1, 100),
        "tools/list answers pages of this many tools",
    ),
    known(
        "llm.first_byte_delay_ms",
        Accepts::Between(1, TEN_MINUTES_MS),
        "the model waits this long before it answers",
    ),
    known(
        "llm.delay_ms",
        Accepts::Between(1, TEN_MINUTES_MS),
        "the model waits this long between two chunks (usual: 25)",
    ),
    known(
        "llm.status",
        Accepts::Between(400, 599),
        "the model answers this HTTP status and an error body",
    ),
    known(
        "llm.quote_key",
        Accepts::FlagOrWord(&["status", "stream"]),
        "the model refuses the key and quotes it, by HTTP 401 (true: status) or as an error in the stream",
    ),
    known(
        "llm.cut",
        Accepts::Flag,
        "the model's stream breaks off in the middle",
    ),
    known(
        "llm.finish_length",
        Accepts::FlagOrWord(&["length", "tool_calls"]),
        "tool arguments are cut off; the word is the finish reason that is told (true: length)",
    ),
    known(
        "llm.repeat_call_id",
        Accepts::Flag,
        "all tool calls of a step carry the same id",
    ),
    known(
        "llm.cut_keys",
        Accepts::FlagOrWord(&["length", "tool_calls"]),
        "tool arguments lose the last of their keys and stay JSON; the word is the finish reason that is told (true: length)",
    ),
    known(
        "llm.cut_text",
        Accepts::FlagOrWord(&["length", "stop"]),
        "a text is cut off in its middle; the word is the finish reason that is told (true: length)",
    ),
    known(
        "llm.same_call_ids",
        Accepts::Flag,
        "tool calls of every step carry the ids call_0, call_1 and so on",
    ),
    known(
        "llm.retry_after",
        Accepts::Between(0, 3_600),
        "llm.status comes with a Retry-After header of so many seconds",
    ),
    known(
        "llm.error_midstream",
        Accepts::Flag,
        "the model's stream says in its middle that there is an error, and ends",
    ),
    known(
        "llm.junk",
        Accepts::OneWord(crate::llm::junk::KINDS),
        "the model writes what it should not, of the named kind",
    ),
    known(
        "llm.loop",
        Accepts::Flag,
        "the model calls the first reading tool again and again",
    ),
];

const fn known(name: &'static str, accepts: Accepts, what: &'static str) -> Known {
    Known {
        name,
        accepts,
        what,
    }
}

/// The names, what they accept and what they do, for the documentation page.
pub(crate) fn described() -> impl Iterator<Item = (&'static str, String, &'static str)> {
    KNOWN
        .iter()
        .map(|known| (known.name, known.accepts.in_words(), known.what))
}

#[derive(Debug)]
pub(crate) struct Switches(Arc<Saved>);

impl Switches {
    pub(crate) fn new(saved: Arc<Saved>) -> Self {
        Self(saved)
    }

    /// Every known switch with its value; `null` is off.
    pub(crate) fn all(&self) -> Value {
        self.0.read(|data| {
            let values = KNOWN.iter().map(|known| {
                (
                    known.name.to_owned(),
                    data.switches.get(known.name).cloned().unwrap_or_default(),
                )
            });
            Value::Object(values.collect())
        })
    }

    /// Merges the given switches, all of them or none. The error is a sentence for the caller.
    pub(crate) fn merge(&self, wanted: &Map<String, Value>) -> Result<(), String> {
        let mut merged: BTreeMap<&str, Option<Value>> = BTreeMap::new();
        for (name, value) in wanted {
            let Some(known) = KNOWN.iter().find(|known| known.name == name) else {
                let names: Vec<_> = KNOWN.iter().map(|known| known.name).collect();
                return Err(format!(
                    "There is no switch {name}. Known: {}.",
                    names.join(", ")
                ));
            };
            merged.insert(known.name, known.checked(value)?);
        }
        self.0.change(|data| {
            for (name, value) in merged {
                match value {
                    Some(value) => _ = data.switches.insert(name.to_owned(), value),
                    None => _ = data.switches.remove(name),
                }
            }
        });
        Ok(())
    }

    pub(crate) fn clear(&self) {
        self.0.change(|data| data.switches.clear());
    }

    /// The value of a switch that is on and does not name another tool.
    pub(crate) fn value(&self, name: &str, tool: Option<&str>) -> Option<Value> {
        let stored = self.0.read(|data| data.switches.get(name).cloned())?;
        let Value::Object(mut narrowed) = stored else {
            return Some(stored);
        };
        let named = narrowed.get("tool").and_then(Value::as_str);
        if named.is_some() && named != tool {
            return None;
        }
        narrowed.remove("value")
    }

    pub(crate) fn is_on(&self, name: &str, tool: Option<&str>) -> bool {
        self.value(name, tool).is_some()
    }

    pub(crate) fn number(&self, name: &str, tool: Option<&str>) -> Option<i64> {
        self.value(name, tool)?.as_i64()
    }

    pub(crate) fn status(&self, name: &str, tool: Option<&str>) -> Option<axum::http::StatusCode> {
        let number = u16::try_from(self.number(name, tool)?).ok()?;
        axum::http::StatusCode::from_u16(number).ok()
    }
}

impl Known {
    /// The value to store, `None` to turn the switch off.
    fn checked(&self, value: &Value) -> Result<Option<Value>, String> {
        let (plain, tool) = match value {
            Value::Object(narrowed) if self.name.starts_with("mcp.") => {
                let odd = narrowed
                    .keys()
                    .find(|key| !matches!(key.as_str(), "value" | "tool"));
                if let Some(odd) = odd {
                    return Err(format!("{}: {odd} is neither value nor tool.", self.name));
                }
                let tool = match narrowed.get("tool") {
                    None | Some(Value::Null) => None,
                    Some(Value::String(tool)) => Some(tool.as_str()),
                    Some(_) => return Err(format!("{}: tool must be a name.", self.name)),
                };
                (narrowed.get("value").unwrap_or(&Value::Null), tool)
            }
            plain => (plain, None),
        };
        if matches!(plain, Value::Null | Value::Bool(false)) {
            return Ok(None);
        }
        if !self.accepts.admits(plain) {
            return Err(format!(
                "{} accepts {} (null or false turns it off).",
                self.name,
                self.accepts.in_words()
            ));
        }
        Ok(Some(match tool {
            Some(tool) => json!({"value": plain, "tool": tool}),
            None => plain.clone(),
        }))
    }
}

impl Accepts {
    fn admits(self, value: &Value) -> bool {
        let flag = value == &Value::Bool(true);
        let one_of = |words: &[&str]| value.as_str().is_some_and(|word| words.contains(&word));
        let between = |low, high| value.as_i64().is_some_and(|n| (low..=high).contains(&n));
        match self {
            Self::Flag => flag,
            Self::Between(low, high) => between(low, high),
            Self::OneOf(numbers) => value.as_i64().is_some_and(|n| numbers.contains(&n)),
            Self::FlagOrBetween(low, high) => flag || between(low, high),
            Self::FlagOrWord(words) => flag || one_of(words),
            Self::OneWord(words) => one_of(words),
        }
    }

    fn in_words(self) -> String {
        match self {
            Self::Flag => "true".to_owned(),
            Self::Between(low, high) => format!("a number from {low} to {high}"),
            Self::OneOf(numbers) => {
                let numbers: Vec<_> = numbers.iter().map(i64::to_string).collect();
                format!("one of {}", numbers.join(", "))
            }
            Self::FlagOrBetween(low, high) => format!("true or a number from {low} to {high}"),
            Self::FlagOrWord(words) => format!("true or one of {}", words.join(", ")),
            Self::OneWord(words) => format!("one of {}", words.join(", ")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn merged(name: &str, value: Value) -> Result<Option<Value>, String> {
        let known = KNOWN.iter().find(|known| known.name == name).unwrap();
        known.checked(&value)
    }

    #[test]
    fn null_and_false_turn_a_switch_off_in_both_spellings() {
        for off in [
            json!(null),
            json!(false),
            json!({"value": false}),
            json!({"tool": "x"}),
        ] {
            assert_eq!(merged("mcp.demo.hang", off), Ok(None));
        }
    }

    #[test]
    fn a_switch_takes_its_own_type_only() {
        assert_eq!(
            merged("mcp.demo.rpc_error", json!(-32603)),
            Ok(Some(json!(-32603)))
        );
        assert!(merged("mcp.demo.rpc_error", json!(true)).is_err());
        assert!(merged("mcp.demo.hang", json!(1)).is_err());
        assert!(merged("mcp.demo.hang", json!("true")).is_err());
        assert!(merged("mcp.demo.status_after_commit", json!(200)).is_err());
        assert!(merged("mcp.demo.changed_definition", json!("colour")).is_err());
        assert!(merged("llm.delay_ms", json!(0)).is_err());
        assert!(merged("llm.junk", json!(true)).is_err());
        assert_eq!(merged("llm.junk", json!("prose")), Ok(Some(json!("prose"))));
        assert!(merged("llm.loop", json!({"value": true, "tool": "x"})).is_err());
    }

    #[test]
    fn a_switch_may_be_narrowed_to_one_tool() {
        let narrowed = json!({"value": 404, "tool": "post_message"});
        let checked = merged("mcp.demo.status_after_commit", narrowed.clone());
        assert_eq!(checked, Ok(Some(narrowed)));
        assert!(merged("mcp.demo.hang", json!({"value": true, "tools": []})).is_err());
        assert!(merged("mcp.demo.hang", json!({"value": true, "tool": 1})).is_err());
    }
}
