//! The scripted model over its OpenAI-compatible interface.

use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use reqwest::Response;
use serde_json::{Value, json};

use crate::harness::Here;

fn ask(text: &str, stream: bool) -> Value {
    let tool = |name: &str| {
        let parameters = json!({"type": "object", "properties": {"_intent": {"type": "string"}}});
        json!({"type": "function", "function": {"name": name, "parameters": parameters}})
    };
    json!({
        "model": "scripted",
        "messages": [{"role": "system", "content": "Be kind."}, {"role": "user", "content": text}],
        "tools": [tool("demo__list_channels"), tool("demo__list_messages"), tool("demo__post_message")],
        "stream": stream,
        "stream_options": {"include_usage": true},
    })
}

async fn complete(here: &Here, body: &Value) -> anyhow::Result<Response> {
    let address = here.at("/_sandbox/llm/v1/chat/completions");
    Ok(here
        .http
        .post(address)
        .bearer_auth("any")
        .json(body)
        .send()
        .await?)
}

async fn events(response: Response) -> anyhow::Result<Vec<Value>> {
    ensure!(response.headers()["content-type"] == "text/event-stream");
    let text = response.text().await?;
    let mut lines: Vec<_> = text.split("\n\n").filter(|line| !line.is_empty()).collect();
    ensure!(lines.pop() == Some("data: [DONE]"), "not done: {text}");
    let parse = |line: &&str| -> anyhow::Result<Value> {
        Ok(serde_json::from_str(
            line.strip_prefix("data: ").context("no data")?,
        )?)
    };
    lines.iter().map(parse).collect()
}

/// The tool calls of a stream put together: id, name, arguments.
fn calls(events: &[Value]) -> Vec<(String, String, String)> {
    let mut calls: Vec<(String, String, String)> = Vec::new();
    for event in events {
        for delta in event["choices"][0]["delta"]["tool_calls"]
            .as_array()
            .into_iter()
            .flatten()
        {
            let index =
                usize::try_from(delta["index"].as_u64().unwrap_or_default()).unwrap_or_default();
            calls.resize(calls.len().max(index + 1), Default::default());
            let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
            calls[index].0 += &text(&delta["id"]);
            calls[index].1 += &text(&delta["function"]["name"]);
            calls[index].2 += &text(&delta["function"]["arguments"]);
        }
    }
    calls
}

fn finish(events: &[Value]) -> Vec<&str> {
    events
        .iter()
        .filter_map(|event| event["choices"][0]["finish_reason"].as_str())
        .collect()
}

const TWO: &str = r#"Post "Sports day moved" to #general and "Bring hats" to #parents"#;

#[tokio::test]
async fn two_posts_are_two_calls_of_one_step_in_pieces() -> anyhow::Result<()> {
    let here = Here::start().await?;
    let events = events(complete(&here, &ask(TWO, true)).await?).await?;
    let calls = calls(&events);
    assert_eq!(calls.len(), 2);
    assert_ne!(calls[0].0, calls[1].0);
    for ((_, name, arguments), (text, channel)) in calls
        .iter()
        .zip([("Sports day moved", "#general"), ("Bring hats", "#parents")])
    {
        assert_eq!(name, "demo__post_message");
        let arguments: Value = serde_json::from_str(arguments)?;
        assert_eq!(
            (&arguments["text"], &arguments["channel"]),
            (&json!(text), &json!(channel))
        );
        assert!(
            arguments["_intent"]
                .as_str()
                .is_some_and(|intent| !intent.is_empty())
        );
    }
    assert_eq!(events[0]["choices"][0]["delta"]["role"], "assistant");
    assert_eq!(finish(&events), ["tool_calls"]);
    let last = events.last().context("no events")?;
    assert!(
        last["choices"] == json!([]) && last["usage"]["total_tokens"].is_u64(),
        "{last}"
    );
    Ok(())
}

#[tokio::test]
async fn a_plain_answer_streams_and_is_the_same_when_whole() -> anyhow::Result<()> {
    let here = Here::start().await?;
    here.switch("llm.delay_ms", json!(100)).await?;
    let started = Instant::now();
    let mut response = complete(&here, &ask("Good morning", true)).await?;
    let first = response.chunk().await?.context("nothing came")?;
    let first_after = started.elapsed();
    let mut text = String::from_utf8(first.to_vec())?;
    while let Some(chunk) = response.chunk().await? {
        text += std::str::from_utf8(&chunk)?;
    }
    assert!(
        started.elapsed() > first_after + Duration::from_millis(300),
        "not streamed"
    );
    let deltas = text.split("\n\n").filter_map(|line| {
        let event: Value = serde_json::from_str(line.strip_prefix("data: ")?).ok()?;
        Some(event["choices"][0]["delta"]["content"].as_str()?.to_owned())
    });
    let streamed: String = deltas.collect();
    let whole: Value = complete(&here, &ask("Good morning", false))
        .await?
        .json()
        .await?;
    assert_eq!(whole["choices"][0]["message"]["content"], streamed);
    assert_eq!(whole["choices"][0]["finish_reason"], "stop");
    assert!(streamed.contains("what channels are there"), "{streamed}");
    Ok(())
}

