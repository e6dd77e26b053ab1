//! Everything that a world remembers: the tables, who is at work, and what the outside saw.

use crate::config::Config;
use crate::rows::{Brought, Row, SLOTS, STEPS, TURNS, Time, Turn};
use crate::rule::Rule;

/// The conversation's row. `wake` and `fence` only tell whether somebody's copy is the newest, so
/// that the newest is always 1 and every older one 0; see [`World::settle`].
#[derive(Clone, Copy, Debug, Hash, PartialEq, Eq)]
pub(crate) struct Meta {
    pub(crate) wake: u8,
    pub(crate) fence: u8,
    pub(crate) lease: Option<Time>,
    /// Its place in the sweep's list.
    pub(crate) due: Option<Time>,
    pub(crate) mine: Mine,
}

/// What a runner keeps a copy of, since it alone changes it.
#[derive(Clone, Copy, Debug, Default, Hash, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Mine {
    pub(crate) next: u8,
    /// Turns that are not done, as bits.
    pub(crate) open: u8,
    /// The first message was sent again with another text.
    pub(crate) replaced: bool,
}

/// What is due or held until a moment that has passed.
pub(crate) const PAST: Time = 0;

/// An audit chain: how many records, and how many of them announce an attempt.
#[derive(Clone, Copy, Debug, Default, Hash, PartialEq, Eq)]
pub(crate) struct Chain {
    pub(crate) records: u8,
    pub(crate) attempts: u8,
}

/// The tool's server and the way there, for one question's call.
#[derive(Clone, Copy, Debug, Default, Hash, PartialEq, Eq)]
pub(crate) struct Tool {
    pub(crate) sends: u8,
    /// Requests that nobody waits for and that may still take effect.
    pub(crate) orphans: u8,
    pub(crate) effects: u8,
}

/// A process that works the conversation.
#[derive(Clone, Copy, Debug, Hash, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Worker {
    /// One turn only: the run of an HTTP request. Otherwise everything there is.
    pub(crate) only: Option<u8>,
    /// Its invocation is too short for a model call.
    pub(crate) short: bool,
    pub(crate) fence: u8,
    pub(crate) seen: u8,
    pub(crate) mine: Mine,
    /// Whether there is work besides the turn it drives; `None` if it has not looked.
    pub(crate) others: Option<bool>,
    pub(crate) at: At,
}

/// A claimed or about to be claimed call, in the hands of a worker.
#[derive(Clone, Copy, Debug, Hash, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Attempt {
    pub(crate) slot: u8,
    pub(crate) id: u8,
    pub(crate) number: u8,
    /// When its lease began, by the clock that the claim was made with.
    pub(crate) since: Time,
}

/// A worker's next boundary: what it does when it is scheduled again.
#[derive(Clone, Copy, Debug, Hash, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum At {
    /// Has read the conversation as free.
    Take,
    /// Is about to read `wake`.
    Wake,
    /// Is about to read the rows and to choose.
    Look,
    /// For a mutant: has read the rows, and only now reads `wake`.
    WakeLate(crate::rows::Job, crate::rows::Look),
    /// An end without a call: expired, blocked, given up.
    End(u8, Ending),
    Prepare(u8, Row),
    AskAgain(u8, Row),
    Claim(Attempt, Row),
    /// The claim's reply was lost.
    LookUp(Attempt),
    Send(Attempt),
    Await(Attempt),
    /// The server wants a newer token.
    SendAgain(Attempt),
    Settle(Attempt, Brought),
    /// Is about to end the turn of a replaced message, and then drives that of its successor.
    Retire {
        drive: Option<(u8, Turn)>,
    },
    Void {
        slots: u8,
        turn: Turn,
        drive: Option<(u8, Turn)>,
    },
    Continue(u8, Turn),
    TakeOver(u8, Turn),
    Interrupt(u8, Turn),
    Start,
    /// Asks the model and commits its step; these calls are not asked.
    Drive {
        turn: u8,
        row: Turn,
        blocked: u8,
    },
    Release(Release),
}

#[derive(Clone, Copy, Debug, Hash, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Ending {
    Expire,
    Abandon,
    Block,
    GiveUp,
}

#[derive(Clone, Copy, Debug, Hash, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Release {
    IfNothingNew,
    LeaveDue,
}

/// A person's answer on its way: the row was read at `now`.
#[derive(Clone, Copy, Debug, Hash, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Answer {
    pub(crate) slot: u8,
    pub(crate) yes: bool,
    /// In a chat request, which then works on the turn itself.
    pub(crate) chat: bool,
    pub(crate) row: Row,
    pub(crate) now: Time,
}

/// A person's message on its way: the conversation was read at `now`.
#[derive(Clone, Copy, Debug, Hash, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Message {
    pub(crate) fence: u8,
    pub(crate) seen: u8,
    pub(crate) mine: Mine,
    pub(crate) held: bool,
    pub(crate) due: bool,
    pub(crate) now: Time,
}

/// What must never happen and shows in no row afterwards.
#[derive(Clone, Copy, Debug, Default, Hash, PartialEq, Eq)]
pub(crate) struct Wrongs {
    pub(crate) settled_changed: bool,
    pub(crate) answer_changed: bool,
    pub(crate) after_limit: bool,
    pub(crate) beside_unknown: bool,
    pub(crate) past_lapsed: bool,
    pub(crate) sent_unclaimed: bool,
    pub(crate) effect_unasked: bool,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq)]
