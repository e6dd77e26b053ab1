//! Whatever happened meanwhile, a result is kept, once.

use std::sync::Arc;

use serde_json::json;
use toshi_core::{
    Answer, AttemptId, Cause, ConnectionStatus, Event, Outcome, RESULT_CHUNK, RecordEvent, Refusal,
    Role, State, Subject,
};
use toshi_store::{DueKind, StepRefusal, TransitionError, mint};

use crate::scene::{
    Scene, T0, TASKS, arguments, asking, by, conversation, decide, question, race, requester,
    succeeded, unknown,
};

fn attempt(row: &toshi_core::Approval) -> AttemptId {
    row.attempt.as_ref().unwrap().id
}

fn resolve(done: bool) -> Event {
    Event::Resolve {
        done,
        reason: "I looked".to_owned(),
    }
}

/// Whether a call with these arguments may be asked now.
async fn may_ask(scene: &Scene, id: &str, text: &str) -> bool {
    let begin = scene.begun(id, T0).await;
    let commit = asking(&begin.turn, vec![question(&begin.turn, &arguments(text))]);
    match scene
        .school()
        .commit(&begin.meta, &begin.lease, &commit, T0)
        .await
    {
        Ok(committed) => committed.released,
        Err(StepRefusal::Unknown) => {
            let how = toshi_store::Release::LeaveDue(0);
            scene
                .school()
                .release(&conversation(), &begin.lease, how, T0)
                .await
                .unwrap();
            false
        }
        Err(other) => panic!("{other:?}"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_result_is_kept_after_its_writer_lost_the_conversation() {
    let scene = Scene::new().await;
    let row = scene.executing().await;
    let wake = scene.wake().await;
    let school = scene.school();
    let (_, other) = school.take(&conversation(), T0).await.unwrap().unwrap();
    let settled = scene.settle(&row, succeeded("posted")).await;
    assert_eq!(
        (settled.state, settled.outcome.clone()),
        (State::Succeeded, Some(succeeded("posted")))
    );
    assert_eq!(scene.stored(&row).await, settled);
    assert_eq!(scene.wake().await, wake + 1);
    let how = toshi_store::Release::IfNothingNew;
    let released = school
        .release(&conversation(), &other, how, T0)
        .await
        .unwrap();
    assert!(!released, "the present holder must look at it");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_result_is_kept_after_the_connection_was_disabled_and_everything_killed() {
    let scene = Scene::new().await;
    let row = scene.executing().await;
    let mut connection = scene.target("con-1").await.connection;
    connection.epoch += 1;
    connection.usable = false;
    connection.status = ConnectionStatus::Disconnected;
    scene.school().update_connection(&connection).await.unwrap();
    scene.school().set_kill("tenant", true).await.unwrap();
    let settled = scene.settle(&row, succeeded("posted")).await;
    assert_eq!(settled.state, State::Succeeded);
    assert_eq!(
        scene.due(T0).await.len(),
        1,
        "the conversation, and the approval no more"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_result_is_kept_after_the_lease_of_its_claim_ran_out() {
    let scene = Scene::new().await;
    let row = scene.executing().await;
    let late = row.lease().time().unwrap().plus(60_000);
    let outcome = succeeded("posted");
    let settled = scene
        .school()
        .settle(&row, attempt(&row), outcome, "", || late, late)
        .await;
    assert_eq!(settled.unwrap().state, State::Succeeded);
}

#[tokio::test(flavor = "multi_thread")]
async fn of_32_writers_of_different_outcomes_the_first_wins_and_the_rest_get_its_row() {
    let scene = Scene::new().await;
    let row = scene.executing().await;
    let wake = scene.wake().await;
    let rows = race(TASKS, |n| {
        let (scene, row) = (Arc::clone(&scene), row.clone());
        async move {
            let outcome = if n % 2 == 0 {
                succeeded(&format!("posted {n}"))
            } else {
                Outcome::Refused {
                    why: format!("no {n}"),
                }
            };
            scene.settle(&row, outcome).await
        }
    })
    .await;
    let stored = scene.stored(&row).await;
    assert!(rows.iter().all(|row| *row == stored));
    assert_eq!((stored.seq, scene.wake().await), (row.seq + 1, wake + 1));
    let records = scene
        .school()
        .audit_of(Subject::Approval(row.approval_id))
        .await
        .unwrap();
    let settled = records
        .iter()
        .filter(|record| record.event == RecordEvent::Settled);
    assert_eq!(settled.count(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn another_attempts_result_is_refused() {
    let scene = Scene::new().await;
    let row = scene.executing().await;
    let before = scene.everything().await;
    let school = scene.school();
    let result = school
        .settle(
            &row,
            mint(T0),
            succeeded("x"),
            "",
            crate::scene::clock(),
            T0.plus(5_000),
        )
        .await;
    let refused = matches!(
        &result,
        Err(TransitionError::Refused {
            refusal: Refusal::OtherAttempt,
            ..
        })
    );
    assert!(refused, "{result:?}");
    assert_eq!(scene.everything().await, before);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unknown_outcome_blocks_the_same_call_until_a_person_resolves_it() {
    for done in [true, false] {
        let scene = Scene::new().await;
        let row = scene.unknown().await;
        assert_eq!(scene.keys("UNK#").await.len(), 1);
        assert!(!may_ask(&scene, "m-2", "hi").await);
        assert!(may_ask(&scene, "m-3", "another text").await);
        scene.apply(&row, resolve(done), &requester()).await;
        assert!(may_ask(&scene, "m-4", "hi").await);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn two_unknown_outcomes_of_one_call_both_block_until_both_are_resolved() {
    let scene = Scene::new().await;
    let target = scene.connected().await;
    let mut rows = Vec::new();
    for id in ["m-1", "m-2"] {
        let row = scene.asked_with(id, &arguments("hi")).await;
        let row = scene.approve(&row).await;
        rows.push(scene.claim(&row, &target).await.row);
    }
    // Many writers for each, all at once.
    let settled = race(TASKS, |n| {
        let (scene, row) = (Arc::clone(&scene), rows[n % 2].clone());
        async move { scene.settle(&row, unknown()).await }
    })
    .await;
    assert!(settled.iter().all(|row| row.state == State::Unknown));
    assert!(!may_ask(&scene, "m-3", "hi").await);
    let rows = [scene.stored(&rows[0]).await, scene.stored(&rows[1]).await];
    scene.apply(&rows[0], resolve(true), &requester()).await;
    assert!(
        !may_ask(&scene, "m-4", "hi").await,
        "the other one still blocks"
    );
    scene
        .apply(&rows[1], resolve(false), &by("bob", Role::Admin))
        .await;
    assert!(may_ask(&scene, "m-5", "hi").await);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_late_true_result_takes_the_block_away() {
    let scene = Scene::new().await;
    let row = scene.executing().await;
    let end = row.lease().time().unwrap();
    let school = scene.school();
    let early = school
        .transition(&row, Event::Abandon, &Cause::system(), end.plus(-1))
        .await;
    assert!(early.is_err());
    let abandoned = school
        .transition(&row, Event::Abandon, &Cause::system(), end)
        .await
        .unwrap();
    assert_eq!(abandoned.state, State::Unknown);
    assert!(!may_ask(&scene, "m-2", "hi").await);
    // Its writer knows the row only as it claimed it.
    let late = scene.settle(&row, succeeded("posted")).await;
    assert_eq!(late.state, State::Succeeded);
    assert!(may_ask(&scene, "m-3", "hi").await);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_sweep_and_the_writer_of_a_result_at_once_leave_no_block_and_lose_no_result() {
    for _ in 0..4 {
        let scene = Scene::new().await;
        let row = scene.executing().await;
        let end = row.lease().time().unwrap();
        race(TASKS, |n| {
            let (scene, row) = (Arc::clone(&scene), row.clone());
            async move {
                if n % 2 == 0 {
                    let school = scene.school();
                    let _ = school
                        .transition(&row, Event::Abandon, &Cause::system(), end)
                        .await;
                } else {
                    scene.settle(&row, succeeded("posted")).await;
                }
            }
        })
        .await;
        let stored = scene.stored(&row).await;
        assert_eq!(
            (stored.state, stored.outcome),
            (State::Succeeded, Some(succeeded("posted")))
        );
        assert!(may_ask(&scene, "m-2", "hi").await);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_result_after_a_persons_word_is_evidence_and_the_word_stands() {
    let scene = Scene::new().await;
    let row = scene.unknown().await;
    let resolved = scene.apply(&row, resolve(false), &requester()).await;
    let late = scene.settle(&row, succeeded("posted")).await;
    assert_eq!(late.state, State::ResolvedNotDone);
    assert_eq!(
        (late.outcome.clone(), late.resolution.clone()),
        (Some(succeeded("posted")), resolved.resolution)
    );
    let again = scene
        .settle(
            &row,
            Outcome::Refused {
                why: "no".to_owned(),
            },
        )
        .await;
    assert_eq!(again, late, "once");
    assert!(may_ask(&scene, "m-2", "hi").await);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_long_result_is_stored_in_chunks_that_cut_no_character() {
    let scene = Scene::new().await;
    let row = scene.executing().await;
    // Three bytes a character: the chunk's limit falls inside one.
    let text: String = "学".repeat(100 * 1024) + "🏫";
    assert!(!text.is_char_boundary(RESULT_CHUNK));
    let school = scene.school();
    let outcome = succeeded("the beginning");
    let settled = school
        .settle(
            &row,
            attempt(&row),
            outcome,
            &text,
            crate::scene::clock(),
            T0.plus(5_000),
        )
        .await;
    assert_eq!(settled.unwrap().chunks, 2);
    let chunks = scene.items(&scene.stage.table).await;
    let prefix = format!("R#{}#", row.call);
    let texts: Vec<&str> = chunks
        .iter()
        .filter(|((_, sk), _)| sk.starts_with(&prefix))
        .map(|(_, item)| item["text"].as_s().unwrap().as_str())
        .collect();
    assert!(texts.iter().all(|text| text.len() <= RESULT_CHUNK));
    assert_eq!(texts.concat(), text);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_result_that_no_row_can_hold_as_structure_is_kept_as_text() {
    let deep = (0..40).fold(json!("x"), |inner, _| json!([inner]));
    for structured in [json!({ "deep": deep }), json!({ "huge": -1e200 })] {
        let scene = Scene::new().await;
        let row = scene.executing().await;
        let outcome = Outcome::Succeeded {
            text: "as text".to_owned(),
            structured: Some(structured),
            bytes: 7,
        };
        let settled = scene.settle(&row, outcome).await;
        assert_eq!(settled.state, State::Succeeded);
        let expected = Outcome::Succeeded {
            text: "as text".to_owned(),
            structured: None,
            bytes: 7,
        };
        assert_eq!(settled.outcome, Some(expected));
        assert_eq!(scene.stored(&row).await, settled);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_transition_settles_although_its_conversation_is_gone() {
    let scene = Scene::new().await;
    let row = scene.executing().await;
    let db = &scene.stage.db;
    let s = |text: String| aws_sdk_dynamodb::types::AttributeValue::S(text);
    let (pk, sk) = (
        format!("T#lakeside#C#{}", row.conversation),
        "META".to_owned(),
    );
    let delete = db.delete_item().table_name(&scene.stage.table);
    delete
        .key("PK", s(pk))
        .key("SK", s(sk))
        .send()
        .await
        .unwrap();
    let settled = scene.settle(&row, unknown()).await;
    assert_eq!(settled.state, State::Unknown);
    assert_eq!(scene.stored(&row).await, settled);
    assert_eq!(scene.keys("UNK#").await.len(), 1, "its other effects hold");
    assert_eq!(
        scene.keys("META").await,
        Vec::<String>::new(),
        "and nothing comes back"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn every_settlement_makes_the_conversation_due_at_once() {
    let scene = Scene::new().await;
    let row = scene.executing().await;
    scene.settle(&row, succeeded("posted")).await;
    let due = scene.due(T0).await;
    assert_eq!(
        due.iter().map(|due| due.kind).collect::<Vec<_>>(),
        [DueKind::Conversation]
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rejected_call_has_no_result() {
    let scene = Scene::new().await;
    let row = scene.asked().await;
    let row = scene
        .apply(&row, decide(Answer::Reject), &requester())
        .await;
    let school = scene.school();
    let result = school
        .settle(&row, mint(T0), succeeded("x"), "", || T0, T0)
        .await;
    let stored = scene.stored(&row).await;
    assert_eq!(stored, row);
    assert!(result.is_err(), "{result:?}");
}
