//! The gate: is a call a read, a write that a person must approve, or not possible at all?

use serde::{Deserialize, Serialize};

use crate::approval::BlockReason;
use crate::catalogue::{Catalogue, Connector, Mode, Sharing};
use crate::era::Era;
use crate::{ConnectionId, Millis, Role, Sha256Hex, ToolDefinition, UserId};

/// What the gate says of a call. Ordered: of several rules the strictest wins.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verdict {
    /// A read: run it now.
    Allow,
    /// A write: ask a person first.
    Ask,
    /// Not executable.
    Deny(BlockReason),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Access {
    Read,
    Write,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WriteMode {
    /// No write is even offered. The default.
    Deny,
    /// Writes in `tool_allowlist`.
    Allowlist,
    All,
}

/// A connection's life. Only `usable` ones are called.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ConnectionStatus {
    Pending,
    Active,
    Degraded,
    NeedsReauth,
    NeedsScope,
    Disabled,
    Disconnected,
    AppError,
}

/// One tenant's link to one provider account. Holds no secret.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ConnectionRow {
    pub connection: ConnectionId,
    /// The catalogue key of its type.
    pub connector: String,
    pub status: ConnectionStatus,
    /// Kept by each status change, so that one condition decides in every transaction.
    pub usable: bool,
    pub sharing: Sharing,
    /// The person it belongs to, where it is not the school's.
    pub owner: Option<UserId>,
    pub roles: Vec<Role>,
    /// The provider account's stable fingerprint: approvals are bound to it.
    pub account: String,
    /// The account as people know it.
    pub account_name: String,
    pub write_mode: WriteMode,
    /// What the connection is narrowed to; an empty list allows nothing.
    #[serde(default)]
    pub tool_allowlist: Option<Vec<String>>,
    #[serde(default)]
    pub tool_denylist: Vec<String>,
    /// Bumped by each change of account, lists, roles, write mode or status.
    pub epoch: u64,
    pub connected_at: Millis,
    /// How its server speaks, once that was found out. It says how to ask and never what may be
    /// done, so it is no part of the epoch or of a claim.
    #[serde(default)]
    pub era: Option<Era>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ToolState {
    Active,
    /// Its definition differs from the reviewed one; waits for an admin.
    Withheld,
}

/// A tool as it was reviewed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ToolRow {
    pub connection: ConnectionId,
    pub definition: ToolDefinition,
    /// The reviewed definition's hash.
    pub hash: Sha256Hex,
    pub state: ToolState,
}

/// Judges calls for one person on one connection.
#[derive(Clone, Copy, Debug)]
pub struct Gate<'a> {
    connector: Option<&'a Connector>,
    connection: &'a ConnectionRow,
    role: Role,
    user: &'a UserId,
    killed: bool,
}

impl<'a> Gate<'a> {
    pub fn new(
        catalogue: &'a Catalogue,
        connection: &'a ConnectionRow,
        role: Role,
        user: &'a UserId,
        killed: bool,
    ) -> Self {
        let connector = catalogue.get(&connection.connector);
        Self {
            connector,
            connection,
            role,
            user,
            killed,
        }
    }

    /// The strictest of all rules:
    ///
    /// 1. a type that is unknown or off, a kill switch, an unusable connection, a foreign owner or
    ///    role: no call at all;
    /// 2. the deny list, then an allow list that does not name the tool;
    /// 3. a tool that nobody reviewed, or whose definition is not the reviewed one;
    /// 4. read or write by the catalogue's mode; a listed read that calls itself destructive is a
    ///    write; a server's other hints count for nothing;
    /// 5. writes only where the connection's write mode and the person's role allow them.
    pub fn judge(&self, tool: &str, row: Option<&ToolRow>) -> Verdict {
        [
            self.connection_rule(),
            self.list_rule(tool),
            self.pin_rule(tool, row),
            self.write_rule(tool, row),
        ]
        .into_iter()
        .max()
        .unwrap_or(Verdict::Deny(BlockReason::UnknownConnector))
    }

