use futures::future::join_all;
use serde_json::{Value, json};
use toshi_core::{Cause, Event, State, Subject, VoidReason};
use toshi_store::WakeMessage;
use toshi_test_support::{Question, now};

use crate::desk::{Desk, decision_path, show_path};

fn approve() -> Value {
    json!({ "decision": "approve" })
}

#[tokio::test]
async fn an_answer_is_stored_and_wakes_the_conversation() {
    let desk = Desk::open().await;
    let asked = desk.ask("ann").await;
    desk.stage.hints().await;
    let body = json!({ "decision": "approve", "reason": "  They should know.  " });
    let answer = desk.post("ann", &decision_path(&asked), &body).await.ok();
    assert_eq!(answer["state"], "approved");
    assert_eq!(
        answer["decided_by"],
        json!({ "id": "ann", "name": "The admin" })
    );
    assert_eq!(answer["decided_how"], "web");
    assert_eq!(answer["reason"], "They should know.");
    assert_eq!(answer["can_decide"], false);
    assert!(answer["run_by"].is_string());
    let stored = desk.get("ann", &show_path(&asked)).await.ok();
    assert_eq!(stored, answer);
    let hint = WakeMessage {
        tenant: desk.lakeside.clone(),
        conversation: asked.approval.conversation.clone(),
    };
    assert_eq!(desk.stage.hints().await, [hint]);
}

#[tokio::test]
async fn the_card_is_shown_in_full() {
    let desk = Desk::open().await;
    let asked = desk.ask("ann").await;
    let row = &asked.approval;
    let card = desk.get("ann", &show_path(&asked)).await.ok();
    assert_eq!(
        card,
        json!({
            "approval_id": row.approval_id,
            "state": "pending",
            "conversation_id": "sample-chat",
            "turn_id": row.turn,
            "tool_call_id": row.call,
            "tool": "post_message",
            "tool_name": "demo__post_message",
            "tool_title": "Post a message",
            "effect": null,
            "connection": {
                "id": "demo-connection",
                "type": "demo",
                "title": "Demo workspace",
                "account": "Sample workspace",
            },
            "arguments": { "channel": "#general", "text": "Sports day moved to Friday" },
            "arguments_sha256": row.arguments.hash(),
            "definition_hash": row.definition,
            "intent": "Tell everyone",
            "risk": "medium",
            "requester": { "id": "ann", "name": "The person ann" },
            "approver": "requester",
            "created_at": row.created_at.to_string(),
            "decide_by": row.decide_by.time().unwrap().to_string(),
            "run_by": null,
            "decided_by": null,
            "decided_how": null,
            "decided_at": null,
            "reason": null,
            "attempts": 0,
            "result": null,
            "outcome_note": "Waiting for your answer. Nothing has been done.",
            "supersedes": null,
            "superseded_by": null,
            "resolved_by": null,
            "resolved_reason": null,
            "resolved_at": null,
            "can_decide": true,
            "can_resolve": false,
        })
    );
}

#[tokio::test]
async fn fifty_equal_answers_at_once_are_one_decision_and_fifty_equal_replies() {
    let desk = Desk::open().await;
    let asked = desk.ask("ann").await;
    let path = decision_path(&asked);
    let replies =
        join_all((0..50).map(|_| async { desk.post("ann", &path, &approve()).await })).await;
    let mut bodies: Vec<Value> = replies.into_iter().map(|reply| reply.ok()).collect();
    bodies.dedup();
    assert_eq!(bodies.len(), 1, "{bodies:#?}");
    let records = desk
        .stage
        .store
        .school(&desk.lakeside)
        .audit_of(Subject::Approval(asked.approval.approval_id))
        .await
        .unwrap();
    assert_eq!(records.len(), 2, "asked and decided, once each");
    assert!(desk.refusals(&asked).await.is_empty());
}

#[tokio::test]
async fn a_different_answer_is_told_what_was_decided_by_whom_and_when() {
    let desk = Desk::open().await;
    let asked = desk.ask("ann").await;
    let path = decision_path(&asked);
    let first = desk
        .post("ann", &path, &json!({ "decision": "reject" }))
        .await
        .ok();
    let problem = desk
        .post("ann", &path, &approve())
        .await
        .problem(409, "already_decided");
    assert_eq!(
        problem["decided"],
        json!({
            "decision": "reject",
            "by": { "id": "ann", "name": "The admin" },
            "at": first["decided_at"],
            "state": "rejected",
        })
    );
    let refusals = desk.refusals(&asked).await;
    assert_eq!(refusals.len(), 1);
    assert_eq!(
        refusals[0]["detail"],
        json!({ "answer": "approve", "why": "already_decided" })
    );
    assert_eq!(desk.stage.approval(&asked).await.state, State::Rejected);
}

