//! The AI SDK's UI message stream, protocol v1: its chunks, and a writer that keeps their order.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use serde::Serialize;
use serde_json::{Value, json};
use toshi_core::{
    Approval, CallId, CallOutcome, MessageId, State, StepCall, StepRow, TurnEnd, TurnId, TurnRow,
    TurnState,
};

use crate::progress::Progress;
use crate::view::{self, CallView};

/// How often a silent stream says that it is alive.
pub const KEEP_ALIVE: Duration = Duration::from_secs(15);

/// A comment: every client ignores it.
pub const fn keep_alive() -> &'static str {
    ": keep-alive\n\n"
}

/// The chunk types that we emit, and no others: a strict client stops at an unknown one.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(
    tag = "type",
    rename_all = "kebab-case",
    rename_all_fields = "camelCase"
)]
pub enum Chunk {
    Start {
        message_id: String,
    },
    StartStep,
    TextStart {
        id: String,
    },
    TextDelta {
        id: String,
        delta: String,
    },
    TextEnd {
        id: String,
    },
    ToolInputAvailable {
        tool_call_id: CallId,
        tool_name: String,
        input: Value,
        dynamic: bool,
        title: String,
        #[serde(skip_serializing_if = "Value::is_null")]
        tool_metadata: Value,
    },
    ToolApprovalRequest {
        approval_id: String,
        tool_call_id: CallId,
        #[serde(skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
        approval_descriptor: Value,
    },
    ToolApprovalResponse {
        approval_id: String,
        approved: bool,
        #[serde(skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
    },
    ToolOutputAvailable {
        tool_call_id: CallId,
        output: Value,
    },
    ToolOutputError {
        tool_call_id: CallId,
        error_text: String,
    },
    ToolOutputDenied {
        tool_call_id: CallId,
    },
    FinishStep,
    Finish {
        finish_reason: &'static str,
    },
    Error {
        error_text: String,
    },
    /// The end of the stream; not a JSON chunk.
    #[serde(skip)]
    Done,
}

impl Chunk {
    /// The server-sent event of this chunk.
    pub fn to_event(&self) -> String {
        match self {
            Self::Done => "data: [DONE]\n\n".to_owned(),
            chunk => {
                let json = serde_json::to_string(chunk).unwrap_or_default();
                format!("data: {json}\n\n")
            }
        }
    }
}

/// How far a call has been told.
#[derive(Clone, Debug, Default, PartialEq)]
struct Told {
    /// The question that was shown last.
    question: Option<toshi_core::ApprovalId>,
    answer: bool,
    /// A later result may replace an unknown outcome.
    output: Option<CallView>,
}

/// Turns what is stored, and the words under way, into chunks of one assistant message.
///
/// Everything but text comes from stored rows, so a live stream, a follower and a replay say the
/// same. Outputs are only told for calls of this message.
#[derive(Debug)]
pub(crate) struct Writer {
    answer: MessageId,
    turn: TurnId,
    calls: BTreeMap<CallId, Told>,
    steps: BTreeSet<u32>,
    /// The step whose text is being streamed, and what of it was sent.
    text: Option<(u32, String)>,
    opened_step: bool,
    out: Vec<Chunk>,
}

impl Writer {
    pub(crate) fn new(turn: TurnId, answer: MessageId) -> Self {
        Self {
            answer,
            turn,
            calls: BTreeMap::new(),
            steps: BTreeSet::new(),
            text: None,
            opened_step: false,
            out: vec![Chunk::Start {
                message_id: answer.to_string(),
            }],
        }
    }

    pub(crate) fn answer(&self) -> MessageId {
        self.answer
    }

    /// The client has these steps already; outputs of their calls may still be told.
    pub(crate) fn known(&mut self, step: &StepRow) {
        if step.answer != self.answer {
            return;
        }
        self.steps.insert(step.n);
        for call in &step.calls {
            let question = match call.outcome {
                CallOutcome::Approval { id } => Some(id),
                CallOutcome::Read { .. }
                | CallOutcome::Blocked { .. }
                | CallOutcome::Invalid { .. } => None,
            };
            let output = question.is_none().then(|| view::call_view(call, None));
            self.calls.insert(
                call.call,
                Told {
                    question,
                    answer: true,
                    output,
                },
            );
        }
    }

