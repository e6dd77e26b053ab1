//! One runner at a time, and none that does not know it has lost.

use std::sync::Arc;

use toshi_core::{LEASE_MS, TurnEnd, TurnState};
use toshi_store::{Begun, Commit, DueKind, Release, StepRefusal};

use crate::scene::{Scene, T0, TASKS, conversation, message, race};

#[tokio::test(flavor = "multi_thread")]
async fn of_32_takers_of_a_free_conversation_one_gets_it() {
    let scene = Scene::new().await;
    scene.asked().await;
    let taken = race(TASKS, |_| {
        let scene = Arc::clone(&scene);
        async move { scene.school().take(&conversation(), T0).await.unwrap() }
    })
    .await;
    let leases: Vec<_> = taken.into_iter().flatten().collect();
    assert_eq!(leases.len(), 1);
    let (row, lease) = &leases[0];
    assert_eq!(
        (row.fence, lease.fence, lease.until),
        (2, 2, T0.plus(LEASE_MS))
    );
    let stored = scene.school().meta(&conversation()).await.unwrap();
    assert_eq!(stored.as_ref(), Some(row));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lease_is_free_for_one_of_32_takers_at_its_end_and_not_before() {
    let scene = Scene::new().await;
    scene.begun("m-1", T0).await;
    for (now, winners) in [(T0.plus(LEASE_MS - 1), 0), (T0.plus(LEASE_MS), 1)] {
        let taken = race(TASKS, |_| {
            let scene = Arc::clone(&scene);
            async move { scene.school().take(&conversation(), now).await.unwrap() }
        })
        .await;
        assert_eq!(taken.into_iter().flatten().count(), winners);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_out_lease_is_either_renewed_or_taken_by_one() {
    for round in 0..8 {
        let scene = Scene::new().await;
        let begin = scene.begun("m-1", T0).await;
        let end = T0.plus(LEASE_MS);
        let won = race(TASKS, |n| {
            let (scene, fence) = (Arc::clone(&scene), begin.lease.fence);
            async move {
                let school = scene.school();
                if n == round {
                    school
                        .renew(&conversation(), fence, end)
                        .await
                        .unwrap()
                        .is_some()
                } else {
                    school.take(&conversation(), end).await.unwrap().is_some()
                }
            }
        })
        .await;
        assert_eq!(won.into_iter().filter(|won| *won).count(), 1);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_lost_the_lease_cannot_commit_renew_or_release() {
    let scene = Scene::new().await;
    let old = scene.begun("m-1", T0).await;
    let school = scene.school();
    let end = T0.plus(LEASE_MS);
    school.take(&conversation(), end).await.unwrap().unwrap();
    let before = scene.everything().await;

    let mut turn = old.turn.clone();
    turn.state = TurnState::Done {
        end: TurnEnd::Complete,
    };
    for release in [false, true] {
        let commit = Commit {
            turn: Some(turn.clone()),
            release,
            ..Commit::default()
        };
        let refused = school.commit(&old.meta, &old.lease, &commit, end).await;
        assert!(matches!(refused, Err(StepRefusal::Fenced)), "{refused:?}");
    }
    assert_eq!(
        school
            .renew(&conversation(), old.lease.fence, end)
            .await
            .unwrap(),
        None
    );
    for how in [Release::IfNothingNew, Release::LeaveDue(0)] {
        assert!(
            !school
                .release(&conversation(), &old.lease, how, end)
                .await
                .unwrap()
        );
    }
    assert_eq!(scene.everything().await, before);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_released_lease_cannot_be_renewed() {
    let scene = Scene::new().await;
    let begin = scene.begun("m-1", T0).await;
    let school = scene.school();
    assert!(
        school
            .release(&conversation(), &begin.lease, Release::IfNothingNew, T0)
            .await
            .unwrap()
    );
    assert_eq!(
        school
            .renew(&conversation(), begin.lease.fence, T0)
            .await
            .unwrap(),
        None
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn nobody_takes_a_conversation_that_does_not_exist() {
    let scene = Scene::new().await;
    assert!(
        scene
            .school()
            .take(&conversation(), T0)
            .await
            .unwrap()
            .is_none()
    );
    assert!(scene.everything().await.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_release_fails_when_something_new_came_until_that_was_looked_at() {
    let scene = Scene::new().await;
    let begin = scene.begun("m-1", T0).await;
    let school = scene.school();
    school
        .begin(&message("m-2", "more"), Some(begin.meta.clone()), T0)
        .await
        .unwrap();
    let how = Release::IfNothingNew;
    assert!(
        !school
            .release(&conversation(), &begin.lease, how, T0)
            .await
            .unwrap()
    );
    let meta = school.meta(&conversation()).await.unwrap().unwrap();
    assert!(meta.is_held(T0), "the refused release left the lease");
    let looked = meta.lease();
    assert!(
        school
            .release(&conversation(), &looked, how, T0)
            .await
            .unwrap()
    );
    let meta = school.meta(&conversation()).await.unwrap().unwrap();
    assert_eq!(meta.lease_until, None);
    assert_eq!(scene.due(T0.plus(LEASE_MS)).await, [], "nothing waits");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_handed_over_conversation_is_due_after_the_given_time() {
    let scene = Scene::new().await;
    let begin = scene.begun("m-1", T0).await;
    let school = scene.school();
    let how = Release::LeaveDue(10_000);
    assert!(
        school
            .release(&conversation(), &begin.lease, how, T0)
            .await
            .unwrap()
    );
    assert_eq!(scene.due(T0.plus(9_999)).await, []);
    let due = scene.due(T0.plus(10_000)).await;
    assert_eq!(due.len(), 1);
    assert_eq!(
        (due[0].kind, &due[0].tenant),
        (DueKind::Conversation, &scene.tenant)
    );
    assert!(school.take(&conversation(), T0).await.unwrap().is_some());
}

#[tokio::test(flavor = "multi_thread")]
async fn no_message_is_lost_between_a_release_and_32_senders() {
    for _ in 0..4 {
        let scene = Scene::new().await;
        let begin = scene.begun("m-0", T0).await;
        let outcomes = race(TASKS + 1, |n| {
            let (scene, begin) = (Arc::clone(&scene), begin.clone());
            async move {
                let school = scene.school();
                if n == TASKS {
                    let how = Release::IfNothingNew;
                    let released = school.release(&conversation(), &begin.lease, how, T0).await;
                    return (released.unwrap(), false);
                }
                let new = message(&format!("m-{n}"), "text");
                let begun = school.begin(&new, Some(begin.meta), T0).await.unwrap();
                (false, matches!(begun, Begun::Started(_)))
            }
        })
        .await;
        let released = outcomes.iter().any(|(released, _)| *released);
        let started = outcomes.iter().filter(|(_, started)| *started).count();
        let queued = scene.keys("IN#").await.len();
        assert_eq!(started + queued, TASKS);
        assert!(started == 0 || released, "nobody starts beside the holder");
        let due = scene.due(T0).await;
        assert!(queued == 0 || due.len() == 1, "whatever waits is due");
    }
}
