//! What cannot be right is refused with a listed code and a sentence.

use std::collections::BTreeSet;

use reqwest::Method;
use serde_json::{Value, json};

use crate::harness::{Answer, Stack, fresh};

async fn raw(stack: &Stack, token: &str, path: &str, kind: &str, body: Vec<u8>) -> Answer {
    let request = stack
        .http
        .post(format!("{}{path}", stack.base))
        .bearer_auth(token);
    let request = request.header("content-type", kind).body(body);
    Answer::of(request.send().await.expect("an answer")).await
}

async fn codes(stack: &Stack) -> BTreeSet<String> {
    let document = stack.openapi().await;
    let listed = document["components"]["schemas"]["Code"]["enum"]
        .as_array()
        .expect("codes");
    listed
        .iter()
        .map(|code| code.as_str().expect("a code").to_owned())
        .collect()
}

#[tokio::test]
async fn a_message_that_cannot_be_right_is_refused_in_words() {
    let stack = Stack::shared().await;
    let codes = codes(&stack).await;
    let person = stack.person("lakeside-student").await;
    let chat = person.chat();
    let good = chat.message("hello");
    let with = |name: &str, value: Value| {
        let mut body = good.clone();
        body[name] = value;
        body.to_string().into_bytes()
    };
    let message = |value: Value| with("messages", json!([value]));
    let long = "a".repeat(33 * 1024);
    let regenerated = {
        let mut body = good.clone();
        body["trigger"] = json!("regenerate-message");
        body["messageId"] = json!("never-there");
        body.to_string().into_bytes()
    };
    let json = "application/json";
    let cases: Vec<(&str, &str, Vec<u8>, u16, &str)> = vec![
        ("half", json, br#"{"id":"#.to_vec(), 400, "malformed_json"),
        ("empty", json, Vec::new(), 400, "malformed_json"),
        ("bytes", json, vec![0xff, 0xfe, 0x00], 400, "malformed_json"),
        (
            "text",
            "text/plain",
            good.to_string().into_bytes(),
            415,
            "unsupported_media_type",
        ),
        ("list", json, b"[]".to_vec(), 422, "invalid_arguments"),
        ("no id", json, with("id", Value::Null), 400, "bad_request"),
        (
            "short id",
            json,
            with("id", json!("short")),
            400,
            "bad_request",
        ),
        (
            "dots",
            json,
            with("id", json!("../../etc/passwd")),
            400,
            "bad_request",
        ),
        (
            "no messages",
            json,
            with("messages", json!([])),
            400,
            "bad_request",
        ),
        (
            "trigger",
            json,
            with("trigger", json!("delete-message")),
            400,
            "bad_request",
        ),
        (
            "no text",
            json,
            message(json!({ "id": "m1", "role": "user", "parts": [] })),
            400,
            "bad_request",
        ),
        (
            "a file",
            json,
            message(json!({ "id": "m1", "role": "user", "parts": [
                { "type": "file", "mediaType": "image/png", "url": "data:," },
            ]})),
            400,
            "bad_request",
        ),
        (
            "no user",
            json,
            message(json!({ "id": "m1", "role": "assistant", "parts": [] })),
            400,
            "bad_request",
        ),
        (
            "33 KiB",
            json,
            chat.message(&long).to_string().into_bytes(),
            413,
            "too_large",
        ),
        (
            "6 MiB",
            json,
            with("extra", json!("a".repeat(6 << 20))),
            413,
            "too_large",
        ),
        (
            "nothing to regenerate",
            json,
            regenerated,
            400,
            "bad_request",
        ),
    ];
    for (name, kind, body, status, code) in cases {
        let answer = raw(&stack, &person.token, "/v1/chat", kind, body).await;
        assert_eq!(answer.status, status, "{name}: {}", answer.text);
        assert!(codes.contains(code), "{code} is not listed");
        answer.problem(status, code);
    }
    chat.read().await.problem(404, "unknown_conversation");
    let largest = chat.say(&"a".repeat(32 * 1024)).await;
    assert_eq!(largest.finish(), "stop", "32 KiB are allowed");
}

#[tokio::test]
async fn a_conversation_that_does_not_exist_is_unknown_and_has_no_stream() {
    let stack = Stack::at_any_time();
    let person = stack.person("hilltop-student").await;
    for id in [
        fresh("none"),
        "x".to_owned(),
        "a.b%20c%C3%BC".to_owned(),
        "a".repeat(300),
    ] {
        let path = format!("/v1/conversations/{id}/messages");
        let answer = person.get(&path).await;
        assert_eq!(answer.status, 404, "{id}: {}", answer.text);
        let code = answer.body["code"].as_str().unwrap_or_default().to_owned();
        answer.problem(404, &code);
        let deleted = person.delete(&format!("/v1/conversations/{id}")).await;
        assert_eq!(deleted.status, 404, "{id}: {}", deleted.text);
        let stream = person.get(&format!("/v1/chat/{id}/stream")).await;
        assert_eq!((stream.status, stream.text.as_str()), (204, ""), "{id}");
    }
}

#[tokio::test]
async fn who_is_not_signed_in_is_told_why_on_every_route() {
    let stack = Stack::at_any_time();
    let document = stack.openapi().await;
    let name = "hilltop-receptionist";
    let expired = stack.token(name, json!({ "ttl": -3600 })).await;
    let elsewhere = stack
        .token(name, json!({ "audience": "https://other.test" }))
        .await;
    let good = stack.token(name, json!({})).await;
    let mut broken = good.clone();
    broken.replace_range(broken.len() - 8.., "AAAAAAAA");
    let mut routes = 0;
    for (path, methods) in document["paths"].as_object().expect("paths") {
        if ["/health", "/openapi.json"].contains(&path.as_str()) {
            continue;
        }
        let path = format!("/v1{}", path.replace("{id}", "01M8PZ1G04DNYGEVJKBTPNK2NH"));
        for method in methods.as_object().expect("methods").keys() {
            routes += 1;
            let method: Method = method.to_uppercase().parse().expect("a method");
            let ask = async |token: Option<&str>| {
                let request = stack
                    .http
                    .request(method.clone(), format!("{}{path}", stack.base));
                let request = match token {
                    Some(token) => request.bearer_auth(token),
                    None => request,
                };
                let request = if method == Method::POST {
                    request.json(&json!({}))
                } else {
                    request
                };
                Answer::of(request.send().await.expect("an answer")).await
            };
            ask(None).await.problem(401, "token_missing");
            ask(Some(&expired)).await.problem(401, "token_expired");
            ask(Some(&elsewhere)).await.problem(401, "wrong_audience");
            ask(Some(&broken)).await.problem(401, "token_invalid");
            ask(Some("not.a.token")).await.problem(401, "token_invalid");
            let control = ask(Some(&good)).await;
            assert_ne!(control.status, 401, "{method} {path}: {}", control.text);
        }
    }
    assert!(routes >= 13, "{routes} routes were tried");
}

#[tokio::test]
async fn a_decision_that_cannot_be_right_changes_nothing() {
    let stack = Stack::shared().await;
    let admin = stack.person("lakeside-admin").await;
    let chat = admin.chat();
    let text = fresh("odd");
    let id = chat.ask_to_post(&text, "#general").await;
    let other = json!({ "channel": "#general", "text": "other" });
    for body in [
        json!({ "decision": "edit", "arguments": other }),
        json!({ "decision": "edit" }),
        json!({ "decision": "always" }),
        json!({ "decision": true }),
        json!({ "decision": "approve", "arguments": other }),
        json!({ "decision": "approve", "tool": "list_channels" }),
        json!({ "decision": "approve", "reason": "a".repeat(501) }),
        json!({ "reason": "none" }),
        json!([]),
    ] {
        admin
            .decide(&id, &body)
            .await
            .problem(422, "invalid_arguments");
    }
    let path = format!("/v1/approvals/{id}/decision");
    let half = br#"{"decision":"#.to_vec();
    let half = raw(&stack, &admin.token, &path, "application/json", half).await;
    half.problem(400, "malformed_json");
    let plain = br#"{"decision":"approve"}"#.to_vec();
    let plain = raw(&stack, &admin.token, &path, "text/plain", plain).await;
    plain.problem(415, "unsupported_media_type");
    admin
        .resolve(&id, "done", "")
        .await
        .problem(422, "invalid_arguments");
    admin
        .resolve(&id, "maybe", "I looked")
        .await
        .problem(422, "invalid_arguments");
    for unknown in ["01M8PZ1G04DNYGEVJKBTPNK2NH", "nonsense", "%00"] {
        let yes = json!({ "decision": "approve" });
        admin.decide(unknown, &yes).await.problem(404, "not_found");
    }
    assert_eq!(admin.approval(&id).await["state"], "pending");
    assert_eq!(stack.posted(&text).await, 0);
    admin.approve(&id).await;
    admin.until(&id, "succeeded", 20).await;
}

#[tokio::test]
async fn an_unknown_route_and_an_unknown_method_are_refused_in_words() {
    let stack = Stack::shared().await;
    let person = stack.person("hilltop-accountant").await;
    let id = "01M8PZ1G04DNYGEVJKBTPNK2NH";
    for path in [
        "/v1/nothing",
        "/v1/chat/a/b/c",
        "/v1/approvals/a/b/c",
        "/v1/",
        "/v1/me/more",
    ] {
        person.get(path).await.problem(404, "not_found");
    }
    for (method, path) in [
        (Method::GET, "/v1/chat".to_owned()),
        (Method::PUT, "/v1/chat".to_owned()),
        (Method::POST, "/v1/me".to_owned()),
        (Method::DELETE, format!("/v1/approvals/{id}")),
        (Method::GET, format!("/v1/approvals/{id}/decision")),
        (Method::PATCH, "/v1/audit".to_owned()),
        (
            Method::POST,
            "/v1/conversations/abcdefgh/messages".to_owned(),
        ),
    ] {
        let answer = person.send(method.clone(), &path, None).await;
        // API Gateway does not say which of the two is unknown; a function does.
        if answer.status == 405 {
            answer.problem(405, "method_not_allowed");
        } else {
            answer.problem(404, "not_found");
        }
    }
}

#[tokio::test]
async fn odd_pages_are_refused_and_limits_are_kept() {
    let stack = Stack::at_any_time();
    let person = stack.person("hilltop-accountant").await;
    for query in [
        "limit=0",
        "limit=-1",
        "limit=x",
        "cursor=%00",
        "cursor=nonsense",
        "state=done",
    ] {
        let answer = person.get(&format!("/v1/approvals?{query}")).await;
        assert_eq!(answer.status, 400, "{query}: {}", answer.text);
        answer.problem(400, "bad_request");
    }
    person.get("/v1/approvals?limit=1").await.ok();
}

#[tokio::test]
async fn arguments_that_do_not_fit_the_tools_schema_are_never_asked() {
    let stack = Stack::shared().await;
    let admin = stack.person("hilltop-admin").await;
    let chat = admin.chat();
    // The tool's own schema allows names of 80 characters.
    let text = fresh("long");
    let told = chat
        .say(&format!("post \"{text}\" to #{}", "x".repeat(100)))
        .await;
    assert_eq!(told.approvals(), Vec::<String>::new(), "{:?}", told.kinds());
    let refused = told.of_kind("tool-output-error").next().expect("a refusal");
    let words = refused["errorText"].as_str().expect("a sentence");
    assert!(words.contains("channel"), "says which: {words}");
    assert_eq!(stack.posted(&text).await, 0);
}
