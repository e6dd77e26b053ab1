//! One school, one conversation, one warm agent.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::json;
use toshi_agent::{Agent, AgentConfig, Budget, ChatRequest, Chunk, Posted};
use toshi_connectors::{AccessToken, Target};
use toshi_core::{
    Actor, Answer, Cause, ConnectionRow, ConnectionStatus, ConversationId, Era, Event, How, Role,
    Sharing, TenantId, ToolRow, ToolState, UserId, WriteMode,
};
use toshi_sandbox::{Options, Sandbox};
use toshi_test_support::{Stage, now};

use crate::proxy::{Counted, Proxy};

const ISSUER: &str = "https://issuer.example";

/// One stretch of work: what it called and how long it took.
#[derive(Clone, Debug)]
pub struct Measured {
    pub counted: Counted,
    pub took: Duration,
}

pub struct Scene {
    proxy: Proxy,
    stage: Stage,
    agent: Arc<Agent>,
    tenant: TenantId,
    admin: UserId,
    sandbox: Option<Sandbox>,
    folder: PathBuf,
    messages: u32,
}

impl Scene {
    pub async fn new() -> Self {
        let proxy = Proxy::before(&toshi_test_support::endpoint()).await;
        let folder =
            std::env::temp_dir().join(format!("toshi-bench-{:016x}", rand::random::<u64>()));
        std::fs::create_dir_all(&folder).expect("a folder");
        let options = Options::new(0, folder.clone(), folder.join("web"));
        let sandbox = Sandbox::start(options).await.expect("the sandbox starts");
        let url = format!("http://{}", sandbox.address());
        let switches = reqwest::Client::builder()
            .no_proxy()
            .build()
            .expect("a client");
        let set = switches.put(format!("{url}/_sandbox/switches"));
        let answer = set
            .json(&json!({ "llm.delay_ms": 1 }))
            .send()
            .await
            .expect("an answer");
        assert!(answer.status().is_success(), "the switch is set");

        let stage = Stage::at(&proxy.url).await;
        let tenant = stage.school("lakeside", ISSUER, "api").await;
        let admin = stage
            .person(&tenant, ISSUER, "lakeside-admin", Role::Admin)
            .await;
        let secret = "audit key".to_owned().into();
        stage
            .vault
            .set_platform_secret(&stage.store, "hmac", &secret, false)
            .await
            .expect("a secret");
        let demo = format!("{url}/_sandbox/mcp/demo");
        let model = format!("{url}/_sandbox/llm/v1");
        let variable = |name: &'static str| match name {
            "TOSHI_CONNECTORS" => Some("demo".to_owned()),
            "TOSHI_DEMO_ENDPOINT" => Some(demo.clone()),
            "TOSHI_LLM_URL" => Some(model.clone()),
            "TOSHI_LLM_MODEL" => Some("scripted".to_owned()),
            "TOSHI_LLM_KEY" => Some("any".to_owned()),
            _ => None,
        };
        let agent = AgentConfig::read(variable, true)
            .expect("settings")
            .build(
                stage.store.clone(),
                stage.vault.clone(),
                stage.queue.clone(),
            )
            .expect("an agent");
        let scene = Self {
            proxy,
            stage,
            agent: Arc::new(agent),
            tenant,
            admin,
            sandbox: Some(sandbox),
            folder,
            messages: 0,
        };
        scene.connect().await;
        scene
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

    fn budget() -> Budget {
        Budget::until(now().plus(300_000))
    }

    fn conversation(&self) -> ConversationId {
        ConversationId::of(&self.admin, &"bench-main".parse().expect("an id"))
    }

    /// Sends a message in the one conversation and reads its stream to the end.
    pub async fn say(&mut self, text: &str) -> Measured {
        self.messages += 1;
        let body = json!({
            "id": "bench-main",
            "trigger": "submit-message",
            "messages": [{
                "id": format!("m{}", self.messages),
                "role": "user",
                "parts": [{ "type": "text", "text": text }],
            }],
        });
        let request = ChatRequest {
            tenant: self.tenant.clone(),
            user: self.admin.clone(),
            posted: Posted::parse(&body).expect("a request"),
            request: None,
            budget: Self::budget(),
        };
        self.proxy.take();
        let began = Instant::now();
        let mut stream = self.agent.chat(request).await.expect("a stream");
        let mut failed = None;
        while let Some(chunk) = stream.recv().await {
            if let Chunk::Error { error_text } = chunk {
                failed = Some(error_text);
            }
        }
        assert_eq!(failed, None, "{text}");
        Measured {
            counted: self.proxy.take(),
            took: began.elapsed(),
        }
    }

    /// Approves the open question, as the HTTP function does.
    pub async fn approve(&self) -> Measured {
        let school = self.stage.store.school(&self.tenant);
        let open = school
            .open_approvals(&self.admin, 1)
            .await
            .expect("the open questions");
        let row = open
            .first()
            .unwrap_or_else(|| panic!("there is an open question"));
        self.proxy.take();
        let began = Instant::now();
        let actor = Actor::User {
            id: self.admin.clone(),
            name: "Lakeside admin".to_owned(),
            role: Role::Admin,
        };
        let cause = Cause {
            actor,
            how: How::Web,
            request: None,
        };
        let event = Event::Decide {
            answer: Answer::Approve,
            reason: None,
        };
        school
            .transition(row, event, &cause, now())
            .await
            .expect("the decision");
        Measured {
            counted: self.proxy.take(),
            took: began.elapsed(),
        }
    }

    /// What the worker does after a hint.
    pub async fn work(&self) -> Measured {
        self.proxy.take();
        let began = Instant::now();
        let tenant = &self.tenant;
        let conversation = self.conversation();
        let budget = Self::budget();
        self.agent
            .run(tenant, &conversation, budget)
            .await
            .expect("the run");
        Measured {
            counted: self.proxy.take(),
            took: began.elapsed(),
        }
    }

    pub async fn stop(mut self) {
        if let Some(sandbox) = self.sandbox.take() {
            sandbox.stop().await.expect("the sandbox stops");
        }
        std::fs::remove_dir_all(&self.folder).expect("the folder is removed");
    }
}
