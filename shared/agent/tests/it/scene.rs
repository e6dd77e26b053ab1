//! A school with an admin and the demo connection, a sandbox of its own, and an agent.

use std::path::PathBuf;
use std::sync::Arc;

use aws_sdk_dynamodb::types::AttributeValue;
use serde_json::{Value, json};
use toshi_agent::{
    Agent, AgentConfig, Budget, ChatError, ChatRequest, ChatStream, Posted, RunEnd, RunError,
};
use toshi_connectors::{AccessToken, Target};
use toshi_core::{
    Actor, Answer, Approval, ApprovalId, Cause, ConnectionRow, ConnectionStatus, ConversationId,
    Era, Event, How, Millis, Role, Seal, Sharing, State, Subject, TenantId, ToolRow, ToolState,
    TurnId, TurnRow, UserId, WriteMode, verify_chain,
};
use toshi_sandbox::{Options, Sandbox};
use toshi_store::{Due, SHARDS, School, TransitionError};
use toshi_test_support::{Stage, now};

use crate::strict::{self, Screen};

pub(crate) const CHAT: &str = "chat-main";
const ISSUER: &str = "https://issuer.example";

/// A folder that is removed with its owner.
struct Folder(PathBuf);

impl Drop for Folder {
    fn drop(&mut self) {
        _ = std::fs::remove_dir_all(&self.0);
    }
}

pub(crate) struct Scene {
    pub(crate) stage: Stage,
    pub(crate) agent: Arc<Agent>,
    pub(crate) tenant: TenantId,
    pub(crate) admin: UserId,
    pub(crate) url: String,
    http: reqwest::Client,
    wanted: Wanted,
    mcp: Option<String>,
    sandbox: Option<Sandbox>,
    folder: Folder,
}

/// What a test may want otherwise than usual.
#[derive(Default)]
pub(crate) struct Wanted {
    /// Another model than the sandbox's.
    pub(crate) model: Option<String>,
    /// Seconds that a question waits.
    pub(crate) approval_ttl: Option<i64>,
    /// No key for the model.
    pub(crate) no_key: bool,
    /// Tables in this process.
    pub(crate) dynoxide: bool,
}

impl Scene {
    pub(crate) async fn new() -> Self {
        Self::with(Wanted::default()).await
    }

    pub(crate) async fn with(wanted: Wanted) -> Self {
        let folder =
            std::env::temp_dir().join(format!("toshi-agent-{:016x}", rand::random::<u64>()));
        let folder = Folder(folder);
        let sandbox = sandbox(&folder, 0).await;
        let url = format!("http://{}", sandbox.address());
        let stage = if wanted.dynoxide {
            Stage::on_dynoxide().await
        } else {
            Stage::new().await
        };
        let tenant = stage.school("lakeside", ISSUER, "api").await;
        let admin = stage
            .person(&tenant, ISSUER, "lakeside-admin", Role::Admin)
            .await;
        let secret = "audit key".to_owned().into();
        stage
            .vault
            .set_platform_secret(&stage.store, "hmac", &secret, false)
            .await
            .unwrap();
        let agent = build(&stage, &url, &wanted, None);
        let scene = Self {
            stage,
            agent,
            tenant,
            admin,
            url,
            http: reqwest::Client::builder().no_proxy().build().unwrap(),
            wanted,
            mcp: None,
            sandbox: Some(sandbox),
            folder,
        };
        scene.switch("llm.delay_ms", json!(1)).await;
        scene.connect().await;
        scene
    }

