use serde_json::json;
use toshi_core::{CallOutcome, Catalogue, Role, State, TurnState};

use super::*;
use crate::sample;

fn built(history: &History, turn: &TurnRow) -> Prompt {
    let person = Person {
        user: "ann".parse().unwrap(),
        name: "Ann".to_owned(),
        role: Role::Admin,
    };
    build(&Ingredients {
        school: "Lakeside",
        person: &person,
        catalogue: &Catalogue::load(&["demo"], true).unwrap(),
        offer: &Offer::default(),
        history,
        turn,
        now: sample::NOW,
    })
}

fn kinds(prompt: &Prompt) -> Vec<&'static str> {
    let kind = |message: &PromptMessage| match message {
        PromptMessage::System(_) => "system",
        PromptMessage::User(_) => "user",
        PromptMessage::Assistant { calls, .. } if calls.is_empty() => "said",
        PromptMessage::Assistant { .. } => "called",
        PromptMessage::Tool { .. } => "result",
    };
    prompt.messages.iter().map(kind).collect()
}

fn results(prompt: &Prompt) -> Vec<String> {
    let results = prompt.messages.iter().filter_map(|message| match message {
        PromptMessage::Tool { text, .. } => Some(text.clone()),
        _ => None,
    });
    results.collect()
}

#[test]
fn every_call_is_followed_by_its_own_result_in_the_words_of_its_state() {
    let words = |state| match state {
        State::Pending | State::Approved | State::Executing | State::Superseded => "pending",
        State::Rejected => "denied",
        State::Expired | State::Voided => "expired",
        State::Blocked => "blocked",
        State::Succeeded | State::ResolvedDone => "executed",
        State::Failed | State::ResolvedNotDone => "failed",
        State::Unknown => "outcome unknown",
    };
    let approvals: Vec<_> = (1..)
        .zip(State::ALL)
        .map(|(n, state)| sample::life(n, state).pop().unwrap())
        .collect();
    let mut calls: Vec<_> = approvals.iter().map(sample::asking).collect();
    calls.push(sample::call(
        50,
        CallOutcome::Invalid {
            why: "no".to_owned(),
        },
    ));
    let step = sample::step(1, "I will.", calls.clone());
    let history = sample::history(&[step], &approvals);
    let prompt = built(&history, &sample::turn(TurnState::Running));
    let mut expected = vec!["system", "user", "called"];
    expected.extend(vec!["result"; calls.len()]);
    assert_eq!(kinds(&prompt), expected);
    for (row, told) in approvals.iter().zip(results(&prompt)) {
        assert!(
            told.starts_with(words(row.state)),
            "{:?}: {told}",
            row.state
        );
    }
    let ids = prompt.messages.iter().filter_map(|message| match message {
        PromptMessage::Tool { call, .. } => Some(call.clone()),
        _ => None,
    });
    let wanted: Vec<String> = calls.iter().map(|call| call.call.to_string()).collect();
    assert_eq!(ids.collect::<Vec<_>>(), wanted);
}

#[test]
fn a_call_whose_approval_was_not_read_is_never_called_done_nor_open_to_repeat() {
    let row = sample::approval(1);
    let history = sample::history(&[sample::step(1, "", vec![sample::asking(&row)])], &[]);
    let told = results(&built(&history, &sample::turn(TurnState::Running)));
    assert!(told[0].starts_with("outcome unknown"), "{told:?}");
}

#[test]
fn the_oldest_messages_go_first_and_the_current_one_always_stays() {
    let text = "x".repeat(30 * 1024);
    let mut history = History::default();
    for n in 0..6 {
        let turn = sample::id(u128::from(n) * 2 + 10);
        let answer = sample::id(u128::from(n) * 2 + 11);
        history
            .messages
            .push(sample::said(n * 2 + 1, turn, &format!("{n} {text}")));
        history
            .messages
            .push(sample::answer(n * 2 + 2, turn, answer));
        let step = sample::step(1, &format!("answer {n}"), Vec::new());
        history.steps.push(StepRow {
            turn,
            answer,
            ..step
        });
    }
    let last = history.messages.last().unwrap().turn;
    let turn = TurnRow {
        turn: last,
        ..sample::turn(TurnState::Running)
    };
    let prompt = built(&history, &turn);
    assert_eq!(
        kinds(&prompt),
        ["system", "user", "said", "user", "said", "user", "said"]
    );
    assert!(matches!(&prompt.messages[1], PromptMessage::User(text) if text.starts_with('3')));

    // One message larger than the window is still asked.
    let huge = "y".repeat(200 * 1024);
    let turn = sample::turn(TurnState::Running);
    let mut history = sample::history(&[], &[]);
    history.messages[0] = sample::said(1, sample::id(1), &huge);
    assert_eq!(kinds(&built(&history, &turn)), ["system", "user"]);
}

