//! The transition table: (row, event, now) → (new row, audit record, effects) or a refusal.

use serde_json::{Value, json};

use super::{Actor, Answer, Approval, Attempt, BlockReason, Decision, How, NotSent, State};
use super::{Resolution, VoidReason};
use crate::audit::{RecordDraft, RecordEvent};
use crate::limits::RUN_WITHIN_MS;
use crate::settle::Outcome;
use crate::{ApprovalId, AttemptId, Deadline, Millis, RequestId};

/// Who or what brings the event, for the record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cause {
    pub actor: Actor,
    pub how: How,
    pub request: Option<RequestId>,
}

impl Cause {
    pub const fn system() -> Self {
        Self {
            actor: Actor::System,
            how: How::System,
            request: None,
        }
    }
}

#[derive(Clone, Debug, PartialEq)]
pub enum Event {
    Decide {
        answer: Answer,
        reason: Option<String>,
    },
    /// A time limit ran out.
    Expire,
    Void(VoidReason),
    /// Asked again under this id, because the tool's definition changed.
    Supersede(ApprovalId),
    Block(BlockReason),
    /// Approved, but it failed before the claim.
    GiveUp(NotSent),
    Claim {
        attempt: AttemptId,
        lease_until: Millis,
    },
    /// Attempt 2, after a 401 with a challenge.
    SendAgain {
        attempt: AttemptId,
    },
    Settle {
        attempt: AttemptId,
        outcome: Outcome,
        chunks: u32,
    },
    /// The claim's lease ran out with nothing recorded.
    Abandon,
    Resolve {
        done: bool,
        reason: String,
    },
}

/// What must be committed together with the row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Remove the pointer in the inbox of open approvals.
    CloseOpen,
    /// Block identical calls until a person resolves this one.
    AddUnknown,
    RemoveUnknown,
    /// Bump the conversation's `wake`.
    Wake,
    /// A result came after a person had resolved it: an operator must look.
    Alarm,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Transition {
    pub row: Approval,
    pub record: RecordDraft,
    pub effects: Vec<Effect>,
}

#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum Refusal {
    /// The same answer is on record: the caller gets the same reply as the first time.
    #[error("the same answer is already recorded")]
    SameAnswer,
    #[error("already decided")]
    AlreadyDecided,
    /// Whoever caused it may not: another person, or no person at all.
    #[error("not this person's to answer")]
    NotYours,
    /// Its time ran out; `Expire` must be committed.
    #[error("expired")]
    Expired,
    #[error("not due yet")]
    NotDue,
    /// Another attempt is on record.
    #[error("not this attempt")]
    OtherAttempt,
    #[error("not possible in state {}", .0.as_str())]
    WrongState(State),
}

impl Approval {
    /// Applies one event. Every transition advances `seq` by one and yields exactly one record.
    pub fn apply(&self, event: Event, cause: &Cause, now: Millis) -> Result<Transition, Refusal> {
        match event {
            Event::Decide { answer, reason } => self.decide(answer, reason, cause, now),
            Event::Expire => self.expire(cause, now),
            Event::Void(why) => self.end_open(State::Voided, cause, now, |row| {
                row.voided = Some(why);
                (RecordEvent::Voided, json!({ "why": why }))
            }),
            Event::Supersede(by) => self.end_open(State::Superseded, cause, now, |row| {
                row.superseded_by = Some(by);
                (RecordEvent::Superseded, json!({ "by": by }))
            }),
            Event::Block(why) => self.end_approved(State::Blocked, cause, now, |row| {
                row.blocked = Some(why);
                (RecordEvent::Blocked, json!({ "why": why }))
            }),
            Event::GiveUp(why) => self.end_approved(State::Failed, cause, now, |row| {
                row.not_sent = Some(why);
                (
                    RecordEvent::Settled,
                    json!({ "outcome": "not_sent", "why": why }),
                )
            }),
            Event::Claim {
                attempt,
                lease_until,
            } => self.claim(attempt, lease_until, cause, now),
            Event::SendAgain { attempt } => self.send_again(attempt, cause, now),
            Event::Settle {
                attempt,
                outcome,
                chunks,
            } => self.settle(attempt, outcome, chunks, cause, now),
            Event::Abandon => self.abandon(cause, now),
            Event::Resolve { done, reason } => self.resolve(done, reason, cause, now),
        }
    }

