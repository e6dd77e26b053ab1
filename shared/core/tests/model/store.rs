//! The store's transactions, each one indivisible action over the world, with the same guards.

use toshi_core::{RecordEvent, State};

use crate::config::Config;
use crate::rows::{Applied, Facts, Happening, Phase, Refused, Row, Rows, Time, Turn, bit, in_set};
use crate::rule::Rule;
use crate::world::{Answer, At, Chain, Message, Mine, Release, Worker, World};

/// A world while something happens in it.
pub(crate) struct Scene<'a> {
    pub(crate) config: &'a Config,
    pub(crate) rows: &'a mut Rows,
    pub(crate) world: World,
}

/// Which guard refused a transaction, as far as its caller tells them apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Denied {
    Row,
    Unknown,
    Fenced,
}

/// What one step boundary makes durable.
pub(crate) struct Commit {
    pub(crate) turn: u8,
    pub(crate) row: Turn,
    /// A new step, with the questions that it asks.
    pub(crate) step: Option<u8>,
    pub(crate) inbox_done: bool,
    pub(crate) release: bool,
}

impl Commit {
    pub(crate) fn of(turn: u8, row: Turn) -> Self {
        Self {
            turn,
            row,
            step: None,
            inbox_done: false,
            release: false,
        }
    }
}