    /// The demo connection with its tools as they are now.
    async fn connect(&self) {
        let row = ConnectionRow {
            connection: "demo-1".parse().unwrap(),
            connector: "demo".to_owned(),
            status: ConnectionStatus::Active,
            usable: true,
            sharing: Sharing::TenantShared,
            owner: None,
            roles: vec![Role::Admin, Role::Deputy],
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
        let tools = self.agent.tools.list(&target).await.unwrap();
        let tools: Vec<ToolRow> = tools
            .into_iter()
            .map(|definition| ToolRow {
                connection: row.connection.clone(),
                hash: definition.hash().unwrap(),
                definition,
                state: ToolState::Active,
            })
            .collect();
        let school = self.school();
        school
            .put_connection(&self.stage.vault, &row, &token.secret, &tools)
            .await
            .unwrap();
    }

    pub(crate) fn school(&self) -> School<'_> {
        self.stage.store.school(&self.tenant)
    }

    /// A process of its own: nothing is shared with the others but the tables.
    pub(crate) fn another_agent(&self) -> Arc<Agent> {
        build(&self.stage, &self.url, &self.wanted, self.mcp.as_deref())
    }

    /// The same, with its way to the MCP server through another address.
    pub(crate) fn reach_tools_through(&mut self, address: &str) {
        self.mcp = Some(format!("{address}/_sandbox/mcp/demo"));
        self.agent = self.another_agent();
    }

    /// Everything but the tables and the workspace's own data starts anew.
    pub(crate) async fn restart(&mut self) {
        let old = self.sandbox.take().unwrap();
        let port = old.address().port();
        old.stop().await.unwrap();
        self.sandbox = Some(sandbox(&self.folder, port).await);
        self.agent = self.another_agent();
    }

    pub(crate) async fn switch(&self, name: &str, value: Value) {
        let url = format!("{}/_sandbox/switches", self.url);
        let response = self
            .http
            .put(url)
            .json(&json!({ name: value }))
            .send()
            .await
            .unwrap();
        assert_eq!(response.status(), 200, "{name}");
    }

    async fn get(&self, path: &str) -> Value {
        let response = self
            .http
            .get(format!("{}{path}", self.url))
            .send()
            .await
            .unwrap();
        response.json().await.unwrap()
    }

    /// The calls of one tool that took effect at the server.
    pub(crate) async fn calls(&self, tool: &str) -> Vec<Value> {
        let calls = self.get("/_sandbox/mcp/calls").await;
        let calls = calls
            .as_array()
            .unwrap()
            .iter()
            .filter(|call| call["tool"] == tool);
        calls.map(|call| call["arguments"].clone()).collect()
    }

    pub(crate) async fn posts(&self) -> Vec<Value> {
        self.calls("post_message").await
    }

    /// What the model was asked, oldest first.
    pub(crate) async fn prompts(&self) -> Vec<Value> {
        self.get("/_sandbox/llm/requests")
            .await
            .as_array()
            .unwrap()
            .clone()
    }

    /// The results that the model was shown in its last prompt.
    pub(crate) async fn told(&self) -> Vec<String> {
        let prompts = self.prompts().await;
        let messages = prompts.last().unwrap()["messages"].as_array().unwrap();
        let results = messages.iter().filter(|message| message["role"] == "tool");
        results
            .map(|message| message["content"].as_str().unwrap().to_owned())
            .collect()
    }

    // What a client posts.

    pub(crate) async fn post(&self, body: Value) -> Result<Vec<Value>, ChatError> {
        self.post_as(&self.admin, body).await
    }

    pub(crate) async fn post_as(
        &self,
        user: &UserId,
        body: Value,
    ) -> Result<Vec<Value>, ChatError> {
        Ok(all(self.open_as(user, body).await?).await)
    }

    /// The stream itself, unread.
    pub(crate) async fn open(&self, body: Value) -> Result<ChatStream, ChatError> {
        self.open_as(&self.admin, body).await
    }

    async fn open_as(&self, user: &UserId, body: Value) -> Result<ChatStream, ChatError> {
        let request = ChatRequest {
            tenant: self.tenant.clone(),
            user: user.clone(),
            posted: Posted::parse(&body).unwrap(),
            request: None,
            budget: budget(),
        };
        // On the heap: a test that says many things would hold each of them on its stack.
        Box::pin(self.agent.chat(request)).await
    }

