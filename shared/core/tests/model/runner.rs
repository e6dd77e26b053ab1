//! A worker's way from boundary to boundary, in the order of `agent::run`, `execute` and `drive`.

use toshi_core::State;

use crate::call::Luck;
use crate::rows::{Happening, Job, Look, PLENTY_MS, Phase, Row, SLOTS, TURNS, Turn, bit, in_set};
use crate::rule::Rule;
use crate::store::{Commit, Denied, Scene, first_turn};
use crate::world::{At, Ending, Release, Worker};

/// What an invocation that is too short for a model call has left: enough for a claim.
const SHORT_MS: i64 = 100_000;

impl Scene<'_> {
    /// A worker goes over its next boundary. `None`: its run is over.
    pub(crate) fn step(&mut self, worker: Worker, luck: Luck) -> Option<Worker> {
        let to = |at| Some(Worker { at, ..worker });
        match worker.at {
            At::Take => self.take(worker),
            At::Wake => self.read_wake(worker),
            At::Look => self.look(worker),
            At::WakeLate(job, look) => {
                let seen = self.world.meta.wake;
                self.choose(Worker { seen, ..worker }, job, &look)
            }
            At::End(..)
            | At::Prepare(..)
            | At::AskAgain(..)
            | At::Claim(..)
            | At::LookUp(_)
            | At::Send(_)
            | At::Await(_)
            | At::SendAgain(_)
            | At::Settle(..) => self.step_of_call(worker, luck),
            At::Retire { drive } => self.retire(worker, drive),
            At::Void { slots, turn, drive } => self.void(worker, slots, turn, drive),
            At::Continue(turn, row) => self.go_on(worker, turn, row),
            At::TakeOver(turn, row) => {
                let row = Turn {
                    takeovers: row.takeovers + 1,
                    interrupted: true,
                    ..row
                };
                self.commit_and_drive(worker, Commit::of(turn, row))
            }
            At::Interrupt(turn, row) => self.finish(worker, turn, row),
            At::Start => {
                let turn = 1;
                let row = first_turn(worker.mine.next);
                let mut worker = worker;
                worker.mine.next += 2;
                worker.mine.open |= bit(turn);
                worker.mine.replaced = self.config.replaces;
                let commit = Commit {
                    inbox_done: true,
                    ..Commit::of(turn, row)
                };
                self.commit_and(worker, commit, self.first_of(turn, row))
            }
            At::Drive { turn, row, blocked } => self.drive(worker, turn, row, blocked),
            At::Release(how) => match (self.release(worker, how), how) {
                (true, Release::IfNothingNew) => None,
                (true, Release::LeaveDue) => {
                    self.world.hint = true;
                    None
                }
                (false, Release::IfNothingNew) => to(At::Wake),
                (false, Release::LeaveDue) => self.superseded(),
            },
        }
    }

    /// Another runner has the conversation: a late one hints, since it may leave a result behind.
    pub(crate) fn superseded(&mut self) -> Option<Worker> {
        self.world.hint = true;
        None
    }

    /// The run ends with the store's error: a message of the queue comes again, a request does not.
    pub(crate) fn failed(&mut self, worker: Worker) -> Option<Worker> {
        self.world.hint |= worker.only.is_none();
        None
    }

    /// `Run::refresh_meta`.
    fn read_wake(&mut self, worker: Worker) -> Option<Worker> {
        let meta = self.world.meta;
        if meta.fence != worker.fence {
            return self.superseded();
        }
        Some(Worker {
            seen: meta.wake,
            mine: meta.mine,
            at: At::Look,
            ..worker
        })
    }

    /// What a runner reads of the turns in its copy of the open list.
    pub(crate) fn read_rows(&self, open: u8) -> Look {
        let mut look = Look {
            turns: [None; TURNS],
            approvals: [None; SLOTS],
            inbox: self.world.inbox,
        };
        for turn in in_set(open) {
            let index = usize::from(turn);
            let Some(row) = self.world.turns[index].filter(|row| row.phase != Phase::Done) else {
                continue;
            };
            let steps = &self.world.steps[index];
            let step = row.steps.checked_sub(1);
            let asked = step.and_then(|step| steps[usize::from(step)]);
            look.turns[index] = Some((row, asked));
            for slot in in_set(asked.unwrap_or(0)) {
                look.approvals[usize::from(slot)] = self.world.approvals[usize::from(slot)];
            }
        }
        look
    }

    /// `Run::work`, from the reads to the choice.
    fn look(&mut self, worker: Worker) -> Option<Worker> {
        let mut look = self.read_rows(worker.mine.open);
        if self.is_off(Rule::LapsedFirst) {
            // As if it did not see them.
            let lapsed = |row: &mut Row| self.is_lapsed(*row);
            for place in &mut look.approvals {
                place.take_if(lapsed);
            }
        }
        if worker.mine.replaced && look.turns[0].is_some() {
            // Whoever replaced it died before it could end it.
            let at = At::Retire { drive: None };
            return Some(Worker { at, ..worker });
        }
        let own = match worker.only {
            None => look,
            Some(turn) => only(&look, turn),
        };
        let left = if worker.short { SHORT_MS } else { PLENTY_MS };
        // What ran out is recorded first, whosever turn it is.
        let now = self.world.now;
        let job = match self.rows.next_work(&look, now, i64::MAX) {
            over @ Job::Expire(_) => over,
            _ => self.rows.next_work(&own, now, left),
        };
        if self.is_off(Rule::WakeBeforeRows) {
            let at = At::WakeLate(job, look);
            return Some(Worker { at, ..worker });
        }
        self.choose(worker, job, &look)
    }

    /// A claim whose lease is over.
    fn is_lapsed(&self, row: Row) -> bool {
        let facts = self.rows.facts(row);
        let over = facts.due.is_some_and(|due| due <= self.world.now);
        facts.state == State::Executing && over
    }

    fn choose(&mut self, worker: Worker, job: Job, look: &Look) -> Option<Worker> {
        let now = self.world.now;
        let others = self.rows.besides(job, look, now);
        let open = self.read_rows(worker.mine.open).approvals;
        let any_lapsed = open.iter().flatten().any(|row| self.is_lapsed(*row));
        self.world.wrongs.past_lapsed |= any_lapsed && matches!(job, Job::Call(_));
        let turn = |turn: u8| look.turns[usize::from(turn)].unwrap().0;
        let row = |slot: u8| look.approvals[usize::from(slot)].unwrap();
        let at = match job {
            Job::Expire(slot) if self.is_lapsed(row(slot)) => At::End(slot, Ending::Abandon),
            Job::Expire(slot) => At::End(slot, Ending::Expire),
            Job::Call(slot) => At::Prepare(slot, row(slot)),
            Job::Continue(number) => At::Continue(number, turn(number)),
            Job::TakeOver(number) => At::TakeOver(number, turn(number)),
            Job::Interrupt(number) => At::Interrupt(number, turn(number)),
            Job::Start => At::Start,
            Job::HandOver => At::Release(Release::LeaveDue),
            Job::Idle => match self.rows.next_work(look, now, i64::MAX) {
                Job::Idle => At::Release(Release::IfNothingNew),
                // Work of another turn: it is not for this invocation.
                _ => At::Release(Release::LeaveDue),
            },
        };
        Some(Worker {
            others: Some(others),
            at,
            ..worker
        })
    }

    /// `Run::go_on`: in a new message if newer ones exist.
    fn go_on(&mut self, worker: Worker, turn: u8, row: Turn) -> Option<Worker> {
        let mut worker = worker;
        let mut after = Turn {
            phase: Phase::Running,
            takeovers: 0,
            interrupted: false,
            ..row
        };
        if worker.mine.next > row.answer_seq + 1 {
            after.answer_seq = worker.mine.next;
            worker.mine.next += 1;
        }
        let next = self.commit_and_drive(worker, Commit::of(turn, after));
        if next.is_some() {
            let step = usize::from(row.steps - 1);
            self.world.continued[usize::from(turn)][step] += 1;
        }
        next
    }

    fn commit_and_drive(&mut self, worker: Worker, commit: Commit) -> Option<Worker> {
        let (turn, row, blocked) = (commit.turn, commit.row, 0);
        self.commit_and(worker, commit, At::Drive { turn, row, blocked })
    }

    fn commit_and(&mut self, worker: Worker, commit: Commit, at: At) -> Option<Worker> {
        match self.commit(worker, &commit) {
            Ok(_) => Some(Worker { at, ..worker }),
            Err(Denied::Fenced) => self.superseded(),
            Err(Denied::Row | Denied::Unknown) => self.failed(worker),
        }
    }

    /// A message's turn begins with the end of what it replaces.
    pub(crate) fn first_of(&self, turn: u8, row: Turn) -> At {
        if turn == 1 && self.config.replaces {
            let drive = Some((turn, row));
            At::Retire { drive }
        } else {
            let blocked = 0;
            At::Drive { turn, row, blocked }
        }
    }

    /// `Run::retire_replaced`, the read: the first turn's questions are voided one by one.
    fn retire(&mut self, worker: Worker, drive: Option<(u8, Turn)>) -> Option<Worker> {
        let look = self.read_rows(worker.mine.open & bit(0));
        let at = match look.turns[0] {
            Some((turn, asked)) => At::Void {
                slots: asked.unwrap_or(0),
                turn,
                drive,
            },
            None => after_retiring(drive),
        };
        Some(Worker { at, ..worker })
    }

    fn void(
        &mut self,
        worker: Worker,
        slots: u8,
        turn: Turn,
        drive: Option<(u8, Turn)>,
    ) -> Option<Worker> {
        if let Some(slot) = in_set(slots).next() {
            // Refused: it is being carried out or has ended.
            let _ = self.change(slot, Happening::Void);
            let slots = slots & !bit(slot);
            let at = At::Void { slots, turn, drive };
            return Some(Worker { at, ..worker });
        }
        let mut worker = worker;
        worker.mine.open &= !bit(0);
        let phase = Phase::Done;
        let commit = Commit::of(0, Turn { phase, ..turn });
        self.commit_and(worker, commit, after_retiring(drive))
    }

    /// What the model answers: the first step's calls, and then a sentence.
    fn model(&self, turn: u8, step: u8) -> u8 {
        match (turn, step) {
            (0, 1) => self.config.writes,
            (1, 1) if self.config.second_writes => bit(u8::try_from(SLOTS - 1).unwrap()),
            _ => 0,
        }
    }

    /// `Drive::run`: one model call and the commit of its step.
    fn drive(&mut self, worker: Worker, turn: u8, row: Turn, blocked: u8) -> Option<Worker> {
        let steps = row.steps + 1;
        let wanted = self.model(turn, steps);
        if wanted == 0 {
            return self.finish(worker, turn, row);
        }
        let asked = wanted & !blocked;
        let waits = asked != 0;
        let row = Turn {
            steps,
            phase: if waits {
                Phase::Waiting
            } else {
                Phase::Running
            },
            ..row
        };
        let commit = Commit {
            step: Some(asked),
            release: waits && self.may_release(worker),
            ..Commit::of(turn, row)
        };
        let at = match self.commit(worker, &commit) {
            Ok(true) => return None,
            Ok(false) if waits => At::Wake,
            Ok(false) => At::Drive {
                turn,
                row,
                blocked: 0,
            },
            Err(Denied::Fenced) => return self.superseded(),
            Err(Denied::Row) => return self.failed(worker),
            Err(Denied::Unknown) => {
                let more = in_set(asked).filter(|slot| self.is_blocked(*slot)).map(bit);
                let blocked = more.fold(blocked, |all, one| all | one);
                let steps = steps - 1;
                let phase = Phase::Running;
                let row = Turn {
                    steps,
                    phase,
                    ..row
                };
                At::Drive { turn, row, blocked }
            }
        };
        Some(Worker { at, ..worker })
    }

    /// A last step, and the turn is done.
    fn finish(&mut self, worker: Worker, turn: u8, row: Turn) -> Option<Worker> {
        let mut worker = worker;
        worker.mine.open &= !bit(turn);
        let row = Turn {
            phase: Phase::Done,
            steps: row.steps + 1,
            ..row
        };
        let commit = Commit {
            step: Some(0),
            release: self.may_release(worker),
            ..Commit::of(turn, row)
        };
        match self.commit(worker, &commit) {
            Ok(true) => None,
            Ok(false) => Some(Worker {
                at: At::Wake,
                ..worker
            }),
            Err(Denied::Fenced) => self.superseded(),
            Err(Denied::Row | Denied::Unknown) => self.failed(worker),
        }
    }

    /// Whoever lets go of the lease takes the conversation off the sweep's list.
    fn may_release(&self, worker: Worker) -> bool {
        self.passes(Rule::ReleaseIfAlone, worker.others == Some(false))
    }
}

fn after_retiring(drive: Option<(u8, Turn)>) -> At {
    drive.map_or(At::Wake, |(turn, row)| At::Drive {
        turn,
        row,
        blocked: 0,
    })
}

/// One turn, and the questions of its last step.
fn only(look: &Look, turn: u8) -> Look {
    let mut only = Look {
        turns: [None; TURNS],
        approvals: [None; SLOTS],
        inbox: false,
    };
    let own = look.turns[usize::from(turn)];
    only.turns[usize::from(turn)] = own;
    let asked = own.and_then(|(_, asked)| asked).unwrap_or(0);
    for slot in in_set(asked) {
        only.approvals[usize::from(slot)] = look.approvals[usize::from(slot)];
    }
    only
}
