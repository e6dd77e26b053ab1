//! `GET /approvals`: one's own, or the school's for an admin.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use serde::Deserialize;
use toshi_core::{Approval, ApprovalId, Role, State as ApprovalState};
use toshi_http::{Cursor, Paging, Problem, Search, wire};

use super::App;
use super::visit::Visit;

/// Rows that one request looks at to find those that fit.
const PAGE: usize = 100;
const PAGES: usize = 5;
/// Open approvals of one person that are read at once.
const OPEN_MAX: usize = 500;

#[derive(Debug, Deserialize)]
pub(super) struct Wanted {
    state: Option<String>,
    mine: Option<String>,
    limit: Option<String>,
    cursor: Option<String>,
}

pub(super) async fn list(
    State(app): State<Arc<App>>,
    visit: Visit,
    Search(wanted): Search<Wanted>,
) -> Result<Json<wire::Page<wire::Approval>>, Problem> {
    let Wanted {
        state,
        mine,
        limit,
        cursor,
    } = wanted;
    let state = state.map(|text| parse_state(&text)).transpose()?;
    let paging = Paging::new(limit, cursor);
    let list = Cursor {
        route: "approvals",
        tenant: &visit.person.tenant,
    };
    let limit = paging.limit()?;
    let after = match paging.after(list)? {
        None => None,
        Some(text) => Some(
            text.parse::<ApprovalId>()
                .map_err(|_| Problem::strange_cursor())?,
        ),
    };
    let mine = match mine.as_deref() {
        None | Some("false") => visit.person.role != Role::Admin,
        Some("true") => true,
        Some(_) => return Err(Problem::bad_request("`mine` must be true or false.")),
    };
    let (rows, next) = if mine && state == Some(ApprovalState::Pending) {
        open(&app, &visit, after, limit).await?
    } else {
        recent(&app, &visit, mine, state, after, limit).await?
    };
    Ok(Json(wire::Page {
        items: rows.iter().map(|row| visit.view(row)).collect(),
        next: next.map(|id| list.make(&id.to_string())),
    }))
}

fn parse_state(text: &str) -> Result<ApprovalState, Problem> {
    ApprovalState::parse(text).ok_or_else(|| {
        let known: Vec<&str> = ApprovalState::ALL
            .iter()
            .map(|state| state.as_str())
            .collect();
        Problem::bad_request(format!("The state must be one of {}.", known.join(", ")))
    })
}

type Part = (Vec<Approval>, Option<ApprovalId>);

/// What waits for this person, soonest limit first, strongly read: complete by what is committed.
async fn open(
    app: &App,
    visit: &Visit,
    after: Option<ApprovalId>,
    limit: usize,
) -> Result<Part, Problem> {
    let rows = app
        .school(visit)
        .open_approvals(&visit.person.user, OPEN_MAX)
        .await?;
    let begin = match after {
        None => 0,
        // One that has been answered meanwhile is gone; then nothing is known of its place.
        Some(id) => rows
            .iter()
            .position(|row| row.approval_id == id)
            .map_or(0, |place| place + 1),
    };
    let left = rows.len() - begin;
    let rows: Vec<Approval> = rows.into_iter().skip(begin).take(limit).collect();
    let next = (left > limit)
        .then(|| rows.last().map(|row| row.approval_id))
        .flatten();
    Ok((rows, next))
}

/// Newest first. A filter is applied while paging, over a bounded number of rows: a part may hold
/// fewer than asked for, even none, and still have a next.
async fn recent(
    app: &App,
    visit: &Visit,
    mine: bool,
    state: Option<ApprovalState>,
    after: Option<ApprovalId>,
    limit: usize,
) -> Result<Part, Problem> {
    let school = app.school(visit);
    let fits = |row: &Approval| {
        (!mine || row.requester == visit.person.user)
            && state.is_none_or(|state| row.state == state)
    };
    let mut found = Vec::new();
    let mut before = after;
    for _ in 0..PAGES {
        let page = school.recent_approvals(before, PAGE).await?;
        let last = page.items.last().map(|row| row.approval_id);
        for row in page.items {
            let id = row.approval_id;
            if !fits(&row) {
                continue;
            }
            found.push(row);
            if found.len() == limit {
                let more = Some(id) != last || page.next.is_some();
                return Ok((found, more.then_some(id)));
            }
        }
        before = page.next;
        if before.is_none() {
            break;
        }
    }
    Ok((found, before))
}
