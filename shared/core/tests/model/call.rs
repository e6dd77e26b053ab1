//! A call's way: checked, claimed, sent, settled. In the order of `agent::execute`.

use toshi_core::{CLAIM_LEASE_MS, SEND_NEEDS_MS, State};

use crate::rows::{Brought, Happening, Refused, Row, SLOTS, seconds};
use crate::rule::Rule;
use crate::store::{Denied, Scene};
use crate::world::{At, Attempt, Ending, Worker};

/// What the world makes of a boundary.
#[derive(Clone, Copy, Debug, Hash, PartialEq, Eq)]
pub(crate) enum Luck {
    Fine,
    /// It was done, and the reply was lost.
    ReplyLost,
    /// It was not done, and nobody can tell.
    NotDone,
    /// The server or the connection is not there.
    Down,
    /// The tool is another than was approved.
    Changed,
    /// The server answers that it ran nothing.
    Refused,
    /// The server asks for a newer token.
    Challenged,
    /// No reply in time; the request may still be on its way.
    TimedOut,
}

impl Scene<'_> {
    /// What may become of the boundary that a worker stands before.
    pub(crate) fn lucks(&self, at: At, mut each: impl FnMut(Luck)) {
        let faults = self.config.faults;
        each(Luck::Fine);
        match at {
            At::Prepare(..) => {
                if faults.down {
                    each(Luck::Down);
                }
                if faults.changes && self.world.approvals[SLOTS - 1].is_none() {
                    each(Luck::Changed);
                }
            }
            At::Claim(..) => {
                if faults.lost_commits {
                    each(Luck::ReplyLost);
                    each(Luck::NotDone);
                }
            }
            At::Settle(..) => {
                if faults.lost_commits {
                    each(Luck::ReplyLost);
                }
            }
            At::Await(attempt) => {
                each(Luck::ReplyLost);
                each(Luck::TimedOut);
                if faults.refusals {
                    each(Luck::Refused);
                }
                if faults.challenges && attempt.number == 1 {
                    each(Luck::Challenged);
                }
            }
            At::Take
            | At::Wake
            | At::Look
            | At::WakeLate(..)
            | At::End(..)
            | At::AskAgain(..)
            | At::LookUp(_)
            | At::Send(_)
            | At::SendAgain(_)
            | At::Retire { .. }
            | At::Void { .. }
            | At::Continue(..)
            | At::TakeOver(..)
            | At::Interrupt(..)
            | At::Start
            | At::Drive { .. }
            | At::Release(_) => {}
        }
    }

    /// A worker dies: what it committed stays, and what it sent is under way.
    pub(crate) fn crash(&mut self, index: usize) {
        if let Some(Worker {
            at: At::Await(attempt),
            ..
        }) = self.world.workers[index]
        {
            self.world.tools[usize::from(attempt.slot)].orphans += 1;
        }
        self.world.workers[index] = None;
    }

    /// A worker that has a call in its hands goes over its next boundary.
    pub(crate) fn step_of_call(&mut self, worker: Worker, luck: Luck) -> Option<Worker> {
        let to = |at| Some(Worker { at, ..worker });
        match worker.at {
            At::End(slot, ending) => self.end(worker, slot, ending),
            At::Prepare(slot, row) => match luck {
                Luck::Down => to(At::End(slot, Ending::GiveUp)),
                Luck::Changed => to(At::AskAgain(slot, row)),
                _ => self.prepared(worker, slot, row),
            },
            At::AskAgain(slot, row) => {
                let new = u8::try_from(SLOTS - 1).unwrap();
                match self.ask_again(worker, (slot, row), new) {
                    Ok(()) | Err(Denied::Row) => to(At::Wake),
                    Err(Denied::Unknown) => to(At::End(slot, Ending::Block)),
                    Err(Denied::Fenced) => self.superseded(),
                }
            }
            At::Claim(attempt, row) => self.claim(worker, attempt, row, luck),
            At::LookUp(attempt) => {
                let facts = self.rows.facts(self.row(attempt.slot));
                let own = facts.attempt == Some(attempt.id);
                let executing = facts.state == State::Executing;
                if own || (self.is_off(Rule::LookUpOwnAttempt) && executing) {
                    to(At::Send(attempt))
                } else {
                    self.failed(worker)
                }
            }
            At::Send(attempt) => {
                let left = (attempt.since + seconds(CLAIM_LEASE_MS)).saturating_sub(self.world.now);
                let enough = left >= seconds(SEND_NEEDS_MS);
                if self.passes(Rule::SendWithinLease, enough) {
                    self.send(attempt.slot);
                    to(At::Await(attempt))
                } else {
                    to(At::Settle(attempt, Brought::NotSent))
                }
            }
            At::Await(attempt) => to(self.answered(attempt, luck)),
            At::SendAgain(attempt) => {
                let happening = Happening::SendAgain {
                    attempt: attempt.id,
                };
                let second = Attempt {
                    number: 2,
                    ..attempt
                };
                let recorded = self.is_off(Rule::RecordBeforeAgain)
                    || self.change(attempt.slot, happening).is_ok();
                // The refused first attempt is what there is to settle.
                to(if recorded {
                    At::Send(second)
                } else {
                    At::Settle(attempt, Brought::Refused)
                })
            }
            At::Settle(attempt, brought) => {
                let happening = Happening::Settle {
                    attempt: attempt.id,
                    brought,
                };
                // Refused: an earlier try was done, or a person was first.
                let done = self.change(attempt.slot, happening).is_ok();
                to(if done && luck == Luck::ReplyLost {
                    worker.at
                } else {
                    At::Wake
                })
            }
            At::Take
            | At::Wake
            | At::Look
            | At::WakeLate(..)
            | At::Retire { .. }
            | At::Void { .. }
            | At::Continue(..)
            | At::TakeOver(..)
            | At::Interrupt(..)
            | At::Start
            | At::Drive { .. }
            | At::Release(_) => None,
        }
    }

    /// A transition of the row as it is now.
    pub(crate) fn change(&mut self, slot: u8, happening: Happening) -> Result<(), Refused> {
        let (row, now) = (self.row(slot), self.world.now);
        self.transition(slot, row, happening, now)
    }

    fn end(&mut self, worker: Worker, slot: u8, ending: Ending) -> Option<Worker> {
        let happening = match ending {
            Ending::Expire => Happening::Expire,
            Ending::Abandon => Happening::Abandon,
            Ending::Block => Happening::Block,
            Ending::GiveUp => Happening::GiveUp,
        };
        // Refused: somebody was faster, and the next look sees it.
        let _ = self.change(slot, happening);
        let at = At::Wake;
        Some(Worker { at, ..worker })
    }

    /// Token, session and definition are as they should be: the claim is made with this clock.
    fn prepared(&mut self, worker: Worker, slot: u8, row: Row) -> Option<Worker> {
        if self.is_off(Rule::ClaimBeforeSend) {
            self.send(slot);
            self.world.tools[usize::from(slot)].orphans += 1;
        }
        let id = self.world.free_attempt(|row| self.rows.facts(row).attempt);
        let attempt = Attempt {
            slot,
            id,
            number: 1,
            since: self.world.now,
        };
        let at = At::Claim(attempt, row);
        Some(Worker { at, ..worker })
    }

    /// `store::approval::claim`.
    fn claim(&mut self, worker: Worker, attempt: Attempt, row: Row, luck: Luck) -> Option<Worker> {
        let Attempt {
            slot, id, since, ..
        } = attempt;
        let to = |at| Some(Worker { at, ..worker });
        if luck == Luck::NotDone {
            return to(At::LookUp(attempt));
        }
        let happening = Happening::Claim {
            attempt: id,
            until: since + seconds(CLAIM_LEASE_MS),
        };
        let Ok(decided) = self.decided(row, happening, since) else {
            return to(At::Wake);
        };
        match self.commit_transition(slot, row, decided, since, Rule::ClaimRowAsRead) {
            _ if luck == Luck::ReplyLost => to(At::LookUp(attempt)),
            Ok(()) => to(At::Send(attempt)),
            Err(Denied::Unknown) => to(At::End(slot, Ending::Block)),
            Err(Denied::Row | Denied::Fenced) => to(At::Wake),
        }
    }

    fn send(&mut self, slot: u8) {
        let state = self.rows.facts(self.row(slot)).state;
        self.world.wrongs.sent_unclaimed |= state != State::Executing;
        self.world.tools[usize::from(slot)].sends += 1;
    }

    /// The tool does it.
    pub(crate) fn effect(&mut self, slot: u8) {
        let facts = self.rows.facts(self.row(slot));
        self.world.wrongs.effect_unasked |= facts.yes != Some(true);
        self.world.tools[usize::from(slot)].effects += 1;
    }

    /// A request that is under way, and what its sender makes of it.
    fn answered(&mut self, attempt: Attempt, luck: Luck) -> At {
        let unknown = if self.is_off(Rule::NeverAgain) && attempt.number == 1 {
            At::Send(Attempt {
                number: 2,
                ..attempt
            })
        } else {
            At::Settle(attempt, Brought::Unknown)
        };
        match luck {
            Luck::Refused => At::Settle(attempt, Brought::Refused),
            Luck::Challenged => At::SendAgain(attempt),
            Luck::TimedOut => {
                self.world.tools[usize::from(attempt.slot)].orphans += 1;
                unknown
            }
            Luck::ReplyLost => {
                self.effect(attempt.slot);
                unknown
            }
            Luck::Fine | Luck::NotDone | Luck::Down | Luck::Changed => {
                self.effect(attempt.slot);
                At::Settle(attempt, Brought::Done)
            }
        }
    }
}
