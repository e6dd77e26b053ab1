//! Rows for tests, and a store in memory that does with a transition what the real one does.

use crate::approval::{
    Actor, Answer, Approval, ApproverPolicy, BlockReason, Cause, Connection, Effect, Event, How,
    Refusal, State, VoidReason,
};
use crate::catalogue::Risk;
use crate::settle::Outcome;
use crate::{
    ApprovalId, AttemptId, Canonical, ClientId, ConversationId, Deadline, Id, Millis, Record, Role,
    Seal, Sha256Hex, Subject, TenantId, UserId,
};

pub(crate) const NOW: Millis = Millis::from_epoch(1_796_062_800_000);
pub(crate) const DECIDE_BY: Millis = NOW.plus(24 * 60 * 60 * 1000);
pub(crate) const LEASE_MS: i64 = crate::limits::CLAIM_LEASE_MS;

pub(crate) fn id<K>(n: u128) -> Id<K> {
    Id::new(NOW, n)
}

pub(crate) fn tenant() -> TenantId {
    TenantId::from_stored("lakeside").unwrap()
}

pub(crate) fn user(name: &str) -> UserId {
    name.parse().unwrap()
}

pub(crate) fn by(name: &str, role: Role) -> Cause {
    Cause {
        actor: Actor::User {
            id: user(name),
            name: name.to_owned(),
            role,
        },
        how: How::Web,
        request: Some("req-1".parse().unwrap()),
    }
}

pub(crate) fn requester() -> Cause {
    by("ann", Role::Teacher)
}

