//! The chat function's own binary at work for several people of one school.

use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};
use toshi_core::Role;
use toshi_test_support::Issuer;

use crate::process::{Running, Setting};
use crate::runtime::Runtime;
use crate::world::World;

/// Each may send 20 messages a minute.
const PEOPLE: usize = 15;

/// What one stretch of work cost the process.
#[derive(Clone, Copy, Debug)]
pub struct Worked {
    pub cpu: Duration,
    pub peak_memory: u64,
}

pub struct Fleet {
    world: World,
    running: Running,
    runtime: Runtime,
    tokens: Vec<String>,
    /// Kept: it serves the keys.
    _issuer: Issuer,
    sent: usize,
}

impl Fleet {
    pub async fn new(functions: &Path) -> Self {
        let emulator = toshi_test_support::endpoint();
        let issuer = Issuer::start().await;
        let world = World::new(&emulator, &issuer.url).await;
        let mut tokens = Vec::with_capacity(PEOPLE);
        for n in 0..PEOPLE {
            let subject = format!("lakeside-admin-{n}");
            world
                .stage
                .person(&world.tenant, &issuer.url, &subject, Role::Admin)
                .await;
            tokens.push(issuer.token(&subject));
        }
        let stage = &world.stage;
        let mut variables = vec![
            ("AWS_ENDPOINT_URL", emulator.as_str()),
            ("AWS_REGION", "eu-west-1"),
            ("AWS_ACCESS_KEY_ID", "test"),
            ("AWS_SECRET_ACCESS_KEY", "test"),
            ("TOSHI_DEV", "1"),
            ("TOSHI_ENV", "test"),
            ("TOSHI_TABLE", &stage.table),
            ("TOSHI_AUDIT_TABLE", &stage.audit_table),
            ("TOSHI_WAKE_QUEUE_URL", &stage.queue_url),
            ("TOSHI_KEY_ACCESS", &stage.key),
            ("TOSHI_KEY_PLATFORM", &stage.key),
        ];
        variables.extend(
            world
                .settings
                .iter()
                .map(|(name, value)| (*name, value.as_str())),
        );
        let setting = Setting::new(functions.join("chat"), &variables);
        let runtime = Runtime::start().await;
        let running = setting.spawn(runtime.address, None);
        Self {
            world,
            running,
            runtime,
            tokens,
            _issuer: issuer,
            sent: 0,
        }
    }

    /// So many messages of this text, one after another, each person in a conversation of their own.
    pub async fn say(&mut self, text: &str, times: usize) -> Worked {
        let before = self.running.cpu();
        for _ in 0..times {
            let (n, person) = (self.sent, self.sent % self.tokens.len());
            self.sent += 1;
            let body = json!({
                "id": format!("fleet-{person}"),
                "trigger": "submit-message",
                "messages": [{
                    "id": format!("m{n}"),
                    "role": "user",
                    "parts": [{ "type": "text", "text": text }],
                }],
            });
            let answer = self.request("POST", "/chat", person, Some(&body)).await;
            assert!(answer.contains("[DONE]"), "{answer}");
            assert!(!answer.contains(r#""type":"error""#), "{answer}");
        }
        self.worked_since(before)
    }

    /// So many reads of the list of conversations.
    pub async fn list(&mut self, times: usize) -> Worked {
        let before = self.running.cpu();
        for n in 0..times {
            let person = n % self.tokens.len();
            self.request("GET", "/conversations", person, None).await;
        }
        self.worked_since(before)
    }

    fn worked_since(&self, before: Duration) -> Worked {
        Worked {
            cpu: self.running.cpu().saturating_sub(before),
            peak_memory: self.running.peak_memory(),
        }
    }

    async fn request(
        &self,
        method: &str,
        path: &str,
        person: usize,
        body: Option<&Value>,
    ) -> String {
        let headers = json!({
            "authorization": format!("Bearer {}", self.tokens[person]),
            "content-type": "application/json",
            "host": "api.toshi.test",
        });
        let event = json!({
            "resource": "/{proxy+}",
            "path": path,
            "httpMethod": method,
            "headers": headers,
            "multiValueHeaders": null,
            "queryStringParameters": null,
            "multiValueQueryStringParameters": null,
            "pathParameters": null,
            "stageVariables": null,
            "requestContext": {
                "accountId": "000000000000",
                "apiId": "bench",
                "httpMethod": method,
                "identity": { "sourceIp": "127.0.0.1" },
                "path": format!("/v1{path}"),
                "protocol": "HTTP/1.1",
                "requestId": "bench",
                "resourceId": "proxy",
                "resourcePath": "/{proxy+}",
                "stage": "v1",
            },
            "body": body.map(Value::to_string),
            "isBase64Encoded": false,
        });
        let answer = self.runtime.invoke(event).await;
        let text = answer["body"].as_str().unwrap_or_default().to_owned();
        assert_eq!(answer["statusCode"], 200, "{text}");
        text
    }

    pub async fn stop(self) {
        drop(self.running);
        self.world.stop().await;
    }
}
