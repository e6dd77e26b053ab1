//! Too much at once.

use tokio::task::JoinSet;

use crate::harness::{Answer, Stack};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn more_than_twenty_messages_a_minute_are_told_to_wait() {
    let stack = Stack::shared().await;
    // Nobody else uses this person.
    let person = stack.person("lakeside-librarian").await;
    let mut answers = JoinSet::new();
    // Two minutes may be touched, and hold twenty each.
    for _ in 0..45 {
        let chat = person.chat();
        let request = person.request(reqwest::Method::POST, "/v1/chat").json(&chat.message("hello"));
        answers.spawn(async move { Answer::of(request.send().await.expect("sent")).await });
    }
    let mut good = 0;
    let mut waits = Vec::new();
    for answer in answers.join_all().await {
        if answer.status == 200 {
            good += 1;
            continue;
        }
        waits.push(answer.header("retry-after").parse::<u64>().expect("seconds"));
        answer.problem(429, "rate_limited");
    }
    assert!((20..=40).contains(&good), "{good} were answered");
    assert!(waits.len() >= 5 && waits.iter().all(|wait| (1..=60).contains(wait)), "{waits:?}");
    let other = stack.person("lakeside-receptionist").await;
    let told = other.chat().say("hello").await;
    assert_eq!(told.finish(), "stop", "others go on");
    person.get("/v1/me").await.ok();
}
