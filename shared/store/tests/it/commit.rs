//! A step is durable as a whole or not at all.

use std::sync::Arc;

use serde_json::json;
use toshi_core::{
    Actor, Answer, ApprovalId, BlockReason, CallOutcome, ConnectionStatus, Finish, How, Outcome,
    RecordDraft, RecordEvent, Seal, State, StepCall, StepRow, Subject, TurnRow, TurnState,
    verify_chain,
};
use toshi_store::{Commit, ReadRecord, StepRefusal, StoreError, Target, mint};

use crate::scene::{
    Scene, T0, TASKS, ann, arguments, asking, connection_row, conversation, decide, message,
    question, race, requester,
};

fn read(turn: &TurnRow) -> ReadRecord {
    ReadRecord(RecordDraft {
        event: RecordEvent::Read,
        at: T0,
        actor: Actor::System,
        how: How::System,
        request: None,
        conversation: Some(conversation()),
        turn: Some(turn.turn),
        approval: None,
        connection: Some("con-1".parse().unwrap()),
        tool: Some("list_channels".to_owned()),
        arguments_hmac: None,
        detail: json!({ "bytes": 12 }),
    })
}

/// A step of `writes` different questions and `reads` reads on one connection.
fn step(turn: &TurnRow, writes: usize, reads: usize, target: &Target) -> Commit {
    let asks = (0..writes).map(|n| question(turn, &arguments(&format!("text {n}"))));
    let mut commit = asking(turn, asks.collect());
    commit.reads = (0..reads).map(|_| read(turn)).collect();
    commit.targets = vec![target.clone()];
    commit
}

