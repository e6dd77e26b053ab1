//! What must hold in every world, and what a configuration must come across to show anything.

use toshi_core::State;

use crate::check::Sight;
use crate::rows::{Job, Phase, SLOTS, TURNS, Turn, bit};
use crate::world::{At, Release, Worker};

pub(crate) struct Promise {
    pub(crate) name: &'static str,
    pub(crate) holds: fn(&mut Sight) -> bool,
}

const fn promise(name: &'static str, holds: fn(&mut Sight) -> bool) -> Promise {
    Promise { name, holds }
}

pub(crate) const PROMISES: [Promise; 15] = [
    promise("a call takes effect at most once", |sight| {
        let tools = &sight.scene.world.tools;
        tools.iter().all(|tool| tool.effects <= 1)
    }),
    promise(
        "a call takes effect only after a yes, and never after an end",
        never_after_an_end,
    ),
    promise("an attempt is on record before it is sent", |sight| {
        let world = &sight.scene.world;
        let mut calls = world.tools.iter().zip(&world.chains);
        calls.all(|(tool, chain)| tool.sends <= chain.attempts)
    }),
    promise("a call is sent only while it is claimed", |sight| {
        !sight.scene.world.wrongs.sent_unclaimed
    }),
    promise("a recorded outcome is what happened", |sight| {
        sight.states().all(|(slot, state)| {
            let effects = sight.scene.world.tools[slot].effects;
            match state {
                State::Succeeded => effects > 0,
                State::Failed => effects == 0,
                _ => true,
            }
        })
    }),
    promise(
        "what is settled changes in the allowed ways only",
        |sight| !sight.scene.world.wrongs.settled_changed,
    ),
    promise("an answer on record stays", |sight| {
        !sight.scene.world.wrongs.answer_changed
    }),
    promise("nothing is decided or claimed after its time", |sight| {
        !sight.scene.world.wrongs.after_limit
    }),
    promise("an unknown outcome blocks an identical call", |sight| {
        !sight.scene.world.wrongs.beside_unknown
    }),
    promise("a lapsed claim is recorded before the next call", |sight| {
        !sight.scene.world.wrongs.past_lapsed
    }),
    promise("a fence has one runner", |sight| {
        let world = &sight.scene.world;
        let holds = |worker: &Worker| worker.at != At::Take && worker.fence == world.meta.fence;
        let holders = world.workers().filter(|(_, worker)| holds(worker));
        holders.count() <= 1
    }),
    promise("a step is continued at most once", |sight| {
        let steps = sight.scene.world.continued.as_flattened();
        steps.iter().all(|times| *times <= 1)
    }),
    promise("what waits for a runner is due", is_due),
    promise(
        "the lists of open questions and unknown outcomes are right",
        lists_are_right,
    ),
    promise(
        "left alone, every turn ends and every yes is carried out",
        crate::alone::ends_well,
    ),
];

fn never_after_an_end(sight: &mut Sight) -> bool {
    let world = &sight.scene.world;
    !world.wrongs.effect_unasked
        && sight.states().all(|(slot, state)| match state {
            State::Executing
            | State::Succeeded
            | State::Failed
            | State::Unknown
            | State::ResolvedDone
            | State::ResolvedNotDone => true,
            State::Pending
            | State::Approved
            | State::Rejected
            | State::Expired
            | State::Voided
            | State::Superseded
            | State::Blocked => world.tools[slot].effects == 0,
        })
}

/// A runner's work stands in the sweep's list, and its turn in the conversation's.
fn is_due(sight: &mut Sight) -> bool {
    let scene = &mut sight.scene;
    let (meta, now) = (scene.world.meta, scene.world.now);
    let mut waits = scene.world.inbox;
    for turn in 0..TURNS as u8 {
        let row = scene.world.turns[usize::from(turn)];
        if row.is_none_or(|row| row.phase == Phase::Done) {
            continue;
        }
        if meta.mine.open & bit(turn) == 0 {
            return false;
        }
        let mut look = scene.read_rows(bit(turn));
        look.inbox = false;
        waits |= match scene.rows.next_work(&look, now, i64::MAX) {
            Job::Call(_) | Job::Continue(_) | Job::TakeOver(_) | Job::Interrupt(_) => true,
            // That row is due itself.
            Job::Expire(_) => false,
            Job::Start | Job::HandOver | Job::Idle => false,
        };
    }
    !waits || meta.due.is_some()
}

