//! The rules of Toshi: what may happen, decided without doing it.
//!
//! Nothing here does I/O, reads a clock or draws randomness: time, ids and rows are passed in and
//! new rows and audit records come out. `store` commits them.

mod approval;
mod audit;
mod canonical;
mod catalogue;
mod conversation;
mod definition;
mod gate;
mod id;
mod limits;
mod role;
mod settle;
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
pub use gate::{
    Access, ConnectionRow, ConnectionStatus, Gate, ToolRow, ToolState, Verdict, WriteMode,
};
pub use id::{
    ApprovalId, AttemptId, CallId, ClientId, ConnectionId, ConversationId, Id, IdError, InboxId,
    MessageId, RequestId, TenantId, TurnId, UserId, UserMessageId,
};
pub use limits::*;
pub use role::Role;
pub use settle::{Outcome, WireFault, classify_write};
pub use time::{Deadline, Millis};
pub use turn::{
    CallOutcome, Finish, InboxRow, MessageAuthor, MessageRow, OpenTurn, StepCall, StepRow, TurnEnd,
    TurnRow, TurnState, Work, next_work,
};
pub use words::{blocked_words, call_outcome_for_model, state_for_model, state_for_person};