#[test]
fn replaced_messages_leave_the_prompt() {
    let step = sample::step(1, "old answer", Vec::new());
    let mut history = sample::history(&[step], &[]);
    history
        .messages
        .push(sample::said(3, sample::id(5), "new words"));
    history
        .messages
        .push(sample::answer(4, sample::id(5), sample::id(6)));
    let conversation = "0123456789abcdef0123456789abcdef".parse().unwrap();
    let client = "chat-0001".parse().unwrap();
    let user = "ann".parse().unwrap();
    let mut meta = toshi_core::ConversationRow::new(conversation, client, user, sample::NOW);
    meta.replace(1, 3);
    history.meta = Some(meta);
    let turn = TurnRow {
        turn: sample::id(5),
        ..sample::turn(TurnState::Running)
    };
    let prompt = built(&history, &turn);
    assert_eq!(kinds(&prompt), ["system", "user"]);
    assert!(matches!(&prompt.messages[1], PromptMessage::User(text) if text == "new words"));
}

/// A turn whose call was settled after a newer message was answered.
fn late() -> (History, TurnRow) {
    let row = sample::life(1, State::Succeeded).pop().unwrap();
    let step = sample::step(1, "", vec![sample::asking(&row)]);
    let mut history = sample::history(&[step], &[row]);
    let (newer, newer_answer) = (sample::id(20), sample::id(21));
    history.messages.push(sample::said(3, newer, "hello"));
    history
        .messages
        .push(sample::answer(4, newer, newer_answer));
    let said = sample::step(1, "Hello!", Vec::new());
    history.steps.push(StepRow {
        turn: newer,
        answer: newer_answer,
        ..said
    });
    let continuation = sample::id(22);
    history
        .messages
        .push(sample::answer(5, sample::id(1), continuation));
    let turn = TurnRow {
        answer: continuation,
        answer_seq: 5,
        ..sample::turn(TurnState::Running)
    };
    (history, turn)
}

#[test]
fn a_late_continuation_is_told_which_calls_it_is_about_and_only_once() {
    let (mut history, turn) = late();
    let prompt = built(&history, &turn);
    let Some(PromptMessage::System(note)) = prompt.messages.last() else {
        panic!("{:?}", kinds(&prompt));
    };
    let call: toshi_core::CallId = sample::id(1);
    assert!(
        note.ends_with(&format!("\n- demo__post_message, call {call}")),
        "{note}"
    );
    assert!(
        !note.contains("ok"),
        "a tool's words are no system message: {note}"
    );
    assert!(
        results(&prompt)[0].starts_with("executed. What Demo workspace · post_message answered")
    );
    let own = sample::step(
        2,
        "",
        vec![sample::call(
            60,
            CallOutcome::Invalid {
                why: "no".to_owned(),
            },
        )],
    );
    history.steps.push(StepRow {
        answer: turn.answer,
        ..own
    });
    let prompt = built(&history, &turn);
    assert_eq!(
        kinds(&prompt).last(),
        Some(&"result"),
        "its own step speaks for itself"
    );
    // The turn in its usual place needs no note.
    let row = sample::life(1, State::Succeeded).pop().unwrap();
    let step = sample::step(1, "", vec![sample::asking(&row)]);
    let history = sample::history(&[step], &[row]);
    assert_eq!(
        kinds(&built(&history, &sample::turn(TurnState::Running))),
        ["system", "user", "called", "result"]
    );
}

#[test]
fn a_late_continuation_keeps_its_own_calls_however_much_came_since() {
    let (mut history, turn) = late();
    let huge = "y".repeat(150 * 1024);
    history.messages[2] = sample::said(3, sample::id(20), &huge);
    let prompt = built(&history, &turn);
    assert!(kinds(&prompt).contains(&"called"), "{:?}", kinds(&prompt));
    assert_eq!(json!(kinds(&prompt))[1], "user");
}