    /// Says something in the usual conversation and looks at the answer.
    pub(crate) async fn say(&self, text: &str) -> Screen {
        Screen::of(&self.post(message(&fresh_id(), text)).await.unwrap())
    }

    /// So many exchanges; by themselves they would meet the limit of messages a minute.
    pub(crate) async fn say_hello(&self, times: u32) {
        for n in 0..times {
            let school = self.school();
            let meta = school.meta(&self.conversation()).await.unwrap();
            let new = toshi_store::NewMessage {
                conversation: self.conversation(),
                client_id: CHAT.parse().unwrap(),
                user: self.admin.clone(),
                message: toshi_store::UserMessage {
                    id: format!("hello-{n}").parse().unwrap(),
                    text: "hello".to_owned(),
                    replaces_from: None,
                    again: false,
                },
            };
            school.begin(&new, meta, now()).await.unwrap();
            self.lose_lease().await;
            self.work().await;
        }
    }

    pub(crate) async fn say_as(&self, user: &UserId, text: &str) -> Screen {
        Screen::of(
            &self
                .post_as(user, message(&fresh_id(), text))
                .await
                .unwrap(),
        )
    }

    /// Answers cards in the chat, as the AI SDK's client does, and looks at what comes.
    pub(crate) async fn answer(
        &self,
        screen: &mut Screen,
        answers: &[(ApprovalId, bool)],
    ) -> Vec<Value> {
        for (id, approved) in answers {
            screen.answer(&id.to_string(), *approved, None);
        }
        let chunks = self.post(continued(screen)).await.unwrap();
        *screen = std::mem::take(screen).after(&chunks);
        assert!(!screen.would_send_again(), "an endless loop: {chunks:#?}");
        chunks
    }

    // What the other functions do.

    /// `POST /v1/approvals/{id}/decision`: commits, and nothing else.
    pub(crate) async fn decide(
        &self,
        id: ApprovalId,
        answer: Answer,
        reason: Option<&str>,
    ) -> Result<Approval, TransitionError> {
        let row = self.approval(id).await;
        let event = Event::Decide {
            answer,
            reason: reason.map(ToOwned::to_owned),
        };
        self.school()
            .transition(&row, event, &self.by_admin(), now())
            .await
    }

    pub(crate) async fn approve(&self, id: ApprovalId) -> Approval {
        self.decide(id, Answer::Approve, None).await.unwrap()
    }

    pub(crate) async fn reject(&self, id: ApprovalId, reason: &str) -> Approval {
        self.decide(id, Answer::Reject, Some(reason)).await.unwrap()
    }

    pub(crate) async fn resolve(&self, id: ApprovalId, done: bool) -> Approval {
        let row = self.approval(id).await;
        let event = Event::Resolve {
            done,
            reason: "I looked".to_owned(),
        };
        self.school()
            .transition(&row, event, &self.by_admin(), now())
            .await
            .unwrap()
    }

    fn by_admin(&self) -> Cause {
        let actor = Actor::User {
            id: self.admin.clone(),
            name: "The admin".to_owned(),
            role: Role::Admin,
        };
        Cause {
            actor,
            how: How::Web,
            request: None,
        }
    }

    /// What the worker does with one hint.
    pub(crate) async fn work(&self) -> RunEnd {
        work(&self.agent, &self.tenant, &self.conversation())
            .await
            .unwrap()
    }

    /// What the sweep does for approvals whose time has run out.
    pub(crate) async fn sweep(&self, id: ApprovalId, at: Millis) {
        let row = self.approval(id).await;
        let event = if row.state == State::Executing {
            Event::Abandon
        } else {
            Event::Expire
        };
        self.school()
            .transition(&row, event, &Cause::system(), at)
            .await
            .unwrap();
    }

