//! The gated MCP client: the only crate that can reach a tool.
//!
//! A call needs a [`toshi_store::Permit`] and goes through one seam, `wire`, which looks at the bytes
//! about to be sent and lets a `tools/call` pass once, for exactly the permitted arguments. What is
//! known of an attempt afterwards is what that seam saw, never what a library's error text says.

mod answer;
mod definitions;
mod events;
pub mod guard;
mod headers;
mod kept;
pub mod names;
mod opening;
mod redact;
mod reply;
pub mod schema;
mod session;
mod shot;
mod tools;
mod wire;

pub use answer::{CallReport, ToolAnswer, settle};
pub use guard::{ConfigError, Guard, Outbound};
pub use tools::{AccessToken, Prepared, Target, Tools, ToolsConfig};
