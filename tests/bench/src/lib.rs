//! Scenes of one conversation with every call to the cloud counted in front of the emulator.
#![expect(
    clippy::expect_used,
    clippy::panic,
    reason = "a measurement that cannot be made must stop"
)]

mod fleet;
mod process;
mod proxy;
mod runtime;
mod scene;
mod share;
mod tls_server;
mod world;

pub use fleet::{Fleet, Worked};
pub use process::{Refusing, Setting, Start, Starts, functions};
pub use proxy::{Counted, Proxy};
pub use scene::{Measured, Scene};
pub use share::Share;
pub use tls_server::TlsServer;
