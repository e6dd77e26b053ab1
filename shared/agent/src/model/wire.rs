//! The request of OpenAI's Chat Completions API, as its reference spells it
//! (<https://platform.openai.com/docs/api-reference/chat/create>).

use serde_json::{Value, json};

use super::{Prompt, PromptMessage};

pub(super) fn request(model: &str, prompt: &Prompt, max_tokens: u32) -> Value {
    let messages: Vec<Value> = prompt.messages.iter().map(message).collect();
    let mut body = json!({
        "model": model,
        "stream": true,
        "max_tokens": max_tokens,
        "messages": messages,
    });
    if !prompt.tools.is_empty()
        && let Value::Object(body) = &mut body
    {
        let tools = prompt.tools.iter().map(|tool| {
            json!({
                "type": "function",
                "function": {
                    "name": tool.name,
                    "description": tool.description,
                    "parameters": tool.schema,
                },
            })
        });
        body.insert("tools".to_owned(), tools.collect());
    }
    body
}

fn message(message: &PromptMessage) -> Value {
    match message {
        PromptMessage::System(text) => json!({ "role": "system", "content": text }),
        PromptMessage::User(text) => json!({ "role": "user", "content": text }),
        PromptMessage::Assistant { text, calls } if calls.is_empty() => {
            json!({ "role": "assistant", "content": text })
        }
        PromptMessage::Assistant { text, calls } => {
            let calls: Vec<Value> = calls
                .iter()
                .map(|call| {
                    json!({
                        "id": call.id,
                        "type": "function",
                        "function": { "name": call.name, "arguments": call.arguments },
                    })
                })
                .collect();
            // Some providers refuse an empty text beside calls; none refuses its absence.
            let content = if text.is_empty() {
                Value::Null
            } else {
                Value::from(text.as_str())
            };
            json!({ "role": "assistant", "content": content, "tool_calls": calls })
        }
        PromptMessage::Tool { call, text } => {
            json!({ "role": "tool", "tool_call_id": call, "content": text })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{ModelCall, ModelTool};

    #[test]
    fn a_prompt_with_calls_and_results_has_the_shape_of_the_api() {
        let prompt = Prompt {
            messages: vec![
                PromptMessage::System("s".to_owned()),
                PromptMessage::User("u".to_owned()),
                PromptMessage::Assistant {
                    text: String::new(),
                    calls: vec![ModelCall {
                        id: "c1".to_owned(),
                        name: "demo__read".to_owned(),
                        arguments: "{}".to_owned(),
                    }],
                },
                PromptMessage::Tool {
                    call: "c1".to_owned(),
                    text: "executed".to_owned(),
                },
            ],
            tools: vec![ModelTool {
                name: "demo__read".to_owned(),
                description: "Reads.".to_owned(),
                schema: serde_json::Map::new(),
            }],
        };
        assert_eq!(
            request("m", &prompt, 10),
            json!({
                "model": "m",
                "stream": true,
                "max_tokens": 10,
                "messages": [
                    { "role": "system", "content": "s" },
                    { "role": "user", "content": "u" },
                    { "role": "assistant", "content": null, "tool_calls": [{
                        "id": "c1", "type": "function",
                        "function": { "name": "demo__read", "arguments": "{}" },
                    }] },
                    { "role": "tool", "tool_call_id": "c1", "content": "executed" },
                ],
                "tools": [{ "type": "function", "function": {
                    "name": "demo__read", "description": "Reads.", "parameters": {},
                } }],
            })
        );
    }

    #[test]
    fn a_prompt_without_tools_names_none() {
        assert!(request("m", &Prompt::default(), 10).get("tools").is_none());
    }
}
