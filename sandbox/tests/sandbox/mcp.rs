//! The demo workspace's MCP server and its switches.

use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use reqwest::{Method, RequestBuilder, Response};
use serde_json::{Value, json};

use crate::harness::Here;

struct Client<'a> {
    here: &'a Here,
    tenant: &'a str,
    session: String,
}

impl<'a> Client<'a> {
    async fn connect(here: &'a Here, tenant: &'a str) -> anyhow::Result<Self> {
        let mut client = Self {
            here,
            tenant,
            session: String::new(),
        };
        let params = json!({
            "protocolVersion": "2025-11-25", "capabilities": {},
            "clientInfo": {"name": "test", "version": "1"},
        });
        let response = client.send("initialize", params).await?;
        let session = response
            .headers()
            .get("mcp-session-id")
            .context("no session id")?;
        client.session = session.to_str()?.to_owned();
        let body = body(response).await?;
        ensure!(body["result"]["protocolVersion"] == "2025-11-25", "{body}");
        let note = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
        ensure!(
            client
                .request(Method::POST)
                .json(&note)
                .send()
                .await?
                .status()
                == 202
        );
        Ok(client)
    }

    fn request(&self, method: Method) -> RequestBuilder {
        let address = self.here.at(&format!("/_sandbox/mcp/demo/{}", self.tenant));
        let mut request = self
            .here
            .http
            .request(method, address)
            .bearer_auth(format!("demo-{}-token", self.tenant))
            .header("accept", "application/json, text/event-stream")
            .header("mcp-protocol-version", "2025-11-25");
        if !self.session.is_empty() {
            request = request.header("mcp-session-id", &self.session);
        }
        request
    }

    async fn send(&self, method: &str, params: Value) -> reqwest::Result<Response> {
        let message = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
        self.request(Method::POST).json(&message).send().await
    }

    async fn call(&self, tool: &str, arguments: Value) -> reqwest::Result<Response> {
        self.send("tools/call", json!({"name": tool, "arguments": arguments}))
            .await
    }

    async fn result(&self, tool: &str, arguments: Value) -> anyhow::Result<Value> {
        Ok(body(self.call(tool, arguments).await?).await?["result"].clone())
    }
}

async fn body(response: Response) -> anyhow::Result<Value> {
    ensure!(response.status() == 200, "{}", response.status());
    let body: Value = response.json().await?;
    ensure!(body["jsonrpc"] == "2.0" && body["id"] == 1, "{body}");
    Ok(body)
}

fn hello() -> Value {
    json!({"channel": "#general", "text": "Hello"})
}

fn posted(tenant: &str) -> Value {
    json!({"server": "demo", "tenant": tenant, "tool": "post_message", "arguments": hello()})
}

#[tokio::test]
async fn each_school_reads_and_writes_its_own_workspace_and_restarts_keep_it() -> anyhow::Result<()>
{
    let here = Here::start().await?;
    let lakeside = Client::connect(&here, "lakeside").await?;
    let hilltop = Client::connect(&here, "hilltop").await?;
    let channels = lakeside.result("list_channels", json!({})).await?;
    let names: Vec<_> = channels["structuredContent"]["channels"]
        .as_array()
        .context("no channels")?
        .iter()
        .map(|channel| channel["name"].clone())
        .collect();
    assert_eq!(names, ["#general", "#staff", "#science", "#parents"]);
    let result = lakeside.result("post_message", hello()).await?;
    assert_eq!(result["isError"], false);
    let answer = &result["structuredContent"];
    assert_eq!(
        (&answer["ok"], &answer["channel"]),
        (&json!(true), &json!("#general"))
    );
    let text: Value =
        serde_json::from_str(result["content"][0]["text"].as_str().context("no text")?)?;
    assert_eq!(&text, answer);
    let listed = |result: Value| {
        let messages = result["structuredContent"]["messages"].as_array().cloned();
        messages
            .unwrap_or_default()
            .iter()
            .filter(|message| message["text"] == "Hello")
            .count()
    };
    let general = json!({"channel": "general"});
    assert_eq!(
        listed(lakeside.result("list_messages", general.clone()).await?),
        1
    );
    assert_eq!(
        listed(hilltop.result("list_messages", general.clone()).await?),
        0
    );
    let tools: Vec<_> = here
        .calls()
        .await?
        .iter()
        .map(|call| format!("{} {}", call["tenant"], call["tool"]).replace('"', ""))
        .collect();
    let expected = [
        "lakeside list_channels",
        "lakeside post_message",
        "lakeside list_messages",
        "hilltop list_messages",
    ];
    assert_eq!(tools, expected);

    let old_session = lakeside.session.clone();
    let here = here.restart().await?;
    assert_eq!(here.calls().await?.len(), 4);
    let mut lakeside = Client::connect(&here, "lakeside").await?;
    assert_eq!(listed(lakeside.result("list_messages", general).await?), 1);
    lakeside.session = old_session;
    assert_eq!(lakeside.send("ping", json!({})).await?.status(), 404);
    Ok(())
}

