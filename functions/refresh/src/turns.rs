//! Conversations with work and no runner: their hint is sent again.

use std::collections::HashSet;
use std::sync::{Mutex, PoisonError};

use toshi_core::{ConversationId, Millis, TenantId};
use toshi_failpoints::{Point, reach};
use toshi_store::{Due, DueKind, StoreError, WakeMessage};

use crate::sweep::{self, Failed};
use crate::{Report, Sweeper};

pub(crate) async fn sweep(sweeper: &Sweeper, clock: fn() -> Millis) -> Result<Report, StoreError> {
    let hinted = Hinted::default();
    let tally = sweep::each_due(&sweeper.store, DueKind::Conversation, clock, |due| {
        serve(sweeper, &hinted, due)
    })
    .await?;
    let sweep::Tally {
        due,
        acted,
        failed,
        more,
    } = tally;
    Ok(Report {
        sweep: "turns",
        due,
        acted,
        failed,
        more,
    })
}

/// Conversations of this sweep: one that becomes due again meanwhile waits for the next.
#[derive(Debug, Default)]
struct Hinted(Mutex<HashSet<(TenantId, ConversationId)>>);

impl Hinted {
    fn is_first(&self, due: &Due) -> bool {
        let name = (due.tenant.clone(), due.conversation.clone());
        let mut seen = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        seen.insert(name)
    }
}

/// Whether there is still work is for the runner to see: it reads the row anyway, and a hint too
/// many costs one read.
async fn serve(sweeper: &Sweeper, hinted: &Hinted, due: Due) -> Result<bool, Failed> {
    if !hinted.is_first(&due) {
        return Ok(false);
    }
    let message = WakeMessage {
        tenant: due.tenant,
        conversation: due.conversation,
    };
    reach(Point::SweepBeforeHint);
    sweeper.queue.send(&message, 0).await?;
    Ok(true)
}