    /// The client answered this question, and shows that answer.
    pub(crate) fn answered(&mut self, row: &Approval, approved: bool) {
        if let Some(told) = self.calls.get_mut(&row.call) {
            let recorded = row.decision.as_ref().map(|decision| decision.answer);
            let recorded = recorded.map(|answer| answer == toshi_core::Answer::Approve);
            told.question = Some(row.approval_id);
            // The record's answer replaces another one.
            told.answer = recorded.is_none_or(|recorded| recorded == approved);
        }
    }

    /// Whether the client shows an answer to this question, and has heard no more of it.
    pub(crate) fn owes(&self, row: &Approval) -> bool {
        self.calls
            .get(&row.call)
            .is_none_or(|told| told.output.is_none() && told.question == Some(row.approval_id))
    }

    /// Whether a step was opened or ended since the start: a client that waits for one is served.
    pub(crate) fn opened_step(&self) -> bool {
        self.opened_step
    }

    pub(crate) fn take(&mut self) -> Vec<Chunk> {
        std::mem::take(&mut self.out)
    }

    pub(crate) fn progress(&mut self, progress: &Progress) {
        match progress {
            Progress::Text { answer, n, delta } if *answer == self.answer => self.words(*n, delta),
            Progress::Step { step, approvals } => self.step(step, approvals),
            Progress::Approval(row) => self.approval(row),
            Progress::Text { .. } | Progress::Turn(_) => {}
        }
    }

    fn words(&mut self, n: u32, delta: &str) {
        if self.steps.contains(&n) {
            return;
        }
        if self.text.as_ref().is_none_or(|(open, _)| *open != n) {
            self.close_text();
            self.out.push(Chunk::StartStep);
            self.out.push(Chunk::TextStart { id: text_id(n) });
            self.text = Some((n, String::new()));
            self.opened_step = true;
        }
        self.more_words(n, delta);
    }

    fn more_words(&mut self, n: u32, delta: &str) {
        if let Some((_, said)) = &mut self.text {
            said.push_str(delta);
        }
        self.out.push(Chunk::TextDelta {
            id: text_id(n),
            delta: delta.to_owned(),
        });
    }

    /// A stored step of this message.
    pub(crate) fn step(&mut self, step: &StepRow, approvals: &[Approval]) {
        if step.answer != self.answer || step.turn != self.turn {
            return;
        }
        if !self.steps.contains(&step.n) {
            self.opened_step = true;
            self.text_of(step);
            self.steps.insert(step.n);
            for call in &step.calls {
                let approval = approval_of(call, approvals);
                self.out.push(Chunk::ToolInputAvailable {
                    tool_call_id: call.call,
                    tool_name: call.name.clone(),
                    input: call.arguments.value(),
                    dynamic: true,
                    title: call.title.clone(),
                    tool_metadata: approval.map_or(Value::Null, view::metadata),
                });
                self.calls.insert(call.call, Told::default());
            }
            for call in &step.calls {
                self.call(call, approval_of(call, approvals));
            }
            self.out.push(Chunk::FinishStep);
            return;
        }
        for call in &step.calls {
            self.call(call, approval_of(call, approvals));
        }
    }

    /// The step's text: what the client has not read of it, with its end.
    fn text_of(&mut self, step: &StepRow) {
        let said = match &self.text {
            Some((n, said)) if *n == step.n => said.clone(),
            _ if step.text.is_empty() => {
                self.close_text();
                self.out.push(Chunk::StartStep);
                return;
            }
            _ => {
                self.words(step.n, &step.text);
                step.text.clone()
            }
        };
        // What is stored may say more than what was streamed, such as that it was cut off.
        let rest = step.text.strip_prefix(&said).unwrap_or(&step.text);
        if !rest.is_empty() {
            self.more_words(step.n, rest);
        }
        self.text = None;
        self.out.push(Chunk::TextEnd {
            id: text_id(step.n),
        });
    }

    /// An approval of a call that was told before.
    pub(crate) fn approval(&mut self, row: &Approval) {
        if row.turn != self.turn || !self.calls.contains_key(&row.call) {
            return;
        }
        self.question(row);
        self.output(row.call, &view::approval_view(row));
    }

