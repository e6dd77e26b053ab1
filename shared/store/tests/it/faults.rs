//! What the service may answer besides yes and no: busy, and nothing at all.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use aws_sdk_dynamodb::config::interceptors::{
    BeforeDeserializationInterceptorContextMut, BeforeTransmitInterceptorContextMut,
};
use aws_sdk_dynamodb::config::{ConfigBag, Intercept, RuntimeComponents};
use aws_sdk_dynamodb::error::BoxError;
use toshi_core::{Answer, Event, RecordEvent, Refusal, Role, State, Subject};
use toshi_store::{Begun, ClaimRefusal, Commit, Store, StoreError, TransitionError};

use crate::scene::{
    Scene, T0, catalogue, clock, conversation, decide, message, requester, succeeded, unknown,
};

/// What happens to one request.
#[derive(Clone, Copy, Debug)]
enum Fault {
    /// Nothing: it goes through.
    None,
    /// The service does not act and answers this.
    Instead(u16, &'static str),
    /// The service acts, and this comes instead of its answer.
    After(u16, &'static str),
}

const WRITE_CONFLICT: &str = r#"{"__type":"com.amazonaws.dynamodb.v20120810#TransactionConflictException","Message":"busy"}"#;
const IN_PROGRESS: &str = r#"{"__type":"com.amazonaws.dynamodb.v20120810#TransactionInProgressException","Message":"busy"}"#;
const SERVER_ERROR: &str =
    r#"{"__type":"com.amazonaws.dynamodb.v20120810#InternalServerError","Message":"oh"}"#;
const CONFLICT: &str = r#"{"__type":"com.amazonaws.dynamodb.v20120810#TransactionCanceledException","Message":"cancelled","CancellationReasons":[{"Code":"None"},{"Code":"TransactionConflict"}]}"#;
const THROTTLED: &str = r#"{"__type":"com.amazonaws.dynamodb.v20120810#TransactionCanceledException","Message":"cancelled","CancellationReasons":[{"Code":"ThrottlingError"},{"Code":"None"}]}"#;
const OTHER: &str = r#"{"__type":"com.amazonaws.dynamodb.v20120810#TransactionCanceledException","Message":"cancelled","CancellationReasons":[{"Code":"ValidationError"}]}"#;

const NOT_DONE: Fault = Fault::Instead(400, CONFLICT);
const REPLY_LOST: Fault = Fault::After(500, SERVER_ERROR);

/// Faults for the requests of one operation, in order; then none.
#[derive(Clone, Debug)]
struct Faults {
    operation: &'static str,
    script: Arc<Mutex<VecDeque<Fault>>>,
    pending: Arc<Mutex<Option<Fault>>>,
    sent: Arc<Mutex<usize>>,
}

impl Faults {
    fn of(operation: &'static str, script: impl IntoIterator<Item = Fault>) -> Self {
        Self {
            operation,
            script: Arc::new(Mutex::new(script.into_iter().collect())),
            pending: Arc::default(),
            sent: Arc::default(),
        }
    }

    fn store(&self, scene: &Scene) -> Store {
        let config = scene
            .stage
            .db
            .config()
            .to_builder()
            .interceptor(self.clone());
        scene.store_over(aws_sdk_dynamodb::Client::from_conf(config.build()))
    }

    fn sent(&self) -> usize {
        *self.sent.lock().unwrap()
    }

    async fn until_sent(&self, count: usize) {
        let deadline = Instant::now() + Duration::from_secs(20);
        while self.sent() < count {
            assert!(Instant::now() < deadline, "{count} requests are sent");
            tokio::task::yield_now().await;
        }
    }
}

impl Intercept for Faults {
    fn name(&self) -> &'static str {
        "faults"
    }

    fn modify_before_transmit(
        &self,
        context: &mut BeforeTransmitInterceptorContextMut<'_>,
        _: &RuntimeComponents,
        _: &mut ConfigBag,
    ) -> Result<(), BoxError> {
        let headers = context.request_mut().headers_mut();
        let target = headers.get("x-amz-target").unwrap_or_default();
        if target != format!("DynamoDB_20120810.{}", self.operation) {
            return Ok(());
        }
        *self.sent.lock().unwrap() += 1;
        let fault = self.script.lock().unwrap().pop_front();
        if let Some(Fault::Instead(..)) = fault {
            headers.insert("x-amz-target", "DynamoDB_20120810.Nothing");
        }
        *self.pending.lock().unwrap() = fault;
        Ok(())
    }

    fn modify_before_deserialization(
        &self,
        context: &mut BeforeDeserializationInterceptorContextMut<'_>,
        _: &RuntimeComponents,
        _: &mut ConfigBag,
    ) -> Result<(), BoxError> {
        match self.pending.lock().unwrap().take() {
            Some(Fault::Instead(status, body) | Fault::After(status, body)) => {
                let response = context.response_mut();
                *response.status_mut() = status.try_into()?;
                *response.body_mut() = body.into();
                response.headers_mut().remove("x-amzn-errortype");
                response.headers_mut().remove("content-length");
                response.headers_mut().remove("x-amz-crc32");
            }
            Some(Fault::None) | None => {}
        }
        Ok(())
    }
}

fn of_transactions(script: impl IntoIterator<Item = Fault>) -> Faults {
    Faults::of("TransactWriteItems", script)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_conflict_with_another_transaction_is_tried_again_and_is_no_refusal() {
    let scene = Scene::new().await;
    let row = scene.asked().await;
    let faults = of_transactions([NOT_DONE, NOT_DONE, NOT_DONE]);
    let store = faults.store(&scene);
    let school = store.school(&scene.tenant);
    let approved = school
        .transition(&row, decide(Answer::Approve), &requester(), T0)
        .await
        .unwrap();
    assert_eq!((approved.state, faults.sent()), (State::Approved, 4));
    assert_eq!(scene.wake().await, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_throttled_transaction_is_tried_again() {
    let scene = Scene::new().await;
    let row = scene.asked().await;
    let faults = of_transactions([Fault::Instead(400, THROTTLED)]);
    let store = faults.store(&scene);
    let school = store.school(&scene.tenant);
    let approved = school
        .transition(&row, decide(Answer::Approve), &requester(), T0)
        .await
        .unwrap();
    assert_eq!((approved.state, faults.sent()), (State::Approved, 2));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_endless_conflict_ends_as_busy_with_nothing_written() {
    let scene = Scene::new().await;
    let row = scene.asked().await;
    let before = scene.everything().await;
    let faults = of_transactions([NOT_DONE; 100]);
    let store = faults.store(&scene);
    let school = store.school(&scene.tenant);
    let result = school
        .transition(&row, decide(Answer::Approve), &requester(), T0)
        .await;
    assert!(
        matches!(result, Err(TransitionError::Store(StoreError::Busy))),
        "{result:?}"
    );
    assert!((10..20).contains(&faults.sent()), "{}", faults.sent());
    assert_eq!(scene.everything().await, before);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_transaction_that_the_service_calls_invalid_is_not_tried_again() {
    let scene = Scene::new().await;
    let row = scene.asked().await;
    let faults = of_transactions([Fault::Instead(400, OTHER)]);
    let store = faults.store(&scene);
    let school = store.school(&scene.tenant);
    let result = school
        .transition(&row, decide(Answer::Approve), &requester(), T0)
        .await;
    assert!(
        matches!(result, Err(TransitionError::Store(StoreError::Aws { .. }))),
        "{result:?}"
    );
    assert_eq!(faults.sent(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_single_write_that_meets_a_transaction_is_tried_again() {
    let scene = Scene::new().await;
    let target = scene.connected().await;
    let faults = Faults::of("PutItem", [Fault::Instead(400, WRITE_CONFLICT); 3]);
    let store = faults.store(&scene);
    let mut row = target.connection.clone();
    row.epoch += 1;
    row.usable = false;
    store
        .school(&scene.tenant)
        .update_connection(&row)
        .await
        .unwrap();
    assert_eq!(faults.sent(), 4);
    assert_eq!(scene.target("con-1").await.connection, row);

    let faults = Faults::of("UpdateItem", [Fault::Instead(400, WRITE_CONFLICT); 3]);
    let store = faults.store(&scene);
    scene.asked().await;
    let taken = store
        .school(&scene.tenant)
        .take(&conversation(), T0)
        .await
        .unwrap();
    assert!(taken.is_some());
    assert_eq!(faults.sent(), 4);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_commit_whose_first_reply_was_lost_is_known_as_done() {
    // In progress: as often as the client asks by itself, and once more.
    let in_progress = Fault::After(400, IN_PROGRESS);
    for lost in [vec![REPLY_LOST], vec![in_progress; 4]] {
        let scene = Scene::new().await;
        let tries = lost.len() + 1;
        let faults = of_transactions(lost);
        let store = faults.store(&scene);
        let school = store.school(&scene.tenant);
        let begun = school.begin(&message("m-1", "hi"), None, T0).await.unwrap();
        assert!(
            matches!(begun, Begun::Started(_)),
            "ours, not known: {begun:?}"
        );
        assert_eq!(faults.sent(), tries);
        assert_eq!(scene.keys("M#").await.len(), 2);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_step_whose_first_reply_was_lost_is_committed_once() {
    let scene = Scene::new().await;
    let begin = scene.begun("m-1", T0).await;
    let faults = of_transactions([Fault::After(400, IN_PROGRESS), REPLY_LOST]);
    let store = faults.store(&scene);
    let mut turn = begin.turn.clone();
    turn.takeovers = 1;
    let commit = Commit {
        turn: Some(turn),
        messages: vec![toshi_core::MessageRow {
            seq: 3,
            ..begin.messages[0].clone()
        }],
        release: true,
        ..Commit::default()
    };
    let school = store.school(&scene.tenant);
    let committed = school
        .commit(&begin.meta, &begin.lease, &commit, T0)
        .await
        .unwrap();
    assert!(committed.released);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_claim_whose_replies_were_all_lost_finds_its_own_attempt() {
    let scene = Scene::new().await;
    let target = scene.connected().await;
    let row = scene.approved().await;
    // As often as the client asks again by itself.
    let faults = of_transactions([REPLY_LOST; 3]);
    let store = faults.store(&scene);
    let school = store.school(&scene.tenant);
    let claim = school
        .claim(&catalogue(), Role::Admin, &row, &target, T0)
        .await
        .unwrap();
    assert_eq!(faults.sent(), 3);
    let stored = scene.stored(&row).await;
    assert_eq!((stored.state, &stored), (State::Executing, &claim.row));
    let attempt = stored.attempt.as_ref().unwrap();
    assert_eq!(
        claim.permit.attempt(),
        Some((row.approval_id, attempt.id, 1))
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_claim_that_never_reached_the_table_gives_no_permit() {
    let scene = Scene::new().await;
    let target = scene.connected().await;
    let row = scene.approved().await;
    let faults = of_transactions([Fault::Instead(500, SERVER_ERROR); 3]);
    let store = faults.store(&scene);
    let school = store.school(&scene.tenant);
    let result = school
        .claim(&catalogue(), Role::Admin, &row, &target, T0)
        .await;
    assert!(
        matches!(result, Err(ClaimRefusal::Store(StoreError::Aws { .. }))),
        "{result:?}"
    );
    assert_eq!(scene.stored(&row).await, row);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_result_is_recorded_once_however_often_replies_are_lost() {
    let scene = Scene::new().await;
    let row = scene.executing().await;
    let faults = of_transactions([REPLY_LOST; 7]);
    let store = faults.store(&scene);
    let school = store.school(&scene.tenant);
    let attempt = row.attempt.as_ref().unwrap().id;
    let outcome = succeeded("posted");
    let settled = school
        .settle(&row, attempt, outcome, "rest", clock(), T0.plus(5_000))
        .await;
    let settled = settled.unwrap();
    assert_eq!(
        (settled.state, settled.seq),
        (State::Succeeded, row.seq + 1)
    );
    assert_eq!(scene.stored(&row).await, settled);
    let records = scene
        .school()
        .audit_of(Subject::Approval(row.approval_id))
        .await
        .unwrap();
    let count = records
        .iter()
        .filter(|record| record.event == RecordEvent::Settled)
        .count();
    assert_eq!(count, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_result_that_cannot_be_recorded_is_given_up_only_when_time_is_over() {
    let scene = Scene::new().await;
    let row = scene.executing().await;
    let faults = of_transactions([Fault::Instead(500, SERVER_ERROR); 200]);
    let store = faults.store(&scene);
    let school = store.school(&scene.tenant);
    let attempt = row.attempt.as_ref().unwrap().id;
    let looks = Mutex::new(0);
    let ticking = || {
        let mut looks = looks.lock().unwrap();
        *looks += 1;
        T0.plus(*looks * 1_000)
    };
    let result = school
        .settle(&row, attempt, succeeded("x"), "", ticking, T0.plus(4_000))
        .await;
    assert!(
        matches!(result, Err(TransitionError::Store(StoreError::Aws { .. }))),
        "{result:?}"
    );
    assert!(
        faults.sent() >= 2 * 3,
        "tried again while there was time: {}",
        faults.sent()
    );
    assert_eq!(scene.stored(&row).await, row);
    let end = row.lease().time().unwrap();
    let cause = toshi_core::Cause::system();
    let abandoned = scene
        .school()
        .transition(&row, Event::Abandon, &cause, end)
        .await
        .unwrap();
    assert_eq!(
        abandoned.state,
        State::Unknown,
        "and then the sweep says that nobody knows"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unknown_outcome_blocks_once_although_its_reply_was_lost() {
    let scene = Scene::new().await;
    let row = scene.executing().await;
    let faults = of_transactions([REPLY_LOST, REPLY_LOST, REPLY_LOST, NOT_DONE]);
    let store = faults.store(&scene);
    let school = store.school(&scene.tenant);
    let attempt = row.attempt.as_ref().unwrap().id;
    let settled = school
        .settle(&row, attempt, unknown(), "", clock(), T0.plus(5_000))
        .await
        .unwrap();
    assert_eq!(settled.state, State::Unknown);
    let items = scene.items(&scene.stage.table).await;
    let blocks = items.iter().filter(|((_, sk), _)| sk.starts_with("UNK#"));
    let ids: Vec<_> = blocks
        .map(|(_, item)| item["ids"].as_ss().unwrap().clone())
        .collect();
    assert_eq!(ids, [[row.approval_id.to_string()]]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_decision_whose_replies_were_all_lost_answers_the_same_when_asked_again() {
    let scene = Scene::new().await;
    let row = scene.asked().await;
    let faults = of_transactions([REPLY_LOST; 3]);
    let store = faults.store(&scene);
    let school = store.school(&scene.tenant);
    let decide = || decide(Answer::Approve);
    let first = school.transition(&row, decide(), &requester(), T0).await;
    assert!(matches!(first, Err(TransitionError::Store(_))), "{first:?}");
    let second = school.transition(&row, decide(), &requester(), T0).await;
    let same = matches!(
        &second,
        Err(TransitionError::Refused {
            refusal: Refusal::SameAnswer,
            ..
        })
    );
    assert!(same, "{second:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_log_line_of_a_failure_names_the_service() {
    let scene = Scene::new().await;
    let faults = Faults::of(
        "GetItem",
        [Fault::Instead(
            400,
            r#"{"__type":"com.amazonaws.dynamodb.v20120810#ResourceNotFoundException","message":"no table"}"#,
        )],
    );
    let store = faults.store(&scene);
    let error = store
        .school(&scene.tenant)
        .meta(&conversation())
        .await
        .unwrap_err();
    let text = error.to_string();
    assert!(text.starts_with("DynamoDB failed"), "{text}");
    let coded = matches!(&error, StoreError::Aws { code: Some(code), .. } if code == "ResourceNotFoundException");
    assert!(coded, "{error:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_sent_before_the_last_write_of_a_deletion_is_deleted_too() {
    let scene = Scene::new().await;
    let begin = scene.begun("m-1", T0).await;
    // Messages, turn and message id are gone; the marker's write meets a conflict for a while.
    let mut script = vec![Fault::None; 3];
    script.extend([NOT_DONE; 6]);
    let faults = of_transactions(script);
    let store = faults.store(&scene);
    let deletion = async {
        let school = store.school(&scene.tenant);
        school
            .erase_conversation(&begin.meta, &begin.lease, T0)
            .await
    };
    let message = async {
        faults.until_sent(4).await;
        let meta = Some(begin.meta.clone());
        scene
            .school()
            .begin(&message("m-2", "late"), meta, T0)
            .await
    };
    let (deleted, begun) = tokio::join!(deletion, message);
    deleted.unwrap();
    assert!(matches!(begun, Ok(Begun::Queued { .. })), "{begun:?}");
    assert_eq!(scene.keys("").await, ["META"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deletion_that_loses_the_lease_midway_deletes_no_more() {
    let scene = Scene::new().await;
    let begin = scene.begun("m-1", T0).await;
    let faults = of_transactions([NOT_DONE; 6]);
    let store = faults.store(&scene);
    let deletion = async {
        let school = store.school(&scene.tenant);
        school
            .erase_conversation(&begin.meta, &begin.lease, T0)
            .await
    };
    let takeover = async {
        faults.until_sent(1).await;
        let end = T0.plus(toshi_core::LEASE_MS);
        let taken = scene.school().take(&conversation(), end).await.unwrap();
        assert!(taken.is_some());
        scene.everything().await
    };
    let (deleted, before) = tokio::join!(deletion, takeover);
    assert!(matches!(deleted, Err(StoreError::Conflict)), "{deleted:?}");
    assert_eq!(scene.everything().await, before);
}
