//! The demo workspace's other protocols: 2025-11-25 without sessions, 2026-07-28, and both.

use anyhow::{Context, ensure};
use reqwest::{Method, Response};
use serde_json::{Value, json};

use crate::harness::Here;

const META: &str = "io.modelcontextprotocol/";

/// A request of the stateless protocol, right in everything until it is changed.
struct Request {
    headers: Vec<(String, String)>,
    body: Value,
}

impl Request {
    fn new(method: &str, mut params: Value) -> Self {
        let mut headers = vec![
            ("accept", "application/json, text/event-stream"),
            ("content-type", "application/json"),
            ("mcp-protocol-version", "2026-07-28"),
            ("mcp-method", method),
        ];
        let name = params["name"].as_str().map(str::to_owned);
        headers.extend(name.as_deref().map(|name| ("mcp-name", name)));
        params["_meta"] = json!({
            (format!("{META}protocolVersion")): "2026-07-28",
            (format!("{META}clientInfo")): {"name": "test", "version": "1"},
            (format!("{META}clientCapabilities")): {},
        });
        let owned = |(name, value): (&str, &str)| (name.to_owned(), value.to_owned());
        Self {
            headers: headers.into_iter().map(owned).collect(),
            body: json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}),
        }
    }

    fn call(tool: &str, arguments: Value) -> Self {
        Self::new("tools/call", json!({"name": tool, "arguments": arguments}))
    }

    fn without(mut self, header: &str) -> Self {
        self.headers.retain(|(name, _)| name != header);
        self
    }

    fn with(mut self, header: &str, value: &str) -> Self {
        self = self.without(header);
        self.headers.push((header.to_owned(), value.to_owned()));
        self
    }

    fn meta(mut self, key: &str, value: Value) -> Self {
        self.body["params"]["_meta"][format!("{META}{key}")] = value;
        self
    }

    async fn send(self, here: &Here) -> anyhow::Result<Response> {
        let address = here.at("/_sandbox/mcp/demo/lakeside");
        let mut request = here.http.post(address).bearer_auth("demo-lakeside-token");
        for (name, value) in self.headers {
            request = request.header(name, value);
        }
        Ok(request.body(self.body.to_string()).send().await?)
    }

    async fn result(self, here: &Here) -> anyhow::Result<Value> {
        let response = self.send(here).await?;
        ensure!(response.status() == 200, "{}", response.text().await?);
        let body: Value = response.json().await?;
        ensure!(body["id"] == 1, "{body}");
        Ok(body["result"].clone())
    }

    /// The status and the code of a refusal.
    async fn refused(self, here: &Here) -> anyhow::Result<(u16, i64)> {
        let response = self.send(here).await?;
        let status = response.status().as_u16();
        let body: Value = response.json().await?;
        let code = body["error"]["code"].as_i64().context("no code")?;
        Ok((status, code))
    }
}

fn hello() -> Value {
    json!({"channel": "#general", "text": "Hello"})
}

async fn speaking(protocol: &str) -> anyhow::Result<Here> {
    let here = Here::start().await?;
    here.switch("mcp.demo.protocol", json!(protocol)).await?;
    Ok(here)
}

#[tokio::test]
async fn the_stateless_server_answers_each_request_by_itself() -> anyhow::Result<()> {
    let here = speaking("2026-07-28").await?;
    let found = Request::new("server/discover", json!({}))
        .result(&here)
        .await?;
    assert_eq!(found["supportedVersions"], json!(["2026-07-28"]));
    assert_eq!(found["resultType"], "complete");
    assert_eq!(
        found["_meta"][format!("{META}serverInfo")]["name"],
        "demo-workspace"
    );
    let list = Request::new("tools/list", json!({})).result(&here).await?;
    assert_eq!(list["tools"].as_array().map(Vec::len), Some(3));
    assert!(list["ttlMs"].as_i64().is_some_and(|ms| ms > 0));
    let posted = Request::call("post_message", hello()).result(&here).await?;
    assert_eq!(
        (&posted["resultType"], &posted["isError"]),
        (&json!("complete"), &json!(false))
    );
    assert_eq!(posted["ttlMs"], Value::Null);
    assert_eq!(here.calls().await?.len(), 1);

    here.switch("mcp.demo.sse", json!(true)).await?;
    let events = Request::call("list_channels", json!({}))
        .send(&here)
        .await?;
    assert_eq!(events.headers()["content-type"], "text/event-stream");
    assert!(!events.headers().contains_key("mcp-session-id"));
    for method in [Method::GET, Method::DELETE] {
        let address = here.at("/_sandbox/mcp/demo/lakeside");
        let request = here.http.request(method, address);
        let response = request.bearer_auth("demo-lakeside-token").send().await?;
        assert_eq!(response.status(), 405);
    }
    Ok(())
}

