//! The model: any OpenAI-compatible Chat Completions endpoint, streaming.

mod collect;
mod events;
mod wire;

use std::time::Duration;

use futures::StreamExt;
use secrecy::{ExposeSecret, SecretString};
use serde_json::{Map, Value};
use tokio::time::{Instant, sleep, timeout, timeout_at};
use toshi_core::{Finish, MODEL_FIRST_BYTE_MS, MODEL_IDLE_MS};

use collect::Collector;

/// Where the model is.
#[derive(Clone, Debug)]
pub struct ModelConfig {
    /// The base, such as `https://api.example.com/v1`; `/chat/completions` is appended.
    pub url: String,
    pub model: String,
}

/// One message of a prompt.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum PromptMessage {
    System(String),
    User(String),
    Assistant {
        text: String,
        calls: Vec<ModelCall>,
    },
    /// What became of a call of the assistant message before it.
    Tool {
        call: String,
        text: String,
    },
}

/// A tool as the model is shown it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ModelTool {
    pub name: String,
    pub description: String,
    pub schema: Map<String, Value>,
}

impl ModelTool {
    /// What it takes of a prompt, in bytes.
    pub(crate) fn size(&self) -> usize {
        let schema = serde_json::to_string(&self.schema).map_or(0, |schema| schema.len());
        self.name.len() + self.description.len() + schema
    }
}

#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Prompt {
    pub messages: Vec<PromptMessage>,
    pub tools: Vec<ModelTool>,
}

/// A call as the model wrote it: unchecked.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ModelCall {
    pub id: String,
    pub name: String,
    pub arguments: String,
}

/// One whole answer of the model.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ModelStep {
    pub text: String,
    pub calls: Vec<ModelCall>,
    pub finish: Finish,
}

/// Why there is no answer. The sentences are for people and hold nothing of the model's text.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ModelError {
    #[error("the model cannot be reached at the moment; please try again in a minute")]
    Unreachable,
    #[error("the model did not answer in time; please try again")]
    Timeout,
    #[error("the model is busy; please try again in {}", minutes(.after_s.unwrap_or(60)))]
    Busy {
        /// What the server asked to wait, in seconds.
        after_s: Option<u64>,
    },
    #[error("the model refused our key; an administrator must set it again")]
    Key,
    #[error("no key for the model is set; an administrator must set it")]
    NoKey,
    #[error("the model refused the request (HTTP {0})")]
    Refused(u16),
    #[error("the model's answer broke off; please try again")]
    BrokenOff,
    #[error("the model's answer could not be understood; nothing was done")]
    Unreadable,
}

/// Whether the model answers, in plain words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModelHealth {
    pub ok: bool,
    pub detail: String,
}

/// One model, over the process's shared HTTP client.
#[derive(Clone, Debug)]
pub struct Model {
    http: reqwest::Client,
    config: ModelConfig,
}

/// Tokens that a model may write in one step.
const STEP_TOKENS: u32 = 4_096;
/// A busy model is asked once more if it wants no longer wait than this, in seconds.
const BUSY_WAIT_S: u64 = 10;
/// A server that wants a longer wait than a day says nothing useful.
const RETRY_AFTER_MAX_S: u64 = 24 * 3600;

/// What one answer may take.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bounds {
    pub(crate) within: Duration,
    pub(crate) tokens: u32,
}

impl Bounds {
    /// A step of a turn, in what is left of it.
    pub(crate) const fn step(within: Duration) -> Self {
        Self {
            within,
            tokens: STEP_TOKENS,
        }
    }
}

fn minutes(seconds: u64) -> String {
    match seconds.div_ceil(60) {
        0 | 1 => "a minute".to_owned(),
        minutes => format!("{minutes} minutes"),
    }
}

impl Model {
    pub const fn new(http: reqwest::Client, config: ModelConfig) -> Self {
        Self { http, config }
    }

    pub fn name(&self) -> &str {
        &self.config.model
    }

