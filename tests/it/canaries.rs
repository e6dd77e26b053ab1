//! Secrets stay where they belong, whatever fails and however much is logged.

use std::io::Write;
use std::process::{Command, Stdio};

use base64::Engine;
use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD, URL_SAFE_NO_PAD};
use serde_json::{Value, json};

use crate::harness::{Aws, Own, Person, Stack, eventually, fresh};

/// A secret, in every spelling in which it could get out.
struct Canary {
    what: &'static str,
    forms: Vec<String>,
}

impl Canary {
    fn of(what: &'static str, secret: &[u8]) -> Self {
        let hex: String = secret.iter().map(|byte| format!("{byte:02x}")).collect();
        let mut forms = vec![hex.to_uppercase(), hex];
        if let Ok(text) = std::str::from_utf8(secret) {
            forms.push(text.to_owned());
            forms.push(escaped(text));
        }
        // As a part of something longer it begins at one of three places in a group.
        for before in 0..3 {
            let skipped = [0, 2, 3][before];
            let kept = (before + secret.len()) * 8 / 6;
            let padded = [&b"   "[..before], secret].concat();
            for engine in [STANDARD_NO_PAD, URL_SAFE_NO_PAD] {
                forms.push(engine.encode(&padded)[skipped..kept].to_owned());
            }
        }
        forms.sort_unstable();
        forms.dedup();
        Self { what, forms }
    }

    fn is_in(&self, text: &str) -> bool {
        self.forms.iter().any(|form| text.contains(form))
    }
}

fn escaped(text: &str) -> String {
    let byte = |byte: u8| match byte {
        b'0'..=b'9' | b'A'..=b'Z' | b'a'..=b'z' | b'-' | b'_' | b'.' | b'~' => {
            char::from(byte).to_string()
        }
        other => format!("%{other:02X}"),
    };
    text.bytes().map(byte).collect()
}

#[test]
fn a_secret_is_found_in_every_spelling() {
    let secret = "s3cret/token+with=signs";
    let canary = Canary::of("a secret", secret.as_bytes());
    let hex: String = secret.bytes().map(|byte| format!("{byte:02x}")).collect();
    for before in ["", "a", "ab", "abc", "Bearer "] {
        for after in ["", "x", "xy", "xyz"] {
            let text = format!("{before}{secret}{after}");
            for spelled in [
                text.clone(),
                escaped(&text),
                STANDARD.encode(&text),
                URL_SAFE_NO_PAD.encode(&text),
                format!("{before}{hex}{after}"),
                format!("{before}{}{after}", hex.to_uppercase()),
            ] {
                assert!(canary.is_in(&spelled), "{spelled}");
            }
        }
    }
    for other in [
        "s3cret/token",
        "S3CRET/TOKEN+WITH=SIGNS",
        &STANDARD.encode("other"),
    ] {
        assert!(!canary.is_in(other), "{other}");
    }
}

/// Sets one of the platform's secrets as an operator does.
fn set_secret(stack: &Stack, name: &str, value: &str) {
    let text = std::fs::read_to_string(stack.state.join("stack.json")).expect("a description");
    let described: Value = serde_json::from_str(&text).expect("JSON");
    let chat = described["chat"]["bootstrap"].as_str().expect("a path");
    let mut command = Command::new(std::path::Path::new(chat).with_file_name("toshi"));
    command.args(["secret", "set", name]);
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    let environment = described["chat"]["environment"].as_object().expect("names");
    for (name, value) in environment {
        command.env(name, value.as_str().expect("a text"));
    }
    let mut child = command.spawn().expect("toshi");
    let mut input = child.stdin.take().expect("its input");
    input.write_all(value.as_bytes()).expect("the secret");
    drop(input);
    let output = child.wait_with_output().expect("its end");
    assert!(output.status.success(), "{output:?}");
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(!said.contains(value), "{said}");
}

