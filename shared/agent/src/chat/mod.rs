//! `POST /v1/chat`: what is taken from a request, and the stream that answers it.
//!
//! Taken: the conversation's id, the trigger, the last user message, answers to approvals. Whatever
//! else is posted (history, inputs, outputs, `system`, `tools`) is not looked at.

mod request;
mod stream;

pub use request::{Answer, Intent, Posted, RequestError};
pub use stream::{ChatError, ChatRequest, ChatStream};
