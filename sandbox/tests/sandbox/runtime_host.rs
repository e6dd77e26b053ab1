//! The streaming runtime host, with a function whose process only says where it listens and whose
//! work the test does itself.

use std::{
    os::unix::fs::PermissionsExt,
    path::PathBuf,
    process::Command,
    time::{Duration, Instant},
};

use anyhow::{Context, ensure};
use futures::future::join_all;
use reqwest::{Client, Response};
use serde_json::{Value, json};
use tokio::{sync::mpsc, task::JoinHandle, time::timeout};

use crate::harness::{Folder, Here, client, problem};

const SOON: Duration = Duration::from_secs(10);

/// Tells its own process id and Runtime API, then only exists.
const BOOTSTRAP: &str = "#!/bin/sh
echo \"started $TOSHI_RESPONSE\"
echo \"$AWS_LAMBDA_RUNTIME_API\" > \"$TEST_FOLDER/new.$$\"
mv \"$TEST_FOLDER/new.$$\" \"$TEST_FOLDER/instance.$$\"
exec sleep 600
";

struct Stage {
    here: Here,
    folder: PathBuf,
}

impl Stage {
    async fn set(function_timeout: Duration) -> anyhow::Result<Self> {
        let here = Here::start_with(Folder::new()?, function_timeout).await?;
        let folder = here.state.path().join("instances");
        std::fs::create_dir(&folder)?;
        let bootstrap = here.state.path().join("bootstrap");
        std::fs::write(&bootstrap, BOOTSTRAP)?;
        std::fs::set_permissions(&bootstrap, std::fs::Permissions::from_mode(0o755))?;
        let stage = Self { here, folder };
        stage.deploy("one")?;
        Ok(stage)
    }

    fn deploy(&self, version: &str) -> anyhow::Result<()> {
        self.here.deploy(&json!({
            "emulator": "http://127.0.0.1:1", "region": "eu-west-1", "api_id": "abc", "stage": "v1",
            "chat": {
                "bootstrap": self.here.state.path().join("bootstrap"),
                "environment": {"TEST_FOLDER": self.folder, "VERSION": version},
            },
            "functions": {}, "model": "scripted",
        }))
    }

    fn ask(&self, body: &'static str) -> JoinHandle<reqwest::Result<Response>> {
        tokio::spawn(
            self.here
                .http
                .post(self.here.at("/v1/chat?x=1"))
                .body(body)
                .send(),
        )
    }

    /// The processes that were started, by id.
    fn started(&self) -> anyhow::Result<Vec<u32>> {
        let mut pids = Vec::new();
        for entry in std::fs::read_dir(&self.folder)? {
            let name = entry?.file_name().to_string_lossy().into_owned();
            if let Some(pid) = name.strip_prefix("instance.") {
                pids.push(pid.parse()?);
            }
        }
        pids.sort_unstable();
        Ok(pids)
    }

