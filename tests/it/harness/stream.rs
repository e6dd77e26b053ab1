use std::collections::BTreeSet;

use serde_json::Value;

use super::Answer;

/// What a real client knows, with the fields that it insists on. It stops at anything else.
const LISTED: &[(&str, &[&str])] = &[
    ("start", &["messageId"]),
    ("start-step", &[]),
    ("text-start", &["id"]),
    ("text-delta", &["id", "delta"]),
    ("text-end", &["id"]),
    ("tool-input-available", &["toolCallId", "toolName", "input"]),
    ("tool-approval-request", &["approvalId", "toolCallId"]),
    ("tool-approval-response", &["approvalId", "approved"]),
    ("tool-output-available", &["toolCallId", "output"]),
    ("tool-output-error", &["toolCallId", "errorText"]),
    ("tool-output-denied", &["toolCallId"]),
    ("finish-step", &[]),
    ("finish", &["finishReason"]),
    ("error", &["errorText"]),
];
const FINISH: &[&str] = &[
    "stop",
    "length",
    "content-filter",
    "tool-calls",
    "error",
    "interrupted",
    "other",
];

/// A chat stream that was read to its end.
#[derive(Clone, Debug)]
pub(crate) struct Told {
    pub(crate) chunks: Vec<Value>,
}

impl Told {
    /// Every stream is checked: only listed chunks, one start, one end.
    #[track_caller]
    pub(crate) fn of(answer: &Answer) -> Self {
        assert_eq!(answer.status, 200, "{}", answer.text);
        assert_eq!(answer.header("content-type"), "text/event-stream");
        assert_eq!(answer.header("x-vercel-ai-ui-message-stream"), "v1");
        let mut events = data(&answer.text);
        assert_eq!(events.pop().as_deref(), Some("[DONE]"), "{}", answer.text);
        let chunks: Vec<Value> = events
            .iter()
            .map(|text| serde_json::from_str(text).expect("JSON"))
            .collect();
        let told = Self { chunks };
        told.check();
        told
    }

    #[track_caller]
    fn check(&self) {
        for chunk in &self.chunks {
            let kind = chunk["type"].as_str().expect("a type");
            let listed = LISTED.iter().find(|(name, _)| *name == kind);
            let (_, fields) = listed.unwrap_or_else(|| panic!("not listed: {chunk}"));
            assert!(
                fields.iter().all(|field| !chunk[*field].is_null()),
                "incomplete: {chunk}"
            );
        }
        let kinds = self.kinds();
        assert_eq!(kinds.first(), Some(&"start"), "{kinds:?}");
        assert_eq!(kinds.last(), Some(&"finish"), "{kinds:?}");
        for once in ["start", "finish"] {
            assert_eq!(
                kinds.iter().filter(|kind| **kind == once).count(),
                1,
                "{kinds:?}"
            );
        }
        assert!(FINISH.contains(&self.finish()), "{:?}", self.chunks);
        let open: BTreeSet<&str> = self.texts("text-start", "id").collect();
        assert!(
            self.texts("text-delta", "id").all(|id| open.contains(id)),
            "{:?}",
            self.chunks
        );
        assert!(!self.message_id().is_empty());
    }

    pub(crate) fn kinds(&self) -> Vec<&str> {
        self.chunks
            .iter()
            .map(|chunk| chunk["type"].as_str().unwrap_or_default())
            .collect()
    }

    pub(crate) fn of_kind<'a>(&'a self, kind: &'a str) -> impl Iterator<Item = &'a Value> {
        self.chunks
            .iter()
            .filter(move |chunk| chunk["type"] == kind)
    }

    fn texts<'a>(&'a self, kind: &'a str, field: &'a str) -> impl Iterator<Item = &'a str> {
        self.of_kind(kind)
            .map(move |chunk| chunk[field].as_str().unwrap_or_default())
    }

    pub(crate) fn message_id(&self) -> &str {
        self.texts("start", "messageId").next().unwrap_or_default()
    }

    pub(crate) fn finish(&self) -> &str {
        self.texts("finish", "finishReason")
            .next()
            .unwrap_or_default()
    }

    pub(crate) fn text(&self) -> String {
        self.texts("text-delta", "delta").collect()
    }

    /// The approvals that are asked for, in their order.
    pub(crate) fn approvals(&self) -> Vec<String> {
        self.texts("tool-approval-request", "approvalId")
            .map(ToOwned::to_owned)
            .collect()
    }
}

/// The data of each server-sent event; comments are passed over.
pub(crate) fn data(text: &str) -> Vec<String> {
    let lines = text.lines().filter_map(|line| line.strip_prefix("data: "));
    lines.map(ToOwned::to_owned).collect()
}
