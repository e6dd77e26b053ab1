//! Writes: they pause, are answered, and act once.

use futures::future::join_all;
use serde_json::{Value, json};
use toshi_agent::RunEnd;
use toshi_core::{Answer, Cause, Event, RecordEvent, State, Subject, TurnState};

use crate::scene::{Scene, Wanted, continued, fresh_id, message, work};
use crate::strict::Screen;
use toshi_test_support::now;

const POST: &str = "post \"Sports day moved to Friday\" to #general";

#[tokio::test]
async fn a_write_shows_its_card_after_the_commit_and_lets_go_of_the_conversation() {
    let scene = Scene::new().await;
    let screen = scene.say(POST).await;
    assert_eq!(screen.finish, "tool-calls");
    assert_eq!(screen.states(), ["approval-requested"]);
    let id = scene.one_pending().await;
    let call = screen.calls()[0].clone();
    assert_eq!(call["approval"]["id"], id.to_string());
    assert_eq!(
        call["approval"]["requestReason"],
        "You asked me to post this to #general."
    );
    let arguments = json!({ "channel": "#general", "text": "Sports day moved to Friday" });
    assert_eq!(call["input"], arguments);
    assert_eq!(
        call["approval"]["descriptor"]["account"],
        "Lakeside workspace"
    );
    assert_eq!(call["toolMetadata"]["connection_id"], "demo-1");
    screen.assert_is_stored_as(&scene.last_answer().await);
    let row = scene.approval(id).await;
    assert_eq!(row.state, State::Pending);
    assert_eq!(row.arguments.value(), arguments);
    assert_eq!(scene.posts().await, [] as [Value; 0]);
    assert_eq!(scene.turns().await[0].state, TurnState::Waiting);
    scene.assert_at_rest().await;
}

#[tokio::test]
async fn an_approved_call_is_made_once_and_the_answer_goes_on_in_its_message() {
    let scene = Scene::new().await;
    let mut screen = scene.say(POST).await;
    let id = scene.one_pending().await;
    let chunks = scene.answer(&mut screen, &[(id, true)]).await;
    assert_eq!(
        chunks[1]["type"], "tool-output-available",
        "the outcome comes first: {chunks:#?}"
    );
    assert_eq!(screen.finish, "stop");
    assert_eq!(screen.states(), ["output-available"]);
    assert_eq!(screen.calls()[0]["output"]["ok"], true);
    assert_eq!(
        screen.text(),
        "Posted “Sports day moved to Friday” to #general."
    );
    screen.assert_is_stored_as(&scene.last_answer().await);
    assert_eq!(scene.messages().await.len(), 2);
    let arguments = json!({ "channel": "#general", "text": "Sports day moved to Friday" });
    assert_eq!(scene.posts().await, [arguments]);
    let records = scene
        .school()
        .audit_of(Subject::Approval(id))
        .await
        .unwrap();
    let events: Vec<RecordEvent> = records.iter().map(|record| record.event).collect();
    use RecordEvent::{Claimed, Decided, Requested, Settled};
    assert_eq!(events, [Requested, Decided, Claimed, Settled]);
    scene.assert_at_rest().await;
}

#[tokio::test]
async fn after_a_decision_elsewhere_the_worker_does_the_same() {
    let scene = Scene::new().await;
    let screen = scene.say(POST).await;
    let id = scene.one_pending().await;
    scene.approve(id).await;
    assert_eq!(scene.work().await, RunEnd::Idle);
    assert_eq!(scene.state(id).await, State::Succeeded);
    assert_eq!(scene.posts().await.len(), 1);
    let answer = scene.last_answer().await;
    assert_eq!(answer["id"], screen.id);
    assert!(scene.last_text().await.starts_with("Posted “Sports day"));
    assert_eq!(scene.messages().await.len(), 2);
    scene.assert_at_rest().await;
}

#[tokio::test]
async fn a_turn_goes_on_after_everything_was_restarted_between_pause_and_approval() {
    let mut scene = Scene::new().await;
    let screen = scene.say(POST).await;
    let id = scene.one_pending().await;
    scene.restart().await;
    scene.approve(id).await;
    scene.restart().await;
    assert_eq!(scene.work().await, RunEnd::Idle);
    assert_eq!(scene.state(id).await, State::Succeeded);
    assert_eq!(scene.posts().await.len(), 1);
    assert_eq!(scene.last_answer().await["id"], screen.id);
    assert!(scene.last_text().await.starts_with("Posted"));
    scene.assert_at_rest().await;
}

