//! The approval: the durable question to a person, and the only way to a write.

mod transition;

use serde::{Deserialize, Serialize};

pub use transition::{Cause, Effect, Event, Refusal, Transition};

use crate::catalogue::Risk;
use crate::settle::Outcome;
use crate::{
    ApprovalId, AttemptId, CallId, Canonical, ClientId, ConnectionId, ConversationId, Deadline,
    Millis, Role, Sha256Hex, TurnId, UserId,
};

/// Where an approval stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    Pending,
    Approved,
    Rejected,
    Expired,
    Voided,
    Superseded,
    Executing,
    Blocked,
    Succeeded,
    Failed,
    Unknown,
    ResolvedDone,
    ResolvedNotDone,
}

impl State {
    pub const ALL: [Self; 13] = [
        Self::Pending,
        Self::Approved,
        Self::Rejected,
        Self::Expired,
        Self::Voided,
        Self::Superseded,
        Self::Executing,
        Self::Blocked,
        Self::Succeeded,
        Self::Failed,
        Self::Unknown,
        Self::ResolvedDone,
        Self::ResolvedNotDone,
    ];

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Approved => "approved",
            Self::Rejected => "rejected",
            Self::Expired => "expired",
            Self::Voided => "voided",
            Self::Superseded => "superseded",
            Self::Executing => "executing",
            Self::Blocked => "blocked",
            Self::Succeeded => "succeeded",
            Self::Failed => "failed",
            Self::Unknown => "unknown",
            Self::ResolvedDone => "resolved_done",
            Self::ResolvedNotDone => "resolved_not_done",
        }
    }

    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|state| state.as_str() == text)
    }

    /// The step may go on: nothing more will happen by itself. An unknown outcome counts, since
    /// only a person can change it; a superseded approval does not, since its successor stands in
    /// its place.
    pub const fn is_settled(self) -> bool {
        match self {
            Self::Rejected
            | Self::Expired
            | Self::Voided
            | Self::Blocked
            | Self::Succeeded
            | Self::Failed
            | Self::Unknown
            | Self::ResolvedDone
            | Self::ResolvedNotDone => true,
            Self::Pending | Self::Approved | Self::Executing | Self::Superseded => false,
        }
    }
}

/// Who may answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ApproverPolicy {
    #[default]
    Requester,
}

impl ApproverPolicy {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Requester => "requester",
        }
    }
}

/// Who caused something. Names are kept as they were, for the record.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Actor {
    User {
        id: UserId,
        name: String,
        role: Role,
    },
    System,
}

/// Through which surface.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum How {
    /// `POST /v1/approvals/{id}/decision`.
    Web,
    /// An answered approval in a chat request.
    Chat,
    /// A sweep or a runner.
    System,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Answer {
    Approve,
    Reject,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Decision {
    pub answer: Answer,
    pub by: Actor,
    pub how: How,
    pub at: Millis,
    pub reason: Option<String>,
}

/// One time bytes are sent to the tool.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Attempt {
    pub id: AttemptId,
    /// 1, or 2 after a 401 that named a challenge.
    pub number: u32,
    #[serde(default)]
    pub lease_until: Deadline,
}

/// How a person settled an unknown outcome.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Resolution {
    pub done: bool,
    pub by: Actor,
    pub at: Millis,
    pub reason: String,
}

/// The account that an approval is bound to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Connection {
    pub id: ConnectionId,
    pub connector: String,
    /// The connector's title, for people.
    pub title: String,
    /// The account's fingerprint.
    pub account: String,
    pub account_name: String,
    pub epoch: u64,
}

/// Why a call will not be run although nobody said no.
///
/// Ordered: of several reasons the last one is named. Whoever hears that a tool waits for a review
/// must not learn afterwards that its whole type is off.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BlockReason {
    /// The same call was denied in this turn.
    DeniedBefore,
    /// The same call's last outcome is unknown.
    OutcomeUnknown,
    WriteMode,
    DefinitionChanged,
    NotReviewed,
    AllowList,
    DenyList,
    Role,
    ConnectionUnusable,
    Killed,
    UnknownConnector,
    /// The stored arguments are not those that were asked.
    Altered,
}

