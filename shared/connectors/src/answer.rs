//! What a tool answered, and what became of the call.

use serde_json::Value;
use toshi_core::{Access, Outcome, RESULT_MAX, WireFault, classify_write};

/// The name of a kind of result, in characters.
const KIND_MAX: usize = 40;

/// What the seam saw of one call.
#[derive(Clone, Debug, PartialEq)]
pub struct CallReport {
    pub result: Result<ToolAnswer, WireFault>,
    /// HTTP 401 with `WWW-Authenticate`: the server did not run it, and wants another token.
    pub challenged: bool,
}

#[derive(Clone, Debug, PartialEq)]
pub struct ToolAnswer {
    /// All of it, uncut.
    pub text: String,
    pub structured: Option<Value>,
    pub is_error: bool,
}

impl ToolAnswer {
    /// Reads the result of a `tools/call`. A result of another kind (a task, a question back) was not
    /// asked for, and whether the tool ran is not known from it.
    pub(crate) fn read(result: &Value) -> Result<Self, WireFault> {
        is_complete(result)?;
        let structured = result
            .get("structuredContent")
            .filter(|value| !value.is_null())
            .cloned();
        let blocks = result.get("content").and_then(Value::as_array);
        let shown: Vec<String> = blocks.into_iter().flatten().map(shown).collect();
        let text = match &structured {
            Some(structured) if shown.is_empty() => structured.to_string(),
            _ => shown.join("\n"),
        };
        let is_error = result
            .get("isError")
            .and_then(Value::as_bool)
            .unwrap_or(false);
        Ok(Self {
            text,
            structured,
            is_error,
        })
    }
}

/// Whether a result ends its request. Nothing else was asked for: this client declares neither tasks
/// nor anything that a server could ask of it.
pub(crate) fn is_complete(result: &Value) -> Result<(), WireFault> {
    match result.get("resultType") {
        // Servers of the older protocol do not say.
        None => Ok(()),
        Some(Value::String(kind)) if kind == "complete" => Ok(()),
        Some(kind) => {
            let kind = kind.as_str().unwrap_or_default().chars().take(KIND_MAX);
            Err(WireFault::Unfinished(kind.collect()))
        }
    }
}

/// A content block as text: itself, or one line that says what it is.
fn shown(block: &Value) -> String {
    let text = |key: &str| block.get(key).and_then(Value::as_str);
    match text("type") {
        Some("text") => text("text").unwrap_or_default().to_owned(),
        Some(kind @ ("image" | "audio")) => {
            format!(
                "[{kind}, {}, not shown]",
                text("mimeType").unwrap_or("unknown type")
            )
        }
        Some("resource_link") => {
            let name = text("title").or(text("name")).unwrap_or("unnamed");
            format!("[link: {name}, {}]", text("uri").unwrap_or_default())
        }
        Some("resource") => {
            let resource = block.get("resource");
            let part = |key: &str| resource?.get(key)?.as_str();
            match part("text") {
                Some(text) => text.to_owned(),
                None => format!("[file, {}, not shown]", part("uri").unwrap_or_default()),
            }
        }
        Some(_) | None => "[content of a kind that is not shown]".to_owned(),
    }
}

/// What became of the call, with the answer cut to what a row and a model can hold.
///
/// A fault of a write may mean that it ran. A read changes nothing, so for the same fault it is
/// enough to say that there is no answer.
pub fn settle(report: Result<ToolAnswer, WireFault>, access: Access) -> Outcome {
    match report {
        Ok(ToolAnswer {
            text,
            structured: _,
            is_error: true,
        }) => Outcome::ReportedError { text: cut(text) },
        Ok(ToolAnswer {
            text,
            structured,
            is_error: false,
        }) => {
            let bytes = text.len() as u64;
            let structured = structured.filter(|value| value.to_string().len() <= RESULT_MAX);
            Outcome::Succeeded {
                text: cut(text),
                structured,
                bytes,
            }
        }
        Err(fault) => match (classify_write(&fault), access) {
            (Outcome::Unknown { why }, Access::Read) => Outcome::Refused { why },
            (outcome, Access::Read | Access::Write) => outcome,
        },
    }
}

