//! The routes of approvals and of the audit.

mod audit;
mod decide;
mod list;
mod refuse;
mod resolve;
mod verify;
mod visit;

use std::sync::Arc;

use axum::extract::State;
use axum::routing::{get, post};
use axum::{Json, Router};
use toshi_core::{Approval, ApprovalId};
use toshi_http::{Code, IdPath, Identity, Problem, wire};
use toshi_store::{School, Store, WakeMessage, WakeQueue};

use visit::Visit;

/// What the routes work with.
#[derive(Debug)]
pub struct App {
    pub identity: Identity,
    pub store: Store,
    pub queue: WakeQueue,
}

impl App {
    fn school<'a>(&'a self, visit: &'a Visit) -> School<'a> {
        self.store.school(&visit.person.tenant)
    }

    /// The approval, if it is this school's.
    async fn find(&self, visit: &Visit, id: ApprovalId) -> Result<Approval, Problem> {
        let row = self.school(visit).approval(id).await?;
        row.ok_or_else(Problem::not_found)
    }

    /// The approval, if this person may see it.
    async fn find_visible(&self, visit: &Visit, id: ApprovalId) -> Result<Approval, Problem> {
        let row = self.find(visit, id).await?;
        if row.may_see(&visit.person.user, visit.person.role) {
            Ok(row)
        } else {
            let detail = "This request is somebody else's, and not yours to see.";
            Err(Problem::saying(Code::NotYours, detail))
        }
    }

    /// Says that the approval's conversation has work. May be lost: its row is due.
    async fn hint(&self, visit: &Visit, row: &Approval) {
        let message = WakeMessage {
            tenant: visit.person.tenant.clone(),
            conversation: row.conversation.clone(),
        };
        self.queue.hint(&message).await;
    }
}

pub fn routes(app: Arc<App>) -> Router {
    Router::new()
        .route("/approvals", get(list::list))
        .route("/approvals/{id}", get(show))
        .route("/approvals/{id}/decision", post(decide::decide))
        .route("/approvals/{id}/resolve", post(resolve::resolve))
        .route("/audit", get(audit::audit))
        .route("/audit/verify", get(verify::verify))
        .with_state(app)
}

async fn show(
    State(app): State<Arc<App>>,
    visit: Visit,
    IdPath(id): IdPath<ApprovalId>,
) -> Result<Json<wire::Approval>, Problem> {
    let row = app.find_visible(&visit, id).await?;
    Ok(visit.shown(&row))
}
