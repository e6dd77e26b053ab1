//! Turns, steps and messages, and what a runner does next.

use serde::{Deserialize, Serialize};

use crate::approval::{BlockReason, State};
use crate::conversation::{INTERRUPTED_MAX_MS, MAX_TAKEOVERS};
use crate::limits::{CLAIM_NEEDS_MS, TURN_NEEDS_MS};
use crate::settle::Outcome;
use crate::{
    Approval, ApprovalId, CallId, Canonical, ConnectionId, InboxId, MessageId, Millis, Sha256Hex,
    TurnId, UserId, UserMessageId,
};

/// How a turn ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum TurnEnd {
    Complete,
    /// It reached a limit; the sentence says which.
    Limit {
        sentence: String,
    },
    Failed {
        sentence: String,
    },
    /// Its runner died and nobody could take over.
    Interrupted,
    /// Its message was sent again with another text.
    Replaced,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "state", rename_all = "snake_case")]
pub enum TurnState {
    /// A runner is at it, or was when it died.
    Running,
    /// Its last step waits for people.
    Waiting,
    Done {
        end: TurnEnd,
    },
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TurnRow {
    pub turn: TurnId,
    pub user: UserId,
    pub message: UserMessageId,
    /// The number of the user's message.
    pub message_seq: u64,
    /// The assistant message that the next step belongs to.
    pub answer: MessageId,
    pub answer_seq: u64,
    #[serde(flatten)]
    pub state: TurnState,
    /// Steps stored so far.
    pub steps: u32,
    /// When the current run began; pauses do not count.
    pub run_at: Millis,
    pub takeovers: u32,
    pub interrupted_at: Option<Millis>,
    pub created_at: Millis,
    /// The chain of its audit records (reads).
    pub seq: u64,
    pub head: Option<Sha256Hex>,
}

impl TurnRow {
    pub const fn is_done(&self) -> bool {
        matches!(self.state, TurnState::Done { .. })
    }
}

/// What became of one call of a step.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum CallOutcome {
    Read {
        outcome: Outcome,
        chunks: u32,
    },
    /// A write: the approval is the truth.
    Approval {
        id: ApprovalId,
    },
    Blocked {
        why: BlockReason,
    },
    /// The model's own mistake: arguments that do not fit, a tool that is not offered.
    Invalid {
        why: String,
    },
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StepCall {
    pub call: CallId,
    /// The name the model was shown, `type__tool`.
    pub name: String,
    pub connection: Option<ConnectionId>,
    pub tool: String,
    /// What a person reads.
    pub title: String,
    pub arguments: Canonical,
    pub outcome: CallOutcome,
}

/// How the model ended its output.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Finish {
    Stop,
    ToolCalls,
    /// Cut off at the token limit.
    Length,
    ContentFilter,
}

/// One model call and its tool calls.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StepRow {
    pub turn: TurnId,
    pub n: u32,
    pub answer: MessageId,
    pub text: String,
    pub calls: Vec<StepCall>,
    pub finish: Finish,
    pub at: Millis,
}

impl StepRow {
    pub fn approvals(&self) -> impl Iterator<Item = ApprovalId> {
        self.calls.iter().filter_map(|call| match &call.outcome {
            CallOutcome::Approval { id } => Some(*id),
            CallOutcome::Read { .. }
            | CallOutcome::Blocked { .. }
            | CallOutcome::Invalid { .. } => None,
        })
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "author", rename_all = "snake_case")]
pub enum MessageAuthor {
    User { id: UserMessageId, text: String },
    Assistant { id: MessageId },
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MessageRow {
    pub seq: u64,
    pub turn: TurnId,
    #[serde(flatten)]
    pub author: MessageAuthor,
    pub at: Millis,
    /// Of an answer that goes on after newer messages: the number of the message that it answers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answers: Option<u64>,
}

/// A message that came while another turn was running.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct InboxRow {
    pub inbox: InboxId,
    /// The ids that its turn and its answer will have, so that whoever sent it can follow.
    pub turn: TurnId,
    pub answer: MessageId,
    pub user: UserId,
    pub message: UserMessageId,
    pub text: String,
    pub at: Millis,
    /// It replaces the conversation from this message number on.
    pub replaces_from: Option<u64>,
}