#[tokio::test]
async fn a_stateless_request_that_contradicts_itself_is_refused() -> anyhow::Result<()> {
    let here = speaking("2026-07-28").await?;
    let call = || Request::call("post_message", hello());
    let mismatch = (400, -32020);
    let rows = [
        (call().without("mcp-protocol-version"), mismatch),
        (call().with("mcp-protocol-version", "2025-11-25"), mismatch),
        (call().without("mcp-method"), mismatch),
        (call().with("mcp-method", "tools/list"), mismatch),
        (call().without("mcp-name"), mismatch),
        (call().with("mcp-name", "list_channels"), mismatch),
        (call().with("mcp-name", "=?base64?!?="), mismatch),
        (call().with("mcp-param-channel", "#general"), mismatch),
        (
            Request::new("tools/list", json!({})).with("mcp-name", "x"),
            mismatch,
        ),
        (call().meta("protocolVersion", Value::Null), mismatch),
        (
            call().meta("clientCapabilities", Value::Null),
            (400, -32602),
        ),
        (Request::new("tools/steal", json!({})), (404, -32601)),
        (Request::new("initialize", json!({})), (404, -32601)),
    ];
    for (request, expected) in rows {
        let sent = format!("{:?} {}", request.headers, request.body);
        assert_eq!(request.refused(&here).await?, expected, "{sent}");
    }
    let later = call()
        .with("mcp-protocol-version", "2027-01-01")
        .meta("protocolVersion", json!("2027-01-01"));
    let body: Value = later.send(&here).await?.json().await?;
    assert_eq!(
        (&body["error"]["code"], &body["error"]["data"]["supported"]),
        (&json!(-32022), &json!(["2026-07-28"]))
    );
    // A notification has no place in this protocol.
    let mut note = Request::new("notifications/initialized", json!({}));
    note.body["id"] = Value::Null;
    assert_eq!(note.refused(&here).await?, (400, -32600));
    assert_eq!(here.calls().await?, Vec::<Value>::new());
    // A name in the encoded form is the same name.
    let encoded = call().with("mcp-name", "=?base64?cG9zdF9tZXNzYWdl?=");
    assert_eq!(encoded.result(&here).await?["isError"], false);
    Ok(())
}

#[tokio::test]
async fn an_argument_that_is_asked_for_as_a_header_must_come_as_one() -> anyhow::Result<()> {
    let here = speaking("2026-07-28").await?;
    here.switch("mcp.demo.changed_definition", json!("headers"))
        .await?;
    let call = || Request::call("post_message", hello());
    assert_eq!(call().refused(&here).await?, (400, -32020));
    let wrong = call().with("mcp-param-channel", "#staff");
    assert_eq!(wrong.refused(&here).await?, (400, -32020));
    assert_eq!(here.calls().await?.len(), 0);
    let right = call().with("mcp-param-channel", "#general");
    assert_eq!(right.result(&here).await?["isError"], false);
    Ok(())
}