    /// Whether the person may read on in what the tool answered before. Nothing is called, so it
    /// does not matter if that was a read or a write; but who may no longer use the connection or
    /// the tool is shown no more of it.
    pub fn judge_kept(&self, tool: &str) -> Verdict {
        self.connection_rule().max(self.list_rule(tool))
    }

    /// Whether the catalogue counts the call as a write. Unknown names are writes.
    pub fn access(&self, tool: &str, row: Option<&ToolRow>) -> Access {
        let Some(connector) = self.connector else {
            return Access::Write;
        };
        let listed = |tools: &[String]| tools.iter().any(|name| name == tool);
        let read = match connector.mode {
            Mode::Deny => false,
            Mode::Classify => listed(&connector.read_tools),
            Mode::Allowlist => connector.trusted && !listed(&connector.write_tools),
        };
        let destructive = row.is_some_and(|row| row.definition.says_destructive());
        if read && !destructive {
            Access::Read
        } else {
            Access::Write
        }
    }

    fn connection_rule(&self) -> Verdict {
        if self.connector.is_none() {
            return Verdict::Deny(BlockReason::UnknownConnector);
        }
        if self.killed {
            return Verdict::Deny(BlockReason::Killed);
        }
        if !self.connection.usable {
            return Verdict::Deny(BlockReason::ConnectionUnusable);
        }
        let owner_fits = match (&self.connection.owner, self.connection.sharing) {
            (Some(owner), Sharing::TenantShared | Sharing::PerUser) => owner == self.user,
            (None, Sharing::TenantShared) => true,
            (None, Sharing::PerUser) => false,
        };
        if !owner_fits || !self.connection.roles.contains(&self.role) {
            return Verdict::Deny(BlockReason::Role);
        }
        Verdict::Allow
    }

    fn list_rule(&self, tool: &str) -> Verdict {
        let listed = |tools: &[String]| tools.iter().any(|name| name == tool);
        if listed(&self.connection.tool_denylist) {
            return Verdict::Deny(BlockReason::DenyList);
        }
        match &self.connection.tool_allowlist {
            Some(allowed) if !listed(allowed) => Verdict::Deny(BlockReason::AllowList),
            Some(_) | None => Verdict::Allow,
        }
    }

    fn write_rule(&self, tool: &str, row: Option<&ToolRow>) -> Verdict {
        match self.access(tool, row) {
            Access::Read => Verdict::Allow,
            Access::Write if !self.role.may_write() => Verdict::Deny(BlockReason::Role),
            Access::Write => match self.connection.write_mode {
                WriteMode::Deny => Verdict::Deny(BlockReason::WriteMode),
                // The list itself is looked at by its own rule.
                WriteMode::Allowlist if self.connection.tool_allowlist.is_none() => {
                    Verdict::Deny(BlockReason::WriteMode)
                }
                WriteMode::Allowlist | WriteMode::All => Verdict::Ask,
            },
        }
    }

    fn pin_rule(&self, tool: &str, row: Option<&ToolRow>) -> Verdict {
        // A review of another tool, or of the same name elsewhere, is no review of this one.
        let reviewed = row.filter(|row| {
            row.definition.name == tool && row.connection == self.connection.connection
        });
        let Some(row) = reviewed else {
            return Verdict::Deny(BlockReason::NotReviewed);
        };
        let pinned = self
            .connector
            .and_then(|connector| connector.tools.get(tool)?.pin.as_ref())
            .is_none_or(|pin| *pin == row.hash);
        match row.state {
            ToolState::Active if pinned => Verdict::Allow,
            ToolState::Active | ToolState::Withheld => {
                Verdict::Deny(BlockReason::DefinitionChanged)
            }
        }
    }
}

#[cfg(test)]
#[path = "gate_tests.rs"]
mod tests;
