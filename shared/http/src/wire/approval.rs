//! An approval as one person sees it.

use serde::Serialize;
use serde_json::{Value, json};
use toshi_core::{Millis, Outcome, Role, UserId};
use utoipa::ToSchema;

use super::{How, Named};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
#[schema(as = ApprovalState)]
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

impl From<toshi_core::State> for State {
    fn from(state: toshi_core::State) -> Self {
        use toshi_core::State as Core;
        match state {
            Core::Pending => Self::Pending,
            Core::Approved => Self::Approved,
            Core::Rejected => Self::Rejected,
            Core::Expired => Self::Expired,
            Core::Voided => Self::Voided,
            Core::Superseded => Self::Superseded,
            Core::Executing => Self::Executing,
            Core::Blocked => Self::Blocked,
            Core::Succeeded => Self::Succeeded,
            Core::Failed => Self::Failed,
            Core::Unknown => Self::Unknown,
            Core::ResolvedDone => Self::ResolvedDone,
            Core::ResolvedNotDone => Self::ResolvedNotDone,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Risk {
    Low,
    Medium,
    High,
}

impl From<toshi_core::Risk> for Risk {
    fn from(risk: toshi_core::Risk) -> Self {
        match risk {
            toshi_core::Risk::Low => Self::Low,
            toshi_core::Risk::Medium => Self::Medium,
            toshi_core::Risk::High => Self::High,
        }
    }
}

/// Where the call goes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[schema(as = ApprovalConnection)]
pub struct Connection {
    pub id: String,
    #[serde(rename = "type")]
    pub kind: String,
    pub title: String,
    /// The provider account's name.
    pub account: String,
}

/// The durable question to a person, and what became of it.
#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
pub struct Approval {
    pub approval_id: String,
    pub state: State,
    /// As its client made it.
    pub conversation_id: String,
    pub turn_id: String,
    pub tool_call_id: String,
    pub tool: String,
    /// The name that the model was shown.
    pub tool_name: String,
    /// What a person reads instead of the tool's name.
    pub tool_title: String,
    /// What the call does, in the catalogue's words.
    pub effect: Option<String>,
    pub connection: Connection,
    /// Exactly what will be sent.
    #[schema(value_type = Object)]
    pub arguments: Value,
    pub arguments_sha256: String,
    pub definition_hash: String,
    /// The agent's own words.
    pub intent: Option<String>,
    pub risk: Risk,
    pub requester: Named,
    pub approver: String,
    #[schema(format = DateTime)]
    pub created_at: String,
    /// Absent only on a damaged row, which counts as expired.
    #[schema(format = DateTime)]
    pub decide_by: Option<String>,
    #[schema(format = DateTime)]
    pub run_by: Option<String>,
    pub decided_by: Option<Named>,
    pub decided_how: Option<How>,
    #[schema(format = DateTime)]
    pub decided_at: Option<String>,
    pub reason: Option<String>,
    /// How often the call may have been sent.
    pub attempts: u32,
    /// The tool's answer: as structured, or `{"text": …}`.
    #[schema(value_type = Option<Object>)]
    pub result: Option<Value>,
    /// The state in plain words.
    pub outcome_note: Option<String>,
    pub supersedes: Option<String>,
    pub superseded_by: Option<String>,
    pub resolved_by: Option<Named>,
    pub resolved_reason: Option<String>,
    #[schema(format = DateTime)]
    pub resolved_at: Option<String>,
    /// Whether the person who asks may answer it now.
    pub can_decide: bool,
    /// Whether the person who asks may say now what became of it.
    pub can_resolve: bool,
}

/// What was decided, by whom, when.
#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
pub struct Decided {
    pub decision: String,
    pub by: Option<Named>,
    #[schema(format = DateTime)]
    pub at: String,
    pub state: State,
}

impl Decided {
    pub fn of(row: &toshi_core::Approval) -> Option<Self> {
        let decision = row.decision.as_ref()?;
        let answer = match decision.answer {
            toshi_core::Answer::Approve => "approve",
            toshi_core::Answer::Reject => "reject",
        };
        Some(Self {
            decision: answer.to_owned(),
            by: Named::of(&decision.by),
            at: decision.at.to_string(),
            state: row.state.into(),
        })
    }
}

impl Approval {
    /// The approval as `person` sees it at `now`.
    pub fn of(row: &toshi_core::Approval, person: (&UserId, Role), now: Millis) -> Self {
        let (user, role) = person;
        let open = row.state == toshi_core::State::Pending && !row.decide_by.is_over(now);
        let can_decide = open && row.may_decide(user);
        let can_resolve = row.state == toshi_core::State::Unknown && row.may_resolve(user, role);
        let note = toshi_core::state_for_person(row);
        let toshi_core::Approval {
            approval_id,
            // Our key; people know the client's id.
            conversation: _,
            client_id,
            turn,
            step: _,
            call,
            connection,
            tool,
            tool_title,
            definition,
            arguments,
            // For audit records.
            arguments_hmac: _,
            intent,
            effect,
            risk,
            requester,
            requester_name,
            approver,
            created_at,
            decide_by,
            run_by,
            state,
            decision,
            attempt,
            outcome,
            chunks: _,
            // All three are said in the note.
            blocked: _,
            not_sent: _,
            voided: _,
            resolution,
            supersedes,
            superseded_by,
            seq: _,
            head: _,
        } = row;
        let toshi_core::ApprovalConnection {
            id,
            connector,
            title,
            // The fingerprint is for the record, not for a page.
            account: _,
            account_name,
            epoch: _,
        } = connection;
        Self {
            approval_id: approval_id.to_string(),
            state: (*state).into(),
            conversation_id: client_id.to_string(),
            turn_id: turn.to_string(),
            tool_call_id: call.to_string(),
            tool: tool.clone(),
            tool_name: format!("{connector}__{tool}"),
            tool_title: tool_title.clone(),
            effect: effect.clone(),
            connection: Connection {
                id: id.to_string(),
                kind: connector.clone(),
                title: title.clone(),
                account: account_name.clone(),
            },
            arguments: arguments.value(),
            arguments_sha256: arguments.hash().to_string(),
            definition_hash: definition.to_string(),
            intent: intent.clone(),
            risk: (*risk).into(),
            requester: Named {
                id: requester.to_string(),
                name: requester_name.clone(),
            },
            approver: approver.as_str().to_owned(),
            created_at: created_at.to_string(),
            decide_by: decide_by.time().map(|time| time.to_string()),
            run_by: run_by
                .and_then(|limit| limit.time())
                .map(|time| time.to_string()),
            decided_by: decision.as_ref().and_then(|made| Named::of(&made.by)),
            decided_how: decision.as_ref().map(|made| made.how.into()),
            decided_at: decision.as_ref().map(|made| made.at.to_string()),
            reason: decision.as_ref().and_then(|made| made.reason.clone()),
            attempts: attempt.as_ref().map_or(0, |attempt| attempt.number),
            result: outcome.as_ref().and_then(result),
            outcome_note: Some(note),
            supersedes: supersedes.map(|id| id.to_string()),
            superseded_by: superseded_by.map(|id| id.to_string()),
            resolved_by: resolution.as_ref().and_then(|made| Named::of(&made.by)),
            resolved_reason: resolution.as_ref().map(|made| made.reason.clone()),
            resolved_at: resolution.as_ref().map(|made| made.at.to_string()),
            can_decide,
            can_resolve,
        }
    }
}

/// The tool's own answer. What was never sent or never answered has none.
fn result(outcome: &Outcome) -> Option<Value> {
    match outcome {
        Outcome::Succeeded {
            structured: Some(value),
            ..
        } => Some(value.clone()),
        Outcome::Succeeded { text, bytes, .. } if (text.len() as u64) < *bytes => {
            let note = toshi_core::shortened_words(text.len(), *bytes);
            Some(json!({ "text": format!("{text} …\n\n{note}") }))
        }
        Outcome::Succeeded { text, .. } | Outcome::ReportedError { text } => {
            Some(json!({ "text": text }))
        }
        Outcome::Refused { .. } | Outcome::NotSent { .. } | Outcome::Unknown { .. } => None,
    }
}
