//! A client as strict as the AI SDK's: refuses what it refuses, and shows what it would show.

use serde_json::{Map, Value, json};

/// The end of a stream, which is no JSON chunk.
pub(crate) const DONE: &str = "[DONE]";

/// Required and optional fields of the chunks that we emit.
const CHUNKS: &[(&str, &[&str], &[&str])] = &[
    ("start", &["messageId"], &[]),
    ("start-step", &[], &[]),
    ("finish-step", &[], &[]),
    ("text-start", &["id"], &[]),
    ("text-delta", &["id", "delta"], &[]),
    ("text-end", &["id"], &[]),
    (
        "tool-input-available",
        &["toolCallId", "toolName", "input", "dynamic", "title"],
        &["toolMetadata"],
    ),
    (
        "tool-approval-request",
        &["approvalId", "toolCallId", "approvalDescriptor"],
        &["reason"],
    ),
    (
        "tool-approval-response",
        &["approvalId", "approved"],
        &["reason"],
    ),
    ("tool-output-available", &["toolCallId", "output"], &[]),
    ("tool-output-error", &["toolCallId", "errorText"], &[]),
    ("tool-output-denied", &["toolCallId"], &[]),
    ("finish", &["finishReason"], &[]),
    ("error", &["errorText"], &[]),
];

const FINISH: [&str; 7] = [
    "stop",
    "length",
    "content-filter",
    "tool-calls",
    "error",
    "interrupted",
    "other",
];

/// The message on a person's screen.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Screen {
    pub(crate) id: String,
    pub(crate) parts: Vec<Value>,
    pub(crate) finish: String,
    pub(crate) error: Option<String>,
}

impl Screen {
    /// What a client shows after a stream that answers a new message.
    pub(crate) fn of(chunks: &[Value]) -> Self {
        Self::default().after(chunks)
    }

