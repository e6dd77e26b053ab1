//! Several calls in one step, and messages that do not wait.

use serde_json::Value;

use crate::harness::{Stack, fresh, last_text};

fn words(message: &Value) -> Vec<&str> {
    let parts = message["parts"].as_array().expect("parts");
    parts
        .iter()
        .filter_map(|part| part["text"].as_str())
        .collect()
}

#[tokio::test]
async fn two_writes_in_one_step_are_answered_in_any_order_and_continued_once() {
    let stack = Stack::shared().await;
    let admin = stack.person("lakeside-admin").await;
    let chat = admin.chat();
    let (first, second) = (fresh("first"), fresh("second"));
    let wish = format!("post \"{first}\" to #general and \"{second}\" to #staff");
    let told = chat.say(&wish).await;
    let asked = told.approvals();
    assert_eq!(asked.len(), 2, "{:?}", told.chunks);
    assert_eq!(told.of_kind("start-step").count(), 1, "one step");

    admin.approve(&asked[1]).await;
    admin.until(&asked[1], "succeeded", 20).await;
    let between = chat.until("the sibling waits", 20, |_| true).await;
    assert_eq!(
        words(&between[1]),
        Vec::<&str>::new(),
        "no word before both are settled"
    );
    assert_eq!(between[1]["parts"][2]["state"], "output-available");
    assert_eq!(between[1]["parts"][1]["state"], "approval-requested");
    assert_eq!(stack.posted(&second).await, 1);

    admin.reject(&asked[0], "too early").await;
    let messages = chat.until_told("too early", 20).await;
    assert_eq!(messages.len(), 2);
    let answer = &messages[1];
    assert_eq!(words(answer).len(), 1, "continued once: {answer}");
    assert!(
        last_text(answer).contains(&format!("Posted “{second}” to #staff.")),
        "{answer}"
    );
    assert!(
        last_text(answer).contains(&format!("“{first}” was not posted")),
        "{answer}"
    );
    assert_eq!(answer["parts"][1]["state"], "output-denied");
    assert_eq!(stack.posted(&first).await, 0);
    assert_eq!(
        stack.posted(&second).await,
        1,
        "a finished sibling never runs again"
    );
    assert_eq!(admin.events(&asked[0]).await, ["requested", "decided"]);
    assert_eq!(
        admin.events(&asked[1]).await,
        ["requested", "decided", "claimed", "settled"]
    );
}

#[tokio::test]
async fn a_read_runs_at_once_beside_a_write_that_waits_and_is_not_run_again() {
    let stack = Stack::shared().await;
    let admin = stack.person("hilltop-admin").await;
    let chat = admin.chat();
    let text = fresh("beside");
    // No other test reads this channel of this school.
    let reads = async || {
        let fits = |call: &Value| {
            call["tool"] == "list_messages"
                && call["tenant"] == "hilltop"
                && call["arguments"]["channel"] == "#science"
        };
        stack.calls(fits).await.len()
    };
    let before = reads().await;
    let told = chat
        .say(&format!("read #science and post \"{text}\" to #staff"))
        .await;
    let asked = told.approvals();
    assert_eq!(asked.len(), 1);
    let read = told
        .of_kind("tool-output-available")
        .next()
        .expect("the read's result");
    assert!(read["output"]["messages"].is_array(), "{read}");
    assert_eq!(reads().await, before + 1);
    assert_eq!(stack.posted(&text).await, 0);

    admin.approve(&asked[0]).await;
    let messages = chat
        .until_told(&format!("Posted “{text}” to #staff."), 20)
        .await;
    assert!(
        last_text(&messages[1]).contains("newest messages in #science"),
        "{}",
        messages[1]
    );
    assert_eq!(
        reads().await,
        before + 1,
        "a finished read never runs again"
    );
    assert_eq!(stack.posted(&text).await, 1);
}

#[tokio::test]
async fn a_new_message_does_not_wait_and_a_later_yes_continues_in_a_new_message() {
    let stack = Stack::shared().await;
    let admin = stack.person("lakeside-admin").await;
    let chat = admin.chat();
    let text = fresh("later");
    let id = chat.ask_to_post(&text, "#general").await;
    let other = chat.say("what channels are there").await;
    assert!(other.text().contains("#parents"), "{:?}", other.chunks);
    assert_eq!(other.finish(), "stop");
    assert_eq!(
        admin.approval(&id).await["state"],
        "pending",
        "a question outlives a message"
    );
    let prompts = stack.prompts(&text).await;
    let said = prompts.last().expect("a prompt").to_string();
    assert!(
        said.contains(&format!("pending {id}, not executed")),
        "{said}"
    );

    admin.approve(&id).await;
    let done = format!("Posted “{text}” to #general.");
    let messages = chat.until_told(&done, 20).await;
    let roles: Vec<&Value> = messages.iter().map(|message| &message["role"]).collect();
    assert_eq!(
        roles,
        ["user", "assistant", "user", "assistant", "assistant"]
    );
    assert_eq!(
        messages[1]["parts"][1]["state"], "output-available",
        "updated in place"
    );
    assert!(
        words(&messages[1]).is_empty(),
        "the old message gets no new words"
    );
    assert_eq!(messages[3]["id"], other.message_id());
    assert!(
        !last_text(&messages[3]).contains(&text),
        "the other answer is untouched"
    );
    assert_eq!(stack.posted(&text).await, 1);
}

#[tokio::test]
async fn two_questions_of_two_messages_are_each_answered_on_their_own() {
    let stack = Stack::shared().await;
    let admin = stack.person("hilltop-admin").await;
    let chat = admin.chat();
    let (old, new) = (fresh("old"), fresh("new"));
    let first = chat.ask_to_post(&old, "#general").await;
    let second = chat.ask_to_post(&new, "#general").await;
    admin.approve(&second).await;
    chat.until_told(&format!("Posted “{new}”"), 20).await;
    assert_eq!(
        admin.approval(&first).await["state"],
        "pending",
        "a yes is for one call alone"
    );
    assert_eq!(stack.posted(&old).await, 0);
    admin.approve(&first).await;
    chat.until_told(&format!("Posted “{old}”"), 20).await;
    assert_eq!((stack.posted(&old).await, stack.posted(&new).await), (1, 1));
}

#[tokio::test]
async fn a_question_that_is_older_than_what_the_model_is_shown_is_still_continued() {
    let stack = Stack::shared().await;
    let admin = stack.person("lakeside-admin").await;
    let chat = admin.chat();
    let text = fresh("old");
    let id = chat.ask_to_post(&text, "#general").await;
    // More than a prompt carries.
    for _ in 0..4 {
        chat.say(&"long ".repeat(6_000)).await;
    }
    let prompts = stack.prompts(&text).await.len();
    admin.approve(&id).await;
    chat.until_told(&format!("Posted “{text}” to #general."), 20)
        .await;
    assert_eq!(
        stack.prompts(&text).await.len(),
        prompts + 1,
        "one continuation"
    );
    assert_eq!(stack.posted(&text).await, 1);
}