pub(crate) struct World {
    pub(crate) now: Time,
    pub(crate) meta: Meta,
    pub(crate) turns: [Option<Turn>; TURNS],
    /// Stored steps by turn, each with the questions it asked, as bits.
    pub(crate) steps: [[Option<u8>; STEPS]; TURNS],
    pub(crate) approvals: [Option<Row>; SLOTS],
    /// Questions in the list of open ones, as bits.
    pub(crate) listed: u8,
    /// Questions in the sets of unknown outcomes, as bits.
    pub(crate) unknown: u8,
    pub(crate) chains: [Chain; SLOTS],
    pub(crate) inbox: bool,
    /// A hint was sent. It may come at any time, any number of times, or never.
    pub(crate) hint: bool,
    pub(crate) workers: [Option<Worker>; 2],
    pub(crate) answers: [Option<Answer>; 2],
    pub(crate) message: Option<Message>,
    pub(crate) tools: [Tool; SLOTS],
    /// How often each step was continued.
    pub(crate) continued: [[u8; STEPS]; TURNS],
    pub(crate) wrongs: Wrongs,
    /// How often time may still go on.
    pub(crate) ticks: u8,
}

impl World {
    /// Brings worlds that behave alike into one form: of counters only whether a copy is the newest
    /// matters, of moments that have passed only that they have, of a worker only what it will still
    /// use, and of two processes not which is called the first.
    pub(crate) fn settle(&mut self, config: &Config) {
        let Meta { wake, fence, .. } = self.meta;
        let newest = |copy: &mut u8, of: u8| *copy = u8::from(*copy == of);
        for worker in self.workers.iter_mut().flatten() {
            newest(&mut worker.fence, fence);
            newest(&mut worker.seen, wake);
            worker.forget(config);
        }
        if let Some(message) = &mut self.message {
            newest(&mut message.fence, fence);
            newest(&mut message.seen, wake);
        }
        self.meta.wake = 1;
        self.meta.fence = 1;
        let now = self.now;
        for moment in [&mut self.meta.lease, &mut self.meta.due] {
            if moment.is_some_and(|moment| moment <= now) {
                *moment = Some(PAST);
            }
        }
        if !config.faults.renewals && self.meta.lease == Some(PAST) {
            // Only a renewal tells a lapsed lease from none.
            self.meta.lease = None;
        }
        self.workers.sort_unstable();
        self.answers.sort_unstable();
    }

    pub(crate) fn workers(&self) -> impl Iterator<Item = (usize, Worker)> {
        let numbered = self.workers.iter().enumerate();
        numbered.filter_map(|(index, worker)| Some((index, (*worker)?)))
    }

    pub(crate) fn has_room(&self) -> bool {
        self.workers.iter().any(Option::is_none)
    }

    pub(crate) fn questions(&self) -> impl Iterator<Item = (u8, Row)> + use<'_> {
        let numbered = (0..).zip(&self.approvals);
        numbered.filter_map(|(slot, row)| Some((slot, (*row)?)))
    }

    /// A message has come or is on its way: there is only one.
    pub(crate) fn has_message(&self) -> bool {
        self.message.is_some() || self.inbox || self.turns[1].is_some()
    }

    /// The first attempt id that nobody has or is about to have.
    pub(crate) fn free_attempt(&self, used: impl Fn(Row) -> Option<u8>) -> u8 {
        let in_rows = |id| self.questions().any(|(_, row)| used(row) == Some(id));
        let in_hands = |id| {
            self.workers().any(|(_, worker)| match worker.at {
                At::Claim(attempt, _)
                | At::LookUp(attempt)
                | At::Send(attempt)
                | At::Await(attempt)
                | At::SendAgain(attempt)
                | At::Settle(attempt, _) => attempt.id == id,
                At::Take
                | At::Wake
                | At::Look
                | At::WakeLate(..)
                | At::End(..)
                | At::Prepare(..)
                | At::AskAgain(..)
                | At::Retire { .. }
                | At::Void { .. }
                | At::Continue(..)
                | At::TakeOver(..)
                | At::Interrupt(..)
                | At::Start
                | At::Drive { .. }
                | At::Release(_) => false,
            })
        };
        (0..).find(|id| !in_rows(*id) && !in_hands(*id)).unwrap()
    }
}

impl Worker {
    /// Drops what it will not use any more, or read anew before it does.
    fn forget(&mut self, config: &Config) {
        let uses_copies = match &mut self.at {
            At::Look
            | At::Retire { .. }
            | At::Void { .. }
            | At::Continue(..)
            | At::TakeOver(..)
            | At::Interrupt(..)
            | At::Start
            | At::Drive { .. }
            | At::Release(_)
            | At::WakeLate(..) => true,
            At::Await(attempt) => {
                if !config.faults.challenges && !config.off.contains(&Rule::NeverAgain) {
                    attempt.since = PAST;
                }
                false
            }
            At::Settle(attempt, _) => {
                attempt.since = PAST;
                attempt.number = 1;
                false
            }
            At::Take
            | At::Wake
            | At::End(..)
            | At::Prepare(..)
            | At::AskAgain(..)
            | At::Claim(..)
            | At::LookUp(_)
            | At::Send(_)
            | At::SendAgain(_) => false,
        };
        let late = self.fence == 0 && !config.off.contains(&Rule::CommitFenced);
        if !uses_copies {
            self.mine = Mine::default();
        }
        if !uses_copies || late {
            self.seen = 0;
            self.others = None;
        }
    }
}
