//! A proxy before the emulator that notes each call's name, begin and end.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::extract::{Request, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use tokio::net::TcpListener;

const BODY_MAX: usize = 16 * 1024 * 1024;

#[derive(Clone, Debug)]
struct Call {
    name: String,
    began: Instant,
    ended: Instant,
}

#[derive(Clone)]
struct Shared {
    emulator: String,
    client: reqwest::Client,
    calls: Arc<Mutex<Vec<Call>>>,
}

/// Serves until it is dropped.
pub struct Proxy {
    pub url: String,
    calls: Arc<Mutex<Vec<Call>>>,
    task: tokio::task::JoinHandle<()>,
}

/// What was called, and how often one call had to wait for another.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counted {
    /// DynamoDB operations, in groups that ran one after another: calls that overlap are one wait.
    pub groups: Vec<Vec<String>>,
    pub kms: usize,
    pub sqs: usize,
}

impl Counted {
    /// Sequential waits on the table.
    pub fn table_waits(&self) -> usize {
        self.groups.len()
    }

    pub fn table_calls(&self) -> usize {
        self.groups.iter().map(Vec::len).sum()
    }

    /// Waits from the transaction that claims to the one that settles, both included: the first two
    /// transactions of a run that began with a take.
    pub fn claim_to_settle(&self) -> Option<usize> {
        let is_transaction =
            |group: &&Vec<String>| group.iter().any(|name| name == "TransactWriteItems");
        let from = self
            .groups
            .iter()
            .position(|group| is_transaction(&group))?;
        let rest = self.groups.iter().skip(from + 1);
        rest.clone()
            .position(|group| is_transaction(&group))
            .map(|after| after + 2)
    }
}

impl Proxy {
    pub async fn before(emulator: &str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let url = format!("http://{}", listener.local_addr().expect("an address"));
        let calls: Arc<Mutex<Vec<Call>>> = Arc::default();
        let client = reqwest::Client::builder()
            .no_proxy()
            .build()
            .expect("a client");
        let shared = Shared {
            emulator: emulator.to_owned(),
            client,
            calls: Arc::clone(&calls),
        };
        let routes = Router::new().fallback(forward).with_state(shared);
        #[expect(clippy::disallowed_methods, reason = "the handle is aborted on drop")]
        let task = tokio::spawn(async move {
            axum::serve(listener, routes)
                .await
                .expect("the proxy serves");
        });
        Self { url, calls, task }
    }

    /// The calls since the last time this was asked.
    pub fn take(&self) -> Counted {
        let mut calls = std::mem::take(&mut *lock(&self.calls));
        calls.sort_by_key(|call| call.began);
        let mut counted = Counted::default();
        let mut group_ends: Option<Instant> = None;
        for call in calls {
            match call.name.split_once('.') {
                Some(("KMS", _)) => counted.kms += 1,
                Some(("SQS", _)) => counted.sqs += 1,
                Some((_, operation)) => {
                    let overlaps = group_ends.is_some_and(|end| call.began < end);
                    match counted.groups.last_mut() {
                        Some(group) if overlaps => group.push(operation.to_owned()),
                        _ => counted.groups.push(vec![operation.to_owned()]),
                    }
                    let end = group_ends.filter(|end| overlaps && *end > call.ended);
                    group_ends = Some(end.unwrap_or(call.ended));
                }
                None => panic!("a call without a name: {}", call.name),
            }
        }
        counted
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.task.abort();
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The AWS JSON protocols name their operation in a header.
fn name(headers: &HeaderMap) -> String {
    let target = headers
        .get("x-amz-target")
        .and_then(|value| value.to_str().ok());
    let target = target.unwrap_or("unknown.unknown");
    let (service, operation) = target.split_once('.').unwrap_or(("unknown", target));
    let service = match service {
        "DynamoDB_20120810" => "DynamoDB",
        "TrentService" => "KMS",
        "AmazonSQS" => "SQS",
        other => other,
    };
    format!("{service}.{operation}")
}

async fn forward(State(shared): State<Shared>, request: Request) -> Response {
    let (parts, body) = request.into_parts();
    let began = Instant::now();
    let body = to_bytes(body, BODY_MAX).await.expect("a body");
    let mut headers = parts.headers.clone();
    headers.remove("host");
    headers.remove("content-length");
    let path = parts.uri.path_and_query().map_or("/", |path| path.as_str());
    let answer = shared
        .client
        .request(parts.method, format!("{}{path}", shared.emulator))
        .headers(headers)
        .body(body)
        .send()
        .await
        .expect("the emulator answers");
    let (status, headers) = (answer.status(), answer.headers().clone());
    let body = answer.bytes().await.expect("the emulator's answer");
    let call = Call {
        name: name(&parts.headers),
        began,
        ended: Instant::now(),
    };
    lock(&shared.calls).push(call);
    let mut response = Response::new(Body::from(body));
    *response.status_mut() = StatusCode::from_u16(status.as_u16()).expect("a status");
    for (name, value) in &headers {
        if name != "transfer-encoding" && name != "connection" {
            response.headers_mut().insert(name.clone(), value.clone());
        }
    }
    response
}
