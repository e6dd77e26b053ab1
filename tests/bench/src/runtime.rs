//! The Lambda Runtime API for one process, one invocation at a time
//! (<https://docs.aws.amazon.com/lambda/latest/dg/runtimes-api.html>).

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Bytes;
use axum::extract::{Path, State};
use axum::http::{HeaderName, StatusCode};
use axum::response::IntoResponse;
use axum::routing::{get, post};
use axum::{Json, Router};
use serde_json::Value;
use tokio::net::TcpListener;
use tokio::sync::{Mutex, mpsc};
use toshi_test_support::now;

const DEADLINE: Duration = Duration::from_secs(60);

#[derive(Debug)]
pub(crate) struct Runtime {
    pub(crate) address: SocketAddr,
    events: mpsc::Sender<Value>,
    answers: Mutex<mpsc::Receiver<Result<Bytes, Bytes>>>,
    task: tokio::task::JoinHandle<()>,
}

#[derive(Debug)]
struct Side {
    events: Mutex<mpsc::Receiver<Value>>,
    answers: mpsc::Sender<Result<Bytes, Bytes>>,
}

impl Runtime {
    pub(crate) async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("an address");
        let (events, waiting) = mpsc::channel(1);
        let (answered, answers) = mpsc::channel(1);
        let side = Arc::new(Side {
            events: Mutex::new(waiting),
            answers: answered,
        });
        let routes = Router::new()
            .route("/2018-06-01/runtime/invocation/next", get(next))
            .route(
                "/2018-06-01/runtime/invocation/{id}/response",
                post(response),
            )
            .route("/2018-06-01/runtime/invocation/{id}/error", post(error))
            .with_state(side);
        #[expect(clippy::disallowed_methods, reason = "the handle is aborted on drop")]
        let task = tokio::spawn(async move {
            axum::serve(listener, routes)
                .await
                .expect("the runtime serves");
        });
        Self {
            address,
            events,
            answers: Mutex::new(answers),
            task,
        }
    }

    /// One invocation; what the function answered.
    pub(crate) async fn invoke(&self, event: Value) -> Value {
        self.events.send(event).await.expect("the runtime is there");
        let mut answers = self.answers.lock().await;
        let answer = tokio::time::timeout(DEADLINE, answers.recv())
            .await
            .expect("an answer in time")
            .expect("the runtime is there");
        match answer {
            Ok(body) => serde_json::from_slice(&body).expect("JSON"),
            Err(body) => panic!("the function failed: {}", String::from_utf8_lossy(&body)),
        }
    }
}

impl Drop for Runtime {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn next(State(side): State<Arc<Side>>) -> impl IntoResponse {
    let event = side.events.lock().await.recv().await;
    let until = now().as_epoch() + 300_000;
    let headers = [
        (
            "lambda-runtime-aws-request-id",
            "8476a536-e9f4-11e8-9739-2dfe598c3fcd".to_owned(),
        ),
        ("lambda-runtime-deadline-ms", until.to_string()),
        (
            "lambda-runtime-invoked-function-arn",
            "arn:aws:lambda:eu-west-1:000000000000:function:bench".to_owned(),
        ),
    ]
    .map(|(name, value)| (HeaderName::from_static(name), value));
    (headers, Json(event.unwrap_or_default()))
}

async fn response(State(side): State<Arc<Side>>, Path(_): Path<String>, body: Bytes) -> StatusCode {
    drop(side.answers.send(Ok(body)).await);
    StatusCode::ACCEPTED
}

async fn error(State(side): State<Arc<Side>>, Path(_): Path<String>, body: Bytes) -> StatusCode {
    drop(side.answers.send(Err(body)).await);
    StatusCode::ACCEPTED
}
