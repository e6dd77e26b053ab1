//! Limits with their units, in one place.

/// Canonical arguments of one call, in bytes.
pub const ARGUMENTS_MAX: usize = 64 * 1024;
/// A user message, in bytes.
pub const MESSAGE_MAX: usize = 32 * 1024;
/// A tool result as the model sees it at once, in bytes: eight of them in a step are a third of
/// the smallest context window. A longer one is read on in parts.
pub const RESULT_MAX: usize = 16 * 1024;
/// One stored chunk of a longer result, in bytes: whole parts, and well below an item's 400 KB.
pub const RESULT_CHUNK: usize = 256 * 1024;
/// Chunks of one result: together as much as a tool's whole answer may have.
pub const RESULT_CHUNKS_MAX: u32 = 4;
/// A tool's whole answer, in bytes; more is not read.
pub const TOOL_BODY_MAX: usize = 1024 * 1024;
/// Tool calls in one step.
pub const CALLS_PER_STEP: usize = 8;
/// Model calls in one turn.
pub const STEPS_PER_TURN: u32 = 8;
/// Tokens of earlier messages in a prompt, and of what one turn itself gathers: together with the
/// tools and the answer they fit into 128 Ki tokens, the smallest context window in use.
pub const HISTORY_TOKENS: usize = 32 * 1024;
pub const TURN_TOKENS: usize = 64 * 1024;
/// The same call in one turn before it is called a loop.
pub const SAME_CALL_MAX: usize = 3;
/// Approval ids that one request may answer.
pub const ANSWERS_PER_REQUEST: usize = 32;

/// How long one tool call may take.
pub const TOOL_TIMEOUT_MS: i64 = 20_000;
/// What a send needs of the lease besides the call's own time.
pub const SEND_MARGIN_MS: i64 = 5_000;
/// What must be left of a claim's lease when its call is sent, and how long a claim holds: two calls
/// and two margins.
pub const SEND_NEEDS_MS: i64 = TOOL_TIMEOUT_MS + SEND_MARGIN_MS;
pub const CLAIM_LEASE_MS: i64 = 2 * SEND_NEEDS_MS;
/// How long an approved call may wait to be run.
pub const RUN_WITHIN_MS: i64 = 10 * 60 * 1000;
/// How long a question asked on the web waits for its answer.
pub const DECIDE_WITHIN_WEB_MS: i64 = 24 * 60 * 60 * 1000;

/// Model: until the first byte, between bytes, and one run in all.
pub const MODEL_FIRST_BYTE_MS: u64 = 30_000;
pub const MODEL_IDLE_MS: u64 = 60_000;
pub const RUN_MAX_MS: i64 = 240_000;
/// What an invocation must still have left to start a turn or to claim a call.
pub const TURN_NEEDS_MS: i64 = 250_000;
pub const CLAIM_NEEDS_MS: i64 = 60_000;

/// Messages a minute.
pub const MESSAGES_PER_PERSON: u64 = 20;
pub const MESSAGES_PER_TENANT: u64 = 300;
