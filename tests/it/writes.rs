//! One write, from the question to the answer.

use serde_json::{Value, json};

use crate::harness::{Stack, fresh};

#[tokio::test]
async fn a_post_is_asked_approved_and_done_once_and_the_audit_tells_it_in_order() {
    let stack = Stack::shared().await;
    let admin = stack.person("lakeside-admin").await;
    let chat = admin.chat();
    let text = fresh("once");
    let told = chat.say(&format!("post \"{text}\" to #general")).await;
    assert_eq!(
        told.kinds(),
        [
            "start",
            "start-step",
            "tool-input-available",
            "tool-approval-request",
            "finish-step",
            "finish"
        ]
    );
    assert_eq!(told.finish(), "tool-calls");
    let id = told.approvals()[0].clone();
    let asked = admin.approval(&id).await;
    let call = told.of_kind("tool-input-available").next().expect("a call");
    assert_eq!(asked["state"], "pending");
    assert_eq!(
        asked["arguments"],
        json!({ "channel": "#general", "text": text })
    );
    assert_eq!(asked["arguments"], call["input"]);
    assert_eq!(asked["tool_call_id"], call["toolCallId"]);
    assert_eq!(asked["conversation_id"], chat.id);
    assert_eq!(asked["connection"]["account"], "Lakeside workspace");
    assert_eq!(
        asked["requester"],
        json!({ "id": "lakeside-admin", "name": "Lakeside admin" })
    );
    assert_eq!(asked["can_decide"], true);
    assert_eq!(stack.posted(&text).await, 0, "nothing before the yes");

    admin.approve(&id).await;
    let done = admin.until(&id, "succeeded", 20).await;
    assert_eq!(done["result"]["ok"], true);
    assert_eq!(done["attempts"], 1);
    assert_eq!(done["decided_by"]["id"], "lakeside-admin");
    assert_eq!(done["decided_how"], "web");

    let messages = chat
        .until_told(&format!("Posted “{text}” to #general."), 20)
        .await;
    assert_eq!(messages.len(), 2, "a question and one answer: {messages:?}");
    let parts = &messages[1]["parts"];
    assert_eq!(messages[1]["id"], told.message_id());
    assert_eq!(parts[1]["state"], "output-available", "{parts}");
    assert_eq!(
        parts[1]["output"], done["result"],
        "the result is where the question was"
    );
    assert_eq!(stack.posted(&text).await, 1);

    let records = admin.audit(&id).await;
    let column = |name: &str| {
        records
            .iter()
            .map(|record| record[name].clone())
            .collect::<Vec<_>>()
    };
    assert_eq!(
        column("event"),
        ["requested", "decided", "claimed", "settled"].map(Value::from)
    );
    assert_eq!(column("seq"), [1, 2, 3, 4].map(Value::from));
    let kinds: Vec<Value> = records
        .iter()
        .map(|record| record["actor"]["kind"].clone())
        .collect();
    assert_eq!(kinds, ["user", "user", "system", "system"].map(Value::from));
    assert_eq!(records[1]["actor"]["id"], "lakeside-admin");
    assert!(
        !json!(records).to_string().contains(&text),
        "the audit holds no contents"
    );
}

#[tokio::test]
async fn a_rejected_post_is_not_done_and_the_model_is_told_the_reason() {
    let stack = Stack::shared().await;
    let admin = stack.person("hilltop-admin").await;
    let chat = admin.chat();
    let text = fresh("rejected");
    let id = chat.ask_to_post(&text, "#general").await;
    let rejected = admin.reject(&id, "the date is wrong").await;
    assert_eq!(rejected["state"], "rejected");
    assert_eq!(rejected["reason"], "the date is wrong");
    let messages = chat.until_told("the date is wrong", 20).await;
    let answer = messages.last().expect("an answer");
    assert_eq!(answer["parts"][1]["state"], "output-denied");
    assert_eq!(stack.posted(&text).await, 0);
    assert_eq!(admin.events(&id).await, ["requested", "decided"]);
}

#[tokio::test]
async fn a_call_that_was_denied_may_be_asked_for_again_with_a_new_message() {
    let stack = Stack::shared().await;
    let admin = stack.person("hilltop-admin").await;
    let chat = admin.chat();
    let text = fresh("anew");
    let first = chat.ask_to_post(&text, "#general").await;
    admin.reject(&first, "not now").await;
    chat.until_told("not now", 20).await;
    let second = chat.ask_to_post(&text, "#general").await;
    assert_ne!(first, second);
    admin.approve(&second).await;
    admin.until(&second, "succeeded", 20).await;
    assert_eq!(admin.approval(&first).await["state"], "rejected");
    assert_eq!(stack.posted(&text).await, 1);
}
