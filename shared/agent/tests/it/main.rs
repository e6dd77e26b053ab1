//! Turns on the emulator's tables, with the sandbox's model and MCP server.
#![cfg(test)]

mod approvals;
mod faults;
mod hints;
mod junk;
mod killed;
mod limits;
mod long;
mod offers;
mod posted;
mod process;
mod replaced;
mod scene;
mod schedules;
mod script;
mod strict;
mod summary;
mod turns;