    fn decide(
        &self,
        answer: Answer,
        reason: Option<String>,
        cause: &Cause,
        now: Millis,
    ) -> Result<Transition, Refusal> {
        match &cause.actor {
            Actor::User { id, .. } if self.may_decide(id) => {}
            Actor::User { .. } | Actor::System => return Err(Refusal::NotYours),
        }
        if let Some(decision) = &self.decision {
            return Err(if decision.answer == answer {
                Refusal::SameAnswer
            } else {
                Refusal::AlreadyDecided
            });
        }
        if self.state == State::Expired {
            return Err(Refusal::Expired);
        }
        if self.state != State::Pending {
            return Err(Refusal::WrongState(self.state));
        }
        if self.decide_by.is_over(now) {
            return Err(Refusal::Expired);
        }
        let mut row = match answer {
            Answer::Approve => Self {
                run_by: Some(Deadline::at(now.plus(RUN_WITHIN_MS))),
                ..self.in_state(State::Approved)
            },
            Answer::Reject => self.in_state(State::Rejected),
        };
        row.decision = Some(Decision {
            answer,
            by: cause.actor.clone(),
            how: cause.how,
            at: now,
            reason,
        });
        let detail = json!({ "answer": answer });
        let record = self.record(RecordEvent::Decided, cause, now, detail);
        Ok(Transition {
            row,
            record,
            effects: vec![Effect::CloseOpen, Effect::Wake],
        })
    }

    fn expire(&self, cause: &Cause, now: Millis) -> Result<Transition, Refusal> {
        let effects = self.closing()?;
        let limit = if self.state == State::Pending {
            self.decide_by
        } else {
            self.run_by()
        };
        if !limit.is_over(now) {
            return Err(Refusal::NotDue);
        }
        let detail =
            json!({ "was": self.state, "limit": limit.time().map(|time| time.to_string()) });
        let record = self.record(RecordEvent::Expired, cause, now, detail);
        Ok(Transition {
            row: self.in_state(State::Expired),
            record,
            effects,
        })
    }

    fn end_open(
        &self,
        state: State,
        cause: &Cause,
        now: Millis,
        fill: impl FnOnce(&mut Self) -> (RecordEvent, Value),
    ) -> Result<Transition, Refusal> {
        let effects = self.closing()?;
        let mut row = self.in_state(state);
        let (event, detail) = fill(&mut row);
        Ok(Transition {
            row,
            record: self.record(event, cause, now, detail),
            effects,
        })
    }

    fn end_approved(
        &self,
        state: State,
        cause: &Cause,
        now: Millis,
        fill: impl FnOnce(&mut Self) -> (RecordEvent, Value),
    ) -> Result<Transition, Refusal> {
        if self.state != State::Approved {
            return Err(Refusal::WrongState(self.state));
        }
        let mut row = self.in_state(state);
        let (event, detail) = fill(&mut row);
        let record = self.record(event, cause, now, detail);
        Ok(Transition {
            row,
            record,
            effects: vec![Effect::Wake],
        })
    }

    fn claim(
        &self,
        attempt: AttemptId,
        lease_until: Millis,
        cause: &Cause,
        now: Millis,
    ) -> Result<Transition, Refusal> {
        let yes = |decision: &Decision| decision.answer == Answer::Approve;
        if self.state != State::Approved || !self.decision.as_ref().is_some_and(yes) {
            return Err(Refusal::WrongState(self.state));
        }
        if self.run_by().is_over(now) {
            return Err(Refusal::Expired);
        }
        let mut row = self.in_state(State::Executing);
        row.attempt = Some(Attempt {
            id: attempt,
            number: 1,
            lease_until: Deadline::at(lease_until),
        });
        let detail = json!({ "attempt": attempt, "number": 1 });
        let record = self.record(RecordEvent::Claimed, cause, now, detail);
        Ok(Transition {
            row,
            record,
            effects: Vec::new(),
        })
    }

