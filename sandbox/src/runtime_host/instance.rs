//! One running function: its process and the Runtime API that only it talks to.

use std::{
    io,
    net::Ipv4Addr,
    process::Stdio,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use axum::{
    Json, Router,
    body::{Body, Bytes},
    extract::{DefaultBodyLimit, Path, State},
    http::{HeaderMap, HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
    routing::{get, post},
};
use http_body_util::BodyExt;
use serde_json::json;
use tokio::{
    net::TcpListener,
    process::{Child, Command},
    sync::mpsc,
    task::JoinHandle,
};

use super::{
    Function, Stamp,
    log::Log,
    reply::{self, Head, Piece, Splitter},
};

/// A buffered answer of Lambda has at most 6 MB; base64 and escapes make it longer.
const LARGEST_ANSWER: usize = 9 * 1024 * 1024;
const LARGEST_ERROR: usize = 256 * 1024;
/// The linker may still be writing a binary that was just rebuilt.
const SPAWN_TRIES: u32 = 10;
const SPAWN_PAUSE: Duration = Duration::from_millis(100);

/// One event for the function.
#[derive(Debug)]
pub(super) struct Job {
    pub(super) request_id: String,
    pub(super) event: Bytes,
    pub(super) deadline_ms: i64,
    pub(super) arn: String,
    pub(super) told: mpsc::Sender<Told>,
}

/// What the function tells about the event it works on.
#[derive(Debug)]
pub(super) enum Told {
    /// It fetched the event: from here on it may have acted.
    Fetched,
    Head(Head),
    Bytes(Bytes),
    End,
    Failed(String),
}

#[derive(Debug)]
struct Current {
    request_id: String,
    told: mpsc::Sender<Told>,
}

/// What the Runtime API's handlers share.
#[derive(Debug)]
struct Seat {
    jobs: tokio::sync::Mutex<mpsc::Receiver<Job>>,
    current: Mutex<Option<Current>>,
    log: Arc<Log>,
    name: String,
}

#[derive(Debug)]
pub(super) struct Instance {
    pub(super) name: String,
    pub(super) stamp: Stamp,
    pub(super) jobs: mpsc::Sender<Job>,
    pub(super) child: Child,
    api: JoinHandle<io::Result<()>>,
}

impl Drop for Instance {
    fn drop(&mut self) {
        self.api.abort();
    }
}

impl Instance {
    pub(super) async fn start(
        function: &Function,
        stamp: Stamp,
        name: String,
        log: &Arc<Log>,
    ) -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let address = listener.local_addr()?;
        let mut child = spawn(function, &name, &address.to_string()).await?;
        let (jobs, waiting) = mpsc::channel(1);
        let seat = Arc::new(Seat {
            jobs: tokio::sync::Mutex::new(waiting),
            current: Mutex::new(None),
            log: Arc::clone(log),
            name: name.clone(),
        });
        let api = tokio::spawn(axum::serve(listener, runtime_api(seat)).into_future());
        let pid = child.id().unwrap_or_default();
        log.line(&name, &format!("INIT_START pid={pid}"));
        if let Some(out) = child.stdout.take() {
            let (log, name) = (Arc::clone(log), name.clone());
            tokio::spawn(async move { log.copy(&name, out).await });
        }
        if let Some(out) = child.stderr.take() {
            let (log, name) = (Arc::clone(log), name.clone());
            tokio::spawn(async move { log.copy(&name, out).await });
        }
        Ok(Self {
            name,
            stamp,
            jobs,
            child,
            api,
        })
    }

    pub(super) fn has_exited(&mut self) -> bool {
        !matches!(self.child.try_wait(), Ok(None))
    }

    pub(super) async fn kill(mut self) {
        // Already gone is as good as killed.
        _ = self.child.kill().await;
    }
}

async fn spawn(function: &Function, instance: &str, api: &str) -> io::Result<Child> {
    let folder = function
        .bootstrap
        .parent()
        .unwrap_or(std::path::Path::new("/"));
    let mut command = Command::new(&function.bootstrap);
    command
        .env_clear()
        .env("PATH", "/usr/local/bin:/usr/bin:/bin")
        .env("TZ", ":UTC")
        .envs(&function.environment)
        .env("AWS_LAMBDA_RUNTIME_API", api)
        .env("AWS_LAMBDA_FUNCTION_NAME", &function.name)
        .env("AWS_LAMBDA_FUNCTION_VERSION", "$LATEST")
        .env("AWS_LAMBDA_FUNCTION_MEMORY_SIZE", "512")
        .env("AWS_LAMBDA_INITIALIZATION_TYPE", "on-demand")
        .env(
            "AWS_LAMBDA_LOG_GROUP_NAME",
            format!("/aws/lambda/{}", function.name),
        )
        .env("AWS_LAMBDA_LOG_STREAM_NAME", instance)
        .env("LAMBDA_TASK_ROOT", folder)
        .current_dir(folder)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true);
    let mut tries = 1;
    loop {
        match command.spawn() {
            Err(error)
                if tries < SPAWN_TRIES
                    && matches!(
                        error.kind(),
                        io::ErrorKind::ExecutableFileBusy | io::ErrorKind::NotFound
                    ) =>
            {
                tries += 1;
                tokio::time::sleep(SPAWN_PAUSE).await;
            }
            spawned => return spawned,
        }
    }
}

fn runtime_api(seat: Arc<Seat>) -> Router {
    Router::new()
        .route("/2018-06-01/runtime/invocation/next", get(next))
        .route(
            "/2018-06-01/runtime/invocation/{id}/response",
            post(response),
        )
        .route(
            "/2018-06-01/runtime/invocation/{id}/error",
            post(invocation_error),
        )
        .route("/2018-06-01/runtime/init/error", post(init_error))
        .layer(DefaultBodyLimit::max(LARGEST_ERROR))
        .with_state(seat)
}

