//! Audit records and the verdict on their chains.

use serde::Serialize;
use serde_json::Value;
use toshi_core::{Actor, Fault, FaultKind, Record};
use utoipa::ToSchema;

use super::How;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum RecordEvent {
    Requested,
    Decided,
    Refused,
    Claimed,
    Attempted,
    Settled,
    LateResult,
    Expired,
    Voided,
    Superseded,
    Blocked,
    Resolved,
    Read,
}

impl From<toshi_core::RecordEvent> for RecordEvent {
    fn from(event: toshi_core::RecordEvent) -> Self {
        use toshi_core::RecordEvent as Core;
        match event {
            Core::Requested => Self::Requested,
            Core::Decided => Self::Decided,
            Core::Refused => Self::Refused,
            Core::Claimed => Self::Claimed,
            Core::Attempted => Self::Attempted,
            Core::Settled => Self::Settled,
            Core::LateResult => Self::LateResult,
            Core::Expired => Self::Expired,
            Core::Voided => Self::Voided,
            Core::Superseded => Self::Superseded,
            Core::Blocked => Self::Blocked,
            Core::Resolved => Self::Resolved,
            Core::Read => Self::Read,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum ActorKind {
    User,
    System,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct RecordActor {
    pub kind: ActorKind,
    pub id: Option<String>,
    pub name: Option<String>,
}

impl RecordActor {
    fn of(actor: Actor) -> Self {
        match actor {
            Actor::User { id, name, role: _ } => Self {
                kind: ActorKind::User,
                id: Some(id.to_string()),
                name: Some(name),
            },
            Actor::System => Self {
                kind: ActorKind::System,
                id: None,
                name: None,
            },
        }
    }
}

/// One thing that happened, in its place in its subject's chain. Refusals stand alone, with seq 0.
#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
pub struct AuditRecord {
    /// The id of the approval or turn whose chain this is.
    pub subject: String,
    pub seq: u64,
    pub event: RecordEvent,
    #[schema(format = DateTime)]
    pub at: String,
    pub conversation_id: Option<String>,
    pub turn_id: Option<String>,
    pub approval_id: Option<String>,
    pub connection_id: Option<String>,
    pub tool: Option<String>,
    pub actor: RecordActor,
    pub how: How,
    pub request_id: Option<String>,
    #[schema(value_type = Object)]
    pub detail: Value,
    pub arguments_hmac: Option<String>,
    /// The hash of the record before it.
    pub prev: String,
    pub hash: String,
}

impl From<Record> for AuditRecord {
    fn from(record: Record) -> Self {
        let Record {
            // Only the school's own people read it.
            tenant: _,
            subject,
            seq,
            event,
            at,
            actor,
            how,
            request,
            conversation,
            turn,
            approval,
            connection,
            tool,
            arguments_hmac,
            detail,
            prev,
            hash,
        } = record;
        Self {
            subject: bare(&subject),
            seq,
            event: event.into(),
            at: at.to_string(),
            conversation_id: conversation.map(|id| id.to_string()),
            turn_id: turn.map(|id| id.to_string()),
            approval_id: approval.map(|id| id.to_string()),
            connection_id: connection.map(|id| id.to_string()),
            tool,
            actor: RecordActor::of(actor),
            how: how.into(),
            request_id: request.map(|id| id.to_string()),
            detail,
            arguments_hmac,
            prev,
            hash: hash.to_string(),
        }
    }
}

/// The first record that does not verify.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct FirstBad {
    pub subject: String,
    pub seq: u64,
    /// `altered`, `missing` or `out_of_place`.
    pub problem: String,
}

impl From<Fault> for FirstBad {
    fn from(fault: Fault) -> Self {
        let Fault {
            subject,
            seq,
            problem,
        } = fault;
        let problem = match problem {
            FaultKind::Altered => "altered",
            FaultKind::Missing => "missing",
            FaultKind::OutOfPlace => "out_of_place",
        };
        Self {
            subject: bare(&subject),
            seq,
            problem: problem.to_owned(),
        }
    }
}

/// Whether the audit records are whole: one approval's, or one part of a school's.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct Verification {
    pub ok: bool,
    /// Until when the records are sealed; nothing is sealed yet.
    #[schema(format = DateTime)]
    pub sealed_to: Option<String>,
    /// How many records were checked.
    pub checked: u64,
    pub first_bad: Option<FirstBad>,
    /// Where the check of a whole school goes on; it is done when this is null.
    pub next: Option<String>,
}

/// `AP#01…` is the approval 01….
fn bare(subject: &str) -> String {
    subject
        .split_once('#')
        .map_or(subject, |(_, id)| id)
        .to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_subject_is_told_by_its_id() {
        assert_eq!(
            bare("AP#01ARZ3NDEKTSV4RRFFQ69G5FAV"),
            "01ARZ3NDEKTSV4RRFFQ69G5FAV"
        );
        assert_eq!(bare("plain"), "plain");
    }
}