#[tokio::test]
async fn requests_are_remembered_and_strangers_and_nonsense_are_refused() -> anyhow::Result<()> {
    let here = Here::start().await?;
    let address = here.at("/_sandbox/llm/v1/chat/completions");
    let stranger = here
        .http
        .post(&address)
        .json(&ask("hi", false))
        .send()
        .await?;
    assert_eq!(stranger.status(), 401);
    for nonsense in [
        "{",
        "{}",
        r#"{"messages":[]}"#,
        r#"{"messages":[{"role":"king","content":""}]}"#,
    ] {
        let response = here
            .http
            .post(&address)
            .bearer_auth("k")
            .body(nonsense)
            .send()
            .await?;
        assert_eq!(response.status(), 400, "{nonsense}");
        let body: Value = response.json().await?;
        assert_eq!(body["error"]["type"], "invalid_request_error");
    }
    let good = ask("hi", false);
    complete(&here, &good).await?;
    let heard: Value = here.get("/_sandbox/llm/requests").await?.json().await?;
    assert_eq!(heard.as_array().and_then(|heard| heard.last()), Some(&good));
    let models = here
        .http
        .get(here.at("/_sandbox/llm/v1/models"))
        .bearer_auth("k")
        .send()
        .await?;
    assert_eq!(models.json::<Value>().await?["data"][0]["id"], "scripted");
    Ok(())
}

#[tokio::test]
async fn the_model_misbehaves_as_its_switches_say() -> anyhow::Result<()> {
    let here = Here::start().await?;
    here.switch("llm.status", json!(429)).await?;
    assert_eq!(complete(&here, &ask(TWO, true)).await?.status(), 429);
    here.switch("llm.status", json!(null)).await?;

    for (how, status) in [("status", 401), ("stream", 200)] {
        here.switch("llm.quote_key", json!(how)).await?;
        let refused = complete(&here, &ask(TWO, true)).await?;
        assert_eq!(refused.status(), status);
        let text = refused.text().await?;
        assert!(text.contains("API key provided: "), "{text}");
    }
    here.switch("llm.quote_key", json!(null)).await?;

    here.switch("llm.cut", json!(true)).await?;
    let cut = complete(&here, &ask(TWO, true)).await?;
    assert_eq!(cut.status(), 200);
    assert!(cut.text().await.is_err());
    here.switch("llm.cut", json!(null)).await?;

    for (value, told) in [(json!(true), "length"), (json!("tool_calls"), "tool_calls")] {
        here.switch("llm.finish_length", value).await?;
        let events = events(complete(&here, &ask(TWO, true)).await?).await?;
        assert_eq!(finish(&events), [told]);
        for (_, _, arguments) in calls(&events) {
            assert!(
                serde_json::from_str::<Value>(&arguments).is_err(),
                "{arguments}"
            );
        }
    }
    here.switch("llm.finish_length", json!(null)).await?;

    here.switch("llm.cut_keys", json!("tool_calls")).await?;
    let short = events(complete(&here, &ask(TWO, true)).await?).await?;
    assert_eq!(finish(&short), ["tool_calls"]);
    for (_, _, arguments) in calls(&short) {
        let arguments: Value = serde_json::from_str(&arguments)?;
        assert_eq!(arguments["text"], Value::Null, "{arguments}");
    }
    here.switch("llm.cut_keys", json!(null)).await?;

    here.switch("llm.cut_text", json!(true)).await?;
    let whole = events(complete(&here, &ask("hi", true)).await?).await?;
    assert_eq!(finish(&whole), ["length"]);
    here.switch("llm.cut_text", json!(null)).await?;

    here.switch("llm.same_call_ids", json!(true)).await?;
    for _ in 0..2 {
        let same = calls(&events(complete(&here, &ask(TWO, true)).await?).await?);
        assert_eq!(
            (same[0].0.as_str(), same[1].0.as_str()),
            ("call_0", "call_1")
        );
    }
    here.switch("llm.same_call_ids", json!(null)).await?;

    here.switch("llm.status", json!(503)).await?;
    here.switch("llm.retry_after", json!(7)).await?;
    let busy = complete(&here, &ask(TWO, true)).await?;
    assert_eq!(busy.headers()["retry-after"], "7");
    here.switch("llm.status", json!(null)).await?;

    here.switch("llm.error_midstream", json!(true)).await?;
    let text = complete(&here, &ask(TWO, true)).await?.text().await?;
    assert!(text.contains(r#"data: {"error":"#) && !text.contains("[DONE]"));
    here.switch("llm.error_midstream", json!(null)).await?;

    here.switch("llm.repeat_call_id", json!(true)).await?;
    let repeated = calls(&events(complete(&here, &ask(TWO, true)).await?).await?);
    assert_eq!(repeated[0].0, repeated[1].0);
    here.switch("llm.repeat_call_id", json!(null)).await?;

    here.switch("llm.loop", json!(true)).await?;
    let mut request = ask("what channels are there", false);
    for _ in 0..3 {
        let step: Value = complete(&here, &request).await?.json().await?;
        let message = &step["choices"][0]["message"];
        let call = &message["tool_calls"][0];
        assert_eq!(call["function"]["name"], "demo__list_channels");
        let messages = request["messages"].as_array_mut().context("no messages")?;
        messages.push(message.clone());
        messages.push(json!({"role": "tool", "tool_call_id": call["id"], "content": "{}"}));
    }
    here.switch("llm.loop", json!(null)).await?;

    here.switch("llm.first_byte_delay_ms", json!(150)).await?;
    here.switch("llm.delay_ms", json!(1)).await?;
    let started = Instant::now();
    complete(&here, &ask("hi", true)).await?.text().await?;
    assert!(started.elapsed() >= Duration::from_millis(150));
    Ok(())
}
