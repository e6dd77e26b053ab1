//! What surrounds the workers: people, hints, the sweep, the tool's server, and time.

use toshi_core::State;

use crate::call::Luck;
use crate::rows::{Brought, Happening, Refused, Time};
use crate::rule::Rule;
use crate::store::Scene;
use crate::world::{Answer, At, Mine, PAST, Worker};

/// One thing that can happen.
#[derive(Clone, Copy, Debug, Hash, PartialEq, Eq)]
pub(crate) enum Action {
    /// A worker goes over its next boundary.
    Step(usize, Luck),
    Crash(usize),
    Renew(usize),
    /// The queue gives a hint to a worker.
    Deliver {
        short: bool,
    },
    /// A person's answer is read, and later committed.
    Answer {
        slot: u8,
        yes: bool,
        chat: bool,
    },
    CommitAnswer(usize),
    /// A person says what became of an unknown outcome.
    Resolve {
        slot: u8,
        done: bool,
    },
    /// A person's message is read, and later committed.
    Message,
    CommitMessage,
    /// A request that nobody waits for takes effect.
    LateEffect(u8),
    /// Somebody reports a result under an attempt that is not on record.
    Stray(u8),
    SweepApproval(u8),
    SweepConversation,
    /// Time goes on to the next moment that means something.
    Tick,
}

/// An attempt that nobody ever claimed.
const STRAY: u8 = 200;

