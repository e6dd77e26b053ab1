//! The demo workspace of a school: its connection, token, and tools as first seen.

use std::fmt;

use anyhow::Context;
use secrecy::SecretString;
use toshi_connectors::{AccessToken, Guard, Outbound, Target, Tools, ToolsConfig};
use toshi_core::{
    Catalogue, ConnectionId, ConnectionRow, ConnectionStatus, Millis, Role, Sharing, TenantId,
    ToolDefinition, ToolRow, ToolState, WriteMode,
};
use toshi_store::School;

use crate::cloud::Cloud;

const DEMO: &str = "demo";

pub(crate) struct Demo {
    tools: Tools,
}

/// What became of the tools, in words.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Reviewed {
    active: usize,
    withheld: usize,
}

impl fmt::Display for Reviewed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "demo workspace with {} tools", self.active)?;
        if self.withheld > 0 {
            write!(
                f,
                " and {} withheld, which differ from what was reviewed",
                self.withheld
            )?;
        }
        Ok(())
    }
}

impl Demo {
    pub(crate) fn new(front: &str, catalogue: Catalogue) -> anyhow::Result<Self> {
        catalogue
            .get(DEMO)
            .context("the demo connector is not enabled: TOSHI_CONNECTORS must name demo")?;
        let outbound = Outbound::new(Guard::new(true))?;
        let config = ToolsConfig {
            dev: true,
            demo_endpoint: Some(format!("{front}/_sandbox/mcp/{DEMO}")),
        };
        Ok(Self {
            tools: Tools::new(outbound, catalogue, config)?,
        })
    }

    pub(crate) async fn connect(
        &self,
        cloud: &Cloud,
        tenant: &TenantId,
        school_name: &str,
        now: Millis,
    ) -> anyhow::Result<Reviewed> {
        let school = cloud.store.school(tenant);
        let id: ConnectionId = format!("{DEMO}-{tenant}").parse()?;
        let token = SecretString::from(format!("{DEMO}-{tenant}-token"));
        let connections = school.connections().await?;
        let known = connections.into_iter().find(|row| row.connection == id);
        let mut connection = known
            .clone()
            .unwrap_or_else(|| connection(&id, tenant, school_name, now));
        let access = AccessToken {
            version: 1,
            secret: token.clone(),
        };
        let target = Target {
            tenant,
            connection: &connection,
            token: &access,
        };
        let live = self
            .tools
            .list(&target)
            .await
            .map_err(|fault| anyhow::anyhow!("its tools could not be listed: {fault:?}"))?;
        let era = self.tools.learned(&target);
        if known.is_some() {
            if let Some(era) = era {
                school.learn_era(&connection, era).await?;
            }
            return review(&school, &id, live).await;
        }
        connection.era = era;
        let rows: Vec<ToolRow> = live
            .into_iter()
            .map(|definition| row(&id, definition, ToolState::Active))
            .collect::<anyhow::Result<_>>()?;
        school
            .put_connection(&cloud.vault, &connection, &token, &rows)
            .await?;
        Ok(Reviewed {
            active: rows.len(),
            withheld: 0,
        })
    }
}

fn connection(
    id: &ConnectionId,
    tenant: &TenantId,
    school_name: &str,
    now: Millis,
) -> ConnectionRow {
    ConnectionRow {
        connection: id.clone(),
        connector: DEMO.to_owned(),
        status: ConnectionStatus::Active,
        usable: true,
        sharing: Sharing::TenantShared,
        owner: None,
        roles: vec![Role::Admin, Role::Deputy],
        account: format!("{DEMO}:{tenant}"),
        account_name: format!("{school_name} workspace"),
        write_mode: WriteMode::All,
        tool_allowlist: None,
        tool_denylist: Vec::new(),
        epoch: 1,
        connected_at: now,
        era: None,
    }
}

fn row(
    connection: &ConnectionId,
    definition: ToolDefinition,
    state: ToolState,
) -> anyhow::Result<ToolRow> {
    let hash = definition.hash()?;
    Ok(ToolRow {
        connection: connection.clone(),
        definition,
        hash,
        state,
    })
}

/// Compares the live tools with what was reviewed. What was reviewed stays; a tool that differs
/// from it, or that nobody has seen before, is withheld.
async fn review(
    school: &School<'_>,
    connection: &ConnectionId,
    live: Vec<ToolDefinition>,
) -> anyhow::Result<Reviewed> {
    let toolbox = school.toolbox().await?;
    let mut reviewed = Reviewed::default();
    for definition in live {
        let known = toolbox.tool(connection, &definition.name);
        let wanted = judge(connection, known, definition)?;
        match wanted.state {
            ToolState::Active => reviewed.active += 1,
            ToolState::Withheld => reviewed.withheld += 1,
        }
        if known != Some(&wanted) {
            school.put_tool(&wanted).await?;
        }
    }
    Ok(reviewed)
}

fn judge(
    connection: &ConnectionId,
    known: Option<&ToolRow>,
    live: ToolDefinition,
) -> anyhow::Result<ToolRow> {
    let Some(known) = known else {
        return row(connection, live, ToolState::Withheld);
    };
    let state = if known.hash == live.hash()? {
        ToolState::Active
    } else {
        ToolState::Withheld
    };
    Ok(ToolRow {
        state,
        ..known.clone()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn definition(description: &str) -> ToolDefinition {
        ToolDefinition {
            name: "post_message".to_owned(),
            title: None,
            description: Some(description.to_owned()),
            input_schema: [("type".to_owned(), "object".into())].into_iter().collect(),
            annotations: None,
        }
    }

    #[test]
    fn a_changed_tool_is_withheld_and_what_was_reviewed_stays() {
        let id: ConnectionId = "demo-lakeside".parse().unwrap();
        let stored = row(&id, definition("Posts."), ToolState::Active).unwrap();
        let changed = judge(&id, Some(&stored), definition("Posts, and more.")).unwrap();
        assert_eq!(changed.state, ToolState::Withheld);
        assert_eq!(
            (changed.hash.clone(), changed.definition.clone()),
            (stored.hash.clone(), stored.definition.clone())
        );
        // As it was reviewed again: nothing is left to look at.
        let back = judge(&id, Some(&changed), definition("Posts.")).unwrap();
        assert_eq!(back, stored);
    }

    #[test]
    fn a_tool_that_nobody_has_seen_is_withheld() {
        let id: ConnectionId = "demo-lakeside".parse().unwrap();
        let new = judge(&id, None, definition("Posts.")).unwrap();
        assert_eq!(new.state, ToolState::Withheld);
    }
}
