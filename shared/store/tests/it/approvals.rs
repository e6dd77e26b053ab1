//! A question is answered once, by whoever may, in time.

use std::collections::BTreeSet;
use std::sync::Arc;

use aws_sdk_dynamodb::types::AttributeValue;
use toshi_core::{
    Answer, Cause, Deadline, Event, RecordEvent, Refusal, Role, Seal, State, Subject, TenantId,
    verify_chain,
};
use toshi_store::TransitionError;

use crate::scene::{
    DECIDE_BY, Scene, T0, TASKS, ann, arguments, asking, by, conversation, decide, question, race,
    requester,
};

#[tokio::test(flavor = "multi_thread")]
async fn of_64_answers_at_once_one_decides_and_the_rest_are_told() {
    for _ in 0..4 {
        let scene = Scene::new().await;
        let row = scene.asked().await;
        let answer = |n: usize| {
            if n.is_multiple_of(2) {
                Answer::Approve
            } else {
                Answer::Reject
            }
        };
        let results = race(2 * TASKS, |n| {
            let (scene, row) = (Arc::clone(&scene), row.clone());
            async move {
                let event = decide(answer(n));
                let result = scene
                    .school()
                    .transition(&row, event, &requester(), T0)
                    .await;
                (answer(n), result)
            }
        })
        .await;
        let stored = scene.stored(&row).await;
        let decided = stored.decision.as_ref().unwrap().answer;
        let expected = match decided {
            Answer::Approve => State::Approved,
            Answer::Reject => State::Rejected,
        };
        assert_eq!(stored.state, expected);
        let mut winners = 0;
        for (answer, result) in results {
            match result {
                Ok(row) => {
                    winners += 1;
                    assert_eq!(row, stored);
                }
                Err(TransitionError::Refused { refusal, row }) => {
                    let same = answer == decided;
                    let told = if same {
                        Refusal::SameAnswer
                    } else {
                        Refusal::AlreadyDecided
                    };
                    assert_eq!((refusal, *row), (told, stored.clone()));
                }
                Err(other) => panic!("{other:?}"),
            }
        }
        assert_eq!(winners, 1);
        let subject = Subject::Approval(row.approval_id);
        let records = scene.school().audit_of(subject).await.unwrap();
        let events: Vec<_> = records.iter().map(|record| record.event).collect();
        assert_eq!(events, [RecordEvent::Requested, RecordEvent::Decided]);
        let seal = Seal {
            seq: stored.seq,
            head: stored.head.clone(),
        };
        verify_chain(&subject.to_string(), &records, Some(&seal)).unwrap();
        assert_eq!(scene.keys("OPEN#").await, Vec::<String>::new());
        assert_eq!(scene.wake().await, 1, "woken once");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn eight_questions_of_one_conversation_answered_at_once_each_wake_it_once() {
    let scene = Scene::new().await;
    let begin = scene.begun("m-1", T0).await;
    let asks = (0..8).map(|n| question(&begin.turn, &arguments(&format!("text {n}"))));
    let commit = asking(&begin.turn, asks.collect());
    let rows = scene
        .school()
        .commit(&begin.meta, &begin.lease, &commit, T0)
        .await
        .unwrap()
        .asks;
    race(8 * 4, |n| {
        let (scene, row) = (Arc::clone(&scene), rows[n % 8].clone());
        async move {
            let event = decide(Answer::Approve);
            scene
                .school()
                .transition(&row, event, &requester(), T0)
                .await
                .is_ok()
        }
    })
    .await;
    assert_eq!(scene.wake().await, 8);
    let ids: Vec<_> = rows.iter().map(|row| row.approval_id).collect();
    let rows = scene
        .school()
        .approvals_in(&conversation(), &ids)
        .await
        .unwrap();
    assert!(rows.iter().all(|row| row.state == State::Approved));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_at_the_limit_is_too_late_and_finds_the_expiry() {
    let scene = Scene::new().await;
    let row = scene.asked().await;
    let school = scene.school();
    let before = scene.everything().await;
    let late = school
        .transition(&row, decide(Answer::Approve), &requester(), DECIDE_BY)
        .await;
    let refused = matches!(
        &late,
        Err(TransitionError::Refused {
            refusal: Refusal::Expired,
            ..
        })
    );
    assert!(refused, "{late:?}");
    let early = school
        .transition(&row, Event::Expire, &Cause::system(), DECIDE_BY.plus(-1))
        .await;
    let refused = matches!(
        &early,
        Err(TransitionError::Refused {
            refusal: Refusal::NotDue,
            ..
        })
    );
    assert!(refused, "{early:?}");
    assert_eq!(scene.everything().await, before);

    let expired = school
        .transition(&row, Event::Expire, &Cause::system(), DECIDE_BY)
        .await
        .unwrap();
    assert_eq!(expired.state, State::Expired);
    assert_eq!(scene.keys("OPEN#").await, Vec::<String>::new());
    assert_eq!(scene.wake().await, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_and_the_expiry_at_the_same_moment_have_one_outcome() {
    for _ in 0..4 {
        let scene = Scene::new().await;
        let row = scene.asked().await;
        let won = race(TASKS, |n| {
            let (scene, row) = (Arc::clone(&scene), row.clone());
            async move {
                let school = scene.school();
                let result = if n % 2 == 0 {
                    let event = decide(Answer::Approve);
                    school
                        .transition(&row, event, &requester(), DECIDE_BY.plus(-1))
                        .await
                } else {
                    school
                        .transition(&row, Event::Expire, &Cause::system(), DECIDE_BY)
                        .await
                };
                result.is_ok()
            }
        })
        .await;
        assert_eq!(won.into_iter().filter(|won| *won).count(), 1);
        let row = scene.stored(&row).await;
        assert!(matches!(row.state, State::Approved | State::Expired));
        assert_eq!((row.seq, scene.wake().await), (2, 1));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_question_whose_stored_limit_is_unreadable_counts_as_expired_and_leaves_the_list() {
    let broken = [
        None,
        Some(AttributeValue::Null(true)),
        Some(AttributeValue::S("tomorrow".to_owned())),
        Some(AttributeValue::N("-5".to_owned())),
        Some(AttributeValue::N("1.5".to_owned())),
        Some(AttributeValue::Bool(true)),
    ];
    for value in broken {
        let scene = Scene::new().await;
        let row = scene.asked().await;
        let key = (
            format!("T#lakeside#C#{}", row.conversation),
            format!("AP#{}", row.approval_id),
        );
        let table = &scene.stage.table;
        scene
            .tamper(table, (&key.0, &key.1), "decide_by", value.clone())
            .await;
        let school = scene.school();
        let read = scene.stored(&row).await;
        assert_eq!(read.decide_by, Deadline::malformed(), "{value:?}");
        let late = school
            .transition(&read, decide(Answer::Approve), &requester(), T0)
            .await;
        let refused = matches!(
            &late,
            Err(TransitionError::Refused {
                refusal: Refusal::Expired,
                ..
            })
        );
        assert!(refused, "{value:?}: {late:?}");
        let expired = school
            .transition(&read, Event::Expire, &Cause::system(), T0)
            .await
            .unwrap();
        assert_eq!(expired.state, State::Expired);
        assert_eq!(
            school.open_approvals(&ann(), 10).await.unwrap(),
            [],
            "{value:?}"
        );
        assert_eq!(
            scene.due(DECIDE_BY).await.len(),
            1,
            "only the conversation it woke"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn nobody_but_the_requester_answers() {
    let scene = Scene::new().await;
    let row = scene.asked().await;
    let before = scene.everything().await;
    for cause in [
        by("bob", Role::Admin),
        by("root", Role::Operator),
        Cause::system(),
    ] {
        let event = decide(Answer::Approve);
        let result = scene.school().transition(&row, event, &cause, T0).await;
        let refused = matches!(
            &result,
            Err(TransitionError::Refused {
                refusal: Refusal::NotYours,
                ..
            })
        );
        assert!(refused, "{result:?}");
    }
    assert_eq!(scene.everything().await, before);
}

#[tokio::test(flavor = "multi_thread")]
async fn another_school_finds_and_changes_nothing() {
    let scene = Scene::new().await;
    let row = scene.asked().await;
    let other = TenantId::from_stored("hilltop").unwrap();
    let school = scene.stage.store.school(&other);
    assert_eq!(school.approval(row.approval_id).await.unwrap(), None);
    assert_eq!(school.open_approvals(&ann(), 10).await.unwrap(), []);
    assert!(
        school
            .recent_approvals(None, 10)
            .await
            .unwrap()
            .items
            .is_empty()
    );
    let before = scene.everything().await;
    let result = school
        .transition(&row, decide(Answer::Approve), &requester(), T0)
        .await;
    assert!(
        matches!(result, Err(TransitionError::NotFound)),
        "{result:?}"
    );
    assert_eq!(scene.everything().await, before);
}

#[tokio::test(flavor = "multi_thread")]
async fn open_questions_are_listed_soonest_limit_first_and_each_person_sees_their_own() {
    let scene = Scene::new().await;
    let begin = scene.begun("m-1", T0).await;
    let asks = (0..5_i64).map(|n| {
        let mut row = question(&begin.turn, &arguments(&format!("text {n}")));
        row.decide_by = Deadline::at(T0.plus(1_000 * (5 - n)));
        if n == 4 {
            // A name that continues the other's must not show in the other's list.
            row.requester = "ann-2".parse().unwrap();
        }
        row
    });
    let commit = asking(&begin.turn, asks.collect());
    let school = scene.school();
    let rows = school
        .commit(&begin.meta, &begin.lease, &commit, T0)
        .await
        .unwrap()
        .asks;
    let open = school.open_approvals(&ann(), 10).await.unwrap();
    let expected: Vec<_> = rows[..4].iter().rev().cloned().collect();
    assert_eq!(open, expected);
    assert_eq!(
        school.open_approvals(&ann(), 2).await.unwrap(),
        expected[..2]
    );
    let other = school
        .open_approvals(&"ann-2".parse().unwrap(), 10)
        .await
        .unwrap();
    assert_eq!(other, rows[4..]);
}

#[tokio::test(flavor = "multi_thread")]
async fn pages_of_approvals_show_each_once_newest_first() {
    let scene = Scene::new().await;
    let begin = scene.begun("m-1", T0).await;
    let mut all = Vec::new();
    let mut turn = begin.turn.clone();
    for step in 0..3_i64 {
        let asks = (0..8).map(|n| {
            let mut row = question(&turn, &arguments(&format!("text {step} {n}")));
            row.approval_id = toshi_store::mint(T0.plus(step));
            row
        });
        let mut commit = asking(&turn, asks.collect());
        commit.release = false;
        let school = scene.school();
        let committed = school
            .commit(&begin.meta, &begin.lease, &commit, T0)
            .await
            .unwrap();
        all.extend(committed.asks);
        turn = committed.turn.unwrap();
    }
    all.sort_by_key(|row| std::cmp::Reverse(row.approval_id));
    for limit in [1, 7, 8, 24, 100] {
        let mut seen = Vec::new();
        let mut before = None;
        loop {
            let page = scene
                .school()
                .recent_approvals(before, limit)
                .await
                .unwrap();
            assert!(page.items.len() <= limit);
            seen.extend(page.items);
            before = page.next;
            if before.is_none() {
                break;
            }
        }
        assert_eq!(seen, all, "pages of {limit}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn approvals_are_read_in_the_order_asked_for_and_one_asked_for_twice_is_no_error() {
    let scene = Scene::new().await;
    let begin = scene.begun("m-1", T0).await;
    let asks = (0..3).map(|n| question(&begin.turn, &arguments(&format!("text {n}"))));
    let commit = asking(&begin.turn, asks.collect());
    let school = scene.school();
    let rows = school
        .commit(&begin.meta, &begin.lease, &commit, T0)
        .await
        .unwrap()
        .asks;
    let missing = toshi_store::mint(T0);
    let ids = [
        rows[2].approval_id,
        missing,
        rows[0].approval_id,
        rows[2].approval_id,
    ];
    let read = school.approvals_in(&conversation(), &ids).await.unwrap();
    assert_eq!(read, [rows[2].clone(), rows[0].clone(), rows[2].clone()]);
    assert_eq!(school.approvals_in(&conversation(), &[]).await.unwrap(), []);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unknown_outcome_is_resolved_once_by_32_people() {
    let scene = Scene::new().await;
    let row = scene.unknown().await;
    let wake = scene.wake().await;
    let results = race(TASKS, |n| {
        let (scene, row) = (Arc::clone(&scene), row.clone());
        async move {
            let event = Event::Resolve {
                done: n % 2 == 0,
                reason: format!("I looked {n}"),
            };
            let cause = by(&format!("admin-{n}"), Role::Admin);
            scene.school().transition(&row, event, &cause, T0).await
        }
    })
    .await;
    let won: Vec<_> = results.iter().filter(|result| result.is_ok()).collect();
    assert_eq!(won.len(), 1);
    let refusals: BTreeSet<_> = results
        .iter()
        .filter_map(|result| match result {
            Err(TransitionError::Refused { refusal, .. }) => Some(refusal.to_string()),
            Err(other) => panic!("{other:?}"),
            Ok(_) => None,
        })
        .collect();
    let told = [
        Refusal::SameAnswer.to_string(),
        Refusal::AlreadyDecided.to_string(),
    ];
    assert_eq!(refusals, told.into());
    assert_eq!(
        scene.wake().await,
        wake,
        "the model is told at its next prompt, nobody is woken"
    );
    let records = scene
        .school()
        .audit_of(Subject::Approval(row.approval_id))
        .await
        .unwrap();
    let resolved = records
        .iter()
        .filter(|record| record.event == RecordEvent::Resolved);
    assert_eq!(resolved.count(), 1);
}
