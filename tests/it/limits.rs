//! Too much at once.

use reqwest::Method;
use tokio::task::JoinSet;

use crate::harness::{Answer, Person, Stack};

/// Many messages at the same time, each in a conversation of its own.
async fn flood(person: &Person<'_>, count: usize) -> Vec<Answer> {
    let mut answers = JoinSet::new();
    for _ in 0..count {
        let message = person.chat().message("hello");
        let request = person.request(Method::POST, "/v1/chat").json(&message);
        answers.spawn(async move { Answer::of(request.send().await.expect("sent")).await });
    }
    answers.join_all().await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn more_than_twenty_messages_a_minute_are_told_to_wait_and_nobody_else_is() {
    let stack = Stack::shared().await;
    // Nobody else uses this person.
    let person = stack.person("lakeside-librarian").await;
    // Two minutes may be touched, and hold twenty each.
    let mut answers = flood(&person, 45).await;
    // As many as the whole school may send, for which one person must not be enough.
    for _ in 0..7 {
        answers.extend(flood(&person, 45).await);
    }
    let mut good = 0;
    let mut waits = Vec::new();
    for answer in answers {
        if answer.status == 200 {
            good += 1;
            continue;
        }
        waits.push(
            answer
                .header("retry-after")
                .parse::<u64>()
                .expect("seconds"),
        );
        let problem = answer.problem(429, "rate_limited");
        assert_eq!(
            problem["title"], "Too much at once",
            "of the product itself: {problem}"
        );
    }
    assert!((20..=40).contains(&good), "{good} were answered");
    assert!(
        waits.iter().all(|wait| (1..=60).contains(wait)),
        "{waits:?}"
    );
    let other = stack.person("lakeside-receptionist").await;
    let chat = other.chat();
    let answer = other.post("/v1/chat", &chat.message("hello")).await;
    assert_eq!(answer.status, 200, "the school goes on: {}", answer.text);
    person.get("/v1/me").await.ok();
}
