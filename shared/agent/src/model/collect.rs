//! Puts a streamed answer together.

use serde::Deserialize;
use toshi_core::{CALLS_PER_STEP, Finish};

use super::{ModelCall, ModelError, ModelStep};

/// More calls than this in one answer are not kept: the step's limit says so to the model.
const CALLS_KEPT: usize = CALLS_PER_STEP * 2;
/// More text than this, in bytes, is a fault: the tokens of one step hold less.
const TEXT_MAX: usize = 48 * 1024;

#[derive(Debug, Deserialize)]
struct Chunk {
    #[serde(default)]
    choices: Vec<Choice>,
    error: Option<serde_json::Value>,
}

#[derive(Debug, Deserialize)]
struct Choice {
    #[serde(default)]
    index: u32,
    #[serde(default)]
    delta: Delta,
    finish_reason: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
struct Delta {
    content: Option<String>,
    #[serde(default)]
    tool_calls: Option<Vec<CallDelta>>,
}

#[derive(Debug, Deserialize)]
struct CallDelta {
    index: Option<usize>,
    id: Option<String>,
    function: Option<FunctionDelta>,
}

#[derive(Debug, Deserialize)]
struct FunctionDelta {
    name: Option<String>,
    arguments: Option<String>,
}

#[derive(Debug, Default)]
pub(super) struct Collector {
    text: String,
    calls: Vec<ModelCall>,
    finish: Option<String>,
}

impl Collector {
    /// Takes one event; new text comes back.
    pub(super) fn take(&mut self, data: &str) -> Result<Option<String>, ModelError> {
        let chunk: Chunk = serde_json::from_str(data).map_err(|_| ModelError::Unreadable)?;
        if chunk.error.is_some() {
            return Err(ModelError::BrokenOff);
        }
        let mut fresh = None;
        for choice in chunk.choices.into_iter().filter(|choice| choice.index == 0) {
            if let Some(text) = choice.delta.content.filter(|text| !text.is_empty()) {
                if self.text.len() + text.len() > TEXT_MAX {
                    return Err(ModelError::Unreadable);
                }
                self.text.push_str(&text);
                fresh = Some(text);
            }
            for delta in choice.delta.tool_calls.unwrap_or_default() {
                self.take_call(delta);
            }
            if choice.finish_reason.is_some() {
                self.finish = choice.finish_reason;
            }
        }
        Ok(fresh)
    }

    fn take_call(&mut self, delta: CallDelta) {
        // Some compatible servers leave the index out: an id then starts a call.
        let index = delta.index.unwrap_or_else(|| {
            let starts = delta.id.is_some() || self.calls.is_empty();
            if starts {
                self.calls.len()
            } else {
                self.calls.len() - 1
            }
        });
        if index >= CALLS_KEPT {
            return;
        }
        while self.calls.len() <= index {
            self.calls.push(ModelCall::default());
        }
        let Some(call) = self.calls.get_mut(index) else {
            return;
        };
        if let Some(id) = delta.id.filter(|id| !id.is_empty()) {
            call.id = id;
        }
        if let Some(function) = delta.function {
            if let Some(name) = function.name.filter(|name| !name.is_empty()) {
                call.name = name;
            }
            if let Some(arguments) = function.arguments {
                call.arguments.push_str(&arguments);
            }
        }
    }

