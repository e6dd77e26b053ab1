//! One school, one conversation, one warm agent.

use std::time::{Duration, Instant};

use serde_json::json;
use toshi_agent::{Budget, ChatRequest, Chunk, Posted};
use toshi_core::{Actor, Answer, Cause, ConversationId, Event, How, Role, UserId};
use toshi_test_support::now;

use crate::proxy::{Counted, Proxy};
use crate::world::World;

const ISSUER: &str = "https://issuer.example";

/// One stretch of work: what it called and how long it took.
#[derive(Clone, Debug)]
pub struct Measured {
    pub counted: Counted,
    pub took: Duration,
}

pub struct Scene {
    proxy: Proxy,
    world: World,
    admin: UserId,
    messages: u32,
}

impl Scene {
    pub async fn new() -> Self {
        let proxy = Proxy::before(&toshi_test_support::endpoint()).await;
        let world = World::new(&proxy.url, ISSUER).await;
        let admin = world
            .stage
            .person(&world.tenant, ISSUER, "lakeside-admin", Role::Admin)
            .await;
        Self {
            proxy,
            world,
            admin,
            messages: 0,
        }
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
            tenant: self.world.tenant.clone(),
            user: self.admin.clone(),
            posted: Posted::parse(&body).expect("a request"),
            request: None,
            budget: Self::budget(),
        };
        self.proxy.take();
        let began = Instant::now();
        let mut stream = self.world.agent.chat(request).await.expect("a stream");
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
        let school = self.world.stage.store.school(&self.world.tenant);
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
        let tenant = &self.world.tenant;
        let conversation = self.conversation();
        let budget = Self::budget();
        self.world
            .agent
            .run(tenant, &conversation, budget)
            .await
            .expect("the run");
        Measured {
            counted: self.proxy.take(),
            took: began.elapsed(),
        }
    }

    pub async fn stop(self) {
        self.world.stop().await;
    }
}
