use serde_json::{Value, json};
use toshi_core::{Approval, Cause, Event, State};
use toshi_store::mint;
use toshi_test_support::{Asked, now};

use crate::desk::{Desk, decision_path, resolve_path, show_path};

/// Approved, claimed, and never settled.
async fn lost(desk: &Desk, asked: &Asked) -> Approval {
    let path = decision_path(asked);
    desk.post("ann", &path, &json!({ "decision": "approve" }))
        .await
        .ok();
    let school = desk.stage.store.school(&desk.lakeside);
    let mut row = desk.stage.approval(asked).await;
    let claim = Event::Claim {
        attempt: mint(now()),
        lease_until: now(),
    };
    for event in [claim, Event::Abandon] {
        row = school
            .transition(&row, event, &Cause::system(), now())
            .await
            .unwrap();
    }
    row
}

fn done() -> Value {
    json!({ "outcome": "done", "reason": "It is in the channel" })
}

#[tokio::test]
async fn an_unknown_outcome_is_resolved_once_by_its_requester() {
    let desk = Desk::open().await;
    let asked = desk.ask("ann").await;
    let path = resolve_path(&asked);
    let problem = desk
        .post("ann", &path, &done())
        .await
        .problem(409, "no_longer_open");
    assert_eq!(problem["state"], "pending");

    let row = lost(&desk, &asked).await;
    assert_eq!(row.state, State::Unknown);
    let card = desk.get("ann", &show_path(&asked)).await.ok();
    assert_eq!(card["can_resolve"], true);
    assert_eq!(card["attempts"], 1);
    desk.stage.hints().await;

    let resolved = desk.post("ann", &path, &done()).await.ok();
    assert_eq!(resolved["state"], "resolved_done");
    assert_eq!(
        resolved["resolved_by"],
        json!({ "id": "ann", "name": "The admin" })
    );
    assert_eq!(resolved["resolved_reason"], "It is in the channel");
    assert_eq!(resolved["can_resolve"], false);
    assert!(desk.stage.hints().await.is_empty(), "it wakes nobody");

    assert_eq!(desk.post("ann", &path, &done()).await.ok(), resolved);
    let other = json!({ "outcome": "not_done", "reason": "Nothing there" });
    let problem = desk
        .post("zoe", &path, &other)
        .await
        .problem(409, "already_decided");
    assert_eq!(problem["state"], "resolved_done");
    assert_eq!(desk.stage.approval(&asked).await.state, State::ResolvedDone);
}

#[tokio::test]
async fn an_admin_may_resolve_what_another_asked_for_and_a_teacher_may_not() {
    let desk = Desk::open().await;
    let asked = desk.ask("ann").await;
    lost(&desk, &asked).await;
    let path = resolve_path(&asked);
    for _ in 0..3 {
        desk.post("tom", &path, &done())
            .await
            .problem(403, "not_yours");
    }
    let refusals = desk.refusals(&asked).await;
    assert_eq!(refusals.len(), 1);
    assert_eq!(
        refusals[0]["detail"],
        json!({ "outcome": "done", "why": "not_yours" })
    );
    let not_done = json!({ "outcome": "not_done", "reason": "The channel is empty" });
    let resolved = desk.post("zoe", &path, &not_done).await.ok();
    assert_eq!(resolved["state"], "resolved_not_done");
    // The same call may be asked for again.
    let calls = [asked.approval.clone()];
    let school = desk.stage.store.school(&desk.lakeside);
    assert!(school.unknown_calls(&calls).await.unwrap().is_empty());
}
