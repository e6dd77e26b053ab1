//! The HTTP routes over real rows: what people may do, and what stays when many do it at once.
#![cfg(test)]

mod audit;
mod bad_input;
mod decision;
mod desk;
mod isolation;
mod list;
mod resolve;
