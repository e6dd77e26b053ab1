//! The model's answer on the wire, whole or chunk by chunk.

use std::{io, time::Duration};

use axum::{
    Json,
    body::{Body, Bytes},
    http::header,
    response::{IntoResponse, Response},
};
use futures::{StreamExt, stream};
use rand::random;
use serde_json::{Value, json};

use super::{
    Manners, NAME, Short, junk,
    request::{Message, Request},
    script::{Planned, Step},
};
use crate::clock::now_s;

#[derive(Debug)]
pub(super) struct Answer {
    id: String,
    model: String,
    text: String,
    calls: Vec<(String, String, String)>,
    finish: String,
    usage: Value,
    include_usage: bool,
    pause: Duration,
    cut: bool,
    error_midstream: bool,
    junk: Option<String>,
}

impl Answer {
    pub(super) fn new(request: &Request, step: Step, manners: Manners) -> Self {
        let Manners {
            pause,
            cut,
            short,
            repeat_call_id,
            same_call_ids,
            error_midstream,
            junk,
        } = manners;
        let cut_at = short.as_ref().map(|(cut_at, _)| *cut_at);
        let (mut text, planned) = match step {
            Step::Say(text) => (text, Vec::new()),
            Step::Call(planned) => (String::new(), planned),
        };
        let one_id = call_id();
        let mut calls: Vec<junk::Call> = planned
            .into_iter()
            .enumerate()
            .map(|(nth, Planned { tool, arguments })| {
                let id = if repeat_call_id {
                    one_id.clone()
                } else if same_call_ids {
                    format!("call_{nth}")
                } else {
                    call_id()
                };
                (id, tool, cut_off(arguments, cut_at))
            })
            .collect();
        if cut_at == Some(Short::Text) {
            text.truncate(half(&text));
        }
        if let Some(kind) = &junk {
            junk::spoil(kind, &mut text, &mut calls);
        }
        let finish = match (short, calls.is_empty()) {
            (Some((Short::Text, reason)), true) => reason,
            (Some((Short::Arguments | Short::Keys, reason)), false) => reason,
            (_, false) => "tool_calls".to_owned(),
            (_, true) => "stop".to_owned(),
        };
        let asked = request.messages.iter().map(|message| match message {
            Message::System { content }
            | Message::User { content }
            | Message::Tool { content, .. } => content.text().len(),
            Message::Assistant { content, .. } => content.as_ref().map_or(0, |c| c.text().len()),
        });
        let answered = text.len() + calls.iter().map(|(_, _, args)| args.len()).sum::<usize>();
        let (prompt, completion) = (asked.sum::<usize>() / 4 + 1, answered / 4 + 1);
        Self {
            id: format!("chatcmpl-{:016x}", random::<u64>()),
            model: if request.model.is_empty() {
                NAME.to_owned()
            } else {
                request.model.clone()
            },
            text,
            calls,
            finish,
            usage: json!({
                "prompt_tokens": prompt,
                "completion_tokens": completion,
                "total_tokens": prompt + completion,
            }),
            include_usage: request.wants_usage(),
            pause,
            cut,
            error_midstream,
            junk,
        }
    }

    pub(super) fn whole(self) -> Response {
        let mut message = json!({"role": "assistant", "content": self.text});
        if !self.calls.is_empty() {
            message["content"] = Value::Null;
            let calls = self.calls.iter().map(|(id, name, arguments)| {
                let function = json!({"name": name, "arguments": arguments});
                json!({"id": id, "type": "function", "function": function})
            });
            message["tool_calls"] = calls.collect();
        }
        let choice = json!({"index": 0, "message": message, "finish_reason": self.finish});
        let mut body = self.envelope("chat.completion");
        body["choices"] = json!([choice]);
        body["usage"] = self.usage.clone();
        Json(body).into_response()
    }

