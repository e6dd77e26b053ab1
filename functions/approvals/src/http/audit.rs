//! `GET /audit`: one approval's chain, or the school's records by day.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use futures::future::try_join_all;
use serde::Deserialize;
use toshi_core::{ApprovalId, ClientId, ConversationId, Millis, Record, Role, Subject, TenantId};
use toshi_http::{Code, Cursor, Paging, Problem, Search, wire};

use super::App;
use super::visit::Visit;

const DAY_MS: i64 = 24 * 60 * 60 * 1000;
/// Days that are asked for at the same time.
const DAYS_AT_ONCE: usize = 8;
/// Rounds of reading in one request.
const ROUNDS: usize = 12;
/// How far back a school's records are looked for when its row does not say when it began.
const OLDEST_DAYS: i64 = 400;

#[derive(Debug, Deserialize)]
pub(super) struct Wanted {
    approval: Option<String>,
    conversation: Option<String>,
    limit: Option<String>,
    cursor: Option<String>,
}

pub(super) async fn audit(
    State(app): State<Arc<App>>,
    visit: Visit,
    Search(wanted): Search<Wanted>,
) -> Result<Json<wire::Page<wire::AuditRecord>>, Problem> {
    let Wanted {
        approval,
        conversation,
        limit,
        cursor,
    } = wanted;
    let paging = Paging::new(limit, cursor);
    let limit = paging.limit()?;
    let (records, next) = match approval {
        Some(text) => {
            let id: ApprovalId = text.parse().map_err(|_| Problem::not_found())?;
            let list = list("audit.approval", &visit.person.tenant);
            let after = paging.after(list)?;
            let part = chain(&app, &visit, id, after.as_deref(), limit).await?;
            (part.records, part.next.map(|at| list.make(&at)))
        }
        None => {
            if visit.person.role != Role::Admin {
                let detail = "Only an administrator may read the school's audit.";
                return Err(Problem::saying(Code::NotAllowed, detail));
            }
            let list = list("audit", &visit.person.tenant);
            let from = paging.after(list)?;
            let conversation = conversation.map(|text| Named::of(&visit, text));
            let part = by_day(&app, &visit, conversation.as_ref(), from, limit).await?;
            (part.records, part.next.map(|at| list.make(&at)))
        }
    };
    Ok(Json(wire::Page {
        items: records.into_iter().map(Into::into).collect(),
        next,
    }))
}

const fn list<'a>(route: &'a str, tenant: &'a TenantId) -> Cursor<'a> {
    Cursor { route, tenant }
}

/// A conversation as records name it, or as its client named it if it is this person's own.
pub(super) struct Named {
    text: String,
    own: Option<ConversationId>,
}

impl Named {
    fn of(visit: &Visit, text: String) -> Self {
        let client = text.parse::<ClientId>().ok();
        let own = client.map(|client| ConversationId::of(&visit.person.user, &client));
        Self { text, own }
    }

    fn is(&self, id: Option<&ConversationId>) -> bool {
        id.is_some_and(|id| id.as_str() == self.text || Some(id) == self.own.as_ref())
    }
}

pub(super) struct Part {
    pub(super) records: Vec<Record>,
    pub(super) next: Option<String>,
}

/// One approval's records, oldest first.
async fn chain(
    app: &App,
    visit: &Visit,
    id: ApprovalId,
    after: Option<&str>,
    limit: usize,
) -> Result<Part, Problem> {
    app.find_visible(visit, id).await?;
    let after: u64 = after.and_then(|text| text.parse().ok()).unwrap_or(0);
    let all = app.school(visit).audit_of(Subject::Approval(id)).await?;
    let mut records: Vec<Record> = all
        .into_iter()
        .filter(|record| record.seq > after)
        .collect();
    let more = records.len() > limit;
    records.truncate(limit);
    let last = records.last().map(|record| record.seq.to_string());
    Ok(Part {
        records,
        next: if more { last } else { None },
    })
}

