//! The sandbox over the wire, as its users meet it.

mod control;
mod front;
mod harness;
mod issuer;
mod mcp;
mod model;
mod protocols;
mod runtime_host;
