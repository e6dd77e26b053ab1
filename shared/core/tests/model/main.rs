//! The protocol of approvals, leases, `wake` and hints, model-checked over core's own rules.
//!
//! docs/model.md says what is modelled, what is left out, and how to add a mutant.
#![cfg(test)]

mod alone;
mod around;
mod call;
mod check;
mod config;
mod configs;
mod mutants;
mod promises;
mod quick;
mod real;
mod rows;
mod rule;
mod runner;
mod soak;
mod store;
mod world;

use std::time::Instant;

use stateright::{Checker, Model, Path};

use around::Action;
use check::{KEPT, Protocol};
use config::Config;
use world::World;

/// Looks through a world: whole, or until a promise is broken. The way to the broken one comes back.
fn look_through(config: Config) -> (Option<Path<World, Action>>, impl Checker<Protocol>) {
    let began = Instant::now();
    let name = config.to_string();
    let checker = Protocol::new(config).checker().spawn_bfs().join();
    println!(
        "{name:<60} {:>9} states {:>9} steps {:>3} deep {:>6.1} s",
        checker.unique_state_count(),
        checker.state_count(),
        checker.max_depth(),
        began.elapsed().as_secs_f32()
    );
    (checker.discovery(KEPT), checker)
}

/// Every promise is kept in the whole of a world, and the world shows what it is meant to show.
fn holds(config: Config) {
    let (broken, checker) = look_through(config);
    let protocol = checker.model();
    if let Some(path) = broken {
        let promise = protocol.broken(path.last_state());
        tell(path, protocol);
        panic!("broken: {promise:?}");
    }
    assert_eq!(protocol.missed(), [""; 0], "what this world was to show");
}

/// A world without some of its guards breaks its promise.
fn breaks(config: Config) {
    let (broken, checker) = look_through(config);
    let Config { off, promise, .. } = &checker.model().config;
    assert!(broken.is_some(), "without {off:?} is kept: {promise:?}");
}

/// How a world came about, for a person.
fn tell(path: Path<World, Action>, protocol: &Protocol) {
    for (world, action) in path.into_vec() {
        let (states, meta) = (protocol.states(&world), &world.meta);
        println!(
            "{:4}s {states:?} lease {:?} due {:?} inbox {} hint {}",
            world.now, meta.lease, meta.due, world.inbox, world.hint
        );
        for (index, worker) in world.workers() {
            println!("      worker {index}: {worker:?}");
        }
        for answer in world.answers.iter().flatten() {
            println!("      {answer:?}");
        }
        if let Some(message) = world.message {
            println!("      {message:?}");
        }
        if let Some(action) = action {
            println!("      -> {action:?}");
        }
    }
}

#[test]
fn the_protocol_holds_for_one_write() {
    holds(configs::one_write());
}

#[test]
fn the_protocol_holds_for_two_answers_at_once() {
    holds(configs::two_answers());
}

#[test]
fn the_protocol_holds_for_two_identical_writes() {
    holds(configs::two_writes());
}

#[test]
fn the_protocol_holds_with_a_message_meanwhile() {
    holds(configs::message());
}

#[test]
fn the_protocol_holds_with_the_message_sent_again() {
    holds(configs::replaced());
}

#[test]
fn the_protocol_holds_with_a_difficult_tool() {
    holds(configs::difficult_tool());
}

#[test]
fn the_protocol_holds_with_slow_and_short_leases() {
    holds(configs::leases());
}

#[test]
fn the_protocol_holds_when_runners_die_again_and_again() {
    holds(configs::interruptions());
}
