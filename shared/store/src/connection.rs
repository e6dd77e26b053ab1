//! Connections, their credentials and reviewed tools, and the permit for a read.

use std::time::{Duration, Instant};

use aws_sdk_dynamodb::types::AttributeValue;
use secrecy::SecretString;
use serde::{Deserialize, Serialize};
use toshi_core::{
    Access, BlockReason, Canonical, Catalogue, ConnectionId, ConnectionRow, Deadline, Era, Gate,
    Millis, Role, SEND_MARGIN_MS, TOOL_TIMEOUT_MS, ToolRow, UserId, Verdict,
};

use crate::item::{Expression, Item, Range, Transaction, from_item, n, s, to_item};
use crate::keys::{Key, prefix};
use crate::permit::{Grant, Permit};
use crate::vault::{KeyName, SealContext, Sealed, Vault};
use crate::{School, StoreError};

/// A connection's access token, sealed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CredentialRow {
    pub connection: ConnectionId,
    /// Counts token versions; part of what the blob is bound to.
    pub tok_ver: u64,
    pub epoch: u64,
    pub access: Sealed,
    /// Absent for a token without an end.
    pub access_exp: Option<Deadline>,
}

/// What a conversation's turn may be offered, before the gate narrows it.
#[derive(Clone, Debug, Default)]
pub struct Toolbox {
    pub connections: Vec<ConnectionRow>,
    pub tools: Vec<ToolRow>,
    kills: Vec<String>,
}

impl Toolbox {
    pub fn is_killed(&self, connection: &ConnectionRow) -> bool {
        kill_scopes(connection)
            .iter()
            .any(|scope| self.kills.contains(scope))
    }

    pub fn tool(&self, connection: &ConnectionId, tool: &str) -> Option<&ToolRow> {
        self.tools
            .iter()
            .find(|row| row.connection == *connection && row.definition.name == tool)
    }
}

/// One connection as it is now, strongly read.
#[derive(Clone, Debug)]
pub struct Target {
    pub connection: ConnectionRow,
    pub credential: Option<CredentialRow>,
    pub tool: Option<ToolRow>,
    pub killed: bool,
}

impl Target {
    /// The gate's verdict on this call, on the rows as read.
    pub fn judge(&self, catalogue: &Catalogue, role: Role, user: &UserId, tool: &str) -> Verdict {
        Gate::new(catalogue, &self.connection, role, user, self.killed)
            .judge(tool, self.tool.as_ref())
    }
}

/// A read that may be made.
#[derive(Debug)]
pub struct Opened {
    pub permit: Permit,
    pub target: Target,
}

#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    #[error("the call is not allowed")]
    Denied(BlockReason),
    #[error("the call is a write")]
    NeedsApproval,
    #[error("the connection does not exist")]
    NotFound,
    #[error(transparent)]
    Store(#[from] StoreError),
}

const CONNECTIONS_MAX: usize = 100;
const TOOLS_MAX: usize = 1_000;

pub(crate) fn kill_scopes(connection: &ConnectionRow) -> [String; 3] {
    [
        "tenant".to_owned(),
        format!("type:{}", connection.connector),
        format!("conn:{}", connection.connection),
    ]
}

