//! The rules of Toshi: what may happen, decided without doing it.
//!
//! Nothing here does I/O, reads a clock or draws randomness: time, ids and rows are passed in and
//! new rows and audit records come out. `store` commits them.

// A new state or reason must break the build wherever it matters.
#![cfg_attr(not(test), deny(clippy::wildcard_enum_match_arm))]

mod approval;
mod audit;
mod canonical;
mod catalogue;
mod conversation;
mod definition;
mod era;
mod gate;
mod id;
mod identifiers;
mod limits;
mod long;
mod role;
#[cfg(test)]
mod sample;
mod settle;
mod summary;
mod time;
mod turn;
mod words;

pub use approval::{
    Actor, Answer, Approval, ApproverPolicy, Attempt, BlockReason, Cause,
    Connection as ApprovalConnection, Decision, Effect, Event, How, NotSent, Refusal, Resolution,
    State, Transition, VoidReason,
};
pub use audit::{
    Fault, FaultKind, GENESIS, Record, RecordDraft, RecordEvent, Seal, Subject, verify_chain,
};
pub use canonical::{Canonical, CanonicalError, Sha256Hex};
pub use catalogue::{
    Catalogue, CatalogueError, Connector, Mode, Risk, Sharing, ToolEntry, Transport,
};
pub use conversation::{
    ConversationRow, INTERRUPTED_MAX_MS, LEASE_MS, LEASE_RENEW_MS, Lease, MAX_TAKEOVERS,
};
pub use definition::{INTENT, ToolDefinition, take_intent};
pub use era::{Era, EraRule};
pub use gate::{
    Access, ConnectionRow, ConnectionStatus, Gate, ToolRow, ToolState, Verdict, WriteMode,
};
pub use id::{
    ApprovalId, AttemptId, CallId, ClientId, ConnectionId, ConversationId, Id, IdError, InboxId,
    MessageId, RequestId, TenantId, TurnId, UserId, UserMessageId,
};
pub use identifiers::{identifiers, identifiers_of_arguments, keep};
pub use limits::{
    ANSWERS_PER_REQUEST, ARGUMENTS_MAX, CALLS_PER_STEP, CLAIM_LEASE_MS, CLAIM_NEEDS_MS,
    DECIDE_WITHIN_WEB_MS, HISTORY_TOKENS, MESSAGE_MAX, MESSAGES_PER_PERSON, MESSAGES_PER_TENANT,
    MODEL_FIRST_BYTE_MS, MODEL_IDLE_MS, RESULT_CHUNK, RESULT_CHUNKS_MAX, RESULT_MAX, RUN_MAX_MS,
    RUN_WITHIN_MS, SAME_CALL_MAX, SEND_MARGIN_MS, SEND_NEEDS_MS, STEPS_PER_TURN, TOOL_BODY_MAX,
    TOOL_TIMEOUT_MS, TURN_NEEDS_MS, TURN_TOKENS,
};
pub use long::{READ_RESULT, chunk_of, chunks, kept_bytes, part_count, part_in};
pub use role::Role;
pub use settle::{Outcome, WireFault, classify_write};
pub use summary::SummaryRow;
pub use time::{Deadline, Millis};
pub use turn::{
    CallOutcome, Finish, InboxRow, MessageAuthor, MessageRow, OpenTurn, StepCall, StepRow, TurnEnd,
    TurnRow, TurnState, Work, besides, next_work,
};
pub use words::{
    blocked_words, call_outcome_for_model, shortened_words, state_for_model, state_for_person,
};
