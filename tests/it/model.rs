//! The model misbehaves: nothing it breaks off or repeats becomes an action.

use serde_json::{Value, json};

use crate::harness::{Stack, Told, fresh};

async fn say_under(school: &str, switches: Value, text: &str) -> (Told, usize) {
    let stack = Stack::alone().await;
    let admin = stack.person(&format!("{school}-admin")).await;
    let chat = admin.chat();
    stack.switch(switches).await;
    let wish = format!("post \"{text}\" to #general and \"{text}\" to #staff");
    let told = chat.say(&wish).await;
    let pending = admin.get("/v1/approvals?state=pending&limit=50").await.ok();
    let own = |item: &&Value| item["conversation_id"] == chat.id;
    let pending = pending["items"]
        .as_array()
        .expect("items")
        .iter()
        .filter(own)
        .count();
    chat.until("nothing runs", 20, |_| true).await;
    stack.behave();
    assert_eq!(stack.posted(text).await, 0);
    (told, pending)
}

#[tokio::test]
async fn a_call_that_was_cut_off_is_never_asked() {
    for reason in ["length", "tool_calls"] {
        let text = fresh("cutoff");
        let switches = json!({ "llm.finish_length": reason });
        let (told, pending) = say_under("lakeside", switches, &text).await;
        assert_eq!(
            (told.approvals().len(), pending),
            (0, 0),
            "{reason}: {:?}",
            told.chunks
        );
    }
}

#[tokio::test]
async fn a_step_with_one_id_for_two_calls_is_refused_before_anything_is_stored() {
    let text = fresh("sameid");
    let switches = json!({ "llm.repeat_call_id": true });
    let (told, pending) = say_under("hilltop", switches, &text).await;
    assert_eq!(
        (told.approvals().len(), pending),
        (0, 0),
        "{:?}",
        told.chunks
    );
}

#[tokio::test]
async fn a_model_that_fails_ends_the_turn_with_a_sentence_that_stays() {
    for switches in [json!({ "llm.status": 500 }), json!({ "llm.cut": true })] {
        let text = fresh("broken");
        let (told, pending) = say_under("lakeside", switches.clone(), &text).await;
        assert_eq!((told.approvals().len(), pending), (0, 0), "{switches}");
        let error = told
            .of_kind("error")
            .next()
            .expect("an error for the person");
        let sentence = error["errorText"].as_str().expect("a sentence");
        assert!(
            sentence.ends_with('.') && sentence.contains(' '),
            "{sentence}"
        );
        assert_eq!(told.finish(), "error");
    }
}

#[tokio::test]
async fn a_model_that_loops_is_stopped() {
    let stack = Stack::alone().await;
    let deputy = stack.person("lakeside-deputy").await;
    let chat = deputy.chat();
    stack.switch(json!({ "llm.loop": true })).await;
    let told = chat.say("what channels are there").await;
    let reads = told.of_kind("tool-input-available").count();
    assert!((1..=20).contains(&reads), "{reads} reads");
    assert!(
        ["stop", "error"].contains(&told.finish()),
        "{:?}",
        told.chunks
    );
    chat.until("nothing runs", 20, |messages| messages.len() == 2)
        .await;
}
