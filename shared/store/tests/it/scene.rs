//! One school, one person, one conversation, and ways to bring them where a test begins.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use aws_sdk_dynamodb::types::AttributeValue;
use secrecy::SecretString;
use serde_json::{Value, json};
use tokio::sync::Barrier;
use tokio::task::JoinSet;
use toshi_core::{
    Actor, Answer, Approval, ApprovalConnection, ApproverPolicy, CallOutcome, Canonical, Catalogue,
    Cause, ClientId, ConnectionId, ConnectionRow, ConnectionStatus, ConversationId, Deadline,
    Event, Finish, How, Millis, Outcome, Risk, Role, Sha256Hex, Sharing, State, StepCall, StepRow,
    TenantId, ToolDefinition, ToolRow, ToolState, TurnRow, TurnState, UserId, WriteMode,
};
use toshi_store::{
    Begin, Begun, Claim, Commit, Due, NewMessage, SHARDS, School, Store, StoreConfig, Target,
    UserMessage, mint,
};
use toshi_test_support::Stage;

pub(crate) type Item = HashMap<String, AttributeValue>;

/// When every test begins.
pub(crate) const T0: Millis = Millis::from_epoch(1_796_062_800_000);
pub(crate) const DECIDE_BY: Millis = T0.plus(24 * 60 * 60 * 1000);
/// Those who race.
pub(crate) const TASKS: usize = 32;

pub(crate) struct Scene {
    pub(crate) stage: Stage,
    pub(crate) tenant: TenantId,
}

/// Runs `tasks` tasks that all set out at the same moment.
pub(crate) async fn race<T, F>(tasks: usize, task: impl Fn(usize) -> F) -> Vec<T>
where
    T: Send + 'static,
    F: Future<Output = T> + Send + 'static,
{
    let start = Arc::new(Barrier::new(tasks));
    let mut set = JoinSet::new();
    for index in 0..tasks {
        let (start, work) = (Arc::clone(&start), task(index));
        set.spawn(async move {
            start.wait().await;
            work.await
        });
    }
    set.join_all().await
}

/// A clock that runs from T0, so that what cannot be recorded ends.
pub(crate) fn clock() -> impl Fn() -> Millis {
    let start = std::time::Instant::now();
    move || T0.plus(start.elapsed().as_millis() as i64)
}

pub(crate) fn ann() -> UserId {
    "ann".parse().unwrap()
}

pub(crate) fn client() -> ClientId {
    "chat-0001".parse().unwrap()
}

pub(crate) fn conversation() -> ConversationId {
    ConversationId::of(&ann(), &client())
}

pub(crate) fn by(user: &str, role: Role) -> Cause {
    Cause {
        actor: Actor::User {
            id: user.parse().unwrap(),
            name: user.to_owned(),
            role,
        },
        how: How::Web,
        request: Some("req-1".parse().unwrap()),
    }
}

pub(crate) fn requester() -> Cause {
    by("ann", Role::Admin)
}

pub(crate) fn message(id: &str, text: &str) -> NewMessage {
    NewMessage {
        conversation: conversation(),
        client_id: client(),
        user: ann(),
        message: UserMessage {
            id: id.parse().unwrap(),
            text: text.to_owned(),
            replaces_from: None,
            again: false,
        },
    }
}

pub(crate) fn decide(answer: Answer) -> Event {
    Event::Decide {
        answer,
        reason: None,
    }
}

pub(crate) fn succeeded(text: &str) -> Outcome {
    Outcome::Succeeded {
        text: text.to_owned(),
        structured: None,
        bytes: text.len() as u64,
    }
}

pub(crate) fn unknown() -> Outcome {
    Outcome::Unknown {
        why: "the server did not answer in time".to_owned(),
    }
}

pub(crate) fn catalogue() -> Catalogue {
    Catalogue::load(&["demo"], true).unwrap()
}

pub(crate) fn connection_row(id: &str) -> ConnectionRow {
    ConnectionRow {
        connection: id.parse().unwrap(),
        connector: "demo".to_owned(),
        status: ConnectionStatus::Active,
        usable: true,
        sharing: Sharing::TenantShared,
        owner: None,
        roles: vec![Role::Admin],
        account: "demo:account".to_owned(),
        account_name: "Sample workspace".to_owned(),
        write_mode: WriteMode::All,
        tool_allowlist: None,
        tool_denylist: Vec::new(),
        epoch: 1,
        connected_at: T0,
        era: None,
    }
}