/// The row without what is sealed in it.
fn unsealed(row: &Value) -> Value {
    match row {
        Value::Object(members) => members
            .iter()
            .filter(|(name, _)| !["blob", "data_key"].contains(&name.as_str()))
            .map(|(name, value)| (name.clone(), unsealed(value)))
            .collect(),
        Value::Array(items) => items.iter().map(unsealed).collect(),
        other => other.clone(),
    }
}

/// Everything that is kept, logged, sent or answered, by place.
async fn everything(stack: &Stack, aws: &Aws<'_>) -> Vec<(String, String)> {
    let mut places = Vec::new();
    for ((table, pk, sk), row) in aws.rows_with(&[""]).await {
        let is_audit = table == aws.audit_table;
        let table = if is_audit { "audit" } else { "row" };
        places.push((table.to_owned(), format!("{pk} {sk} {}", unsealed(&row))));
    }
    for hint in aws.hints().await {
        places.push(("queue".to_owned(), hint));
    }
    for letter in aws.dead_letters().await {
        places.push(("queue".to_owned(), letter));
    }
    for function in &aws.functions {
        let log = aws.logs(function).await;
        assert!(!log.is_empty(), "{function} has logged nothing");
        places.push(("log".to_owned(), log));
    }
    let chat = std::fs::read_to_string(stack.state.join("logs/chat.log")).expect("a log");
    assert!(chat.contains("answered"), "{chat}");
    places.push(("log".to_owned(), chat));
    places.extend(
        stack
            .heard()
            .into_iter()
            .map(|text| ("answer".to_owned(), text)),
    );
    let prompts = stack.get("/_sandbox/llm/requests").await.ok();
    places.push(("prompt".to_owned(), prompts.to_string()));
    let calls = stack.get("/_sandbox/mcp/calls").await.ok();
    places.push(("call".to_owned(), calls.to_string()));
    places
}

/// Where a secret is, with what surrounds it.
fn found<'a>(
    canaries: &[Canary],
    places: &'a [(String, String)],
) -> Vec<(&'a str, &'static str, String)> {
    let mut found = Vec::new();
    for (place, text) in places {
        for canary in canaries {
            for form in &canary.forms {
                if let Some(at) = text.find(form) {
                    let from = text.floor_char_boundary(at.saturating_sub(200));
                    let to = text.ceil_char_boundary((at + form.len() + 200).min(text.len()));
                    found.push((place.as_str(), canary.what, text[from..to].to_owned()));
                }
            }
        }
    }
    found
}

/// Asks for a post and approves it while the world misbehaves like this.
async fn approved_while(stack: &Stack, admin: &Person<'_>, name: &str, value: Value) {
    let chat = admin.chat();
    let id = chat.ask_to_post(&fresh("canary"), "#general").await;
    stack.switch(json!({ name: value })).await;
    admin.approve(&id).await;
    let what = format!("an outcome under {name} {value}");
    eventually(&what, 30, async || {
        let row = admin.approval(&id).await;
        let open = ["pending", "approved", "executing"].map(Value::from);
        // A check that fails before the claim is tried again for minutes.
        let waits = value == "list" && row["state"] == "approved";
        (waits || !open.contains(&row["state"])).then_some(())
    })
    .await;
    stack.switch(json!({ name: null })).await;
    _ = chat.read().await;
    _ = admin.get(&format!("/v1/audit?approval={id}")).await;
}

