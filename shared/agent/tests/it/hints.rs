//! Hints may be lost, doubled or come at the wrong time: the rows are the work.

use futures::future::join_all;
use toshi_agent::RunEnd;
use toshi_core::{CLAIM_LEASE_MS, Cause, ConversationId, Event, State, TurnState};
use toshi_store::{Begun, DueKind, NewMessage, UserMessage};
use toshi_test_support::now;

use crate::scene::{CHAT, Scene, fresh_id, work};

const POST: &str = "post \"Hi\" to #general";

impl Scene {
    /// Works only what the sweep index names, as if no hint had ever arrived; says how often.
    async fn work_what_is_due(&self) -> usize {
        for round in 0..50 {
            let due = self.due(now()).await;
            if due.is_empty() {
                return round;
            }
            for one in due {
                assert_eq!(
                    one.kind,
                    DueKind::Conversation,
                    "nothing has run out: {one:?}"
                );
                work(&self.agent, &one.tenant, &one.conversation)
                    .await
                    .unwrap();
            }
        }
        panic!("it is due for ever: {:?}", self.due(now()).await);
    }

    /// A message that comes while somebody else holds the conversation.
    async fn queue(&self, text: &str) -> Begun {
        let new = NewMessage {
            conversation: self.conversation(),
            client_id: CHAT.parse().unwrap(),
            user: self.admin.clone(),
            message: UserMessage {
                id: fresh_id().parse().unwrap(),
                text: text.to_owned(),
                replaces_from: None,
                again: false,
            },
        };
        let meta = self.school().meta(&self.conversation()).await.unwrap();
        self.school().begin(&new, meta, now()).await.unwrap()
    }

    fn chat(&self) -> ConversationId {
        self.conversation()
    }
}

#[tokio::test]
async fn without_any_hint_the_sweep_index_brings_an_approved_turn_to_its_end() {
    let scene = Scene::new().await;
    scene.say(POST).await;
    assert!(
        scene.due(now()).await.is_empty(),
        "a question waits for a person, not for a sweep"
    );
    let id = scene.one_pending().await;
    scene.approve(id).await;
    assert!(scene.work_what_is_due().await >= 1);
    assert_eq!(scene.state(id).await, State::Succeeded);
    assert_eq!(scene.posts().await.len(), 1);
    assert!(scene.last_text().await.starts_with("Posted"));
    scene.assert_at_rest().await;
}

#[tokio::test]
async fn an_approval_just_before_a_new_message_is_not_forgotten_with_its_hint() {
    let scene = Scene::new().await;
    scene.say(POST).await;
    let id = scene.one_pending().await;
    scene.approve(id).await;
    // The hint finds the conversation held by this turn, and is lost.
    scene.say("hello").await;
    scene.stage.hints().await;
    scene.work_what_is_due().await;
    assert_eq!(scene.state(id).await, State::Succeeded);
    scene.assert_at_rest().await;
}

#[tokio::test]
async fn messages_that_queued_up_behind_a_turn_are_all_answered_without_a_hint() {
    let scene = Scene::new().await;
    scene.say("hello").await;
    let (_, lease) = scene
        .school()
        .take(&scene.chat(), now())
        .await
        .unwrap()
        .unwrap();
    for text in ["what channels are there", "read #staff", "hello again"] {
        assert!(matches!(scene.queue(text).await, Begun::Queued { .. }));
    }
    let how = toshi_store::Release::LeaveDue(0);
    assert!(
        scene
            .school()
            .release(&scene.chat(), &lease, how, now())
            .await
            .unwrap()
    );
    scene.work_what_is_due().await;
    let messages = scene.messages().await;
    assert_eq!(messages.len(), 8);
    let said: Vec<_> = messages.iter().map(crate::scene::texts).collect();
    assert_eq!(
        [&said[2], &said[4], &said[6]],
        ["what channels are there", "read #staff", "hello again"]
    );
    assert!(said[3].starts_with("These channels exist"));
    assert!(said[5].starts_with("The newest messages in #staff"));
    scene.assert_at_rest().await;
}

#[tokio::test]
async fn several_turns_that_complete_at_once_all_go_on_without_a_hint() {
    let scene = Scene::new().await;
    for text in ["One", "Two", "Three"] {
        scene.say(&format!("post \"{text}\" to #general")).await;
    }
    let ids = scene.pending().await;
    assert_eq!(ids.len(), 3);
    for id in &ids {
        scene.reject(*id, "No").await;
    }
    scene.work_what_is_due().await;
    for turn in scene.turns().await {
        assert!(matches!(turn.state, TurnState::Done { .. }), "{turn:?}");
    }
    scene.assert_at_rest().await;
}

#[tokio::test]
async fn a_message_that_queues_up_while_a_turn_runs_is_worked_after_it() {
    let scene = Scene::new().await;
    scene
        .switch("llm.first_byte_delay_ms", serde_json::json!(300))
        .await;
    let second = async {
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
        scene.say("what channels are there").await
    };
    let worker = async {
        // What the queue would do with the two hints.
        for _ in 0..40 {
            tokio::time::sleep(std::time::Duration::from_millis(50)).await;
            scene.work().await;
        }
    };
    let (first, second, ()) = tokio::join!(scene.say("hello"), second, worker);
    assert!(first.text().starts_with("Hello!"));
    assert!(
        second.text().starts_with("These channels exist"),
        "{second:#?}"
    );
    second.assert_is_stored_as(&scene.last_answer().await);
    assert_eq!(scene.messages().await.len(), 4);
    scene.assert_at_rest().await;
}

