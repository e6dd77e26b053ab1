//! Real rows behind the model's small ones, and the real rules over them.
//!
//! The world holds a number for each approval; the row behind it is core's own. Rules are pure, so
//! each question is put to core once and its answer is kept.

use std::collections::HashMap;

use toshi_core::{
    Approval, ConversationId, ConversationRow, Effect, InboxRow, Millis, OpenTurn, RecordEvent,
    Refusal, State, Transition, next_work,
};

use crate::quick::QuickMap;
use crate::real::{
    ann, client, facts, inbox_row, job_of, projected, question, step_row, turn_row, work_of,
};

/// Seconds since the model's beginning.
pub(crate) type Time = u16;

/// Questions, turns and steps that a world has room for.
pub(crate) const SLOTS: usize = 3;
pub(crate) const TURNS: usize = 2;
pub(crate) const STEPS: usize = 3;

/// After everything: what an invocation with time to spare has left.
pub(crate) const PLENTY_MS: i64 = 290_000;

pub(crate) const T0: Millis = Millis::from_epoch(1_796_062_800_000);

pub(crate) fn at(time: Time) -> Millis {
    T0.plus(i64::from(time) * 1_000)
}

pub(crate) fn time(at: Millis) -> Time {
    seconds(T0.until(at))
}

pub(crate) fn seconds(ms: i64) -> Time {
    Time::try_from(ms / 1_000).unwrap()
}

/// The number of an approval's row, as it was at some moment.
#[derive(Clone, Copy, Debug, Hash, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Row(u16);

/// A turn's row without what no rule reads.
#[derive(Clone, Copy, Debug, Hash, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Turn {
    pub(crate) phase: Phase,
    pub(crate) steps: u8,
    pub(crate) takeovers: u8,
    /// It was interrupted: when matters only after an hour, which no world here lasts.
    pub(crate) interrupted: bool,
    pub(crate) answer_seq: u8,
}

#[derive(Clone, Copy, Debug, Hash, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Phase {
    Running,
    Waiting,
    Done,
}

/// What an attempt brought.
#[derive(Clone, Copy, Debug, Hash, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Brought {
    Done,
    Refused,
    NotSent,
    Unknown,
}

/// An [`Event`] in the model's own words.
#[derive(Clone, Copy, Debug, Hash, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Happening {
    Decide { yes: bool },
    Expire,
    Void,
    Supersede(u8),
    Block,
    GiveUp,
    Claim { attempt: u8, until: Time },
    SendAgain { attempt: u8 },
    Settle { attempt: u8, brought: Brought },
    Abandon,
    Resolve { done: bool },
}

/// A transition as core decided it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Applied {
    pub(crate) row: Row,
    pub(crate) record: RecordEvent,
    pub(crate) closes: bool,
    pub(crate) adds_unknown: bool,
    pub(crate) removes_unknown: bool,
    pub(crate) wakes: bool,
}

/// A refusal, by what its caller does about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refused {
    SameAnswer,
    Expired,
    Other,
}

impl From<Refusal> for Refused {
    fn from(refusal: Refusal) -> Self {
        match refusal {
            Refusal::SameAnswer => Self::SameAnswer,
            Refusal::Expired => Self::Expired,
            Refusal::AlreadyDecided
            | Refusal::NotYours
            | Refusal::NotDue
            | Refusal::OtherAttempt
            | Refusal::WrongState(_) => Self::Other,
        }
    }
}

/// What the model asks of a row.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Facts {
    pub(crate) turn: u8,
    pub(crate) step: u8,
    pub(crate) state: State,
    pub(crate) seq: u8,
    pub(crate) attempt: Option<u8>,
    pub(crate) yes: Option<bool>,
    /// Its place in the sweep's list, and what the sweep does with it then.
    pub(crate) due: Option<Time>,
    pub(crate) overdue: Option<Happening>,
    pub(crate) decide_by: Time,
    pub(crate) run_by: Option<Time>,
}

/// What a runner has before it when it looks.
#[derive(Clone, Copy, Debug, Hash, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Look {
    /// Open turns, each with the questions of its last step.
    pub(crate) turns: [Option<(Turn, Option<u8>)>; TURNS],
    pub(crate) approvals: [Option<Row>; SLOTS],
    /// A message waits: it will be the second turn.
    pub(crate) inbox: bool,
}

/// [`Work`] in slots.
#[derive(Clone, Copy, Debug, Hash, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Job {
    Expire(u8),
    Call(u8),
    Continue(u8),
    TakeOver(u8),
    Interrupt(u8),
    Start,
    HandOver,
    Idle,
}

#[derive(Debug)]
struct Kept {
    row: Approval,
    /// A row that this one stands for, with everything in it.
    original: Approval,
    facts: Facts,
}

/// Every row that was ever seen, and every answer of core's.
#[derive(Debug)]
pub(crate) struct Rows {
    conversation: ConversationRow,
    approvals: Vec<Kept>,
    numbers: HashMap<String, Row>,
    applied: QuickMap<(Row, Happening, Time), Result<Applied, Refused>>,
    jobs: QuickMap<(Look, Time, i64), Job>,
    besides: QuickMap<(Job, Look, Time), bool>,
}

impl Default for Rows {
    fn default() -> Self {
        let id = ConversationId::of(&ann(), &client());
        Self {
            conversation: ConversationRow::new(id, client(), ann(), T0),
            approvals: Vec::new(),
            numbers: HashMap::new(),
            applied: QuickMap::default(),
            jobs: QuickMap::default(),
            besides: QuickMap::default(),
        }
    }
}

