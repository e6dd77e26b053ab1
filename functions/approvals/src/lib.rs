//! Approvals: what people answer over HTTP, and the worker that carries on afterwards.
//!
//! The HTTP half only commits and hints. It holds no key, calls no tool and asks no model.

pub mod http;
pub mod worker;