pub(crate) fn tool_row(connection: &ConnectionId, tool: &str) -> ToolRow {
    ToolRow {
        connection: connection.clone(),
        definition: ToolDefinition {
            name: tool.to_owned(),
            title: None,
            description: None,
            input_schema: serde_json::Map::new(),
            annotations: None,
        },
        hash: Sha256Hex::of(b"definition"),
        state: ToolState::Active,
    }
}

pub(crate) fn arguments(text: &str) -> Value {
    json!({ "channel": "#general", "text": text })
}

/// A question that is not stored yet.
pub(crate) fn question(turn: &TurnRow, arguments: &Value) -> Approval {
    let arguments = Canonical::of(arguments).unwrap();
    Approval {
        approval_id: mint(T0),
        conversation: conversation(),
        client_id: client(),
        turn: turn.turn,
        step: turn.steps + 1,
        call: mint(T0),
        connection: ApprovalConnection {
            id: "con-1".parse().unwrap(),
            connector: "demo".to_owned(),
            title: "Demo workspace".to_owned(),
            account: "demo:account".to_owned(),
            account_name: "Sample workspace".to_owned(),
            epoch: 1,
        },
        tool: "post_message".to_owned(),
        tool_title: "Post a message".to_owned(),
        definition: Sha256Hex::of(b"definition"),
        arguments_hmac: "hmac".to_owned(),
        arguments,
        intent: None,
        effect: None,
        risk: Risk::Medium,
        requester: ann(),
        requester_name: "Ann".to_owned(),
        approver: ApproverPolicy::Requester,
        created_at: T0,
        decide_by: Deadline::at(DECIDE_BY),
        run_by: None,
        state: State::Pending,
        decision: None,
        attempt: None,
        outcome: None,
        chunks: 0,
        blocked: None,
        not_sent: None,
        voided: None,
        resolution: None,
        supersedes: None,
        superseded_by: None,
        seq: 0,
        head: Sha256Hex::of(b""),
    }
}

/// The step that asks these questions, and the turn that waits for them.
pub(crate) fn asking(turn: &TurnRow, asks: Vec<Approval>) -> Commit {
    let mut turn = turn.clone();
    turn.steps += 1;
    turn.state = TurnState::Waiting;
    let calls = asks.iter().map(|row| StepCall {
        call: row.call,
        name: "demo__post_message".to_owned(),
        connection: Some(row.connection.id.clone()),
        tool: row.tool.clone(),
        title: "Post a message".to_owned(),
        arguments: row.arguments.clone(),
        outcome: CallOutcome::Approval {
            id: row.approval_id,
        },
    });
    let step = StepRow {
        turn: turn.turn,
        n: turn.steps,
        answer: turn.answer,
        text: String::new(),
        calls: calls.collect(),
        finish: Finish::ToolCalls,
        at: T0,
    };
    Commit {
        turn: Some(turn),
        step: Some(step),
        asks: asks.into_iter().map(|row| (row, requester())).collect(),
        release: true,
        ..Commit::default()
    }
}

impl Scene {
    pub(crate) async fn new() -> Arc<Self> {
        Arc::new(Self {
            stage: Stage::new().await,
            tenant: TenantId::from_stored("lakeside").unwrap(),
        })
    }