#[tokio::test]
async fn no_secret_is_kept_logged_sent_or_answered_outside_its_seal() {
    let mut own = Own::reserved();
    let model = format!("{}/_sandbox/llm/v1", own.base());
    let everybody = "trace,rmcp=trace,reqwest=trace,hyper=trace,hyper_util=trace,h2=trace,\
                     rustls=trace,lambda_runtime=trace,lambda_http=trace,aws_config=trace,\
                     aws_smithy_runtime=trace,aws_sdk_kms=trace,aws_sigv4=trace";
    own.run(&[
        ("RUST_LOG", everybody),
        ("TOSHI_LLM_URL", &model),
        ("TOSHI_LLM_MODEL", "scripted"),
    ])
    .await;
    let stack = own.stack();
    let aws = stack.aws().await;
    let (model_key, hmac) = (fresh("canary-model-key"), fresh("canary-hmac-key"));
    set_secret(&stack, "llm-key", &model_key);
    set_secret(&stack, "hmac", &hmac);
    let admin = stack.person("lakeside-admin").await;
    let other = stack.person("hilltop-admin").await;
    let expired = stack.token("lakeside-admin", json!({ "ttl": -3600 })).await;

    let mut canaries = vec![
        Canary::of("the model's key", model_key.as_bytes()),
        Canary::of("the HMAC key", hmac.as_bytes()),
        Canary::of("a connection's token", b"demo-lakeside-token"),
        Canary::of("a connection's token", b"demo-hilltop-token"),
    ];
    for token in [&admin.token, &other.token, &expired] {
        let (_, signature) = token.rsplit_once('.').expect("a signature");
        canaries.push(Canary::of("a person's token", token.as_bytes()));
        canaries.push(Canary::of("a token's signature", signature.as_bytes()));
    }
    let secret = |name: &str| json!({ "app": "toshi", "env": "dev", "type": name, "purpose": "secret", "format": "1" });
    let token = json!({
        "app": "toshi", "env": "dev", "type": "demo", "purpose": "access", "format": "1",
        "tenant": "lakeside", "connection": "demo-lakeside",
    });
    for (pk, sk, member, context) in [
        ("PLATFORM", "SECRET#llm-key", "sealed", secret("llm-key")),
        ("PLATFORM", "SECRET#hmac", "sealed", secret("hmac")),
        ("T#lakeside", "CRED#demo-lakeside", "access", token),
    ] {
        let row = aws.row(pk, sk).await;
        let wrapped = row[member]["M"]["data_key"]["S"].as_str().expect("a key");
        let key = STANDARD.decode(aws.data_key(wrapped, &context).await);
        canaries.push(Canary::of("a data key", &key.expect("base64")));
    }

    // As it should be.
    let chat = admin.chat();
    chat.say("what channels are there").await;
    let id = chat.ask_to_post(&fresh("canary"), "#general").await;
    admin.approve(&id).await;
    admin.until(&id, "succeeded", 20).await;
    admin.events(&id).await;
    other.chat().say("read #general").await;
    for path in [
        "/v1/me",
        "/v1/llm/health",
        "/v1/approvals",
        "/v1/conversations",
        "/v1/audit",
    ] {
        admin.get(path).await.ok();
    }
    // As it should not.
    for (name, value) in [
        ("mcp.demo.quote_authorization", json!("result")),
        ("mcp.demo.quote_authorization", json!("is_error")),
        ("mcp.demo.quote_authorization", json!("rpc_error")),
        ("mcp.demo.quote_authorization", json!("status")),
        ("mcp.demo.quote_authorization", json!("list")),
        ("mcp.demo.reject_with", json!(401)),
        ("mcp.demo.reject_with", json!(403)),
        ("mcp.demo.drop_reply_after_commit", json!(true)),
        ("mcp.demo.status_after_commit", json!(500)),
        ("mcp.demo.drop_session", json!(true)),
        ("mcp.demo.rpc_error", json!(-32602)),
        ("mcp.demo.oversized_result", json!(true)),
        ("mcp.demo.changed_definition", json!("description")),
        ("mcp.demo.sse", json!(true)),
    ] {
        approved_while(&stack, &admin, name, value).await;
    }
    for how in ["result", "is_error", "rpc_error", "status", "list"] {
        stack
            .switch(json!({ "mcp.demo.quote_authorization": how }))
            .await;
        other.chat().say("what channels are there").await;
    }
    stack
        .switch(json!({ "mcp.demo.quote_authorization": null }))
        .await;
    for (name, value) in [
        ("llm.quote_key", json!("status")),
        ("llm.quote_key", json!("stream")),
        ("llm.status", json!(400)),
        ("llm.status", json!(500)),
        ("llm.cut", json!(true)),
    ] {
        stack.switch(json!({ name: value })).await;
        let told = other.chat().say("hello").await;
        assert_eq!(
            told.of_kind("error").count(),
            1,
            "{name}: {:?}",
            told.chunks
        );
        stack.switch(json!({ name: null })).await;
    }
    for token in [
        &expired,
        &format!("{}x", admin.token),
        &admin.token.replace('.', ""),
    ] {
        let stranger = Person::new(&stack, "a stranger", token.clone());
        for path in ["/v1/me", "/v1/approvals", "/v1/nothing"] {
            let answer = stranger.get(path).await;
            assert!([401, 404].contains(&answer.status), "{path}: {answer:?}");
        }
    }
    let query = format!("/v1/approvals?access_token={0}&cursor={0}", admin.token);
    admin.get(&query).await.problem(400, "bad_request");
    let posted = json!({ "decision": "approve", "token": admin.token });
    let refused = admin.decide(&id, &posted).await;
    refused.problem(422, "invalid_arguments");
    // What a queue should never hold is not quoted either.
    for sweep in ["approvals", "turns", "tokens"] {
        stack.tick(sweep).await;
    }
    let mapping = aws.unsubscribe().await;
    let nonsense = json!({ "Records": [
        { "messageId": "m", "body": json!(admin.token).to_string() },
        { "messageId": "n", "body": json!({ "tenant": admin.token, "conversation": 1 }).to_string() },
    ]});
    aws.invoke(&aws.worker, &nonsense).await;
    let pending = chat.ask_to_post(&fresh("canary"), "#general").await;
    admin.approve(&pending).await;
    eventually("a hint", 10, async || {
        (!aws.hints().await.is_empty()).then_some(())
    })
    .await;

    let places = everything(&stack, &aws).await;
    for place in ["row", "audit", "queue", "log", "answer", "prompt", "call"] {
        assert!(
            places.iter().any(|(name, _)| name == place),
            "nothing in {place}"
        );
    }
    let leaks = found(&canaries, &places);
    assert!(leaks.is_empty(), "{leaks:#?}");

    // The same search finds what is put there on purpose, in each of these places.
    let leak = "demo-lakeside-token";
    // One path for each process that logs what it answered.
    for path in [
        format!("/v1/approvals/{leak}"),
        format!("/v1/conversations/{leak}/messages"),
        format!("/v1/chat/{leak}/stream"),
    ] {
        let answer = admin.get(&path).await;
        assert!([204, 404].contains(&answer.status), "{path}: {answer:?}");
    }
    let told = admin.chat();
    told.say(&format!("My token is {leak}")).await;
    told.read().await.ok();
    aws.wake(leak).await;
    let mut record = aws.rows_with(&[&id]).await;
    record.retain(|(table, _, _), _| *table == aws.audit_table);
    let (_, mut record) = record.pop_first().expect("a record");
    record["SK"] = json!({ "S": STANDARD.encode(format!("Bearer {leak}")) });
    let put = json!({ "TableName": aws.audit_table, "Item": record });
    aws.dynamodb("PutItem", put).await;
    let places = eventually("the log of what was put there", 20, async || {
        let places = everything(&stack, &aws).await;
        let logs = found(&canaries, &places)
            .iter()
            .filter(|(place, ..)| *place == "log")
            .count();
        (logs >= 3).then_some(places)
    })
    .await;
    let leaks = found(&canaries, &places);
    for place in ["row", "audit", "queue", "log", "answer", "prompt"] {
        let here = leaks
            .iter()
            .any(|(name, what, _)| *name == place && *what == "a connection's token");
        assert!(here, "not found in {place}: {leaks:#?}");
    }
    aws.purge().await;
    aws.subscribe(mapping).await;
}
