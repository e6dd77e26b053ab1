//! `GET /audit/verify`: whether records are whole, checked against the rows that they belong to.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use futures::{StreamExt, TryStreamExt, stream};
use serde::Deserialize;
use toshi_core::{Approval, ApprovalId, Fault, Role, Seal, Subject, verify_chain};
use toshi_http::{Code, Problem, Search, wire};

use super::App;
use super::visit::Visit;

/// Chains that one request checks, newest first.
const CHAINS: usize = 200;
const AT_ONCE: usize = 8;

#[derive(Debug, Deserialize)]
pub(super) struct Wanted {
    approval: Option<String>,
}

pub(super) async fn verify(
    State(app): State<Arc<App>>,
    visit: Visit,
    Search(Wanted { approval }): Search<Wanted>,
) -> Result<Json<wire::Verification>, Problem> {
    let rows = match approval {
        Some(text) => {
            let id: ApprovalId = text.parse().map_err(|_| Problem::not_found())?;
            vec![app.find_visible(&visit, id).await?]
        }
        None => {
            if visit.person.role != Role::Admin {
                let detail = "Only an administrator may check the school's audit.";
                return Err(Problem::saying(Code::NotAllowed, detail));
            }
            app.school(&visit)
                .recent_approvals(None, CHAINS)
                .await?
                .items
        }
    };
    // In order, so that the same damage is named every time.
    let verdicts: Vec<(u64, Option<Fault>)> = stream::iter(rows)
        .map(|row| check(&app, &visit, row))
        .buffered(AT_ONCE)
        .try_collect()
        .await?;
    let checked = verdicts.iter().map(|(count, _)| count).sum();
    let first_bad = verdicts.into_iter().find_map(|(_, fault)| fault);
    Ok(Json(wire::Verification {
        ok: first_bad.is_none(),
        sealed_to: None,
        checked,
        first_bad: first_bad.map(Into::into),
    }))
}

/// The row was read before its records: they reach at least as far as it says.
async fn check(app: &App, visit: &Visit, row: Approval) -> Result<(u64, Option<Fault>), Problem> {
    let subject = Subject::Approval(row.approval_id);
    let records = app.school(visit).audit_of(subject).await?;
    let seal = Seal {
        seq: row.seq,
        head: row.head,
    };
    let fault = verify_chain(&subject.to_string(), &records, Some(&seal)).err();
    Ok((records.len() as u64, fault))
}
