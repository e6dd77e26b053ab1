//! The parts of a chat completions request that the scripted model reads.

use serde::Deserialize;
use serde_json::Value;

#[derive(Debug, Deserialize)]
pub(super) struct Request {
    #[serde(default)]
    pub(super) model: String,
    pub(super) messages: Vec<Message>,
    #[serde(default)]
    pub(super) tools: Vec<Tool>,
    #[serde(default)]
    pub(super) stream: bool,
    #[serde(default)]
    stream_options: Option<StreamOptions>,
}

#[derive(Debug, Deserialize)]
struct StreamOptions {
    #[serde(default)]
    include_usage: bool,
}

#[derive(Debug, Deserialize)]
#[serde(tag = "role", rename_all = "lowercase")]
pub(super) enum Message {
    #[serde(alias = "developer")]
    System {
        #[serde(default)]
        content: Content,
    },
    User {
        content: Content,
    },
    Assistant {
        #[serde(default)]
        content: Option<Content>,
        #[serde(default)]
        tool_calls: Option<Vec<ToolCall>>,
    },
    Tool {
        tool_call_id: String,
        content: Content,
    },
}

#[derive(Debug, Deserialize)]
#[serde(untagged)]
pub(super) enum Content {
    Text(String),
    Parts(Vec<Part>),
}

#[derive(Debug, Deserialize)]
pub(super) struct Part {
    #[serde(default)]
    text: String,
}

#[derive(Debug, Clone, Deserialize)]
pub(super) struct ToolCall {
    pub(super) id: String,
    pub(super) function: Called,
}

#[derive(Debug, Clone, Deserialize)]
pub(super) struct Called {
    pub(super) name: String,
    pub(super) arguments: String,
}

#[derive(Debug, Deserialize)]
pub(super) struct Tool {
    pub(super) function: Function,
}

#[derive(Debug, Deserialize)]
pub(super) struct Function {
    pub(super) name: String,
    #[serde(default)]
    pub(super) parameters: Value,
}

impl Default for Content {
    fn default() -> Self {
        Self::Text(String::new())
    }
}

impl Content {
    pub(super) fn text(&self) -> String {
        match self {
            Self::Text(text) => text.clone(),
            Self::Parts(parts) => {
                let texts: Vec<_> = parts.iter().map(|part| part.text.as_str()).collect();
                texts.join("\n")
            }
        }
    }
}

impl Request {
    /// Reads a request; the error is a sentence as the real service words it.
    pub(super) fn parse(body: &[u8]) -> Result<Self, String> {
        let request: Self = serde_json::from_slice(body).map_err(|error| {
            format!("We could not parse the JSON body of your request: {error}")
        })?;
        if request.messages.is_empty() {
            return Err("[] is too short - 'messages'".to_owned());
        }
        request.check_order()?;
        Ok(request)
    }

    pub(super) fn wants_usage(&self) -> bool {
        self.stream_options
            .as_ref()
            .is_some_and(|options| options.include_usage)
    }

    /// Every tool call has its results directly after it, and no result stands alone.
    fn check_order(&self) -> Result<(), String> {
        let mut open: Vec<&str> = Vec::new();
        for message in &self.messages {
            if let Message::Tool { tool_call_id, .. } = message {
                let Some(place) = open.iter().position(|id| id == tool_call_id) else {
                    return Err(
                        "Invalid parameter: messages with role 'tool' must be a response \
                        to a preceding message with 'tool_calls'."
                            .to_owned(),
                    );
                };
                open.remove(place);
                continue;
            }
            refuse_open(&open)?;
            if let Message::Assistant {
                tool_calls: Some(calls),
                ..
            } = message
            {
                open = calls.iter().map(|call| call.id.as_str()).collect();
            }
        }
        refuse_open(&open)
    }
}

fn refuse_open(open: &[&str]) -> Result<(), String> {
    if open.is_empty() {
        return Ok(());
    }
    Err(format!(
        "An assistant message with 'tool_calls' must be followed by tool messages responding to \
         each 'tool_call_id'. The following tool_call_ids did not have response messages: {}",
        open.join(", ")
    ))
}
