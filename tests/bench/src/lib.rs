//! Scenes of one conversation with every call to the cloud counted in front of the emulator.
#![expect(
    clippy::expect_used,
    clippy::panic,
    reason = "a measurement that cannot be made must stop"
)]

mod proxy;
mod scene;

pub use proxy::{Counted, Proxy};
pub use scene::{Measured, Scene};
