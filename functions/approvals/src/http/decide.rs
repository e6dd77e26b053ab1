//! `POST /approvals/{id}/decision`: a person's answer, committed, and a hint that there is work.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use serde::Deserialize;
use toshi_core::{
    Actor, Answer, Approval, ApprovalId, Cause, Event, How, Refusal, State as ApprovalState,
    state_for_person,
};
use toshi_failpoints::{Point, reach};
use toshi_http::{Body, Code, IdPath, Problem, wire};
use toshi_store::TransitionError;

use super::refuse::{self, Why};
use super::visit::Visit;
use super::{App, refuse::reason};

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Decision {
    decision: String,
    #[serde(default)]
    reason: Option<String>,
}

pub(super) async fn decide(
    State(app): State<Arc<App>>,
    visit: Visit,
    IdPath(id): IdPath<ApprovalId>,
    Body(body): Body<Decision>,
) -> Result<Json<wire::Approval>, Problem> {
    let answer = match body.decision.as_str() {
        "approve" => Answer::Approve,
        "reject" => Answer::Reject,
        _ => {
            let detail = "The decision must be \"approve\" or \"reject\".";
            return Err(Problem::invalid(detail));
        }
    };
    let reason = reason(body.reason)?;
    let row = app.find(&visit, id).await?;
    let event = Event::Decide { answer, reason };
    let school = app.school(&visit);
    reach(Point::DecideBeforeCommit);
    let mut decided = school
        .transition(&row, event.clone(), &visit.cause(), visit.now)
        .await;
    if let Err(TransitionError::Refused {
        refusal: Refusal::Expired,
        row,
    }) = &decided
        && let Some(row) = expire(&app, &visit, row).await?
    {
        // Whoever answered in its last moment was first: the row says what this answer is then.
        decided = school
            .transition(&row, event, &visit.cause(), visit.now)
            .await;
    }
    let row = match decided {
        // The same answer again: it may be the hint that was lost the first time.
        Ok(row) => row,
        Err(TransitionError::Refused {
            refusal: Refusal::SameAnswer,
            row,
        }) => *row,
        Err(TransitionError::Refused { refusal, row }) => {
            return Err(refused(&app, &visit, answer, &refusal, *row).await?);
        }
        Err(TransitionError::NotFound) => return Err(Problem::not_found()),
        Err(TransitionError::Store(error)) => return Err(error.into()),
    };
    reach(Point::DecideAfterCommit);
    app.hint(&visit, &row).await;
    Ok(visit.shown(&row))
}

/// What a person is told whose answer does not count. A refused answer is on record before they are.
async fn refused(
    app: &App,
    visit: &Visit,
    answer: Answer,
    refusal: &Refusal,
    row: Approval,
) -> Result<Problem, Problem> {
    match refusal {
        Refusal::NotYours => {
            refuse::record(app, visit, &row, answer.into(), Why::NotYours).await?;
            Ok(Problem::new(Code::NotYours))
        }
        Refusal::AlreadyDecided => {
            refuse::record(app, visit, &row, answer.into(), Why::AlreadyDecided).await?;
            Ok(already_decided(&row))
        }
        Refusal::Expired => {
            refuse::record(app, visit, &row, answer.into(), Why::Expired).await?;
            Ok(Problem::new(Code::Expired))
        }
        Refusal::WrongState(state) => {
            refuse::record(app, visit, &row, answer.into(), Why::NoLongerOpen).await?;
            Ok(Problem::saying(Code::NoLongerOpen, state_for_person(&row))
                .with("state", state.as_str().into()))
        }
        // Neither can come of an answer.
        Refusal::SameAnswer | Refusal::NotDue | Refusal::OtherAttempt => {
            Ok(Problem::internal(refusal))
        }
    }
}

fn already_decided(row: &Approval) -> Problem {
    let Some(decided) = wire::Decided::of(row) else {
        return Problem::new(Code::AlreadyDecided);
    };
    let verb = match decided.decision.as_str() {
        "approve" => "approved",
        _ => "rejected",
    };
    let by = decided.by.as_ref().map_or("Toshi", |by| by.name.as_str());
    let detail = format!(
        "This was already {verb} by {by} at {}. Your answer changed nothing.",
        decided.at
    );
    Problem::saying(Code::AlreadyDecided, detail).with(
        "decided",
        serde_json::to_value(&decided).unwrap_or_default(),
    )
}

/// Whoever finds that the time is over makes it so, and wakes the turn that waits. The row comes
/// back if somebody else moved it first.
async fn expire(app: &App, visit: &Visit, row: &Approval) -> Result<Option<Approval>, Problem> {
    if !matches!(row.state, ApprovalState::Pending | ApprovalState::Approved) {
        return Ok(None);
    }
    let cause = Cause {
        actor: Actor::System,
        how: How::System,
        request: visit.request.clone(),
    };
    let expired = app
        .school(visit)
        .transition(row, Event::Expire, &cause, visit.now)
        .await;
    match expired {
        Ok(row) => {
            app.hint(visit, &row).await;
            Ok(None)
        }
        Err(TransitionError::Refused { row, .. }) => Ok(Some(*row)),
        Err(TransitionError::NotFound) => Ok(None),
        Err(TransitionError::Store(error)) => Err(error.into()),
    }
}
