//! Core's own rows and events, made from the model's small ones and read back.

use toshi_core::{
    Actor, Answer, Approval, ApprovalConnection, ApprovalId, ApproverPolicy, AttemptId,
    BlockReason, CallOutcome, Canonical, Cause, ClientId, ConversationId, Deadline, Event, Finish,
    How, Id, InboxRow, NotSent, Outcome, Risk, Role, Sha256Hex, State, StepCall, StepRow, TurnEnd,
    TurnId, TurnRow, TurnState, UserId, VoidReason, WireFault, Work, classify_write,
};

use crate::rows::{Brought, Facts, Happening, Job, Phase, T0, Time, Turn, at, in_set, time};

impl Brought {
    fn outcome(self) -> Outcome {
        match self {
            Self::Done => Outcome::Succeeded {
                text: "posted".to_owned(),
                structured: None,
                bytes: 6,
            },
            Self::Refused => classify_write(&WireFault::HttpStatus {
                status: 400,
                session: true,
            }),
            Self::NotSent => classify_write(&WireFault::NotSent("too late".to_owned())),
            Self::Unknown => classify_write(&WireFault::Cut),
        }
    }
}

impl Happening {
    pub(crate) fn event(self) -> (Event, Cause) {
        let system = |event| (event, Cause::system());
        match self {
            Self::Decide { yes } => {
                let answer = if yes { Answer::Approve } else { Answer::Reject };
                let reason = None;
                (Event::Decide { answer, reason }, requester())
            }
            Self::Expire => system(Event::Expire),
            Self::Void => system(Event::Void(VoidReason::MessageReplaced)),
            Self::Supersede(slot) => system(Event::Supersede(approval_id(slot))),
            Self::Block => system(Event::Block(BlockReason::OutcomeUnknown)),
            Self::GiveUp => system(Event::GiveUp(NotSent::ServerUnreachable)),
            Self::Claim { attempt, until } => system(Event::Claim {
                attempt: attempt_id(attempt),
                lease_until: at(until),
            }),
            Self::SendAgain { attempt } => system(Event::SendAgain {
                attempt: attempt_id(attempt),
            }),
            Self::Settle { attempt, brought } => system(Event::Settle {
                attempt: attempt_id(attempt),
                outcome: brought.outcome(),
                chunks: 0,
            }),
            Self::Abandon => system(Event::Abandon),
            Self::Resolve { done } => {
                let reason = "I looked".to_owned();
                (Event::Resolve { done, reason }, requester())
            }
        }
    }
}

fn id<K>(number: u8) -> Id<K> {
    Id::new(T0, u128::from(number) + 1)
}

fn approval_id(slot: u8) -> ApprovalId {
    id(slot)
}

fn attempt_id(number: u8) -> AttemptId {
    id(number)
}

fn turn_id(turn: u8) -> TurnId {
    id(turn)
}

fn slot_of(id: ApprovalId) -> u8 {
    (0..).find(|slot| approval_id(*slot) == id).unwrap()
}

fn turn_of(id: TurnId) -> u8 {
    (0..).find(|turn| turn_id(*turn) == id).unwrap()
}

pub(crate) fn ann() -> UserId {
    "ann".parse().unwrap()
}

pub(crate) fn client() -> ClientId {
    "chat-0001".parse().unwrap()
}

/// Both surfaces bring the same person: through which one she answered changes only the record.
fn requester() -> Cause {
    Cause {
        actor: Actor::User {
            id: ann(),
            name: "Ann".to_owned(),
            role: Role::Teacher,
        },
        how: How::Web,
        request: None,
    }
}

