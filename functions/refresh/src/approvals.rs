//! Approvals whose time ran out: unanswered, approved but not run, or claimed and never settled.

use toshi_core::{Cause, Millis, State};
use toshi_failpoints::{Point, reach};
use toshi_http::start::count;
use toshi_store::{Due, DueKind, StoreError, TransitionError, WakeMessage};

use crate::sweep::{self, Failed};
use crate::{Report, Sweeper};

pub(crate) async fn sweep(sweeper: &Sweeper, clock: fn() -> Millis) -> Result<Report, StoreError> {
    let tally = sweep::each_due(&sweeper.store, DueKind::Approval, clock, |due| {
        serve(sweeper, due, clock)
    })
    .await?;
    let sweep::Tally {
        due,
        acted,
        failed,
        more,
    } = tally;
    Ok(Report {
        sweep: "approvals",
        due,
        acted,
        failed,
        more,
    })
}

async fn serve(sweeper: &Sweeper, due: Due, clock: fn() -> Millis) -> Result<bool, Failed> {
    let school = sweeper.store.school(&due.tenant);
    let id = due.id.parse()?;
    let Some(row) = school.approval_in(&due.conversation, id).await? else {
        return Ok(false);
    };
    let now = clock();
    let Some(event) = row.overdue() else {
        return Ok(false);
    };
    reach(Point::SweepBeforeCommit);
    let row = match school.transition(&row, event, &Cause::system(), now).await {
        Ok(row) => row,
        // Not due after all, or somebody was faster: the row is the truth.
        Err(TransitionError::Refused { .. } | TransitionError::NotFound) => return Ok(false),
        Err(TransitionError::Store(error)) => return Err(error.into()),
    };
    reach(Point::SweepAfterCommit);
    if row.state == State::Unknown {
        tracing::warn!(approval = %row.approval_id, tenant = %due.tenant, "a claimed call was never settled: its outcome is unknown");
        count("UnknownOutcomes", 1, now);
    }
    let message = WakeMessage {
        tenant: due.tenant,
        conversation: due.conversation,
    };
    sweeper.queue.hint(&message).await;
    Ok(true)
}