impl School<'_> {
    /// Everything the turn's prompt needs to know of tools. Three queries at once.
    pub async fn toolbox(&self) -> Result<Toolbox, StoreError> {
        let school = self.keys().school();
        let (connections, tools, kills) = tokio::try_join!(
            self.store
                .query(&school, prefix::CONNECTION, Range::first(CONNECTIONS_MAX)),
            self.store
                .query(&school, prefix::TOOL, Range::first(TOOLS_MAX)),
            self.store.query_in(
                &self.store.config.table,
                &school,
                prefix::KILL,
                Range::first(CONNECTIONS_MAX)
            ),
        )?;
        let kills = kills.iter().filter_map(|item| {
            Some(
                item.get("SK")?
                    .as_s()
                    .ok()?
                    .strip_prefix(prefix::KILL)?
                    .to_owned(),
            )
        });
        Ok(Toolbox {
            connections,
            tools,
            kills: kills.collect(),
        })
    }

    pub async fn connections(&self) -> Result<Vec<ConnectionRow>, StoreError> {
        let school = self.keys().school();
        self.store
            .query(&school, prefix::CONNECTION, Range::first(CONNECTIONS_MAX))
            .await
    }

    /// The connection, its credential, one tool and its kill switches, in one strong read.
    pub async fn target(
        &self,
        connector: &str,
        connection: &ConnectionId,
        tool: &str,
    ) -> Result<Option<Target>, StoreError> {
        let keys = self.keys();
        let row = keys.connection(connector, connection);
        let credential = keys.credential(connection);
        let reviewed = keys.tool(connection, tool);
        let kills = [
            keys.kill("tenant"),
            keys.kill(&format!("type:{connector}")),
            keys.kill(&format!("conn:{connection}")),
        ];
        let mut wanted = vec![row.clone(), credential.clone(), reviewed.clone()];
        wanted.extend(kills.clone());
        let mut items = self.store.batch_get(&wanted).await?;
        let Some(connection) = take(&mut items, &row) else {
            return Ok(None);
        };
        let killed = kills.iter().any(|key| take(&mut items, key).is_some());
        Ok(Some(Target {
            connection: from_item(connection)?,
            credential: take(&mut items, &credential).map(from_item).transpose()?,
            tool: take(&mut items, &reviewed).map(from_item).transpose()?,
            killed,
        }))
    }

    /// The permit for a read: given only if the gate, asked again on rows read just now, says so.
    pub async fn open_read(
        &self,
        catalogue: &Catalogue,
        person: (&UserId, Role),
        call: (&str, &ConnectionId, &str),
        arguments: &Canonical,
    ) -> Result<Opened, OpenError> {
        let (user, role) = person;
        let (connector, connection, tool) = call;
        let target = self
            .target(connector, connection, tool)
            .await?
            .ok_or(OpenError::NotFound)?;
        match target.judge(catalogue, role, user, tool) {
            Verdict::Allow => {}
            Verdict::Ask => return Err(OpenError::NeedsApproval),
            Verdict::Deny(why) => return Err(OpenError::Denied(why)),
        }
        let lease = Duration::from_millis((2 * TOOL_TIMEOUT_MS + SEND_MARGIN_MS).unsigned_abs());
        let permit = Permit::new(Grant {
            tenant: self.tenant.clone(),
            connection: connection.clone(),
            account: target.connection.account.clone(),
            tool: tool.to_owned(),
            arguments: arguments.hash().clone(),
            access: Access::Read,
            attempt: None,
            lease_ends: Instant::now() + lease,
        });
        Ok(Opened { permit, target })
    }

    /// The access token, opened.
    pub async fn access_token(
        &self,
        vault: &Vault,
        connection: &ConnectionRow,
        credential: &CredentialRow,
        now: Millis,
    ) -> Result<SecretString, StoreError> {
        let context = self.credential_context(connection, credential.tok_ver, credential.epoch);
        vault.open(&context, &credential.access, now).await
    }

    fn credential_context<'c>(
        &'c self,
        connection: &'c ConnectionRow,
        version: u64,
        epoch: u64,
    ) -> SealContext<'c> {
        SealContext {
            key: KeyName::Access,
            tenant: Some(self.tenant),
            connection: Some(&connection.connection),
            kind: &connection.connector,
            purpose: "access",
            version,
            epoch,
        }
    }

    /// Stores a connection with its token and reviewed tools, all or nothing. A connection that
    /// exists is replaced only by a later epoch: a change made meanwhile is not undone.
    pub async fn put_connection(
        &self,
        vault: &Vault,
        connection: &ConnectionRow,
        token: &SecretString,
        tools: &[ToolRow],
    ) -> Result<(), StoreError> {
        let keys = self.keys();
        let credential_key = keys.credential(&connection.connection);
        let old: Option<CredentialRow> = self.store.get_row(&credential_key).await?;
        let tok_ver = old.as_ref().map_or(1, |row| row.tok_ver + 1);
        let context = self.credential_context(connection, tok_ver, connection.epoch);
        let credential = CredentialRow {
            connection: connection.connection.clone(),
            tok_ver,
            epoch: connection.epoch,
            access: vault.seal(&context, token).await?,
            access_exp: None,
        };
        let condition = match &old {
            Some(row) => Expression::equals("tok_ver", n(row.tok_ver)),
            None => Expression::absent(),
        };
        let mut transaction = Transaction::new(self.store);
        let row_key = keys.connection(&connection.connector, &connection.connection);
        let none = crate::item::Guard::None;
        let guard = crate::item::Guard::Row;
        let later = Expression::raw(
            "attribute_not_exists(PK) OR epoch < :epoch",
            &[],
            vec![(":epoch", n(connection.epoch))],
        );
        transaction.put(guard, to_item(&row_key, connection)?, Some(later))?;
        transaction.put(
            guard,
            to_item(&credential_key, &credential)?,
            Some(condition),
        )?;
        for tool in tools {
            let key = keys.tool(&tool.connection, &tool.definition.name);
            transaction.put(none, to_item(&key, tool)?, None)?;
        }
        transaction
            .commit()
            .await
            .map_err(crate::item::CommitError::into_store)
    }

    /// Changes a connection's settings; `epoch` must be one above the stored one.
    pub async fn update_connection(&self, connection: &ConnectionRow) -> Result<(), StoreError> {
        let key = self
            .keys()
            .connection(&connection.connector, &connection.connection);
        let condition = Expression::equals("epoch", n(connection.epoch.saturating_sub(1)));
        if self
            .store
            .put(to_item(&key, connection)?, Some(condition))
            .await?
        {
            Ok(())
        } else {
            Err(StoreError::Conflict)
        }
    }

    /// Keeps how a connection's server speaks. Nobody decides by it, so it leaves the epoch as it is
    /// and no claim waits for it. `false`: the connection has changed since it was read, and what was
    /// found out may be about another server.
    pub async fn learn_era(
        &self,
        connection: &ConnectionRow,
        era: Era,
    ) -> Result<bool, StoreError> {
        let key = self
            .keys()
            .connection(&connection.connector, &connection.connection);
        let era: AttributeValue =
            serde_dynamo::to_attribute_value(era).map_err(StoreError::encode)?;
        let update = Expression::raw("SET era = :era", &[], vec![(":era", era)]);
        let same = Expression::equals("epoch", n(connection.epoch))
            .and_equals("account", s(&connection.account));
        let updated = self.store.update(&key, update, same).await?;
        Ok(updated.is_some())
    }

    pub async fn put_tool(&self, tool: &ToolRow) -> Result<(), StoreError> {
        let key = self.keys().tool(&tool.connection, &tool.definition.name);
        self.store.put(to_item(&key, tool)?, None).await.map(drop)
    }

    /// Stops calls in a scope: `tenant`, `type:<key>` or `conn:<id>`.
    pub async fn set_kill(&self, scope: &str, on: bool) -> Result<(), StoreError> {
        let key = self.keys().kill(scope);
        if on {
            return self.store.put(key.attributes(), None).await.map(drop);
        }
        let mut transaction = Transaction::new(self.store);
        transaction.delete(&key)?;
        transaction
            .commit()
            .await
            .map_err(crate::item::CommitError::into_store)
    }
}

fn take(items: &mut Vec<Item>, key: &Key) -> Option<Item> {
    let wanted = key.attributes();
    let index = items.iter().position(|item| {
        wanted
            .iter()
            .all(|(name, value)| item.get(name) == Some(value))
    })?;
    Some(items.swap_remove(index))
}
