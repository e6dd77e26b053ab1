//! `POST /v1/chat`: what is taken from a request, and the stream that answers it.
//!
//! Taken: the conversation's id, the trigger, the last user message, answers to approvals; and of a
//! message that goes on, which of its steps the client has. Whatever else is posted (history, inputs,
//! outputs, `system`, `tools`) is not looked at.

mod decide;
mod message;
mod place;
mod request;
mod stream;

pub use request::{Answer, Intent, Posted, RequestError, Said, Shown};
pub use stream::{ChatError, ChatRequest, ChatStream};
