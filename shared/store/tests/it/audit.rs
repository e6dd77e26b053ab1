//! The record of a call's whole life, in its place, once.

use std::collections::BTreeSet;
use std::sync::Arc;

use aws_sdk_dynamodb::types::AttributeValue;
use serde_json::json;
use toshi_core::{
    Cause, Event, FaultKind, Millis, Record, RecordDraft, RecordEvent, Role, Seal, State, Subject,
    verify_chain,
};

use crate::scene::{Scene, T0, TASKS, by, conversation, race, requester, succeeded};

fn draft(row: &toshi_core::Approval) -> RecordDraft {
    let cause = by("bob", Role::Teacher);
    RecordDraft {
        event: RecordEvent::Refused,
        at: T0,
        actor: cause.actor,
        how: cause.how,
        request: cause.request,
        conversation: Some(row.conversation.clone()),
        turn: Some(row.turn),
        approval: Some(row.approval_id),
        connection: None,
        tool: None,
        arguments_hmac: None,
        detail: json!({ "why": "not_yours" }),
    }
}

/// From the question to a late result after a person's word: the longest life there is.
async fn long_life(scene: &Scene) -> toshi_core::Approval {
    let row = scene.executing().await;
    let attempt = row.attempt.as_ref().unwrap().id;
    let row = scene
        .school()
        .send_again(&row, attempt, T0)
        .await
        .unwrap()
        .row;
    let end = row.lease().time().unwrap();
    let abandoned = scene
        .school()
        .transition(&row, Event::Abandon, &Cause::system(), end)
        .await;
    let event = Event::Resolve {
        done: true,
        reason: "I looked".to_owned(),
    };
    scene.apply(&abandoned.unwrap(), event, &requester()).await;
    scene.settle(&row, succeeded("posted")).await
}

