//! The sweeps over real rows.
#![cfg(test)]

use std::collections::BTreeSet;

use toshi_core::{Cause, ConversationId, Deadline, Event, Millis, State};
use toshi_refresh::{Ask, Report, SweepError, Sweeper};
use toshi_store::mint;
use toshi_test_support::{Asked, Question, Stage, now};

struct Scene {
    stage: Stage,
    sweeper: Sweeper,
    tenant: toshi_core::TenantId,
}

impl Scene {
    async fn new() -> Self {
        let stage = Stage::new().await;
        let tenant = stage
            .school("lakeside", "https://issuer.test", "audience")
            .await;
        let sweeper = Sweeper {
            store: stage.store.clone(),
            queue: stage.queue.clone(),
        };
        Self {
            stage,
            sweeper,
            tenant,
        }
    }

    /// Each in a conversation of its own.
    async fn ask(&self, name: &str, decide_within_ms: i64) -> Asked {
        let question = Question {
            conversation: format!("chat-{name}"),
            decide_within_ms,
            ..Question::of("ann")
        };
        self.stage.ask(&self.tenant, &question).await
    }

    async fn sweep(&self, name: &str) -> Report {
        let ask = Ask {
            sweep: name.to_owned(),
        };
        self.sweeper.sweep(&ask, now).await.unwrap()
    }

    async fn step(&self, asked: &Asked, event: Event) {
        let row = self.stage.approval(asked).await;
        let cause = match event {
            Event::Decide { .. } => Cause {
                actor: toshi_core::Actor::User {
                    id: "ann".parse().unwrap(),
                    name: "The person ann".to_owned(),
                    role: toshi_core::Role::Admin,
                },
                how: toshi_core::How::Web,
                request: None,
            },
            _ => Cause::system(),
        };
        self.stage
            .store
            .school(&self.tenant)
            .transition(&row, event, &cause, now())
            .await
            .unwrap();
    }

    async fn approve(&self, asked: &Asked) {
        let answer = toshi_core::Answer::Approve;
        self.step(
            asked,
            Event::Decide {
                answer,
                reason: None,
            },
        )
        .await;
    }

    async fn claim(&self, asked: &Asked, lease_until: Millis) {
        self.approve(asked).await;
        let attempt = mint(now());
        self.step(
            asked,
            Event::Claim {
                attempt,
                lease_until,
            },
        )
        .await;
    }

    async fn hinted(&self) -> Vec<ConversationId> {
        let hints = self.stage.hints().await;
        hints.into_iter().map(|hint| hint.conversation).collect()
    }
}

fn report(sweep: &'static str, due: u64, acted: u64) -> Report {
    Report {
        sweep,
        due,
        acted,
        failed: 0,
        more: false,
    }
}

#[tokio::test]
async fn what_nobody_answered_in_time_expires_and_its_turn_is_woken() {
    let scene = Scene::new().await;
    let late = scene.ask("late", -1).await;
    let open = scene.ask("open", 60_000).await;
    assert_eq!(scene.sweep("approvals").await, report("approvals", 1, 1));
    assert_eq!(scene.stage.approval(&late).await.state, State::Expired);
    assert_eq!(scene.stage.approval(&open).await.state, State::Pending);
    let hinted = scene.hinted().await;
    assert!(matches!(hinted.as_slice(), [one] if *one == late.approval.conversation));
    assert_eq!(scene.sweep("approvals").await, report("approvals", 0, 0));
}

#[tokio::test]
async fn a_claim_whose_lease_ran_out_has_an_unknown_outcome() {
    let scene = Scene::new().await;
    let dead = scene.ask("dead", 60_000).await;
    scene.claim(&dead, now().plus(-1)).await;
    let alive = scene.ask("alive", 60_000).await;
    scene.claim(&alive, now().plus(60_000)).await;
    assert_eq!(scene.sweep("approvals").await, report("approvals", 1, 1));
    let row = scene.stage.approval(&dead).await;
    assert_eq!(row.state, State::Unknown);
    let school = scene.stage.store.school(&scene.tenant);
    let blocked = school.unknown_calls(&[row]).await.unwrap();
    assert_eq!(blocked, [dead.approval.approval_id], "not to be made again");
    assert_eq!(scene.stage.approval(&alive).await.state, State::Executing);
    let hinted = scene.hinted().await;
    assert!(matches!(hinted.as_slice(), [one] if *one == dead.approval.conversation));
}

#[tokio::test]
async fn what_was_approved_and_not_run_in_time_expires() {
    let scene = Scene::new().await;
    let asked = scene.ask("stuck", 60_000).await;
    scene.approve(&asked).await;
    assert_eq!(scene.sweep("approvals").await, report("approvals", 0, 0));
    // Ten minutes later.
    let later = || now().plus(11 * 60_000);
    let ask = Ask {
        sweep: "approvals".to_owned(),
    };
    let swept = scene.sweeper.sweep(&ask, later).await.unwrap();
    assert_eq!(swept, report("approvals", 1, 1));
    let row = scene.stage.approval(&asked).await;
    assert_eq!(row.state, State::Expired);
    assert!(row.decision.is_some());
}