    /// Asks for one answer; text is handed on as it comes.
    pub(crate) async fn step(
        &self,
        key: &SecretString,
        prompt: &Prompt,
        bounds: Bounds,
        on_text: impl FnMut(&str),
    ) -> Result<ModelStep, ModelError> {
        // A server that trickles is never silent for long.
        timeout(
            bounds.within,
            self.answer(key, prompt, bounds.tokens, on_text),
        )
        .await
        .unwrap_or(Err(ModelError::Timeout))
    }

    async fn answer(
        &self,
        key: &SecretString,
        prompt: &Prompt,
        tokens: u32,
        mut on_text: impl FnMut(&str),
    ) -> Result<ModelStep, ModelError> {
        let body = wire::request(&self.config.model, prompt, tokens);
        let first_byte = Duration::from_millis(MODEL_FIRST_BYTE_MS);
        let idle = Duration::from_millis(MODEL_IDLE_MS);
        let response = match self.send(key, &body, first_byte).await {
            Err(ModelError::Busy { after_s: Some(s) }) if s <= BUSY_WAIT_S => {
                sleep(Duration::from_secs(s)).await;
                self.send(key, &body, first_byte).await?
            }
            response => response?,
        };
        let mut pieces = response.bytes_stream();
        let mut collector = Collector::default();
        // Comments keep a connection alive and say nothing of the answer: only events count.
        let mut until = Instant::now() + first_byte;
        while !collector.is_done() {
            let piece = timeout_at(until, pieces.next())
                .await
                .map_err(|_| ModelError::Timeout)?;
            let Some(Ok(piece)) = piece else { break };
            if collector.feed(&piece, &mut on_text)? > 0 {
                until = Instant::now() + idle;
            }
        }
        collector.finish(tokens)
    }

    async fn send(
        &self,
        key: &SecretString,
        body: &Value,
        within: Duration,
    ) -> Result<reqwest::Response, ModelError> {
        let url = format!("{}/chat/completions", self.config.url.trim_end_matches('/'));
        let request = self
            .http
            .post(url)
            .bearer_auth(key.expose_secret())
            .header("accept", "text/event-stream")
            .json(body)
            .send();
        let response = timeout(within, request)
            .await
            .map_err(|_| ModelError::Timeout)?
            .map_err(|error| {
                // The URL may hold a key; the error's kind is enough.
                tracing::warn!(error = %error.without_url(), "the model cannot be reached");
                ModelError::Unreachable
            })?;
        let status = response.status().as_u16();
        match status {
            200 => Ok(response),
            401 | 403 => Err(ModelError::Key),
            429 | 503 | 529 => Err(ModelError::Busy {
                after_s: retry_after(&response),
            }),
            500..=599 => Err(ModelError::Unreachable),
            _ => {
                tracing::error!(status, "the model refused the request");
                Err(ModelError::Refused(status))
            }
        }
    }

    /// One tiny real call.
    pub async fn health(&self, key: &SecretString) -> ModelHealth {
        let prompt = Prompt {
            messages: vec![PromptMessage::User("Answer with the word OK.".to_owned())],
            tools: Vec::new(),
        };
        let within = Duration::from_millis(MODEL_FIRST_BYTE_MS);
        match self.step(key, &prompt, Bounds::step(within), |_| {}).await {
            Ok(_) => ModelHealth {
                ok: true,
                detail: "the model answers".to_owned(),
            },
            Err(error) => ModelHealth {
                ok: false,
                detail: error.to_string(),
            },
        }
    }
}

