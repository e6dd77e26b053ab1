//! A model that says what the test wrote down, in order, and keeps what it was asked.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use axum::extract::State;
use axum::routing::post;
use axum::{Json, Router};
use serde_json::{Value, json};
use tokio::task::JoinSet;

/// One answer: text, calls with their arguments as text, and the reason it ended.
#[derive(Clone, Debug)]
pub(crate) struct Says {
    pub(crate) text: &'static str,
    pub(crate) calls: Vec<(&'static str, String)>,
    pub(crate) finish: &'static str,
}

impl Says {
    pub(crate) fn text(text: &'static str) -> Self {
        Self {
            text,
            calls: Vec::new(),
            finish: "stop",
        }
    }

    pub(crate) fn calls(calls: &[(&'static str, &str)]) -> Self {
        let calls = calls
            .iter()
            .map(|(name, arguments)| (*name, (*arguments).to_owned()));
        Self {
            text: "",
            calls: calls.collect(),
            finish: "tool_calls",
        }
    }
}

/// Stands in arguments for the id of the call whose result was told last to be long.
pub(crate) const CALL: &str = "$CALL";

fn mentioned_call(asked: &Value) -> String {
    let messages = asked["messages"].as_array().unwrap();
    let mention = messages.iter().rev().find_map(|message| {
        let (_, rest) = message["content"]
            .as_str()?
            .split_once("read_result, call ")?;
        Some(rest.split_once(',')?.0.to_owned())
    });
    mention.unwrap_or_default()
}

#[derive(Debug, Default)]
struct Kept {
    left: VecDeque<Says>,
    asked: Vec<Value>,
}

#[derive(Debug)]
pub(crate) struct Script {
    pub(crate) url: String,
    kept: Arc<Mutex<Kept>>,
    _serving: JoinSet<()>,
}

impl Script {
    pub(crate) async fn of(answers: Vec<Says>) -> Self {
        let kept = Arc::new(Mutex::new(Kept {
            left: answers.into(),
            asked: Vec::new(),
        }));
        let routes = Router::new()
            .route("/chat/completions", post(answer))
            .with_state(Arc::clone(&kept));
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let mut serving = JoinSet::new();
        serving.spawn(async move { axum::serve(listener, routes).await.unwrap() });
        Self {
            url,
            kept,
            _serving: serving,
        }
    }

    /// What it says after all that it was to say so far.
    pub(crate) fn then(&self, answers: Vec<Says>) {
        self.kept.lock().unwrap().left.extend(answers);
    }

    pub(crate) fn asked(&self) -> Vec<Value> {
        self.kept.lock().unwrap().asked.clone()
    }

    /// The results that the model was shown last.
    pub(crate) fn told(&self) -> Vec<String> {
        let asked = self.asked();
        let messages = asked.last().unwrap()["messages"].as_array().unwrap();
        let results = messages.iter().filter(|message| message["role"] == "tool");
        results
            .map(|message| message["content"].as_str().unwrap().to_owned())
            .collect()
    }
}

async fn answer(State(kept): State<Arc<Mutex<Kept>>>, Json(body): Json<Value>) -> String {
    let mut kept = kept.lock().unwrap();
    kept.asked.push(body);
    let says = kept
        .left
        .pop_front()
        .expect("the script has an answer left");
    let known = mentioned_call(kept.asked.last().unwrap());
    let event = |delta: Value, finish: Value| {
        let choice = json!({ "index": 0, "delta": delta, "finish_reason": finish });
        format!("data: {}\n\n", json!({ "choices": [choice] }))
    };
    let mut stream = String::new();
    for word in says.text.split_inclusive(' ') {
        stream += &event(json!({ "content": word }), Value::Null);
    }
    for (index, (name, arguments)) in says.calls.iter().enumerate() {
        let arguments = arguments.replace(CALL, &known);
        let function = json!({ "name": name, "arguments": arguments });
        let call = json!({ "index": index, "id": format!("c{index}"), "function": function });
        stream += &event(json!({ "tool_calls": [call] }), Value::Null);
    }
    stream + &event(json!({}), json!(says.finish)) + "data: [DONE]\n\n"
}
