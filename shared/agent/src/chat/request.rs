//! The request of the AI SDK's transport, as its real clients send it.

use std::collections::BTreeSet;

use serde_json::Value;
use toshi_core::{ANSWERS_PER_REQUEST, ApprovalId, ClientId, MESSAGE_MAX, StepRow, UserMessageId};

/// What a client wants.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Intent {
    /// A message; with a known id, another text for an old one.
    Say {
        id: UserMessageId,
        text: String,
        said: Said,
    },
    /// Another answer to the message that this answer belongs to.
    Regenerate { answer: String },
    /// Going on with this assistant message after its approvals were answered. `shown` is what the
    /// client has of it, if it posted that.
    Continue {
        answer: String,
        shown: Option<Shown>,
    },
}

/// What a client says of a message of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Said {
    /// Nothing: most are new.
    Plainly,
    /// That it changes one which it has sent before.
    InOtherWords,
    /// That it wants another answer to it. If it never came here, it is a new one.
    Again,
}

/// What a client shows of an assistant message. It only tells what need not be told again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shown {
    calls: BTreeSet<String>,
    texts: BTreeSet<String>,
}

impl Shown {
    fn of(message: &Value) -> Self {
        let all = |name| {
            let texts = parts_of(message).filter_map(move |part| text_of(part, name));
            texts.map(ToOwned::to_owned).collect()
        };
        Self {
            calls: all("toolCallId"),
            texts: all("text"),
        }
    }

    /// Whether the client has this step.
    pub(crate) fn has(&self, step: &StepRow) -> bool {
        let mut calls = step.calls.iter().map(|call| call.call.to_string());
        calls.any(|call| self.calls.contains(&call))
            || (step.calls.is_empty() && self.texts.contains(&step.text))
    }
}

/// A person's answer to an approval, as their client posted it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    pub approval: ApprovalId,
    pub approved: bool,
    pub reason: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Posted {
    pub client_id: ClientId,
    pub intent: Intent,
    pub answers: Vec<Answer>,
    /// There are answers to questions that cannot be ours. Whoever sends them must be told, or a
    /// client that waits for their outcome would send them again without end.
    pub strange_answers: bool,
}

/// What is wrong with a request, in a sentence for its sender.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RequestError {
    #[error("{0}")]
    Bad(&'static str),
    #[error("a message may have at most {limit} bytes; this one has {size}")]
    TooLarge { size: usize, limit: usize },
}

const REASON_CHARS: usize = 500;

impl Posted {
    pub fn parse(body: &Value) -> Result<Self, RequestError> {
        let client_id = body
            .get("id")
            .and_then(Value::as_str)
            .ok_or(RequestError::Bad("`id` must name the conversation"))?
            .parse()
            .map_err(|_| RequestError::Bad("`id` must be 8 to 64 letters, digits, - or _"))?;
        let messages = body
            .get("messages")
            .and_then(Value::as_array)
            .filter(|messages| !messages.is_empty())
            .ok_or(RequestError::Bad(
                "`messages` must hold at least one message",
            ))?;
        if !messages.iter().all(Value::is_object) {
            return Err(RequestError::Bad("`messages` must hold objects"));
        }
        let message_id = optional(body, "messageId", "`messageId` must be text")?;
        let trigger = "`trigger` must be submit-message or regenerate-message";
        let intent = match optional(body, "trigger", trigger)? {
            Some("submit-message") | None => submit(messages, message_id)?,
            Some("regenerate-message") => match message_id {
                Some(id) => Intent::Regenerate {
                    answer: id.to_owned(),
                },
                None => say(last_user_message(messages)?, Said::Again)?,
            },
            Some(_) => return Err(RequestError::Bad(trigger)),
        };
        let (answers, strange_answers) = answers(messages)?;
        Ok(Self {
            client_id,
            intent,
            answers,
            strange_answers,
        })
    }
}

/// A text that may be left out, or `null`; anything else is refused with this sentence.
fn optional<'a>(
    body: &'a Value,
    name: &str,
    sentence: &'static str,
) -> Result<Option<&'a str>, RequestError> {
    match body.get(name) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => Ok(Some(text)),
        Some(_) => Err(RequestError::Bad(sentence)),
    }
}

