use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde_json::{Map, Value, json};
use tokio::sync::{RwLock, RwLockReadGuard, RwLockWriteGuard};

use super::{Answer, Aws, Person, eventually};

/// Switches hold for everyone: who sets one is alone, whoever calls a tool shares.
static SANDBOX: RwLock<()> = RwLock::const_new(());

enum Hold {
    Nothing,
    Shared {
        _guard: RwLockReadGuard<'static, ()>,
    },
    Alone {
        guard: RwLockWriteGuard<'static, ()>,
    },
}

/// A running stack and how this test holds it.
pub(crate) struct Stack {
    pub(crate) base: String,
    pub(crate) state: PathBuf,
    pub(crate) http: reqwest::Client,
    /// Nobody else knows of it.
    own: bool,
    /// What people were answered, headers and all, on a stack that nobody else uses.
    heard: Mutex<Vec<String>>,
    hold: Mutex<Hold>,
}

impl Stack {
    /// For tests that call tools of a well-behaved sandbox.
    pub(crate) async fn shared() -> Self {
        Self::holding(Hold::Shared {
            _guard: SANDBOX.read().await,
        })
    }

    /// For tests that make it misbehave; it behaves again when this is dropped.
    pub(crate) async fn alone() -> Self {
        Self::holding(Hold::Alone {
            guard: SANDBOX.write().await,
        })
    }

    /// For tests that need neither the tools nor the model.
    pub(crate) fn at_any_time() -> Self {
        Self::holding(Hold::Nothing)
    }

    fn holding(hold: Hold) -> Self {
        let state = PathBuf::from(setting("TOSHI_TEST_STATE"));
        Self {
            base: setting("TOSHI_TEST_BASE"),
            state,
            http: client(),
            own: false,
            heard: Mutex::default(),
            hold: hold.into(),
        }
    }

    /// One that nobody else uses.
    pub(crate) fn own(base: &str, state: PathBuf) -> Self {
        let hold = Hold::Nothing.into();
        Self {
            base: base.to_owned(),
            state,
            http: client(),
            own: true,
            heard: Mutex::default(),
            hold,
        }
    }

    pub(super) fn hear(&self, answer: &Answer) {
        if self.own {
            let mut heard = self.heard.lock().unwrap_or_else(PoisonError::into_inner);
            heard.push(format!("{:?} {}", answer.headers, answer.text));
        }
    }

    pub(crate) fn heard(&self) -> Vec<String> {
        let heard = self.heard.lock().unwrap_or_else(PoisonError::into_inner);
        heard.clone()
    }

    fn hold(&self) -> MutexGuard<'_, Hold> {
        self.hold.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends being alone and shares: the sandbox behaves again, for everyone.
    pub(crate) fn behave(&self) {
        let mut hold = self.hold();
        if let Hold::Alone { guard } = std::mem::replace(&mut *hold, Hold::Nothing) {
            self.turn_all_off();
            *hold = Hold::Shared {
                _guard: guard.downgrade(),
            };
        }
    }

    /// Ends being alone and steps aside for a long wait, until `share`.
    pub(crate) fn step_aside(&self) {
        self.behave();
        *self.hold() = Hold::Nothing;
    }

    pub(crate) async fn share(&self) {
        let guard = SANDBOX.read().await;
        *self.hold() = Hold::Shared { _guard: guard };
    }

    pub(crate) fn port(&self) -> &str {
        self.base.rsplit(':').next().expect("a port")
    }

