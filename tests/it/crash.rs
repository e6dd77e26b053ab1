//! A runner that is killed in the middle of its work.

use std::fs;
use std::time::Instant;

use reqwest::Method;
use serde_json::json;

use crate::harness::{Own, Stack, eventually, fresh};

/// The processes of the chat function that this stack's front has started.
fn chat_processes(stack: &Stack) -> Vec<u32> {
    let port = stack.port().to_owned();
    let front = processes().find(|pid| {
        let words = words_of(*pid);
        words
            .first()
            .is_some_and(|program| program.ends_with("toshi-sandbox"))
            && words
                .windows(2)
                .any(|pair| pair == ["--port".to_owned(), port.clone()])
    });
    let front = front.expect("the front's process");
    let ours = |pid: &u32| {
        parent_of(*pid) == Some(front)
            && words_of(*pid)
                .first()
                .is_some_and(|program| program.ends_with("/chat"))
    };
    processes().filter(ours).collect()
}

fn processes() -> impl Iterator<Item = u32> {
    let entries = fs::read_dir("/proc").expect("/proc").flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

fn words_of(pid: u32) -> Vec<String> {
    let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let words = line.split(|byte| *byte == 0);
    words
        .map(|word| String::from_utf8_lossy(word).into_owned())
        .collect()
}

fn parent_of(pid: u32) -> Option<u32> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("PPid:"))?;
    line.trim().parse().ok()
}

#[tokio::test]
async fn a_turn_whose_process_is_killed_is_taken_over_and_completed() {
    let own = Own::start(&[]).await;
    let stack = own.stack();
    stack.switch(json!({ "llm.delay_ms": 200 })).await;
    let admin = stack.person("hilltop-admin").await;
    let chat = admin.chat();
    let text = fresh("killed");
    let body = chat.message(&format!("read #parents and post \"{text}\" to #parents"));
    let request = admin.request(Method::POST, "/v1/chat").json(&body);
    let mut response = request.send().await.expect("an answer");
    response
        .chunk()
        .await
        .expect("bytes")
        .expect("a first chunk");
    let victims = chat_processes(&stack);
    assert!(!victims.is_empty(), "something to kill");
    let began = Instant::now();
    for pid in victims {
        // Of a stack that nobody else uses.
        let killed = std::process::Command::new("kill")
            .args(["-9", &pid.to_string()])
            .status();
        assert!(
            killed.is_ok_and(|status| status.success()),
            "{pid} was not killed"
        );
    }
    // The stream breaks off or ends, but the process is gone.
    while let Ok(Some(_)) = response.chunk().await {}
    stack.switch(json!({ "llm.delay_ms": null })).await;
    let page = chat.read().await.ok();
    assert_eq!(page["running"], true, "the turn is not lost: {page}");
    assert_eq!(
        page["items"].as_array().map(Vec::len),
        Some(1),
        "only the message: {page}"
    );

    // Until the lease has run out nobody else may work here; the sweep finds it then.
    let asked = eventually("the question", 130, async || {
        let page = chat.read().await.ok();
        let parts = page["items"][1]["parts"]
            .as_array()
            .cloned()
            .unwrap_or_default();
        let call = parts
            .iter()
            .find(|part| part["state"] == "approval-requested")
            .cloned();
        call.map(|call| call["approval"]["id"].as_str().expect("an id").to_owned())
    })
    .await;
    assert!(
        began.elapsed().as_secs() >= 30,
        "not before the lease ran out"
    );
    admin.approve(&asked).await;
    admin.until(&asked, "succeeded", 20).await;
    let messages = chat.until_told(&format!("Posted “{text}”"), 20).await;
    assert_eq!(messages.len(), 2, "no second answer: {messages:?}");
    assert_eq!(stack.posted(&text).await, 1);
}
