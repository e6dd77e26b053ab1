use reqwest::Method;
use serde_json::{Value, json};

use super::{Answer, Chat, Stack, settled};

/// Someone who is signed in.
pub(crate) struct Person<'a> {
    pub(crate) stack: &'a Stack,
    pub(crate) name: String,
    pub(crate) token: String,
}

impl<'a> Person<'a> {
    pub(crate) fn new(stack: &'a Stack, name: &str, token: String) -> Self {
        Self {
            stack,
            name: name.to_owned(),
            token,
        }
    }

    /// A new conversation of theirs.
    pub(crate) fn chat(&self) -> Chat<'_> {
        Chat::new(self, super::fresh("chat"))
    }

    pub(crate) fn request(&self, method: Method, path: &str) -> reqwest::RequestBuilder {
        let url = format!("{}{path}", self.stack.base);
        self.stack
            .http
            .request(method, url)
            .bearer_auth(&self.token)
    }

    pub(crate) async fn send(&self, method: Method, path: &str, body: Option<&Value>) -> Answer {
        let mut request = self.request(method, path);
        if let Some(body) = body {
            request = request.json(body);
        }
        let answer = Answer::of(request.send().await.expect("an answer")).await;
        self.stack.hear(&answer);
        answer
    }

    pub(crate) async fn get(&self, path: &str) -> Answer {
        self.send(Method::GET, path, None).await
    }

    pub(crate) async fn post(&self, path: &str, body: &Value) -> Answer {
        self.send(Method::POST, path, Some(body)).await
    }

    pub(crate) async fn delete(&self, path: &str) -> Answer {
        self.send(Method::DELETE, path, None).await
    }

    pub(crate) async fn approval(&self, id: &str) -> Value {
        self.get(&format!("/v1/approvals/{id}")).await.ok()
    }

    pub(crate) async fn decide(&self, id: &str, body: &Value) -> Answer {
        self.post(&format!("/v1/approvals/{id}/decision"), body)
            .await
    }

    pub(crate) async fn approve(&self, id: &str) -> Value {
        self.decide(id, &json!({ "decision": "approve" }))
            .await
            .ok()
    }

    pub(crate) async fn reject(&self, id: &str, reason: &str) -> Value {
        self.decide(id, &json!({ "decision": "reject", "reason": reason }))
            .await
            .ok()
    }

    pub(crate) async fn resolve(&self, id: &str, outcome: &str, reason: &str) -> Answer {
        let body = json!({ "outcome": outcome, "reason": reason });
        self.post(&format!("/v1/approvals/{id}/resolve"), &body)
            .await
    }

    /// The approval when it has this state.
    pub(crate) async fn until(&self, id: &str, state: &str, seconds: u64) -> Value {
        let what = format!("{id} is {state}");
        let found = settled(&what, seconds, async || {
            let row = self.approval(id).await;
            if row["state"] == state {
                Ok(row)
            } else {
                Err(row.to_string())
            }
        });
        found.await
    }

    /// The events of an approval's audit in their order, after the chain was verified.
    pub(crate) async fn audit(&self, id: &str) -> Vec<Value> {
        let verified = self
            .get(&format!("/v1/audit/verify?approval={id}"))
            .await
            .ok();
        let records = self.get(&format!("/v1/audit?approval={id}")).await.ok();
        let records = records["items"].as_array().expect("records").clone();
        let whole = json!({
            "ok": true, "sealed_to": null, "checked": records.len(), "first_bad": null, "next": null,
        });
        assert_eq!(verified, whole);
        records
    }

    pub(crate) async fn events(&self, id: &str) -> Vec<String> {
        let records = self.audit(id).await;
        let name = |record: &Value| record["event"].as_str().expect("an event").to_owned();
        records.iter().map(name).collect()
    }
}
