//! The worlds that are looked through: each small enough to be looked through whole.

use crate::config::{Config, Faults};

/// One question, answered and run; processes die, replies of the table are lost.
pub(crate) fn one_write() -> Config {
    Config {
        name: "one write",
        writes: 0b001,
        alike: 0b111,
        asked: true,
        within: 30,
        resolves: true,
        crashes: true,
        ticks: 3,
        faults: Faults {
            lost_commits: true,
            down: true,
            ..Faults::default()
        },
        shows: vec![
            "a call succeeds and its turn ends",
            "two runners are at work",
            "an outcome is unknown though it was done",
            "a late result ends an unknown outcome",
            "an effect comes after a person said that it did not",
            "a yes expires",
        ],
        ..Config::default()
    }
}

/// Answers of two surfaces at once, each with a clock that may be late.
pub(crate) fn two_answers() -> Config {
    Config {
        name: "two answers",
        answers: 2,
        by_chat: true,
        crashes: false,
        resolves: false,
        ticks: 1,
        faults: Faults::default(),
        shows: vec![
            "two runners are at work",
            "a question expires",
            "a yes expires",
        ],
        ..one_write()
    }
}

/// Two identical calls of one step.
pub(crate) fn two_writes() -> Config {
    Config {
        name: "two identical writes",
        writes: 0b011,
        only_yes: true,
        resolves: false,
        within: 20,
        ticks: 2,
        faults: Faults::default(),
        shows: vec![
            "an identical call is blocked",
            "an outcome is unknown though it was done",
        ],
        ..one_write()
    }
}

/// A message comes while the question is open; its turn makes the same call.
pub(crate) fn message() -> Config {
    Config {
        name: "a message meanwhile",
        message: true,
        second_writes: true,
        only_yes: true,
        resolves: false,
        within: 300,
        ticks: 1,
        faults: Faults::default(),
        shows: vec![
            "a message waits in the inbox",
            "a step goes on in a new message",
            "an identical question is not asked",
            "a turn is taken over",
        ],
        ..one_write()
    }
}

/// The message is sent again with another text while its question is open.
pub(crate) fn replaced() -> Config {
    Config {
        name: "the message sent again",
        second_writes: false,
        replaces: true,
        ticks: 2,
        shows: vec!["a question is withdrawn", "a message waits in the inbox"],
        ..message()
    }
}

/// The tool changes, wants a newer token, refuses; results come from nowhere.
pub(crate) fn difficult_tool() -> Config {
    Config {
        name: "a difficult tool",
        resolves: false,
        ticks: 2,
        only_yes: true,
        faults: Faults {
            refusals: true,
            challenges: true,
            changes: true,
            strays: true,
            ..Faults::default()
        },
        shows: vec![
            "a question is asked again",
            "a call is sent a second time after a challenge",
        ],
        ..one_write()
    }
}

/// From the first message on: runners die and others take over, until it is too much.
pub(crate) fn interruptions() -> Config {
    Config {
        name: "interruptions",
        asked: false,
        silent: true,
        resolves: false,
        ticks: 5,
        faults: Faults {
            short: true,
            ..Faults::default()
        },
        shows: vec![
            "a turn is taken over",
            "a turn is interrupted for good",
            "a runner hands over for lack of time",
        ],
        ..one_write()
    }
}

/// Leases that are renewed or not, taken slowly, held by runners with little time.
pub(crate) fn leases() -> Config {
    Config {
        name: "leases",
        slow_takes: true,
        only_yes: true,
        resolves: false,
        within: 300,
        ticks: 3,
        faults: Faults {
            short: true,
            renewals: true,
            ..Faults::default()
        },
        shows: vec![
            "two runners are at work",
            "a runner hands over for lack of time",
        ],
        ..one_write()
    }
}