impl Rows {
    /// `ConversationRow::is_held`.
    pub(crate) fn is_held(&mut self, lease: Option<Time>, now: Time) -> bool {
        self.conversation.lease_until = lease.map(at);
        self.conversation.is_held(at(now))
    }

    /// `ConversationRow::taken`: the new fence, and until when the lease holds.
    pub(crate) fn taken(&mut self, fence: u8, now: Time) -> (u8, Time) {
        self.conversation.fence = u64::from(fence);
        let lease = self.conversation.taken(at(now)).lease();
        (u8::try_from(lease.fence).unwrap(), time(lease.until))
    }

    /// A question as it is asked, with its first record.
    pub(crate) fn ask(&mut self, slot: u8, turn: u8, step: u8, alike: bool, until: Time) -> Row {
        let mut row = question(slot, turn, step, alike, until);
        row.seq = 1;
        self.number(row)
    }

    fn number(&mut self, original: Approval) -> Row {
        let row = projected(original.clone());
        let key = serde_json::to_string(&row).unwrap();
        if let Some(number) = self.numbers.get(&key) {
            return *number;
        }
        let number = Row(u16::try_from(self.approvals.len()).unwrap());
        let facts = facts(&row);
        self.approvals.push(Kept {
            row,
            original,
            facts,
        });
        self.numbers.insert(key, number);
        number
    }

    fn kept(&self, row: Row) -> &Kept {
        &self.approvals[usize::from(row.0)]
    }

    pub(crate) fn facts(&self, row: Row) -> Facts {
        self.kept(row).facts
    }

    /// `Approval::apply`.
    pub(crate) fn apply(
        &mut self,
        row: Row,
        happening: Happening,
        now: Time,
    ) -> Result<Applied, Refused> {
        if let Some(known) = self.applied.get(&(row, happening, now)) {
            return *known;
        }
        let Kept {
            row: kept,
            original,
            ..
        } = self.kept(row);
        let (event, cause) = happening.event();
        let applied = kept.apply(event.clone(), &cause, at(now));
        let original = original.apply(event, &cause, at(now));
        // Nothing that the projection left out may make a difference.
        let seen = |result: &Result<Transition, Refusal>| {
            let result = result.clone();
            result.map(|done| (projected(done.row), done.record.event, done.effects))
        };
        assert_eq!(seen(&applied), seen(&original), "{happening:?}");
        let seq = kept.seq + 1;
        let result = match original {
            Ok(transition) => {
                let mut after = transition.row;
                // As the store numbers it.
                after.seq = seq;
                let mut applied = Applied {
                    row: self.number(after),
                    record: transition.record.event,
                    closes: false,
                    adds_unknown: false,
                    removes_unknown: false,
                    wakes: false,
                };
                for effect in transition.effects {
                    match effect {
                        Effect::CloseOpen => applied.closes = true,
                        Effect::AddUnknown => applied.adds_unknown = true,
                        Effect::RemoveUnknown => applied.removes_unknown = true,
                        Effect::Wake => applied.wakes = true,
                        Effect::Alarm => {}
                    }
                }
                Ok(applied)
            }
            Err(refusal) => Err(refusal.into()),
        };
        self.applied.insert((row, happening, now), result);
        result
    }

    /// A row that no rule allows: executing again as if it had only been approved. For a mutant.
    pub(crate) fn forged(&mut self, row: Row) -> Row {
        let mut row = self.kept(row).original.clone();
        row.state = State::Approved;
        row.attempt = None;
        row.seq += 1;
        self.number(row)
    }

    /// `next_work`.
    pub(crate) fn next_work(&mut self, look: &Look, now: Time, left_ms: i64) -> Job {
        if let Some(known) = self.jobs.get(&(*look, now, left_ms)) {
            return *known;
        }
        let (open, inbox) = self.expand(look);
        let job = job_of(&next_work(&open, &inbox, at(now), left_ms));
        self.jobs.insert((*look, now, left_ms), job);
        job
    }

    /// `besides`.
    pub(crate) fn besides(&mut self, job: Job, look: &Look, now: Time) -> bool {
        if let Some(known) = self.besides.get(&(job, *look, now)) {
            return *known;
        }
        let (open, inbox) = self.expand(look);
        let found = toshi_core::besides(&work_of(job), &open, &inbox, at(now));
        self.besides.insert((job, *look, now), found);
        found
    }

    fn expand(&self, look: &Look) -> (Vec<OpenTurn>, Vec<InboxRow>) {
        let mut open = Vec::new();
        for (number, turn) in (0..).zip(&look.turns) {
            let Some((turn, asked)) = turn else {
                continue;
            };
            let rows = (0..).zip(&look.approvals).filter_map(|(slot, row)| {
                let row = row.filter(|_| asked.is_some_and(|asked| asked & bit(slot) != 0))?;
                Some(self.kept(row).row.clone())
            });
            open.push(OpenTurn {
                turn: turn_row(number, turn),
                step: asked.map(|asked| step_row(number, turn.steps, asked)),
                approvals: rows.collect(),
            });
        }
        let inbox = look.inbox.then(inbox_row);
        (open, inbox.into_iter().collect())
    }
}

pub(crate) const fn bit(slot: u8) -> u8 {
    1 << slot
}

/// The slots or turns of a set.
pub(crate) fn in_set(bits: u8) -> impl Iterator<Item = u8> {
    (0..SLOTS as u8).filter(move |slot| bits & bit(*slot) != 0)
}