    /// Everything that the sweep index names at that time.
    pub(crate) async fn due(&self, at: Millis) -> Vec<Due> {
        let mut due = Vec::new();
        for shard in 0..SHARDS {
            due.extend(self.stage.store.due(shard, at, 100).await.unwrap());
        }
        due
    }

    /// The runner died: its lease runs out.
    pub(crate) async fn lose_lease(&self) {
        let key = |name: &str, value: String| (name.to_owned(), AttributeValue::S(value));
        let pk = format!("T#{}#C#{}", self.tenant, self.conversation());
        let update = self.stage.db.update_item().table_name(&self.stage.table);
        let update = update
            .set_key(Some([key("PK", pk), key("SK", "META".to_owned())].into()))
            .update_expression("SET lease_until = :past")
            .condition_expression("attribute_exists(lease_until)")
            .expression_attribute_values(":past", AttributeValue::N("1".to_owned()));
        match update.send().await {
            Ok(_) => {}
            Err(error) => {
                let free = error
                    .into_service_error()
                    .is_conditional_check_failed_exception();
                assert!(free, "the lease cannot be ended");
            }
        }
    }

    // What is stored.

    pub(crate) fn conversation(&self) -> ConversationId {
        ConversationId::of(&self.admin, &CHAT.parse().unwrap())
    }

    pub(crate) async fn approval(&self, id: ApprovalId) -> Approval {
        self.school().approval(id).await.unwrap().unwrap()
    }

    pub(crate) async fn state(&self, id: ApprovalId) -> State {
        self.approval(id).await.state
    }

    /// The open questions, in the order in which they were asked.
    pub(crate) async fn pending(&self) -> Vec<ApprovalId> {
        let rows = self
            .school()
            .open_approvals(&self.admin, 100)
            .await
            .unwrap();
        let mut ids: Vec<ApprovalId> = rows.iter().map(|row| row.approval_id).collect();
        ids.sort();
        ids
    }

    pub(crate) async fn one_pending(&self) -> ApprovalId {
        let pending = self.pending().await;
        assert_eq!(pending.len(), 1, "{pending:?}");
        pending[0]
    }

    /// The conversation as a page loads it.
    pub(crate) async fn messages(&self) -> Vec<Value> {
        let page = self
            .agent
            .messages(&self.tenant, &self.conversation(), None, 50)
            .await;
        page.unwrap().unwrap().items
    }

    /// The last message of the assistant as a page loads it.
    pub(crate) async fn last_answer(&self) -> Value {
        let messages = self.messages().await;
        messages
            .into_iter()
            .rfind(|message| message["role"] == "assistant")
            .unwrap()
    }

    pub(crate) async fn last_text(&self) -> String {
        texts(&self.last_answer().await)
    }

    pub(crate) async fn turns(&self) -> Vec<TurnRow> {
        let history = self.school().history(&self.conversation()).await.unwrap();
        let mut ids: Vec<TurnId> = history.messages.iter().map(|row| row.turn).collect();
        ids.sort();
        ids.dedup();
        let mut turns = Vec::new();
        for id in ids {
            turns.push(
                self.school()
                    .turn(&self.conversation(), id)
                    .await
                    .unwrap()
                    .unwrap(),
            );
        }
        turns
    }

    /// Nobody holds the conversation, nothing in it waits to be done, and every chain of records
    /// reaches its row.
    pub(crate) async fn assert_at_rest(&self) {
        let meta = self
            .school()
            .meta(&self.conversation())
            .await
            .unwrap()
            .unwrap();
        assert_eq!(meta.lease_until, None);
        let running = self
            .agent
            .running(&self.tenant, &self.conversation())
            .await
            .unwrap();
        assert_eq!(running, None);
        for turn in self.turns().await {
            assert_eq!(meta.open.contains(&turn.turn), !turn.is_done(), "{turn:?}");
        }
        self.assert_audited().await;
    }

