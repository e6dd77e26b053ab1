//! What a runner tells whoever watches. Only stored things are told, but for the words of the
//! answer that is being written.

use tokio::sync::mpsc;
use toshi_core::{Approval, MessageId, StepRow, TurnRow};

#[derive(Clone, Debug)]
pub(crate) enum Progress {
    /// New words of the step that is being written. The only thing told before it is stored.
    Text {
        /// The message that the step belongs to.
        answer: MessageId,
        n: u32,
        delta: String,
    },
    /// A step is stored, with its questions.
    Step {
        step: StepRow,
        approvals: Vec<Approval>,
    },
    /// An approval changed.
    Approval(Box<Approval>),
    /// The turn's state changed: it waits, or it is done.
    Turn(TurnRow),
}

/// Where progress goes. Nobody may be listening: a client that left does not stop a turn.
#[derive(Clone, Debug, Default)]
pub(crate) struct Sink(Option<mpsc::UnboundedSender<Progress>>);

impl Sink {
    /// A sink and its other end. Unbounded: a turn's text is bounded by the model's limits, and a
    /// slow client must not slow the turn.
    pub(crate) fn channel() -> (Self, mpsc::UnboundedReceiver<Progress>) {
        let (sender, receiver) = mpsc::unbounded_channel();
        (Self(Some(sender)), receiver)
    }

    pub(crate) fn tell(&self, progress: Progress) {
        if let Some(sender) = &self.0 {
            // The client may have gone; the turn goes on.
            let _gone = sender.send(progress);
        }
    }
}