fn cut(mut text: String) -> String {
    text.truncate(text.floor_char_boundary(RESULT_MAX));
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn read(result: Value) -> ToolAnswer {
        ToolAnswer::read(&result).unwrap()
    }

    #[test]
    fn text_blocks_are_joined_and_others_are_named() {
        let answer = read(json!({"content": [
            {"type": "text", "text": "one"},
            {"type": "image", "data": "AAAA", "mimeType": "image/png"},
            {"type": "resource_link", "uri": "https://x.example/a", "name": "a"},
            {"type": "resource", "resource": {"uri": "file:a", "text": "inside"}},
            {"type": "hologram"},
            {"type": "text", "text": "two"}
        ]}));
        assert_eq!(
            answer.text,
            "one\n[image, image/png, not shown]\n[link: a, https://x.example/a]\ninside\n\
             [content of a kind that is not shown]\ntwo"
        );
        assert!(!answer.is_error);
    }

    #[test]
    fn structured_content_stands_in_where_there_is_no_text() {
        let answer = read(json!({"structuredContent": {"id": 1}}));
        assert_eq!(answer.text, r#"{"id":1}"#);
        let both =
            read(json!({"content": [{"type": "text", "text": "x"}], "structuredContent": {}}));
        assert_eq!(
            (both.text.as_str(), both.structured),
            ("x", Some(json!({})))
        );
        assert_eq!(read(json!({})).text, "");
    }

    #[test]
    fn a_result_that_nobody_asked_for_is_not_an_answer() {
        for kind in ["input_required", "task", "later"] {
            let answer = json!({"resultType": kind, "content": [], "inputRequests": {}});
            let fault = WireFault::Unfinished(kind.to_owned());
            assert_eq!(ToolAnswer::read(&answer), Err(fault.clone()));
            let unknown = settle(Err(fault.clone()), Access::Write);
            assert!(matches!(unknown, Outcome::Unknown { .. }), "{unknown:?}");
            // Of a read there is just no answer.
            let none = settle(Err(fault), Access::Read);
            assert!(matches!(none, Outcome::Refused { .. }), "{none:?}");
        }
        assert!(ToolAnswer::read(&json!({"resultType": null, "content": []})).is_err());
        assert!(ToolAnswer::read(&json!({"resultType": "complete"})).is_ok());
    }

    #[test]
    fn a_long_answer_is_cut_between_characters_and_keeps_its_length() {
        let text = format!("x{}", "ä".repeat(RESULT_MAX));
        let length = text.len() as u64;
        let answer = ToolAnswer {
            text,
            structured: None,
            is_error: false,
        };
        let Outcome::Succeeded { text, bytes, .. } = settle(Ok(answer), Access::Read) else {
            panic!("a success");
        };
        assert_eq!(text.len(), RESULT_MAX - 1);
        assert_eq!(bytes, length);
    }

    #[test]
    fn the_same_fault_leaves_a_write_unknown_and_a_read_without_an_answer() {
        let why = "the connection ended before an answer".to_owned();
        let cut = || Err(WireFault::Cut);
        assert_eq!(
            settle(cut(), Access::Write),
            Outcome::Unknown { why: why.clone() }
        );
        assert_eq!(settle(cut(), Access::Read), Outcome::Refused { why });
        let not_sent = || Err(WireFault::NotSent("no".to_owned()));
        for access in [Access::Read, Access::Write] {
            assert_eq!(
                settle(not_sent(), access),
                Outcome::NotSent {
                    why: "no".to_owned()
                }
            );
        }
        let failed = ToolAnswer {
            text: "no room".to_owned(),
            structured: None,
            is_error: true,
        };
        assert_eq!(
            settle(Ok(failed), Access::Write),
            Outcome::ReportedError {
                text: "no room".to_owned()
            }
        );
    }
}
