//! Tool schemas: as model providers accept them, and as arguments are checked against them.

#[cfg(test)]
mod corpus_tests;
mod plain;
mod shown;
mod validate;

pub use shown::{WhyNot, acceptable};
pub use validate::validate;
