//! What becomes of a world in which nobody does anything more: processes go on, the sweep looks
//! each minute, time passes. No hint arrives that the sweep did not send.

use toshi_core::State;

use crate::around::Action;
use crate::call::Luck;
use crate::check::Sight;
use crate::quick::hash_of;
use crate::rows::{Job, Phase};
use crate::store::Scene;
use crate::world::PAST;

/// Where in its minute a world is.
#[derive(Clone, Copy, Debug, Hash, PartialEq, Eq)]
enum Part {
    /// What is under way goes on; hints are lost.
    Before,
    Sweep,
    /// What the sweep hinted at is done.
    After,
}

enum Next {
    Part(Part),
    End { good: bool },
}

/// More than any world takes: one that takes longer goes round in circles.
const STEPS_MAX: usize = 600;

/// Every turn ends, nothing is left to do, and no yes is left to its time while there is a runner.
pub(crate) fn ends_well(sight: &mut Sight) -> bool {
    let ending = &mut *sight.ending;
    let mut scene = sight.scene.again();
    scene.world.hint = false;
    // How much a bounded world may still see makes no difference to one left alone.
    scene.world.ticks = u8::MAX;
    let mut part = Part::Before;
    let mut way = Vec::new();
    for _ in 0..STEPS_MAX {
        let key = hash_of((part, &scene.world));
        if ending.contains(&key) {
            ending.extend(way);
            return true;
        }
        way.push(key);
        match scene.left_alone(part) {
            Next::Part(next) => part = next,
            Next::End { good } => {
                if good {
                    ending.extend(way);
                }
                return good;
            }
        }
    }
    false
}

impl Scene<'_> {
    fn left_alone(&mut self, part: Part) -> Next {
        match part {
            Part::Before => {
                if let Some(action) = self.under_way() {
                    self.perform(action);
                    return Next::Part(Part::Before);
                }
                self.world.hint = false;
                Next::Part(Part::Sweep)
            }
            Part::Sweep => {
                if let Some(slot) = self.overdue() {
                    self.perform(Action::SweepApproval(slot));
                    return Next::Part(Part::Sweep);
                }
                self.world.hint = self.world.meta.due == Some(PAST);
                Next::Part(Part::After)
            }
            Part::After => {
                if let Some(action) = self.under_way() {
                    self.perform(action);
                    return Next::Part(Part::After);
                }
                if self.world.hint {
                    self.world.hint = false;
                    self.perform(Action::Deliver { short: false });
                    return Next::Part(Part::After);
                }
                self.rest()
            }
        }
    }

    /// What is in somebody's hands.
    fn under_way(&self) -> Option<Action> {
        let world = &self.world;
        if let Some((index, _)) = world.workers().next() {
            return Some(Action::Step(index, Luck::Fine));
        }
        let answer = world.answers.iter().position(Option::is_some);
        if let Some(index) = answer {
            return Some(Action::CommitAnswer(index));
        }
        world.message.map(|_| Action::CommitMessage)
    }

    /// Nothing moves until time does.
    fn rest(&mut self) -> Next {
        if !self.is_held() {
            let look = self.read_rows(self.world.meta.mine.open);
            if self.rows.next_work(&look, self.world.now, i64::MAX) != Job::Idle {
                return Next::End { good: false };
            }
        }
        if self.next_moment().is_some() {
            self.perform(Action::Tick);
            self.world.ticks = u8::MAX;
            return Next::Part(Part::Before);
        }
        let mut turns = self.world.turns.iter().flatten();
        let done = turns.all(|turn| turn.phase == Phase::Done);
        let mut questions = self.world.questions();
        let settled = questions.all(|(_, row)| {
            let state = self.rows.facts(row).state;
            state.is_settled() || state == State::Superseded
        });
        let good = done && settled && !self.world.inbox && self.world.meta.due.is_none();
        Next::End { good }
    }
}
