//! What the scripted model does next, read from the request alone.

use serde_json::{Map, Value, json};

use super::{
    request::{Message, Request, Tool, ToolCall},
    understand::{Wish, understand},
};

/// The model's next step.
#[derive(Debug, PartialEq)]
pub(super) enum Step {
    Say(String),
    Call(Vec<Planned>),
}

#[derive(Debug, Clone, PartialEq)]
pub(super) struct Planned {
    pub(super) tool: String,
    pub(super) arguments: Value,
}

/// The platform's own tool for long results.
const READ_RESULT: &str = "read_result";

const HELP: &str = "Hello! I am the sandbox's scripted model, so I only understand a few \
    sentences: “what channels are there”, “read #general”, “post \"Hello\" to #general”, and two \
    of them joined with “and”.";

pub(super) fn next_step(request: &Request) -> Step {
    if let Some(record) = record(&request.messages) {
        return Step::Say(record);
    }
    let asked = request
        .messages
        .iter()
        .rposition(|m| matches!(m, Message::User { .. }));
    let since = asked.map_or(&request.messages[..], |place| {
        &request.messages[place + 1..]
    });
    let message = match asked.map(|place| &request.messages[place]) {
        Some(Message::User { content }) => content.text(),
        _ => String::new(),
    };
    let steps = understand(&message);
    let named = report_of_named(&request.messages);
    let done = since.iter().filter(|message| has_calls(message)).count();
    if named.is_none()
        && done > 0
        && let Some(wishes) = steps.as_ref().and_then(|steps| steps.get(done))
    {
        return plan(wishes, request);
    }
    if let Some(report) = named.or_else(|| report(since)) {
        return Step::Say(report);
    }
    let spoken = since.iter().any(|message| match message {
        Message::Assistant {
            content: Some(content),
            ..
        } => !content.text().is_empty(),
        _ => false,
    });
    if spoken {
        // The last message was answered already: this continues an earlier step.
        let earlier = report(&request.messages);
        return Step::Say(earlier.unwrap_or_else(|| "There is nothing more to tell.".to_owned()));
    }
    match steps.as_deref() {
        Some([first, ..]) => plan(first, request),
        Some([]) | None => Step::Say(HELP.to_owned()),
    }
}

fn has_calls(message: &Message) -> bool {
    matches!(message, Message::Assistant { tool_calls: Some(calls), .. } if !calls.is_empty())
}

/// The record of a conversation that the platform asks for now and then: what people said in it.
fn record(messages: &[Message]) -> Option<String> {
    const LONGEST: usize = 60;
    let [
        Message::System { content: system },
        Message::User { content },
    ] = messages
    else {
        return None;
    };
    if !system.text().starts_with("You keep the running record") {
        return None;
    }
    let input: Value = serde_json::from_str(&content.text()).ok()?;
    let said = input["messages"].as_array()?.iter();
    let said: Vec<String> = said
        .filter_map(|message| message["person"].as_str())
        .map(|text| text.chars().take(LONGEST).collect())
        .collect();
    let before = input["record_so_far"].as_str().unwrap_or_default();
    let all = format!("{before} The person said: {}.", said.join(" / "));
    Some(all.trim().chars().take(20 * LONGEST).collect())
}

/// Calls the first offered reading tool once more.
pub(super) fn read_again(request: &Request) -> Option<Planned> {
    let tool = offered(&request.tools, "list_channels")?;
    Some(Planned {
        tool: tool.function.name.clone(),
        arguments: json!({}),
    })
}

