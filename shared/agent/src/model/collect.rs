//! Puts a streamed answer together.

use serde::Deserialize;
use toshi_core::{ARGUMENTS_MAX, CALLS_PER_STEP, Finish};

use super::events::Events;
use super::{ModelCall, ModelError, ModelStep};

/// More calls than this in one answer are not kept: the step's limit says so to the model.
const CALLS_KEPT: usize = CALLS_PER_STEP * 2;
/// More text than this, in bytes, is a fault: the tokens of one step hold less.
const TEXT_MAX: usize = 48 * 1024;
/// Arguments longer than may be called with are kept up to here, which tells that they are.
const ARGUMENTS_KEPT: usize = ARGUMENTS_MAX + 4;
/// A stream longer than this, in bytes, is a fault. It counts everything that is sent, comments and
/// each event's envelope included: 4,096 tokens in events of 2 KiB.
const STREAM_MAX: usize = 8 * 1024 * 1024;

#[derive(Debug, Deserialize)]
struct Chunk {
    choices: Option<Vec<Choice>>,
    error: Option<serde_json::Value>,
    usage: Option<Usage>,
}

#[derive(Debug, Deserialize)]
struct Usage {
    completion_tokens: Option<u64>,
}

#[derive(Debug, Deserialize)]
struct Choice {
    index: Option<u32>,
    delta: Option<Delta>,
    finish_reason: Option<String>,
}

#[derive(Debug, Deserialize)]
struct Delta {
    content: Option<String>,
    tool_calls: Option<Vec<CallDelta>>,
}

#[derive(Debug, Deserialize)]
struct CallDelta {
    index: Option<u64>,
    id: Option<String>,
    function: Option<FunctionDelta>,
}

#[derive(Debug, Deserialize)]
struct FunctionDelta {
    name: Option<String>,
    arguments: Option<String>,
}

/// How the model says that it ended, the worst last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Ended {
    Whole,
    Odd,
    Filtered,
    Length,
}

impl Ended {
    fn of(reason: &str) -> Self {
        match reason {
            "stop" | "tool_calls" | "function_call" => Self::Whole,
            "length" => Self::Length,
            "content_filter" => Self::Filtered,
            _ => Self::Odd,
        }
    }
}

/// A call under way, with the index under which its pieces come, if the server gives any.
#[derive(Debug)]
struct Slot {
    index: Option<u64>,
    call: ModelCall,
}

#[derive(Debug, Default)]
pub(super) struct Collector {
    events: Events,
    text: String,
    slots: Vec<Slot>,
    /// More calls came than are kept: pieces that do not say where they belong are theirs.
    full: bool,
    ended: Option<Ended>,
    /// Tokens that the model says it wrote.
    written: u64,
    done: bool,
}

impl Collector {
    /// Takes bytes of the stream, in whatever pieces they come; new text is handed on. Says how many
    /// events there were.
    pub(super) fn feed(
        &mut self,
        bytes: &[u8],
        mut on_text: impl FnMut(&str),
    ) -> Result<usize, ModelError> {
        let mut taken = 0;
        for event in self.events.feed(bytes) {
            if self.done {
                return Ok(taken);
            }
            if event.end > STREAM_MAX {
                return Err(ModelError::Unreadable);
            }
            taken += 1;
            match event.data.trim_ascii() {
                b"[DONE]" => self.done = true,
                // Some servers keep the connection alive with empty events.
                b"" => {}
                data => {
                    if let Some(text) = self.take(data)? {
                        on_text(&text);
                    }
                }
            }
        }
        if !self.done && self.events.seen() > STREAM_MAX {
            return Err(ModelError::Unreadable);
        }
        Ok(taken)
    }

    /// The server said that nothing more comes.
    pub(super) const fn is_done(&self) -> bool {
        self.done
    }

    fn take(&mut self, data: &[u8]) -> Result<Option<String>, ModelError> {
        let chunk: Chunk = serde_json::from_slice(data).map_err(|_| ModelError::Unreadable)?;
        if chunk.error.is_some() {
            return Err(ModelError::BrokenOff);
        }
        let written = chunk.usage.and_then(|usage| usage.completion_tokens);
        self.written = self.written.max(written.unwrap_or_default());
        let mut fresh = None;
        let choices = chunk.choices.unwrap_or_default();
        for choice in choices
            .into_iter()
            .filter(|choice| choice.index.unwrap_or_default() == 0)
        {
            let (text, calls) = match choice.delta {
                Some(delta) => (delta.content, delta.tool_calls),
                None => (None, None),
            };
            if let Some(text) = text.filter(|text| !text.is_empty()) {
                if self.text.len() + text.len() > TEXT_MAX {
                    return Err(ModelError::Unreadable);
                }
                self.text.push_str(&text);
                fresh = Some(text);
            }
            for delta in calls.unwrap_or_default() {
                self.take_call(delta);
            }
            let reason = choice.finish_reason.filter(|reason| !reason.is_empty());
            // What was cut off does not become whole by a later word.
            self.ended = self.ended.max(reason.as_deref().map(Ended::of));
        }
        Ok(fresh)
    }