    /// What a client shows that had this message already.
    pub(crate) fn after(mut self, chunks: &[Value]) -> Self {
        let mut open_text: Option<String> = None;
        let mut in_step = false;
        let mut ended = false;
        let count = chunks.len();
        assert!(count >= 3, "a stream has a start and an end: {chunks:#?}");
        assert_eq!(chunks[count - 1], DONE, "the last event: {chunks:#?}");
        assert_eq!(chunks[0]["type"], "start", "the first chunk: {chunks:#?}");
        assert_eq!(
            chunks[count - 2]["type"],
            "finish",
            "the last chunk: {chunks:#?}"
        );
        for (place, chunk) in chunks[..count - 1].iter().enumerate() {
            let kind = well_formed(chunk);
            let text = |name: &str| chunk[name].as_str().unwrap_or_default().to_owned();
            assert!(!ended || kind == "finish", "{kind} after an error");
            match kind {
                "start" => {
                    assert_eq!(place, 0, "a second start");
                    let id = text("messageId");
                    assert!(self.id.is_empty() || self.id == id, "another message");
                    self.id = id;
                }
                "start-step" => {
                    assert!(!in_step, "a step inside a step");
                    in_step = true;
                    self.parts.push(json!({ "type": "step-start" }));
                }
                "finish-step" => {
                    assert!(in_step && open_text.is_none(), "the end of no step");
                    in_step = false;
                }
                "text-start" => {
                    assert!(in_step && open_text.is_none(), "a text outside a step");
                    open_text = Some(text("id"));
                    self.parts
                        .push(json!({ "type": "text", "text": "", "state": "done" }));
                }
                "text-delta" => {
                    assert_eq!(open_text, Some(text("id")), "words of no open text");
                    let last = self.parts.last_mut().unwrap();
                    last["text"] = json!(format!(
                        "{}{}",
                        last["text"].as_str().unwrap(),
                        text("delta")
                    ));
                }
                "text-end" => {
                    assert_eq!(
                        open_text.take(),
                        Some(text("id")),
                        "the end of no open text"
                    );
                }
                "tool-input-available" => {
                    assert!(in_step && open_text.is_none(), "a call outside a step");
                    assert_eq!(chunk["dynamic"], true);
                    let id = text("toolCallId");
                    assert!(self.call(&id).is_none(), "call {id} twice");
                    let mut part = json!({
                        "type": "dynamic-tool",
                        "toolName": chunk["toolName"],
                        "toolCallId": id,
                        "title": chunk["title"],
                        "input": chunk["input"],
                        "state": "input-available",
                    });
                    if let Some(metadata) = chunk.get("toolMetadata") {
                        part["toolMetadata"] = metadata.clone();
                    }
                    self.parts.push(part);
                }
                "tool-approval-request" => {
                    let part = self.known(&text("toolCallId"));
                    part["state"] = json!("approval-requested");
                    let mut approval = json!({
                        "id": chunk["approvalId"],
                        "descriptor": chunk["approvalDescriptor"],
                    });
                    if let Some(reason) = chunk.get("reason") {
                        approval["requestReason"] = reason.clone();
                    }
                    part["approval"] = approval;
                }
                "tool-approval-response" => {
                    let id = text("approvalId");
                    let part = self
                        .parts
                        .iter_mut()
                        .find(|part| part["approval"]["id"] == id);
                    let part = part.unwrap_or_else(|| panic!("an answer to no request: {id}"));
                    part["state"] = json!("approval-responded");
                    part["approval"]["approved"] = chunk["approved"].clone();
                    if let Some(reason) = chunk.get("reason") {
                        part["approval"]["reason"] = reason.clone();
                    }
                }
                "tool-output-available" => {
                    let part = self.known(&text("toolCallId"));
                    part["state"] = json!("output-available");
                    part["output"] = chunk["output"].clone();
                    // The client's part has either.
                    part.as_object_mut().unwrap().remove("errorText");
                }
                "tool-output-error" => {
                    let part = self.known(&text("toolCallId"));
                    part["state"] = json!("output-error");
                    part["errorText"] = chunk["errorText"].clone();
                }
                "tool-output-denied" => {
                    self.known(&text("toolCallId"))["state"] = json!("output-denied");
                }
                "error" => {
                    ended = true;
                    self.error = Some(text("errorText"));
                }
                "finish" => {
                    assert_eq!(place, count - 2, "a finish before the end");
                    assert!(
                        !in_step && open_text.is_none(),
                        "a finish inside a step: {chunks:#?}"
                    );
                    self.finish = text("finishReason");
                    assert!(FINISH.contains(&self.finish.as_str()), "{}", self.finish);
                }
                other => panic!("no client knows {other}"),
            }
        }
        self
    }

    /// The person answers a card: their client changes its own part.
    pub(crate) fn answer(&mut self, approval: &str, approved: bool, reason: Option<&str>) {
        let part = self
            .parts
            .iter_mut()
            .find(|part| part["approval"]["id"] == approval);
        let part = part.unwrap_or_else(|| panic!("no card {approval}"));
        part["state"] = json!("approval-responded");
        part["approval"]["approved"] = json!(approved);
        if let Some(reason) = reason {
            part["approval"]["reason"] = json!(reason);
        }
    }

    /// Whether a client that sends by itself after the last answer would send again now: the rule
    /// that turns a careless server into an endless loop.
    pub(crate) fn would_send_again(&self) -> bool {
        if self.error.is_some() {
            return false;
        }
        let step = self
            .parts
            .iter()
            .rposition(|part| part["type"] == "step-start");
        let calls: Vec<&str> = self.parts[step.unwrap_or(0)..]
            .iter()
            .filter(|part| part["type"] == "dynamic-tool")
            .map(|part| part["state"].as_str().unwrap())
            .collect();
        let settled = [
            "approval-responded",
            "output-available",
            "output-error",
            "output-denied",
        ];
        calls.contains(&"approval-responded") && calls.iter().all(|state| settled.contains(state))
    }