#[tokio::test]
async fn of_two_different_answers_at_once_one_counts() {
    let desk = Desk::open().await;
    let asked = desk.ask("ann").await;
    let path = decision_path(&asked);
    let answers = ["approve", "reject"].map(|answer| json!({ "decision": answer }));
    let replies = join_all((0..32).map(|n| desk.post("ann", &path, &answers[n % 2]))).await;
    let state = desk.stage.approval(&asked).await.state;
    let (won, lost) = match state {
        State::Approved => (0, 1),
        State::Rejected => (1, 0),
        other => panic!("{other:?}"),
    };
    for (n, reply) in replies.into_iter().enumerate() {
        if n % 2 == won {
            reply.ok();
        } else {
            assert_eq!(n % 2, lost);
            reply.problem(409, "already_decided");
        }
    }
}

#[tokio::test]
async fn an_answer_that_comes_too_late_makes_the_expiry_so_and_wakes_the_turn() {
    let desk = Desk::open().await;
    let question = Question {
        decide_within_ms: -1,
        ..Question::of("ann")
    };
    let asked = desk.stage.ask(&desk.lakeside, &question).await;
    desk.stage.hints().await;
    let card = desk.get("ann", &show_path(&asked)).await.ok();
    assert_eq!(card["can_decide"], false);
    let path = decision_path(&asked);
    desk.post("ann", &path, &approve())
        .await
        .problem(410, "expired");
    assert_eq!(desk.stage.approval(&asked).await.state, State::Expired);
    assert_eq!(desk.stage.hints().await.len(), 1);
    for _ in 0..5 {
        desk.post("ann", &path, &approve())
            .await
            .problem(410, "expired");
    }
    assert_eq!(desk.refusals(&asked).await.len(), 1, "the same answer once");
}

#[tokio::test]
async fn a_refused_answer_is_on_record_once_for_each_person_and_answer() {
    let desk = Desk::open().await;
    let asked = desk.ask("ann").await;
    let path = decision_path(&asked);
    let reject = json!({ "decision": "reject" });
    for _ in 0..3 {
        for user in ["tom", "zoe"] {
            for body in [approve(), reject.clone()] {
                desk.post(user, &path, &body)
                    .await
                    .problem(403, "not_yours");
            }
        }
    }
    assert_eq!(desk.refusals(&asked).await.len(), 4);
    desk.post("ann", &path, &approve()).await.ok();
    // At the same time too.
    let replies = join_all((0..20).map(|_| desk.post("ann", &path, &reject))).await;
    for reply in replies {
        reply.problem(409, "already_decided");
    }
    assert_eq!(desk.refusals(&asked).await.len(), 5);
}

#[tokio::test]
async fn an_answer_to_what_is_withdrawn_is_told_what_became_of_it() {
    let desk = Desk::open().await;
    let asked = desk.ask("ann").await;
    desk.stage
        .store
        .school(&desk.lakeside)
        .transition(
            &asked.approval,
            Event::Void(VoidReason::MessageReplaced),
            &Cause::system(),
            now(),
        )
        .await
        .unwrap();
    let problem = desk
        .post("ann", &decision_path(&asked), &approve())
        .await
        .problem(409, "no_longer_open");
    assert_eq!(problem["state"], "voided");
    let detail = problem["detail"].as_str().unwrap();
    assert!(detail.contains("sent again"), "{detail}");
}

#[tokio::test]
async fn somebody_elses_question_is_not_yours_to_answer_and_that_is_on_record() {
    let desk = Desk::open().await;
    let asked = desk.ask("ann").await;
    for (user, refused) in [("tom", 1), ("zoe", 2)] {
        desk.post(user, &decision_path(&asked), &approve())
            .await
            .problem(403, "not_yours");
        assert_eq!(desk.refusals(&asked).await.len(), refused);
    }
    let refusals = desk.refusals(&asked).await;
    let by: Vec<&Value> = refusals
        .iter()
        .map(|record| &record["actor"]["id"])
        .collect();
    assert_eq!(by, ["zoe", "tom"]);
    assert_eq!(desk.stage.approval(&asked).await.state, State::Pending);
}
