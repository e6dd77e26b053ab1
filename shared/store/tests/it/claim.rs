//! A permit exists for exactly one approved call, once, on the account that was approved.

use std::sync::Arc;

use toshi_core::{
    Access, Answer, BlockReason, Canonical, Cause, ConnectionRow, ConnectionStatus, Event, Millis,
    RUN_WITHIN_MS, RecordEvent, Refusal, Role, Sha256Hex, State, Subject, ToolState, WriteMode,
};
use toshi_store::{ClaimRefusal, OpenError, Target, TransitionError};

use crate::scene::{
    Scene, T0, TASKS, ann, arguments, catalogue, connection_row, decide, race, requester, tool_row,
};

async fn refused(scene: &Scene, row: &toshi_core::Approval, target: &Target) -> ClaimRefusal {
    refused_at(scene, row, target, T0).await
}

/// A claim that must be refused and leave no trace.
async fn refused_at(
    scene: &Scene,
    row: &toshi_core::Approval,
    target: &Target,
    now: Millis,
) -> ClaimRefusal {
    let before = scene.everything().await;
    let result = scene
        .school()
        .claim(&catalogue(), Role::Admin, row, target, now)
        .await;
    assert_eq!(
        scene.everything().await,
        before,
        "a refused claim writes nothing"
    );
    result.expect_err("the claim is refused")
}