    pub(super) fn stream(self) -> Response {
        let kind = self.junk.as_deref();
        let mut chunks = self.chunks();
        if let Some(kind) = kind {
            chunks = junk::spoil_chunks(kind, chunks);
        }
        let mut events: Vec<io::Result<Bytes>> = chunks
            .iter()
            .map(|chunk| Ok(Bytes::from(junk::event(kind, chunk))))
            .collect();
        if self.cut {
            events.truncate(events.len().div_ceil(2));
            events.push(Err(io::ErrorKind::ConnectionReset.into()));
        } else if self.error_midstream {
            events.truncate(events.len().div_ceil(2));
            let error = json!({"error": {"message": "The sandbox was told to fail.", "code": 500}});
            events.push(Ok(Bytes::from(junk::event(None, &error))));
        } else {
            events.push(Ok(Bytes::from_static(b"data: [DONE]\n\n")));
        }
        // So many that their pauses would be the test.
        let pause = if events.len() > 1_000 {
            Duration::ZERO
        } else {
            self.pause
        };
        let body =
            stream::iter(events.into_iter().enumerate()).then(move |(nth, event)| async move {
                if nth > 0 && !pause.is_zero() {
                    tokio::time::sleep(pause).await;
                }
                event
            });
        let headers = [
            (header::CONTENT_TYPE, "text/event-stream"),
            (header::CACHE_CONTROL, "no-cache"),
        ];
        (headers, Body::from_stream(body)).into_response()
    }

    fn chunks(&self) -> Vec<Value> {
        let mut deltas = vec![json!({"role": "assistant", "content": ""})];
        deltas.extend(words(&self.text).map(|piece| json!({"content": piece})));
        for (index, (id, name, arguments)) in self.calls.iter().enumerate() {
            let function = json!({"name": name, "arguments": ""});
            let start = json!({"index": index, "id": id, "type": "function", "function": function});
            deltas.push(json!({"tool_calls": [start]}));
            for piece in pieces(arguments, 3) {
                let more = json!({"index": index, "function": {"arguments": piece}});
                deltas.push(json!({"tool_calls": [more]}));
            }
        }
        let mut chunks: Vec<_> = deltas
            .into_iter()
            .map(|delta| self.chunk(delta, Value::Null))
            .collect();
        chunks.push(self.chunk(json!({}), json!(self.finish)));
        if self.include_usage {
            let mut last = self.envelope("chat.completion.chunk");
            last["choices"] = json!([]);
            last["usage"] = self.usage.clone();
            chunks.push(last);
        }
        chunks
    }

    fn chunk(&self, delta: Value, finish: Value) -> Value {
        let mut chunk = self.envelope("chat.completion.chunk");
        chunk["choices"] = json!([{"index": 0, "delta": delta, "finish_reason": finish}]);
        if self.include_usage {
            chunk["usage"] = Value::Null;
        }
        chunk
    }

    fn envelope(&self, object: &str) -> Value {
        json!({"id": self.id, "object": object, "created": now_s(), "model": self.model})
    }
}

/// Arguments as text, up to where the output ended.
fn cut_off(mut arguments: Value, cut_at: Option<Short>) -> String {
    if cut_at == Some(Short::Keys)
        && let Some(members) = arguments.as_object_mut()
        && let Some(last) = members.keys().next_back().cloned()
    {
        members.remove(&last);
    }
    let mut text = arguments.to_string();
    if cut_at == Some(Short::Arguments) {
        text.truncate(half(&text));
    }
    text
}

fn half(text: &str) -> usize {
    cut_points(text, 2).first().copied().unwrap_or(0)
}

fn call_id() -> String {
    format!("call_{:016x}", random::<u64>())
}

/// A text in pieces of a few words, so that a reader sees it grow.
fn words(text: &str) -> impl Iterator<Item = String> {
    let words: Vec<_> = text.split_inclusive(' ').collect();
    // A long text takes larger pieces: its last piece must not take a minute.
    let size = (words.len() / 40).max(3);
    let pieces: Vec<_> = words.chunks(size).map(<[&str]>::concat).collect();
    pieces.into_iter()
}

/// A text in about `count` pieces of equal length.
fn pieces(text: &str, count: usize) -> Vec<&str> {
    let mut pieces = Vec::new();
    let mut start = 0;
    for end in cut_points(text, count).into_iter().chain([text.len()]) {
        if end > start {
            pieces.push(&text[start..end]);
            start = end;
        }
    }
    pieces
}

/// Where to cut a text into equal parts without cutting a character.
fn cut_points(text: &str, count: usize) -> Vec<usize> {
    let cut = |nth: usize| {
        let wanted = text.len() * nth / count;
        (0..=wanted)
            .rev()
            .find(|place| text.is_char_boundary(*place))
            .unwrap_or(0)
    };
    (1..count).map(cut).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_put_together_are_the_text() {
        for text in ["", "a", "äöü", r##"{"channel":"#général","text":"…"}"##] {
            assert_eq!(pieces(text, 3).concat(), text);
            assert_eq!(words(text).collect::<String>(), text);
        }
        assert!(pieces(r#"{"channel":"general"}"#, 3).len() == 3);
    }
}