/// The wait that a server asks for, if it says so in seconds: no clock but ours counts.
fn retry_after(response: &reqwest::Response) -> Option<u64> {
    let header = response.headers().get(reqwest::header::RETRY_AFTER)?;
    let seconds: u64 = header.to_str().ok()?.trim().parse().ok()?;
    Some(seconds.min(RETRY_AFTER_MAX_S))
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;
    use tokio::task::JoinSet;

    /// A model on one connection, which writes a beginning and then `again` for ever.
    async fn model(beginning: &'static str, again: &'static str) -> (Model, JoinSet<()>) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/", listener.local_addr().unwrap());
        let mut serving = JoinSet::new();
        serving.spawn(async move {
            let (mut stream, _) = listener.accept().await.unwrap();
            _ = stream.read(&mut [0; 4096]).await;
            _ = stream.write_all(beginning.as_bytes()).await;
            while stream.write_all(again.as_bytes()).await.is_ok() {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        });
        let http = reqwest::Client::builder().no_proxy().build().unwrap();
        let config = ModelConfig {
            url,
            model: "m".to_owned(),
        };
        (Model::new(http, config), serving)
    }

    const HEAD: &str = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n";

    #[tokio::test]
    async fn a_server_that_only_says_that_it_is_alive_gets_no_more_than_its_time() {
        let (model, _serving) = model(HEAD, ": alive\n\n").await;
        let within = Duration::from_millis(300);
        let start = std::time::Instant::now();
        let step = ask(&model, within, |_| {}).await;
        assert_eq!(step, Err(ModelError::Timeout));
        assert!(start.elapsed() < Duration::from_secs(5));
    }

    #[tokio::test]
    async fn a_stream_that_never_stops_is_not_read_for_ever() {
        const EVENT: &str = "data: {\"choices\":[{\"delta\":{\"content\":\"xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx\"}}]}\n\n";
        let (model, _serving) = model(HEAD, &*EVENT.repeat(400).leak()).await;
        let within = Duration::from_secs(60);
        let mut heard = 0;
        let step = ask(&model, within, |text| heard += text.len()).await;
        assert_eq!(step, Err(ModelError::Unreadable));
        assert!((1..=48 * 1024).contains(&heard), "{heard}");
    }

    async fn ask(
        model: &Model,
        within: Duration,
        on_text: impl FnMut(&str),
    ) -> Result<ModelStep, ModelError> {
        let key = "key".to_owned().into();
        let bounds = Bounds::step(within);
        model.step(&key, &Prompt::default(), bounds, on_text).await
    }

    /// A model that answers each connection with the next of these bytes, in pieces of this size,
    /// and closes.
    async fn model_of(answers: Vec<Vec<u8>>, piece: usize) -> (Model, JoinSet<()>) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/", listener.local_addr().unwrap());
        let mut serving = JoinSet::new();
        serving.spawn(async move {
            for answer in answers {
                let (mut stream, _) = listener.accept().await.unwrap();
                stream.set_nodelay(true).unwrap();
                _ = stream.read(&mut [0; 4096]).await;
                for piece in answer.chunks(piece) {
                    _ = stream.write_all(piece).await;
                    tokio::task::yield_now().await;
                }
            }
        });
        let http = reqwest::Client::builder().no_proxy().build().unwrap();
        let config = ModelConfig {
            url,
            model: "m".to_owned(),
        };
        (Model::new(http, config), serving)
    }

    fn streamed(events: &str) -> Vec<u8> {
        format!(
            "{}connection: close\r\n\r\n{events}",
            &HEAD[..HEAD.len() - 2]
        )
        .into_bytes()
    }

    #[tokio::test]
    async fn an_answer_that_comes_byte_by_byte_is_the_answer_that_comes_at_once() {
        let call = r#"{"choices":[{"delta":{"tool_calls":[{"index":0,"id":"a","function":{"name":"p","arguments":"{\"to\":\"Zoë 🙂\"}"}}]}}]}"#;
        let text = r#"{"choices":[{"delta":{"content":"Grüße"}}]}"#;
        let end = r#"{"choices":[{"delta":{},"finish_reason":"tool_calls"}]}"#;
        let whole = ModelStep {
            text: "Grüße".to_owned(),
            calls: vec![ModelCall {
                id: "a".to_owned(),
                name: "p".to_owned(),
                arguments: r#"{"to":"Zoë 🙂"}"#.to_owned(),
            }],
            finish: Finish::ToolCalls,
        };
        let usual = format!(
            "\u{feff}: hi\ndata: {text}\n\ndata: {call}\n\ndata: {end}\n\ndata: [DONE]\n\n"
        );
        let no_done = usual.replace("data: [DONE]\n\n", "");
        let streams = [
            (usual.clone(), Ok(whole.clone())),
            (usual.replace('\n', "\r\n"), Ok(whole.clone())),
            (usual.replace('\n', "\r"), Ok(whole.clone())),
            (no_done.clone(), Ok(whole.clone())),
            (format!("{usual}{usual}"), Ok(whole)),
            // The last event is not ended: it is no event.
            (no_done.trim_end().to_owned(), Err(ModelError::BrokenOff)),
            (
                usual[..usual.len() / 2].to_owned(),
                Err(ModelError::BrokenOff),
            ),
            (String::new(), Err(ModelError::BrokenOff)),
        ];
        for (stream, expected) in streams {
            for piece in [1, 7, usize::MAX] {
                let (model, _serving) = model_of(vec![streamed(&stream)], piece).await;
                let step = ask(&model, Duration::from_secs(30), |_| {}).await;
                assert_eq!(step, expected, "pieces of {piece}: {stream:?}");
            }
        }
    }

    fn refused(status: &str, header: &str) -> Vec<u8> {
        format!("HTTP/1.1 {status}\r\n{header}connection: close\r\ncontent-length: 0\r\n\r\n")
            .into_bytes()
    }

    #[tokio::test]
    async fn a_busy_model_is_asked_once_more_if_it_wants_only_a_moment() {
        let good = || {
            let text = r#"{"choices":[{"delta":{"content":"ok"},"finish_reason":"stop"}]}"#;
            streamed(&format!("data: {text}\n\n"))
        };
        let within = Duration::from_secs(30);
        for status in [
            "429 Too Many Requests",
            "503 Service Unavailable",
            "529 Overloaded",
        ] {
            let soon = refused(status, "retry-after: 0\r\n");
            let (model, _serving) = model_of(vec![soon.clone(), good()], usize::MAX).await;
            assert_eq!(ask(&model, within, |_| {}).await.unwrap().text, "ok");
            let (model, _serving) = model_of(vec![soon.clone(), soon, good()], usize::MAX).await;
            let twice = ask(&model, within, |_| {}).await;
            assert_eq!(twice, Err(ModelError::Busy { after_s: Some(0) }));
        }
        let rows = [
            ("", None, "in a minute"),
            ("retry-after: 11\r\n", Some(11), "in a minute"),
            ("retry-after: 150\r\n", Some(150), "in 3 minutes"),
            ("retry-after: soon\r\n", None, "in a minute"),
            ("retry-after: -5\r\n", None, "in a minute"),
            ("retry-after: 99999999\r\n", Some(86_400), "in 1440 minutes"),
            (
                "retry-after: Wed, 21 Oct 2026 07:28:00 GMT\r\n",
                None,
                "in a minute",
            ),
        ];
        for (header, after_s, words) in rows {
            let busy = refused("429 Too Many Requests", header);
            let (model, _serving) = model_of(vec![busy, good()], usize::MAX).await;
            let error = ask(&model, within, |_| {}).await.unwrap_err();
            assert_eq!(error, ModelError::Busy { after_s }, "{header}");
            assert!(error.to_string().ends_with(words), "{error}");
        }
    }

    #[tokio::test]
    async fn other_refusals_are_told_apart_and_not_tried_again() {
        let rows = [
            ("401 Unauthorized", ModelError::Key),
            ("403 Forbidden", ModelError::Key),
            ("400 Bad Request", ModelError::Refused(400)),
            ("404 Not Found", ModelError::Refused(404)),
            ("500 Internal Server Error", ModelError::Unreachable),
            ("502 Bad Gateway", ModelError::Unreachable),
        ];
        for (status, expected) in rows {
            let (model, _serving) = model_of(vec![refused(status, "retry-after: 0\r\n")], 64).await;
            let within = Duration::from_secs(30);
            assert_eq!(ask(&model, within, |_| {}).await, Err(expected), "{status}");
        }
    }
}
