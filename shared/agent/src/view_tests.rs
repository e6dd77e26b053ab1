use serde_json::json;
use toshi_core::{InboxRow, State};

use super::*;
use crate::sample;

#[test]
fn a_page_never_seeds_an_answer_that_its_client_would_send_again() {
    for state in State::ALL {
        let row = sample::life(1, state).pop().unwrap();
        let step = sample::step(1, "", vec![sample::asking(&row)]);
        let message = messages(&sample::history(&[step], &[row]), &[])
            .pop()
            .unwrap();
        assert_ne!(
            message["parts"][1]["state"], "approval-responded",
            "{state:?}"
        );
    }
}

#[test]
fn only_a_waiting_question_can_be_answered_from_a_loaded_page() {
    for state in State::ALL {
        let row = sample::life(1, state).pop().unwrap();
        let step = sample::step(1, "", vec![sample::asking(&row)]);
        let message = messages(&sample::history(&[step], &[row]), &[])
            .pop()
            .unwrap();
        let asks = message["parts"][1]["state"] == "approval-requested";
        assert_eq!(asks, state == State::Pending, "{state:?}");
    }
}

#[test]
fn an_approval_stands_only_where_the_clients_types_take_it() {
    for state in State::ALL {
        let row = sample::life(1, state).pop().unwrap();
        let step = sample::step(1, "", vec![sample::asking(&row)]);
        let message = messages(&sample::history(&[step], std::slice::from_ref(&row)), &[])
            .pop()
            .unwrap();
        let part = &message["parts"][1];
        let approved = &part["approval"]["approved"];
        match part["state"].as_str().unwrap() {
            "approval-requested" => assert!(approved.is_null(), "{state:?}"),
            "input-available" => assert!(part["approval"].is_null(), "{state:?}"),
            "output-denied" => assert_eq!(approved, false, "{state:?}"),
            _ if part["approval"].is_null() => assert!(row.decision.is_none(), "{state:?}"),
            _ => assert_eq!(approved, true, "{state:?}"),
        }
        // A page finds the question in any case.
        assert_eq!(part["toolMetadata"]["approval_id"], json!(row.approval_id));
    }
}

#[test]
fn a_message_is_stored_in_the_shape_that_a_client_loads() {
    let row = sample::life(1, State::Rejected).pop().unwrap();
    let step = sample::step(1, "I will.", vec![sample::asking(&row)]);
    let message = messages(&sample::history(&[step], &[row]), &[])
        .pop()
        .unwrap();
    let limit = "2026-11-30T18:21:00.000Z";
    let expected = json!({
        "id": "01M8PTYT400000000000000002",
        "role": "assistant",
        "metadata": {
            "created_at": "2026-11-30T18:20:00.000Z",
            "turn_id": "01M8PTYT400000000000000001",
        },
        "parts": [
            { "type": "step-start" },
            { "type": "text", "text": "I will.", "state": "done" },
            {
                "type": "dynamic-tool",
                "toolName": "demo__post_message",
                "toolCallId": "01M8PTYT400000000000000001",
                "title": "Post a message · Demo workspace",
                "input": { "text": "Hi" },
                "state": "output-denied",
                "toolMetadata": {
                    "approval_id": "01M8PTYT400000000000000035",
                    "connector": "demo",
                    "connection_id": "con-1",
                    "workspace": "Demo workspace",
                    "account": "Sample",
                    "risk": "medium",
                    "decide_by": limit,
                },
                "approval": {
                    "id": "01M8PTYT400000000000000035",
                    "approved": false,
                    "reason": "So it is",
                    "requestReason": "Tell everyone",
                    "descriptor": {
                        "title": "Post a message",
                        "connector": "demo",
                        "workspace": "Demo workspace",
                        "account": "Sample",
                        "tool": "post_message",
                        "effect": null,
                        "risk": "medium",
                        "decide_by": limit,
                        "intent": "Tell everyone",
                    },
                },
            },
        ],
    });
    assert_eq!(message, expected);
}

#[test]
fn messages_that_wait_stand_last_and_an_empty_answer_is_not_shown() {
    let waiting = InboxRow {
        inbox: sample::id(40),
        turn: sample::id(41),
        answer: sample::id(42),
        user: "ann".parse().unwrap(),
        message: "m-9".parse().unwrap(),
        text: "and then?".to_owned(),
        at: sample::NOW,
        replaces_from: None,
    };
    let shown = messages(&sample::history(&[], &[]), &[waiting]);
    let ids: Vec<_> = shown
        .iter()
        .map(|message| message["id"].as_str().unwrap())
        .collect();
    assert_eq!(ids, ["m-1", "m-9"]);
}
