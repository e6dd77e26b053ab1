//! `POST /approvals/{id}/resolve`: a person says what became of an unknown outcome.
//!
//! It wakes nobody: the turn went on long ago, and the model reads it at its next prompt.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use serde::Deserialize;
use toshi_core::{Actor, Approval, ApprovalId, Event, Refusal, state_for_person};
use toshi_http::{Body, Code, IdPath, Problem, wire};
use toshi_store::TransitionError;

use super::App;
use super::refuse::{self, Said, Why, reason};
use super::visit::Visit;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Resolution {
    outcome: String,
    #[serde(default)]
    reason: Option<String>,
}

pub(super) async fn resolve(
    State(app): State<Arc<App>>,
    visit: Visit,
    IdPath(id): IdPath<ApprovalId>,
    Body(body): Body<Resolution>,
) -> Result<Json<wire::Approval>, Problem> {
    let done = match body.outcome.as_str() {
        "done" => true,
        "not_done" => false,
        _ => {
            let detail = "The outcome must be \"done\" or \"not_done\".";
            return Err(Problem::invalid(detail));
        }
    };
    let reason = reason(body.reason)?.ok_or_else(|| {
        Problem::invalid("Say in a few words how you know: the reason is missing.")
    })?;
    let said = Said::Outcome { done };
    let row = app.find(&visit, id).await?;
    let event = Event::Resolve { done, reason };
    let resolved = app
        .school(&visit)
        .transition(&row, event, &visit.cause(), visit.now)
        .await;
    match resolved {
        Ok(row) => Ok(visit.shown(&row)),
        Err(TransitionError::Refused { refusal, row }) => match refusal {
            Refusal::SameAnswer => Ok(visit.shown(&row)),
            Refusal::NotYours => {
                refuse::record(&app, &visit, &row, said, Why::NotYours).await?;
                Err(Problem::new(Code::NotYours))
            }
            Refusal::AlreadyDecided => {
                refuse::record(&app, &visit, &row, said, Why::AlreadyDecided).await?;
                Err(already_resolved(&row))
            }
            Refusal::WrongState(state) => {
                refuse::record(&app, &visit, &row, said, Why::NoLongerOpen).await?;
                let detail = format!(
                    "Only an unknown outcome needs this. {}",
                    state_for_person(&row)
                );
                Err(Problem::saying(Code::NoLongerOpen, detail)
                    .with("state", state.as_str().into()))
            }
            // None of these can come of it.
            Refusal::Expired | Refusal::NotDue | Refusal::OtherAttempt => {
                Err(Problem::internal(&refusal))
            }
        },
        Err(TransitionError::NotFound) => Err(Problem::not_found()),
        Err(TransitionError::Store(error)) => Err(error.into()),
    }
}

fn already_resolved(row: &Approval) -> Problem {
    let Some(resolution) = &row.resolution else {
        return Problem::new(Code::AlreadyDecided);
    };
    let by = match &resolution.by {
        Actor::User { name, .. } => name.as_str(),
        Actor::System => "Toshi",
    };
    let outcome = if resolution.done { "done" } else { "not done" };
    let detail = format!(
        "{by} already said at {} that it was {outcome}. Your answer changed nothing.",
        resolution.at
    );
    Problem::saying(Code::AlreadyDecided, detail).with("state", row.state.as_str().into())
}