    /// Waits for `count` processes and returns one that is not among `known`.
    async fn instance(&self, count: usize, known: &[u32]) -> anyhow::Result<Function> {
        let wait = async {
            loop {
                let pids = self.started()?;
                if pids.len() >= count
                    && let Some(pid) = pids.iter().find(|pid| !known.contains(pid))
                {
                    let api = std::fs::read_to_string(self.folder.join(format!("instance.{pid}")))?;
                    return Function::new(*pid, api.trim());
                }
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        timeout(SOON, wait)
            .await
            .context("no process was started")?
    }
}

/// The function's side of the Runtime API.
struct Function {
    pid: u32,
    http: Client,
    api: String,
}

/// A streamed answer that the test feeds.
struct Answer {
    chunks: mpsc::UnboundedSender<std::io::Result<Vec<u8>>>,
    sent: JoinHandle<reqwest::Result<Response>>,
}

impl Answer {
    fn send(&self, bytes: &str) -> anyhow::Result<()> {
        Ok(self.chunks.send(Ok(bytes.as_bytes().to_vec()))?)
    }

    async fn end(self) -> anyhow::Result<u16> {
        drop(self.chunks);
        Ok(timeout(SOON, self.sent).await???.status().as_u16())
    }
}

impl Function {
    fn new(pid: u32, api: &str) -> anyhow::Result<Self> {
        Ok(Self {
            pid,
            http: client()?,
            api: format!("http://{api}/2018-06-01/runtime"),
        })
    }

    async fn next(&self) -> anyhow::Result<(String, Value)> {
        let request = self
            .http
            .get(format!("{}/invocation/next", self.api))
            .send();
        let response = timeout(SOON, request).await.context("no event came")??;
        let text = |name: &str| {
            response
                .headers()
                .get(name)
                .and_then(|value| value.to_str().ok())
        };
        let id = text("lambda-runtime-aws-request-id")
            .context("no id")?
            .to_owned();
        let deadline: u64 = text("lambda-runtime-deadline-ms")
            .context("no deadline")?
            .parse()?;
        ensure!(deadline > 1_700_000_000_000, "{deadline}");
        ensure!(
            text("lambda-runtime-invoked-function-arn")
                .is_some_and(|arn| arn.contains("eu-west-1"))
        );
        Ok((id, response.json().await?))
    }

    async fn report(&self, path: &str, body: String) -> anyhow::Result<u16> {
        let request = self
            .http
            .post(format!("{}/{path}", self.api))
            .body(body)
            .send();
        Ok(timeout(SOON, request).await??.status().as_u16())
    }

    async fn answer(&self, id: &str, body: &str) -> anyhow::Result<u16> {
        let answer = json!({"statusCode": 201, "headers": {"x-f": "1"}, "body": body});
        self.report(&format!("invocation/{id}/response"), answer.to_string())
            .await
    }

    fn stream(&self, id: &str) -> anyhow::Result<Answer> {
        let (chunks, mut waiting) = mpsc::unbounded_channel();
        let body = futures::stream::poll_fn(move |cx| waiting.poll_recv(cx));
        let request = self
            .http
            .post(format!("{}/invocation/{id}/response", self.api))
            .header("lambda-runtime-function-response-mode", "streaming")
            .header(
                "content-type",
                "application/vnd.awslambda.http-integration-response",
            )
            .body(reqwest::Body::wrap_stream(body));
        let answer = Answer {
            chunks,
            sent: tokio::spawn(request.send()),
        };
        let prelude = json!({"statusCode": 200, "headers": {"content-type": "text/event-stream"}, "cookies": []});
        answer.send(&format!("{prelude}\0\0\0\0\0\0\0\0"))?;
        Ok(answer)
    }

    fn kill(&self) -> anyhow::Result<()> {
        ensure!(
            Command::new("kill")
                .args(["-9", &self.pid.to_string()])
                .status()?
                .success()
        );
        Ok(())
    }
}

fn is_alive(pid: u32) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    status
        .lines()
        .any(|line| line.starts_with("State:") && !line.contains("zombie"))
}

async fn chunk(response: &mut Response) -> anyhow::Result<String> {
    let chunk = timeout(SOON, response.chunk())
        .await
        .context("nothing came")??;
    Ok(String::from_utf8(
        chunk.context("the body ended")?.to_vec(),
    )?)
}

async fn arrives(asked: JoinHandle<reqwest::Result<Response>>) -> anyhow::Result<Response> {
    Ok(timeout(SOON, asked).await.context("no answer")???)
}

#[tokio::test]
async fn bytes_reach_the_caller_before_the_function_has_written_the_rest() -> anyhow::Result<()> {
    let stage = Stage::set(SOON).await?;
    let asked = stage.ask("hello");
    let function = stage.instance(1, &[]).await?;
    let (id, event) = function.next().await?;
    assert_eq!(
        (&event["path"], &event["httpMethod"]),
        (&json!("/chat"), &json!("POST"))
    );
    assert_eq!(
        (&event["body"], &event["queryStringParameters"]["x"]),
        (&json!("hello"), &json!("1"))
    );
    let answer = function.stream(&id)?;
    answer.send("data: 1\n\n")?;
    let mut response = arrives(asked).await?;
    assert_eq!(response.status(), 200);
    assert_eq!(response.headers()["content-type"], "text/event-stream");
    assert_eq!(chunk(&mut response).await?, "data: 1\n\n");
    answer.send("data: 2\n\n")?;
    assert_eq!(chunk(&mut response).await?, "data: 2\n\n");
    assert_eq!(answer.end().await?, 202);
    assert_eq!(response.chunk().await?, None);
    Ok(())
}

#[tokio::test]
async fn a_buffered_answer_is_unwrapped_and_its_instance_used_again() -> anyhow::Result<()> {
    let stage = Stage::set(SOON).await?;
    let asked = stage.ask("1");
    let function = stage.instance(1, &[]).await?;
    for round in ["1", "2"] {
        let asked = if round == "1" {
            None
        } else {
            Some(stage.ask("2"))
        };
        let (id, event) = function.next().await?;
        assert_eq!(event["body"], round);
        assert_eq!(function.answer("another", "x").await?, 400);
        assert_eq!(function.answer(&id, round).await?, 202);
        assert_eq!(function.answer(&id, "twice").await?, 400);
        if let Some(asked) = asked {
            assert_eq!(arrives(asked).await?.text().await?, "2");
        }
    }
    let response = arrives(asked).await?;
    assert_eq!(
        (
            response.status().as_u16(),
            response.headers()["x-f"].to_str()?
        ),
        (201, "1")
    );
    assert_eq!(response.text().await?, "1");
    assert_eq!(stage.started()?.len(), 1);
    let log = std::fs::read_to_string(stage.here.state.path().join("logs/chat.log"))?;
    assert!(log.contains("started stream"), "{log}");
    assert!(
        log.contains("duration_ms=") && log.contains("status=201"),
        "{log}"
    );
    Ok(())
}

#[tokio::test]
async fn a_caller_who_leaves_does_not_stop_the_invocation() -> anyhow::Result<()> {
    let stage = Stage::set(SOON).await?;
    let asked = stage.ask("hello");
    let function = stage.instance(1, &[]).await?;
    let (id, _) = function.next().await?;
    let answer = function.stream(&id)?;
    answer.send("data: 1\n\n")?;
    drop(arrives(asked).await?);
    for _ in 0..200 {
        answer.send(&"x".repeat(4096))?;
    }
    assert_eq!(answer.end().await?, 202);
    // The same holds for one who leaves before the first byte.
    let asked = stage.ask("again");
    let (id, _) = function.next().await?;
    asked.abort();
    assert_eq!(function.answer(&id, "done").await?, 202);
    assert!(is_alive(function.pid));
    Ok(())
}

#[tokio::test]
async fn a_crash_costs_its_own_invocation_only() -> anyhow::Result<()> {
    let stage = Stage::set(SOON).await?;
    let asked = stage.ask("1");
    let first = stage.instance(1, &[]).await?;
    first.next().await?;
    first.kill()?;
    let failed = (502, "function_failed".to_owned());
    assert_eq!(problem(arrives(asked).await?).await?, failed);

    let asked = stage.ask("2");
    let second = stage.instance(2, &[first.pid]).await?;
    let (id, _) = second.next().await?;
    let error = json!({"errorType": "E", "errorMessage": "no"}).to_string();
    assert_eq!(
        second
            .report(&format!("invocation/{id}/error"), error)
            .await?,
        202
    );
    assert_eq!(problem(arrives(asked).await?).await?, failed);

    // It failed properly and lives on; in the middle of a stream a failure breaks the body.
    let asked = stage.ask("3");
    let (id, _) = second.next().await?;
    let answer = second.stream(&id)?;
    answer.send("data: 1\n\n")?;
    let mut response = arrives(asked).await?;
    assert_eq!(chunk(&mut response).await?, "data: 1\n\n");
    answer.send("Lambda-Runtime-Function-Error-Type: Runtime.StreamError\r\n")?;
    assert!(timeout(SOON, response.chunk()).await?.is_err());
    Ok(())
}

#[tokio::test]
async fn an_event_that_a_dead_idle_process_never_fetched_goes_to_another() -> anyhow::Result<()> {
    let stage = Stage::set(SOON).await?;
    let asked = stage.ask("1");
    let first = stage.instance(1, &[]).await?;
    let (id, _) = first.next().await?;
    first.answer(&id, "1").await?;
    arrives(asked).await?;
    first.kill()?;
    let asked = stage.ask("2");
    let second = stage.instance(2, &[first.pid]).await?;
    let (id, event) = second.next().await?;
    assert_eq!(event["body"], "2");
    second.answer(&id, "2").await?;
    assert_eq!(arrives(asked).await?.status(), 201);
    Ok(())
}

#[tokio::test]
async fn eight_invocations_run_at_once_and_the_ninth_waits() -> anyhow::Result<()> {
    let stage = Stage::set(SOON).await?;
    let asked: Vec<_> = (0..9).map(|_| stage.ask("x")).collect();
    let mut functions: Vec<Function> = Vec::new();
    for _ in 0..8 {
        let known: Vec<_> = functions.iter().map(|function| function.pid).collect();
        functions.push(stage.instance(known.len() + 1, &known).await?);
    }
    let mut ids = Vec::new();
    for function in &functions {
        ids.push(function.next().await?.0);
    }
    assert_eq!(stage.started()?.len(), 8);
    for (function, id) in functions.iter().zip(&ids) {
        assert_eq!(function.answer(id, "done").await?, 202);
    }
    let ninth = functions.iter().map(|function| Box::pin(function.next()));
    let (ninth, which, _) = futures::future::select_all(ninth).await;
    assert_eq!(functions[which].answer(&ninth?.0, "done").await?, 202);
    for response in join_all(asked).await {
        assert_eq!(response??.status(), 201);
    }
    assert_eq!(stage.started()?.len(), 8);
    Ok(())
}

#[tokio::test]
async fn a_function_that_takes_too_long_is_killed() -> anyhow::Result<()> {
    let stage = Stage::set(Duration::from_millis(1500)).await?;
    let asked = stage.ask("1");
    let function = stage.instance(1, &[]).await?;
    function.next().await?;
    let told = problem(arrives(asked).await?).await?;
    assert_eq!(told, (504, "function_timed_out".to_owned()));
    assert!(!is_alive(function.pid));
    Ok(())
}

#[tokio::test]
async fn a_new_deployment_replaces_idle_instances() -> anyhow::Result<()> {
    let stage = Stage::set(SOON).await?;
    let asked = stage.ask("1");
    let old = stage.instance(1, &[]).await?;
    let (id, _) = old.next().await?;
    stage.deploy("two")?;
    assert_eq!(
        old.answer(&id, "1").await?,
        202,
        "a running invocation is left alone"
    );
    arrives(asked).await?;
    let asked = stage.ask("2");
    let new = stage.instance(2, &[old.pid]).await?;
    let (id, _) = new.next().await?;
    new.answer(&id, "2").await?;
    assert_eq!(arrives(asked).await?.status(), 201);
    let until = Instant::now() + SOON;
    while is_alive(old.pid) {
        assert!(Instant::now() < until, "the old process is still there");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    Ok(())
}

#[tokio::test]
async fn stopping_kills_busy_and_idle_processes() -> anyhow::Result<()> {
    let stage = Stage::set(SOON).await?;
    let (first, second) = (stage.ask("1"), stage.ask("2"));
    let idle = stage.instance(2, &[]).await?;
    let busy = stage.instance(2, &[idle.pid]).await?;
    let (id, _) = idle.next().await?;
    busy.next().await?;
    idle.answer(&id, "done").await?;
    stage.here.sandbox.stop().await?;
    assert!(!is_alive(idle.pid) && !is_alive(busy.pid));
    let statuses: Vec<_> = join_all([first, second]).await;
    for response in statuses {
        let status = response??.status().as_u16();
        assert!(matches!(status, 201 | 503), "{status}");
    }
    Ok(())
}