#[tokio::test]
async fn each_fault_is_the_same_in_the_stateless_protocol() -> anyhow::Result<()> {
    let here = speaking("2026-07-28").await?;
    let call = || Request::call("post_message", hello());
    for (word, expected) in [
        ("header_mismatch", (400, -32020)),
        ("missing_capability", (400, -32021)),
        ("unsupported_version", (400, -32022)),
        ("unknown_method", (404, -32601)),
    ] {
        here.switch("mcp.demo.refuse_as", json!(word)).await?;
        assert_eq!(call().refused(&here).await?, expected, "{word}");
    }
    here.switch("mcp.demo.refuse_as", json!(null)).await?;
    here.switch("mcp.demo.reject_with", json!(403)).await?;
    assert_eq!(call().send(&here).await?.status(), 403);
    here.switch("mcp.demo.reject_with", json!(null)).await?;
    here.switch("mcp.demo.is_error", json!(true)).await?;
    assert_eq!(call().result(&here).await?["isError"], true);
    here.switch("mcp.demo.is_error", json!(null)).await?;
    here.switch("mcp.demo.unfinished", json!(true)).await?;
    let asked = call().result(&here).await?;
    assert_eq!(asked["resultType"], "input_required");
    assert!(asked["inputRequests"].is_object() && asked["requestState"].is_string());
    assert_eq!(here.calls().await?, Vec::<Value>::new(), "without effect");

    here.switch("mcp.demo.unfinished", json!("task")).await?;
    assert_eq!(call().result(&here).await?["resultType"], "task");
    here.switch("mcp.demo.unfinished", json!(null)).await?;
    here.switch("mcp.demo.status_after_commit", json!(404))
        .await?;
    assert_eq!(call().send(&here).await?.status(), 404);
    here.switch("mcp.demo.status_after_commit", json!(null))
        .await?;
    here.switch("mcp.demo.drop_reply_after_commit", json!(true))
        .await?;
    assert!(call().send(&here).await.is_err());
    assert_eq!(here.calls().await?.len(), 3, "with effect");

    here.switch("mcp.demo.changed_definition", json!("bad_headers"))
        .await?;
    let list = Request::new("tools/list", json!({})).result(&here).await?;
    let header = &list["tools"][3]["inputSchema"]["properties"]["channel"]["x-mcp-header"];
    assert_eq!(header, "two words");
    Ok(())
}

async fn plain(here: &Here, method: &str, session: Option<&str>) -> anyhow::Result<Response> {
    let address = here.at("/_sandbox/mcp/demo/lakeside");
    let params = json!({"protocolVersion": "2025-11-25", "name": "post_message",
        "arguments": hello()});
    let mut request = here
        .http
        .post(address)
        .bearer_auth("demo-lakeside-token")
        .header("accept", "application/json, text/event-stream")
        .json(&json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}));
    if let Some(session) = session {
        request = request.header("mcp-session-id", session);
    }
    Ok(request.send().await?)
}

#[tokio::test]
async fn a_server_without_sessions_gives_none_and_asks_for_none() -> anyhow::Result<()> {
    let here = speaking("2025-11-25-stateless").await?;
    let hello = plain(&here, "initialize", None).await?;
    assert!(!hello.headers().contains_key("mcp-session-id"));
    assert_eq!(hello.status(), 200);
    for session in [None, Some("unknown")] {
        assert_eq!(plain(&here, "tools/call", session).await?.status(), 200);
    }
    assert_eq!(here.calls().await?.len(), 2);
    let discover = Request::new("server/discover", json!({}));
    assert_eq!(discover.refused(&here).await?.0, 400);
    Ok(())
}

#[tokio::test]
async fn a_server_of_both_protocols_serves_each_as_it_is_asked() -> anyhow::Result<()> {
    let here = speaking("both").await?;
    let found = Request::new("server/discover", json!({}));
    assert_eq!(found.result(&here).await?["resultType"], "complete");
    let stateless = Request::call("post_message", hello());
    assert_eq!(stateless.result(&here).await?["isError"], false);
    assert_eq!(plain(&here, "tools/call", None).await?.status(), 400);
    let hello = plain(&here, "initialize", None).await?;
    let session = hello.headers()["mcp-session-id"].to_str()?.to_owned();
    let call = plain(&here, "tools/call", Some(&session)).await?;
    let answer: Value = call.json().await?;
    assert_eq!(answer["result"]["isError"], false);
    assert_eq!(answer["result"]["resultType"], Value::Null);
    assert_eq!(here.calls().await?.len(), 2);
    here.switch("mcp.demo.drop_session", json!(true)).await?;
    assert_eq!(plain(&here, "ping", Some(&session)).await?.status(), 404);
    Ok(())
}