    /// A person by the subject of their token, such as `lakeside-admin`.
    pub(crate) async fn person(&self, name: &str) -> Person<'_> {
        let token = self.token(name, json!({})).await;
        Person::new(self, name, token)
    }

    pub(crate) async fn token(&self, name: &str, more: Value) -> String {
        let (tenant, person) = name.split_once('-').expect("school-person");
        let mut wanted = json!({ "tenant": tenant, "as": person });
        let fields = wanted.as_object_mut().expect("an object");
        fields.extend(more.as_object().cloned().unwrap_or_default());
        let answer = self.post("/_sandbox/token", &wanted).await;
        assert_eq!(answer.status, 200, "{}", answer.text);
        answer.text.trim().to_owned()
    }

    pub(crate) async fn get(&self, path: &str) -> Answer {
        let request = self.http.get(format!("{}{path}", self.base));
        Answer::of(request.send().await.expect("an answer")).await
    }

    pub(crate) async fn post(&self, path: &str, body: &Value) -> Answer {
        let request = self.http.post(format!("{}{path}", self.base)).json(body);
        Answer::of(request.send().await.expect("an answer")).await
    }

    /// Sets switches; only for who is alone.
    pub(crate) async fn switch(&self, switches: Value) {
        let allowed = self.own || matches!(*self.hold(), Hold::Alone { .. });
        assert!(allowed, "set switches only when alone");
        let request = self
            .http
            .put(format!("{}/_sandbox/switches", self.base))
            .json(&switches);
        let answer = Answer::of(request.send().await.expect("an answer")).await;
        assert_eq!(answer.status, 200, "{}", answer.text);
    }

    pub(crate) async fn tick(&self, sweep: &str) -> Value {
        self.post("/_sandbox/tick", &json!({ "sweep": sweep }))
            .await
            .ok()
    }

    /// The calls of tools that took effect at the server, for which `fits` holds.
    pub(crate) async fn calls(&self, fits: impl Fn(&Value) -> bool) -> Vec<Value> {
        let calls = self.get("/_sandbox/mcp/calls").await.ok();
        let calls = calls.as_array().expect("a list").clone();
        calls.into_iter().filter(fits).collect()
    }

    /// How often this text was posted at the server.
    pub(crate) async fn posted(&self, text: &str) -> usize {
        self.calls(|call| call["tool"] == "post_message" && call["arguments"]["text"] == text)
            .await
            .len()
    }

    /// The requests to the model that mention this text, oldest first.
    pub(crate) async fn prompts(&self, text: &str) -> Vec<Value> {
        let requests = self.get("/_sandbox/llm/requests").await.ok();
        let requests = requests.as_array().expect("a list").clone();
        requests
            .into_iter()
            .filter(|request| request.to_string().contains(text))
            .collect()
    }

    pub(crate) async fn aws(&self) -> Aws<'_> {
        // While a stack starts its description is not there yet.
        let text = eventually("stack.json", 20, async || {
            std::fs::read_to_string(self.state.join("stack.json")).ok()
        });
        Aws::new(
            self,
            &serde_json::from_str(&text.await).expect("a description"),
        )
    }

    /// The document of the interface.
    pub(crate) async fn openapi(&self) -> Value {
        self.get("/v1/openapi.json").await.ok()
    }
}

impl Drop for Stack {
    /// Also when the test failed.
    fn drop(&mut self) {
        self.behave();
    }
}

impl Stack {
    /// Without a runtime, since the test's may be gone.
    fn turn_all_off(&self) {
        let address = self.base.trim_start_matches("http://");
        let ask = |method: &str, body: &str| -> std::io::Result<String> {
            let mut line = TcpStream::connect(address)?;
            line.set_read_timeout(Some(Duration::from_secs(10)))?;
            let length = body.len();
            write!(
                line,
                "{method} /_sandbox/switches HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\
                 content-type: application/json\r\ncontent-length: {length}\r\n\r\n{body}"
            )?;
            let mut answer = String::new();
            line.read_to_string(&mut answer)?;
            let (_, body) = answer.split_once("\r\n\r\n").unwrap_or_default();
            Ok(body.to_owned())
        };
        let all = ask("GET", "").unwrap_or_default();
        let all: Map<String, Value> = serde_json::from_str(&all).unwrap_or_default();
        let off: Map<String, Value> = all
            .into_iter()
            .map(|(name, _)| (name, Value::Null))
            .collect();
        if let Err(error) = ask("PUT", &Value::from(off).to_string()) {
            eprintln!("the switches could not be turned off: {error}");
        }
    }
}

fn client() -> reqwest::Client {
    let builder = reqwest::Client::builder()
        .no_proxy()
        .timeout(Duration::from_secs(120));
    builder.build().expect("a client")
}

#[expect(
    clippy::disallowed_methods,
    reason = "the settings of a test run are its configuration"
)]
fn setting(name: &str) -> String {
    std::env::var(name)
        .unwrap_or_else(|_| panic!("{name} is not set: run these tests with `make test-e2e`"))
}
