//! The model as the checker sees it: where it begins, what can happen, what is looked for.

use std::sync::{Mutex, MutexGuard};

use stateright::{Model, Property};

use crate::around::Action;
use crate::call::Luck;
use crate::config::Config;
use crate::promises::{MEETINGS, Meeting, PROMISES};
use crate::quick::QuickSet;
use crate::rows::{Facts, Rows, SLOTS, STEPS, TURNS};

use crate::store::Scene;
use crate::world::{Chain, Meta, Mine, Tool, World, Wrongs};

pub(crate) struct Protocol {
    pub(crate) config: Config,
    kept: Mutex<Kept>,
}

/// What was found out once.
#[derive(Default)]
struct Kept {
    rows: Rows,
    ending: QuickSet<u64>,
    wanted: Vec<&'static Meeting>,
}

/// A world with what its rows say.
pub(crate) struct Sight<'a> {
    pub(crate) scene: Scene<'a>,
    pub(crate) facts: [Option<Facts>; SLOTS],
    /// Worlds of which it is known that they come to a good end by themselves.
    pub(crate) ending: &'a mut QuickSet<u64>,
}

impl Protocol {
    pub(crate) fn new(config: Config) -> Self {
        let known = MEETINGS.iter();
        let wanted = known.filter(|meeting| config.shows.contains(&meeting.name));
        let kept = Kept {
            wanted: wanted.collect(),
            ..Kept::default()
        };
        assert_eq!(
            kept.wanted.len(),
            config.shows.len(),
            "a known meeting each"
        );
        Self {
            config,
            kept: Mutex::new(kept),
        }
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap()
    }

    fn see<T>(&self, world: &World, what: impl FnOnce(&mut Sight) -> T) -> T {
        let mut kept = self.kept();
        let Kept { rows, ending, .. } = &mut *kept;
        let facts = world.approvals.map(|row| row.map(|row| rows.facts(row)));
        let scene = Scene {
            config: &self.config,
            rows,
            world: world.clone(),
        };
        what(&mut Sight {
            scene,
            facts,
            ending,
        })
    }

    /// The first promise that does not hold in a world.
    pub(crate) fn broken(&self, world: &World) -> Option<&'static str> {
        let config = &self.config;
        self.see(world, |sight| {
            let asked = |name| config.promise.is_none_or(|asked| asked == name);
            let mut promises = PROMISES.iter().filter(|promise| asked(promise.name));
            let broken = promises.find(|promise| !(promise.holds)(sight));
            broken.map(|promise| promise.name)
        })
    }

    /// Crosses out what this world shows of what is still to be met.
    fn look_around(&self, world: &World) {
        let mut wanted = std::mem::take(&mut self.kept().wanted);
        if !wanted.is_empty() {
            self.see(world, |sight| wanted.retain(|wanted| !(wanted.met)(sight)));
        }
        self.kept().wanted = wanted;
    }

    /// What was not met.
    pub(crate) fn missed(&self) -> Vec<&'static str> {
        self.kept().wanted.iter().map(|sight| sight.name).collect()
    }

    pub(crate) fn states(&self, world: &World) -> Vec<toshi_core::State> {
        self.see(world, |sight| {
            let facts = sight.facts.iter().flatten();
            facts.map(|facts| facts.state).collect()
        })
    }

    /// The conversation's first turn: with its message, or at the pause after its questions.
    fn begin(&self) -> World {
        let config = &self.config;
        let world = World {
            now: 0,
            meta: Meta {
                wake: 1,
                fence: 1,
                lease: None,
                due: None,
                mine: Mine {
                    next: 1,
                    ..Mine::default()
                },
            },
            turns: [None; TURNS],
            steps: [[None; STEPS]; TURNS],
            approvals: [None; SLOTS],
            listed: 0,
            unknown: 0,
            chains: [Chain::default(); SLOTS],
            inbox: false,
            hint: false,
            workers: [None; 2],
            answers: [None; 2],
            message: None,
            tools: [Tool::default(); SLOTS],
            continued: [[0; STEPS]; TURNS],
            wrongs: Wrongs::default(),
            ticks: config.ticks,
        };
        let mut kept = self.kept();
        let mut scene = Scene {
            config,
            rows: &mut kept.rows,
            world,
        };
        let message = scene.read_conversation();
        scene.begin(0, message);
        scene.world.settle(config);
        if config.asked {
            let (index, _) = scene.world.workers().next().unwrap();
            scene.perform(Action::Step(index, Luck::Fine));
        }
        scene.world
    }
}

pub(crate) const KEPT: &str = "every promise is kept";

impl Model for Protocol {
    type State = World;
    type Action = Action;

    fn init_states(&self) -> Vec<World> {
        vec![self.begin()]
    }

    fn actions(&self, world: &World, actions: &mut Vec<Action>) {
        let mut kept = self.kept();
        let scene = Scene {
            config: &self.config,
            rows: &mut kept.rows,
            world: world.clone(),
        };
        scene.actions(actions);
    }

    fn next_state(&self, world: &World, action: Action) -> Option<World> {
        let mut kept = self.kept();
        let mut scene = Scene {
            config: &self.config,
            rows: &mut kept.rows,
            world: world.clone(),
        };
        scene.perform(action);
        Some(scene.world)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![Property::always(KEPT, |protocol: &Self, world| {
            protocol.look_around(world);
            protocol.broken(world).is_none()
        })]
    }
}
