//! A deleted conversation loses its contents and keeps the record of what was asked and done.

use std::sync::Arc;

use toshi_core::{Answer, Cause, Event, LEASE_MS, VoidReason};
use toshi_store::{Begun, StoreError};

use crate::scene::{
    Scene, T0, TASKS, ann, arguments, conversation, decide, message, race, requester, succeeded,
};

/// A conversation with something of every kind in it, its lease taken.
async fn full(scene: &Scene) -> (toshi_core::ConversationRow, toshi_core::Lease) {
    let row = scene.executing().await;
    let attempt = row.attempt.as_ref().unwrap().id;
    let school = scene.school();
    let outcome = succeeded("the beginning");
    school
        .settle(&row, attempt, outcome, &"x".repeat(300_000), || T0, T0)
        .await
        .unwrap();
    for n in 0..40 {
        let asked = scene
            .asked_with(&format!("more-{n}"), &arguments(&format!("text {n}")))
            .await;
        scene
            .apply(&asked, decide(Answer::Reject), &requester())
            .await;
    }
    let taken = school.take(&conversation(), T0).await.unwrap().unwrap();
    let new = message("waiting", "text");
    school.begin(&new, Some(taken.0.clone()), T0).await.unwrap();
    taken
}

#[tokio::test(flavor = "multi_thread")]
async fn only_approvals_and_audit_records_outlive_a_conversation() {
    let scene = Scene::new().await;
    let (meta, lease) = full(&scene).await;
    let audit = scene.items(&scene.stage.audit_table).await;
    let approvals = scene.keys("AP#").await;
    let pointers = scene.keys("APID#").await;
    assert_eq!((approvals.len(), pointers.len()), (41, 41));
    let school = scene.school();
    school.erase_conversation(&meta, &lease, T0).await.unwrap();

    let items = scene.items(&scene.stage.table).await;
    let left: Vec<&String> = items
        .keys()
        .filter(|(pk, _)| pk.contains("#C#") || pk.contains("#U#"))
        .map(|(_, sk)| sk)
        .collect();
    let expected: Vec<String> = approvals
        .iter()
        .cloned()
        .chain(["META".to_owned()])
        .collect();
    assert_eq!(left, expected.iter().collect::<Vec<_>>());
    assert_eq!(scene.keys("APID#").await, pointers);
    assert_eq!(scene.items(&scene.stage.audit_table).await, audit);

    let row = school.meta(&conversation()).await.unwrap().unwrap();
    assert_eq!((row.deleted_at, row.lease_until), (Some(T0), None));
    assert!(row.open.is_empty());
    assert!(
        school
            .conversations(&ann(), None, 10)
            .await
            .unwrap()
            .items
            .is_empty()
    );
    assert_eq!(scene.due(T0.plus(2 * LEASE_MS)).await, []);
}

#[tokio::test(flavor = "multi_thread")]
async fn messages_that_come_during_a_deletion_are_deleted_too_or_refused() {
    let scene = Scene::new().await;
    let (meta, lease) = full(&scene).await;
    let results = race(TASKS + 1, |n| {
        let (scene, meta, lease) = (Arc::clone(&scene), meta.clone(), lease.clone());
        async move {
            let school = scene.school();
            if n == 0 {
                school.erase_conversation(&meta, &lease, T0).await.unwrap();
                return Ok(());
            }
            let new = message(&format!("late-{n}"), "text");
            school.begin(&new, Some(meta), T0).await.map(|begun| {
                assert!(matches!(begun, Begun::Queued { .. }), "{begun:?}");
            })
        }
    })
    .await;
    for result in results {
        assert!(
            matches!(result, Ok(()) | Err(StoreError::Deleted)),
            "{result:?}"
        );
    }
    for prefix in ["IN#", "UM#", "M#", "TURN#", "STEP#", "R#", "CV#"] {
        assert_eq!(scene.keys(prefix).await, Vec::<String>::new());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_sent_just_before_the_last_write_of_a_deletion_is_not_left_behind() {
    // The wake that the deletion's last write must notice.
    let scene = Scene::new().await;
    let begin = scene.begun("m-1", T0).await;
    let school = scene.school();
    school
        .begin(&message("m-2", "text"), Some(begin.meta.clone()), T0)
        .await
        .unwrap();
    // The holder's copy is from before the message.
    school
        .erase_conversation(&begin.meta, &begin.lease, T0)
        .await
        .unwrap();
    assert_eq!(scene.keys("").await, ["META"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_lost_the_lease_deletes_nothing() {
    let scene = Scene::new().await;
    let (meta, lease) = full(&scene).await;
    let school = scene.school();
    school
        .take(&conversation(), T0.plus(LEASE_MS))
        .await
        .unwrap()
        .unwrap();
    let before = scene.everything().await;
    let result = school
        .erase_conversation(&meta, &lease, T0.plus(LEASE_MS))
        .await;
    assert!(matches!(result, Err(StoreError::Conflict)), "{result:?}");
    assert_eq!(scene.everything().await, before);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_approval_of_a_deleted_conversation_still_goes_its_way() {
    let scene = Scene::new().await;
    let row = scene.asked().await;
    let school = scene.school();
    let (meta, lease) = school.take(&conversation(), T0).await.unwrap().unwrap();
    school.erase_conversation(&meta, &lease, T0).await.unwrap();
    let event = Event::Void(VoidReason::ConversationDeleted);
    let voided = school
        .transition(&row, event, &Cause::system(), T0)
        .await
        .unwrap();
    assert_eq!(scene.stored(&row).await, voided);
    assert_eq!(scene.keys("OPEN#").await, Vec::<String>::new());
}