#[tokio::test]
async fn a_session_ends_once_and_cannot_be_used_by_another_school() -> anyhow::Result<()> {
    let here = Here::start().await?;
    let mut client = Client::connect(&here, "lakeside").await?;
    assert_eq!(
        body(client.send("ping", json!({})).await?).await?["result"],
        json!({})
    );
    let mut other = Client::connect(&here, "hilltop").await?;
    other.session = client.session.clone();
    assert_eq!(other.send("ping", json!({})).await?.status(), 404);
    assert_eq!(client.request(Method::GET).send().await?.status(), 405);
    assert_eq!(client.request(Method::DELETE).send().await?.status(), 204);
    assert_eq!(client.request(Method::DELETE).send().await?.status(), 404);
    assert_eq!(client.call("list_channels", json!({})).await?.status(), 404);
    client.session = String::new();
    assert_eq!(client.call("list_channels", json!({})).await?.status(), 400);
    Ok(())
}

#[tokio::test]
async fn strangers_and_malformed_requests_are_refused() -> anyhow::Result<()> {
    let here = Here::start().await?;
    let client = Client::connect(&here, "lakeside").await?;
    for token in [None, Some("demo-hilltop-token"), Some("")] {
        let mut request = here.http.post(here.at("/_sandbox/mcp/demo/lakeside"));
        if let Some(token) = token {
            request = request.bearer_auth(token);
        }
        let response = request.send().await?;
        assert_eq!(response.status(), 401, "{token:?}");
        assert!(
            response.headers()["www-authenticate"]
                .to_str()?
                .starts_with("Bearer ")
        );
    }
    let json = |text: &'static str| {
        client
            .request(Method::POST)
            .header("content-type", "application/json")
            .body(text)
    };
    for bad in [
        "{",
        "[]",
        "{}",
        r#"{"jsonrpc":"2.0","id":{},"method":"ping"}"#,
    ] {
        assert_eq!(json(bad).send().await?.status(), 400, "{bad}");
    }
    assert_eq!(
        client
            .request(Method::POST)
            .body("{}")
            .send()
            .await?
            .status(),
        415
    );
    let old = json("{}")
        .header("mcp-protocol-version", "1999-01-01")
        .send()
        .await?;
    assert_eq!(old.status(), 400);
    let unknown = body(client.send("resources/list", json!({})).await?).await?;
    assert_eq!(unknown["error"]["code"], -32601);
    let unknown = body(client.call("delete_channel", json!({})).await?).await?;
    assert_eq!(unknown["error"]["code"], -32602);
    for (tool, arguments) in [
        ("post_message", json!({"channel": "#nowhere", "text": "x"})),
        ("post_message", json!({"channel": "#general"})),
        ("list_channels", json!({"extra": 1})),
    ] {
        assert_eq!(
            client.result(tool, arguments.clone()).await?["isError"],
            true,
            "{arguments}"
        );
    }
    assert_eq!(here.calls().await?, Vec::<Value>::new());
    Ok(())
}

