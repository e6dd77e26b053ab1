//! Turns that need nobody's answer.

use serde_json::json;
use toshi_core::{RecordEvent, Subject, TurnEnd, TurnState};

use crate::scene::{CHAT, Scene, message};
use crate::strict::Screen;

#[tokio::test]
async fn a_plain_answer_is_streamed_and_stored_alike() {
    let scene = Scene::new().await;
    let screen = scene.say("hello").await;
    assert_eq!(screen.finish, "stop");
    assert!(
        screen
            .text()
            .starts_with("Hello! I am the sandbox's scripted model")
    );
    screen.assert_is_stored_as(&scene.last_answer().await);
    let messages = scene.messages().await;
    assert_eq!(messages.len(), 2);
    assert_eq!(
        messages[0]["parts"],
        json!([{ "type": "text", "text": "hello" }])
    );
    assert_eq!(
        scene.turns().await[0].state,
        TurnState::Done {
            end: TurnEnd::Complete
        }
    );
    scene.assert_at_rest().await;
}

#[tokio::test]
async fn a_read_is_run_at_once_audited_and_shown_after_its_commit() {
    let scene = Scene::new().await;
    let chunks = scene.post(message("m-1", "read #general")).await.unwrap();
    let screen = Screen::of(&chunks);
    assert_eq!(screen.states(), ["output-available"]);
    assert_eq!(screen.calls()[0]["output"]["channel"], "#general");
    assert_eq!(screen.calls()[0]["title"], "Read messages · Demo workspace");
    assert!(screen.text().starts_with("The newest messages in #general"));
    screen.assert_is_stored_as(&scene.last_answer().await);
    assert_eq!(scene.calls("list_messages").await.len(), 1);
    let turn = scene.turns().await.remove(0);
    let records = scene
        .school()
        .audit_of(Subject::Turn(turn.turn))
        .await
        .unwrap();
    let events: Vec<RecordEvent> = records.iter().map(|record| record.event).collect();
    assert_eq!(events, [RecordEvent::Read]);
    assert_eq!(records[0].detail["outcome"], "succeeded");
    assert_eq!(records[0].tool.as_deref(), Some("list_messages"));
    scene.assert_at_rest().await;
}

#[tokio::test]
async fn the_same_message_again_is_the_same_turn_told_again() {
    let scene = Scene::new().await;
    let first = scene.post(message("m-1", "read #general")).await.unwrap();
    let again = scene.post(message("m-1", "read #general")).await.unwrap();
    assert_eq!(Screen::of(&again), Screen::of(&first));
    assert_eq!(scene.messages().await.len(), 2);
    assert_eq!(scene.calls("list_messages").await.len(), 1);
    assert_eq!(scene.prompts().await.len(), 2);
}

#[tokio::test]
async fn nothing_is_replayed_where_nothing_runs() {
    let scene = Scene::new().await;
    let resume = || async {
        let (tenant, conversation) = (&scene.tenant, scene.conversation());
        scene
            .agent
            .resume(tenant, &conversation, crate::scene::budget())
            .await
            .unwrap()
    };
    assert!(resume().await.is_none(), "an unknown conversation");
    scene.say("hello").await;
    assert!(resume().await.is_none(), "a finished turn");
    scene.say("post \"Hi\" to #general").await;
    assert!(resume().await.is_none(), "a turn that waits for a person");
}

#[tokio::test]
async fn another_persons_conversation_of_the_same_name_is_another() {
    let scene = Scene::new().await;
    let other = scene
        .stage
        .person(
            &scene.tenant,
            "https://issuer.example",
            "lakeside-deputy",
            toshi_core::Role::Deputy,
        )
        .await;
    scene.say("hello").await;
    scene.say_as(&other, "what channels are there").await;
    assert_eq!(scene.messages().await.len(), 2);
    let theirs = toshi_core::ConversationId::of(&other, &CHAT.parse().unwrap());
    let page = scene
        .agent
        .messages(&scene.tenant, &theirs, None, 10)
        .await
        .unwrap()
        .unwrap();
    assert_eq!(page.items.len(), 2);
}

#[tokio::test]
async fn the_first_words_arrive_long_before_the_last() {
    let scene = Scene::new().await;
    scene.switch("llm.delay_ms", json!(100)).await;
    let mut stream = scene.open(message("m-1", "hello")).await.unwrap();
    let mut words = Vec::new();
    while let Some(chunk) = stream.recv().await {
        if matches!(chunk, toshi_agent::Chunk::TextDelta { .. }) {
            words.push(std::time::Instant::now());
        }
    }
    let took = words.last().unwrap().duration_since(words[0]);
    assert!(words.len() >= 5, "{}", words.len());
    assert!(took.as_millis() >= 300, "{took:?}");
}

#[tokio::test]
async fn a_turn_goes_on_when_its_client_has_left() {
    let scene = Scene::new().await;
    scene.switch("llm.first_byte_delay_ms", json!(300)).await;
    drop(scene.open(message("m-1", "read #general")).await.unwrap());
    while scene.calls("list_messages").await.is_empty() || !scene.turns().await[0].is_done() {
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
    assert!(scene.last_text().await.starts_with("The newest messages"));
    scene.assert_at_rest().await;
}

#[tokio::test]
async fn a_page_that_comes_back_is_shown_the_whole_message_from_its_start() {
    let scene = Scene::new().await;
    scene.switch("llm.delay_ms", json!(60)).await;
    let stream = scene.open(message("m-1", "read #general")).await.unwrap();
    while scene.calls("list_messages").await.is_empty() {
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    let (tenant, conversation) = (&scene.tenant, scene.conversation());
    let budget = crate::scene::budget();
    let resumed = scene.agent.resume(tenant, &conversation, budget).await;
    let resumed = Screen::of(&crate::scene::all(resumed.unwrap().unwrap()).await);
    let first = Screen::of(&crate::scene::all(stream).await);
    assert_eq!(resumed, first);
    assert_eq!(resumed.finish, "stop");
    resumed.assert_is_stored_as(&scene.last_answer().await);
}

#[tokio::test]
async fn a_long_turn_keeps_its_conversation() {
    let scene = Scene::new().await;
    scene.switch("llm.first_byte_delay_ms", json!(25_000)).await;
    let lease = || async {
        let meta = scene.school().meta(&scene.conversation()).await.unwrap();
        meta.unwrap().lease_until.unwrap()
    };
    let watch = async {
        tokio::time::sleep(std::time::Duration::from_secs(2)).await;
        let before = lease().await;
        tokio::time::sleep(std::time::Duration::from_secs(21)).await;
        let renewed = before.until(lease().await);
        assert!((15_000..30_000).contains(&renewed), "{renewed} ms longer");
    };
    let (screen, ()) = tokio::join!(scene.say("hello"), watch);
    assert!(screen.text().starts_with("Hello!"));
    scene.assert_at_rest().await;
}
