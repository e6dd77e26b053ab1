use serde_json::{Value, json};

use super::{Answer, Stack};

/// The emulator behind a stack: what the tests break there, nobody else can.
pub(crate) struct Aws<'a> {
    stack: &'a Stack,
    emulator: String,
    region: String,
    pub(crate) queue: String,
    pub(crate) audit_table: String,
    worker: String,
}

/// The worker's subscription to its queue, off until this is put back.
pub(crate) struct Mapping(String);

impl<'a> Aws<'a> {
    pub(super) fn new(stack: &'a Stack, described: &Value) -> Self {
        let text = |value: &Value| value.as_str().expect("a text").to_owned();
        let environment = &described["chat"]["environment"];
        Self {
            stack,
            emulator: text(&described["emulator"]),
            region: text(&described["region"]),
            queue: text(&environment["TOSHI_WAKE_QUEUE_URL"]),
            audit_table: text(&environment["TOSHI_AUDIT_TABLE"]),
            worker: text(&described["functions"]["approvals_worker"]),
        }
    }

    async fn call(&self, service: &str, request: reqwest::RequestBuilder) -> Value {
        // The emulator reads the account and the region from the credential's scope alone.
        let scope = format!("test/20260101/{}/{service}/aws4_request", self.region);
        let signature = "SignedHeaders=host, Signature=0";
        let signed = format!("AWS4-HMAC-SHA256 Credential={scope}, {signature}");
        let request = request.header("authorization", signed);
        let answer = Answer::of(request.send().await.expect("an answer of the emulator")).await;
        assert!((200..300).contains(&answer.status), "{}", answer.text);
        answer.body
    }

    async fn json(&self, service: &str, version: &str, target: &str, body: Value) -> Value {
        let request = self.stack.http.post(&self.emulator);
        let request = request
            .header("x-amz-target", target)
            .header("content-type", format!("application/x-amz-json-{version}"))
            .body(body.to_string());
        self.call(service, request).await
    }

    pub(crate) async fn sqs(&self, action: &str, body: Value) -> Value {
        self.json("sqs", "1.0", &format!("AmazonSQS.{action}"), body)
            .await
    }

    pub(crate) async fn dynamodb(&self, action: &str, body: Value) -> Value {
        self.json(
            "dynamodb",
            "1.0",
            &format!("DynamoDB_20120810.{action}"),
            body,
        )
        .await
    }

    pub(crate) async fn wake(&self, message: &str) {
        let body = json!({ "QueueUrl": self.queue, "MessageBody": message });
        self.sqs("SendMessage", body).await;
    }

    /// Messages that wait in the wake queue, those that are being worked on not counted.
    pub(crate) async fn waiting(&self) -> u64 {
        let names = ["ApproximateNumberOfMessages"];
        let body = json!({ "QueueUrl": self.queue, "AttributeNames": names });
        let answer = self.sqs("GetQueueAttributes", body).await;
        let count = answer["Attributes"][names[0]].as_str().expect("a number");
        count.parse().expect("a number")
    }

    pub(crate) async fn purge(&self) {
        self.sqs("PurgeQueue", json!({ "QueueUrl": self.queue }))
            .await;
    }

    pub(crate) async fn set_visibility(&self, seconds: u32) {
        let attributes = json!({ "VisibilityTimeout": seconds.to_string() });
        let body = json!({ "QueueUrl": self.queue, "Attributes": attributes });
        self.sqs("SetQueueAttributes", body).await;
    }

    /// The bodies of dead messages; each is seen once a second.
    pub(crate) async fn dead_letters(&self) -> Vec<String> {
        let queue = format!("{}-dead", self.queue);
        let body = json!({
            "QueueUrl": queue, "MaxNumberOfMessages": 10, "VisibilityTimeout": 1,
        });
        let answer = self.sqs("ReceiveMessage", body).await;
        let messages = answer["Messages"].as_array().cloned().unwrap_or_default();
        let bodies = messages
            .iter()
            .filter_map(|message| message["Body"].as_str());
        bodies.map(ToOwned::to_owned).collect()
    }

    /// Nobody takes messages from the queue until it is subscribed again.
    pub(crate) async fn unsubscribe(&self) -> Mapping {
        let url = format!("{}/2015-03-31/event-source-mappings/", self.emulator);
        let listed = self
            .stack
            .http
            .get(format!("{url}?FunctionName={}", self.worker));
        let listed = self.call("lambda", listed).await;
        let id = listed["EventSourceMappings"][0]["UUID"]
            .as_str()
            .expect("a mapping")
            .to_owned();
        let mapping = Mapping(id);
        self.enable(&mapping, false).await;
        mapping
    }

    pub(crate) async fn subscribe(&self, mapping: Mapping) {
        self.enable(&mapping, true).await;
    }

    async fn enable(&self, Mapping(id): &Mapping, enabled: bool) {
        let url = format!("{}/2015-03-31/event-source-mappings/{id}", self.emulator);
        let request = self
            .stack
            .http
            .put(url)
            .json(&json!({ "Enabled": enabled }));
        self.call("lambda", request).await;
    }
}