#[tokio::test]
async fn doubled_and_simultaneous_hints_change_nothing() {
    let scene = Scene::new().await;
    scene
        .say("post \"One\" to #general and \"Two\" to #staff")
        .await;
    let ids = scene.pending().await;
    let agents: Vec<_> = (0..4).map(|_| scene.another_agent()).collect();
    let hint_all = || async {
        let chat = scene.chat();
        let hints = agents
            .iter()
            .chain(&agents)
            .map(|agent| work(agent, &scene.tenant, &chat));
        for end in join_all(hints).await {
            assert!(matches!(end.unwrap(), RunEnd::Idle | RunEnd::Busy));
        }
    };
    hint_all().await;
    scene.approve(ids[1]).await;
    hint_all().await;
    scene.approve(ids[0]).await;
    hint_all().await;
    hint_all().await;
    let mut posts = scene.posts().await;
    posts.sort_by_key(|post| post["text"].to_string());
    let posted: Vec<_> = posts
        .iter()
        .map(|post| post["text"].as_str().unwrap())
        .collect();
    assert_eq!(posted, ["One", "Two"]);
    assert_eq!(scene.prompts().await.len(), 2);
    scene.assert_at_rest().await;
}

#[tokio::test]
async fn hints_for_what_does_not_exist_are_done_at_once() {
    let scene = Scene::new().await;
    assert_eq!(scene.work().await, RunEnd::Busy);
    let elsewhere = toshi_core::TenantId::from_stored("hilltop").unwrap();
    scene.say("hello").await;
    let end = work(&scene.agent, &elsewhere, &scene.chat()).await.unwrap();
    assert_eq!(end, RunEnd::Busy, "another school's conversation");
}

#[tokio::test]
async fn a_runner_that_lost_the_conversation_stops_and_its_stream_says_so() {
    let scene = Scene::new().await;
    scene
        .switch("llm.first_byte_delay_ms", serde_json::json!(400))
        .await;
    let thief = async {
        tokio::time::sleep(std::time::Duration::from_millis(200)).await;
        scene.lose_lease().await;
        let other = scene.another_agent();
        assert_eq!(
            work(&other, &scene.tenant, &scene.chat()).await.unwrap(),
            RunEnd::Idle
        );
    };
    let (screen, ()) = tokio::join!(scene.say("hello"), thief);
    assert_eq!(
        screen.error.as_deref(),
        Some("Another process took over this answer. Please reload.")
    );
    assert_eq!(screen.finish, "error");
    assert!(scene.last_text().await.starts_with("Hello!"));
    assert_eq!(scene.messages().await.len(), 2);
    assert_eq!(scene.turns().await[0].takeovers, 1);
    scene.assert_at_rest().await;
}

#[tokio::test]
async fn a_result_that_comes_after_the_lease_was_lost_is_kept() {
    let scene = Scene::new().await;
    scene.say(POST).await;
    let id = scene.one_pending().await;
    scene.approve(id).await;
    scene
        .switch("mcp.demo.delay_ms", serde_json::json!(500))
        .await;
    let thief = async {
        while scene.state(id).await != State::Executing {
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
        scene.lose_lease().await;
        let other = scene.another_agent();
        // Somebody is sending: there is nothing to do but to wait.
        assert_eq!(
            work(&other, &scene.tenant, &scene.chat()).await.unwrap(),
            RunEnd::Idle
        );
        assert_eq!(scene.state(id).await, State::Executing);
    };
    let (end, ()) = tokio::join!(scene.work(), thief);
    assert_eq!(end, RunEnd::Superseded);
    assert_eq!(scene.state(id).await, State::Succeeded);
    assert!(
        !scene.stage.hints().await.is_empty(),
        "whoever comes next hears of it at once"
    );
    scene.work_what_is_due().await;
    assert_eq!(scene.posts().await.len(), 1);
    assert!(scene.last_text().await.starts_with("Posted"));
    scene.assert_at_rest().await;
}

#[tokio::test]
async fn a_dead_runners_call_is_unknown_before_the_same_call_is_made() {
    let scene = Scene::new().await;
    scene
        .say("post \"One\" to #general and \"One\" to #general")
        .await;
    let ids = scene.pending().await;
    assert_eq!(ids.len(), 2);
    for id in &ids {
        scene.approve(*id).await;
    }
    let died = now().plus(-2 * CLAIM_LEASE_MS);
    let claim = Event::Claim {
        attempt: toshi_store::mint(died),
        lease_until: died.plus(CLAIM_LEASE_MS),
    };
    let row = scene.approval(ids[0]).await;
    let school = scene.school();
    school
        .transition(&row, claim, &Cause::system(), died)
        .await
        .unwrap();
    assert_eq!(scene.work().await, RunEnd::Idle);
    assert_eq!(scene.state(ids[0]).await, State::Unknown);
    assert_eq!(scene.state(ids[1]).await, State::Blocked);
    assert!(scene.posts().await.is_empty());
    scene.assert_at_rest().await;
}
