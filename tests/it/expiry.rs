//! Nobody answers in time.

use serde_json::{Value, json};

use crate::harness::{Own, Stack, eventually, fresh};

async fn passed(row: &Value, stack: &Stack) {
    let limit = row["decide_by"].as_str().expect("a time").to_owned();
    // The stack's own clock, as its answers tell it in their times.
    eventually("the time to answer is over", 30, async || {
        let person = stack.person("lakeside-deputy").await;
        let now = person.chat().say("hello").await;
        assert_eq!(now.finish(), "stop");
        let list = person.get("/v1/conversations?limit=1").await.ok();
        let now = list["items"][0]["last_activity"]
            .as_str()
            .expect("a time")
            .to_owned();
        (now > limit).then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_question_that_nobody_answers_expires_and_wakes_its_turn() {
    let own = Own::start(&[("APPROVAL_TTL", "5")]).await;
    let stack = own.stack();
    let admin = stack.person("lakeside-admin").await;
    let (swept, decided, posted) = (fresh("swept"), fresh("decided"), fresh("posted"));

    // Found by the sweep.
    let chat = admin.chat();
    let id = chat.ask_to_post(&swept, "#general").await;
    // Found by an answer that comes too late, over HTTP and in a chat request.
    let late = admin.chat();
    let late_id = late.ask_to_post(&decided, "#general").await;
    let client = admin.chat();
    let told = client.say(&format!("post \"{posted}\" to #general")).await;
    let client_id = told.approvals()[0].clone();
    passed(&admin.approval(&client_id).await, &stack).await;

    let answer = admin
        .decide(&late_id, &json!({ "decision": "approve" }))
        .await;
    answer.problem(410, "expired");
    assert_eq!(
        admin.approval(&late_id).await["state"],
        "expired",
        "before any sweep"
    );

    let mut history = client.messages().await;
    history[1]["parts"][1]["state"] = json!("approval-responded");
    history[1]["parts"][1]["approval"]["approved"] = json!(true);
    let body = json!({ "id": client.id, "messages": history, "messageId": told.message_id() });
    let continued = client.post(&body).await;
    assert_eq!(continued.message_id(), told.message_id());
    assert_eq!(
        continued.of_kind("tool-output-error").count(),
        1,
        "{:?}",
        continued.chunks
    );

    stack.tick("approvals").await;
    let row = admin.until(&id, "expired", 20).await;
    assert_eq!(row["decided_by"], Value::Null, "nobody said no");
    assert_eq!(
        row["outcome_note"],
        "Nobody answered in time. Nothing was done."
    );
    for (chat, id, text) in [
        (&chat, &id, &swept),
        (&late, &late_id, &decided),
        (&client, &client_id, &posted),
    ] {
        let messages = chat.until_told("expired, not run", 30).await;
        let answer = messages.last().expect("an answer");
        assert_eq!(answer["parts"][1]["state"], "output-error", "{answer}");
        assert_eq!(answer["parts"][1]["errorText"], row["outcome_note"]);
        assert!(
            !answer.to_string().contains("denied"),
            "a timeout is no refusal: {answer}"
        );
        let again = admin.decide(id, &json!({ "decision": "approve" })).await;
        again.problem(410, "expired");
        let records = admin.audit(id).await;
        let events: Vec<&Value> = records.iter().map(|record| &record["event"]).collect();
        assert_eq!(events, ["requested", "expired"]);
        assert_eq!(
            records[1]["actor"],
            json!({ "kind": "system", "id": null, "name": null })
        );
        assert_eq!(stack.posted(text).await, 0);
    }
}
