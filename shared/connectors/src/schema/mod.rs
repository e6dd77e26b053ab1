//! Tool schemas: as model providers accept them, and as arguments are checked against them.

mod shown;
mod validate;

pub use shown::{WhyNot, acceptable};
pub use validate::validate;