async fn change(scene: &Scene, target: &Target, change: impl Fn(&mut ConnectionRow)) {
    let mut row = target.connection.clone();
    change(&mut row);
    row.epoch += 1;
    scene.school().update_connection(&row).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn of_32_claimers_one_gets_the_permit() {
    for _ in 0..4 {
        let scene = Scene::new().await;
        let target = scene.connected().await;
        let row = scene.approved().await;
        let results = race(TASKS, |_| {
            let (scene, row, target) = (Arc::clone(&scene), row.clone(), target.clone());
            async move {
                scene
                    .school()
                    .claim(&catalogue(), Role::Admin, &row, &target, T0)
                    .await
            }
        })
        .await;
        let (won, lost): (Vec<_>, Vec<_>) = results.into_iter().partition(Result::is_ok);
        assert_eq!(won.len(), 1);
        for result in lost {
            assert!(matches!(result, Err(ClaimRefusal::Again)), "{result:?}");
        }
        let claim = won.into_iter().next().unwrap().unwrap();
        assert_eq!(scene.stored(&row).await, claim.row);
        let records = scene
            .school()
            .audit_of(Subject::Approval(row.approval_id))
            .await
            .unwrap();
        let claimed = records
            .iter()
            .filter(|record| record.event == RecordEvent::Claimed);
        assert_eq!(claimed.count(), 1);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_permit_names_exactly_what_was_approved() {
    let scene = Scene::new().await;
    let target = scene.connected().await;
    let row = scene.approved().await;
    let claim = scene.claim(&row, &target).await;
    let permit = &claim.permit;
    assert_eq!(permit.tenant(), &scene.tenant);
    assert_eq!(permit.connection(), &row.connection.id);
    assert_eq!(permit.account(), row.connection.account);
    assert_eq!(permit.tool(), "post_message");
    assert_eq!(permit.arguments(), row.arguments.hash());
    assert_eq!(permit.access(), Access::Write);
    let attempt = claim.row.attempt.as_ref().unwrap();
    assert_eq!(permit.attempt(), Some((row.approval_id, attempt.id, 1)));
    assert!(permit.may_still_send());
    assert_eq!(claim.row.state, State::Executing);
    let lease = T0.until(claim.row.lease().time().unwrap());
    assert!(lease >= 2 * toshi_core::TOOL_TIMEOUT_MS);
}

#[tokio::test(flavor = "multi_thread")]
async fn only_an_approved_call_is_claimed() {
    let scene = Scene::new().await;
    let target = scene.connected().await;
    let pending = scene.asked().await;
    let refusal = refused(&scene, &pending, &target).await;
    let expected = Refusal::WrongState(State::Pending);
    assert!(matches!(refusal, ClaimRefusal::Refused { refusal, .. } if refusal == expected));

    // What the claimer read as approved was rejected, or claimed, before its claim.
    let mut stale = pending.clone();
    stale.state = State::Approved;
    let rejected = scene
        .apply(&pending, decide(Answer::Reject), &requester())
        .await;
    stale.decision = rejected.decision.clone().map(|mut decision| {
        decision.answer = Answer::Approve;
        decision
    });
    stale.run_by = Some(toshi_core::Deadline::at(T0.plus(RUN_WITHIN_MS)));
    let refusal = refused(&scene, &stale, &target).await;
    assert!(matches!(refusal, ClaimRefusal::Again), "{refusal:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_approved_call_is_not_claimed_after_its_time() {
    let scene = Scene::new().await;
    let target = scene.connected().await;
    let row = scene.approved().await;
    let run_by = T0.plus(RUN_WITHIN_MS);
    let refusal = refused_at(&scene, &row, &target, run_by).await;
    let expired = matches!(
        &refusal,
        ClaimRefusal::Refused {
            refusal: Refusal::Expired,
            ..
        }
    );
    assert!(expired, "{refusal:?}");
    let school = scene.school();
    let expired = school
        .transition(&row, Event::Expire, &Cause::system(), run_by)
        .await
        .unwrap();
    assert_eq!(expired.state, State::Expired);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_goes_to_the_account_it_was_approved_for_or_nowhere() {
    let scene = Scene::new().await;
    let target = scene.connected().await;
    let row = scene.approved().await;
    change(&scene, &target, |row| {
        row.account = "demo:another".to_owned()
    })
    .await;
    let now = scene.target("con-1").await;
    let refusal = refused(&scene, &row, &now).await;
    assert!(matches!(refusal, ClaimRefusal::OtherAccount), "{refusal:?}");
    let refusal = refused(&scene, &row, &target).await;
    assert!(
        matches!(refusal, ClaimRefusal::Again),
        "as read before the change: {refusal:?}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_is_not_claimed_over_another_connection_to_the_same_account() {
    let scene = Scene::new().await;
    scene.connected().await;
    let row = scene.approved().await;
    let mut other = connection_row("con-2");
    other.account = row.connection.account.clone();
    let other = scene.connect(&other).await;
    let refusal = refused(&scene, &row, &other).await;
    assert!(matches!(refusal, ClaimRefusal::OtherAccount), "{refusal:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_claim_on_a_connection_that_changed_since_it_was_read_must_read_again() {
    let changes: [fn(&mut ConnectionRow); 4] = [
        |row| row.write_mode = WriteMode::Deny,
        |row| row.tool_denylist = vec!["post_message".to_owned()],
        |row| row.roles = vec![Role::Teacher],
        |row| {
            row.status = ConnectionStatus::Disabled;
            row.usable = false;
        },
    ];
    let reasons = [
        BlockReason::WriteMode,
        BlockReason::DenyList,
        BlockReason::Role,
        BlockReason::ConnectionUnusable,
    ];
    for (edit, reason) in changes.into_iter().zip(reasons) {
        let scene = Scene::new().await;
        let target = scene.connected().await;
        let row = scene.approved().await;
        change(&scene, &target, edit).await;
        let refusal = refused(&scene, &row, &target).await;
        assert!(
            matches!(refusal, ClaimRefusal::Again),
            "{reason:?}: {refusal:?}"
        );
        let fresh = scene.target("con-1").await;
        let refusal = refused(&scene, &row, &fresh).await;
        assert!(
            matches!(refusal, ClaimRefusal::Blocked(why) if why == reason),
            "{refusal:?}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn each_kill_switch_stops_a_claim_whether_it_was_read_or_not() {
    let scene = Scene::new().await;
    let target = scene.connected().await;
    let row = scene.approved().await;
    for scope in ["tenant", "type:demo", "conn:con-1"] {
        scene.school().set_kill(scope, true).await.unwrap();
        for target in [target.clone(), scene.target("con-1").await] {
            let refusal = refused(&scene, &row, &target).await;
            let killed = matches!(refusal, ClaimRefusal::Blocked(BlockReason::Killed));
            assert!(killed, "{scope}: {refusal:?}");
        }
        scene.school().set_kill(scope, false).await.unwrap();
    }
    scene.claim(&row, &target).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_like_one_of_unknown_outcome_is_not_claimed() {
    let scene = Scene::new().await;
    let target = scene.connected().await;
    let first = scene.asked_with("m-1", &arguments("hi")).await;
    let second = scene.asked_with("m-2", &arguments("hi")).await;
    let other = scene.asked_with("m-3", &arguments("another text")).await;
    let first = scene.claim(&scene.approve(&first).await, &target).await.row;
    scene.settle(&first, crate::scene::unknown()).await;
    let second = scene.approve(&second).await;
    let refusal = refused(&scene, &second, &target).await;
    let blocked = matches!(refusal, ClaimRefusal::Blocked(BlockReason::OutcomeUnknown));
    assert!(blocked, "{refusal:?}");
    scene.claim(&scene.approve(&other).await, &target).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_lost_the_claim_is_told_to_look_again_even_if_the_outcome_is_unknown_by_now() {
    let scene = Scene::new().await;
    let target = scene.connected().await;
    let row = scene.approved().await;
    let claimed = scene.claim(&row, &target).await.row;
    scene.settle(&claimed, crate::scene::unknown()).await;
    let refusal = refused(&scene, &row, &target).await;
    assert!(matches!(refusal, ClaimRefusal::Again), "{refusal:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tool_that_is_not_as_it_was_approved_is_not_claimed() {
    let scene = Scene::new().await;
    let target = scene.connected().await;
    let row = scene.approved().await;
    let connection = &target.connection.connection;
    let mut changed = tool_row(connection, "post_message");
    changed.hash = Sha256Hex::of(b"another definition");
    let mut withheld = tool_row(connection, "post_message");
    withheld.state = ToolState::Withheld;
    for tool in [changed, withheld] {
        scene.school().put_tool(&tool).await.unwrap();
        let refusal = refused(&scene, &row, &scene.target("con-1").await).await;
        let blocked = matches!(
            refusal,
            ClaimRefusal::Blocked(BlockReason::DefinitionChanged)
        );
        assert!(blocked, "{refusal:?}");
        // Read before the review changed: the transaction finds it.
        let refusal = refused(&scene, &row, &target).await;
        assert!(matches!(refusal, ClaimRefusal::Again), "{refusal:?}");
    }
    let unreviewed = Target {
        tool: None,
        ..target
    };
    let refusal = refused(&scene, &row, &unreviewed).await;
    let blocked = matches!(refusal, ClaimRefusal::Blocked(BlockReason::NotReviewed));
    assert!(blocked, "{refusal:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_role_that_may_not_use_the_connection_claims_nothing() {
    let scene = Scene::new().await;
    let target = scene.connected().await;
    let row = scene.approved().await;
    for role in [Role::Teacher, Role::Deputy, Role::Operator] {
        let result = scene
            .school()
            .claim(&catalogue(), role, &row, &target, T0)
            .await;
        let blocked = matches!(result, Err(ClaimRefusal::Blocked(BlockReason::Role)));
        assert!(blocked, "{result:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_claimed_call_is_sent_a_second_time_by_one_of_32_and_never_a_third_time() {
    let scene = Scene::new().await;
    let row = scene.executing().await;
    let attempt = row.attempt.as_ref().unwrap().id;
    let results = race(TASKS, |_| {
        let (scene, row) = (Arc::clone(&scene), row.clone());
        async move { scene.school().send_again(&row, attempt, T0).await }
    })
    .await;
    let (won, lost): (Vec<_>, Vec<_>) = results.into_iter().partition(Result::is_ok);
    assert_eq!(won.len(), 1);
    for result in lost {
        let refused = matches!(
            &result,
            Err(TransitionError::Refused {
                refusal: Refusal::OtherAttempt,
                ..
            })
        );
        assert!(refused, "{result:?}");
    }
    let claim = won.into_iter().next().unwrap().unwrap();
    assert_eq!(claim.permit.attempt(), Some((row.approval_id, attempt, 2)));
    assert_eq!(claim.permit.arguments(), row.arguments.hash());
    let again = scene.school().send_again(&claim.row, attempt, T0).await;
    assert!(again.is_err());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_send_gets_only_what_is_left_of_the_lease() {
    let scene = Scene::new().await;
    let row = scene.executing().await;
    let attempt = row.attempt.as_ref().unwrap().id;
    let end = row.lease().time().unwrap();
    let claim = scene
        .school()
        .send_again(&row, attempt, end.plus(-1_000))
        .await
        .unwrap();
    assert!(
        !claim.permit.may_still_send(),
        "a second is too little for a call"
    );
    let scene = Scene::new().await;
    let row = scene.executing().await;
    let attempt = row.attempt.as_ref().unwrap().id;
    let late = scene
        .school()
        .send_again(&row, attempt, row.lease().time().unwrap())
        .await;
    assert!(late.is_err());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_read_gets_a_permit_and_a_write_does_not() {
    let scene = Scene::new().await;
    let target = scene.connected().await;
    let connection = &target.connection.connection;
    let school = scene.school();
    school
        .put_tool(&tool_row(connection, "list_channels"))
        .await
        .unwrap();
    let arguments = Canonical::of(&arguments("hi")).unwrap();
    let user = ann();
    let open = async |tool, role| {
        let call = ("demo", connection, tool);
        school
            .open_read(&catalogue(), (&user, role), call, &arguments)
            .await
    };
    let opened = open("list_channels", Role::Admin).await.unwrap();
    assert_eq!(opened.permit.access(), Access::Read);
    assert_eq!(
        (opened.permit.tool(), opened.permit.attempt()),
        ("list_channels", None)
    );
    assert_eq!(opened.permit.arguments(), arguments.hash());
    assert_eq!(opened.permit.account(), target.connection.account);

    let write = open("post_message", Role::Admin).await;
    assert!(matches!(write, Err(OpenError::NeedsApproval)), "{write:?}");
    let unreviewed = open("list_messages", Role::Admin).await;
    let denied = matches!(unreviewed, Err(OpenError::Denied(BlockReason::NotReviewed)));
    assert!(denied, "{unreviewed:?}");
    let role = open("list_channels", Role::Teacher).await;
    assert!(
        matches!(role, Err(OpenError::Denied(BlockReason::Role))),
        "{role:?}"
    );
    school.set_kill("type:demo", true).await.unwrap();
    let killed = open("list_channels", Role::Admin).await;
    assert!(
        matches!(killed, Err(OpenError::Denied(BlockReason::Killed))),
        "{killed:?}"
    );
    let nowhere = "con-9".parse().unwrap();
    let call = ("demo", &nowhere, "list_channels");
    let missing = school
        .open_read(&catalogue(), (&user, Role::Admin), call, &arguments)
        .await;
    assert!(matches!(missing, Err(OpenError::NotFound)), "{missing:?}");
}
