use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::{Answer, Stack};

/// The emulator behind a stack: what the tests break there, nobody else can.
pub(crate) struct Aws<'a> {
    stack: &'a Stack,
    emulator: String,
    region: String,
    pub(crate) queue: String,
    pub(crate) table: String,
    pub(crate) audit_table: String,
    /// The deployed API, without the front before it.
    pub(crate) api: String,
    /// The deployed functions.
    pub(crate) functions: Vec<String>,
    pub(crate) worker: String,
    pub(crate) refresh: String,
}

/// Rows of both tables by table, partition and sort key.
pub(crate) type Rows = BTreeMap<(String, String, String), Value>;

/// The worker's subscription to its queue, off until this is put back.
pub(crate) struct Mapping(String);

impl<'a> Aws<'a> {
    pub(super) fn new(stack: &'a Stack, described: &Value) -> Self {
        let text = |value: &Value| value.as_str().expect("a text").to_owned();
        let environment = &described["chat"]["environment"];
        let emulator = text(&described["emulator"]);
        let (api, stage) = (text(&described["api_id"]), text(&described["stage"]));
        Self {
            stack,
            api: format!("{emulator}/restapis/{api}/{stage}/_user_request_"),
            emulator,
            region: text(&described["region"]),
            queue: text(&environment["TOSHI_WAKE_QUEUE_URL"]),
            table: text(&environment["TOSHI_TABLE"]),
            audit_table: text(&environment["TOSHI_AUDIT_TABLE"]),
            functions: described["functions"]
                .as_object()
                .expect("functions")
                .values()
                .map(text)
                .collect(),
            worker: text(&described["functions"]["approvals_worker"]),
            refresh: text(&described["functions"]["refresh"]),
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

    /// Every row of both tables in which one of these words stands.
    pub(crate) async fn rows_with(&self, words: &[&str]) -> Rows {
        let mut rows = Rows::new();
        for table in [&self.table, &self.audit_table] {
            let mut start = Value::Null;
            loop {
                let mut request = json!({ "TableName": table });
                if !start.is_null() {
                    request["ExclusiveStartKey"] = start;
                }
                let page = self.dynamodb("Scan", request).await;
                for row in page["Items"].as_array().into_iter().flatten() {
                    let text = row.to_string();
                    if words.iter().any(|word| text.contains(word)) {
                        let key = |name: &str| row[name]["S"].as_str().expect("a key").to_owned();
                        rows.insert((table.clone(), key("PK"), key("SK")), row.clone());
                    }
                }
                start = page["LastEvaluatedKey"].clone();
                if start.is_null() {
                    break;
                }
            }
        }
        rows
    }

    pub(crate) async fn row(&self, pk: &str, sk: &str) -> Value {
        let key = json!({ "PK": { "S": pk }, "SK": { "S": sk } });
        let read = self
            .dynamodb("GetItem", json!({ "TableName": self.table, "Key": key }))
            .await;
        assert!(read["Item"].is_object(), "there is no row {pk} {sk}");
        read["Item"].clone()
    }

    pub(crate) async fn put_row(&self, row: &Value) {
        let put = json!({ "TableName": self.table, "Item": row });
        self.dynamodb("PutItem", put).await;
    }

    pub(crate) async fn delete_row(&self, pk: &str, sk: &str) {
        let key = json!({ "PK": { "S": pk }, "SK": { "S": sk } });
        let delete = json!({ "TableName": self.table, "Key": key });
        self.dynamodb("DeleteItem", delete).await;
    }

    /// Runs a function as its trigger would; what it answers.
    pub(crate) async fn invoke(&self, function: &str, event: &Value) -> Value {
        let path = format!("/2015-03-31/functions/{function}/invocations");
        let url = format!("{}{path}", self.emulator);
        let request = self.stack.http.post(url).body(event.to_string());
        self.call("lambda", request).await
    }

    /// What a deployed function has logged so far.
    pub(crate) async fn logs(&self, function: &str) -> String {
        let mut lines = String::new();
        let mut next = Value::Null;
        loop {
            let mut request = json!({ "logGroupName": format!("/aws/lambda/{function}") });
            if !next.is_null() {
                request["nextToken"] = next;
            }
            let target = "Logs_20140328.FilterLogEvents";
            let page = self.json("logs", "1.1", target, request).await;
            for event in page["events"].as_array().into_iter().flatten() {
                lines.push_str(event["message"].as_str().unwrap_or_default());
                lines.push('\n');
            }
            next = page["nextToken"].clone();
            if next.is_null() {
                return lines;
            }
        }
    }

    /// A data key as the functions see it, in base64.
    pub(crate) async fn data_key(&self, wrapped: &str, context: &Value) -> String {
        let request = json!({ "CiphertextBlob": wrapped, "EncryptionContext": context });
        let opened = self
            .json("kms", "1.1", "TrentService.Decrypt", request)
            .await;
        opened["Plaintext"].as_str().expect("a key").to_owned()
    }

    /// The bodies of the messages that wait; they stay there.
    pub(crate) async fn hints(&self) -> Vec<String> {
        let body = json!({
            "QueueUrl": self.queue, "MaxNumberOfMessages": 10, "VisibilityTimeout": 0,
        });
        bodies(&self.sqs("ReceiveMessage", body).await)
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
        bodies(&self.sqs("ReceiveMessage", body).await)
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

fn bodies(received: &Value) -> Vec<String> {
    let messages = received["Messages"].as_array().into_iter().flatten();
    let bodies = messages.filter_map(|message| message["Body"].as_str());
    bodies.map(ToOwned::to_owned).collect()
}
