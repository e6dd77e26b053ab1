//! What a measurement runs in: the emulator's tables, the sandbox, a school with its connection.

use std::path::PathBuf;
use std::sync::Arc;

use serde_json::json;
use toshi_agent::{Agent, AgentConfig};
use toshi_connectors::{AccessToken, Target};
use toshi_core::{
    ConnectionRow, ConnectionStatus, Era, Role, Sharing, TenantId, ToolRow, ToolState, WriteMode,
};
use toshi_sandbox::{Options, Sandbox};
use toshi_test_support::{AUDIENCE, Stage, now};

pub(crate) struct World {
    pub(crate) stage: Stage,
    pub(crate) agent: Arc<Agent>,
    pub(crate) tenant: TenantId,
    /// The functions' settings of the outside world, as the template names them.
    pub(crate) settings: Vec<(&'static str, String)>,
    sandbox: Sandbox,
    folder: PathBuf,
}

impl World {
    /// On the emulator at this address; the school trusts the tokens of this issuer.
    pub(crate) async fn new(emulator: &str, issuer: &str) -> Self {
        let folder =
            std::env::temp_dir().join(format!("toshi-bench-{:016x}", rand::random::<u64>()));
        std::fs::create_dir_all(&folder).expect("a folder");
        let options = Options::new(0, folder.clone(), folder.join("web"));
        let sandbox = Sandbox::start(options).await.expect("the sandbox starts");
        let url = format!("http://{}", sandbox.address());
        let client = reqwest::Client::builder().no_proxy().build();
        let set = client
            .expect("a client")
            .put(format!("{url}/_sandbox/switches"))
            .json(&json!({ "llm.delay_ms": 1 }));
        let answer = set.send().await.expect("an answer");
        assert!(answer.status().is_success(), "the switch is set");

        let stage = Stage::at(emulator).await;
        let tenant = stage.school("lakeside", issuer, AUDIENCE).await;
        let secret = "audit key".to_owned().into();
        stage
            .vault
            .set_platform_secret(&stage.store, "hmac", &secret, false)
            .await
            .expect("a secret");
        let settings = vec![
            ("TOSHI_CONNECTORS", "demo".to_owned()),
            ("TOSHI_DEMO_ENDPOINT", format!("{url}/_sandbox/mcp/demo")),
            ("TOSHI_LLM_URL", format!("{url}/_sandbox/llm/v1")),
            ("TOSHI_LLM_MODEL", "scripted".to_owned()),
            ("TOSHI_LLM_KEY", "any".to_owned()),
        ];
        let variable = |name: &'static str| {
            let found = settings.iter().find(|(own, _)| *own == name);
            found.map(|(_, value)| value.clone())
        };
        let agent = AgentConfig::read(variable, true)
            .expect("settings")
            .build(
                stage.store.clone(),
                stage.vault.clone(),
                stage.queue.clone(),
            )
            .expect("an agent");
        let world = Self {
            stage,
            agent: Arc::new(agent),
            tenant,
            settings,
            sandbox,
            folder,
        };
        world.connect().await;
        world
    }

    async fn connect(&self) {
        let row = ConnectionRow {
            connection: "demo-1".parse().expect("an id"),
            connector: "demo".to_owned(),
            status: ConnectionStatus::Active,
            usable: true,
            sharing: Sharing::TenantShared,
            owner: None,
            roles: vec![Role::Admin],
            account: "demo:lakeside".to_owned(),
            account_name: "Lakeside workspace".to_owned(),
            write_mode: WriteMode::All,
            tool_allowlist: None,
            tool_denylist: Vec::new(),
            epoch: 1,
            connected_at: now(),
            era: Some(Era::Handshake),
        };
        let token = AccessToken {
            version: 1,
            secret: "demo-lakeside-token".to_owned().into(),
        };
        let target = Target {
            tenant: &self.tenant,
            connection: &row,
            token: &token,
        };
        let tools = self.agent.tools.list(&target).await.expect("the tools");
        let tools: Vec<ToolRow> = tools
            .into_iter()
            .map(|definition| ToolRow {
                connection: row.connection.clone(),
                hash: definition.hash().expect("a hash"),
                definition,
                state: ToolState::Active,
            })
            .collect();
        let school = self.stage.store.school(&self.tenant);
        let put = school
            .put_connection(&self.stage.vault, &row, &token.secret, &tools)
            .await;
        put.expect("the connection is stored");
    }

    pub(crate) async fn stop(self) {
        self.sandbox.stop().await.expect("the sandbox stops");
        std::fs::remove_dir_all(&self.folder).expect("the folder is removed");
    }
}