    fn take_call(&mut self, delta: CallDelta) {
        let id = delta.id.filter(|id| !id.is_empty());
        let (name, arguments) = match delta.function {
            Some(function) => (function.name, function.arguments),
            None => (None, None),
        };
        let name = name.filter(|name| !name.is_empty());
        let place = match delta.index {
            Some(_) => self
                .slots
                .iter()
                .rposition(|slot| slot.index == delta.index),
            None if self.full => None,
            None => self.slots.len().checked_sub(1),
        };
        let slot = place.and_then(|place| self.slots.get(place));
        let arguments = arguments.unwrap_or_default();
        let begins = slot.is_none_or(|slot| {
            slot.call
                .is_another(id.as_deref(), name.as_deref(), &arguments)
        });
        let place = match place {
            Some(place) if !begins => place,
            _ if self.slots.len() == CALLS_KEPT => {
                self.full = true;
                return;
            }
            _ => {
                let call = ModelCall::default();
                self.slots.push(Slot {
                    index: delta.index,
                    call,
                });
                self.slots.len() - 1
            }
        };
        let Some(Slot { call, .. }) = self.slots.get_mut(place) else {
            return;
        };
        if let Some(id) = id
            && call.id.is_empty()
        {
            call.id = id;
        }
        if let Some(name) = name {
            call.name = name;
        }
        let room = ARGUMENTS_KEPT.saturating_sub(call.arguments.len());
        let end = arguments.floor_char_boundary(room);
        call.arguments
            .push_str(arguments.get(..end).unwrap_or_default());
    }

    /// The whole answer. Without the model's own word that it is finished, it is broken off: half
    /// an answer must not become a call.
    pub(super) fn finish(self, tokens_max: u32) -> Result<ModelStep, ModelError> {
        let Self {
            text,
            mut slots,
            ended,
            written,
            ..
        } = self;
        slots.sort_by_key(|slot| slot.index);
        let calls: Vec<ModelCall> = slots.into_iter().map(|slot| slot.call).collect();
        let finish = match ended.ok_or(ModelError::BrokenOff)? {
            Ended::Length => Finish::Length,
            Ended::Filtered => Finish::ContentFilter,
            // Some servers say `stop` though there are calls.
            Ended::Whole | Ended::Odd if calls.is_empty() => Finish::Stop,
            // The server's word that all is well, and its own count that the limit was reached.
            Ended::Whole if written >= u64::from(tokens_max) => Finish::Length,
            Ended::Whole => Finish::ToolCalls,
            // A word that nobody listed says nothing against a text, but may mean that a call was
            // cut off.
            Ended::Odd => Finish::Length,
        };
        if calls.iter().any(|call| call.name.is_empty()) {
            return Err(ModelError::Unreadable);
        }
        let mut ids: Vec<&str> = calls.iter().map(|call| call.id.as_str()).collect();
        ids.retain(|id| !id.is_empty());
        ids.sort_unstable();
        if ids.windows(2).any(|pair| pair.first() == pair.last()) {
            // Two calls under one id cannot be told apart: nothing of the batch is taken.
            return Err(ModelError::Unreadable);
        }
        Ok(ModelStep {
            text,
            calls,
            finish,
        })
    }
}

impl ModelCall {
    /// Whether a piece with this id and name belongs to another call than this one. Some servers
    /// count every call as the first, others count none or give no ids; two calls must never become
    /// one.
    fn is_another(&self, id: Option<&str>, name: Option<&str>, arguments: &str) -> bool {
        let Some(name) = name else { return false };
        let other_id = id.is_some_and(|id| !self.id.is_empty() && id != self.id);
        let other_name = !self.name.is_empty() && name != self.name;
        // Nothing can be added to whole arguments.
        let whole = || serde_json::from_str::<serde::de::IgnoredAny>(&self.arguments).is_ok();
        other_id || other_name || (id.is_none() && !arguments.trim().is_empty() && whole())
    }
}

#[cfg(test)]
#[path = "collect_tests.rs"]
mod tests;
