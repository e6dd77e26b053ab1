//! A summary is written under the lease, and what stands open is read however old it is.

use toshi_core::{Answer, Millis, SummaryRow};
use toshi_store::{StepRefusal, mint};

use crate::scene::{
    Scene, T0, arguments, asking, conversation, decide, question, requester, succeeded,
};

fn summary(upto: u64, next: u64) -> SummaryRow {
    SummaryRow {
        upto,
        next,
        text: format!("up to {upto}"),
        said: vec!["INV-1".to_owned()],
        told: Vec::new(),
        at: T0,
    }
}

impl Scene {
    async fn kept_summary(&self) -> Option<SummaryRow> {
        let history = self.school().history(&conversation()).await.unwrap();
        history.summary
    }

    /// A question in a turn of its own, so many milliseconds after the others.
    async fn asked_later(&self, ms: i64) -> toshi_core::Approval {
        let time: Millis = T0.plus(ms);
        let begin = self.begun(&format!("later-{ms}"), time).await;
        let mut row = question(&begin.turn, &arguments(&format!("text {ms}")));
        row.approval_id = mint(time);
        let commit = asking(&begin.turn, vec![row]);
        let school = self.school();
        let committed = school.commit(&begin.meta, &begin.lease, &commit, T0).await;
        committed.unwrap().asks.remove(0)
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_summary_replaces_one_that_covers_less_and_no_other() {
    let scene = Scene::new().await;
    let begin = scene.begun("m-1", T0).await;
    assert_eq!(scene.kept_summary().await, None);
    let school = scene.school();
    let put = |row: SummaryRow| {
        let (school, begin) = (&school, &begin);
        async move {
            let put = school
                .put_summary(&begin.meta, &begin.lease, &row, &[])
                .await;
            put.unwrap()
        }
    };
    assert!(put(summary(10, 21)).await);
    assert!(put(summary(20, 31)).await);
    for less in [
        summary(20, 31),
        summary(10, 21),
        summary(10, 31),
        summary(20, 30),
    ] {
        assert!(!put(less).await);
    }
    assert_eq!(scene.kept_summary().await, Some(summary(20, 31)));
    // A message was replaced: what is said now covers less, and is newer.
    assert!(put(summary(4, 41)).await);
    assert_eq!(scene.kept_summary().await, Some(summary(4, 41)));
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_lost_the_lease_writes_no_summary() {
    let scene = Scene::new().await;
    let begin = scene.begun("m-1", T0).await;
    let school = scene.school();
    let later = T0.plus(toshi_core::LEASE_MS);
    school.take(&conversation(), later).await.unwrap().unwrap();
    for settled in [vec![], vec![mint(T0)]] {
        let put = school
            .put_summary(&begin.meta, &begin.lease, &summary(10, 21), &settled)
            .await;
        assert!(matches!(put, Err(StepRefusal::Fenced)), "{put:?}");
    }
    assert_eq!(scene.kept_summary().await, None);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_conversation_knows_the_calls_whose_outcome_became_unknown() {
    let scene = Scene::new().await;
    let school = scene.school();
    let known = || async {
        let meta = school.meta(&conversation()).await.unwrap().unwrap();
        meta.unknown.into_iter().collect::<Vec<_>>()
    };
    let row = scene.executing().await;
    assert_eq!(known().await, []);
    let lost = scene.settle(&row, crate::scene::unknown()).await;
    assert_eq!(known().await, [lost.approval_id]);
    // Its late result does not take it away: the model has yet to hear of it.
    scene.settle(&lost, succeeded("posted")).await;
    assert_eq!(known().await, [lost.approval_id]);
    // Taking and releasing the lease, and starting a turn, keep it.
    let begin = scene.begun("m-2", T0).await;
    assert!(begin.meta.unknown.contains(&lost.approval_id));
    assert_eq!(known().await, [lost.approval_id]);
    let put = school
        .put_summary(
            &begin.meta,
            &begin.lease,
            &summary(2, 5),
            &[lost.approval_id],
        )
        .await;
    assert!(put.unwrap());
    assert_eq!(known().await, []);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_waits_or_is_unknown_is_read_however_much_came_since() {
    let scene = Scene::new().await;
    let lost = scene.unknown().await;
    let waits = scene.asked_later(1).await;
    for n in 0..125 {
        let row = scene.asked_later(1_000 + n).await;
        scene
            .apply(&row, decide(Answer::Reject), &requester())
            .await;
    }
    let history = scene.school().history(&conversation()).await.unwrap();
    let oldest = history.messages.first().unwrap().seq;
    assert!(oldest > 100, "both are far behind what is read: {oldest}");
    for row in [&lost, &waits] {
        let read = history.approvals.get(&row.approval_id);
        assert_eq!(read, Some(&scene.stored(row).await));
    }
}
