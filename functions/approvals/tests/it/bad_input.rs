use serde_json::json;
use toshi_core::State;

use crate::desk::{Desk, decision_path, resolve_path};

#[tokio::test]
async fn a_decision_that_cannot_be_read_is_refused_in_words() {
    let desk = Desk::open().await;
    let asked = desk.ask("ann").await;
    let path = decision_path(&asked);
    let json = "application/json";
    let long = format!(r#"{{"decision":"approve","reason":"{}"}}"#, "a".repeat(501));
    let huge = format!(
        r#"{{"decision":"approve","reason":"{}"}}"#,
        "a".repeat(70_000)
    );
    for (kind, body, status, code, says) in [
        (
            json,
            r#"{"decision":"approve""#,
            400,
            "malformed_json",
            "line 1",
        ),
        (json, "", 400, "malformed_json", "line 1"),
        (json, "\u{0}", 400, "malformed_json", "line 1"),
        (
            "text/plain",
            r#"{"decision":"approve"}"#,
            415,
            "unsupported_media_type",
            "json",
        ),
        (json, huge.as_str(), 413, "too_large", "64 KiB"),
        (json, long.as_str(), 422, "invalid_arguments", "500"),
        (
            json,
            r#"{"decision":"edit"}"#,
            422,
            "invalid_arguments",
            "\"approve\" or \"reject\"",
        ),
        (
            json,
            r#"{"decision":true}"#,
            422,
            "invalid_arguments",
            "`decision` must be text.",
        ),
        (
            json,
            r#"{"reason":"x"}"#,
            422,
            "invalid_arguments",
            "decision",
        ),
        (
            json,
            r#"["approve", "as a list"]"#,
            422,
            "invalid_arguments",
            "must be an object",
        ),
        (
            json,
            r#"{"decision":"approve","arguments":{"text":"other"}}"#,
            422,
            "invalid_arguments",
            "arguments",
        ),
    ] {
        let answer = desk.post_text("ann", &path, kind, body).await;
        let problem = answer.problem(status, code);
        let detail = problem["detail"].as_str().unwrap();
        assert!(detail.contains(says), "{detail}");
    }
    assert_eq!(desk.stage.approval(&asked).await.state, State::Pending);
}

#[tokio::test]
async fn a_resolution_that_cannot_be_read_is_refused_in_words() {
    let desk = Desk::open().await;
    let asked = desk.ask("ann").await;
    let path = resolve_path(&asked);
    for (body, says) in [
        (
            json!({ "outcome": "perhaps", "reason": "x" }),
            "\"done\" or \"not_done\"",
        ),
        (json!({ "outcome": "done" }), "reason"),
        (json!({ "outcome": "done", "reason": "  " }), "reason"),
        (
            json!({ "outcome": "done", "reason": "a".repeat(501) }),
            "500",
        ),
    ] {
        let problem = desk
            .post("ann", &path, &body)
            .await
            .problem(422, "invalid_arguments");
        let detail = problem["detail"].as_str().unwrap();
        assert!(detail.contains(says), "{detail}");
    }
}

#[tokio::test]
async fn an_id_that_is_none_names_nothing() {
    let desk = Desk::open().await;
    for id in [
        "x",
        "01arz3ndektsv4rrffq69g5fav",
        "%20",
        "%ff",
        "01ARZ3NDEKTSV4RRFFQ69G5FAV",
    ] {
        let path = format!("/approvals/{id}");
        desk.get("ann", &path).await.problem(404, "not_found");
        let body = json!({ "decision": "approve" });
        desk.post("ann", &format!("{path}/decision"), &body)
            .await
            .problem(404, "not_found");
    }
    for path in ["/audit?approval=x", "/audit/verify?approval=x"] {
        desk.get("ann", path).await.problem(404, "not_found");
    }
}

#[tokio::test]
async fn a_list_that_cannot_be_asked_for_is_refused_in_words() {
    let desk = Desk::open().await;
    for query in [
        "state=open",
        "limit=0",
        "limit=101",
        "limit=x",
        "cursor=x",
        "mine=perhaps",
    ] {
        desk.get("ann", &format!("/approvals?{query}"))
            .await
            .problem(400, "bad_request");
    }
    for query in ["limit=0", "cursor=x"] {
        desk.get("ann", &format!("/audit?{query}"))
            .await
            .problem(400, "bad_request");
    }
}

#[tokio::test]
async fn an_address_is_used_as_it_is_meant() {
    let desk = Desk::open().await;
    let asked = desk.ask("ann").await;
    desk.get("ann", &decision_path(&asked))
        .await
        .problem(405, "method_not_allowed");
    desk.get("ann", "/approvals/x/y")
        .await
        .problem(404, "not_found");
    let staged = format!("/v1/approvals/{}", asked.approval.approval_id);
    desk.get("ann", &staged).await.ok();
}