/// An approval as it is asked.
pub(crate) fn approval(n: u128) -> Approval {
    let client_id: ClientId = "chat-0001".parse().unwrap();
    Approval {
        approval_id: id(n),
        conversation: ConversationId::of(&user("ann"), &client_id),
        client_id,
        turn: id(1),
        step: 1,
        call: id(n),
        connection: Connection {
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
        arguments: Canonical::parse(r##"{"channel":"#staff","text":"hi"}"##).unwrap(),
        arguments_hmac: "hmac".to_owned(),
        intent: None,
        effect: None,
        risk: Risk::Medium,
        requester: user("ann"),
        requester_name: "Ann".to_owned(),
        approver: ApproverPolicy::Requester,
        created_at: NOW,
        decide_by: Deadline::at(DECIDE_BY),
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

pub(crate) fn decide(answer: Answer) -> Event {
    Event::Decide {
        answer,
        reason: None,
    }
}

pub(crate) fn claim(attempt: AttemptId, now: Millis) -> Event {
    Event::Claim {
        attempt,
        lease_until: now.plus(LEASE_MS),
    }
}

pub(crate) fn settle(attempt: AttemptId, outcome: Outcome) -> Event {
    Event::Settle {
        attempt,
        outcome,
        chunks: 0,
    }
}

pub(crate) fn succeeded() -> Outcome {
    Outcome::Succeeded {
        text: "posted".to_owned(),
        structured: None,
        bytes: 6,
    }
}

pub(crate) fn refused() -> Outcome {
    Outcome::Refused {
        why: "the server answered HTTP 400".to_owned(),
    }
}

pub(crate) fn unknown() -> Outcome {
    Outcome::Unknown {
        why: "the server did not answer in time".to_owned(),
    }
}

pub(crate) fn resolve(done: bool) -> Event {
    Event::Resolve {
        done,
        reason: "I looked".to_owned(),
    }
}

/// The shortest way from a new question to each state, all at [`NOW`].
pub(crate) fn way_to(state: State) -> Vec<(Event, Cause)> {
    let approve = (decide(Answer::Approve), requester());
    let system = |event| (event, Cause::system());
    let claimed = [approve.clone(), system(claim(id(7), NOW))];
    let after = |last: Vec<(Event, Cause)>| [claimed.to_vec(), last].concat();
    let lost = system(settle(id(7), unknown()));
    match state {
        State::Pending => vec![],
        State::Approved => vec![approve],
        State::Rejected => vec![(decide(Answer::Reject), requester())],
        State::Expired => vec![system(Event::Expire)],
        State::Voided => vec![system(Event::Void(VoidReason::AccountChanged))],
        State::Superseded => vec![system(Event::Supersede(id(99)))],
        State::Executing => claimed.to_vec(),
        State::Blocked => vec![approve, system(Event::Block(BlockReason::Killed))],
        State::Succeeded => after(vec![system(settle(id(7), succeeded()))]),
        State::Failed => after(vec![system(settle(id(7), refused()))]),
        State::Unknown => after(vec![lost]),
        State::ResolvedDone => after(vec![lost, (resolve(true), requester())]),
        State::ResolvedNotDone => after(vec![lost, (resolve(false), requester())]),
    }
}

/// One approval and everything that hangs on it, as committed so far.
#[derive(Clone, Debug)]
pub(crate) struct Stored {
    pub(crate) row: Approval,
    pub(crate) records: Vec<Record>,
    /// The pointer in the inbox of open approvals.
    pub(crate) open: bool,
    /// This approval stands in the set of unknown outcomes.
    pub(crate) unknown: bool,
    pub(crate) alarms: u32,
}

impl Stored {
    pub(crate) fn ask(mut row: Approval) -> Self {
        let draft = row.requested(&requester());
        let subject = Subject::Approval(row.approval_id);
        let record = draft.place(&tenant(), subject, 1, None);
        row.seq = 1;
        row.head = record.hash.clone();
        Self {
            row,
            records: vec![record],
            open: true,
            unknown: false,
            alarms: 0,
        }
    }

    pub(crate) fn in_state(state: State) -> Self {
        let mut stored = Self::ask(approval(1));
        for (event, cause) in way_to(state) {
            let now = if event == Event::Expire {
                DECIDE_BY
            } else {
                NOW
            };
            stored.apply(event, &cause, now).unwrap();
        }
        assert_eq!(stored.row.state, state);
        stored
    }

    /// Applies an event and commits what comes of it.
    pub(crate) fn apply(
        &mut self,
        event: Event,
        cause: &Cause,
        now: Millis,
    ) -> Result<Vec<Effect>, Refusal> {
        let transition = self.row.apply(event, cause, now)?;
        let mut row = transition.row;
        let subject = Subject::Approval(row.approval_id);
        row.seq = self.row.seq + 1;
        let record = transition
            .record
            .place(&tenant(), subject, row.seq, Some(&self.row.head));
        row.head = record.hash.clone();
        self.records.push(record);
        self.row = row;
        for effect in &transition.effects {
            match effect {
                Effect::CloseOpen => {
                    assert!(self.open, "the pointer is removed once");
                    self.open = false;
                }
                Effect::AddUnknown => {
                    assert!(!self.unknown, "an outcome becomes unknown once");
                    self.unknown = true;
                }
                Effect::RemoveUnknown => {
                    assert!(self.unknown, "only what was added is removed");
                    self.unknown = false;
                }
                Effect::Wake => {}
                Effect::Alarm => self.alarms += 1,
            }
        }
        Ok(transition.effects)
    }

    pub(crate) fn seal(&self) -> Seal {
        Seal {
            seq: self.row.seq,
            head: self.row.head.clone(),
        }
    }

    pub(crate) fn subject(&self) -> String {
        Subject::Approval(self.row.approval_id).to_string()
    }
}

/// Approvals in these states, numbered from 1.
pub(crate) fn approvals_in(states: &[State]) -> Vec<Approval> {
    (1..)
        .zip(states)
        .map(|(n, state)| Approval {
            approval_id: id(n),
            ..Stored::in_state(*state).row
        })
        .collect()
}

pub(crate) fn approval_id(n: u128) -> ApprovalId {
    id(n)
}