    fn send_again(
        &self,
        attempt: AttemptId,
        cause: &Cause,
        now: Millis,
    ) -> Result<Transition, Refusal> {
        let current = self.executing(attempt)?;
        if current.number != 1 || current.lease_until.is_over(now) {
            return Err(Refusal::OtherAttempt);
        }
        let mut row = self.in_state(State::Executing);
        row.attempt = Some(Attempt {
            number: 2,
            ..current.clone()
        });
        let detail = json!({ "attempt": attempt, "number": 2, "after": "401 with a challenge" });
        let record = self.record(RecordEvent::Attempted, cause, now, detail);
        Ok(Transition {
            row,
            record,
            effects: Vec::new(),
        })
    }

    /// Carries no check but the attempt's own id: nothing that happened meanwhile may lose a
    /// result, not even a run-out lease.
    fn settle(
        &self,
        attempt: AttemptId,
        outcome: Outcome,
        chunks: u32,
        cause: &Cause,
        now: Millis,
    ) -> Result<Transition, Refusal> {
        if self.attempt.as_ref().map(|current| current.id) != Some(attempt) {
            return Err(Refusal::OtherAttempt);
        }
        let state = match &outcome {
            Outcome::Succeeded { .. } => State::Succeeded,
            Outcome::ReportedError { .. } | Outcome::Refused { .. } | Outcome::NotSent { .. } => {
                State::Failed
            }
            Outcome::Unknown { .. } => State::Unknown,
        };
        let detail = json!({ "attempt": attempt, "outcome": state });
        match self.state {
            State::Executing => {
                let mut row = self.in_state(state);
                row.outcome = Some(outcome);
                row.chunks = chunks;
                let record = self.record(RecordEvent::Settled, cause, now, detail);
                // The writer may have lost the conversation to a runner that has since left.
                let effects = if state == State::Unknown {
                    vec![Effect::AddUnknown, Effect::Wake]
                } else {
                    vec![Effect::Wake]
                };
                Ok(Transition {
                    row,
                    record,
                    effects,
                })
            }
            State::Unknown if state != State::Unknown => {
                let mut row = self.in_state(state);
                row.outcome = Some(outcome);
                row.chunks = chunks;
                let record = self.record(RecordEvent::LateResult, cause, now, detail);
                Ok(Transition {
                    row,
                    record,
                    effects: vec![Effect::RemoveUnknown, Effect::Wake],
                })
            }
            State::ResolvedDone | State::ResolvedNotDone
                if state != State::Unknown && !self.has_result() =>
            {
                // The person's word stands; what came late is kept as evidence, once.
                let mut row = self.in_state(self.state);
                row.outcome = Some(outcome);
                row.chunks = chunks;
                let record = self.record(RecordEvent::LateResult, cause, now, detail);
                Ok(Transition {
                    row,
                    record,
                    effects: vec![Effect::Alarm],
                })
            }
            State::Pending
            | State::Approved
            | State::Rejected
            | State::Expired
            | State::Voided
            | State::Superseded
            | State::Blocked
            | State::Succeeded
            | State::Failed
            | State::Unknown
            | State::ResolvedDone
            | State::ResolvedNotDone => Err(Refusal::WrongState(self.state)),
        }
    }