fn plan(wishes: &[Wish], request: &Request) -> Step {
    let tools = &request.tools;
    let mut calls = Vec::new();
    for wish in wishes {
        let (suffix, mut arguments, intent) = match wish {
            Wish::Channels => ("list_channels", json!({}), String::new()),
            Wish::ReadOn => {
                let Some((call, part)) = next_part(&request.messages) else {
                    return Step::Say("I know no long result to read on in.".to_owned());
                };
                let arguments = json!({"call": call, "part": part});
                (READ_RESULT, arguments, String::new())
            }
            Wish::Read(channel) => (
                "list_messages",
                json!({"channel": channel}),
                format!("Read {channel}, as you asked."),
            ),
            Wish::Post { text, channel } => (
                "post_message",
                json!({"channel": channel, "text": text}),
                format!("You asked me to post this to {channel}."),
            ),
        };
        let Some(tool) = offered(tools, suffix) else {
            return Step::Say(format!(
                "I cannot do that: I have no tool that can {} for you.",
                match wish {
                    Wish::Channels => "list channels",
                    Wish::ReadOn => "read on",
                    Wish::Read(_) => "read channels",
                    Wish::Post { .. } => "post messages",
                }
            ));
        };
        if tool.function.parameters["properties"]
            .get("_intent")
            .is_some()
        {
            arguments["_intent"] = json!(intent);
        }
        calls.push(Planned {
            tool: tool.function.name.clone(),
            arguments,
        });
    }
    Step::Call(calls)
}

/// The next part of the latest result that says how to read on, if there is one.
fn next_part(messages: &[Message]) -> Option<(String, u64)> {
    let call = messages.iter().rev().find_map(|message| match message {
        Message::Tool { content, .. } => {
            let text = content.text();
            let (_, rest) = text.split_once("read on with read_result, call ")?;
            Some(rest.split_once(',')?.0.to_owned())
        }
        _ => None,
    })?;
    let read = messages.iter().filter_map(|message| match message {
        Message::Assistant {
            tool_calls: Some(calls),
            ..
        } => Some(calls),
        _ => None,
    });
    let last = read
        .flatten()
        .filter(|made| made.function.name == READ_RESULT)
        .filter_map(|made| serde_json::from_str::<Value>(&made.function.arguments).ok())
        .filter(|arguments| arguments["call"] == call)
        .filter_map(|arguments| arguments["part"].as_u64())
        .max();
    Some((call, last.unwrap_or(1) + 1))
}

fn offered<'a>(tools: &'a [Tool], suffix: &str) -> Option<&'a Tool> {
    tools
        .iter()
        .find(|tool| tool.function.name.ends_with(suffix))
}

/// What became of the calls whose ids the last message, the platform's own, names.
fn report_of_named(messages: &[Message]) -> Option<String> {
    let Some(Message::System { content }) = messages.last() else {
        return None;
    };
    let words = content.text();
    let named = |call: &ToolCall| !call.id.is_empty() && words.contains(&call.id);
    report_of(messages, |calls| calls.iter().any(named))
}

/// What became of the latest tool calls in these messages; `None` if there were none.
fn report(messages: &[Message]) -> Option<String> {
    report_of(messages, |_| true)
}

/// What became of the latest step whose calls are `wanted`.
fn report_of(messages: &[Message], wanted: impl Fn(&[ToolCall]) -> bool) -> Option<String> {
    let (place, calls) = messages
        .iter()
        .enumerate()
        .rev()
        .find_map(|(place, message)| match message {
            Message::Assistant {
                tool_calls: Some(calls),
                ..
            } if !calls.is_empty() && wanted(calls) => Some((place, calls)),
            _ => None,
        })?;
    let mut results: Vec<Option<(&str, String)>> = messages[place..]
        .iter()
        .filter_map(|message| match message {
            Message::Tool {
                tool_call_id,
                content,
            } => Some(Some((tool_call_id.as_str(), content.text()))),
            _ => None,
        })
        .collect();
    let sentences: Vec<_> = calls
        .iter()
        .map(|call| {
            // Two calls may carry the same id: each takes the next result with it.
            let result = results
                .iter_mut()
                .find(|result| result.as_ref().is_some_and(|(id, _)| *id == call.id))
                .and_then(Option::take);
            match result {
                Some((_, text)) => sentence(call, &text),
                None => format!("I have no result of {}.", call.function.name),
            }
        })
        .collect();
    Some(sentences.join("\n\n"))
}

