//! Stored rows in the AI SDK's message shapes: what a page loads, and what a stream says of a call.

use serde_json::{Map, Value, json};
use toshi_core::{
    Answer, Approval, ApprovalId, CallOutcome, InboxRow, MessageAuthor, Outcome, State, StepCall,
    StepRow, blocked_words, shortened_words, state_for_person,
};
use toshi_store::History;

use crate::ui::text_output;

/// What is shown of a call.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum CallView {
    /// Nothing to show yet.
    Open,
    Output(Value),
    /// In the person's words.
    Error(String),
    Denied,
}

pub(crate) fn call_view(call: &StepCall, approval: Option<&Approval>) -> CallView {
    match &call.outcome {
        CallOutcome::Approval { .. } => approval.map_or(CallView::Open, approval_view),
        CallOutcome::Read { outcome, chunks: _ } => match outcome {
            Outcome::Succeeded {
                text,
                structured,
                bytes,
            } => output(text, structured.as_ref(), *bytes),
            Outcome::ReportedError { text } => CallView::Error(text.clone()),
            Outcome::Refused { why } | Outcome::NotSent { why } | Outcome::Unknown { why } => {
                CallView::Error(format!("It could not be read: {why}."))
            }
        },
        CallOutcome::Blocked { why } => {
            CallView::Error(format!("Not done: {}.", blocked_words(*why)))
        }
        CallOutcome::Invalid { why } => CallView::Error(format!("Not done: {why}.")),
    }
}

pub(crate) fn approval_view(row: &Approval) -> CallView {
    match row.state {
        State::Pending | State::Approved | State::Executing | State::Superseded => CallView::Open,
        State::Rejected => CallView::Denied,
        State::Succeeded => match &row.outcome {
            Some(Outcome::Succeeded {
                text,
                structured,
                bytes,
            }) => output(text, structured.as_ref(), *bytes),
            _ => CallView::Output(text_output(&state_for_person(row))),
        },
        State::ResolvedDone => CallView::Output(text_output(&state_for_person(row))),
        State::Expired
        | State::Voided
        | State::Blocked
        | State::Failed
        | State::Unknown
        | State::ResolvedNotDone => CallView::Error(state_for_person(row)),
    }
}

fn output(text: &str, structured: Option<&Value>, bytes: u64) -> CallView {
    CallView::Output(match structured {
        Some(structured) => structured.clone(),
        None if (text.len() as u64) < bytes => {
            let note = shortened_words(text.len(), bytes);
            text_output(&format!("{text} …\n\n{note}"))
        }
        None => text_output(text),
    })
}

/// Where a call goes and what it does, for any client's card.
pub(crate) fn descriptor(row: &Approval) -> Value {
    json!({
        "title": row.tool_title,
        "connector": row.connection.connector,
        "workspace": row.connection.title,
        "account": row.connection.account_name,
        "tool": row.tool,
        "effect": row.effect,
        "risk": row.risk,
        "decide_by": row.decide_by.time().map(|time| time.to_string()),
        "intent": row.intent,
    })
}

pub(crate) fn metadata(row: &Approval) -> Value {
    json!({
        "approval_id": row.approval_id,
        "connector": row.connection.connector,
        "connection_id": row.connection.id,
        "workspace": row.connection.title,
        "account": row.connection.account_name,
        "risk": row.risk,
        "decide_by": row.decide_by.time().map(|time| time.to_string()),
    })
}

/// The conversation as a page loads it, oldest first. Messages that wait in the inbox come last.
pub(crate) fn messages(history: &History, inbox: &[InboxRow]) -> Vec<Value> {
    let shown = history
        .messages
        .iter()
        .filter(|row| !history.meta.as_ref().is_some_and(|meta| meta.hides(row)));
    let mut messages: Vec<Value> = shown
        .filter_map(|row| {
            let created_at = row.at.to_string();
            match &row.author {
                MessageAuthor::User { id, text } => {
                    Some(user_message(id.as_str(), text, &created_at))
                }
                MessageAuthor::Assistant { id } => {
                    let steps: Vec<&StepRow> = history
                        .steps
                        .iter()
                        .filter(|step| step.answer == *id)
                        .collect();
                    let parts: Vec<Value> = steps
                        .iter()
                        .flat_map(|step| step_parts(history, step))
                        .collect();
                    // An answer without a step has nothing to show; its stream will.
                    (!parts.is_empty()).then(|| {
                        json!({
                            "id": id,
                            "role": "assistant",
                            "parts": parts,
                            "metadata": { "created_at": created_at, "turn_id": row.turn },
                        })
                    })
                }
            }
        })
        .collect();
    messages.extend(
        inbox
            .iter()
            .map(|row| user_message(row.message.as_str(), &row.text, &row.at.to_string())),
    );
    messages
}

fn user_message(id: &str, text: &str, created_at: &str) -> Value {
    json!({
        "id": id,
        "role": "user",
        "parts": [{ "type": "text", "text": text }],
        "metadata": { "created_at": created_at },
    })
}

fn step_parts(history: &History, step: &StepRow) -> Vec<Value> {
    let mut parts = vec![json!({ "type": "step-start" })];
    if !step.text.is_empty() {
        parts.push(json!({ "type": "text", "text": step.text, "state": "done" }));
    }
    for call in &step.calls {
        let approval = match &call.outcome {
            CallOutcome::Approval { id } => find(history, *id),
            CallOutcome::Read { .. }
            | CallOutcome::Blocked { .. }
            | CallOutcome::Invalid { .. } => None,
        };
        parts.push(call_part(call, approval));
    }
    parts
}

fn find(history: &History, id: ApprovalId) -> Option<&Approval> {
    history.approvals.get(&id)
}

fn call_part(call: &StepCall, approval: Option<&Approval>) -> Value {
    let mut part = Map::new();
    let mut put = |name: &str, value: Value| part.insert(name.to_owned(), value);
    put("type", "dynamic-tool".into());
    put("toolName", call.name.clone().into());
    put("toolCallId", call.call.to_string().into());
    put("title", call.title.clone().into());
    put("input", call.arguments.value());
    let pending = approval.is_some_and(|row| row.state == State::Pending);
    let answer = approval
        .and_then(|row| row.decision.as_ref())
        .map(|decision| decision.answer);
    // With some states the SDK's own types take no approval, or only a granted or a denied one.
    let (state, has_approval) = match call_view(call, approval) {
        // Never "answered": a client that seeds that in its last step would send it again.
        CallView::Open if pending => ("approval-requested", true),
        CallView::Open => ("input-available", false),
        CallView::Denied => ("output-denied", answer == Some(Answer::Reject)),
        CallView::Output(output) => {
            put("output", output);
            ("output-available", answer == Some(Answer::Approve))
        }
        CallView::Error(text) => {
            put("errorText", text.into());
            ("output-error", answer == Some(Answer::Approve))
        }
    };
    put("state", state.into());
    if let Some(row) = approval {
        put("toolMetadata", metadata(row));
        if has_approval {
            put("approval", approval_part(row));
        }
    }
    Value::Object(part)
}

fn approval_part(row: &Approval) -> Value {
    let mut part = json!({
        "id": row.approval_id,
        "requestReason": row.intent,
        "descriptor": descriptor(row),
    });
    if let (Value::Object(part), Some(decision)) = (&mut part, &row.decision) {
        let approved = decision.answer == Answer::Approve;
        part.insert("approved".to_owned(), approved.into());
        if let Some(reason) = &decision.reason {
            part.insert("reason".to_owned(), reason.clone().into());
        }
    }
    part
}

#[cfg(test)]
#[path = "view_tests.rs"]
mod tests;