    /// The whole answer. Without the model's own word that it is finished, it is broken off: half
    /// an answer must not become a call.
    pub(super) fn finish(self) -> Result<ModelStep, ModelError> {
        let Self {
            text,
            calls,
            finish,
        } = self;
        let finish = match finish.as_deref() {
            // Some servers say `stop` though there are calls.
            Some("tool_calls" | "function_call" | "stop") if !calls.is_empty() => Finish::ToolCalls,
            Some("length") => Finish::Length,
            Some("content_filter") => Finish::ContentFilter,
            // A word that nobody listed says nothing against a text, but may mean that a call was
            // cut off.
            Some(_) if calls.is_empty() => Finish::Stop,
            Some(_) => Finish::Length,
            None => return Err(ModelError::BrokenOff),
        };
        if calls.iter().any(|call| call.name.is_empty()) {
            return Err(ModelError::Unreadable);
        }
        let mut ids: Vec<&str> = calls.iter().map(|call| call.id.as_str()).collect();
        ids.sort_unstable();
        let twice = ids.windows(2).any(|pair| pair.first() == pair.last());
        if twice && !ids.iter().all(|id| id.is_empty()) {
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

#[cfg(test)]
mod tests {
    use super::*;

    fn collect(events: &[&str]) -> Result<ModelStep, ModelError> {
        let mut collector = Collector::default();
        for event in events {
            collector.take(event)?;
        }
        collector.finish()
    }

    const DONE: &str = r#"{"choices":[{"delta":{},"finish_reason":"tool_calls"}]}"#;

    #[test]
    fn text_and_calls_are_put_together_from_pieces() {
        let step = collect(&[
            r#"{"choices":[{"delta":{"role":"assistant","content":""}}]}"#,
            r#"{"choices":[{"delta":{"content":"I will "}}]}"#,
            r#"{"choices":[{"delta":{"content":"post."}}]}"#,
            r#"{"choices":[{"delta":{"tool_calls":[{"index":0,"id":"a","function":{"name":"p","arguments":"{\"x\""}}]}}]}"#,
            r#"{"choices":[{"delta":{"tool_calls":[{"index":1,"id":"b","function":{"name":"q","arguments":"{}"}}]}}]}"#,
            r#"{"choices":[{"delta":{"tool_calls":[{"index":0,"function":{"arguments":":1}"}}]}}]}"#,
            DONE,
            r#"{"choices":[],"usage":{"total_tokens":3}}"#,
        ])
        .unwrap();
        assert_eq!(step.text, "I will post.");
        assert_eq!(step.finish, Finish::ToolCalls);
        let calls: Vec<_> = step
            .calls
            .iter()
            .map(|c| (c.id.as_str(), c.arguments.as_str()))
            .collect();
        assert_eq!(calls, [("a", "{\"x\":1}"), ("b", "{}")]);
    }

    #[test]
    fn an_answer_without_a_finish_is_broken_off() {
        let result = collect(&[r#"{"choices":[{"delta":{"content":"half"}}]}"#]);
        assert_eq!(result, Err(ModelError::BrokenOff));
    }

    #[test]
    fn a_repeated_call_id_refuses_the_batch() {
        let result = collect(&[
            r#"{"choices":[{"delta":{"tool_calls":[{"index":0,"id":"a","function":{"name":"p","arguments":"{}"}},{"index":1,"id":"a","function":{"name":"p","arguments":"{}"}}]}}]}"#,
            DONE,
        ]);
        assert_eq!(result, Err(ModelError::Unreadable));
    }

    #[test]
    fn a_cut_off_answer_says_so() {
        let step = collect(&[
            r#"{"choices":[{"delta":{"tool_calls":[{"index":0,"id":"a","function":{"name":"p","arguments":"{\"x"}}]}}]}"#,
            r#"{"choices":[{"delta":{},"finish_reason":"length"}]}"#,
        ])
        .unwrap();
        assert_eq!(step.finish, Finish::Length);
    }

    #[test]
    fn calls_under_an_unknown_finish_are_taken_for_cut_off_and_text_for_whole() {
        const CALL: &str = r#"{"choices":[{"delta":{"tool_calls":[{"index":0,"id":"a","function":{"name":"p","arguments":"{}"}}]}}]}"#;
        const TEXT: &str = r#"{"choices":[{"delta":{"content":"all"}}]}"#;
        let end = |word| format!(r#"{{"choices":[{{"delta":{{}},"finish_reason":"{word}"}}]}}"#);
        for word in ["max_tokens", "model_length", "end_turn", "error"] {
            assert_eq!(
                collect(&[CALL, &end(word)]).unwrap().finish,
                Finish::Length,
                "{word}"
            );
            assert_eq!(
                collect(&[TEXT, &end(word)]).unwrap().finish,
                Finish::Stop,
                "{word}"
            );
        }
        for word in ["stop", "tool_calls", "function_call"] {
            assert_eq!(
                collect(&[CALL, &end(word)]).unwrap().finish,
                Finish::ToolCalls,
                "{word}"
            );
            assert_eq!(
                collect(&[TEXT, &end(word)]).unwrap().finish,
                Finish::Stop,
                "{word}"
            );
        }
    }

    #[test]
    fn a_text_without_end_is_no_answer() {
        let mut collector = Collector::default();
        let event = format!(
            r#"{{"choices":[{{"delta":{{"content":"{}"}}}}]}}"#,
            "x".repeat(1_000)
        );
        let taken = (0..60)
            .map(|_| collector.take(&event))
            .collect::<Result<Vec<_>, _>>();
        assert_eq!(taken, Err(ModelError::Unreadable));
    }

    #[test]
    fn an_error_in_the_stream_is_no_answer() {
        let result = collect(&[r#"{"error":{"message":"overloaded"}}"#]);
        assert_eq!(result, Err(ModelError::BrokenOff));
    }
}
