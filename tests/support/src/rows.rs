//! Sample rows: schools, people, and questions as a runner would have stored them.

use serde_json::{Value, json};
use toshi_core::{
    Actor, Approval, ApprovalConnection, ApproverPolicy, CallOutcome, Canonical, Cause,
    ConversationId, Deadline, Finish, How, Millis, RecordDraft, RecordEvent, Risk, Role, Sha256Hex,
    State, StepCall, StepRow, TenantId, TurnRow, TurnState, UserId,
};
use toshi_store::{
    Begin, Begun, Commit, IdentityRow, IssuerRow, NewMessage, PersonStatus, ReadRecord, TenantRow,
    UserMessage, UserRow, mint,
};

use crate::{Stage, now};

/// What is asked, of whom, and until when.
#[derive(Clone, Debug)]
pub struct Question {
    pub user: UserId,
    /// The client's conversation id.
    pub conversation: String,
    pub arguments: Value,
    /// How long it waits; negative for one that has run out.
    pub decide_within_ms: i64,
}

impl Question {
    pub fn of(user: &str) -> Self {
        Self {
            user: user.parse().expect("a user id"),
            conversation: "sample-chat".to_owned(),
            arguments: json!({ "channel": "#general", "text": "Sports day moved to Friday" }),
            decide_within_ms: 60_000,
        }
    }
}

/// A stored question and where it is.
#[derive(Clone, Debug)]
pub struct Asked {
    pub tenant: TenantId,
    pub approval: Approval,
}

impl Stage {
    /// A school that accepts tokens of `issuer`.
    pub async fn school(&self, id: &str, issuer: &str, audience: &str) -> TenantId {
        let tenant = TenantId::from_stored(id).expect("a tenant id");
        let row = TenantRow {
            tenant: tenant.clone(),
            name: id.to_owned(),
            active: true,
            issuers: vec![IssuerRow {
                issuer: issuer.to_owned(),
                audience: audience.to_owned(),
            }],
            decide_within_ms: None,
            created_at: None,
        };
        self.store
            .put_tenant(&row)
            .await
            .expect("the school is stored");
        tenant
    }

    /// An active person of a school; their subject at the issuer is their user id.
    pub async fn person(&self, tenant: &TenantId, issuer: &str, user: &str, role: Role) -> UserId {
        let user: UserId = user.parse().expect("a user id");
        let row = UserRow {
            user: user.clone(),
            name: format!("The {}", role.as_str()),
            role,
            status: PersonStatus::Active,
        };
        self.store
            .school(tenant)
            .put_user(&row)
            .await
            .expect("the person is stored");
        let identity = IdentityRow {
            tenant: Some(tenant.clone()),
            user: user.clone(),
        };
        self.store
            .put_identity(issuer, user.as_str(), &identity)
            .await
            .expect("the identity is stored");
        user
    }

    /// Stores a message, its turn, and one step that asks for one write: a turn that waits.
    pub async fn ask(&self, tenant: &TenantId, question: &Question) -> Asked {
        self.ask_changed(tenant, question, |_| {}).await
    }

    /// As [`Stage::ask`], with the approval's row changed before it is stored.
    pub async fn ask_changed(
        &self,
        tenant: &TenantId,
        question: &Question,
        change: impl FnOnce(&mut Approval),
    ) -> Asked {
        let now = now();
        let school = self.store.school(tenant);
        let begun = self.begin(tenant, question, now).await;
        let conversation = begun.meta.conversation.clone();
        let mut approval = pending(question, conversation, begun.turn.turn, now);
        change(&mut approval);
        let step = StepRow {
            turn: begun.turn.turn,
            n: 1,
            answer: begun.turn.answer,
            text: String::new(),
            calls: vec![StepCall {
                call: approval.call,
                name: "demo__post_message".to_owned(),
                connection: Some(approval.connection.id.clone()),
                tool: approval.tool.clone(),
                title: "Post a message · Demo workspace".to_owned(),
                arguments: approval.arguments.clone(),
                outcome: CallOutcome::Approval {
                    id: approval.approval_id,
                },
            }],
            finish: Finish::ToolCalls,
            at: now,
        };
        let mut turn = begun.turn.clone();
        turn.steps = 1;
        turn.state = TurnState::Waiting;
        let cause = Cause {
            actor: Actor::User {
                id: question.user.clone(),
                name: approval.requester_name.clone(),
                role: Role::Admin,
            },
            how: How::Chat,
            request: None,
        };
        let commit = Commit {
            turn: Some(turn),
            step: Some(step),
            asks: vec![(approval, cause)],
            release: true,
            ..Commit::default()
        };
        let committed = school
            .commit(&begun.meta, &begun.lease, &commit, now)
            .await
            .expect("the step is committed");
        assert!(committed.released, "nothing else woke the conversation");
        let approval = committed.asks.into_iter().next().expect("one question");
        Asked {
            tenant: tenant.clone(),
            approval,
        }
    }