/// Why an approved call failed before anything was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NotSent {
    ServerUnreachable,
    NeedsReauth,
    AppError,
    /// The server no longer offers the tool.
    ToolGone,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum VoidReason {
    AccountChanged,
    PersonChanged,
    /// The message it belongs to was replaced.
    MessageReplaced,
    ConversationDeleted,
    NotDelivered,
}

/// The row. `seq` and `head` chain its audit records; `seq` is also its version.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Approval {
    pub approval_id: ApprovalId,
    pub conversation: ConversationId,
    pub client_id: ClientId,
    pub turn: TurnId,
    pub step: u32,
    pub call: CallId,
    pub connection: Connection,
    pub tool: String,
    pub tool_title: String,
    pub definition: Sha256Hex,
    pub arguments: Canonical,
    /// HMAC of the argument hash under the deployment's key: what audit records carry, so that they
    /// hold no guessable trace of the contents.
    pub arguments_hmac: String,
    /// The agent's own words.
    pub intent: Option<String>,
    /// What the call does, in the catalogue's words.
    pub effect: Option<String>,
    pub risk: Risk,
    pub requester: UserId,
    pub requester_name: String,
    pub approver: ApproverPolicy,
    pub created_at: Millis,
    #[serde(default)]
    pub decide_by: Deadline,
    /// Set by a yes.
    #[serde(default)]
    pub run_by: Option<Deadline>,
    pub state: State,
    pub decision: Option<Decision>,
    pub attempt: Option<Attempt>,
    /// What the attempt brought; beside a person's resolution it is late evidence.
    pub outcome: Option<Outcome>,
    /// Chunks of a result longer than the row keeps.
    #[serde(default)]
    pub chunks: u32,
    pub blocked: Option<BlockReason>,
    pub not_sent: Option<NotSent>,
    pub voided: Option<VoidReason>,
    pub resolution: Option<Resolution>,
    pub supersedes: Option<ApprovalId>,
    pub superseded_by: Option<ApprovalId>,
    pub seq: u64,
    pub head: Sha256Hex,
}

impl Approval {
    /// When a sweep must look at it.
    pub fn due(&self, now: Millis) -> Option<Millis> {
        match self.state {
            State::Pending => Some(self.decide_by.due(now)),
            State::Approved => Some(self.run_by().due(now)),
            State::Executing => Some(self.lease().due(now)),
            State::Rejected
            | State::Expired
            | State::Voided
            | State::Superseded
            | State::Blocked
            | State::Succeeded
            | State::Failed
            | State::Unknown
            | State::ResolvedDone
            | State::ResolvedNotDone => None,
        }
    }

    pub fn is_overdue(&self, now: Millis) -> bool {
        self.due(now).is_some_and(|due| due <= now)
    }

    /// What becomes of it when it is due, if it is still so.
    pub const fn overdue(&self) -> Option<Event> {
        match self.state {
            State::Pending | State::Approved => Some(Event::Expire),
            State::Executing => Some(Event::Abandon),
            State::Rejected
            | State::Expired
            | State::Voided
            | State::Superseded
            | State::Blocked
            | State::Succeeded
            | State::Failed
            | State::Unknown
            | State::ResolvedDone
            | State::ResolvedNotDone => None,
        }
    }

    pub fn run_by(&self) -> Deadline {
        self.run_by.unwrap_or_default()
    }

    pub fn lease(&self) -> Deadline {
        self.attempt
            .as_ref()
            .map_or(Deadline::malformed(), |attempt| attempt.lease_until)
    }

    /// Whether this person may answer.
    pub fn may_decide(&self, user: &UserId) -> bool {
        match self.approver {
            ApproverPolicy::Requester => *user == self.requester,
        }
    }

    /// Whether this person may say what became of an unknown outcome.
    pub fn may_resolve(&self, user: &UserId, role: Role) -> bool {
        self.may_decide(user) || matches!(role, Role::Admin | Role::Operator)
    }

    /// Whether this person may see it.
    pub fn may_see(&self, user: &UserId, role: Role) -> bool {
        self.may_resolve(user, role)
    }
}

#[cfg(test)]
#[path = "transition_tests.rs"]
mod tests;
