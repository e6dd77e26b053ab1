//! Where a test may end a process: before and after each thing that must hold however it dies.
//!
//! [`Point`] is the registry: a name that is not in it does not compile. Without the feature
//! `failpoints`, which no shipped build has, a point is nothing at all.

#[cfg(feature = "failpoints")]
mod armed;

#[cfg(feature = "failpoints")]
pub use armed::{ahead_ms, arm, reach, set_ahead_ms, watch};

macro_rules! points {
    ($($(#[$doc:meta])* $point:ident = $name:literal,)+) => {
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub enum Point {
            $($(#[$doc])* $point,)+
        }

        #[cfg(feature = "failpoints")]
        impl Point {
            pub const ALL: &[Self] = &[$(Self::$point,)+];

            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$point => $name,)+
                }
            }
        }
    };
}

points! {
    /// A person's message is about to be stored.
    BeginBeforeCommit = "begin::before_commit",
    /// It is stored, its turn too or in the inbox; nobody works on it or hinted at it yet.
    BeginAfterCommit = "begin::after_commit",
    /// A runner holds the lease and has done nothing.
    TurnAfterTake = "turn::after_take",
    TurnBeforeModel = "turn::before_model",
    /// The model has answered; its calls are not looked at.
    TurnAfterModel = "turn::after_model",
    /// The reads of a step have run, or its words are whole.
    StepBeforeCommit = "step::before_commit",
    StepAfterCommit = "step::after_commit",
    /// A step with questions.
    AskBeforeCommit = "ask::before_commit",
    /// The questions are stored and not shown.
    AskAfterCommit = "ask::after_commit",
    /// An answer on the approval's own route.
    DecideBeforeCommit = "decide::before_commit",
    /// It is stored, and nobody was hinted at.
    DecideAfterCommit = "decide::after_commit",
    /// An answer that came with a chat request.
    AnswerBeforeCommit = "answer::before_commit",
    AnswerAfterCommit = "answer::after_commit",
    /// An approved call whose session and tool are about to be checked.
    PrepareBefore = "prepare::before",
    PrepareAfter = "prepare::after",
    ClaimBeforeCommit = "claim::before_commit",
    /// The attempt is on record, and nothing was sent.
    ClaimAfterCommit = "claim::after_commit",
    /// The server has the call and began to answer; none of the answer was read.
    SendAfterBytes = "send::after_bytes",
    /// The answer was read, and is nowhere but here.
    SendAfterReply = "send::after_reply",
    SettleBeforeCommit = "settle::before_commit",
    SettleAfterCommit = "settle::after_commit",
    /// All calls of a step have their results; the turn is about to go on.
    ContinueBeforeCommit = "continue::before_commit",
    ContinueAfterCommit = "continue::after_commit",
    /// Another runner's turn is about to be taken over.
    TakeoverBeforeCommit = "takeover::before_commit",
    TakeoverAfterCommit = "takeover::after_commit",
    /// A message of the inbox is about to become a turn.
    StartBeforeCommit = "start::before_commit",
    StartAfterCommit = "start::after_commit",
    /// A runner found that a time limit ran out.
    ExpireBeforeCommit = "expire::before_commit",
    ExpireAfterCommit = "expire::after_commit",
    ReleaseBefore = "release::before",
    ReleaseAfter = "release::after",
    /// A sweep found an approval whose time ran out.
    SweepBeforeCommit = "sweep::before_commit",
    /// The approval's end is stored, and nobody was hinted at.
    SweepAfterCommit = "sweep::after_commit",
    /// A sweep found a conversation with work.
    SweepBeforeHint = "sweep::before_hint",
}

/// Says that the process has come this far.
#[cfg(not(feature = "failpoints"))]
pub const fn reach(_: Point) {}

/// How far this process's clock is ahead of the machine's, in milliseconds.
#[cfg(not(feature = "failpoints"))]
pub const fn ahead_ms() -> i64 {
    0
}

/// Takes what a development environment says about failpoints.
#[cfg(not(feature = "failpoints"))]
pub fn arm<'a>(_: impl Fn(&'static str) -> Option<&'a str>) -> Result<(), String> {
    Ok(())
}