    fn call(&mut self, call: &StepCall, approval: Option<&Approval>) {
        if let Some(row) = approval {
            self.question(row);
        }
        self.output(call.call, &view::call_view(call, approval));
    }

    /// The question, if this one has not been shown, and its answer, if there is one.
    fn question(&mut self, row: &Approval) {
        if row.state == State::Superseded {
            return;
        }
        let Some(told) = self.calls.get_mut(&row.call) else {
            return;
        };
        if told.question != Some(row.approval_id) {
            *told = Told {
                question: Some(row.approval_id),
                ..Told::default()
            };
            self.out.push(Chunk::ToolApprovalRequest {
                approval_id: row.approval_id.to_string(),
                tool_call_id: row.call,
                reason: row.intent.clone(),
                approval_descriptor: view::descriptor(row),
            });
        }
        if let Some(decision) = &row.decision
            && !told.answer
        {
            told.answer = true;
            self.out.push(Chunk::ToolApprovalResponse {
                approval_id: row.approval_id.to_string(),
                approved: decision.answer == toshi_core::Answer::Approve,
                reason: decision.reason.clone(),
            });
        }
    }

    fn output(&mut self, call: CallId, view: &CallView) {
        let Some(told) = self.calls.get_mut(&call) else {
            return;
        };
        if told.output.as_ref() == Some(view) {
            return;
        }
        let chunk = match view {
            CallView::Open => return,
            CallView::Output(output) => Chunk::ToolOutputAvailable {
                tool_call_id: call,
                output: output.clone(),
            },
            CallView::Error(text) => Chunk::ToolOutputError {
                tool_call_id: call,
                error_text: text.clone(),
            },
            CallView::Denied => Chunk::ToolOutputDenied { tool_call_id: call },
        };
        told.output = Some(view.clone());
        self.out.push(chunk);
    }

    /// A short step in our own words, which is not stored.
    pub(crate) fn note(&mut self, text: &str) {
        let id = "note".to_owned();
        self.close_text();
        self.opened_step = true;
        self.out.extend([
            Chunk::StartStep,
            Chunk::TextStart { id: id.clone() },
            Chunk::TextDelta {
                id: id.clone(),
                delta: text.to_owned(),
            },
            Chunk::TextEnd { id },
            Chunk::FinishStep,
        ]);
    }

    /// The end as the turn's state says; what was left open is closed.
    pub(crate) fn end(&mut self, turn: Option<&TurnRow>) {
        self.close_text();
        let finish_reason = match turn.map(|turn| &turn.state) {
            Some(TurnState::Waiting) => "tool-calls",
            Some(TurnState::Done {
                end: TurnEnd::Failed { sentence },
            }) => {
                self.out.push(Chunk::Error {
                    error_text: sentence.clone(),
                });
                "error"
            }
            Some(TurnState::Done { .. }) => "stop",
            Some(TurnState::Running) | None => "other",
        };
        self.out.push(Chunk::Finish { finish_reason });
        self.out.push(Chunk::Done);
    }

    /// The stream cannot go on.
    pub(crate) fn fail(&mut self, sentence: &str) {
        self.close_text();
        self.out.push(Chunk::Error {
            error_text: sentence.to_owned(),
        });
        self.out.push(Chunk::Finish {
            finish_reason: "error",
        });
        self.out.push(Chunk::Done);
    }

    fn close_text(&mut self) {
        if let Some((n, _)) = self.text.take() {
            self.out.push(Chunk::TextEnd { id: text_id(n) });
            self.out.push(Chunk::FinishStep);
        }
    }
}

fn approval_of<'a>(call: &StepCall, approvals: &'a [Approval]) -> Option<&'a Approval> {
    approvals.iter().find(|row| {
        call.outcome
            == CallOutcome::Approval {
                id: row.approval_id,
            }
    })
}

fn text_id(n: u32) -> String {
    format!("t{n}")
}

/// A stand-in for a value that a client reads as "no details".
pub(crate) fn text_output(text: &str) -> Value {
    json!({ "text": text })
}

#[cfg(test)]
#[path = "ui_tests.rs"]
mod tests;
