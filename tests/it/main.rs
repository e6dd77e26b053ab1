//! The product end to end: the deployed template, reached over HTTP as its clients reach it.
//!
//! Run with `make test-e2e`, or `infra/dev.py test -- cargo test -p toshi-tests`.
#![cfg(test)]

mod harness;

mod bad_input;
mod canaries;
mod conversations;
mod crash;
mod decisions;
mod definitions;
mod eras;
mod expiry;
mod faults;
mod forged;
mod hints;
mod isolation;
mod limits;
mod model;
mod promises;
mod restart;
mod roles;
mod steps;
mod streaming;
mod writes;
