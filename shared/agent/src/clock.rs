//! The process's clock: the one place where this crate reads the time.

use toshi_core::Millis;
use toshi_failpoints::ahead_ms;

/// Now, in milliseconds since the epoch.
#[expect(
    clippy::disallowed_methods,
    reason = "the one place where the runner reads the clock"
)]
pub fn now() -> Millis {
    let elapsed = std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .unwrap_or_default();
    Millis::from_epoch(i64::try_from(elapsed.as_millis()).unwrap_or(i64::MAX)).plus(ahead_ms())
}
