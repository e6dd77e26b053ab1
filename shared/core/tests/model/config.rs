//! How large a world is, and what may happen in it.

use std::fmt;

use crate::rows::Time;
use crate::rule::Rule;

/// What may go wrong outside, each a choice at one boundary.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Faults {
    /// The table's reply to a claim or a settle is lost, or the claim is not made.
    pub(crate) lost_commits: bool,
    /// The server answers before it runs anything.
    pub(crate) refusals: bool,
    /// The server asks for a newer token.
    pub(crate) challenges: bool,
    /// The check before the claim fails.
    pub(crate) down: bool,
    /// The tool is no longer what was approved.
    pub(crate) changes: bool,
    /// Somebody reports a result for an attempt that is not his.
    pub(crate) strays: bool,
    /// Invocations too short for a model call.
    pub(crate) short: bool,
    /// Leases are renewed; otherwise each lapses under its runner.
    pub(crate) renewals: bool,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Config {
    pub(crate) name: &'static str,
    /// The calls of the first step, and which of all calls are identical, as bits.
    pub(crate) writes: u8,
    pub(crate) alike: u8,
    /// The second turn makes a call of its own.
    pub(crate) second_writes: bool,
    /// The world begins at the pause, and not with the first message.
    pub(crate) asked: bool,
    /// Seconds that a question may wait.
    pub(crate) within: Time,
    /// Answers that may be on their way at the same time. None: an answer is read and committed at
    /// once, which only leaves out that its clock may be late.
    pub(crate) answers: u8,
    /// Nobody answers.
    pub(crate) silent: bool,
    /// Answers only say yes.
    pub(crate) only_yes: bool,
    /// Answers also come in chat requests.
    pub(crate) by_chat: bool,
    /// A second message comes; it may be the first one with another text.
    pub(crate) message: bool,
    pub(crate) replaces: bool,
    pub(crate) resolves: bool,
    pub(crate) crashes: bool,
    /// Taking a lease is two boundaries: the read, and the write that may be refused.
    pub(crate) slow_takes: bool,
    /// How often time goes on.
    pub(crate) ticks: u8,
    pub(crate) faults: Faults,
    /// What it must come across, or it shows nothing.
    pub(crate) shows: Vec<&'static str>,
    /// Guards that do not hold here.
    pub(crate) off: Vec<Rule>,
    /// The one promise that is asked; otherwise all are.
    pub(crate) promise: Option<&'static str>,
}

impl Config {
    /// The same world as a mutant, of which one promise is asked.
    pub(crate) fn without(self, rules: &[Rule], promise: &'static str) -> Self {
        Self {
            off: rules.to_vec(),
            promise: Some(promise),
            shows: Vec::new(),
            ..self
        }
    }
}

impl fmt::Display for Config {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)?;
        for (index, rule) in self.off.iter().enumerate() {
            let word = if index == 0 { " without" } else { "," };
            write!(f, "{word} {rule:?}")?;
        }
        Ok(())
    }
}
