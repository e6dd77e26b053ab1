//! The proof that one exact call may be sent, once.

use std::time::{Duration, Instant};

use toshi_core::{Access, ApprovalId, AttemptId, ConnectionId, SEND_NEEDS_MS, Sha256Hex, TenantId};

/// Lets one call with exactly these arguments reach one tool of one account.
///
/// Only this crate makes one: [`crate::School::claim`] and [`crate::School::send_again`] for a
/// write, [`crate::School::open_read`] for a read. It is for one use:
///
/// ```
/// fn send(_: toshi_store::Permit) {}
/// fn once(permit: toshi_store::Permit) {
///     assert_eq!(permit.tool(), "post_message");
///     send(permit);
/// }
/// ```
///
/// It is consumed:
///
/// ```compile_fail,E0382
/// fn send(_: toshi_store::Permit) {}
/// fn twice(permit: toshi_store::Permit) {
///     send(permit);
///     send(permit);
/// }
/// ```
///
/// It cannot be copied:
///
/// ```compile_fail,E0599
/// fn twice(permit: toshi_store::Permit) {
///     let _copy = permit.clone();
/// }
/// ```
///
/// Nobody else fills in its fields, nor calls what does:
///
/// ```compile_fail,E0451
/// fn redirect(permit: toshi_store::Permit) -> toshi_store::Permit {
///     toshi_store::Permit { tool: "post_message".to_owned(), ..permit }
/// }
/// ```
/// ```compile_fail,E0616
/// fn redirect(mut permit: toshi_store::Permit) {
///     permit.tool = "post_message".to_owned();
/// }
/// ```
/// ```compile_fail,E0624
/// let forge = toshi_store::Permit::new;
/// ```
#[derive(Debug)]
pub struct Permit {
    tenant: TenantId,
    connection: ConnectionId,
    account: String,
    tool: String,
    arguments: Sha256Hex,
    access: Access,
    attempt: Option<(ApprovalId, AttemptId, u32)>,
    lease_ends: Instant,
}

/// What a permit is made for.
pub(crate) struct Grant {
    pub(crate) tenant: TenantId,
    pub(crate) connection: ConnectionId,
    pub(crate) account: String,
    pub(crate) tool: String,
    pub(crate) arguments: Sha256Hex,
    pub(crate) access: Access,
    pub(crate) attempt: Option<(ApprovalId, AttemptId, u32)>,
    /// Taken before the claim was sent to the table, so that it errs towards too early.
    pub(crate) lease_ends: Instant,
}

impl Permit {
    pub(crate) fn new(grant: Grant) -> Self {
        let Grant {
            tenant,
            connection,
            account,
            tool,
            arguments,
            access,
            attempt,
            lease_ends,
        } = grant;
        Self {
            tenant,
            connection,
            account,
            tool,
            arguments,
            access,
            attempt,
            lease_ends,
        }
    }

    pub fn tenant(&self) -> &TenantId {
        &self.tenant
    }

    pub fn connection(&self) -> &ConnectionId {
        &self.connection
    }

    /// The provider account's fingerprint.
    pub fn account(&self) -> &str {
        &self.account
    }

    pub fn tool(&self) -> &str {
        &self.tool
    }

    /// The hash of the canonical arguments; the client recomputes it from what it sends.
    pub fn arguments(&self) -> &Sha256Hex {
        &self.arguments
    }

    pub fn access(&self) -> Access {
        self.access
    }

    /// The approval, the attempt and its number, for a write.
    pub fn attempt(&self) -> Option<(ApprovalId, AttemptId, u32)> {
        self.attempt
    }

    /// Whether the lease still covers a whole call and a margin, by the monotonic clock.
    pub fn may_still_send(&self) -> bool {
        let needs = Duration::from_millis(SEND_NEEDS_MS.unsigned_abs());
        self.lease_ends.saturating_duration_since(Instant::now()) >= needs
    }
}
