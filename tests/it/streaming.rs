//! Words arrive while the model still speaks.

use std::time::{Duration, Instant};

use reqwest::Method;
use serde_json::json;

use crate::harness::{Answer, Stack, Told, fresh, last_text};

#[tokio::test]
async fn the_first_words_arrive_before_the_models_last_chunk() {
    let stack = Stack::alone().await;
    let pause = Duration::from_millis(150);
    stack.switch(json!({ "llm.delay_ms": 150 })).await;
    let teacher = stack.person("hilltop-teacher").await;
    let chat = teacher.chat();
    let began = Instant::now();
    let request = teacher
        .request(Method::POST, "/v1/chat")
        .json(&chat.message("hello"));
    let mut response = request.send().await.expect("an answer");
    assert_eq!(response.status(), 200);
    let (mut text, mut first, mut deltas) = (String::new(), None, 0);
    while let Some(bytes) = response.chunk().await.expect("bytes") {
        text.push_str(std::str::from_utf8(&bytes).expect("whole characters"));
        let seen = text.matches("\"text-delta\"").count();
        if seen > 0 && first.is_none() {
            first = Some((began.elapsed(), seen));
        }
        deltas = seen;
    }
    let end = began.elapsed();
    let (first, seen) = first.expect("words");
    assert!(deltas >= 8, "{text}");
    assert!(seen < deltas / 2, "{seen} of {deltas} came with the first");
    // The model was silent between its chunks, so the end is that much later.
    let silent = pause * u32::try_from(deltas / 2).expect("few");
    assert!(
        end - first >= silent,
        "first after {first:?}, end after {end:?}"
    );
}

#[tokio::test]
async fn a_client_that_leaves_does_not_stop_its_turn() {
    let stack = Stack::alone().await;
    stack.switch(json!({ "llm.delay_ms": 100 })).await;
    let teacher = stack.person("lakeside-teacher2").await;
    let chat = teacher.chat();
    let request = teacher
        .request(Method::POST, "/v1/chat")
        .json(&chat.message("hello"));
    let mut response = request.send().await.expect("an answer");
    response
        .chunk()
        .await
        .expect("bytes")
        .expect("a first chunk");
    drop(response);
    assert_eq!(chat.read().await.ok()["running"], true);
    let messages = chat.until_told("scripted model", 30).await;
    assert_eq!(messages.len(), 2);
}

#[tokio::test]
async fn a_reader_who_comes_late_gets_the_whole_message_from_its_start() {
    let stack = Stack::alone().await;
    let admin = stack.person("lakeside-admin").await;
    let chat = admin.chat();
    let text = fresh("replay");
    stack.switch(json!({ "llm.delay_ms": 250 })).await;
    let body = chat.message(&format!("read #staff and post \"{text}\" to #staff"));
    let (told, followed) = tokio::join!(chat.post(&body), async {
        // The message itself may have to wait for a free minute.
        crate::harness::eventually("something to follow", 130, async || {
            let answer = admin.get(&format!("/v1/chat/{}/stream", chat.id)).await;
            (answer.status == 200).then(|| Told::of(&answer))
        })
        .await
    });
    assert_eq!(followed.message_id(), told.message_id());
    assert_eq!(followed.kinds(), told.kinds(), "the same chunks");
    assert_eq!(followed.approvals(), told.approvals());
    let after = admin.get(&format!("/v1/chat/{}/stream", chat.id)).await;
    assert_eq!(after.status, 204, "nothing runs while a person is asked");
    let id = told.approvals()[0].clone();
    admin.approve(&id).await;
    let replay = crate::harness::eventually("the continuation", 20, async || {
        let answer = admin.get(&format!("/v1/chat/{}/stream", chat.id)).await;
        (answer.status == 200).then(|| Told::of(&answer))
    })
    .await;
    assert_eq!(replay.message_id(), told.message_id());
    assert_eq!(
        replay.of_kind("tool-input-available").count(),
        2,
        "complete: {replay:?}"
    );
    assert_eq!(
        replay.of_kind("tool-output-available").count(),
        2,
        "complete: {replay:?}"
    );
    let messages = chat.until_told(&format!("Posted “{text}”"), 20).await;
    assert!(
        replay.text().contains(last_text(&messages[1])),
        "{replay:?}"
    );
}

#[tokio::test]
async fn the_deployed_function_answers_whole_what_the_front_streams() {
    // With its own role too, where the stand-in asks for one.
    let stack = Stack::shared().await;
    let aws = stack.aws().await;
    let admin = stack.person("lakeside-admin").await;
    let chat = admin.chat();
    let text = fresh("whole");
    let wish = format!("read #science and post \"{text}\" to #general");
    let request = stack.http.post(format!("{}/chat", aws.api));
    let request = request.bearer_auth(&admin.token).json(&chat.message(&wish));
    let answer = Answer::of(request.send().await.expect("an answer")).await;
    let told = Told::of(&answer);
    assert_eq!(told.of_kind("tool-output-available").count(), 1, "{told:?}");
    let asked = told.approvals();
    assert_eq!(asked.len(), 1, "{told:?}");
    admin.approve(&asked[0]).await;
    chat.until_told(&format!("Posted “{text}”"), 20).await;
    assert_eq!(stack.posted(&text).await, 1);
}