/// Where a walk through the days stands: a day, and what was last read of it.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Place {
    day: Millis,
    before: Option<String>,
}

impl Place {
    fn read(text: &str) -> Option<Self> {
        let (day, before) = text.split_once('|')?;
        let number: i64 = day.parse().ok()?;
        Some(Self {
            day: Millis::from_epoch(number.checked_mul(DAY_MS)?),
            before: (!before.is_empty()).then(|| before.to_owned()),
        })
    }

    fn write(&self) -> String {
        let number = self.day.as_epoch().div_euclid(DAY_MS);
        format!("{number}|{}", self.before.as_deref().unwrap_or_default())
    }
}

/// The school's records, newest first. Days are read several at a time, so that a quiet summer
/// costs a few waits; a part may hold fewer records than asked for and still have a next.
pub(super) async fn by_day(
    app: &App,
    visit: &Visit,
    conversation: Option<&Named>,
    from: Option<String>,
    limit: usize,
) -> Result<Part, Problem> {
    let school = app.school(visit);
    let oldest = oldest(app, visit).await?;
    let mut place = match from {
        None => Place {
            day: visit.now,
            before: None,
        },
        Some(text) => Place::read(&text).ok_or_else(Problem::strange_cursor)?,
    };
    let mut records: Vec<Record> = Vec::new();
    for _ in 0..ROUNDS {
        let wanted = limit - records.len();
        // The first day alone may have been begun before.
        let days: Vec<Place> = (0..)
            .map(|back: i64| Place {
                day: place.day.plus(-back * DAY_MS),
                before: if back == 0 {
                    place.before.clone()
                } else {
                    None
                },
            })
            .take(DAYS_AT_ONCE)
            .take_while(|place| place.day.day() >= oldest.day())
            .collect();
        let Some(last) = days.last().cloned() else {
            return Ok(Part {
                records,
                next: None,
            });
        };
        let names: Vec<String> = days.iter().map(|place| place.day.day()).collect();
        let pages = try_join_all(
            days.iter()
                .zip(&names)
                .map(|(place, day)| school.audit_day(day, place.before.as_deref(), wanted)),
        )
        .await?;
        place = Place {
            day: last.day.plus(-DAY_MS),
            before: None,
        };
        for (day, page) in days.into_iter().zip(pages) {
            let fits = |record: &Record| {
                conversation.is_none_or(|named| named.is(record.conversation.as_ref()))
            };
            let room = limit - records.len();
            if page.records.len() > room {
                // The rest of what was read is read again: its places in the day are not known.
                place = day;
                break;
            }
            records.extend(page.records.into_iter().filter(fits));
            if let Some(before) = page.next {
                place = Place {
                    day: day.day,
                    before: Some(before),
                };
                break;
            }
        }
        if records.len() == limit {
            break;
        }
    }
    let next = (place.day.day() >= oldest.day()).then(|| place.write());
    Ok(Part { records, next })
}

/// The first day on which the school can have records.
async fn oldest(app: &App, visit: &Visit) -> Result<Millis, Problem> {
    let row = app.store.tenant_row(&visit.person.tenant).await?;
    let began = row.and_then(|row| row.created_at);
    Ok(began.unwrap_or_else(|| visit.now.plus(-OLDEST_DAYS * DAY_MS)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_reads_back_as_it_was_written() {
        let places = [
            Place {
                day: Millis::from_epoch(20_000 * DAY_MS),
                before: None,
            },
            Place {
                day: Millis::from_epoch(20_000 * DAY_MS),
                before: Some("1796062800123#AP#01#0000000001".to_owned()),
            },
        ];
        for place in places {
            assert_eq!(Place::read(&place.write()), Some(place));
        }
        for bad in ["", "x|", "1", "99999999999999999|"] {
            assert_eq!(Place::read(bad), None, "{bad}");
        }
    }
}
