//! Messages that are sent again with another text, answered again, or shown late.

use serde_json::{Value, json};
use toshi_agent::ChatError;
use toshi_core::{Answer, State};

use crate::scene::{Scene, message, texts};
use crate::strict::Screen;

const POST: &str = "post \"Hi\" to #general";

/// A message that is edited, as a client names it.
fn edited(id: &str, text: &str) -> Value {
    let mut body = message(id, text);
    body["messageId"] = json!(id);
    body
}

fn again(id: &str, text: &str, answer: Option<&str>) -> Value {
    let mut body = message(id, text);
    body["trigger"] = json!("regenerate-message");
    if let Some(answer) = answer {
        body["messageId"] = json!(answer);
    }
    body
}

/// A line for each message of the page.
async fn page(scene: &Scene) -> Vec<String> {
    let messages = scene.messages().await;
    let line = |message: &Value| {
        let text = texts(message);
        let words: Vec<&str> = text.split_whitespace().take(2).collect();
        format!("{}: {}", message["role"].as_str().unwrap(), words.join(" "))
    };
    messages.iter().map(line).collect()
}

const HELLO: [&str; 2] = ["user: hello", "assistant: Hello! I"];

/// A request, and another one before the first was answered; the first's outcome comes last.
async fn with_a_late_outcome(scene: &Scene) {
    scene.post(message("m-1", POST)).await.unwrap();
    let id = scene.one_pending().await;
    scene.post(message("m-2", "hello")).await.unwrap();
    scene.approve(id).await;
    scene.work().await;
    assert_eq!(scene.messages().await.len(), 5);
    assert!(scene.last_text().await.starts_with("Posted"));
}

#[tokio::test]
async fn an_edit_never_hides_what_became_of_an_earlier_request() {
    let scene = Scene::new().await;
    with_a_late_outcome(&scene).await;
    let rest = ["user: what channels", "assistant: These channels"];
    let kept = ["user: post \"Hi\"", "assistant: ", "assistant: Posted “Hi”"];
    let edit = edited("m-2", "what channels are there");
    scene.post(edit).await.unwrap();
    assert_eq!(page(&scene).await, [&kept[..], &rest[..]].concat());
    let prompt = scene.prompts().await.pop().unwrap();
    assert!(prompt.to_string().contains("Posted “Hi”"), "{prompt}");
    let anew = again("m-2", "what channels are there", None);
    scene.post(anew).await.unwrap();
    assert_eq!(page(&scene).await, [&kept[..], &rest[..]].concat());
    // With its own request it goes.
    scene.post(edited("m-1", "hello")).await.unwrap();
    assert_eq!(page(&scene).await, HELLO);
    scene.assert_at_rest().await;
}

#[tokio::test]
async fn the_outcome_of_a_request_is_not_answered_again_over_what_came_between() {
    let scene = Scene::new().await;
    with_a_late_outcome(&scene).await;
    let last = scene.last_answer().await;
    let before = page(&scene).await;
    let body = again("m-2", "hello", last["id"].as_str());
    let refused = scene.post(body).await.unwrap_err();
    assert!(matches!(refused, ChatError::NothingToRegenerate));
    assert_eq!(page(&scene).await, before);
}

#[tokio::test]
async fn a_message_older_than_what_is_read_can_be_edited_and_answered_again() {
    let scene = Scene::new().await;
    scene
        .post(message("m-1", "what channels are there"))
        .await
        .unwrap();
    let screen = Screen::of(&scene.post(message("m-2", "hello")).await.unwrap());
    scene.say_hello(32).await;
    let body = again("m-2", "hello", Some(&screen.id));
    scene.post(body).await.unwrap();
    let first = ["user: what channels", "assistant: These channels"];
    assert_eq!(page(&scene).await, [first, HELLO].concat());
    scene.say_hello(32).await;
    scene.post(edited("m-2", "read #general")).await.unwrap();
    let rest = ["user: read #general", "assistant: The newest"];
    assert_eq!(page(&scene).await, [first, rest].concat());
    let prompt = scene.prompts().await.pop().unwrap().to_string();
    assert!(prompt.contains("These channels exist"), "{prompt}");
    scene.assert_at_rest().await;
}

#[tokio::test]
async fn an_old_text_that_comes_back_in_a_long_conversation_is_answered_anew() {
    let scene = Scene::new().await;
    scene
        .post(message("m-1", "what channels are there"))
        .await
        .unwrap();
    scene.say_hello(32).await;
    let first = Screen::of(&scene.post(edited("m-1", "hello")).await.unwrap());
    let back = edited("m-1", "what channels are there");
    let second = Screen::of(&scene.post(back.clone()).await.unwrap());
    assert_ne!(second.id, first.id);
    assert!(second.text().starts_with("These channels exist"));
    // Sent once more, it is the same.
    let third = Screen::of(&scene.post(back).await.unwrap());
    assert_eq!(third, second);
    assert_eq!(scene.messages().await.len(), 2);
}

#[tokio::test]
async fn a_page_that_was_opened_long_ago_takes_nothing_back_that_came_since() {
    let scene = Scene::new().await;
    scene.post(message("m-1", "hello")).await.unwrap();
    scene.post(message("m-2", "hello")).await.unwrap();
    scene.post(edited("m-1", "read #general")).await.unwrap();
    scene
        .post(edited("m-2", "what channels are there"))
        .await
        .unwrap();
    let expected = [
        "user: read #general",
        "assistant: The newest",
        "user: what channels",
        "assistant: These channels",
    ];
    assert_eq!(page(&scene).await, expected);
}

#[tokio::test]
async fn a_message_that_never_came_is_said_when_another_answer_to_it_is_wanted() {
    let scene = Scene::new().await;
    scene
        .post(message("m-1", "what channels are there"))
        .await
        .unwrap();
    scene.post(again("m-2", "hello", None)).await.unwrap();
    let first = ["user: what channels", "assistant: These channels"];
    assert_eq!(page(&scene).await, [first, HELLO].concat());
}

#[tokio::test]
async fn a_late_click_is_told_all_that_came_since_its_question() {
    for (answer, state) in [
        (Answer::Approve, State::Succeeded),
        (Answer::Reject, State::Rejected),
    ] {
        let scene = Scene::new().await;
        let mut screen = scene.say(POST).await;
        let id = scene.one_pending().await;
        scene.decide(id, answer, None).await.unwrap();
        scene.work().await;
        assert_eq!(scene.state(id).await, state);
        let yes = answer == Answer::Approve;
        scene.answer(&mut screen, &[(id, yes)]).await;
        screen.assert_is_stored_as(&scene.last_answer().await);
        assert!(screen.text().contains("Hi"), "{}", screen.text());
        // And nothing of it twice.
        let known = screen.clone();
        scene.answer(&mut screen, &[]).await;
        assert_eq!(screen.parts, known.parts);
        scene.assert_at_rest().await;
    }
}
