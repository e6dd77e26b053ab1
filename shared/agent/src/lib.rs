//! The turn: the model is asked, its calls go through the gate, the runner carries on.
//!
//! [`Agent::run`] is the one runner. The chat function and the worker call it with nothing but a
//! school and a conversation: all it works on is in the rows.

mod agent;
mod ask;
mod chat;
mod clock;
mod conversations;
mod drive;
mod execute;
mod follow;
mod model;
mod offer;
mod own;
mod progress;
mod prompt;
mod run;
#[cfg(test)]
mod sample;
mod summary;
mod ui;
mod view;
mod wiring;

pub use agent::{Agent, AgentError, Settings};
pub use chat::{
    Answer, ChatError, ChatRequest, ChatStream, Intent, Posted, RequestError, Said, Shown,
};
pub use clock::now;
pub use conversations::{Erased, Messages};
pub use follow::Followed;
pub use model::{Model, ModelConfig, ModelError, ModelHealth};
pub use offer::Person;
pub use run::{Budget, RunEnd, RunError};
pub use ui::{Chunk, KEEP_ALIVE, keep_alive};
pub use wiring::{AgentConfig, WiringError};