#[tokio::test]
async fn a_dropped_reply_takes_effect_and_leaves_the_client_without_any_status()
-> anyhow::Result<()> {
    let here = Here::start().await?;
    let client = Client::connect(&here, "lakeside").await?;
    here.switch(
        "mcp.demo.drop_reply_after_commit",
        json!({"value": true, "tool": "post_message"}),
    )
    .await?;
    let error = client
        .call("post_message", hello())
        .await
        .err()
        .context("an answer arrived")?;
    assert!(
        error.is_request() && error.status().is_none() && !error.is_connect(),
        "{error:?}"
    );
    assert_eq!(here.calls().await?, [posted("lakeside")]);
    // Other tools, and the same tool once the switch is off, answer as ever.
    assert_eq!(
        client.result("list_channels", json!({})).await?["isError"],
        false
    );
    here.switch("mcp.demo.drop_reply_after_commit", json!(null))
        .await?;
    assert_eq!(
        client.result("post_message", hello()).await?["isError"],
        false
    );
    Ok(())
}

#[tokio::test]
async fn a_status_after_commit_takes_effect_once_per_call() -> anyhow::Result<()> {
    let here = Here::start().await?;
    let client = Client::connect(&here, "lakeside").await?;
    for status in [404, 500, 503] {
        here.switch("mcp.demo.status_after_commit", json!(status))
            .await?;
        assert_eq!(client.call("post_message", hello()).await?.status(), status);
    }
    let calls = here.calls().await?;
    assert_eq!(
        calls,
        [posted("lakeside"), posted("lakeside"), posted("lakeside")]
    );
    Ok(())
}

#[tokio::test]
async fn calls_that_are_refused_take_no_effect() -> anyhow::Result<()> {
    let here = Here::start().await?;
    let client = Client::connect(&here, "lakeside").await?;
    for status in [400, 401, 403, 429] {
        here.switch("mcp.demo.reject_with", json!(status)).await?;
        let response = client.call("post_message", hello()).await?;
        assert_eq!(response.status(), status);
        assert_eq!(
            response.headers().contains_key("www-authenticate"),
            status == 401
        );
    }
    // Listing goes on, so that a definition can be checked before a call.
    assert_eq!(client.send("tools/list", json!({})).await?.status(), 200);
    here.switch("mcp.demo.reject_with", json!(false)).await?;
    here.switch("mcp.demo.rpc_error", json!(-32603)).await?;
    let answer = body(client.call("post_message", hello()).await?).await?;
    assert_eq!(answer["error"]["code"], -32603);
    here.switch("mcp.demo.rpc_error", json!(null)).await?;
    here.switch("mcp.demo.is_error", json!(true)).await?;
    assert_eq!(
        client.result("post_message", hello()).await?["isError"],
        true
    );
    here.switch("mcp.demo.is_error", json!(null)).await?;
    let quoted = "Bearer demo-lakeside-token";
    for how in ["result", "is_error", "rpc_error", "status"] {
        here.switch("mcp.demo.quote_authorization", json!(how))
            .await?;
        let answer = client.call("post_message", hello()).await?.text().await?;
        assert!(answer.contains(quoted), "{how}: {answer}");
        let list = client.send("tools/list", json!({})).await?.text().await?;
        assert!(!list.contains(quoted), "{how}: {list}");
    }
    here.switch("mcp.demo.quote_authorization", json!("list"))
        .await?;
    let list = client.send("tools/list", json!({})).await?.text().await?;
    assert!(list.contains(quoted), "{list}");
    here.switch("mcp.demo.quote_authorization", json!(null))
        .await?;
    here.switch("mcp.demo.hang", json!(true)).await?;
    let hung = tokio::time::timeout(
        Duration::from_millis(300),
        client.call("post_message", hello()),
    );
    assert!(hung.await.is_err());
    assert_eq!(here.calls().await?, Vec::<Value>::new());
    Ok(())
}

#[tokio::test]
async fn a_delayed_call_takes_effect_even_if_nobody_waits_for_it() -> anyhow::Result<()> {
    let here = Here::start().await?;
    let client = Client::connect(&here, "lakeside").await?;
    here.switch("mcp.demo.delay_ms", json!(1500)).await?;
    let call = client.call("post_message", hello());
    assert!(
        tokio::time::timeout(Duration::from_millis(700), call)
            .await
            .is_err()
    );
    assert_eq!(here.calls().await?, [posted("lakeside")]);
    let started = Instant::now();
    assert_eq!(
        client.result("post_message", hello()).await?["isError"],
        false
    );
    assert!(started.elapsed() >= Duration::from_millis(1500));
    Ok(())
}