#[tokio::test]
async fn a_rejected_call_is_not_made_and_the_model_hears_the_reason() {
    let scene = Scene::new().await;
    let mut screen = scene.say(POST).await;
    let id = scene.one_pending().await;
    screen.answer(&id.to_string(), false, Some("Wrong day"));
    let chunks = scene.post(continued(&screen)).await.unwrap();
    let screen = screen.after(&chunks);
    assert_eq!(chunks[1]["type"], "tool-output-denied");
    assert_eq!(screen.states(), ["output-denied"]);
    assert!(!screen.would_send_again());
    screen.assert_is_stored_as(&scene.last_answer().await);
    let told = scene.told().await;
    assert_eq!(
        told,
        ["denied by a person, not executed. Their reason: \"Wrong day\""]
    );
    assert_eq!(scene.posts().await, [] as [Value; 0]);
    assert!(screen.text().contains("was not posted"));
    scene.assert_at_rest().await;
}

#[tokio::test]
async fn two_writes_of_one_step_are_answered_in_any_order_and_the_model_goes_on_once() {
    for (first, first_approved) in [(0, true), (0, false), (1, true), (1, false)] {
        let scene = Scene::new().await;
        let mut screen = scene
            .say("post \"One\" to #general and \"Two\" to #staff")
            .await;
        assert_eq!(
            screen.states(),
            ["approval-requested", "approval-requested"]
        );
        let ids = scene.pending().await;
        let asked = scene.prompts().await.len();
        let (id, other) = (ids[first], ids[1 - first]);
        let decide = |id, approved| scene.decide(id, answer_of(approved), Some("So it is"));
        decide(id, first_approved).await.unwrap();
        assert_eq!(scene.work().await, RunEnd::Idle);
        let after_first = if first_approved {
            State::Succeeded
        } else {
            State::Rejected
        };
        assert_eq!(scene.state(id).await, after_first);
        assert_eq!(scene.state(other).await, State::Pending);
        assert_eq!(
            scene.prompts().await.len(),
            asked,
            "the step is not complete"
        );
        decide(other, !first_approved).await.unwrap();
        assert_eq!(scene.work().await, RunEnd::Idle);
        assert_eq!(scene.prompts().await.len(), asked + 1, "one continuation");
        let posts = scene.posts().await;
        let approved = if first_approved { first } else { 1 - first };
        assert_eq!(posts.len(), 1);
        assert_eq!(posts[0]["text"], ["One", "Two"][approved]);
        assert_eq!(scene.told().await.len(), 2, "each call has one result");
        // A page that is open and re-sends its own view now gets what is on record.
        let answers: Vec<_> = ids.iter().map(|id| (*id, (*id == ids[approved]))).collect();
        scene.answer(&mut screen, &answers).await;
        let mut states = vec!["output-denied"; 2];
        states[approved] = "output-available";
        assert_eq!(screen.states(), states);
        assert_eq!(scene.posts().await.len(), 1);
        scene.assert_at_rest().await;
    }
}

fn answer_of(approved: bool) -> Answer {
    if approved {
        Answer::Approve
    } else {
        Answer::Reject
    }
}

#[tokio::test]
async fn both_answers_in_one_request_give_both_outcomes_and_one_step() {
    let scene = Scene::new().await;
    let mut screen = scene
        .say("post \"One\" to #general and \"Two\" to #staff")
        .await;
    let ids = scene.pending().await;
    scene
        .answer(&mut screen, &[(ids[0], false), (ids[1], true)])
        .await;
    assert_eq!(screen.states(), ["output-denied", "output-available"]);
    screen.assert_is_stored_as(&scene.last_answer().await);
    assert_eq!(scene.posts().await.len(), 1);
    scene.assert_at_rest().await;
}