    /// Stores a turn that made so many reads and asked for nothing.
    pub async fn read(&self, tenant: &TenantId, question: &Question, reads: usize) -> TurnRow {
        let now = now();
        let begun = self.begin(tenant, question, now).await;
        let draft = RecordDraft {
            event: RecordEvent::Read,
            at: now,
            actor: Actor::System,
            how: How::System,
            request: None,
            conversation: Some(begun.meta.conversation.clone()),
            turn: Some(begun.turn.turn),
            approval: None,
            connection: None,
            tool: Some("list_channels".to_owned()),
            arguments_hmac: None,
            detail: json!({ "bytes": 12 }),
        };
        let commit = Commit {
            turn: Some(begun.turn.clone()),
            reads: vec![ReadRecord(draft); reads],
            release: true,
            ..Commit::default()
        };
        let committed = self
            .store
            .school(tenant)
            .commit(&begun.meta, &begun.lease, &commit, now)
            .await
            .expect("the reads are committed");
        committed.turn.expect("the turn")
    }

    /// Stores a message and its turn.
    async fn begin(&self, tenant: &TenantId, question: &Question, now: Millis) -> Begin {
        let school = self.store.school(tenant);
        let client_id = question.conversation.parse().expect("a conversation id");
        let conversation = ConversationId::of(&question.user, &client_id);
        let new = NewMessage {
            conversation: conversation.clone(),
            client_id,
            user: question.user.clone(),
            message: UserMessage {
                id: format!("m-{:x}", rand::random::<u64>())
                    .parse()
                    .expect("a message id"),
                text: "Post it, please".to_owned(),
                replaces_from: None,
                again: false,
            },
        };
        let meta = school
            .meta(&conversation)
            .await
            .expect("the conversation is read");
        match school
            .begin(&new, meta, now)
            .await
            .expect("the turn begins")
        {
            Begun::Started(begun) => *begun,
            other => panic!("the turn did not start: {other:?}"),
        }
    }

    /// The approval as it is stored now.
    pub async fn approval(&self, asked: &Asked) -> Approval {
        self.store
            .school(&asked.tenant)
            .approval(asked.approval.approval_id)
            .await
            .expect("the approval is read")
            .expect("the approval exists")
    }
}

fn pending(
    question: &Question,
    conversation: ConversationId,
    turn: toshi_core::TurnId,
    now: Millis,
) -> Approval {
    let arguments = Canonical::of(&question.arguments).expect("arguments");
    Approval {
        approval_id: mint(now),
        conversation,
        client_id: question.conversation.parse().expect("a conversation id"),
        turn,
        step: 1,
        call: mint(now),
        connection: ApprovalConnection {
            id: "demo-connection".parse().expect("a connection id"),
            connector: "demo".to_owned(),
            title: "Demo workspace".to_owned(),
            account: "demo:account".to_owned(),
            account_name: "Sample workspace".to_owned(),
            epoch: 1,
        },
        tool: "post_message".to_owned(),
        tool_title: "Post a message".to_owned(),
        definition: Sha256Hex::of(b"definition"),
        arguments_hmac: Sha256Hex::of(arguments.hash().as_str().as_bytes()).to_string(),
        arguments,
        intent: Some("Tell everyone".to_owned()),
        effect: None,
        risk: Risk::Medium,
        requester: question.user.clone(),
        requester_name: format!("The person {}", question.user),
        approver: ApproverPolicy::Requester,
        created_at: now,
        decide_by: Deadline::at(now.plus(question.decide_within_ms)),
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
