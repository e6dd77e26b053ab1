//! The sweep index shows what waits, at its time, and nothing else.

use std::slice;

use toshi_core::{
    Answer, Cause, DECIDE_WITHIN_WEB_MS, Deadline, Event, LEASE_MS, Millis, NotSent, RUN_WITHIN_MS,
};
use toshi_store::{DueKind, Release};

use crate::scene::{
    DECIDE_BY, Scene, T0, arguments, asking, conversation, decide, message, question, requester,
    succeeded, unknown,
};

/// Beyond every time limit of these tests.
const LATER: Millis = T0.plus(2 * DECIDE_WITHIN_WEB_MS);

async fn kinds(scene: &Scene, now: Millis) -> Vec<(DueKind, String)> {
    let due = scene.due(now).await;
    due.into_iter().map(|due| (due.kind, due.id)).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_conversation_is_due_at_its_leases_end_at_once_when_bumped_and_never_when_released() {
    let scene = Scene::new().await;
    let school = scene.school();
    let conversation = conversation();
    let meta = (DueKind::Conversation, String::new());

    let begin = scene.begun("m-1", T0).await;
    assert_eq!(kinds(&scene, T0.plus(LEASE_MS - 1)).await, []);
    assert_eq!(
        kinds(&scene, T0.plus(LEASE_MS)).await,
        slice::from_ref(&meta)
    );

    let renewed = T0.plus(20_000);
    school
        .renew(&conversation, begin.lease.fence, renewed)
        .await
        .unwrap();
    assert_eq!(kinds(&scene, renewed.plus(LEASE_MS - 1)).await, []);
    assert_eq!(
        kinds(&scene, renewed.plus(LEASE_MS)).await,
        slice::from_ref(&meta)
    );

    school
        .begin(&message("m-2", "more"), Some(begin.meta), renewed)
        .await
        .unwrap();
    assert_eq!(kinds(&scene, renewed).await, [meta]);

    let row = school.meta(&conversation).await.unwrap().unwrap();
    assert!(
        school
            .release(&conversation, &row.lease(), Release::IfNothingNew, renewed)
            .await
            .unwrap()
    );
    assert_eq!(kinds(&scene, LATER).await, []);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_approval_is_due_at_each_of_its_limits_and_never_once_settled() {
    let scene = Scene::new().await;
    let target = scene.connected().await;
    let row = scene.asked().await;
    let entry = (DueKind::Approval, row.approval_id.to_string());
    let approvals = async |now| -> Vec<(DueKind, String)> {
        let due = kinds(&scene, now).await;
        due.into_iter()
            .filter(|(kind, _)| *kind == DueKind::Approval)
            .collect()
    };
    assert_eq!(approvals(DECIDE_BY.plus(-1)).await, []);
    assert_eq!(approvals(DECIDE_BY).await, slice::from_ref(&entry));

    let row = scene.approve(&row).await;
    let run_by = T0.plus(RUN_WITHIN_MS);
    assert_eq!(row.run_by, Some(Deadline::at(run_by)));
    assert_eq!(approvals(run_by.plus(-1)).await, []);
    assert_eq!(approvals(run_by).await, slice::from_ref(&entry));

    let row = scene.claim(&row, &target).await.row;
    let lease_until = row.lease().time().unwrap();
    assert_eq!(approvals(lease_until.plus(-1)).await, []);
    assert_eq!(approvals(lease_until).await, [entry]);

    scene.settle(&row, succeeded("posted")).await;
    assert_eq!(approvals(LATER).await, []);
}

#[tokio::test(flavor = "multi_thread")]
async fn no_way_to_end_an_approval_leaves_it_in_the_index() {
    let scene = Scene::new().await;
    let begin = scene.begun("m-1", T0).await;
    let asks = (0..5).map(|n| question(&begin.turn, &arguments(&format!("text {n}"))));
    let commit = asking(&begin.turn, asks.collect());
    let school = scene.school();
    let rows = school
        .commit(&begin.meta, &begin.lease, &commit, T0)
        .await
        .unwrap()
        .asks;
    scene
        .apply(&rows[0], decide(Answer::Reject), &requester())
        .await;
    let late = school
        .transition(&rows[1], Event::Expire, &Cause::system(), DECIDE_BY)
        .await;
    late.unwrap();
    let why = toshi_core::VoidReason::PersonChanged;
    scene
        .apply(&rows[2], Event::Void(why), &Cause::system())
        .await;
    let blocked = scene.approve(&rows[3]).await;
    let why = toshi_core::BlockReason::Killed;
    scene
        .apply(&blocked, Event::Block(why), &Cause::system())
        .await;
    let given_up = scene.approve(&rows[4]).await;
    scene
        .apply(
            &given_up,
            Event::GiveUp(NotSent::ToolGone),
            &Cause::system(),
        )
        .await;
    let due = kinds(&scene, LATER).await;
    assert_eq!(
        due,
        [(DueKind::Conversation, String::new())],
        "the bumps only"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_of_unknown_outcome_waits_for_a_person_not_for_the_sweep() {
    let scene = Scene::new().await;
    let row = scene.executing().await;
    scene.settle(&row, unknown()).await;
    let due = kinds(&scene, LATER).await;
    assert_eq!(due, [(DueKind::Conversation, String::new())]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_question_without_a_readable_limit_is_due_at_once() {
    let scene = Scene::new().await;
    let begin = scene.begun("m-1", T0).await;
    let mut row = question(&begin.turn, &arguments("hi"));
    row.decide_by = Deadline::malformed();
    let entry = (DueKind::Approval, row.approval_id.to_string());
    let commit = asking(&begin.turn, vec![row]);
    scene
        .school()
        .commit(&begin.meta, &begin.lease, &commit, T0)
        .await
        .unwrap();
    assert_eq!(kinds(&scene, T0.plus(-1)).await, []);
    assert_eq!(kinds(&scene, T0).await, [entry]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_shard_gives_the_soonest_first_and_no_more_than_asked() {
    let scene = Scene::new().await;
    let begin = scene.begun("m-1", T0).await;
    let asks = (0..8).map(|n| {
        let mut row = question(&begin.turn, &arguments(&format!("text {n}")));
        row.decide_by = Deadline::at(T0.plus(1_000 * (8 - n)));
        row
    });
    let commit = asking(&begin.turn, asks.collect());
    let rows = scene
        .school()
        .commit(&begin.meta, &begin.lease, &commit, T0)
        .await
        .unwrap()
        .asks;
    let shard = async |limit| {
        let mut all = Vec::new();
        for shard in 0..toshi_store::SHARDS {
            all.extend(scene.stage.store.due(shard, LATER, limit).await.unwrap());
        }
        all
    };
    let soonest: Vec<String> = rows
        .iter()
        .rev()
        .take(3)
        .map(|row| row.approval_id.to_string())
        .collect();
    let found: Vec<String> = shard(3).await.into_iter().map(|due| due.id).collect();
    assert_eq!(found, soonest);
    assert_eq!(shard(100).await.len(), 8);
}
