//! One request of one person.

use std::sync::Arc;

use axum::Json;
use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use toshi_core::{Approval, Cause, How, Millis, RequestId};
use toshi_http::{Person, Problem, start, wire};

use super::App;

#[derive(Clone, Debug)]
pub(super) struct Visit {
    pub(super) person: Person,
    pub(super) request: Option<RequestId>,
    pub(super) now: Millis,
}

impl Visit {
    /// The person as the cause of what they do here.
    pub(super) fn cause(&self) -> Cause {
        Cause {
            actor: self.person.actor(),
            how: How::Web,
            request: self.request.clone(),
        }
    }

    /// The approval as this person sees it.
    pub(super) fn shown(&self, row: &Approval) -> Json<wire::Approval> {
        Json(self.view(row))
    }

    pub(super) fn view(&self, row: &Approval) -> wire::Approval {
        wire::Approval::of(row, (&self.person.user, self.person.role), self.now)
    }
}

impl FromRequestParts<Arc<App>> for Visit {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, app: &Arc<App>) -> Result<Self, Problem> {
        let now = start::now();
        let person = app.identity.person(&parts.headers, now).await?;
        Ok(Self {
            person,
            request: parts.extensions.get::<RequestId>().cloned(),
            now,
        })
    }
}
