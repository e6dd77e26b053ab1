//! Rows, transactions, secrets and queues. `core` decides; this crate commits.
//!
//! [`Store::school`] is the one door to a school's rows: whoever has no [`TenantId`] has no key.

mod approval;
mod audit;
mod connection;
mod conversation;
mod error;
mod history;
mod identity;
mod item;
mod keys;
mod outcome;
mod permit;
mod queue;
mod rate;
mod results;
mod step;
mod summary;
mod sweep;
mod vault;

use std::time::Duration;

pub use approval::{ApprovalPage, Claim, ClaimRefusal, TransitionError};
pub use audit::AuditPage;
pub use connection::{CredentialRow, OpenError, Opened, Target, Toolbox};
pub use conversation::{Begin, Begun, ConversationPage, Listed, NewMessage, Release, UserMessage};
pub use error::StoreError;
pub use history::History;
pub use identity::{IdentityRow, IssuerRow, NoPerson, PersonStatus, TenantRow, UserRow};
pub use keys::SHARDS;
pub use permit::Permit;
pub use queue::{WakeMessage, WakeQueue};
pub use results::{PartError, ResultOrigin, ResultPart};
pub use step::{Commit, Committed, ReadRecord, StepRefusal};
pub use sweep::{Due, DueKind, DuePage};
pub use vault::{KeyName, SealContext, Sealed, Vault, VaultConfig, hmac_hex};

use toshi_core::{Id, Millis, TenantId};

/// Names of what the store works on.
#[derive(Clone, Debug)]
pub struct StoreConfig {
    pub table: String,
    pub audit_table: String,
}

/// The tables. One per process; cheap to share.
#[derive(Clone, Debug)]
pub struct Store {
    pub(crate) db: aws_sdk_dynamodb::Client,
    pub(crate) config: StoreConfig,
}

impl Store {
    pub const fn new(db: aws_sdk_dynamodb::Client, config: StoreConfig) -> Self {
        Self { db, config }
    }

    /// One school's rows.
    pub const fn school<'a>(&'a self, tenant: &'a TenantId) -> School<'a> {
        School {
            store: self,
            tenant,
        }
    }
}

/// One school's rows, and no other's.
#[derive(Clone, Copy, Debug)]
pub struct School<'a> {
    pub(crate) store: &'a Store,
    pub(crate) tenant: &'a TenantId,
}

impl School<'_> {
    pub(crate) const fn keys(&self) -> keys::Keys<'_> {
        keys::Keys(self.tenant)
    }

    pub const fn tenant(&self) -> &TenantId {
        self.tenant
    }
}

/// A new id of ours for this instant.
pub fn mint<K>(now: Millis) -> Id<K> {
    Id::new(now, rand::random())
}

/// Waits `ms` plus up to as much again, so that those who collided do not collide again.
pub(crate) async fn pause(ms: u64) {
    let jitter = rand::random_range(0..=ms);
    tokio::time::sleep(Duration::from_millis(ms + jitter)).await;
}