impl Scene<'_> {
    /// The same world once more, to see what would become of it.
    pub(crate) fn again(&mut self) -> Scene<'_> {
        Scene {
            config: self.config,
            rows: self.rows,
            world: self.world.clone(),
        }
    }

    /// Whether a guard lets pass: because it holds, or because this world is a mutant without it.
    pub(crate) fn passes(&self, rule: Rule, holds: bool) -> bool {
        holds || self.is_off(rule)
    }

    pub(crate) fn is_off(&self, rule: Rule) -> bool {
        self.config.off.contains(&rule)
    }

    pub(crate) fn row(&self, slot: u8) -> Row {
        self.world.approvals[usize::from(slot)].unwrap()
    }

    pub(crate) fn is_held(&mut self) -> bool {
        let (lease, now) = (self.world.meta.lease, self.world.now);
        self.rows.is_held(lease, now)
    }

    /// Whether two calls are the same to the tool: connection, name and arguments.
    fn are_alike(&self, one: u8, other: u8) -> bool {
        let both = bit(one) | bit(other);
        one == other || self.config.alike & both == both
    }

    /// Whether an identical call stands in the set of unknown outcomes.
    pub(crate) fn is_blocked(&self, slot: u8) -> bool {
        in_set(self.world.unknown).any(|other| self.are_alike(slot, other))
    }

    /// `store::approval::wake_part`.
    fn wake(&mut self, now: Time) {
        self.world.meta.wake += 1;
        if !self.is_off(Rule::WakeIsDue) {
            self.world.meta.due = Some(now);
        }
    }

    /// `store::approval::transition`: if another writer was first, the event is put to the row as
    /// it is then. Reading again, deciding and committing are one action: what comes in between
    /// only makes it read once more.
    pub(crate) fn transition(
        &mut self,
        slot: u8,
        read: Row,
        happening: Happening,
        now: Time,
    ) -> Result<(), Refused> {
        let mut row = read;
        loop {
            let decided = self.decided(row, happening, now)?;
            match self.commit_transition(slot, row, decided, now, Rule::RowAsRead) {
                Ok(()) => return Ok(()),
                Err(_) => row = self.row(slot),
            }
        }
    }

    /// Core's decision, at the time that is told to it.
    pub(crate) fn decided(
        &mut self,
        row: Row,
        happening: Happening,
        now: Time,
    ) -> Result<Applied, Refused> {
        let facts = self.rows.facts(row);
        let (rule, limit) = match happening {
            Happening::Decide { .. } => (Rule::DecideInTime, Some(facts.decide_by)),
            Happening::Claim { .. } => (Rule::ClaimInTime, facts.run_by),
            Happening::Expire
            | Happening::Void
            | Happening::Supersede(_)
            | Happening::Block
            | Happening::GiveUp
            | Happening::SendAgain { .. }
            | Happening::Settle { .. }
            | Happening::Abandon
            | Happening::Resolve { .. } => return self.rows.apply(row, happening, now),
        };
        // Without its guard the rule is told a time that is early enough.
        let told = match limit {
            Some(limit) if self.is_off(rule) => now.min(limit.saturating_sub(1)),
            Some(_) | None => now,
        };
        let decided = self.rows.apply(row, happening, told)?;
        self.world.wrongs.after_limit |= limit.is_some_and(|limit| now >= limit);
        Ok(decided)
    }

    /// `store::approval::commit_transition`: row, record and effects, or nothing.
    pub(crate) fn commit_transition(
        &mut self,
        slot: u8,
        read: Row,
        decided: Applied,
        now: Time,
        rule: Rule,
    ) -> Result<(), Denied> {
        let index = usize::from(slot);
        let stored = self.row(slot);
        let (as_read, before) = (self.rows.facts(read), self.rows.facts(stored));
        let after = self.rows.facts(decided.row);
        let same = (as_read.seq, as_read.state) == (before.seq, before.state);
        let is_new = after.seq > self.world.chains[index].records;
        if !self.passes(rule, same) || !self.passes(Rule::RecordIsNew, is_new) {
            return Err(Denied::Row);
        }
        if rule == Rule::ClaimRowAsRead
            && !self.passes(Rule::NoUnknownAtClaim, !self.is_blocked(slot))
        {
            return Err(Denied::Unknown);
        }
        self.notice(slot, before.state, after.state);
        self.world.wrongs.answer_changed |= before.yes.is_some() && before.yes != after.yes;
        let announces = matches!(
            decided.record,
            RecordEvent::Claimed | RecordEvent::Attempted
        );
        let settles = matches!(
            decided.record,
            RecordEvent::Settled | RecordEvent::LateResult
        );
        let chain = &mut self.world.chains[index];
        *chain = Chain {
            records: chain.records.max(after.seq),
            attempts: chain.attempts + u8::from(announces),
        };
        self.world.approvals[index] = Some(decided.row);
        if decided.closes {
            self.world.listed &= !bit(slot);
        }
        if decided.adds_unknown {
            self.world.unknown |= bit(slot);
        }
        if decided.removes_unknown {
            self.world.unknown &= !bit(slot);
        }
        if decided.wakes && !(settles && self.is_off(Rule::SettleWakes)) {
            self.wake(now);
        }
        Ok(())
    }

    /// What a change of state must never be, in the specification's words and not core's.
    fn notice(&mut self, slot: u8, before: State, after: State) {
        let may_change = match before {
            State::Pending | State::Approved | State::Executing => true,
            State::Unknown => matches!(
                after,
                State::Succeeded | State::Failed | State::ResolvedDone | State::ResolvedNotDone
            ),
            State::Rejected
            | State::Expired
            | State::Voided
            | State::Superseded
            | State::Blocked
            | State::Succeeded
            | State::Failed
            | State::ResolvedDone
            | State::ResolvedNotDone => before == after,
        };
        self.world.wrongs.settled_changed |= !may_change;
        if (before, after) == (State::Approved, State::Executing) {
            self.notice_alike(slot);
        }
    }

    /// A call is asked or claimed, and what became of an identical one is unknown.
    fn notice_alike(&mut self, slot: u8) {
        let unknown = |(other, row)| {
            other != slot
                && self.are_alike(slot, other)
                && self.rows.facts(row).state == State::Unknown
        };
        let beside_unknown = self.world.questions().any(unknown);
        self.world.wrongs.beside_unknown |= beside_unknown;
    }

    /// `store::conversation::take`, from its conditional update on; `None`: somebody was faster.
    pub(crate) fn take(&mut self, worker: Worker) -> Option<Worker> {
        let free = !self.is_held() && self.world.meta.fence == worker.fence;
        if !self.passes(Rule::TakeIfFree, free) {
            return None;
        }
        self.hold(worker.fence);
        let meta = self.world.meta;
        Some(Worker {
            fence: meta.fence,
            seen: meta.wake,
            mine: meta.mine,
            // Taking the lease has just read `wake`.
            at: At::Look,
            ..worker
        })
    }

    fn hold(&mut self, fence: u8) {
        let (taken, until) = self.rows.taken(fence, self.world.now);
        let meta = &mut self.world.meta;
        meta.lease = Some(until);
        meta.due = Some(until);
        meta.fence = taken;
        if self.is_off(Rule::TakeCounts) {
            self.world.meta.fence = fence;
        }
    }

    /// `store::conversation::renew`.
    pub(crate) fn renew(&mut self, worker: Worker) {
        let meta = self.world.meta;
        if meta.fence == worker.fence && meta.lease.is_some() {
            let (_, until) = self.rows.taken(meta.fence, self.world.now);
            self.world.meta.lease = Some(until);
            self.world.meta.due = Some(until);
        }
    }

    /// `store::conversation::release`.
    pub(crate) fn release(&mut self, worker: Worker, how: Release) -> bool {
        let (meta, now) = (self.world.meta, self.world.now);
        let ours = meta.fence == worker.fence;
        let may = match how {
            Release::IfNothingNew => {
                ours && self.passes(Rule::ReleaseIfSeen, meta.wake == worker.seen)
            }
            Release::LeaveDue => ours,
        };
        if may {
            self.world.meta.lease = None;
            self.world.meta.due = match how {
                Release::IfNothingNew => None,
                Release::LeaveDue => Some(now),
            };
        }
        may
    }

    /// `store::step::commit`: with the release if nothing new has come, else without it.
    pub(crate) fn commit(&mut self, worker: Worker, commit: &Commit) -> Result<bool, Denied> {
        let Commit {
            turn,
            row,
            step,
            inbox_done,
            release,
        } = *commit;
        let meta = self.world.meta;
        if !self.passes(Rule::CommitFenced, meta.fence == worker.fence) {
            return Err(Denied::Fenced);
        }
        let blocked = in_set(step.unwrap_or(0)).any(|slot| self.is_blocked(slot));
        if !self.passes(Rule::NoUnknownAtAsk, !blocked) {
            return Err(Denied::Unknown);
        }
        let place = &mut self.world.steps[usize::from(turn)];
        if let Some(asked) = step {
            let place = &mut place[usize::from(row.steps - 1)];
            if place.is_some() {
                return Err(Denied::Row);
            }
            *place = Some(asked);
            let until = self.world.now + self.config.within;
            for slot in in_set(asked) {
                self.ask(slot, turn, row.steps, until);
            }
        }
        self.world.turns[usize::from(turn)] = Some(row);
        if inbox_done {
            self.world.inbox = false;
        }
        let release = release && self.passes(Rule::ReleaseIfSeen, meta.wake == worker.seen);
        self.world.meta.mine = worker.mine;
        if release {
            self.world.meta.lease = None;
            self.world.meta.due = None;
        }
        Ok(release)
    }

    /// `store::approval::ask_parts`.
    pub(crate) fn ask(&mut self, slot: u8, turn: u8, step: u8, until: Time) {
        let alike = self.config.alike & bit(slot) != 0;
        let row = self.rows.ask(slot, turn, step, alike, until);
        self.world.approvals[usize::from(slot)] = Some(row);
        self.world.listed |= bit(slot);
        self.world.chains[usize::from(slot)].records = 1;
        self.notice_alike(slot);
    }

    /// `store::step::ask_again`: the old question ends and its successor takes its place.
    pub(crate) fn ask_again(
        &mut self,
        worker: Worker,
        old: (u8, Row),
        new: u8,
    ) -> Result<(), Denied> {
        let (slot, read) = old;
        let now = self.world.now;
        let Ok(decided) = self.decided(read, Happening::Supersede(new), now) else {
            return Err(Denied::Row);
        };
        if self.world.meta.fence != worker.fence {
            return Err(Denied::Fenced);
        }
        if self.is_blocked(slot) {
            return Err(Denied::Unknown);
        }
        let decided = Applied {
            wakes: false,
            ..decided
        };
        self.commit_transition(slot, read, decided, now, Rule::RowAsRead)?;
        let until = now + self.config.within;
        let Facts { turn, step, .. } = self.rows.facts(read);
        self.ask(new, turn, step, until);
        let asked = &mut self.world.steps[usize::from(turn)][usize::from(step - 1)];
        *asked = asked.map(|asked| asked & !bit(slot) | bit(new));
        Ok(())
    }

    /// `store::conversation::begin`, one try: the message starts its turn, waits in the inbox, or
    /// has to be tried again on the conversation as it is then.
    pub(crate) fn begin(&mut self, turn: u8, message: Message) {
        let waits = message.held || message.due;
        let inbox = waits && self.world.inbox;
        if message.held || inbox {
            self.world.inbox = true;
            self.wake(message.now);
            self.world.hint = true;
            self.world.message = None;
            return;
        }
        let meta = self.world.meta;
        let unchanged = (meta.fence, meta.mine.next) == (message.fence, message.mine.next);
        let free = !self.is_held() && unchanged;
        if !self.passes(Rule::StartIfFree, free) {
            self.world.message = Some(self.read_conversation());
            return;
        }
        self.hold(message.fence);
        let row = first_turn(message.mine.next);
        let mine = Mine {
            next: message.mine.next + 2,
            open: message.mine.open | bit(turn),
            replaced: turn == 1 && self.config.replaces,
        };
        self.world.meta.mine = mine;
        self.world.turns[usize::from(turn)] = Some(row);
        self.world.message = None;
        self.come(Worker {
            only: Some(turn),
            short: false,
            fence: self.world.meta.fence,
            seen: message.seen,
            mine,
            // The row says whether anything waited, as it was before.
            others: Some(message.due),
            at: self.first_of(turn, row),
        });
    }

    pub(crate) fn read_conversation(&mut self) -> Message {
        let held = self.is_held();
        let meta = self.world.meta;
        Message {
            fence: meta.fence,
            seen: meta.wake,
            mine: meta.mine,
            held,
            due: meta.due.is_some(),
            now: self.world.now,
        }
    }

    pub(crate) fn come(&mut self, worker: Worker) {
        let room = self.world.workers.iter_mut().find(|room| room.is_none());
        *room.unwrap() = Some(worker);
    }

    pub(crate) fn read_answer(&self, slot: u8, yes: bool, chat: bool) -> Answer {
        Answer {
            slot,
            yes,
            chat,
            row: self.row(slot),
            now: self.world.now,
        }
    }
}

pub(crate) fn first_turn(seq: u8) -> Turn {
    Turn {
        phase: Phase::Running,
        steps: 0,
        takeovers: 0,
        interrupted: false,
        answer_seq: seq + 1,
    }
}