    pub(crate) fn school(&self) -> School<'_> {
        self.stage.store.school(&self.tenant)
    }

    /// The same tables through another client.
    pub(crate) fn store_over(&self, db: aws_sdk_dynamodb::Client) -> Store {
        Store::new(
            db,
            StoreConfig {
                table: self.stage.table.clone(),
                audit_table: self.stage.audit_table.clone(),
            },
        )
    }

    pub(crate) async fn begun(&self, id: &str, now: Millis) -> Begin {
        let meta = self.school().meta(&conversation()).await.unwrap();
        let begun = self
            .school()
            .begin(&message(id, "Post it"), meta, now)
            .await;
        match begun.unwrap() {
            Begun::Started(begin) => *begin,
            other => panic!("the turn did not start: {other:?}"),
        }
    }

    /// One stored question with these arguments, its turn waiting, no lease held.
    pub(crate) async fn asked_with(&self, id: &str, arguments: &Value) -> Approval {
        let begin = self.begun(id, T0).await;
        let commit = asking(&begin.turn, vec![question(&begin.turn, arguments)]);
        let committed = self
            .school()
            .commit(&begin.meta, &begin.lease, &commit, T0)
            .await
            .unwrap();
        assert!(committed.released);
        committed.asks.into_iter().next().unwrap()
    }

    pub(crate) async fn asked(&self) -> Approval {
        self.asked_with("m-1", &arguments("hi")).await
    }

    pub(crate) async fn apply(&self, row: &Approval, event: Event, cause: &Cause) -> Approval {
        self.school()
            .transition(row, event, cause, T0)
            .await
            .unwrap()
    }

    pub(crate) async fn approve(&self, row: &Approval) -> Approval {
        self.apply(row, decide(Answer::Approve), &requester()).await
    }

    pub(crate) async fn approved(&self) -> Approval {
        let row = self.asked().await;
        self.approve(&row).await
    }

    /// Stores a usable connection with its reviewed tool, and reads it as a claim would.
    pub(crate) async fn connected(&self) -> Target {
        self.connect(&connection_row("con-1")).await
    }

    pub(crate) async fn connect(&self, row: &ConnectionRow) -> Target {
        let token = SecretString::from("secret-token");
        let tools = [tool_row(&row.connection, "post_message")];
        self.school()
            .put_connection(&self.stage.vault, row, &token, &tools)
            .await
            .unwrap();
        self.target(row.connection.as_str()).await
    }

    pub(crate) async fn target(&self, id: &str) -> Target {
        self.school()
            .target("demo", &id.parse().unwrap(), "post_message")
            .await
            .unwrap()
            .unwrap()
    }

    pub(crate) async fn claim(&self, row: &Approval, target: &Target) -> Claim {
        self.school()
            .claim(&catalogue(), Role::Admin, row, target, T0)
            .await
            .unwrap()
    }

    pub(crate) async fn executing(&self) -> Approval {
        let target = self.connected().await;
        let row = self.approved().await;
        self.claim(&row, &target).await.row
    }

    pub(crate) async fn settle(&self, row: &Approval, outcome: Outcome) -> Approval {
        let attempt = row.attempt.as_ref().unwrap().id;
        self.school()
            .settle(row, attempt, outcome, "", clock(), T0.plus(5_000))
            .await
            .unwrap()
    }

    /// A call whose outcome nobody knows.
    pub(crate) async fn unknown(&self) -> Approval {
        let row = self.executing().await;
        self.settle(&row, unknown()).await
    }

    pub(crate) async fn stored(&self, row: &Approval) -> Approval {
        let row = self.school().approval(row.approval_id).await;
        row.unwrap().unwrap()
    }

    pub(crate) async fn wake(&self) -> u64 {
        let meta = self.school().meta(&conversation()).await.unwrap();
        meta.unwrap().wake
    }

    /// What the sweeps of all shards find.
    pub(crate) async fn due(&self, now: Millis) -> Vec<Due> {
        let mut due = Vec::new();
        for shard in 0..SHARDS {
            due.extend(self.stage.store.due(shard, now, 100).await.unwrap());
        }
        due
    }

    /// Every item of both tables by its key.
    pub(crate) async fn everything(&self) -> BTreeMap<(String, String), Item> {
        let mut all = self.items(&self.stage.table).await;
        all.extend(self.items(&self.stage.audit_table).await);
        all
    }

    pub(crate) async fn items(&self, table: &str) -> BTreeMap<(String, String), Item> {
        let mut all = BTreeMap::new();
        let mut from = None;
        loop {
            let page = self
                .stage
                .db
                .scan()
                .table_name(table)
                .consistent_read(true)
                .set_exclusive_start_key(from)
                .send()
                .await
                .unwrap();
            for item in page.items.unwrap_or_default() {
                let text = |name: &str| item[name].as_s().unwrap().clone();
                all.insert((text("PK"), text("SK")), item);
            }
            from = page.last_evaluated_key.filter(|key| !key.is_empty());
            if from.is_none() {
                return all;
            }
        }
    }

    /// The sort keys of the main table that begin with `prefix`.
    pub(crate) async fn keys(&self, prefix: &str) -> Vec<String> {
        let items = self.items(&self.stage.table).await;
        let keys = items.into_keys().map(|(_, sk)| sk);
        keys.filter(|sk| sk.starts_with(prefix)).collect()
    }

    /// Changes one attribute of a row as no function could.
    pub(crate) async fn tamper(
        &self,
        table: &str,
        key: (&str, &str),
        name: &str,
        to: Option<AttributeValue>,
    ) {
        let request = self
            .stage
            .db
            .update_item()
            .table_name(table)
            .key("PK", AttributeValue::S(key.0.to_owned()))
            .key("SK", AttributeValue::S(key.1.to_owned()))
            .expression_attribute_names("#name", name);
        let request = match to {
            Some(value) => request
                .update_expression("SET #name = :value")
                .expression_attribute_values(":value", value),
            None => request.update_expression("REMOVE #name"),
        };
        request.send().await.unwrap();
    }
}