#[tokio::test]
async fn the_first_of_two_answers_gets_a_reply_that_no_client_sends_again() {
    let scene = Scene::new().await;
    let mut screen = scene
        .say("post \"One\" to #general and \"Two\" to #staff")
        .await;
    let ids = scene.pending().await;
    scene.answer(&mut screen, &[(ids[1], true)]).await;
    assert_eq!(screen.states(), ["approval-requested", "output-available"]);
    assert_eq!(screen.finish, "tool-calls");
    scene.answer(&mut screen, &[(ids[0], true)]).await;
    assert_eq!(screen.states(), ["output-available", "output-available"]);
    screen.assert_is_stored_as(&scene.last_answer().await);
    assert_eq!(scene.posts().await.len(), 2);
    scene.assert_at_rest().await;
}

#[tokio::test]
async fn a_read_beside_a_write_runs_at_once_and_never_again() {
    let scene = Scene::new().await;
    let mut screen = scene.say("read #staff and post \"Hi\" to #staff").await;
    assert_eq!(screen.states(), ["output-available", "approval-requested"]);
    screen.assert_is_stored_as(&scene.last_answer().await);
    assert_eq!(scene.calls("list_messages").await.len(), 1);
    let id = scene.one_pending().await;
    scene.answer(&mut screen, &[(id, true)]).await;
    assert_eq!(screen.states(), ["output-available", "output-available"]);
    screen.assert_is_stored_as(&scene.last_answer().await);
    assert_eq!(scene.calls("list_messages").await.len(), 1);
    assert_eq!(scene.posts().await.len(), 1);
    scene.assert_at_rest().await;
}

#[tokio::test]
async fn a_new_message_while_a_question_waits_is_answered_and_the_later_approval_has_its_own() {
    let scene = Scene::new().await;
    let first = scene.say(POST).await;
    let id = scene.one_pending().await;
    let second = scene.say("hello").await;
    assert_eq!(second.finish, "stop");
    assert!(second.text().starts_with("Hello!"));
    assert_ne!(second.id, first.id);
    let told = scene.told().await;
    assert!(
        told[0].starts_with(&format!("pending {id}, not executed")),
        "{told:?}"
    );
    assert_eq!(scene.state(id).await, State::Pending);

    scene.approve(id).await;
    assert_eq!(scene.work().await, RunEnd::Idle);
    let messages = scene.messages().await;
    let roles: Vec<_> = messages
        .iter()
        .map(|message| message["role"].as_str().unwrap())
        .collect();
    assert_eq!(
        roles,
        ["user", "assistant", "user", "assistant", "assistant"]
    );
    let old = &messages[1]["parts"];
    assert_eq!(
        old[1]["state"], "output-available",
        "the old card shows its outcome: {old:#?}"
    );
    assert_eq!(
        messages[4]["parts"][1]["text"],
        "Posted “Sports day moved to Friday” to #general."
    );
    assert_eq!(scene.posts().await.len(), 1);
    let note = scene.prompts().await.last().unwrap()["messages"]
        .as_array()
        .unwrap()
        .last()
        .cloned();
    let note = note.unwrap()["content"].as_str().unwrap().to_owned();
    assert!(
        note.starts_with("The calls of an earlier request are settled now"),
        "{note}"
    );
    scene.assert_at_rest().await;
}

#[tokio::test]
async fn a_late_answer_by_chat_gets_its_outcome_in_the_old_message_and_no_foreign_words() {
    let scene = Scene::new().await;
    let mut first = scene.say(POST).await;
    let id = scene.one_pending().await;
    scene.say("hello").await;
    let words = first.text();
    scene.answer(&mut first, &[(id, true)]).await;
    assert_eq!(first.states(), ["output-available"]);
    assert_eq!(first.text(), words, "the continuation is another message");
    scene.work().await;
    assert!(scene.last_text().await.starts_with("Posted"));
    assert_ne!(scene.last_answer().await["id"], first.id);
    assert_eq!(scene.messages().await.len(), 5);
    scene.assert_at_rest().await;
}

