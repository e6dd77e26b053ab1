//! The public surface on real tables: every conditional write raced, every guard refused.
//!
//! Run with `infra/dev.py emulator -- cargo test -p toshi-store`.
#![cfg(test)]

mod approvals;
mod audit;
mod begin;
mod claim;
mod commit;
mod connection;
mod erase;
mod faults;
mod lease;
mod people;
mod results;
mod scene;
mod settle;
mod summary;
mod sweep;
mod vault;