#[tokio::test(flavor = "multi_thread")]
async fn the_chain_of_a_full_life_verifies_against_its_row() {
    let scene = Scene::new().await;
    let row = long_life(&scene).await;
    assert_eq!((row.state, row.seq), (State::ResolvedDone, 7));
    let subject = Subject::Approval(row.approval_id);
    let records = scene.school().audit_of(subject).await.unwrap();
    let events: Vec<_> = records.iter().map(|record| record.event).collect();
    assert_eq!(
        events,
        [
            RecordEvent::Requested,
            RecordEvent::Decided,
            RecordEvent::Claimed,
            RecordEvent::Attempted,
            RecordEvent::Settled,
            RecordEvent::Resolved,
            RecordEvent::LateResult,
        ]
    );
    let stored = scene.stored(&row).await;
    let seal = Seal {
        seq: stored.seq,
        head: stored.head,
    };
    assert_eq!(
        verify_chain(&subject.to_string(), &records, Some(&seal)),
        Ok(())
    );
    for record in &records {
        assert_eq!(
            (&record.tenant, &record.conversation),
            (&scene.tenant, &Some(conversation()))
        );
        assert_eq!(record.approval, Some(row.approval_id));
        assert!(
            !serde_json::to_string(record).unwrap().contains("#general"),
            "no contents"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stored_record_that_was_altered_removed_or_cut_off_is_named() {
    let scene = Scene::new().await;
    let row = long_life(&scene).await;
    let subject = Subject::Approval(row.approval_id);
    let seal = Seal {
        seq: row.seq,
        head: row.head.clone(),
    };
    let pk = format!("T#lakeside#{subject}");
    let audit = &scene.stage.audit_table;
    let check = async || {
        let records = scene.school().audit_of(subject).await.unwrap();
        verify_chain(&subject.to_string(), &records, Some(&seal)).map_err(|f| (f.seq, f.problem))
    };
    let how = |text: &str| Some(AttributeValue::S(text.to_owned()));
    scene
        .tamper(audit, (&pk, "0000000002"), "how", how("chat"))
        .await;
    assert_eq!(check().await, Err((2, FaultKind::Altered)));
    scene
        .tamper(audit, (&pk, "0000000002"), "how", how("web"))
        .await;
    assert_eq!(check().await, Ok(()));
    let remove = async |sk: &str| {
        let delete = scene.stage.db.delete_item().table_name(audit);
        let s = |text: &str| AttributeValue::S(text.to_owned());
        delete
            .key("PK", s(&pk))
            .key("SK", s(sk))
            .send()
            .await
            .unwrap();
    };
    remove("0000000007").await;
    assert_eq!(check().await, Err((7, FaultKind::Missing)), "the tail");
    remove("0000000003").await;
    assert_eq!(check().await, Err((3, FaultKind::Missing)));
}

#[tokio::test(flavor = "multi_thread")]
async fn refusals_stand_in_their_shards_and_in_nobodys_chain() {
    let scene = Scene::new().await;
    let row = scene.asked().await;
    race(2 * TASKS, |n| {
        let (scene, draft) = (Arc::clone(&scene), draft(&row));
        async move {
            let school = scene.school();
            let key = n.to_string();
            school.record_refusal(draft, &key, T0).await.unwrap()
        }
    })
    .await;
    let items = scene.items(&scene.stage.audit_table).await;
    let refusals: BTreeSet<&(String, String)> = items
        .keys()
        .filter(|(pk, _)| pk.contains("#REF#"))
        .collect();
    assert_eq!(refusals.len(), 2 * TASKS);
    let day = T0.day();
    let shards: BTreeSet<String> = (0..8)
        .map(|n| format!("T#lakeside#REF#{n}#{day}"))
        .collect();
    assert!(refusals.iter().all(|(pk, _)| shards.contains(pk)));
    let used: BTreeSet<&String> = refusals.iter().map(|(pk, _)| pk).collect();
    assert!(used.len() > 4, "they are spread: {used:?}");

    let subject = Subject::Approval(row.approval_id);
    let chain = scene.school().audit_of(subject).await.unwrap();
    assert_eq!(chain.len(), 1);
    let seal = Seal {
        seq: row.seq,
        head: row.head,
    };
    assert_eq!(
        verify_chain(&subject.to_string(), &chain, Some(&seal)),
        Ok(())
    );
    let page = scene.school().audit_day(&day, None, 100).await.unwrap();
    assert_eq!(
        page.records.len(),
        2 * TASKS + 1,
        "and a day's reader sees them"
    );
}

/// All of a day, page by page.
async fn pages(scene: &Scene, day: &str, limit: usize) -> Vec<Record> {
    let mut all = Vec::new();
    let mut before: Option<String> = None;
    loop {
        let page = scene
            .school()
            .audit_day(day, before.as_deref(), limit)
            .await
            .unwrap();
        assert!(page.records.len() <= limit);
        all.extend(page.records);
        before = page.next;
        if before.is_none() {
            return all;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn pages_of_a_day_show_each_record_once_newest_first() {
    let scene = Scene::new().await;
    let row = long_life(&scene).await;
    for n in 0..20 {
        // Several in one instant.
        let at = T0.plus(n / 4);
        let draft = RecordDraft { at, ..draft(&row) };
        let key = n.to_string();
        let school = scene.school();
        school.record_refusal(draft, &key, at).await.unwrap();
    }
    let day = T0.day();
    let all = pages(&scene, &day, 1_000).await;
    assert_eq!(all.len(), 27);
    let times: Vec<_> = all.iter().map(|record| record.at).collect();
    assert!(times.is_sorted_by(|a, b| a >= b));
    let hashes: BTreeSet<_> = all.iter().map(|record| record.hash.to_string()).collect();
    assert!(hashes.len() >= 7);
    for limit in [1, 4, 9, 27] {
        assert_eq!(pages(&scene, &day, limit).await, all, "pages of {limit}");
    }
    assert!(pages(&scene, "2026-11-29", 10).await.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_page_that_the_service_cuts_at_its_size_is_not_the_last() {
    let scene = Scene::new().await;
    let row = scene.asked().await;
    for n in 0..12 {
        let detail = json!({ "n": n, "long": "x".repeat(150_000) });
        let draft = RecordDraft {
            detail,
            ..draft(&row)
        };
        let key = n.to_string();
        let school = scene.school();
        school.record_refusal(draft, &key, T0).await.unwrap();
    }
    assert_eq!(pages(&scene, &T0.day(), 100).await.len(), 13);
}

#[tokio::test(flavor = "multi_thread")]
async fn another_schools_day_is_empty() {
    let scene = Scene::new().await;
    let row = scene.asked().await;
    let other = toshi_core::TenantId::from_stored("hilltop").unwrap();
    let school = scene.stage.store.school(&other);
    assert!(
        school
            .audit_day(&T0.day(), None, 10)
            .await
            .unwrap()
            .records
            .is_empty()
    );
    assert!(
        school
            .audit_of(Subject::Approval(row.approval_id))
            .await
            .unwrap()
            .is_empty()
    );
}

#[tokio::test]
async fn a_refusal_that_comes_again_and_again_is_on_record_once() {
    let scene = Scene::new().await;
    let row = scene.asked().await;
    let record = async |at: Millis, key: &str| {
        let draft = RecordDraft { at, ..draft(&row) };
        let school = scene.school();
        school.record_refusal(draft, key, T0).await.unwrap();
    };
    for later in 0..5 {
        record(T0.plus(later * 1_000), "approval#ann#true").await;
    }
    record(T0, "approval#ann#false").await;
    let all = pages(&scene, &T0.day(), 1_000).await;
    let refused = all
        .iter()
        .filter(|record| record.event == RecordEvent::Refused);
    assert_eq!(refused.count(), 2);
}
