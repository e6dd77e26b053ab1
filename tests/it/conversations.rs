//! Conversations: found again, said again, deleted.

use serde_json::{Value, json};

use crate::harness::{Stack, fresh};

#[tokio::test]
async fn deleting_a_conversation_withdraws_its_question_and_its_messages_are_gone() {
    let stack = Stack::shared().await;
    let admin = stack.person("hilltop-admin").await;
    let chat = admin.chat();
    let text = fresh("deleted");
    let id = chat.ask_to_post(&text, "#general").await;
    let path = format!("/v1/conversations/{}", chat.id);
    assert_eq!(admin.delete(&path).await.status, 204);
    let row = admin.approval(&id).await;
    assert_eq!(row["state"], "voided", "{row}");
    assert_eq!(row["can_decide"], false);
    chat.read().await.problem(404, "unknown_conversation");
    admin
        .delete(&path)
        .await
        .problem(404, "unknown_conversation");
    let late = admin.decide(&id, &json!({ "decision": "approve" })).await;
    late.problem(409, "no_longer_open");
    chat.try_post(&chat.message("hello"))
        .await
        .problem(404, "unknown_conversation");
    let list = admin.get("/v1/conversations?limit=50").await.ok();
    assert!(!list.to_string().contains(&chat.id), "{list}");
    assert_eq!(
        admin.events(&id).await,
        ["requested", "voided"],
        "the audit stays"
    );
    stack.tick("approvals").await;
    stack.tick("turns").await;
    assert_eq!(stack.posted(&text).await, 0);
}

#[tokio::test]
async fn conversations_are_listed_newest_first_and_paged() {
    let stack = Stack::shared().await;
    let person = stack.person("lakeside-parent2").await;
    let chats = [person.chat(), person.chat(), person.chat()];
    for chat in &chats {
        chat.say(&fresh("hello")).await;
    }
    let page = person.get("/v1/conversations?limit=2").await.ok();
    let ids = |page: &Value| -> Vec<Value> {
        page["items"]
            .as_array()
            .expect("items")
            .iter()
            .map(|item| item["id"].clone())
            .collect()
    };
    assert_eq!(ids(&page), [json!(chats[2].id), json!(chats[1].id)]);
    let next = page["next"].as_str().expect("a second page");
    let page = person
        .get(&format!("/v1/conversations?limit=2&cursor={next}"))
        .await
        .ok();
    assert_eq!(ids(&page)[0], json!(chats[0].id));
}

#[tokio::test]
async fn a_message_that_is_sent_twice_is_handled_once() {
    let stack = Stack::shared().await;
    let admin = stack.person("hilltop-admin").await;
    let chat = admin.chat();
    let text = fresh("twice");
    let body = chat.message(&format!("post \"{text}\" to #general"));
    let (first, second) = tokio::join!(chat.post(&body), chat.post(&body));
    let third = chat.post(&body).await;
    assert_eq!(first.message_id(), second.message_id());
    assert_eq!(first.message_id(), third.message_id());
    assert_eq!(first.approvals(), third.approvals(), "{:?}", third.chunks);
    assert_eq!(first.approvals(), second.approvals(), "{:?}", second.chunks);
    assert_eq!(chat.messages().await.len(), 2);
    let id = &first.approvals()[0];
    admin.approve(id).await;
    chat.until_told(&format!("Posted “{text}”"), 20).await;
    chat.post(&body).await;
    assert_eq!(stack.posted(&text).await, 1);
}

#[tokio::test]
async fn an_edited_message_withdraws_what_the_old_one_asked() {
    let stack = Stack::shared().await;
    let admin = stack.person("lakeside-admin").await;
    let chat = admin.chat();
    let (wrong, right) = (fresh("wrong"), fresh("right"));
    let first = chat.message_with_id("m-edited", &format!("post \"{wrong}\" to #general"));
    let old = chat.post(&first).await.approvals()[0].clone();
    let mut edited = chat.message_with_id("m-edited", &format!("post \"{right}\" to #general"));
    edited["messageId"] = json!("m-edited");
    let new = chat.post(&edited).await.approvals()[0].clone();
    admin.until(&old, "voided", 20).await;
    let late = admin.decide(&old, &json!({ "decision": "approve" })).await;
    late.problem(409, "no_longer_open");
    admin.approve(&new).await;
    chat.until_told(&format!("Posted “{right}”"), 20).await;
    assert_eq!(
        (stack.posted(&wrong).await, stack.posted(&right).await),
        (0, 1)
    );
}

#[tokio::test]
async fn regenerating_an_answer_asks_anew_and_repeats_nothing_that_was_done() {
    let stack = Stack::shared().await;
    let admin = stack.person("hilltop-admin").await;
    let chat = admin.chat();
    let text = fresh("regenerated");
    let told = chat.say(&format!("post \"{text}\" to #general")).await;
    let first = told.approvals()[0].clone();
    admin.approve(&first).await;
    chat.until_told(&format!("Posted “{text}”"), 20).await;
    let mut body = chat.message("anything");
    body["trigger"] = json!("regenerate-message");
    body["messageId"] = json!(told.message_id());
    let again = chat.post(&body).await;
    assert_ne!(again.message_id(), told.message_id());
    assert_eq!(again.approvals().len(), 1, "asked anew: {:?}", again.chunks);
    assert_ne!(again.approvals()[0], first);
    assert_eq!(stack.posted(&text).await, 1, "nothing without a new yes");
    assert_eq!(admin.approval(&first).await["state"], "succeeded");
}
