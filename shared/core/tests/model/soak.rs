//! Larger worlds of the same kinds, for `make soak`: minutes and gigabytes.

use crate::config::{Config, Faults};
use crate::{configs, holds};

#[test]
#[ignore = "minutes"]
fn soak_two_answers_while_processes_die() {
    holds(Config {
        name: "soak: two answers",
        crashes: true,
        resolves: true,
        ticks: 2,
        ..configs::two_answers()
    });
}

#[test]
#[ignore = "minutes"]
fn soak_two_identical_writes() {
    holds(Config {
        name: "soak: two identical writes",
        resolves: true,
        faults: Faults {
            lost_commits: true,
            refusals: true,
            ..Faults::default()
        },
        ..configs::two_writes()
    });
}

#[test]
#[ignore = "minutes"]
fn soak_a_message_meanwhile() {
    holds(Config {
        name: "soak: a message meanwhile",
        by_chat: true,
        resolves: true,
        ticks: 2,
        ..configs::message()
    });
}

#[test]
#[ignore = "minutes"]
fn soak_interruptions_with_answers_and_a_message() {
    holds(Config {
        name: "soak: interruptions",
        silent: false,
        only_yes: true,
        message: true,
        ticks: 4,
        shows: vec!["a turn is taken over", "a step goes on in a new message"],
        ..configs::interruptions()
    });
}