impl Scene<'_> {
    pub(crate) fn actions(&self, each: &mut Vec<Action>) {
        let (world, config) = (&self.world, self.config);
        for (index, worker) in world.workers() {
            self.lucks(worker.at, |luck| each.push(Action::Step(index, luck)));
            if config.crashes {
                each.push(Action::Crash(index));
            }
            if config.faults.renewals && worker.at != At::Take {
                each.push(Action::Renew(index));
            }
        }
        if world.hint && world.has_room() {
            each.push(Action::Deliver { short: false });
            if config.faults.short {
                each.push(Action::Deliver { short: true });
            }
        }
        self.peoples_actions(each);
        for (slot, row) in world.questions() {
            if world.tools[usize::from(slot)].orphans > 0 {
                each.push(Action::LateEffect(slot));
            }
            let facts = self.rows.facts(row);
            if config.faults.strays && facts.state == State::Executing {
                each.push(Action::Stray(slot));
            }
            if facts.due.is_some_and(|due| due <= world.now) {
                each.push(Action::SweepApproval(slot));
            }
        }
        if world.meta.due == Some(PAST) && !world.hint {
            each.push(Action::SweepConversation);
        }
        if world.ticks > 0 && self.next_moment().is_some() {
            each.push(Action::Tick);
        }
    }

    fn peoples_actions(&self, each: &mut Vec<Action>) {
        let (world, config) = (&self.world, self.config);
        let under_way = world.answers.iter().flatten().count();
        let room = config.answers == 0 || under_way < usize::from(config.answers);
        for (slot, row) in world.questions() {
            let state = self.rows.facts(row).state;
            // Of an answer to what is settled nothing comes but a refusal.
            let open = matches!(state, State::Pending | State::Approved | State::Rejected);
            if room && open && !config.silent {
                for chat in [false, true] {
                    let process = config.answers > 0 || world.has_room();
                    if chat && !(config.by_chat && process) {
                        continue;
                    }
                    let yes = true;
                    each.push(Action::Answer { slot, yes, chat });
                    if !config.only_yes {
                        let yes = false;
                        each.push(Action::Answer { slot, yes, chat });
                    }
                }
            }
            if config.resolves && state == State::Unknown {
                for done in [false, true] {
                    each.push(Action::Resolve { slot, done });
                }
            }
        }
        for (index, answer) in world.answers.iter().enumerate() {
            // A chat request is a process that needs a place.
            if answer.is_some_and(|answer| !answer.chat || world.has_room()) {
                each.push(Action::CommitAnswer(index));
            }
        }
        if config.message && !world.has_message() {
            each.push(Action::Message);
        }
        if world.message.is_some() && world.has_room() {
            each.push(Action::CommitMessage);
        }
    }

    pub(crate) fn perform(&mut self, action: Action) {
        match action {
            Action::Step(index, luck) => {
                let worker = self.world.workers[index].unwrap();
                self.world.workers[index] = self.step(worker, luck);
            }
            Action::Crash(index) => self.crash(index),
            Action::Renew(index) => {
                let worker = self.world.workers[index].unwrap();
                self.renew(worker);
            }
            Action::Deliver { short } => self.visit(None, short),
            Action::Answer { slot, yes, chat } => {
                let answer = self.read_answer(slot, yes, chat);
                if self.config.answers == 0 {
                    self.commit_answer(answer);
                    return self.world.settle(self.config);
                }
                let room = self.world.answers.iter_mut().find(|room| room.is_none());
                *room.unwrap() = Some(answer);
            }
            Action::CommitAnswer(index) => {
                if let Some(answer) = self.world.answers[index].take() {
                    self.commit_answer(answer);
                }
            }
            Action::Resolve { slot, done } => {
                let _ = self.change(slot, Happening::Resolve { done });
            }
            Action::Message => {
                self.world.message = Some(self.read_conversation());
            }
            Action::CommitMessage => {
                if let Some(message) = self.world.message {
                    self.begin(1, message);
                }
            }
            Action::LateEffect(slot) => {
                self.world.tools[usize::from(slot)].orphans -= 1;
                self.effect(slot);
            }
            Action::Stray(slot) => self.stray(slot),
            Action::SweepApproval(slot) => self.sweep(slot),
            Action::SweepConversation => self.world.hint = true,
            Action::Tick => {
                self.world.ticks -= 1;
                if let Some(moment) = self.next_moment() {
                    self.world.now = moment;
                }
            }
        }
        self.world.settle(self.config);
    }

    /// A run begins with a look at the lease; who finds it held leaves.
    fn visit(&mut self, only: Option<u8>, short: bool) {
        let held = self.is_held();
        if !self.passes(Rule::TakeIfFree, !held) {
            return;
        }
        let worker = Worker {
            only,
            short,
            fence: self.world.meta.fence,
            seen: 0,
            mine: Mine::default(),
            others: None,
            at: At::Take,
        };
        if self.config.slow_takes {
            self.come(worker);
        } else if let Some(worker) = self.take(worker) {
            self.come(worker);
        }
    }

    /// `approvals::http::decide`, and `Decider::decide` of a chat request.
    fn commit_answer(&mut self, answer: Answer) {
        let Answer {
            slot,
            yes,
            chat,
            row,
            now,
        } = answer;
        let read = self.rows.facts(row);
        if chat && (read.yes.is_some() || read.state != State::Pending) {
            return self.go_on_in_chat(slot);
        }
        let event = Happening::Decide { yes };
        let mut decided = self.transition(slot, row, event, now);
        if decided == Err(Refused::Expired) {
            let expired = self.transition(slot, self.row(slot), Happening::Expire, now);
            self.world.hint |= expired.is_ok();
            if expired.is_err() && !chat {
                // Whoever answered in its last moment was first.
                decided = self.transition(slot, self.row(slot), event, now);
            }
        }
        self.world.hint |= match decided {
            Ok(()) => true,
            // The same answer again: it may be the hint that was lost the first time.
            Err(Refused::SameAnswer) => !chat,
            Err(Refused::Expired | Refused::Other) => false,
        };
        if chat {
            self.go_on_in_chat(slot);
        }
    }

    /// The request works on the turn whose question it answered.
    fn go_on_in_chat(&mut self, slot: u8) {
        let turn = self.rows.facts(self.row(slot)).turn;
        self.visit(Some(turn), false);
    }

    fn stray(&mut self, slot: u8) {
        let own = self.rows.facts(self.row(slot)).attempt;
        let attempt = match own {
            Some(own) if self.is_off(Rule::SettleOwnAttempt) => own,
            Some(_) | None => STRAY,
        };
        let brought = Brought::Refused;
        let _ = self.change(slot, Happening::Settle { attempt, brought });
    }

    /// `refresh::approvals::serve`.
    fn sweep(&mut self, slot: u8) {
        let row = self.row(slot);
        let Some(happening) = self.rows.facts(row).overdue else {
            return;
        };
        let now = self.world.now;
        let Ok(mut decided) = self.decided(row, happening, now) else {
            return;
        };
        if happening == Happening::Abandon && self.is_off(Rule::AbandonIsUnknown) {
            decided.row = self.rows.forged(row);
            decided.adds_unknown = false;
        }
        if self
            .commit_transition(slot, row, decided, now, Rule::RowAsRead)
            .is_ok()
        {
            self.world.hint = true;
        }
    }

    /// The next deadline of a row. Those in between are passed one by one.
    pub(crate) fn next_moment(&self) -> Option<Time> {
        let meta = &self.world.meta;
        let rows = self.world.questions();
        let dues = rows.filter_map(|(_, row)| self.rows.facts(row).due);
        let moments = dues.chain(meta.lease).chain(meta.due);
        moments.filter(|moment| *moment > self.world.now).min()
    }

    /// The first question whose place in the sweep's list has come.
    pub(crate) fn overdue(&self) -> Option<u8> {
        let due = |(slot, row)| {
            let due = self.rows.facts(row).due?;
            (due <= self.world.now).then_some(slot)
        };
        self.world.questions().find_map(due)
    }
}