async fn next(State(seat): State<Arc<Seat>>) -> Response {
    let Some(job) = seat.jobs.lock().await.recv().await else {
        return StatusCode::GONE.into_response();
    };
    let Job {
        request_id,
        event,
        deadline_ms,
        arn,
        told,
    } = job;
    if told.send(Told::Fetched).await.is_err() {
        return StatusCode::GONE.into_response();
    }
    let trace = format!(
        "Root=1-00000000-{:0>24};Sampled=0",
        request_id.replace('-', "").split_at(12).0
    );
    let headers = [
        ("lambda-runtime-aws-request-id", request_id.clone()),
        ("lambda-runtime-deadline-ms", deadline_ms.to_string()),
        ("lambda-runtime-invoked-function-arn", arn),
        ("lambda-runtime-trace-id", trace),
    ];
    seat.set_current(Some(Current { request_id, told }));
    let mut response = Response::new(Body::from(event));
    for (name, value) in headers {
        if let Ok(value) = HeaderValue::from_str(&value) {
            response.headers_mut().insert(name, value);
        }
    }
    let json = HeaderValue::from_static("application/json");
    response.headers_mut().insert(header::CONTENT_TYPE, json);
    response
}

impl Seat {
    fn set_current(&self, current: Option<Current>) {
        *self.current.lock().unwrap_or_else(PoisonError::into_inner) = current;
    }

    /// Takes the invocation, which can be answered once only.
    fn take(&self, id: &str) -> Option<mpsc::Sender<Told>> {
        let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        let told = current.take_if(|current| current.request_id == id)?.told;
        Some(told)
    }
}

/// The answer to a function's report; `Err` when nobody waits for it any more.
fn accepted(sent: Result<(), mpsc::error::SendError<Told>>) -> Response {
    match sent {
        Ok(()) => (StatusCode::ACCEPTED, Json(json!({"status": "OK"}))).into_response(),
        Err(_) => unknown_id(),
    }
}

fn unknown_id() -> Response {
    let body = json!({"errorType": "InvalidRequestID", "errorMessage": "Invalid request ID"});
    (StatusCode::BAD_REQUEST, Json(body)).into_response()
}

async fn response(
    State(seat): State<Arc<Seat>>,
    Path(id): Path<String>,
    headers: HeaderMap,
    body: Body,
) -> Response {
    let Some(told) = seat.take(&id) else {
        return unknown_id();
    };
    let is = |name: &str, value: &str| {
        headers
            .get(name)
            .is_some_and(|found| found.as_bytes().eq_ignore_ascii_case(value.as_bytes()))
    };
    let last = if !is("lambda-runtime-function-response-mode", "streaming") {
        whole(&told, body).await
    } else if is(
        "content-type",
        "application/vnd.awslambda.http-integration-response",
    ) {
        streamed(&told, body).await
    } else {
        Err("a streamed answer must be an http-integration-response".to_owned())
    };
    match last {
        Ok(()) => accepted(told.send(Told::End).await),
        Err(why) => accepted(told.send(Told::Failed(why)).await),
    }
}

async fn whole(told: &mpsc::Sender<Told>, body: Body) -> Result<(), String> {
    let bytes = axum::body::to_bytes(body, LARGEST_ANSWER)
        .await
        .map_err(|error| format!("the function's answer cannot be read: {error}"))?;
    let (head, bytes) = reply::whole(&bytes)?;
    for part in [Told::Head(head), Told::Bytes(bytes)] {
        told.send(part).await.map_err(|_| GONE.to_owned())?;
    }
    Ok(())
}

const GONE: &str = "the invocation is over";

async fn streamed(told: &mpsc::Sender<Told>, mut body: Body) -> Result<(), String> {
    let mut splitter = Splitter::new();
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| format!("the function's stream broke: {error}"))?;
        match frame.into_data() {
            Ok(chunk) => {
                for piece in splitter.push(chunk)? {
                    let part = match piece {
                        Piece::Head(head) => Told::Head(head),
                        Piece::Bytes(bytes) => Told::Bytes(bytes),
                        Piece::Broken(why) => return Err(why),
                    };
                    told.send(part).await.map_err(|_| GONE.to_owned())?;
                }
            }
            Err(frame) => {
                let trailers = frame.into_trailers().unwrap_or_default();
                if let Some(kind) = trailers.get("lambda-runtime-function-error-type") {
                    return Err(format!(
                        "the function failed: {}",
                        String::from_utf8_lossy(kind.as_bytes())
                    ));
                }
            }
        }
    }
    if splitter.has_head() {
        Ok(())
    } else {
        Err("the stream ended before its prelude".to_owned())
    }
}

async fn invocation_error(
    State(seat): State<Arc<Seat>>,
    Path(id): Path<String>,
    body: Bytes,
) -> Response {
    let Some(told) = seat.take(&id) else {
        return unknown_id();
    };
    accepted(
        told.send(Told::Failed(format!(
            "the function failed: {}",
            String::from_utf8_lossy(&body)
        )))
        .await,
    )
}

async fn init_error(State(seat): State<Arc<Seat>>, body: Bytes) -> Response {
    seat.log.line(
        &seat.name,
        &format!("INIT_ERROR {}", String::from_utf8_lossy(&body)),
    );
    (StatusCode::ACCEPTED, Json(json!({"status": "OK"}))).into_response()
}
