//! What a model may write that it should not, by name.

use serde_json::{Value, json};

/// A call of an answer: id, name, arguments as text.
pub(super) type Call = (String, String, String);

/// The kinds of junk that `llm.junk` accepts.
pub(crate) const KINDS: &[&str] = &[
    "unknown_tool",
    "not_an_object",
    "duplicate_keys",
    "huge_arguments",
    "bad_escape",
    "bad_utf8",
    "no_name",
    "shared_index",
    "out_of_order",
    "many_calls",
    "prose",
    "empty_choices",
    "usage_only",
    "null_content",
    "other_roles",
];

const MANY: usize = 3_000;
const HUGE: usize = 100_000;

/// Spoils the text and the calls of an answer.
pub(super) fn spoil(kind: &str, text: &mut String, calls: &mut Vec<Call>) {
    let first_key = |arguments: &str| arguments.split(':').next().map(ToOwned::to_owned);
    for (_, name, arguments) in calls.iter_mut() {
        match kind {
            "unknown_tool" => *name = "demo__delete_everything".to_owned(),
            "not_an_object" => *arguments = format!("[{arguments}]"),
            "duplicate_keys" => {
                if let Some(start) = first_key(arguments).filter(|_| arguments.contains(':')) {
                    let rest = arguments.trim_start_matches('{');
                    *arguments = format!("{start}:\"#staff\",{rest}");
                }
            }
            "huge_arguments" => {
                *arguments = json!({"text": "x".repeat(HUGE)}).to_string();
            }
            "bad_escape" => *arguments = r#"{"channel":"\ud800"}"#.to_owned(),
            "no_name" => name.clear(),
            _ => {}
        }
    }
    match kind {
        "many_calls" if !calls.is_empty() => {
            let each = std::mem::take(calls);
            let repeated = each.iter().cycle().take(MANY).enumerate();
            calls.extend(repeated.map(|(nth, (id, name, arguments))| {
                (format!("{id}-{nth}"), name.clone(), arguments.clone())
            }));
        }
        "prose" => {
            for (_, name, arguments) in std::mem::take(calls) {
                let call = json!({"name": name, "arguments": arguments});
                *text += &format!(
                    "<tool_call>{call}</tool_call>\n<tool_result>{{\"ok\":true}}</tool_result>\n"
                );
            }
        }
        _ => {}
    }
}

/// Spoils the chunks of a streamed answer.
pub(super) fn spoil_chunks(kind: &str, chunks: Vec<Value>) -> Vec<Value> {
    let mut chunks = chunks;
    match kind {
        "out_of_order" => return out_of_order(chunks),
        "usage_only" => {
            for chunk in &mut chunks {
                chunk["choices"] = json!([]);
                chunk["usage"] = json!({"completion_tokens": 1});
            }
        }
        "empty_choices" => chunks
            .iter_mut()
            .for_each(|chunk| chunk["choices"] = json!([])),
        _ => {}
    }
    for chunk in &mut chunks {
        let Some(delta) = chunk.pointer_mut("/choices/0/delta") else {
            continue;
        };
        match kind {
            "null_content" => delta["content"] = Value::Null,
            "other_roles" => delta["role"] = json!("tool"),
            "shared_index" => {
                if let Some(index) = delta.pointer_mut("/tool_calls/0/index") {
                    *index = json!(0);
                }
            }
            _ => {}
        }
    }
    chunks
}

/// The pieces of the last call first; each call's own pieces stay in their order.
fn out_of_order(chunks: Vec<Value>) -> Vec<Value> {
    let index = |chunk: &Value| {
        chunk
            .pointer("/choices/0/delta/tool_calls/0/index")
            .and_then(Value::as_u64)
    };
    let first = chunks.iter().position(|chunk| index(chunk).is_some());
    let (mut pieces, mut others): (Vec<Value>, Vec<Value>) =
        chunks.into_iter().partition(|chunk| index(chunk).is_some());
    pieces.sort_by_key(|chunk| std::cmp::Reverse(index(chunk)));
    let after = others.split_off(first.unwrap_or(others.len()).min(others.len()));
    others.into_iter().chain(pieces).chain(after).collect()
}

/// The bytes of one event.
pub(super) fn event(kind: Option<&str>, chunk: &Value) -> Vec<u8> {
    let text = format!("data: {chunk}\n\n");
    let spoiled = ["\"content\":\"", "\"arguments\":\""]
        .into_iter()
        .filter(|_| kind == Some("bad_utf8"))
        .find_map(|field| Some(text.find(field)? + field.len()));
    let mut bytes = text.into_bytes();
    if let Some(place) = spoiled {
        bytes.insert(place, 0xFF);
    }
    bytes
}
