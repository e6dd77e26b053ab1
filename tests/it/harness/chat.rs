use std::time::Duration;

use serde_json::{Value, json};

use super::{Answer, Person, Told, fresh, settled};

/// One conversation of one person.
pub(crate) struct Chat<'a> {
    pub(crate) person: &'a Person<'a>,
    pub(crate) id: String,
}

impl<'a> Chat<'a> {
    pub(crate) fn new(person: &'a Person<'a>, id: String) -> Self {
        Self { person, id }
    }

    /// What a client posts for a new message.
    pub(crate) fn message(&self, text: &str) -> Value {
        self.message_with_id(&fresh("m"), text)
    }

    pub(crate) fn message_with_id(&self, id: &str, text: &str) -> Value {
        let part = json!({ "type": "text", "text": text });
        json!({
            "id": self.id,
            "trigger": "submit-message",
            "messages": [{ "id": id, "role": "user", "parts": [part] }],
        })
    }

    /// The whole answer to a message.
    pub(crate) async fn say(&self, text: &str) -> Told {
        self.post(&self.message(text)).await
    }

    /// Asks for one write; the id of the approval that it waits for.
    pub(crate) async fn ask_to_post(&self, text: &str, channel: &str) -> String {
        let told = self.say(&format!("post \"{text}\" to {channel}")).await;
        let approvals = told.approvals();
        assert_eq!(approvals.len(), 1, "{:?}", told.chunks);
        approvals[0].clone()
    }

    /// Posts this body; waits and tries again while there were too many messages.
    pub(crate) async fn post(&self, body: &Value) -> Told {
        Told::of(&self.try_post(body).await)
    }

    /// The answer as it comes; only too many messages are waited for, as long as they are told to.
    pub(crate) async fn try_post(&self, body: &Value) -> Answer {
        loop {
            let answer = self.person.post("/v1/chat", body).await;
            if answer.status != 429 {
                return answer;
            }
            let seconds = answer.header("retry-after").parse().expect("seconds");
            assert!((1..=60).contains(&seconds), "{seconds}");
            tokio::time::sleep(Duration::from_secs(seconds)).await;
        }
    }

    pub(crate) async fn read(&self) -> Answer {
        self.person
            .get(&format!("/v1/conversations/{}/messages", self.id))
            .await
    }

    pub(crate) async fn messages(&self) -> Vec<Value> {
        let page = self.read().await.ok();
        page["items"].as_array().expect("messages").clone()
    }

    /// The messages when nothing runs any more and `fits` holds.
    pub(crate) async fn until(
        &self,
        what: &str,
        seconds: u64,
        fits: impl Fn(&[Value]) -> bool,
    ) -> Vec<Value> {
        let found = settled(what, seconds, async || {
            let page = self.read().await.ok();
            let messages = page["items"].as_array().expect("messages");
            if page["running"] == false && fits(messages) {
                return Ok(messages.clone());
            }
            Err(format!(
                "running: {}\n{}",
                page["running"],
                sketch(messages)
            ))
        });
        found.await
    }

    /// The messages when the last answer ends with words that contain this.
    pub(crate) async fn until_told(&self, words: &str, seconds: u64) -> Vec<Value> {
        let fits = |messages: &[Value]| {
            messages
                .last()
                .is_some_and(|last| last_text(last).contains(words))
        };
        self.until(&format!("told {words:?}"), seconds, fits).await
    }
}

/// The last words of a message; empty if it does not end with words.
pub(crate) fn last_text(message: &Value) -> &str {
    let last = message["parts"].as_array().and_then(|parts| parts.last());
    last.and_then(|part| part["text"].as_str())
        .unwrap_or_default()
}

/// A line for each message: who, and the words or states of its parts.
fn sketch(messages: &[Value]) -> String {
    let line = |message: &Value| {
        let parts = message["parts"].as_array().into_iter().flatten();
        let parts = parts.filter_map(|part| part["text"].as_str().or(part["state"].as_str()));
        format!(
            "{}: {}\n",
            message["role"],
            parts.collect::<Vec<_>>().join(" | ")
        )
    };
    messages.iter().map(line).collect()
}
