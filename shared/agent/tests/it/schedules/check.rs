//! What must hold whatever died.

use toshi_agent::now;
use toshi_core::{
    Answer, Approval, RecordEvent, State, Subject, TurnState, state_for_model, state_for_person,
};

use super::world::World;
use crate::scene::texts;

async fn approvals(world: &World) -> Vec<Approval> {
    let page = world.scene.school().recent_approvals(None, 100).await;
    page.unwrap().items
}

fn text_of(row: &Approval) -> String {
    let arguments = row.arguments.value();
    arguments["text"].as_str().unwrap().to_owned()
}

/// Holds at any moment: no text was posted twice, and what was posted had been claimed before.
pub(super) async fn effects(world: &World) {
    let posts = world.scene.posts().await;
    let rows = approvals(world).await;
    for row in &rows {
        let text = text_of(row);
        let made = posts.iter().filter(|post| post["text"] == text).count();
        assert!(made <= 1, "{text} was posted {made} times");
        if made == 0 {
            continue;
        }
        let subject = Subject::Approval(row.approval_id);
        let records = world.scene.school().audit_of(subject).await.unwrap();
        let claims = records
            .iter()
            .filter(|record| record.event == RecordEvent::Claimed)
            .count();
        assert_eq!(
            claims, 1,
            "{text} was posted with {claims} recorded attempts"
        );
        assert!(row.attempt.is_some(), "{text} was posted by no attempt");
    }
    for post in &posts {
        assert!(
            rows.iter().any(|row| post["text"] == text_of(row)),
            "posted and never asked: {post}"
        );
    }
}

/// Holds when everything has come to rest.
pub(super) async fn rest(world: &World, reply_is_lost: bool) {
    effects(world).await;
    let scene = &world.scene;
    let posts = scene.posts().await;
    let messages = scene.messages().await;
    let page: String = messages.iter().map(texts).collect();
    for row in approvals(world).await {
        let text = text_of(&row);
        let made = posts.iter().any(|post| post["text"] == text);
        let yes = row
            .decision
            .as_ref()
            .is_some_and(|decision| decision.answer == Answer::Approve);
        if made {
            assert!(yes, "{text} was posted and not approved: {row:?}");
            let known = matches!(row.state, State::Succeeded) && !reply_is_lost;
            let unknown = matches!(
                row.state,
                State::Unknown | State::ResolvedDone | State::ResolvedNotDone
            );
            assert!(
                known || unknown,
                "{text} was posted, and is {:?}",
                row.state
            );
            for words in [state_for_model(&row), state_for_person(&row)] {
                for denial in ["not run", "not executed", "Nothing was done", "Not done"] {
                    assert!(!words.contains(denial), "{text} was posted: {words}");
                }
            }
            let denial = format!("“{text}” was not posted");
            assert!(!page.contains(&denial), "{text} was posted: {page}");
        } else {
            assert_ne!(row.state, State::Succeeded, "{text} was not posted");
        }
        match row.state {
            State::Pending => assert!(row.due(now()).is_some(), "it waits for ever: {row:?}"),
            state => assert!(state.is_settled(), "{text} hangs: {row:?}"),
        }
    }
    turns(world).await;
    scene.assert_at_rest().await;
}

/// No turn hangs, and each step is followed by exactly one other.
async fn turns(world: &World) {
    let scene = &world.scene;
    for turn in scene.turns().await {
        let steps = scene
            .school()
            .steps_of(&scene.conversation(), turn.turn)
            .await
            .unwrap();
        let numbers: Vec<u32> = steps.iter().map(|step| step.n).collect();
        let whole: Vec<u32> = (1..=turn.steps).collect();
        assert_eq!(numbers, whole, "the steps of {turn:?}");
        let ids: Vec<_> = steps.last().unwrap().approvals().collect();
        let open = scene
            .school()
            .approvals_in(&scene.conversation(), &ids)
            .await
            .unwrap()
            .iter()
            .any(|row| row.state == State::Pending);
        match turn.state {
            TurnState::Done { .. } => assert!(!open, "a question of a turn that is done"),
            TurnState::Waiting => assert!(open, "a turn waits for nothing: {turn:?}"),
            TurnState::Running => panic!("a turn hangs: {turn:?}"),
        }
    }
    let history = scene.school().history(&scene.conversation()).await.unwrap();
    let mut answers: Vec<_> = history.steps.iter().map(|step| step.answer).collect();
    answers.sort();
    answers.dedup();
    let written = history
        .messages
        .iter()
        .filter(|row| matches!(row.author, toshi_core::MessageAuthor::Assistant { .. }))
        .count();
    assert_eq!(answers.len(), written, "an answer without words, or twice");
}