    pub(crate) async fn assert_audited(&self) {
        for row in self
            .school()
            .recent_approvals(None, 100)
            .await
            .unwrap()
            .items
        {
            let subject = Subject::Approval(row.approval_id);
            let records = self.school().audit_of(subject).await.unwrap();
            assert_eq!(records.len() as u64, row.seq);
            let seal = Seal {
                seq: row.seq,
                head: row.head,
            };
            verify_chain(&subject.to_string(), &records, Some(&seal)).unwrap();
        }
        for turn in self.turns().await {
            let subject = Subject::Turn(turn.turn);
            let records = self.school().audit_of(subject).await.unwrap();
            let seal = turn.head.map(|head| Seal {
                seq: turn.seq,
                head,
            });
            verify_chain(&subject.to_string(), &records, seal.as_ref()).unwrap();
        }
    }
}

pub(crate) async fn work(
    agent: &Agent,
    tenant: &TenantId,
    conversation: &ConversationId,
) -> Result<RunEnd, RunError> {
    let run = agent.run(tenant, conversation, budget());
    Box::pin(run).await
}

/// A whole invocation.
pub(crate) fn budget() -> Budget {
    Budget::until(now().plus(290_000))
}

/// Everything that a stream tells.
pub(crate) async fn all(mut stream: ChatStream) -> Vec<Value> {
    let mut chunks = Vec::new();
    while let Some(chunk) = stream.recv().await {
        chunks.push(strict::read(&chunk.to_event()));
    }
    chunks
}

pub(crate) fn fresh_id() -> String {
    format!("m-{:016x}", rand::random::<u64>())
}

/// The body of a new message.
pub(crate) fn message(id: &str, text: &str) -> Value {
    json!({
        "id": CHAT,
        "messages": [{ "id": id, "role": "user", "parts": [{ "type": "text", "text": text }] }],
        "trigger": "submit-message",
    })
}

/// The body of the re-send after an answer on a card.
pub(crate) fn continued(screen: &Screen) -> Value {
    json!({
        "id": CHAT,
        "messages": [{ "id": screen.id, "role": "assistant", "parts": screen.parts }],
        "trigger": "submit-message",
        "messageId": screen.id,
    })
}

/// All words of a stored message.
pub(crate) fn texts(message: &Value) -> String {
    let parts = message["parts"].as_array().unwrap().iter();
    parts
        .filter_map(|part| part["text"].as_str())
        .collect::<Vec<_>>()
        .join("\n")
}

async fn sandbox(folder: &Folder, port: u16) -> Sandbox {
    Sandbox::start(Options::new(port, &folder.0, folder.0.join("web")))
        .await
        .unwrap()
}

fn build(stage: &Stage, url: &str, wanted: &Wanted, mcp: Option<&str>) -> Arc<Agent> {
    let Wanted {
        model,
        approval_ttl,
        no_key,
        dynoxide: _,
    } = wanted;
    let sandbox = |path: &str| format!("{url}/_sandbox/{path}");
    let variable = |name: &'static str| match name {
        "TOSHI_LLM_URL" => Some(model.clone().unwrap_or_else(|| sandbox("llm/v1"))),
        "TOSHI_LLM_MODEL" => Some("scripted".to_owned()),
        "TOSHI_LLM_KEY" => (!no_key).then(|| "sandbox".to_owned()),
        "TOSHI_CONNECTORS" => Some("demo".to_owned()),
        "TOSHI_DEMO_ENDPOINT" => Some(mcp.map_or_else(|| sandbox("mcp/demo"), ToOwned::to_owned)),
        "TOSHI_APPROVAL_TTL" => approval_ttl.map(|seconds| seconds.to_string()),
        _ => None,
    };
    let config = AgentConfig::read(variable, true).unwrap();
    let (store, vault, queue) = (
        stage.store.clone(),
        stage.vault.clone(),
        stage.queue.clone(),
    );
    Arc::new(config.build(store, vault, queue).unwrap())
}
