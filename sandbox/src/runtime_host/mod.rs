//! A Lambda Runtime API host that streams.
//!
//! It runs a function's real binary as processes of this machine, one event at a time each, and
//! passes a streamed answer on byte by byte, which the emulator's own Lambda does not.

mod event;
mod instance;
mod log;
mod reply;

use std::{
    collections::BTreeMap,
    io,
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant, SystemTime},
};

use axum::body::{Body, Bytes};
use axum::http::StatusCode;
use axum::response::Response;
use futures::stream;
use rand::random;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot, watch};

pub(crate) use event::{Entry, forwarded_for, proxy_event};

use crate::{clock, problem::Problem};
use instance::{Instance, Job, Told};
use log::Log;
use reply::Head;

const MOST_INSTANCES: usize = 8;
/// Requests that may wait for an instance; more are turned away.
const MOST_WAITING: usize = 64;
/// How long a caller may take to accept the next bytes before it counts as gone.
const LONGEST_STALL: Duration = Duration::from_secs(10);
/// How long the last words of a process that ended may take to arrive.
const LAST_WORDS: Duration = Duration::from_millis(500);

/// A function as it is started.
#[derive(Clone)]
pub(crate) struct Function {
    pub(crate) name: String,
    pub(crate) region: String,
    pub(crate) bootstrap: PathBuf,
    pub(crate) environment: BTreeMap<String, String>,
}

/// What an instance was started from; another stamp means it is out of date.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Stamp {
    binary: Option<(SystemTime, u64)>,
    environment: BTreeMap<String, String>,
}

impl Function {
    fn stamp(&self) -> Stamp {
        let meta = std::fs::metadata(&self.bootstrap).ok();
        let binary = meta.and_then(|meta| Some((meta.modified().ok()?, meta.len())));
        Stamp {
            binary,
            environment: self.environment.clone(),
        }
    }
}

/// Why an invocation has no answer.
#[derive(Debug)]
enum Failure {
    CannotStart(String),
    Failed(String),
    TimedOut,
    Stopping,
}

impl From<Failure> for Problem {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::CannotStart(why) => {
                let detail = format!("The chat function cannot be started: {why}.");
                Self::new(StatusCode::BAD_GATEWAY, "function_failed", detail)
            }
            Failure::Failed(_) => {
                let detail = "The chat function failed. Its log in the state folder says why.";
                Self::new(StatusCode::BAD_GATEWAY, "function_failed", detail)
            }
            Failure::TimedOut => {
                let detail = "The chat function took too long and was stopped.";
                Self::new(StatusCode::GATEWAY_TIMEOUT, "function_timed_out", detail)
            }
            Failure::Stopping => Self::starting("The sandbox is stopping."),
        }
    }
}

#[derive(Debug)]
pub(crate) struct RuntimeHost {
    idle: Mutex<Vec<Instance>>,
    slots: Arc<Semaphore>,
    waiting: Semaphore,
    log: Arc<Log>,
    timeout: Duration,
    stopping: watch::Sender<bool>,
    started: AtomicU64,
}

impl RuntimeHost {
    /// `timeout` is the longest an invocation may take before its process is killed.
    pub(crate) fn new(log: &Path, timeout: Duration) -> Arc<Self> {
        Arc::new(Self {
            idle: Mutex::default(),
            slots: Arc::new(Semaphore::new(MOST_INSTANCES)),
            waiting: Semaphore::new(MOST_WAITING),
            log: Arc::new(Log::open(log)),
            timeout,
            stopping: watch::Sender::new(false),
            started: AtomicU64::new(0),
        })
    }

