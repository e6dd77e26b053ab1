//! A school whose server speaks the stateless protocol.

use serde_json::{Value, json};

use crate::harness::{Stack, fresh};

/// How the school's connection is kept to be spoken with.
async fn kept(stack: &Stack, school: &str) -> Value {
    let aws = stack.aws().await;
    let (pk, sk) = (format!("T#{school}"), format!("CONN#demo#demo-{school}"));
    aws.row(&pk, &sk).await["era"]["S"].clone()
}

#[tokio::test]
async fn a_school_at_a_stateless_server_asks_approves_and_has_it_done_once() {
    let stack = Stack::alone().await;
    let admin = stack.person("hilltop-admin").await;
    for (protocol, era) in [
        (json!("2026-07-28"), "2026-07-28"),
        // What was kept is now wrong.
        (json!(null), "2025-11-25"),
        (json!("both"), "2025-11-25"),
        (json!("2026-07-28"), "2026-07-28"),
        (json!("2025-11-25-stateless"), "2025-11-25"),
    ] {
        stack.switch(json!({ "mcp.demo.protocol": protocol })).await;
        let chat = admin.chat();
        let text = fresh("era");
        let id = chat.ask_to_post(&text, "#general").await;
        assert_eq!(stack.posted(&text).await, 0, "{protocol}: before the yes");
        admin.approve(&id).await;
        let done = admin.until(&id, "succeeded", 40).await;
        assert_eq!(done["attempts"], 1, "{protocol}");
        assert_eq!(done["result"]["ok"], true, "{protocol}");
        assert_eq!(stack.posted(&text).await, 1, "{protocol}");
        let events = admin.events(&id).await;
        assert_eq!(events, ["requested", "decided", "claimed", "settled"]);
        assert_eq!(kept(&stack, "hilltop").await, era, "{protocol}");

        // And it reads there.
        let read = admin.chat().say("read #general").await;
        let found = read.of_kind("tool-output-available").next();
        let found = found.expect("a result").to_string();
        assert!(found.contains(&text), "{protocol}: {found}");
    }
    // The other school has not asked, and is kept as it was.
    assert_eq!(kept(&stack, "lakeside").await, "2025-11-25");
}