#[tokio::test]
async fn an_answer_that_rides_in_with_a_new_message_is_taken_and_told_to_the_model() {
    let scene = Scene::new().await;
    let mut first = scene.say(POST).await;
    let id = scene.one_pending().await;
    first.answer(&id.to_string(), false, Some("Not now"));
    let mut body = message(&fresh_id(), "hello");
    let messages = body["messages"].as_array_mut().unwrap();
    messages.insert(
        0,
        json!({ "id": first.id, "role": "assistant", "parts": first.parts }),
    );
    let second = Screen::of(&scene.post(body).await.unwrap());
    assert_ne!(second.id, first.id);
    assert_eq!(
        second.states(),
        [] as [&str; 0],
        "nothing of the old call is streamed"
    );
    assert_eq!(scene.state(id).await, State::Rejected);
    let told = scene.told().await;
    assert!(told[0].starts_with("denied by a person"), "{told:?}");
    scene.work().await;
    scene.assert_at_rest().await;
}

#[tokio::test]
async fn fifty_decisions_and_eight_workers_make_one_call() {
    let scene = Scene::new().await;
    scene.say(POST).await;
    let id = scene.one_pending().await;
    let row = scene.approval(id).await;
    let agents: Vec<_> = (0..8).map(|_| scene.another_agent()).collect();
    let conversation = scene.conversation();
    let decisions = (0..50).map(|_| scene.decide(id, Answer::Approve, None));
    let works = agents.iter().map(|agent| async {
        for _ in 0..4 {
            let end = work(agent, &scene.tenant, &conversation).await.unwrap();
            assert!(matches!(end, RunEnd::Idle | RunEnd::Busy), "{end:?}");
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
    });
    let (decided, _) = tokio::join!(join_all(decisions), join_all(works));
    let first = decided.iter().filter(|result| result.is_ok()).count();
    assert_eq!(first, 1, "one decision is on record");
    while scene.work().await != RunEnd::Idle {}
    assert_eq!(scene.posts().await.len(), 1);
    assert_eq!(scene.state(id).await, State::Succeeded);
    assert_eq!(scene.approval(id).await.arguments, row.arguments);
    scene.assert_at_rest().await;
}

#[tokio::test]
async fn a_question_that_nobody_answered_expires_wakes_the_turn_and_is_no_refusal() {
    let scene = Scene::with(Wanted {
        approval_ttl: Some(1),
        ..Wanted::default()
    })
    .await;
    let screen = scene.say(POST).await;
    let id = scene.one_pending().await;
    assert_eq!(scene.work().await, RunEnd::Idle, "not due yet");
    assert_eq!(scene.state(id).await, State::Pending);
    tokio::time::sleep(std::time::Duration::from_millis(1_100)).await;
    let due = scene.due(now()).await;
    assert!(due.iter().any(|due| due.id == id.to_string()), "{due:?}");
    scene.sweep(id, now()).await;
    let due = scene.due(now()).await;
    assert!(
        due.iter().any(|due| due.id.is_empty()),
        "the conversation is due: {due:?}"
    );
    assert_eq!(scene.work().await, RunEnd::Idle);
    assert_eq!(scene.state(id).await, State::Expired);
    let told = scene.told().await;
    assert!(told[0].starts_with("expired, not run"), "{told:?}");
    assert!(!told[0].contains("denied"), "{told:?}");
    let answer = scene.last_answer().await;
    assert_eq!(answer["id"], screen.id);
    assert_eq!(answer["parts"][1]["state"], "output-error");
    assert_eq!(
        answer["parts"][1]["errorText"],
        "Nobody answered in time. Nothing was done."
    );
    assert_eq!(scene.posts().await, [] as [Value; 0]);
    let records = scene
        .school()
        .audit_of(Subject::Approval(id))
        .await
        .unwrap();
    assert_eq!(records.last().unwrap().event, RecordEvent::Expired);
    assert_eq!(records.last().unwrap().actor, toshi_core::Actor::System);
    scene.assert_at_rest().await;
}

#[tokio::test]
async fn a_late_yes_finds_the_question_expired_and_says_so_on_the_card() {
    let scene = Scene::with(Wanted {
        approval_ttl: Some(1),
        ..Wanted::default()
    })
    .await;
    let mut screen = scene.say(POST).await;
    let id = scene.one_pending().await;
    tokio::time::sleep(std::time::Duration::from_millis(1_100)).await;
    scene.answer(&mut screen, &[(id, true)]).await;
    assert_eq!(scene.state(id).await, State::Expired);
    assert_eq!(screen.states(), ["output-error"]);
    assert_eq!(scene.posts().await, [] as [Value; 0]);
    scene.assert_at_rest().await;
}

#[tokio::test]
async fn a_contradicting_answer_changes_nothing_and_the_card_shows_what_is_on_record() {
    let scene = Scene::new().await;
    let mut screen = scene.say(POST).await;
    let id = scene.one_pending().await;
    scene.reject(id, "No").await;
    scene.work().await;
    scene.answer(&mut screen, &[(id, true)]).await;
    assert_eq!(screen.states(), ["output-denied"]);
    assert_eq!(screen.calls()[0]["approval"]["approved"], false);
    assert_eq!(scene.state(id).await, State::Rejected);
    assert_eq!(scene.posts().await, [] as [Value; 0]);
    scene.assert_at_rest().await;
}

#[tokio::test]
async fn the_same_request_twice_gets_the_outcome_twice_and_acts_once() {
    let scene = Scene::new().await;
    let mut screen = scene.say(POST).await;
    let id = scene.one_pending().await;
    screen.answer(&id.to_string(), true, None);
    let body = continued(&screen);
    let first = scene.post(body.clone()).await.unwrap();
    let again = scene.post(body).await.unwrap();
    let shown = screen.clone().after(&first);
    let repeated = screen.after(&again);
    assert_eq!(shown.states(), ["output-available"]);
    assert_eq!(repeated.states(), ["output-available"]);
    assert!(!repeated.would_send_again());
    assert_eq!(scene.posts().await.len(), 1);
    scene.assert_at_rest().await;
}

#[tokio::test]
async fn while_somebody_else_has_the_conversation_the_answer_is_followed() {
    let scene = Scene::new().await;
    let mut screen = scene.say(POST).await;
    let id = scene.one_pending().await;
    let (_meta, lease) = scene
        .school()
        .take(&scene.conversation(), now())
        .await
        .unwrap()
        .unwrap();
    let other = scene.another_agent();
    let conversation = scene.conversation();
    let later = async {
        tokio::time::sleep(std::time::Duration::from_millis(700)).await;
        let how = toshi_store::Release::LeaveDue(0);
        assert!(
            scene
                .school()
                .release(&conversation, &lease, how, now())
                .await
                .unwrap()
        );
        assert_eq!(
            work(&other, &scene.tenant, &conversation).await.unwrap(),
            RunEnd::Idle
        );
    };
    let answers = [(id, true)];
    let (_, ()) = tokio::join!(scene.answer(&mut screen, &answers), later);
    assert_eq!(screen.states(), ["output-available"]);
    assert_eq!(
        screen.text(),
        "Posted “Sports day moved to Friday” to #general."
    );
    screen.assert_is_stored_as(&scene.last_answer().await);
    assert_eq!(scene.posts().await.len(), 1);
}

#[tokio::test]
async fn a_decision_for_a_withdrawn_person_voids_the_call() {
    let scene = Scene::new().await;
    scene.say(POST).await;
    let id = scene.one_pending().await;
    scene.approve(id).await;
    let mut user = scene.school().user(&scene.admin).await.unwrap().unwrap();
    user.status = toshi_store::PersonStatus::Inactive;
    scene.school().put_user(&user).await.unwrap();
    assert_eq!(scene.work().await, RunEnd::Idle);
    assert_eq!(scene.state(id).await, State::Voided);
    assert_eq!(scene.posts().await, [] as [Value; 0]);
    assert!(scene.last_text().await.contains("no longer active"));
    scene.assert_at_rest().await;
}

#[tokio::test]
async fn a_kill_switch_after_the_approval_blocks_the_call() {
    let scene = Scene::new().await;
    for scope in ["tenant", "type:demo", "conn:demo-1"] {
        let screen = scene.say(POST).await;
        let id = scene.one_pending().await;
        scene.approve(id).await;
        scene.school().set_kill(scope, true).await.unwrap();
        assert_eq!(scene.work().await, RunEnd::Idle);
        assert_eq!(scene.state(id).await, State::Blocked, "{scope}");
        assert!(
            scene
                .told()
                .await
                .last()
                .unwrap()
                .starts_with("blocked by policy")
        );
        assert_eq!(scene.last_answer().await["id"], screen.id);
        scene.school().set_kill(scope, false).await.unwrap();
    }
    assert_eq!(scene.posts().await, [] as [Value; 0]);
    scene.assert_at_rest().await;
}

#[tokio::test]
async fn another_account_on_the_connection_voids_what_was_approved_for_the_old_one() {
    let scene = Scene::new().await;
    scene.say(POST).await;
    let id = scene.one_pending().await;
    scene.approve(id).await;
    let mut connection = scene.school().connections().await.unwrap().remove(0);
    connection.account = "demo:other".to_owned();
    connection.epoch += 1;
    scene.school().update_connection(&connection).await.unwrap();
    assert_eq!(scene.work().await, RunEnd::Idle);
    assert_eq!(scene.state(id).await, State::Voided);
    assert_eq!(scene.posts().await, [] as [Value; 0]);
    scene.assert_at_rest().await;
}

#[tokio::test]
async fn a_write_mode_that_was_taken_away_blocks_what_was_approved() {
    let scene = Scene::new().await;
    scene.say(POST).await;
    let id = scene.one_pending().await;
    scene.approve(id).await;
    let mut connection = scene.school().connections().await.unwrap().remove(0);
    connection.write_mode = toshi_core::WriteMode::Deny;
    connection.epoch += 1;
    scene.school().update_connection(&connection).await.unwrap();
    assert_eq!(scene.work().await, RunEnd::Idle);
    assert_eq!(scene.state(id).await, State::Blocked);
    assert_eq!(scene.posts().await, [] as [Value; 0]);
    scene.assert_at_rest().await;
}

#[tokio::test]
async fn deleting_a_conversation_withdraws_its_questions() {
    let scene = Scene::new().await;
    scene.say(POST).await;
    let id = scene.one_pending().await;
    let erased = scene
        .agent
        .erase(&scene.tenant, &scene.conversation())
        .await
        .unwrap();
    assert_eq!(erased, toshi_agent::Erased::Done);
    assert_eq!(scene.state(id).await, State::Voided);
    let row = scene.approval(id).await;
    let event = Event::Decide {
        answer: Answer::Approve,
        reason: None,
    };
    assert!(
        scene
            .school()
            .transition(&row, event, &Cause::system(), now())
            .await
            .is_err()
    );
    assert_eq!(
        scene.work().await,
        RunEnd::Busy,
        "nothing is there to be worked"
    );
    assert_eq!(scene.posts().await, [] as [Value; 0]);
    let said = scene.post(message(&fresh_id(), "hello")).await;
    assert!(matches!(said, Err(toshi_agent::ChatError::Deleted)));
}

#[tokio::test]
async fn an_invocation_with_too_little_time_hands_over_and_sends_a_hint() {
    let scene = Scene::new().await;
    scene.say(POST).await;
    let id = scene.one_pending().await;
    scene.approve(id).await;
    scene.stage.hints().await;
    for (left, state) in [(59_000, State::Approved), (240_000, State::Succeeded)] {
        let budget = toshi_agent::Budget::until(now().plus(left));
        let (tenant, conversation) = (&scene.tenant, scene.conversation());
        let run = scene.agent.run(tenant, &conversation, budget);
        assert_eq!(run.await.unwrap(), RunEnd::HandedOver);
        assert_eq!(scene.state(id).await, state, "{left}");
        assert_eq!(scene.stage.hints().await.len(), 1);
        let due = scene.due(now()).await;
        assert!(
            due.iter().any(|due| due.id.is_empty()),
            "it is due: {due:?}"
        );
    }
    assert_eq!(scene.work().await, RunEnd::Idle);
    assert!(scene.last_text().await.starts_with("Posted"));
    scene.assert_at_rest().await;
}

#[tokio::test]
async fn a_chat_request_runs_its_own_turn_and_hints_at_the_others() {
    let scene = Scene::new().await;
    scene.say(POST).await;
    let id = scene.one_pending().await;
    scene.approve(id).await;
    scene.stage.hints().await;
    let second = scene.say("hello").await;
    assert_eq!(second.finish, "stop");
    assert_eq!(
        scene.state(id).await,
        State::Approved,
        "not this invocation's"
    );
    assert_eq!(scene.stage.hints().await.len(), 1);
    assert_eq!(scene.work().await, RunEnd::Idle);
    assert_eq!(scene.state(id).await, State::Succeeded);
    scene.assert_at_rest().await;
}
