//! Many answers to one question.

use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::harness::{Answer, Stack, fresh};

/// What moves on while answers arrive; everything else must be equal.
const MOVING: &[&str] = &["state", "attempts", "result", "outcome_note", "can_resolve"];

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn the_same_decision_fifty_times_at_once_is_one_call_and_fifty_equal_answers() {
    let stack = Stack::shared().await;
    let admin = stack.person("lakeside-admin").await;
    let chat = admin.chat();
    let text = fresh("fifty");
    let id = chat.ask_to_post(&text, "#general").await;
    let url = format!("{}/v1/approvals/{id}/decision", stack.base);
    let mut answers = JoinSet::new();
    for _ in 0..5 {
        // One client each: connections of its own.
        let client = reqwest::Client::builder()
            .no_proxy()
            .build()
            .expect("a client");
        for _ in 0..10 {
            let request = client.post(&url).bearer_auth(&admin.token);
            let request = request.json(&json!({ "decision": "approve" }));
            answers.spawn(async move { Answer::of(request.send().await.expect("sent")).await });
        }
    }
    let mut bodies: Vec<Value> = answers
        .join_all()
        .await
        .into_iter()
        .map(Answer::ok)
        .collect();
    assert_eq!(bodies.len(), 50);
    for body in &mut bodies {
        let moved = body["state"].as_str().expect("a state");
        assert!(
            ["approved", "executing", "succeeded"].contains(&moved),
            "{body}"
        );
        let fields = body.as_object_mut().expect("an approval");
        fields.retain(|name, _| !MOVING.contains(&name.as_str()));
    }
    assert!(bodies.iter().all(|body| *body == bodies[0]), "{bodies:#?}");

    admin.until(&id, "succeeded", 20).await;
    chat.until_told(&format!("Posted “{text}”"), 20).await;
    assert_eq!(stack.posted(&text).await, 1);
    let events = admin.events(&id).await;
    assert_eq!(
        events,
        ["requested", "decided", "claimed", "settled"],
        "decided once"
    );

    let other = admin
        .decide(&id, &json!({ "decision": "reject", "reason": "too late" }))
        .await;
    let problem = other.problem(409, "already_decided");
    let row = admin.approval(&id).await;
    assert_eq!(problem["decided"]["decision"], "approve");
    assert_eq!(problem["decided"]["by"], row["decided_by"]);
    assert_eq!(problem["decided"]["at"], row["decided_at"]);
    let detail = problem["detail"].as_str().expect("a sentence");
    let when = row["decided_at"].as_str().expect("a time");
    for told in ["approved", "Lakeside admin", when] {
        assert!(detail.contains(told), "{detail} does not say {told}");
    }
    assert_eq!(
        row["state"], "succeeded",
        "the other answer changed nothing"
    );
    assert_eq!(row["reason"], Value::Null);
}

#[tokio::test]
async fn yes_and_no_at_the_same_moment_leave_one_answer() {
    let stack = Stack::shared().await;
    let admin = stack.person("hilltop-admin").await;
    let chat = admin.chat();
    let text = fresh("both");
    let id = chat.ask_to_post(&text, "#general").await;
    let yes = json!({ "decision": "approve" });
    let no = json!({ "decision": "reject" });
    let (a, b, c, d) = tokio::join!(
        admin.decide(&id, &yes),
        admin.decide(&id, &no),
        admin.decide(&id, &yes),
        admin.decide(&id, &no)
    );
    let row = admin.approval(&id).await;
    let approved = row["state"] != "rejected";
    for (answer, says_yes) in [(a, true), (b, false), (c, true), (d, false)] {
        if says_yes == approved {
            answer.ok();
        } else {
            answer.problem(409, "already_decided");
        }
    }
    if approved {
        admin.until(&id, "succeeded", 20).await;
    }
    chat.until("the answer", 20, |messages| {
        messages[1]["parts"]
            .as_array()
            .is_some_and(|parts| parts.len() > 2)
    })
    .await;
    assert_eq!(stack.posted(&text).await, usize::from(approved));
}
