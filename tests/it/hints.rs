//! Messages of the queue are hints: lost, doubled, reordered or nonsense, the work is done once.

use serde_json::json;

use crate::harness::{Aws, Mapping, Own, Stack, eventually, fresh};

/// Runs something while the worker is told nothing; what was said meanwhile is lost.
async fn deaf(aws: &Aws<'_>, something: impl Future<Output = ()>) {
    let mapping: Mapping = aws.unsubscribe().await;
    something.await;
    eventually("a hint to lose", 10, async || {
        (aws.waiting().await > 0).then_some(())
    })
    .await;
    aws.purge().await;
    assert_eq!(aws.waiting().await, 0);
    aws.subscribe(mapping).await;
}

#[tokio::test]
async fn a_turn_whose_hint_is_lost_is_found_by_the_next_sweep() {
    let stack = Stack::alone().await;
    let aws = stack.aws().await;
    let admin = stack.person("lakeside-admin").await;
    let chat = admin.chat();
    let text = fresh("lost");
    let id = chat.ask_to_post(&text, "#general").await;
    deaf(&aws, async {
        admin.approve(&id).await;
    })
    .await;
    assert_eq!(
        admin.approval(&id).await["state"],
        "approved",
        "nobody knows of it"
    );
    let report = stack.tick("turns").await;
    assert!(
        report["acted"].as_u64().is_some_and(|acted| acted >= 1),
        "{report}"
    );
    admin.until(&id, "succeeded", 20).await;
    chat.until_told(&format!("Posted “{text}”"), 20).await;
    assert_eq!(stack.posted(&text).await, 1);
}

#[tokio::test]
async fn the_schedule_alone_finds_a_lost_hint_within_seventy_seconds() {
    let own = Own::start(&[]).await;
    let stack = own.stack();
    let aws = stack.aws().await;
    let admin = stack.person("hilltop-admin").await;
    let chat = admin.chat();
    let text = fresh("minute");
    let id = chat.ask_to_post(&text, "#general").await;
    deaf(&aws, async {
        admin.approve(&id).await;
    })
    .await;
    admin.until(&id, "succeeded", 70).await;
    chat.until_told(&format!("Posted “{text}”"), 5).await;
    assert_eq!(stack.posted(&text).await, 1);
}

#[tokio::test]
async fn doubled_and_reordered_hints_are_one_call() {
    let stack = Stack::alone().await;
    let aws = stack.aws().await;
    let admin = stack.person("lakeside-admin").await;
    let chat = admin.chat();
    let text = fresh("doubled");
    let id = chat.ask_to_post(&text, "#general").await;
    let audit = admin.get(&format!("/v1/audit?approval={id}")).await.ok();
    let conversation = &audit["items"][0]["conversation_id"];
    let hint = json!({ "tenant": "lakeside", "conversation": conversation }).to_string();
    let mapping = aws.unsubscribe().await;
    for _ in 0..8 {
        aws.wake(&hint).await;
    }
    admin.approve(&id).await;
    for _ in 0..8 {
        aws.wake(&hint).await;
    }
    aws.subscribe(mapping).await;
    admin.until(&id, "succeeded", 20).await;
    chat.until_told(&format!("Posted “{text}”"), 20).await;
    eventually("the queue is empty", 20, async || {
        (aws.waiting().await == 0).then_some(())
    })
    .await;
    aws.wake(&hint).await;
    eventually("the queue is empty", 20, async || {
        (aws.waiting().await == 0).then_some(())
    })
    .await;
    assert_eq!(stack.posted(&text).await, 1);
    let messages = chat.messages().await;
    assert_eq!(messages.len(), 2, "{messages:?}");
    let words = messages[1]["parts"].as_array().expect("parts").iter();
    assert_eq!(
        words.filter(|part| part["type"] == "text").count(),
        1,
        "continued once"
    );
    assert_eq!(
        admin.events(&id).await,
        ["requested", "decided", "claimed", "settled"]
    );
}

#[tokio::test]
async fn nonsense_in_the_queue_ends_as_a_dead_letter_and_holds_up_nobody() {
    let stack = Stack::alone().await;
    let aws = stack.aws().await;
    let admin = stack.person("hilltop-admin").await;
    let chat = admin.chat();
    let text = fresh("beside");
    let id = chat.ask_to_post(&text, "#general").await;
    let nonsense = fresh("nonsense");
    let stranger = json!({ "tenant": "nowhere", "conversation": "a".repeat(32) }).to_string();
    let mapping = aws.unsubscribe().await;
    // Handed out again after a second instead of after the worker's longest run.
    aws.set_visibility(1).await;
    aws.wake(&nonsense).await;
    aws.wake(&stranger).await;
    admin.approve(&id).await;
    aws.subscribe(mapping).await;
    admin.until(&id, "succeeded", 20).await;
    eventually("the dead letter", 60, async || {
        aws.dead_letters().await.contains(&nonsense).then_some(())
    })
    .await;
    aws.set_visibility(330).await;
    chat.until_told(&format!("Posted “{text}”"), 20).await;
    assert_eq!(stack.posted(&text).await, 1);
}