#[tokio::test]
async fn an_oversized_result_is_as_large_as_asked_and_takes_effect() -> anyhow::Result<()> {
    let here = Here::start().await?;
    let client = Client::connect(&here, "lakeside").await?;
    here.switch("mcp.demo.oversized_result", json!(100_000))
        .await?;
    let result = client.result("post_message", hello()).await?;
    assert_eq!(
        result["content"][0]["text"].as_str().map(str::len),
        Some(100_000)
    );
    assert_eq!(here.calls().await?, [posted("lakeside")]);
    Ok(())
}

#[tokio::test]
async fn the_tool_list_can_be_paged_and_changed() -> anyhow::Result<()> {
    let here = Here::start().await?;
    let client = Client::connect(&here, "lakeside").await?;
    let whole = body(client.send("tools/list", json!({})).await?).await?["result"].clone();
    let all = whole["tools"].as_array().context("no tools")?.clone();
    assert_eq!((all.len(), &whole["nextCursor"]), (3, &Value::Null));
    here.switch("mcp.demo.page_size", json!(2)).await?;
    let first = body(client.send("tools/list", json!({})).await?).await?["result"].clone();
    let cursor = json!({"cursor": first["nextCursor"]});
    let second = body(client.send("tools/list", cursor).await?).await?["result"].clone();
    let mut pages = first["tools"].as_array().context("no page")?.clone();
    pages.extend(second["tools"].as_array().context("no page")?.clone());
    assert_eq!((pages, &second["nextCursor"]), (all.clone(), &Value::Null));
    let wrong = body(client.send("tools/list", json!({"cursor": "x"})).await?).await?;
    assert_eq!(wrong["error"]["code"], -32602);
    here.switch("mcp.demo.page_size", json!(null)).await?;
    here.switch("mcp.demo.changed_definition", json!(true))
        .await?;
    let changed =
        body(client.send("tools/list", json!({})).await?).await?["result"]["tools"].clone();
    assert_eq!((&changed[0], &changed[1]), (&all[0], &all[1]));
    assert_ne!(changed[2]["description"], all[2]["description"]);
    assert_eq!(changed[2]["inputSchema"], all[2]["inputSchema"]);
    here.switch(
        "mcp.demo.changed_definition",
        json!({"value": "schema", "tool": "list_messages"}),
    )
    .await?;
    let changed =
        body(client.send("tools/list", json!({})).await?).await?["result"]["tools"].clone();
    assert_ne!(changed[1]["inputSchema"], all[1]["inputSchema"]);
    assert_eq!(changed[2], all[2]);
    Ok(())
}

#[tokio::test]
async fn dropped_sessions_are_gone_once_and_later_ones_work() -> anyhow::Result<()> {
    let here = Here::start().await?;
    let first = Client::connect(&here, "lakeside").await?;
    let other = Client::connect(&here, "lakeside").await?;
    here.switch(
        "mcp.demo.drop_session",
        json!({"value": true, "tool": "post_message"}),
    )
    .await?;
    assert_eq!(first.send("ping", json!({})).await?.status(), 200);
    assert_eq!(first.call("post_message", hello()).await?.status(), 404);
    assert_eq!(other.send("ping", json!({})).await?.status(), 404);
    let again = Client::connect(&here, "lakeside").await?;
    assert_eq!(
        again.result("post_message", hello()).await?["isError"],
        false
    );
    assert_eq!(here.calls().await?, [posted("lakeside")]);
    here.switch("mcp.demo.drop_session", json!(true)).await?;
    assert_eq!(again.send("ping", json!({})).await?.status(), 404);
    Ok(())
}

#[tokio::test]
async fn answers_can_arrive_as_an_event_stream() -> anyhow::Result<()> {
    let here = Here::start().await?;
    let client = Client::connect(&here, "lakeside").await?;
    here.switch("mcp.demo.sse", json!(true)).await?;
    let response = client.call("list_channels", json!({})).await?;
    assert_eq!(response.headers()["content-type"], "text/event-stream");
    let text = response.text().await?;
    let data = text
        .strip_prefix("event: message\ndata: ")
        .context("no event")?;
    let message: Value = serde_json::from_str(data.trim_end())?;
    assert_eq!(message["result"]["isError"], false);
    Ok(())
}