    /// Runs the function on an event and returns its answer as soon as its head is there.
    ///
    /// Once started, the invocation goes on even if the returned future or body is dropped.
    pub(crate) async fn invoke(
        self: &Arc<Self>,
        function: Function,
        request_id: String,
        event: Bytes,
    ) -> Result<Response, Problem> {
        let waiting = self.waiting.try_acquire().map_err(|_| {
            let detail = "Too many requests wait for the chat function.";
            Problem::new(StatusCode::TOO_MANY_REQUESTS, "rate_limited", detail)
        })?;
        let slot = Arc::clone(&self.slots)
            .acquire_owned()
            .await
            .map_err(|_| Problem::from(Failure::Stopping))?;
        drop(waiting);
        let (head, answered) = oneshot::channel();
        let (body, mut bytes) = mpsc::channel(64);
        let caller = Caller {
            head: Some(head),
            body: Some(body),
        };
        let host = Arc::clone(self);
        tokio::spawn(async move { host.run(function, request_id, event, caller, slot).await });
        let head = answered.await.unwrap_or(Err(Failure::Stopping))?;
        let mut response = Response::new(Body::from_stream(stream::poll_fn(move |cx| {
            bytes.poll_recv(cx)
        })));
        *response.status_mut() = head.status;
        *response.headers_mut() = head.headers;
        Ok(response)
    }

    async fn run(
        &self,
        function: Function,
        request_id: String,
        event: Bytes,
        mut caller: Caller,
        slot: OwnedSemaphorePermit,
    ) {
        let started = Instant::now();
        let deadline = tokio::time::Instant::now() + self.timeout;
        let mut stop = self.stopping.subscribe();
        // An idle process may die before it fetches the event; then another one can have it.
        let (outcome, who) = loop {
            let stamp = function.stamp();
            let (mut instance, reused) = match self.take_idle(&stamp) {
                Some(instance) => (instance, true),
                None => match self.start(&function, stamp).await {
                    Ok(instance) => (instance, false),
                    Err(error) => {
                        break (Err(Failure::CannotStart(error.to_string())), String::new());
                    }
                },
            };
            let name = instance.name.clone();
            let (told, mut news) = mpsc::channel(64);
            let timeout_ms = i64::try_from(self.timeout.as_millis()).unwrap_or(i64::MAX);
            let job = Job {
                request_id: request_id.clone(),
                event: event.clone(),
                deadline_ms: clock::now_ms().saturating_add(timeout_ms),
                arn: format!(
                    "arn:aws:lambda:{}:000000000000:function:{}",
                    function.region, function.name
                ),
                told,
            };
            let mut fetched = false;
            let outcome = if instance.jobs.send(job).await.is_err() {
                Err(Failure::Failed("the process is gone".to_owned()))
            } else {
                let mut watch = Watch {
                    news: &mut news,
                    fetched: &mut fetched,
                    caller: &mut caller,
                };
                watch.follow(&mut instance, deadline, &mut stop).await
            };
            match &outcome {
                Err(Failure::Failed(_)) if reused && !fetched && instance.has_exited() => continue,
                // The function said that it failed, its process lives on.
                Err(Failure::Failed(_)) if !instance.has_exited() => self.put_idle(instance),
                Ok(_) => self.put_idle(instance),
                Err(_) => instance.kill().await,
            }
            break (outcome, name);
        };
        let what = match &outcome {
            Ok(status) => format!("status={}", status.as_u16()),
            Err(Failure::CannotStart(why) | Failure::Failed(why)) => format!("failed: {why}"),
            Err(Failure::TimedOut) => "timed out".to_owned(),
            Err(Failure::Stopping) => "stopped".to_owned(),
        };
        let took = started.elapsed().as_millis();
        self.log.line(
            &who,
            &format!("REPORT request={request_id} duration_ms={took} {what}"),
        );
        if let Err(failure) = outcome {
            caller.fail(failure).await;
        }
        drop(slot);
    }

    async fn start(&self, function: &Function, stamp: Stamp) -> io::Result<Instance> {
        let number = self.started.fetch_add(1, Ordering::Relaxed) + 1;
        Instance::start(
            function,
            stamp,
            format!("{}#{number}", function.name),
            &self.log,
        )
        .await
    }

    /// An instance that waits and is up to date; those that are not are dropped, which kills them.
    fn take_idle(&self, stamp: &Stamp) -> Option<Instance> {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        idle.retain_mut(|instance| instance.stamp == *stamp && !instance.has_exited());
        idle.pop()
    }

