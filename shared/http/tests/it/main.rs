//! Who may come in: tokens of every kind against a real issuer and real rows.
#![cfg(test)]

mod identity;
