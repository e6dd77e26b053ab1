//! One school whose only connection is the suite's server.

use anyhow::{Context, bail};
use secrecy::SecretString;
use serde_json::Value;
use toshi_connectors::{AccessToken, Target, Tools, settle};
use toshi_core::{
    Access, Actor, Answer, Canonical, Cause, ConnectionRow, ConnectionStatus, Era, Event, How,
    Outcome, Role, Sharing, TenantId, ToolDefinition, ToolRow, ToolState, UserId, WriteMode,
};
use toshi_test_support::{Question, Stage, now};

const SETTLE_MS: i64 = 10_000;

pub(crate) struct School {
    stage: Stage,
    tools: Tools,
    tenant: TenantId,
    admin: UserId,
    row: ConnectionRow,
    token: AccessToken,
}

impl School {
    pub(crate) async fn connect(tools: Tools) -> anyhow::Result<Self> {
        let stage = Stage::new().await;
        let issuer = "https://issuer.example";
        let tenant = stage.school("conformance", issuer, "conformance").await;
        let admin = stage.person(&tenant, issuer, "ann", Role::Admin).await;
        let row = ConnectionRow {
            connection: "demo-connection".parse()?,
            connector: "demo".to_owned(),
            status: ConnectionStatus::Active,
            usable: true,
            sharing: Sharing::TenantShared,
            owner: None,
            roles: vec![Role::Admin],
            account: "demo:account".to_owned(),
            account_name: "The suite's server".to_owned(),
            write_mode: WriteMode::All,
            tool_allowlist: None,
            tool_denylist: Vec::new(),
            epoch: 1,
            connected_at: now(),
            era: None,
        };
        let token = AccessToken {
            version: 1,
            secret: SecretString::from("suite-token"),
        };
        let school = stage.store.school(&tenant);
        school
            .put_connection(&stage.vault, &row, &token.secret, &[])
            .await?;
        Ok(Self {
            stage,
            tools,
            tenant,
            admin,
            row,
            token,
        })
    }

    fn target(&self) -> Target<'_> {
        Target {
            tenant: &self.tenant,
            connection: &self.row,
            token: &self.token,
        }
    }

    pub(crate) fn learned(&self) -> Option<Era> {
        self.tools.learned(&self.target())
    }

    /// The server's tools, each taken as reviewed.
    pub(crate) async fn list(&self) -> anyhow::Result<Vec<ToolDefinition>> {
        let listed = self.tools.list(&self.target()).await;
        let Ok(listed) = listed else {
            bail!("the tools could not be listed: {listed:?}");
        };
        for definition in &listed {
            let tool = ToolRow {
                connection: self.row.connection.clone(),
                definition: definition.clone(),
                hash: definition.hash()?,
                state: ToolState::Active,
            };
            self.stage
                .store
                .school(&self.tenant)
                .put_tool(&tool)
                .await?;
        }
        Ok(listed)
    }

    /// One call from the question to its end. Every tool here counts as a write.
    pub(crate) async fn call(
        &self,
        listed: &[ToolDefinition],
        tool: &str,
        arguments: &Value,
    ) -> anyhow::Result<Outcome> {
        let school = self.stage.store.school(&self.tenant);
        let reviewed = listed.iter().find(|listed| listed.name == tool);
        let definition = reviewed.context("a wanted tool is not listed")?.hash()?;
        let question = Question {
            conversation: format!("chat-{:016x}", now().as_epoch()),
            arguments: arguments.clone(),
            ..Question::of(self.admin.as_str())
        };
        let asked = self
            .stage
            .ask_changed(&self.tenant, &question, |row| {
                row.tool = tool.to_owned();
                row.tool_title = tool.to_owned();
                row.definition = definition;
            })
            .await;
        let yes = Event::Decide {
            answer: Answer::Approve,
            reason: None,
        };
        let approved = school
            .transition(&asked.approval, yes, &self.person(), now())
            .await
            .map_err(|error| anyhow::anyhow!("the answer was refused: {error:?}"))?;

        // As a runner does it: the check, the claim, the call, its end.
        let prepared = self.tools.prepare(&self.target(), tool).await;
        let prepared = prepared.map_err(|fault| anyhow::anyhow!("the check failed: {fault:?}"))?;
        let (connector, connection) = (&self.row.connector, &self.row.connection);
        let target = school.target(connector, connection, tool).await?;
        let target = target.context("the connection is gone")?;
        let catalogue = self.tools.catalogue();
        let claim = school
            .claim(catalogue, Role::Admin, &approved, &target, now())
            .await
            .map_err(|refusal| anyhow::anyhow!("the claim was refused: {refusal:?}"))?;
        let attempt = claim.permit.attempt().context("a write has an attempt")?.1;
        let arguments: &Canonical = &claim.row.arguments;
        let report = self.tools.call(prepared, claim.permit, arguments).await;
        let outcome = settle(report.result, Access::Write);
        let until = now().plus(SETTLE_MS);
        school
            .settle(&claim.row, attempt, outcome.clone(), "", now, until)
            .await
            .map_err(|error| anyhow::anyhow!("the outcome was not kept: {error:?}"))?;
        Ok(outcome)
    }

    fn person(&self) -> Cause {
        Cause {
            actor: Actor::User {
                id: self.admin.clone(),
                name: "Ann".to_owned(),
                role: Role::Admin,
            },
            how: How::Web,
            request: None,
        }
    }
}