fn submit(messages: &[Value], message_id: Option<&str>) -> Result<Intent, RequestError> {
    let last = messages.last();
    let named = message_id.and_then(|id| {
        messages
            .iter()
            .find(|message| text_of(message, "id") == Some(id))
    });
    match (message_id, named, last) {
        (Some(_), Some(message), _) if is_user(message) => say(message, Said::InOtherWords),
        // A client that posts only what is new.
        (Some(_), None, Some(message)) if is_user(message) => say(message, Said::Plainly),
        (Some(id), message, _) => Ok(Intent::Continue {
            answer: id.to_owned(),
            shown: message.map(Shown::of),
        }),
        (None, _, Some(message)) if !is_user(message) && answered(message) => {
            let id = text_of(message, "id").ok_or(RequestError::Bad("the message has no `id`"))?;
            Ok(Intent::Continue {
                answer: id.to_owned(),
                shown: Some(Shown::of(message)),
            })
        }
        (None, _, _) => say(last_user_message(messages)?, Said::Plainly),
    }
}

fn last_user_message(messages: &[Value]) -> Result<&Value, RequestError> {
    let message = messages.iter().rev().find(|message| is_user(message));
    message.ok_or(RequestError::Bad("there is no user message"))
}

fn say(message: &Value, said: Said) -> Result<Intent, RequestError> {
    let id = text_of(message, "id")
        .ok_or(RequestError::Bad("the message has no `id`"))?
        .parse()
        .map_err(|_| RequestError::Bad("a message's `id` must be 1 to 128 safe characters"))?;
    let parts = message.get("parts").and_then(Value::as_array);
    let parts = parts.ok_or(RequestError::Bad("the message has no `parts`"))?;
    let texts = parts
        .iter()
        .filter(|part| text_of(part, "type") == Some("text"))
        .filter_map(|part| text_of(part, "text"));
    let text = texts.collect::<Vec<_>>().join("\n");
    if text.len() > MESSAGE_MAX {
        return Err(RequestError::TooLarge {
            size: text.len(),
            limit: MESSAGE_MAX,
        });
    }
    if text.trim().is_empty() {
        let has_file = parts
            .iter()
            .any(|part| text_of(part, "type") == Some("file"));
        return Err(RequestError::Bad(if has_file {
            "files cannot be sent yet; please write what you need"
        } else {
            "the message is empty"
        }));
    }
    Ok(Intent::Say { id, text, said })
}

/// Parts in state `approval-responded`, and whether there are some that cannot be read. Finished
/// calls keep `approved` too: the state tells.
fn answers(messages: &[Value]) -> Result<(Vec<Answer>, bool), RequestError> {
    let mut found: Vec<Answer> = Vec::new();
    let mut strange = false;
    for part in messages
        .iter()
        .flat_map(parts_of)
        .filter(|part| is_answered(part))
    {
        let approval = part.get("approval").unwrap_or(&Value::Null);
        let id = text_of(approval, "id").and_then(|id| id.parse().ok());
        let (Some(id), Some(approved)) = (id, approval.get("approved").and_then(Value::as_bool))
        else {
            strange = true;
            continue;
        };
        if let Some(other) = found.iter().find(|answer| answer.approval == id) {
            if other.approved == approved {
                continue;
            }
            return Err(RequestError::Bad(
                "one approval is both approved and rejected",
            ));
        }
        let reason = text_of(approval, "reason")
            .map(str::trim)
            .filter(|text| !text.is_empty());
        let reason = reason.map(|text| text.chars().take(REASON_CHARS).collect());
        found.push(Answer {
            approval: id,
            approved,
            reason,
        });
    }
    // Clients post old answers again for ever: the newest are the ones that matter.
    let extra = found.len().saturating_sub(ANSWERS_PER_REQUEST);
    found.drain(..extra);
    Ok((found, strange))
}

fn parts_of(message: &Value) -> impl Iterator<Item = &Value> {
    message
        .get("parts")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
}

fn is_answered(part: &Value) -> bool {
    text_of(part, "state") == Some("approval-responded")
}

fn answered(message: &Value) -> bool {
    parts_of(message).any(is_answered)
}

fn is_user(message: &Value) -> bool {
    text_of(message, "role") == Some("user")
}

fn text_of<'a>(value: &'a Value, name: &str) -> Option<&'a str> {
    value.get(name).and_then(Value::as_str)
}

#[cfg(test)]
#[path = "request_tests.rs"]
mod tests;