    fn abandon(&self, cause: &Cause, now: Millis) -> Result<Transition, Refusal> {
        if self.state != State::Executing {
            return Err(Refusal::WrongState(self.state));
        }
        if !self.lease().is_over(now) {
            return Err(Refusal::NotDue);
        }
        let mut row = self.in_state(State::Unknown);
        row.outcome = Some(Outcome::Unknown {
            why: "the call was interrupted before its answer".to_owned(),
        });
        let attempt = self.attempt.as_ref().map(|attempt| attempt.id);
        let detail =
            json!({ "attempt": attempt, "outcome": State::Unknown, "why": "lease ran out" });
        let record = self.record(RecordEvent::Settled, cause, now, detail);
        Ok(Transition {
            row,
            record,
            effects: vec![Effect::AddUnknown, Effect::Wake],
        })
    }

    fn resolve(
        &self,
        done: bool,
        reason: String,
        cause: &Cause,
        now: Millis,
    ) -> Result<Transition, Refusal> {
        match &cause.actor {
            Actor::User { id, role, .. } if self.may_resolve(id, *role) => {}
            Actor::User { .. } | Actor::System => return Err(Refusal::NotYours),
        }
        if let Some(resolution) = &self.resolution {
            return Err(if resolution.done == done {
                Refusal::SameAnswer
            } else {
                Refusal::AlreadyDecided
            });
        }
        if self.state != State::Unknown {
            return Err(Refusal::WrongState(self.state));
        }
        let state = if done {
            State::ResolvedDone
        } else {
            State::ResolvedNotDone
        };
        let mut row = self.in_state(state);
        row.resolution = Some(Resolution {
            done,
            by: cause.actor.clone(),
            at: now,
            reason,
        });
        let detail = json!({ "outcome": if done { "done" } else { "not_done" } });
        let record = self.record(RecordEvent::Resolved, cause, now, detail);
        Ok(Transition {
            row,
            record,
            effects: vec![Effect::RemoveUnknown],
        })
    }

    fn executing(&self, attempt: AttemptId) -> Result<&Attempt, Refusal> {
        if self.state != State::Executing {
            return Err(Refusal::WrongState(self.state));
        }
        self.attempt
            .as_ref()
            .filter(|current| current.id == attempt)
            .ok_or(Refusal::OtherAttempt)
    }

    /// What ends with a question that is still open.
    fn closing(&self) -> Result<Vec<Effect>, Refusal> {
        match self.state {
            State::Pending => Ok(vec![Effect::CloseOpen, Effect::Wake]),
            State::Approved => Ok(vec![Effect::Wake]),
            State::Rejected
            | State::Expired
            | State::Voided
            | State::Superseded
            | State::Executing
            | State::Blocked
            | State::Succeeded
            | State::Failed
            | State::Unknown
            | State::ResolvedDone
            | State::ResolvedNotDone => Err(Refusal::WrongState(self.state)),
        }
    }

    fn has_result(&self) -> bool {
        match &self.outcome {
            Some(
                Outcome::Succeeded { .. }
                | Outcome::ReportedError { .. }
                | Outcome::Refused { .. }
                | Outcome::NotSent { .. },
            ) => true,
            Some(Outcome::Unknown { .. }) | None => false,
        }
    }

    fn in_state(&self, state: State) -> Self {
        Self {
            state,
            ..self.clone()
        }
    }

    /// The first record: the question itself.
    pub fn requested(&self, cause: &Cause) -> RecordDraft {
        let detail = json!({
            "definition": self.definition,
            "account": self.connection.account,
            "decide_by": self.decide_by.time().map(|time| time.to_string()),
            "approver": self.approver,
            "supersedes": self.supersedes,
        });
        self.record(RecordEvent::Requested, cause, self.created_at, detail)
    }

    fn record(&self, event: RecordEvent, cause: &Cause, at: Millis, detail: Value) -> RecordDraft {
        RecordDraft {
            event,
            at,
            actor: cause.actor.clone(),
            how: cause.how,
            request: cause.request.clone(),
            conversation: Some(self.conversation.clone()),
            turn: Some(self.turn),
            approval: Some(self.approval_id),
            connection: Some(self.connection.id.clone()),
            tool: Some(self.tool.clone()),
            arguments_hmac: Some(self.arguments_hmac.clone()),
            detail,
        }
    }
}
