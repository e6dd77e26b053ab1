//! What the HTTP functions share: who calls, problems, paging, wire types, OpenAPI, and a function's
//! start.

mod body;
mod code;
pub mod identity;
mod misfit;
pub mod openapi;
mod paging;
mod params;
mod problem;
mod service;
pub mod start;
pub mod wire;

pub use body::Body;
pub use code::Code;
pub use identity::{Caller, Identity, Operator, Person, Signed};
pub use paging::{Cursor, Paging};
pub use params::{IdPath, Search};
pub use problem::Problem;
pub use service::service;