pub(crate) fn question(slot: u8, turn: u8, step: u8, alike: bool, decide_by: Time) -> Approval {
    let text = if alike {
        r##"{"channel":"#staff","text":"hi"}"##.to_owned()
    } else {
        format!(r##"{{"channel":"#staff","text":"hi {slot}"}}"##)
    };
    Approval {
        approval_id: approval_id(slot),
        conversation: ConversationId::of(&ann(), &client()),
        client_id: client(),
        turn: turn_id(turn),
        step: u32::from(step),
        call: id(slot),
        connection: ApprovalConnection {
            id: "con-1".parse().unwrap(),
            connector: "demo".to_owned(),
            title: "Demo workspace".to_owned(),
            account: "acct-1".to_owned(),
            account_name: "Lakeside workspace".to_owned(),
            epoch: 1,
        },
        tool: "post_message".to_owned(),
        tool_title: "Post a message".to_owned(),
        definition: Sha256Hex::of(b"definition"),
        arguments: Canonical::parse(&text).unwrap(),
        arguments_hmac: "hmac".to_owned(),
        intent: None,
        effect: None,
        risk: Risk::Medium,
        requester: ann(),
        requester_name: "Ann".to_owned(),
        approver: ApproverPolicy::Requester,
        created_at: T0,
        decide_by: Deadline::at(at(decide_by)),
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

/// Without the moments that are kept for readers only, and the limits that have had their say: rows
/// that differ in nothing else are one. [`Rows::apply`] checks that no rule tells them apart.
pub(crate) fn projected(mut row: Approval) -> Approval {
    if let Some(decision) = &mut row.decision {
        decision.at = T0;
    }
    if let Some(resolution) = &mut row.resolution {
        resolution.at = T0;
    }
    if row.state != State::Pending {
        row.decide_by = Deadline::at(T0);
    }
    if row.state != State::Approved {
        row.run_by = row.run_by.map(|_| Deadline::at(T0));
    }
    if let Some(attempt) = &mut row.attempt
        && row.state != State::Executing
    {
        attempt.lease_until = Deadline::at(T0);
    }
    row
}

pub(crate) fn facts(row: &Approval) -> Facts {
    let attempt = row.attempt.as_ref().map(|attempt| {
        (0..)
            .find(|number| attempt_id(*number) == attempt.id)
            .unwrap()
    });
    let overdue = row.overdue().map(|event| match event {
        Event::Expire => Happening::Expire,
        Event::Abandon => Happening::Abandon,
        other => panic!("the sweep does more than the model knows: {other:?}"),
    });
    let yes = |answer| answer == Answer::Approve;
    Facts {
        turn: turn_of(row.turn),
        step: u8::try_from(row.step).unwrap(),
        state: row.state,
        seq: u8::try_from(row.seq).unwrap(),
        attempt,
        yes: row.decision.as_ref().map(|decision| yes(decision.answer)),
        due: row.due(T0).map(time),
        overdue,
        decide_by: row.decide_by.time().map(time).unwrap(),
        run_by: row.run_by.and_then(Deadline::time).map(time),
    }
}

pub(crate) fn turn_row(number: u8, turn: &Turn) -> TurnRow {
    TurnRow {
        turn: turn_id(number),
        user: ann(),
        message: "m-1".parse().unwrap(),
        message_seq: u64::from(number),
        answer: id(number),
        answer_seq: u64::from(turn.answer_seq),
        state: match turn.phase {
            Phase::Running => TurnState::Running,
            Phase::Waiting => TurnState::Waiting,
            Phase::Done => TurnState::Done {
                end: TurnEnd::Complete,
            },
        },
        steps: u32::from(turn.steps),
        run_at: T0,
        takeovers: u32::from(turn.takeovers),
        interrupted_at: turn.interrupted.then_some(T0),
        created_at: T0,
        seq: 0,
        head: None,
    }
}

pub(crate) fn step_row(turn: u8, n: u8, asked: u8) -> StepRow {
    let calls = in_set(asked);
    let call = |slot| StepCall {
        call: id(slot),
        name: "demo__post_message".to_owned(),
        connection: Some("con-1".parse().unwrap()),
        tool: "post_message".to_owned(),
        title: "Post a message".to_owned(),
        arguments: Canonical::empty_object(),
        outcome: CallOutcome::Approval {
            id: approval_id(slot),
        },
    };
    StepRow {
        turn: turn_id(turn),
        n: u32::from(n),
        answer: id(turn),
        text: String::new(),
        calls: calls.map(call).collect(),
        finish: Finish::ToolCalls,
        at: T0,
    }
}

pub(crate) fn inbox_row() -> InboxRow {
    InboxRow {
        inbox: id(1),
        turn: turn_id(1),
        answer: id(1),
        user: ann(),
        message: "m-2".parse().unwrap(),
        text: "And then?".to_owned(),
        at: T0,
        replaces_from: None,
    }
}

pub(crate) fn job_of(work: &Work) -> Job {
    match work {
        Work::Expire(id) => Job::Expire(slot_of(*id)),
        Work::Call(id) => Job::Call(slot_of(*id)),
        Work::Continue(id) => Job::Continue(turn_of(*id)),
        Work::TakeOver(id) => Job::TakeOver(turn_of(*id)),
        Work::Interrupt(id) => Job::Interrupt(turn_of(*id)),
        Work::Start(_) => Job::Start,
        Work::HandOver => Job::HandOver,
        Work::Idle => Job::Idle,
    }
}

pub(crate) fn work_of(job: Job) -> Work {
    match job {
        Job::Expire(slot) => Work::Expire(approval_id(slot)),
        Job::Call(slot) => Work::Call(approval_id(slot)),
        Job::Continue(turn) => Work::Continue(turn_id(turn)),
        Job::TakeOver(turn) => Work::TakeOver(turn_id(turn)),
        Job::Interrupt(turn) => Work::Interrupt(turn_id(turn)),
        Job::Start => Work::Start(inbox_row().inbox),
        Job::HandOver => Work::HandOver,
        Job::Idle => Work::Idle,
    }
}
