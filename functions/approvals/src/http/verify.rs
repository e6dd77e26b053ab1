//! `GET /audit/verify`: whether records are whole, checked against the rows that they belong to.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use futures::{StreamExt, TryStreamExt, stream};
use serde::Deserialize;
use toshi_core::{
    Approval, ApprovalId, ConversationId, Fault, FaultKind, Record, RecordEvent, Role, Seal,
    Subject, TurnId, verify_chain,
};
use toshi_http::{Code, Cursor, Paging, Problem, Search, wire};

use super::App;
use super::audit::by_day;
use super::visit::Visit;

/// Approvals, or records of days, that one request checks.
const PART: usize = 100;
const AT_ONCE: usize = 8;

#[derive(Debug, Deserialize)]
pub(super) struct Wanted {
    approval: Option<String>,
    cursor: Option<String>,
}

/// Where the check of a whole school stands: first every approval, newest first, then by day what
/// belongs to none: refused answers, and the reads of a turn.
enum Place {
    Approvals(Option<ApprovalId>),
    Days(Option<String>),
}

impl Place {
    fn read(text: Option<String>) -> Option<Self> {
        let Some(text) = text else {
            return Some(Self::Approvals(None));
        };
        match text.split_once('#')? {
            ("approvals", id) => Some(Self::Approvals(Some(id.parse().ok()?))),
            ("days", "") => Some(Self::Days(None)),
            ("days", place) => Some(Self::Days(Some(place.to_owned()))),
            _ => None,
        }
    }

    fn write(&self) -> String {
        match self {
            Self::Approvals(id) => {
                format!(
                    "approvals#{}",
                    id.map(|id| id.to_string()).unwrap_or_default()
                )
            }
            Self::Days(place) => format!("days#{}", place.as_deref().unwrap_or_default()),
        }
    }
}

#[derive(Default)]
struct Part {
    checked: u64,
    first_bad: Option<Fault>,
    next: Option<Place>,
}

pub(super) async fn verify(
    State(app): State<Arc<App>>,
    visit: Visit,
    Search(Wanted { approval, cursor }): Search<Wanted>,
) -> Result<Json<wire::Verification>, Problem> {
    let list = Cursor {
        route: "audit.verify",
        tenant: &visit.person.tenant,
    };
    let part = match approval {
        Some(text) => {
            let id: ApprovalId = text.parse().map_err(|_| Problem::not_found())?;
            let row = app.find_visible(&visit, id).await?;
            chains(&app, &visit, vec![sealed(row)]).await?
        }
        None => {
            if visit.person.role != Role::Admin {
                let detail = "Only an administrator may check the school's audit.";
                return Err(Problem::saying(Code::NotAllowed, detail));
            }
            let place = Place::read(Paging::new(None, cursor).after(list)?);
            match place.ok_or_else(Problem::strange_cursor)? {
                Place::Approvals(before) => approvals(&app, &visit, before).await?,
                Place::Days(from) => days(&app, &visit, from).await?,
            }
        }
    };
    Ok(Json(wire::Verification {
        ok: part.first_bad.is_none(),
        sealed_to: None,
        checked: part.checked,
        first_bad: part.first_bad.map(Into::into),
        next: part.next.map(|place| list.make(&place.write())),
    }))
}

fn sealed(row: Approval) -> (Subject, Option<Seal>) {
    let seal = Seal {
        seq: row.seq,
        head: row.head,
    };
    (Subject::Approval(row.approval_id), Some(seal))
}

async fn approvals(app: &App, visit: &Visit, before: Option<ApprovalId>) -> Result<Part, Problem> {
    let page = app.school(visit).recent_approvals(before, PART).await?;
    let rows = page.items.into_iter().map(sealed).collect();
    let part = chains(app, visit, rows).await?;
    let next = match page.next {
        Some(id) => Place::Approvals(Some(id)),
        None => Place::Days(None),
    };
    Ok(Part {
        next: Some(next),
        ..part
    })
}

/// A day's records are found by themselves, so a turn whose records are all gone is not missed here:
/// only a signed list would show that.
async fn days(app: &App, visit: &Visit, from: Option<String>) -> Result<Part, Problem> {
    let page = by_day(app, visit, None, from, PART).await?;
    let mut turns: BTreeMap<TurnId, Option<ConversationId>> = BTreeMap::new();
    let mut checked = 0;
    let mut altered = None;
    for record in page.records {
        let turn = turn_of(&record);
        if turn.is_some() || record.event == RecordEvent::Refused {
            checked += 1;
        }
        if record.computed_hash().as_ref() != Some(&record.hash) {
            altered = altered.or(Some(Fault {
                seq: record.seq,
                problem: FaultKind::Altered,
                subject: record.subject,
            }));
        } else if let Some(turn) = turn {
            turns.insert(turn, record.conversation);
        }
    }
    let rows: Vec<(Subject, Option<Seal>)> = stream::iter(turns)
        .map(|(turn, conversation)| async move {
            let row = match &conversation {
                Some(conversation) => app.school(visit).turn(conversation, turn).await?,
                None => None,
            };
            // Its conversation may have been erased; its records stay.
            let seal = row.and_then(|row| {
                Some(Seal {
                    seq: row.seq,
                    head: row.head?,
                })
            });
            Ok::<_, Problem>((Subject::Turn(turn), seal))
        })
        .buffered(AT_ONCE)
        .try_collect()
        .await?;
    let part = chains(app, visit, rows).await?;
    Ok(Part {
        // By the page: a turn that two pages touch is not counted twice.
        checked,
        first_bad: altered.or(part.first_bad),
        next: page.next.map(|place| Place::Days(Some(place))),
    })
}

/// The turn whose chain the record is in; `None` for one in an approval's, or in none.
fn turn_of(record: &Record) -> Option<TurnId> {
    let turn = record.turn?;
    let ours = record.seq > 0 && record.subject == Subject::Turn(turn).to_string();
    ours.then_some(turn)
}

/// Each seal was read before the records: they reach at least as far as it says.
async fn chains(
    app: &App,
    visit: &Visit,
    subjects: Vec<(Subject, Option<Seal>)>,
) -> Result<Part, Problem> {
    // In order, so that the same damage is named every time.
    let verdicts: Vec<(u64, Option<Fault>)> = stream::iter(subjects)
        .map(|(subject, seal)| async move {
            let records = app.school(visit).audit_of(subject).await?;
            let fault = verify_chain(&subject.to_string(), &records, seal.as_ref()).err();
            Ok::<_, Problem>((records.len() as u64, fault))
        })
        .buffered(AT_ONCE)
        .try_collect()
        .await?;
    Ok(Part {
        checked: verdicts.iter().map(|(count, _)| count).sum(),
        first_bad: verdicts.into_iter().find_map(|(_, fault)| fault),
        next: None,
    })
}