/// A turn that is not done, with its last step and that step's approvals.
#[derive(Clone, Debug, PartialEq)]
pub struct OpenTurn {
    pub turn: TurnRow,
    pub step: Option<StepRow>,
    pub approvals: Vec<Approval>,
}

impl OpenTurn {
    /// Every call of the step has its result. One whose approval was not read has none.
    fn is_complete(&self) -> bool {
        let settled = |id| {
            self.approvals
                .iter()
                .any(|approval| approval.approval_id == id && approval.state.is_settled())
        };
        self.step
            .as_ref()
            .is_none_or(|step| step.approvals().all(settled))
    }
}

/// What a runner under the lease does next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Work {
    /// A time limit of this approval ran out: its question's, its call's or its claim's.
    Expire(ApprovalId),
    /// Run this approved call.
    Call(ApprovalId),
    /// The step is complete: ask the model to go on.
    Continue(TurnId),
    /// The turn's runner died: do its step again.
    TakeOver(TurnId),
    /// Too many or too late: tell the person.
    Interrupt(TurnId),
    Start(InboxId),
    /// There is work, but too little time left for it: release and send the hint again.
    HandOver,
    /// Nothing but what people and clocks will bring.
    Idle,
}

/// At every step boundary and before a release: 1 approved calls, 2 completed or interrupted
/// steps, 3 the next message. `left_ms` is what the invocation still has.
pub fn next_work(open: &[OpenTurn], inbox: &[InboxRow], now: Millis, left_ms: i64) -> Work {
    let work = wanted(open, inbox, now);
    let needs = match work {
        Work::Call(_) => CLAIM_NEEDS_MS,
        Work::Continue(_) | Work::TakeOver(_) | Work::Start(_) => TURN_NEEDS_MS,
        Work::Expire(_) | Work::Interrupt(_) | Work::HandOver | Work::Idle => 0,
    };
    if left_ms < needs {
        Work::HandOver
    } else {
        work
    }
}

/// Whether there is anything to do besides this work: whoever lets go of the conversation with its
/// last step would leave it behind.
pub fn besides(work: &Work, open: &[OpenTurn], inbox: &[InboxRow], now: Millis) -> bool {
    let open: Vec<OpenTurn> = open
        .iter()
        .filter(|one| match work {
            Work::Continue(id) | Work::TakeOver(id) | Work::Interrupt(id) => one.turn.turn != *id,
            Work::Expire(_) | Work::Call(_) | Work::Start(_) | Work::HandOver | Work::Idle => true,
        })
        .cloned()
        .collect();
    let inbox: Vec<InboxRow> = inbox
        .iter()
        .filter(|row| *work != Work::Start(row.inbox))
        .cloned()
        .collect();
    wanted(&open, &inbox, now) != Work::Idle
}

fn wanted(open: &[OpenTurn], inbox: &[InboxRow], now: Millis) -> Work {
    let approvals = || open.iter().flat_map(|turn| &turn.approvals);
    // A claim whose runner died too: what became of its call is on record before another is made.
    if let Some(over) = approvals().find(|approval| approval.is_overdue(now)) {
        return Work::Expire(over.approval_id);
    }
    if let Some(approved) = approvals().find(|approval| approval.state == State::Approved) {
        return Work::Call(approved.approval_id);
    }
    for waiting in open {
        let turn = &waiting.turn;
        match &turn.state {
            TurnState::Waiting if waiting.is_complete() => return Work::Continue(turn.turn),
            TurnState::Running => {
                let interrupted_at = turn.interrupted_at.unwrap_or(now);
                let too_late = interrupted_at.until(now) > INTERRUPTED_MAX_MS;
                return if turn.takeovers >= MAX_TAKEOVERS || too_late {
                    Work::Interrupt(turn.turn)
                } else {
                    Work::TakeOver(turn.turn)
                };
            }
            TurnState::Waiting | TurnState::Done { .. } => {}
        }
    }
    inbox
        .first()
        .map_or(Work::Idle, |row| Work::Start(row.inbox))
}

#[cfg(test)]
#[path = "turn_tests.rs"]
mod tests;