fn sentence(call: &ToolCall, result: &str) -> String {
    let name = &call.function.name;
    let arguments: Value = serde_json::from_str(&call.function.arguments).unwrap_or_default();
    let channel = arguments["channel"].as_str().unwrap_or_default();
    let text = arguments["text"].as_str().unwrap_or_default();
    let told = answer_in(result);
    if name.ends_with("post_message") {
        return post_sentence(text, channel, result, told.as_ref());
    }
    let list = |key: &str| {
        told.as_ref()
            .and_then(|answer| answer.get(key)?.as_array().cloned())
    };
    if let Some(channels) = list("channels") {
        let names: Vec<_> = channels
            .iter()
            .filter_map(|channel| channel["name"].as_str())
            .collect();
        return format!("These channels exist: {}.", names.join(", "));
    }
    if let Some(messages) = list("messages") {
        let lines: String = messages
            .iter()
            .map(|message| {
                let part = |key: &str| message[key].as_str().unwrap_or_default();
                format!("\n- {}: {}", part("author"), part("text"))
            })
            .collect();
        return if lines.is_empty() {
            format!("There are no messages in {channel}.")
        } else {
            format!("The newest messages in {channel}:{lines}")
        };
    }
    format!("What I was told of {name}: {}", shortened(result))
}

fn post_sentence(
    text: &str,
    channel: &str,
    result: &str,
    answer: Option<&Map<String, Value>>,
) -> String {
    if answer.is_some_and(|answer| answer.get("ok") == Some(&Value::Bool(true))) {
        return format!("Posted “{text}” to {channel}.");
    }
    let told = shortened(result);
    match result
        .split([' ', ':', ',', '.'])
        .next()
        .unwrap_or_default()
    {
        "pending" => {
            format!("“{text}” has not been posted to {channel}: it waits for permission ({told}).")
        }
        "denied" | "expired" | "blocked" => {
            format!("“{text}” was not posted to {channel}: {told}.")
        }
        "executed" => format!("The call that posts “{text}” to {channel} ran. I was told: {told}"),
        "outcome" => format!("I do not know whether “{text}” was posted to {channel}: {told}."),
        _ => format!("I cannot say that “{text}” was posted to {channel}. I was told: {told}"),
    }
}

/// A result as far as it fits into a sentence.
fn shortened(result: &str) -> String {
    const LONGEST: usize = 1000;
    let mut text: String = result.chars().take(LONGEST).collect();
    if text.len() < result.len() {
        text.push('…');
    }
    text
}

/// The tool's own answer in a result, if the result says that the tool ran well.
///
/// The answer stands alone, or after words that begin with `executed`; either may wrap it in an
/// object with a state. After any other words it is no answer, whatever it says.
fn answer_in(result: &str) -> Option<Map<String, Value>> {
    let start = result.find('{')?;
    if start > 0 && !result.starts_with("executed") {
        return None;
    }
    let Value::Object(outer) = serde_json::from_str(&result[start..]).ok()? else {
        return None;
    };
    let doubtful = |key: &str| {
        outer
            .get(key)
            .is_some_and(|value| value != &Value::Bool(false) && !value.is_null())
    };
    if doubtful("isError") || doubtful("error") {
        return None;
    }
    for key in ["state", "status", "outcome"] {
        if let Some(state) = outer.get(key)
            && !matches!(
                state.as_str(),
                Some("executed" | "succeeded" | "success" | "done" | "ok")
            )
        {
            return None;
        }
    }
    for key in ["structuredContent", "result", "output"] {
        if let Some(Value::Object(inner)) = outer.get(key) {
            return Some(inner.clone());
        }
    }
    Some(outer)
}

#[cfg(test)]
#[path = "script_tests.rs"]
mod tests;
