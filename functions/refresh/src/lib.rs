//! The sweeps: nothing hangs, because each minute somebody looks at what is due.
//!
//! The index says what may be due; the row, read strongly, says whether it is. A sweep's cost
//! follows what is due and not what exists.

mod approvals;
mod sweep;
mod turns;

use serde::{Deserialize, Serialize};
use toshi_core::Millis;
use toshi_store::{Store, StoreError, WakeQueue};

/// What a schedule asks for.
#[derive(Clone, Debug, Deserialize)]
pub struct Ask {
    pub sweep: String,
}

/// What a sweep did.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Report {
    pub sweep: &'static str,
    /// Entries of the index that were looked at.
    pub due: u64,
    /// Rows that changed, or conversations that were hinted at.
    pub acted: u64,
    pub failed: u64,
    /// Time ran out before the end; the next sweep goes on.
    pub more: bool,
}

#[derive(Debug, thiserror::Error)]
pub enum SweepError {
    #[error("there is no sweep {0:?}; known: approvals, turns, tokens")]
    Unknown(String),
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// What the sweeps work with.
#[derive(Clone, Debug)]
pub struct Sweeper {
    pub store: Store,
    pub queue: WakeQueue,
}

impl Sweeper {
    /// Runs one sweep. `clock` is read again for each row.
    pub async fn sweep(&self, ask: &Ask, clock: fn() -> Millis) -> Result<Report, SweepError> {
        let began = clock();
        let report = match ask.sweep.as_str() {
            "approvals" => approvals::sweep(self, clock).await?,
            "turns" => turns::sweep(self, clock).await?,
            // No connection here has a token that ends, so none is ever due: the index has no
            // entries for credentials. The schedule exists because the template's is the same
            // wherever it is deployed.
            "tokens" => Report {
                sweep: "tokens",
                due: 0,
                acted: 0,
                failed: 0,
                more: false,
            },
            other => return Err(SweepError::Unknown(other.to_owned())),
        };
        let Report {
            sweep,
            due,
            acted,
            failed,
            more,
        } = &report;
        let ms = began.until(clock());
        tracing::info!(sweep, due, acted, failed, more, ms, "swept");
        Ok(report)
    }
}