#[tokio::test]
async fn a_missing_time_limit_counts_as_over() {
    let scene = Scene::new().await;
    let question = Question::of("ann");
    let asked = scene
        .stage
        .ask_changed(&scene.tenant, &question, |row| {
            row.decide_by = Deadline::malformed();
        })
        .await;
    assert_eq!(scene.sweep("approvals").await, report("approvals", 1, 1));
    assert_eq!(scene.stage.approval(&asked).await.state, State::Expired);
}

#[tokio::test]
async fn each_conversation_with_work_is_hinted_at_once_a_sweep() {
    let scene = Scene::new().await;
    let mut woken = BTreeSet::new();
    for n in 0..20 {
        let asked = scene.ask(&format!("{n:04}"), 60_000).await;
        scene.approve(&asked).await;
        woken.insert(asked.approval.conversation.clone());
    }
    scene.ask("idle", 60_000).await;
    scene.stage.hints().await;
    assert_eq!(scene.sweep("turns").await, report("turns", 20, 20));
    let hinted = scene.hinted().await;
    assert_eq!(hinted.len(), 20);
    assert_eq!(hinted.into_iter().collect::<BTreeSet<_>>(), woken);
    // Nobody came: the next sweep says it again.
    assert_eq!(scene.sweep("turns").await, report("turns", 20, 20));
}

#[tokio::test]
async fn a_crowd_of_one_kind_does_not_hide_the_other() {
    let scene = Scene::new().await;
    let user: toshi_core::UserId = "ann".parse().unwrap();
    let conversation = ConversationId::of(&user, &"chat-crowd".parse().unwrap());
    // More than one page of entries, all older than the approval's, all in its shard.
    let shard = (0..toshi_store::SHARDS).map(|n| format!("D#{n}"));
    for partition in shard {
        for n in 0..110 {
            let due = format!("0000000000001#META#lakeside#{conversation}#{n}");
            crowd(&scene.stage, &partition, n, &due).await;
        }
    }
    let late = scene.ask("late", -1).await;
    let swept = scene.sweep("approvals").await;
    assert_eq!((swept.due, swept.acted), (1, 1));
    assert_eq!(scene.stage.approval(&late).await.state, State::Expired);
}

async fn crowd(stage: &Stage, partition: &str, n: usize, due: &str) {
    let text = |text: &str| aws_sdk_dynamodb::types::AttributeValue::S(text.to_owned());
    stage
        .db
        .put_item()
        .table_name(&stage.table)
        .item("PK", text(&format!("crowd{partition}")))
        .item("SK", text(&n.to_string()))
        .item("G1PK", text(partition))
        .item("G1SK", text(due))
        .send()
        .await
        .unwrap();
}

#[tokio::test]
async fn a_row_that_cannot_be_read_stops_no_other() {
    let scene = Scene::new().await;
    let broken = scene.ask("broken", -1).await;
    let late = scene.ask("late", -1).await;
    let row = &broken.approval;
    let text = |text: String| aws_sdk_dynamodb::types::AttributeValue::S(text);
    scene
        .stage
        .db
        .update_item()
        .table_name(&scene.stage.table)
        .key("PK", text(format!("T#lakeside#C#{}", row.conversation)))
        .key("SK", text(format!("AP#{}", row.approval_id)))
        .update_expression("SET #state = :nonsense")
        .expression_attribute_names("#state", "state")
        .expression_attribute_values(":nonsense", text("nonsense".to_owned()))
        .send()
        .await
        .unwrap();
    let swept = scene.sweep("approvals").await;
    assert_eq!(
        swept,
        Report {
            failed: 1,
            ..report("approvals", 2, 1)
        }
    );
    assert_eq!(scene.stage.approval(&late).await.state, State::Expired);
}

#[tokio::test]
async fn no_token_is_due_and_an_unknown_sweep_says_which_there_are() {
    let scene = Scene::new().await;
    assert_eq!(scene.sweep("tokens").await, report("tokens", 0, 0));
    let ask = Ask {
        sweep: "everything".to_owned(),
    };
    let error = scene.sweeper.sweep(&ask, now).await.unwrap_err();
    assert!(matches!(error, SweepError::Unknown(_)));
    assert_eq!(
        error.to_string(),
        "there is no sweep \"everything\"; known: approvals, turns, tokens"
    );
}

#[test]
fn the_schedules_input_is_read() {
    let ask: Ask = serde_json::from_str(r#"{"sweep":"turns"}"#).unwrap();
    assert_eq!(ask.sweep, "turns");
    let json = serde_json::to_value(report("turns", 3, 2)).unwrap();
    assert_eq!(
        json,
        serde_json::json!({ "sweep": "turns", "due": 3, "acted": 2, "failed": 0, "more": false })
    );
}