#[tokio::test(flavor = "multi_thread")]
async fn eight_writes_and_eight_reads_become_durable_together_and_release_the_lease() {
    let scene = Scene::new().await;
    let target = scene.connected().await;
    let begin = scene.begun("m-1", T0).await;
    let before = scene.everything().await.len();
    let commit = step(&begin.turn, 8, 8, &target);
    let school = scene.school();
    let committed = school
        .commit(&begin.meta, &begin.lease, &commit, T0)
        .await
        .unwrap();
    assert!(committed.released);
    // STEP; per write AP, OPEN, APID and a record; per read a record.
    assert_eq!(scene.everything().await.len(), before + 1 + 8 * 4 + 8);

    let meta = school.meta(&conversation()).await.unwrap().unwrap();
    assert_eq!(
        (meta.lease_until, meta.open.as_slice()),
        (None, [begin.turn.turn].as_slice())
    );
    let open = school.open_turns(&meta).await.unwrap();
    assert_eq!(open.len(), 1);
    assert_eq!(open[0].step, commit.step);
    assert_eq!(open[0].approvals, committed.asks);
    let turn = committed.turn.unwrap();
    assert_eq!(open[0].turn, turn);

    let subject = Subject::Turn(turn.turn);
    let records = school.audit_of(subject).await.unwrap();
    let seal = Seal {
        seq: turn.seq,
        head: turn.head.unwrap(),
    };
    assert_eq!((records.len(), seal.seq), (8, 8));
    verify_chain(&subject.to_string(), &records, Some(&seal)).unwrap();
    for row in &committed.asks {
        let subject = Subject::Approval(row.approval_id);
        let records = school.audit_of(subject).await.unwrap();
        let seal = Seal {
            seq: row.seq,
            head: row.head.clone(),
        };
        verify_chain(&subject.to_string(), &records, Some(&seal)).unwrap();
        assert_eq!(
            (records.len(), records[0].event),
            (1, RecordEvent::Requested)
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_step_is_kept_and_the_lease_too_when_something_new_came_meanwhile() {
    let scene = Scene::new().await;
    let target = scene.connected().await;
    let begin = scene.begun("m-1", T0).await;
    let school = scene.school();
    school
        .begin(&message("m-2", "more"), Some(begin.meta.clone()), T0)
        .await
        .unwrap();
    let commit = step(&begin.turn, 1, 1, &target);
    let committed = school
        .commit(&begin.meta, &begin.lease, &commit, T0)
        .await
        .unwrap();
    assert!(!committed.released);
    assert_eq!(scene.stored(&committed.asks[0]).await, committed.asks[0]);
    let meta = school.meta(&conversation()).await.unwrap().unwrap();
    assert!(meta.is_held(T0));
    assert_eq!(
        school
            .audit_of(Subject::Turn(begin.turn.turn))
            .await
            .unwrap()
            .len(),
        1
    );
}

/// A commit that must be refused, and leave no trace.
async fn refused(scene: &Scene, begin: &toshi_store::Begin, commit: &Commit) -> StepRefusal {
    let before = scene.everything().await;
    let result = scene
        .school()
        .commit(&begin.meta, &begin.lease, commit, T0)
        .await;
    assert_eq!(scene.everything().await, before, "nothing is half written");
    result.expect_err("the commit is refused")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_like_one_of_unknown_outcome_is_not_asked() {
    let scene = Scene::new().await;
    let lost = scene.unknown().await;
    let target = scene.target("con-1").await;
    let begin = scene.begun("m-2", T0).await;
    let other = question(&begin.turn, &arguments("other"));
    let same = question(&begin.turn, &lost.arguments.value());
    let mut commit = asking(&begin.turn, vec![other.clone(), same.clone()]);
    commit.targets = vec![target];
    commit.reads = vec![read(&begin.turn)];
    let refusal = refused(&scene, &begin, &commit).await;
    assert!(matches!(refusal, StepRefusal::Unknown), "{refusal:?}");
    let blocked = scene
        .school()
        .unknown_calls(&[other, same.clone(), same.clone()])
        .await
        .unwrap();
    assert_eq!(blocked, [same.approval_id, same.approval_id]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_blocked_step_is_told_apart_from_a_lost_lease_when_something_new_came_too() {
    let scene = Scene::new().await;
    let lost = scene.unknown().await;
    let target = scene.target("con-1").await;
    let begin = scene.begun("m-2", T0).await;
    scene
        .school()
        .begin(&message("m-3", "more"), Some(begin.meta.clone()), T0)
        .await
        .unwrap();

    let same = question(&begin.turn, &lost.arguments.value());
    let refusal = refused(&scene, &begin, &asking(&begin.turn, vec![same])).await;
    assert!(matches!(refusal, StepRefusal::Unknown), "{refusal:?}");

    scene.school().set_kill("tenant", true).await.unwrap();
    let mut commit = asking(
        &begin.turn,
        vec![question(&begin.turn, &arguments("other"))],
    );
    commit.targets = vec![target];
    let refusal = refused(&scene, &begin, &commit).await;
    assert!(matches!(refusal, StepRefusal::Connection), "{refusal:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn no_question_is_asked_for_a_connection_that_changed_since_it_was_judged() {
    let changes: [fn(&mut toshi_core::ConnectionRow); 3] = [
        |row| row.tool_denylist = vec!["post_message".to_owned()],
        |row| row.account = "demo:another".to_owned(),
        |row| {
            row.status = ConnectionStatus::Disabled;
            row.usable = false;
        },
    ];
    for change in changes {
        let scene = Scene::new().await;
        let target = scene.connected().await;
        let begin = scene.begun("m-1", T0).await;
        let mut row = target.connection.clone();
        change(&mut row);
        row.epoch += 1;
        scene.school().update_connection(&row).await.unwrap();
        let refusal = refused(&scene, &begin, &step(&begin.turn, 2, 2, &target)).await;
        assert!(matches!(refusal, StepRefusal::Connection), "{refusal:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn each_kill_switch_stops_the_asking_until_it_is_taken_back() {
    let scene = Scene::new().await;
    let target = scene.connected().await;
    let begin = scene.begun("m-1", T0).await;
    let commit = step(&begin.turn, 2, 1, &target);
    let school = scene.school();
    for scope in ["tenant", "type:demo", "conn:con-1"] {
        school.set_kill(scope, true).await.unwrap();
        let refusal = refused(&scene, &begin, &commit).await;
        assert!(
            matches!(refusal, StepRefusal::Connection),
            "{scope}: {refusal:?}"
        );
        assert!(scene.target("con-1").await.killed, "{scope}");
        assert!(
            school
                .toolbox()
                .await
                .unwrap()
                .is_killed(&target.connection),
            "{scope}"
        );
        school.set_kill(scope, false).await.unwrap();
    }
    for scope in ["type:other", "conn:con-2"] {
        school.set_kill(scope, true).await.unwrap();
    }
    assert!(!scene.target("con-1").await.killed);
    school
        .commit(&begin.meta, &begin.lease, &commit, T0)
        .await
        .unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_step_may_ask_for_the_same_call_twice_and_for_two_connections() {
    let scene = Scene::new().await;
    let one = scene.connected().await;
    let two = scene.connect(&connection_row("con-2")).await;
    let begin = scene.begun("m-1", T0).await;
    let mut elsewhere = question(&begin.turn, &arguments("hi"));
    elsewhere.connection.id = "con-2".parse().unwrap();
    let twice = || question(&begin.turn, &arguments("hi"));
    let mut commit = asking(&begin.turn, vec![twice(), twice(), elsewhere]);
    commit.targets = vec![one.clone(), two, one];
    let school = scene.school();
    let committed = school
        .commit(&begin.meta, &begin.lease, &commit, T0)
        .await
        .unwrap();
    assert_eq!(scene.keys("AP#").await.len(), 3);
    assert_eq!(committed.asks.len(), 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_step_judged_on_two_versions_of_one_connection_is_refused() {
    let scene = Scene::new().await;
    let old = scene.connected().await;
    let mut row = old.connection.clone();
    row.epoch += 1;
    scene.school().update_connection(&row).await.unwrap();
    let begin = scene.begun("m-1", T0).await;
    let mut commit = step(&begin.turn, 1, 0, &old);
    commit.targets.push(scene.target("con-1").await);
    let refusal = refused(&scene, &begin, &commit).await;
    assert!(matches!(refusal, StepRefusal::Connection), "{refusal:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_step_committed_32_times_at_once_is_stored_once() {
    let scene = Scene::new().await;
    let target = scene.connected().await;
    let begin = scene.begun("m-1", T0).await;
    let before = scene.everything().await.len();
    let results = race(TASKS, |_| {
        let (scene, begin) = (Arc::clone(&scene), begin.clone());
        let mut commit = step(&begin.turn, 2, 2, &target);
        commit.release = false;
        async move {
            scene
                .school()
                .commit(&begin.meta, &begin.lease, &commit, T0)
                .await
        }
    })
    .await;
    let (won, lost): (Vec<_>, Vec<_>) = results.into_iter().partition(Result::is_ok);
    assert_eq!(won.len(), 1);
    for result in lost {
        let lost = matches!(result, Err(StepRefusal::Store(StoreError::Conflict)));
        assert!(lost, "{result:?}");
    }
    assert_eq!(scene.everything().await.len(), before + 1 + 2 * 4 + 2);
    let turn = scene
        .school()
        .turn(&conversation(), begin.turn.turn)
        .await
        .unwrap()
        .unwrap();
    assert_eq!(turn.seq, 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_step_of_more_than_100_items_is_refused_before_it_is_sent() {
    let scene = Scene::new().await;
    let begin = scene.begun("m-1", T0).await;
    let asks = (0..25).map(|n| question(&begin.turn, &arguments(&format!("text {n}"))));
    let commit = asking(&begin.turn, asks.collect());
    let refusal = refused(&scene, &begin, &commit).await;
    let expected = matches!(refusal, StepRefusal::Store(StoreError::TooManyItems(n)) if n > 100);
    assert!(expected, "{refusal:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_row_over_400_kb_and_a_step_over_4_mb_are_refused_before_they_are_sent() {
    let scene = Scene::new().await;
    let begin = scene.begun("m-1", T0).await;
    let mut commit = asking(&begin.turn, vec![question(&begin.turn, &arguments("hi"))]);
    commit.step.as_mut().unwrap().text = "ä".repeat(205_000);
    let refusal = refused(&scene, &begin, &commit).await;
    let expected = |refusal: &StepRefusal, over: usize| matches!(refusal, StepRefusal::Store(StoreError::TooLarge(bytes)) if *bytes > over);
    assert!(expected(&refusal, 400 * 1024), "{refusal:?}");

    // Each row fits, all of them do not.
    let asks = (0..12).map(|n| {
        question(
            &begin.turn,
            &arguments(&format!("{n}{}", "a".repeat(380_000))),
        )
    });
    let mut commit = asking(&begin.turn, asks.collect());
    commit.step = None;
    let refusal = refused(&scene, &begin, &commit).await;
    assert!(expected(&refusal, 4 * 1024 * 1024), "{refusal:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_that_no_row_can_hold_as_structure_is_kept_as_text() {
    let scene = Scene::new().await;
    let begin = scene.begun("m-1", T0).await;
    let deep = (0..40).fold(json!("x"), |inner, _| json!({ "in": inner }));
    let read = |structured| StepCall {
        call: mint(T0),
        name: "demo__list_channels".to_owned(),
        connection: None,
        tool: "list_channels".to_owned(),
        title: "List channels".to_owned(),
        arguments: toshi_core::Canonical::empty_object(),
        outcome: CallOutcome::Read {
            outcome: Outcome::Succeeded {
                text: "as text".to_owned(),
                structured: Some(structured),
                bytes: 7,
            },
            chunks: 0,
        },
    };
    let fine = json!({ "list": [1, -2.5, true, null, "x"], "max": 9_007_199_254_740_991_i64 });
    let values = [
        deep,
        json!({ "n": 1e300 }),
        json!({ "n": [1e-200] }),
        fine.clone(),
    ];
    let mut turn = begin.turn.clone();
    turn.steps = 1;
    turn.state = TurnState::Running;
    let step = StepRow {
        turn: turn.turn,
        n: 1,
        answer: turn.answer,
        text: String::new(),
        calls: values.map(read).to_vec(),
        finish: Finish::ToolCalls,
        at: T0,
    };
    let commit = Commit {
        turn: Some(turn.clone()),
        step: Some(step),
        ..Commit::default()
    };
    let school = scene.school();
    school
        .commit(&begin.meta, &begin.lease, &commit, T0)
        .await
        .unwrap();
    let stored = school.steps_of(&conversation(), turn.turn).await.unwrap();
    let structured = stored[0].calls.iter().map(|call| match &call.outcome {
        CallOutcome::Read {
            outcome: Outcome::Succeeded {
                text, structured, ..
            },
            ..
        } => {
            assert_eq!(text, "as text");
            structured.clone()
        }
        other => panic!("{other:?}"),
    });
    assert_eq!(
        structured.collect::<Vec<_>>(),
        [None, None, None, Some(fine)]
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_number_is_written_once() {
    let scene = Scene::new().await;
    let begin = scene.begun("m-1", T0).await;
    let again = begin.messages[0].clone();
    let commit = Commit {
        messages: vec![again],
        ..Commit::default()
    };
    let refusal = refused(&scene, &begin, &commit).await;
    assert!(
        matches!(refusal, StepRefusal::Store(StoreError::Conflict)),
        "{refusal:?}"
    );
}

/// The approved question, and what asks it again under another definition.
async fn changed(scene: &Scene) -> (toshi_store::Begin, toshi_core::Approval, StepRow) {
    scene.connected().await;
    let begin = scene.begun("m-1", T0).await;
    let mut commit = asking(&begin.turn, vec![question(&begin.turn, &arguments("hi"))]);
    commit.release = false;
    let committed = scene
        .school()
        .commit(&begin.meta, &begin.lease, &commit, T0)
        .await
        .unwrap();
    let row = scene.approve(&committed.asks[0]).await;
    (begin, row, commit.step.unwrap())
}

fn successor(old: &toshi_core::Approval, step: &StepRow) -> (toshi_core::Approval, StepRow) {
    let new = toshi_core::Approval {
        approval_id: mint(T0),
        state: State::Pending,
        decision: None,
        run_by: None,
        supersedes: Some(old.approval_id),
        ..old.clone()
    };
    let mut step = step.clone();
    step.calls[0].outcome = CallOutcome::Approval {
        id: new.approval_id,
    };
    (new, step)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_question_asked_again_by_32_runs_has_one_successor_in_its_place() {
    let scene = Scene::new().await;
    let (begin, old, step) = changed(&scene).await;
    let results = race(TASKS, |_| {
        let (scene, begin, old) = (Arc::clone(&scene), begin.clone(), old.clone());
        let (new, step) = successor(&old, &step);
        async move {
            scene
                .school()
                .ask_again(&begin.meta, &begin.lease, &old, new, step, T0)
                .await
        }
    })
    .await;
    let asked: Vec<_> = results.into_iter().flatten().collect();
    assert_eq!(asked.len(), 1);
    let school = scene.school();
    let ended = scene.stored(&old).await;
    assert_eq!(
        (ended.state, ended.superseded_by),
        (State::Superseded, Some(asked[0].approval_id))
    );
    assert_eq!(scene.stored(&asked[0]).await, asked[0]);
    assert_eq!(school.open_approvals(&ann(), 10).await.unwrap(), asked);
    let stored = school
        .steps_of(&conversation(), begin.turn.turn)
        .await
        .unwrap();
    let ids: Vec<ApprovalId> = stored[0].approvals().collect();
    assert_eq!(ids, [asked[0].approval_id]);
    assert_eq!(scene.keys("AP#").await.len(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_question_is_asked_again_only_under_the_lease_and_only_while_it_is_open() {
    let scene = Scene::new().await;
    let (begin, old, step) = changed(&scene).await;
    let (new, again) = successor(&old, &step);
    let school = scene.school();

    let mut lost = begin.lease.clone();
    lost.fence += 1;
    let result = school
        .ask_again(&begin.meta, &lost, &old, new.clone(), again.clone(), T0)
        .await;
    assert!(matches!(result, Err(StepRefusal::Fenced)), "{result:?}");

    let why = BlockReason::Killed;
    scene
        .apply(
            &old,
            toshi_core::Event::Block(why),
            &toshi_core::Cause::system(),
        )
        .await;
    let before = scene.everything().await;
    let result = school
        .ask_again(&begin.meta, &begin.lease, &old, new, again, T0)
        .await;
    assert!(
        matches!(result, Err(StepRefusal::Store(StoreError::Conflict))),
        "{result:?}"
    );
    assert_eq!(scene.everything().await, before);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_denied_question_stays_out_of_the_list_of_open_ones() {
    let scene = Scene::new().await;
    let row = scene.asked().await;
    let school = scene.school();
    assert_eq!(
        school.open_approvals(&ann(), 10).await.unwrap(),
        std::slice::from_ref(&row)
    );
    scene
        .apply(&row, decide(Answer::Reject), &requester())
        .await;
    assert_eq!(school.open_approvals(&ann(), 10).await.unwrap(), []);
}
