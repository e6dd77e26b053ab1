//! Rows for tests.

use serde_json::json;
use toshi_core::{
    Actor, Answer, Approval, ApprovalConnection, ApproverPolicy, AttemptId, BlockReason,
    CallOutcome, Canonical, Cause, Deadline, Event, Finish, How, Id, MessageAuthor, MessageId,
    MessageRow, Millis, NotSent, Outcome, Risk, Role, Sha256Hex, State, StepCall, StepRow, TurnId,
    TurnRow, TurnState, VoidReason,
};
use toshi_store::History;

pub(crate) const NOW: Millis = Millis::from_epoch(1_796_062_800_000);

pub(crate) fn id<K>(n: u128) -> Id<K> {
    Id::new(NOW, n)
}

pub(crate) fn turn(state: TurnState) -> TurnRow {
    TurnRow {
        turn: id(1),
        user: "ann".parse().unwrap(),
        message: "m-1".parse().unwrap(),
        message_seq: 1,
        answer: id(2),
        answer_seq: 2,
        state,
        steps: 1,
        run_at: NOW,
        takeovers: 0,
        interrupted_at: None,
        created_at: NOW,
        seq: 0,
        head: None,
    }
}

/// A question as it is asked for call `n`.
pub(crate) fn approval(n: u128) -> Approval {
    let arguments = Canonical::of(&json!({ "text": "Hi" })).unwrap();
    Approval {
        approval_id: id(100 + n),
        conversation: "0123456789abcdef0123456789abcdef".parse().unwrap(),
        client_id: "chat-0001".parse().unwrap(),
        turn: id(1),
        step: 1,
        call: id(n),
        connection: ApprovalConnection {
            id: "con-1".parse().unwrap(),
            connector: "demo".to_owned(),
            title: "Demo workspace".to_owned(),
            account: "acct-1".to_owned(),
            account_name: "Sample".to_owned(),
            epoch: 1,
        },
        tool: "post_message".to_owned(),
        tool_title: "Post a message".to_owned(),
        definition: Sha256Hex::of(b"definition"),
        arguments_hmac: "hmac".to_owned(),
        arguments,
        intent: Some("Tell everyone".to_owned()),
        effect: None,
        risk: Risk::Medium,
        requester: "ann".parse().unwrap(),
        requester_name: "Ann".to_owned(),
        approver: ApproverPolicy::Requester,
        created_at: NOW,
        decide_by: Deadline::at(NOW.plus(60_000)),
        run_by: None,
        state: State::Pending,
        decision: None,
        attempt: None,
        outcome: None,
        chunks: 0,
        blocked: None,
        not_sent: None,
        voided: None,
        resolution: None,
        supersedes: None,
        superseded_by: None,
        seq: 0,
        head: Sha256Hex::of(b""),
    }
}

pub(crate) fn succeeded() -> Outcome {
    let structured = Some(json!({ "ok": true }));
    Outcome::Succeeded {
        text: "{\"ok\":true}".to_owned(),
        structured,
        bytes: 11,
    }
}

/// The question on its way to `state`, one row for each thing that happens to it.
pub(crate) fn life(n: u128, state: State) -> Vec<Approval> {
    let attempt: AttemptId = id(7);
    let decide = |answer| Event::Decide {
        answer,
        reason: Some("So it is".to_owned()),
    };
    let yes = || decide(Answer::Approve);
    let claim = || Event::Claim {
        attempt,
        lease_until: NOW.plus(50_000),
    };
    let settle = |outcome| Event::Settle {
        attempt,
        outcome,
        chunks: 0,
    };
    let unknown = || {
        settle(Outcome::Unknown {
            why: "cut".to_owned(),
        })
    };
    let resolve = |done| Event::Resolve {
        done,
        reason: "I looked".to_owned(),
    };
    let events = match state {
        State::Pending => vec![],
        State::Approved => vec![yes()],
        State::Rejected => vec![decide(Answer::Reject)],
        State::Expired => vec![Event::Expire],
        State::Voided => vec![Event::Void(VoidReason::MessageReplaced)],
        State::Superseded => vec![yes(), Event::Supersede(id(200 + n))],
        State::Executing => vec![yes(), claim()],
        State::Blocked => vec![yes(), Event::Block(BlockReason::Killed)],
        State::Succeeded => vec![yes(), claim(), settle(succeeded())],
        State::Failed if n.is_multiple_of(2) => vec![yes(), Event::GiveUp(NotSent::ToolGone)],
        State::Failed => {
            let text = "no room".to_owned();
            vec![yes(), claim(), settle(Outcome::ReportedError { text })]
        }
        State::Unknown => vec![yes(), claim(), unknown()],
        State::ResolvedDone => vec![yes(), claim(), unknown(), resolve(true)],
        State::ResolvedNotDone => vec![yes(), claim(), unknown(), resolve(false)],
    };
    let mut rows = vec![approval(n)];
    for event in events {
        let row = rows.last().unwrap();
        let (cause, at) = match event {
            Event::Decide { .. } | Event::Resolve { .. } => (by_ann(), NOW),
            Event::Expire => (Cause::system(), NOW.plus(60_000)),
            _ => (Cause::system(), NOW),
        };
        let next = row.apply(event, &cause, at).unwrap().row;
        rows.push(next);
    }
    assert_eq!(rows.last().unwrap().state, state);
    rows
}

fn by_ann() -> Cause {
    let actor = Actor::User {
        id: "ann".parse().unwrap(),
        name: "Ann".to_owned(),
        role: Role::Admin,
    };
    Cause {
        actor,
        how: How::Web,
        request: None,
    }
}

pub(crate) fn call(n: u128, outcome: CallOutcome) -> StepCall {
    StepCall {
        call: id(n),
        name: "demo__post_message".to_owned(),
        connection: Some("con-1".parse().unwrap()),
        tool: "post_message".to_owned(),
        title: "Post a message · Demo workspace".to_owned(),
        arguments: Canonical::of(&json!({ "text": "Hi" })).unwrap(),
        outcome,
    }
}

pub(crate) fn asking(row: &Approval) -> StepCall {
    StepCall {
        call: row.call,
        ..call(
            0,
            CallOutcome::Approval {
                id: row.approval_id,
            },
        )
    }
}

pub(crate) fn step(n: u32, text: &str, calls: Vec<StepCall>) -> StepRow {
    StepRow {
        turn: id(1),
        n,
        answer: id(2),
        text: text.to_owned(),
        finish: if calls.is_empty() {
            Finish::Stop
        } else {
            Finish::ToolCalls
        },
        calls,
        at: NOW,
    }
}

pub(crate) fn said(seq: u64, turn: TurnId, text: &str) -> MessageRow {
    let id = format!("m-{seq}").parse().unwrap();
    MessageRow {
        seq,
        turn,
        author: MessageAuthor::User {
            id,
            text: text.to_owned(),
        },
        at: NOW,
        answers: None,
    }
}

pub(crate) fn answer(seq: u64, turn: TurnId, id: MessageId) -> MessageRow {
    MessageRow {
        seq,
        turn,
        author: MessageAuthor::Assistant { id },
        at: NOW,
        answers: None,
    }
}

/// One message and its answer in these steps.
pub(crate) fn history(steps: &[StepRow], approvals: &[Approval]) -> History {
    History {
        meta: None,
        messages: vec![said(1, id(1), "do it"), answer(2, id(1), id(2))],
        steps: steps.to_vec(),
        approvals: approvals
            .iter()
            .map(|row| (row.approval_id, row.clone()))
            .collect(),
        summary: None,
    }
}