    pub(crate) fn text(&self) -> String {
        let texts = self.parts.iter().filter_map(|part| part["text"].as_str());
        texts.collect::<Vec<_>>().join("\n")
    }

    pub(crate) fn calls(&self) -> Vec<&Value> {
        self.parts
            .iter()
            .filter(|part| part["type"] == "dynamic-tool")
            .collect()
    }

    pub(crate) fn states(&self) -> Vec<&str> {
        self.calls()
            .into_iter()
            .map(|part| part["state"].as_str().unwrap())
            .collect()
    }

    fn call(&mut self, id: &str) -> Option<&mut Value> {
        self.parts.iter_mut().find(|part| part["toolCallId"] == id)
    }

    fn known(&mut self, id: &str) -> &mut Value {
        self.call(id)
            .unwrap_or_else(|| panic!("no call {id} in this message"))
    }

    /// The message as a page loads it is the message as it was streamed.
    pub(crate) fn assert_is_stored_as(&self, message: &Value) {
        assert_eq!(message["id"], self.id);
        let comparable = |part: &Value| {
            let mut part = without_nulls(part);
            if let Some(metadata) = part.get_mut("toolMetadata").and_then(Value::as_object_mut) {
                // A question that was asked again has a new id and limit, which only its card can say.
                metadata.remove("approval_id");
                metadata.remove("decide_by");
            }
            // A stored part has its approval only where the client's types take it.
            let approved = &part["approval"]["approved"];
            let fits = match part["state"].as_str().unwrap_or_default() {
                "approval-requested" => approved.is_null(),
                "output-denied" => approved == false,
                "output-available" | "output-error" => approved == true,
                _ => false,
            };
            if let (false, Some(part)) = (fits, part.as_object_mut()) {
                part.remove("approval");
            }
            part
        };
        let stored: Vec<Value> = message["parts"]
            .as_array()
            .unwrap()
            .iter()
            .map(comparable)
            .collect();
        let shown: Vec<Value> = self.parts.iter().map(comparable).collect();
        assert_eq!(stored, shown);
    }
}

fn without_nulls(value: &Value) -> Value {
    match value {
        Value::Object(fields) => {
            let kept = fields.iter().filter(|(_, value)| !value.is_null());
            Value::Object(
                kept.map(|(name, value)| (name.clone(), without_nulls(value)))
                    .collect(),
            )
        }
        other => other.clone(),
    }
}

/// The type of a chunk that has all it must have and nothing that it may not.
fn well_formed(chunk: &Value) -> &str {
    let fields: &Map<String, Value> = chunk.as_object().unwrap_or_else(|| panic!("{chunk}"));
    let kind = fields["type"].as_str().unwrap();
    let known = CHUNKS.iter().find(|(name, ..)| *name == kind);
    let (_, required, optional) = known.unwrap_or_else(|| panic!("unknown chunk {chunk}"));
    for name in *required {
        let value = fields
            .get(*name)
            .unwrap_or_else(|| panic!("{kind} without {name}"));
        let fits = match *name {
            "dynamic" | "approved" => value.is_boolean(),
            "input" | "output" | "approvalDescriptor" => !value.is_null(),
            _ => value.is_string(),
        };
        assert!(fits, "{kind}: {name} is {value}");
    }
    for (name, value) in fields {
        let listed = name == "type"
            || required.contains(&name.as_str())
            || optional.contains(&name.as_str());
        assert!(listed, "{kind} with {name}");
        assert!(name != "reason" || value.is_string(), "{kind}: {value}");
    }
    kind
}

/// The chunk of a server-sent event.
pub(crate) fn read(event: &str) -> Value {
    let data = event
        .strip_prefix("data: ")
        .and_then(|rest| rest.strip_suffix("\n\n"));
    let data = data.unwrap_or_else(|| panic!("no event: {event:?}"));
    assert!(!data.contains('\n'));
    if data == DONE {
        json!(DONE)
    } else {
        serde_json::from_str(data).unwrap()
    }
}
