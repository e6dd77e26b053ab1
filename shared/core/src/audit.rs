//! Audit records: one per event, chained by hash within their subject.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::approval::{Actor, How};
use crate::{
    ApprovalId, Canonical, ConnectionId, ConversationId, Millis, RequestId, Sha256Hex, TenantId,
    TurnId,
};

/// What a chain starts from.
pub const GENESIS: &str = "genesis";

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RecordEvent {
    Requested,
    Decided,
    /// Someone answered who may not, or too late.
    Refused,
    /// Attempt 1 is about to be sent.
    Claimed,
    /// A later attempt is about to be sent.
    Attempted,
    Settled,
    /// A true result after the outcome had been called unknown.
    LateResult,
    Expired,
    Voided,
    Superseded,
    Blocked,
    Resolved,
    /// A read, with its result's size.
    Read,
}

/// Whose chain a record belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Subject {
    Approval(ApprovalId),
    Turn(TurnId),
}

impl std::fmt::Display for Subject {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Approval(id) => write!(f, "AP#{id}"),
            Self::Turn(id) => write!(f, "TURN#{id}"),
        }
    }
}

/// A record before it has its place in a chain.
#[derive(Clone, Debug, PartialEq)]
pub struct RecordDraft {
    pub event: RecordEvent,
    pub at: Millis,
    pub actor: Actor,
    pub how: How,
    pub request: Option<RequestId>,
    pub conversation: Option<ConversationId>,
    pub turn: Option<TurnId>,
    pub approval: Option<ApprovalId>,
    pub connection: Option<ConnectionId>,
    pub tool: Option<String>,
    pub arguments_hmac: Option<String>,
    pub detail: Value,
}

/// A record in its place. Holds no contents: the arguments only as an HMAC of their hash.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Record {
    pub tenant: TenantId,
    pub subject: String,
    pub seq: u64,
    pub event: RecordEvent,
    pub at: Millis,
    pub actor: Actor,
    pub how: How,
    pub request: Option<RequestId>,
    pub conversation: Option<ConversationId>,
    pub turn: Option<TurnId>,
    pub approval: Option<ApprovalId>,
    pub connection: Option<ConnectionId>,
    pub tool: Option<String>,
    pub arguments_hmac: Option<String>,
    pub detail: Value,
    /// The previous record's hash, or [`GENESIS`].
    pub prev: String,
    pub hash: Sha256Hex,
}

impl RecordDraft {
    /// Gives the record its place after `head`, the hash of the record `seq - 1`.
    pub fn place(
        self,
        tenant: &TenantId,
        subject: Subject,
        seq: u64,
        head: Option<&Sha256Hex>,
    ) -> Record {
        let mut record = Record {
            tenant: tenant.clone(),
            subject: subject.to_string(),
            seq,
            event: self.event,
            at: self.at,
            actor: self.actor,
            how: self.how,
            request: self.request,
            conversation: self.conversation,
            turn: self.turn,
            approval: self.approval,
            connection: self.connection,
            tool: self.tool,
            arguments_hmac: self.arguments_hmac,
            detail: self.detail,
            prev: head.map_or_else(|| GENESIS.to_owned(), ToString::to_string),
            hash: Sha256Hex::of(b""),
        };
        // A draft whose detail JSON cannot hold exactly gets a mark that never verifies.
        record.hash = record
            .computed_hash()
            .unwrap_or_else(|| Sha256Hex::of(b"unhashable"));
        record
    }
}

impl Record {
    /// The hash of everything but the hash itself, over canonical JSON.
    ///
    /// `None` if a number in `detail` has no exact canonical form.
    pub fn computed_hash(&self) -> Option<Sha256Hex> {
        let mut value = serde_json::to_value(self).ok()?;
        value.as_object_mut()?.remove("hash");
        Canonical::of(&value)
            .ok()
            .map(|canonical| canonical.hash().clone())
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum FaultKind {
    Altered,
    /// A record is missing before this one, or at the end.
    Missing,
    /// The record does not follow the one before it.
    OutOfPlace,
}

/// The first record that does not verify.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Fault {
    pub subject: String,
    pub seq: u64,
    pub problem: FaultKind,
}

/// Where a chain ends according to the row it belongs to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seal {
    pub seq: u64,
    pub head: Sha256Hex,
}

/// Checks one subject's records in order, and that they reach at least `seal`.
pub fn verify_chain(subject: &str, records: &[Record], seal: Option<&Seal>) -> Result<(), Fault> {
    let fault = |seq, problem| {
        Err(Fault {
            subject: subject.to_owned(),
            seq,
            problem,
        })
    };
    let mut prev = GENESIS.to_owned();
    for (index, record) in records.iter().enumerate() {
        let expected = index as u64 + 1;
        if record.computed_hash().as_ref() != Some(&record.hash) || record.subject != subject {
            return fault(record.seq, FaultKind::Altered);
        }
        let later = &records[index..];
        if record.seq > expected && later.iter().all(|other| other.seq != expected) {
            return fault(expected, FaultKind::Missing);
        }
        if record.seq != expected || record.prev != prev {
            return fault(record.seq, FaultKind::OutOfPlace);
        }
        if let Some(seal) = seal
            && seal.seq == record.seq
            && seal.head != record.hash
        {
            return fault(record.seq, FaultKind::Altered);
        }
        prev = record.hash.to_string();
    }
    let last = records.len() as u64;
    match seal {
        Some(seal) if seal.seq > last => fault(last + 1, FaultKind::Missing),
        _ => Ok(()),
    }
}

#[cfg(test)]
#[path = "audit_tests.rs"]
mod tests;
