//! The model: any OpenAI-compatible Chat Completions endpoint, streaming.

mod collect;
mod wire;

use std::time::Duration;

use futures::StreamExt;
use secrecy::{ExposeSecret, SecretString};
use serde_json::{Map, Value};
use sse_stream::SseStream;
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
pub enum PromptMessage {
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
pub struct ModelTool {
    pub name: String,
    pub description: String,
    pub schema: Map<String, Value>,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Prompt {
    pub messages: Vec<PromptMessage>,
    pub tools: Vec<ModelTool>,
}

/// A call as the model wrote it: unchecked.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ModelCall {
    pub id: String,
    pub name: String,
    pub arguments: String,
}

/// One whole answer of the model.
#[derive(Clone, Debug, PartialEq)]
pub struct ModelStep {
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
    #[error("the model is busy; please try again in a minute")]
    Busy,
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

/// Answers longer than this are a fault: no model of ours may write more in one step.
const ANSWER_MAX: usize = 512 * 1024;
/// Tokens that a model may write in one step.
const TOKENS_MAX: u32 = 4_096;

impl Model {
    pub const fn new(http: reqwest::Client, config: ModelConfig) -> Self {
        Self { http, config }
    }

    pub fn name(&self) -> &str {
        &self.config.model
    }

    /// Asks for one step, which may take `within`; text is handed on as it comes.
    pub async fn step(
        &self,
        key: &SecretString,
        prompt: &Prompt,
        within: Duration,
        on_text: impl FnMut(&str),
    ) -> Result<ModelStep, ModelError> {
        // A server that trickles is never silent for long.
        tokio::time::timeout(within, self.answer(key, prompt, on_text))
            .await
            .unwrap_or(Err(ModelError::Timeout))
    }

    async fn answer(
        &self,
        key: &SecretString,
        prompt: &Prompt,
        mut on_text: impl FnMut(&str),
    ) -> Result<ModelStep, ModelError> {
        let body = wire::request(&self.config.model, prompt, TOKENS_MAX);
        let first_byte = Duration::from_millis(MODEL_FIRST_BYTE_MS);
        let idle = Duration::from_millis(MODEL_IDLE_MS);
        let response = tokio::time::timeout(first_byte, self.send(key, &body))
            .await
            .map_err(|_| ModelError::Timeout)??;
        let mut events = SseStream::from_bytes_stream(response.bytes_stream());
        let mut collector = Collector::default();
        let mut wait = first_byte;
        let mut size = 0;
        loop {
            let event = tokio::time::timeout(wait, events.next())
                .await
                .map_err(|_| ModelError::Timeout)?;
            wait = idle;
            let event = match event {
                Some(Ok(event)) => event,
                Some(Err(_)) | None => break,
            };
            let Some(data) = event.data else { continue };
            if data.trim() == "[DONE]" {
                break;
            }
            size += data.len();
            if size > ANSWER_MAX {
                return Err(ModelError::Unreadable);
            }
            if let Some(text) = collector.take(&data)? {
                on_text(&text);
            }
        }
        collector.finish()
    }

    async fn send(
        &self,
        key: &SecretString,
        body: &Value,
    ) -> Result<reqwest::Response, ModelError> {
        let url = format!("{}/chat/completions", self.config.url.trim_end_matches('/'));
        let response = self
            .http
            .post(url)
            .bearer_auth(key.expose_secret())
            .header("accept", "text/event-stream")
            .json(body)
            .send()
            .await
            .map_err(|error| {
                // The URL may hold a key; the error's kind is enough.
                tracing::warn!(error = %error.without_url(), "the model cannot be reached");
                ModelError::Unreachable
            })?;
        let status = response.status().as_u16();
        match status {
            200 => Ok(response),
            401 | 403 => Err(ModelError::Key),
            429 | 503 | 529 => Err(ModelError::Busy),
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
        match self.step(key, &prompt, within, |_| {}).await {
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
        let step = model
            .step(&"key".to_owned().into(), &Prompt::default(), within, |_| {})
            .await;
        assert_eq!(step, Err(ModelError::Timeout));
        assert!(start.elapsed() < Duration::from_secs(5));
    }

    #[tokio::test]
    async fn a_stream_that_never_stops_is_not_read_for_ever() {
        const EVENT: &str = "data: {\"choices\":[{\"delta\":{\"content\":\"xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx\"}}]}\n\n";
        let (model, _serving) = model(HEAD, &*EVENT.repeat(400).leak()).await;
        let within = Duration::from_secs(60);
        let mut heard = 0;
        let step = model
            .step(
                &"key".to_owned().into(),
                &Prompt::default(),
                within,
                |text| heard += text.len(),
            )
            .await;
        assert_eq!(step, Err(ModelError::Unreadable));
        assert!((1..=48 * 1024).contains(&heard), "{heard}");
    }
}