    fn put_idle(&self, instance: Instance) {
        if !*self.stopping.borrow() {
            self.idle
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .push(instance);
        }
    }

    /// Kills every instance and waits until all are gone.
    pub(crate) async fn stop(&self) {
        self.stopping.send_replace(true);
        let all = u32::try_from(MOST_INSTANCES).unwrap_or(u32::MAX);
        let wait = tokio::time::timeout(Duration::from_secs(3), self.slots.acquire_many(all));
        // The permits are forgotten with the closed semaphore, and late ones die with the process.
        _ = wait.await;
        self.slots.close();
        let idle: Vec<_> =
            std::mem::take(&mut *self.idle.lock().unwrap_or_else(PoisonError::into_inner));
        for instance in idle {
            instance.kill().await;
        }
    }
}

/// Whoever waits for the answer, as long as they do.
struct Caller {
    head: Option<oneshot::Sender<Result<Head, Failure>>>,
    body: Option<mpsc::Sender<io::Result<Bytes>>>,
}

impl Caller {
    fn head(&mut self, head: Head) {
        if let Some(waiting) = self.head.take()
            && waiting.send(Ok(head)).is_err()
        {
            self.body = None;
        }
    }

    async fn bytes(&mut self, bytes: io::Result<Bytes>) {
        if let Some(body) = &self.body {
            let sent = tokio::time::timeout(LONGEST_STALL, body.send(bytes)).await;
            if !matches!(sent, Ok(Ok(()))) {
                self.body = None;
            }
        }
    }

    /// Tells a failure: as an answer if none has begun, otherwise by breaking it off.
    async fn fail(&mut self, failure: Failure) {
        match self.head.take() {
            // A caller who left does not mind.
            Some(waiting) => _ = waiting.send(Err(failure)),
            None => self.bytes(Err(io::ErrorKind::ConnectionReset.into())).await,
        }
    }
}

/// One invocation being watched.
struct Watch<'a> {
    news: &'a mut mpsc::Receiver<Told>,
    fetched: &'a mut bool,
    caller: &'a mut Caller,
}

impl Watch<'_> {
    async fn follow(
        &mut self,
        instance: &mut Instance,
        deadline: tokio::time::Instant,
        stop: &mut watch::Receiver<bool>,
    ) -> Result<StatusCode, Failure> {
        let mut status = StatusCode::OK;
        let mut dead = None;
        let mut ended = String::new();
        loop {
            let last_words = dead.unwrap_or(deadline);
            tokio::select! {
                biased;
                () = stopped(stop) => return Err(Failure::Stopping),
                news = self.news.recv() => match news {
                    Some(Told::Fetched) => *self.fetched = true,
                    Some(Told::Head(head)) => {
                        status = head.status;
                        self.caller.head(head);
                    }
                    Some(Told::Bytes(bytes)) => self.caller.bytes(Ok(bytes)).await,
                    Some(Told::End) => return Ok(status),
                    Some(Told::Failed(why)) => return Err(Failure::Failed(why)),
                    None => return Err(Failure::Failed("the process left without an answer".to_owned())),
                },
                exit = instance.child.wait(), if dead.is_none() => {
                    // What it wrote before it ended may still be on its way.
                    dead = Some(tokio::time::Instant::now() + LAST_WORDS);
                    ended = exit.map_or_else(|error| error.to_string(), |exit| exit.to_string());
                }
                () = tokio::time::sleep_until(last_words) => {
                    return Err(match dead {
                        Some(_) => Failure::Failed(format!("the process ended: {ended}")),
                        None => Failure::TimedOut,
                    });
                }
            }
        }
    }
}

async fn stopped(stop: &mut watch::Receiver<bool>) {
    // A host that is gone has stopped as well.
    _ = stop.wait_for(|stopping| *stopping).await;
}

/// A random id in the form of AWS request ids.
pub(crate) fn request_id() -> String {
    let hex = format!("{:032x}", random::<u128>());
    let parts = [
        &hex[..8],
        &hex[8..12],
        &hex[12..16],
        &hex[16..20],
        &hex[20..],
    ];
    parts.join("-")
}