fn lists_are_right(sight: &mut Sight) -> bool {
    let world = &sight.scene.world;
    let mut slots = (0..).zip(sight.facts.iter().zip(&world.chains));
    slots.all(|(slot, (facts, chain))| {
        facts.is_none_or(|facts| {
            let listed = world.listed & bit(slot) != 0;
            let unknown = world.unknown & bit(slot) != 0;
            listed == (facts.state == State::Pending)
                && unknown == (facts.state == State::Unknown)
                && facts.seq == chain.records
        })
    })
}

/// Something that a configuration must come across, or it shows nothing.
pub(crate) struct Meeting {
    pub(crate) name: &'static str,
    pub(crate) met: fn(&Sight) -> bool,
}

const fn meeting(name: &'static str, met: fn(&Sight) -> bool) -> Meeting {
    Meeting { name, met }
}

pub(crate) const MEETINGS: [Meeting; 17] = [
    meeting("a call succeeds and its turn ends", |sight| {
        let done = |turn: Turn| turn.phase == Phase::Done;
        sight.any(State::Succeeded) && sight.scene.world.turns[0].is_some_and(done)
    }),
    meeting("two runners are at work", |sight| {
        let world = &sight.scene.world;
        !world.has_room() && world.workers().all(|(_, worker)| worker.at != At::Take)
    }),
    meeting("an outcome is unknown though it was done", |sight| {
        sight.after_effect(State::Unknown)
    }),
    meeting("a late result ends an unknown outcome", |sight| {
        // Asked, decided, claimed, called unknown, ended.
        let records = |slot: usize| sight.scene.world.chains[slot].records;
        let late = |(slot, state)| state == State::Succeeded && records(slot) == 5;
        sight.states().any(late)
    }),
    meeting(
        "an effect comes after a person said that it did not",
        |sight| sight.after_effect(State::ResolvedNotDone),
    ),
    meeting("an identical call is blocked", |sight| {
        sight.any(State::Blocked)
    }),
    meeting("an identical question is not asked", |sight| {
        sight.scene.world.steps[1][0] == Some(0) && sight.facts[SLOTS - 1].is_none()
    }),
    meeting("a question expires", |sight| sight.expired(None)),
    meeting("a yes expires", |sight| sight.expired(Some(true))),
    meeting("a turn is taken over", |sight| {
        let mut turns = sight.scene.world.turns.iter().flatten();
        turns.any(|turn| turn.takeovers > 0)
    }),
    meeting("a turn is interrupted for good", |sight| {
        let given_up = |turn: &Turn| turn.takeovers == 3 && turn.phase == Phase::Done;
        sight.scene.world.turns.iter().flatten().any(given_up)
    }),
    meeting("a message waits in the inbox", |sight| {
        sight.scene.world.inbox
    }),
    meeting("a step goes on in a new message", |sight| {
        sight.scene.world.turns[0].is_some_and(|turn| turn.answer_seq > 2)
    }),
    meeting("a question is withdrawn", |sight| sight.any(State::Voided)),
    meeting("a question is asked again", |sight| {
        sight.any(State::Superseded)
    }),
    meeting("a call is sent a second time after a challenge", |sight| {
        let tools = &sight.scene.world.tools;
        tools.iter().any(|tool| tool.sends == 2)
    }),
    meeting("a runner hands over for lack of time", |sight| {
        let hands_over = At::Release(Release::LeaveDue);
        let mut workers = sight.scene.world.workers();
        workers.any(|(_, worker)| worker.short && worker.at == hands_over)
    }),
];

impl Sight<'_> {
    fn states(&self) -> impl Iterator<Item = (usize, State)> {
        let numbered = self.facts.iter().enumerate();
        numbered.filter_map(|(slot, facts)| Some((slot, facts.as_ref()?.state)))
    }

    fn any(&self, wanted: State) -> bool {
        self.states().any(|(_, state)| state == wanted)
    }

    fn after_effect(&self, wanted: State) -> bool {
        let effects = |slot: usize| self.scene.world.tools[slot].effects;
        self.states()
            .any(|(slot, state)| state == wanted && effects(slot) == 1)
    }

    fn expired(&self, yes: Option<bool>) -> bool {
        let mut facts = self.facts.iter().flatten();
        facts.any(|facts| facts.state == State::Expired && facts.yes == yes)
    }
}
