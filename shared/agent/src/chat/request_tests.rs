use std::collections::BTreeSet;
use std::path::Path;

use serde_json::{Value, json};

use super::*;

/// What is taken of each recorded request: its intent, and the answers as `yes` and `no`.
const RECORDED: &[(&str, &[&str])] = &[
    ("01-plain.json", &["say cl_0001 \"plain go\""]),
    ("03-read-tool.json", &["say cl_0005 \"read go\""]),
    (
        "05-approve.json",
        &["say cl_0009 \"write go\"", "continue msg_0012: yes"],
    ),
    (
        "06-deny-with-reason.json",
        &[
            "say cl_0012 \"write go\"",
            "continue msg_0016: no (Wrong list)",
        ],
    ),
    (
        "07-mixed-read-and-write.json",
        &["say cl_0015 \"mixed go\"", "continue msg_0020: yes"],
    ),
    (
        "08-two-writes-approve-one-deny-one.json",
        &[
            "say cl_0018 \"twowrites go\"",
            "continue msg_0024: yes, no (No ink)",
        ],
    ),
    ("10-denied-by-policy.json", &["say cl_0024 \"autodeny go\""]),
    ("12-tool-error.json", &["say cl_0028 \"toolerror go\""]),
    ("14-stream-error.json", &["say cl_0032 \"error go\""]),
    ("15-dynamic-tool.json", &["say cl_0034 \"dynamic go\""]),
    (
        "20-next-message-while-pending.json",
        &["say cl_0047 \"write go\"", "say cl_0049 \"plain instead\""],
    ),
    ("21-resume.json", &["say cl_0051 \"slow go\""]),
    ("22-resume-nothing.json", &[]),
    ("25-keep-alive.json", &["say cl_0058 \"slowka go\""]),
    (
        "29-loaded-from-history-then-approved.json",
        &["continue m1: yes"],
    ),
];

/// A recorded body with approval ids as ours are: the recording server had others.
fn with_our_ids(body: &mut Value) {
    let messages = body["messages"].as_array_mut().unwrap();
    let parts = messages
        .iter_mut()
        .flat_map(|message| message["parts"].as_array_mut().unwrap());
    for (n, part) in parts.enumerate() {
        if let Some(approval) = part.get_mut("approval") {
            approval["id"] = json!(format!("01J8Z3N5Q{n:017}"));
        }
    }
}

fn summary(posted: &Posted) -> String {
    let intent = match &posted.intent {
        Intent::Say { id, text, said } => {
            let how = match said {
                Said::Plainly => "",
                Said::InOtherWords => " in other words",
                Said::Again => " again",
            };
            format!("say{how} {id} {text:?}")
        }
        Intent::Regenerate { answer } => format!("regenerate {answer}"),
        Intent::Continue { answer, .. } => format!("continue {answer}"),
    };
    let answers = posted.answers.iter().map(|answer| {
        let word = if answer.approved { "yes" } else { "no" };
        answer
            .reason
            .as_ref()
            .map_or(word.to_owned(), |reason| format!("{word} ({reason})"))
    });
    let answers = answers.collect::<Vec<_>>().join(", ");
    if answers.is_empty() {
        intent
    } else {
        format!("{intent}: {answers}")
    }
}

#[test]
fn every_recorded_request_is_understood() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../events/ai-sdk");
    let files: BTreeSet<String> = std::fs::read_dir(&folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| !name.ends_with(".sse"))
        .collect();
    let known: BTreeSet<String> = RECORDED
        .iter()
        .map(|(file, _)| (*file).to_owned())
        .collect();
    assert_eq!(files, known, "each file has its row");
    for (file, expected) in RECORDED {
        let text = std::fs::read_to_string(folder.join(file)).unwrap();
        let recorded: Value = serde_json::from_str(&text).unwrap();
        let requests = recorded["exchanges"].as_array().unwrap().iter();
        let mut bodies: Vec<Value> = requests
            .map(|exchange| exchange["request"]["body"].clone())
            .filter(|body| !body.is_null())
            .collect();
        let taken: Vec<String> = bodies
            .iter_mut()
            .map(|body| {
                with_our_ids(body);
                let posted = Posted::parse(body).unwrap();
                assert!(!posted.strange_answers, "{file}");
                assert_eq!(posted.client_id.as_str(), body["id"], "{file}");
                summary(&posted)
            })
            .collect();
        assert_eq!(taken, *expected, "{file}");
    }
}

const ID: &str = "01J8Z3N5Q00000000000000001";
const OTHER: &str = "01J8Z3N5Q00000000000000002";

fn body(messages: Value) -> Value {
    json!({ "id": "chat-0001", "messages": messages, "trigger": "submit-message" })
}

fn user(id: &str, text: &str) -> Value {
    json!({ "id": id, "role": "user", "parts": [{ "type": "text", "text": text }] })
}

fn answered(id: &str, approval: &str, approved: bool) -> Value {
    json!({ "id": id, "role": "assistant", "parts": [
        { "type": "step-start" },
        { "type": "dynamic-tool", "toolName": "x", "toolCallId": "c", "input": {},
          "state": "approval-responded", "approval": { "id": approval, "approved": approved } },
    ] })
}

fn taken(body: &Value) -> Result<String, RequestError> {
    Posted::parse(body).map(|posted| summary(&posted))
}

#[test]
fn the_named_message_decides_and_not_the_last_one() {
    let late = [
        answered("a1", ID, true),
        user("u2", "more"),
        user("u3", "and more"),
    ];
    let mut with_answer = body(json!(late));
    assert_eq!(taken(&with_answer).unwrap(), "say u3 \"and more\": yes");
    with_answer["messageId"] = json!("a1");
    assert_eq!(taken(&with_answer).unwrap(), "continue a1: yes");
    with_answer["messageId"] = json!("u2");
    assert_eq!(
        taken(&with_answer).unwrap(),
        "say in other words u2 \"more\": yes"
    );
    // A client that posts only its last message names one that is not there.
    let mut only_new = body(json!([user("u9", "new")]));
    only_new["messageId"] = json!("u0");
    assert_eq!(taken(&only_new).unwrap(), "say u9 \"new\"");
}

#[test]
fn an_answered_card_at_the_end_goes_on_without_a_named_message() {
    assert_eq!(
        taken(&body(json!([answered("a1", ID, false)]))).unwrap(),
        "continue a1: no"
    );
}

#[test]
fn regenerating_is_about_the_named_answer_or_the_last_message() {
    let mut again = body(json!([user("u1", "hi")]));
    again["trigger"] = json!("regenerate-message");
    assert_eq!(taken(&again).unwrap(), "say again u1 \"hi\"");
    again["messageId"] = json!("a1");
    assert_eq!(taken(&again).unwrap(), "regenerate a1");
}

#[test]
fn an_answer_counts_once_and_two_different_ones_refuse_the_request() {
    let twice = json!([answered("a1", ID, true), answered("a2", ID, true)]);
    assert_eq!(taken(&body(twice)).unwrap(), "continue a2: yes");
    let both = json!([answered("a1", ID, true), answered("a2", ID, false)]);
    assert_eq!(
        taken(&body(both)),
        Err(RequestError::Bad(
            "one approval is both approved and rejected"
        ))
    );
    let two = json!([answered("a1", ID, true), answered("a2", OTHER, false)]);
    assert_eq!(taken(&body(two)).unwrap(), "continue a2: yes, no");
}

#[test]
fn only_a_part_that_waits_for_its_outcome_is_an_answer() {
    for state in [
        "output-available",
        "output-denied",
        "approval-requested",
        "input-available",
    ] {
        let mut message = answered("a1", ID, true);
        message["parts"][1]["state"] = json!(state);
        let posted = Posted::parse(&body(json!([message, user("u1", "hi")]))).unwrap();
        assert_eq!(
            (posted.answers, posted.strange_answers),
            (Vec::new(), false),
            "{state}"
        );
    }
}

#[test]
fn answers_that_cannot_be_ours_are_noticed_and_not_taken() {
    let mut rows = vec![answered("a1", "aitxt_0014", true), answered("a1", "", true)];
    let mut unanswered = answered("a1", ID, true);
    unanswered["parts"][1]["approval"] = json!({ "id": ID });
    let mut bare = answered("a1", ID, true);
    bare["parts"][1].as_object_mut().unwrap().remove("approval");
    rows.extend([unanswered, bare]);
    for message in rows {
        let posted = Posted::parse(&body(json!([message]))).unwrap();
        assert_eq!((posted.answers, posted.strange_answers), (Vec::new(), true));
    }
}

#[test]
fn of_too_many_answers_the_newest_are_taken() {
    let ids: Vec<String> = (0..40).map(|n| format!("01J8Z3N5Q{n:017}")).collect();
    let messages: Vec<Value> = ids.iter().map(|id| answered("a1", id, true)).collect();
    let posted = Posted::parse(&body(json!(messages))).unwrap();
    let kept: Vec<String> = posted
        .answers
        .iter()
        .map(|answer| answer.approval.to_string())
        .collect();
    assert_eq!(kept, ids[8..]);
}

#[test]
fn a_reason_is_trimmed_and_bounded() {
    let mut message = answered("a1", ID, false);
    message["parts"][1]["approval"]["reason"] = json!(format!("  {}  ", "ä".repeat(600)));
    let posted = Posted::parse(&body(json!([message]))).unwrap();
    assert_eq!(posted.answers[0].reason, Some("ä".repeat(500)));
    let mut message = answered("a1", ID, false);
    message["parts"][1]["approval"]["reason"] = json!("   ");
    assert_eq!(
        Posted::parse(&body(json!([message]))).unwrap().answers[0].reason,
        None
    );
}

#[test]
fn a_text_of_several_parts_is_one_message_up_to_its_limit() {
    let mut message = user("u1", "one");
    let parts = message["parts"].as_array_mut().unwrap();
    parts.push(json!({ "type": "file", "url": "data:x" }));
    parts.push(json!({ "type": "text", "text": "two" }));
    assert_eq!(
        taken(&body(json!([message]))).unwrap(),
        "say u1 \"one\\ntwo\""
    );
    let full = user("u1", &"x".repeat(MESSAGE_MAX));
    assert!(taken(&body(json!([full]))).is_ok());
    let over = user("u1", &"x".repeat(MESSAGE_MAX + 1));
    let too_large = RequestError::TooLarge {
        size: MESSAGE_MAX + 1,
        limit: MESSAGE_MAX,
    };
    assert_eq!(taken(&body(json!([over]))), Err(too_large));
}

#[test]
fn what_cannot_be_read_is_refused_in_a_sentence() {
    let file = json!([{ "id": "u1", "role": "user", "parts": [{ "type": "file" }] }]);
    let rows = [
        (json!(null), "`id` must name the conversation"),
        (json!({ "id": 7 }), "`id` must name the conversation"),
        (
            json!({ "id": "short" }),
            "`id` must be 8 to 64 letters, digits, - or _",
        ),
        (
            json!({ "id": "chat/../0001" }),
            "`id` must be 8 to 64 letters, digits, - or _",
        ),
        (
            json!({ "id": "chat-0001" }),
            "`messages` must hold at least one message",
        ),
        (body(json!([])), "`messages` must hold at least one message"),
        (
            body(json!("hi")),
            "`messages` must hold at least one message",
        ),
        (body(json!([7])), "`messages` must hold objects"),
        (
            body(json!([user("u1", "hi"), [null]])),
            "`messages` must hold objects",
        ),
        (body(json!([{}])), "there is no user message"),
        (
            body(json!([{ "role": "user", "parts": [] }])),
            "the message has no `id`",
        ),
        (
            body(json!([{ "id": "u1", "role": "user" }])),
            "the message has no `parts`",
        ),
        (body(json!([user("u1", " \n ")])), "the message is empty"),
        (
            body(file),
            "files cannot be sent yet; please write what you need",
        ),
        (
            body(json!([user("", "hi")])),
            "a message's `id` must be 1 to 128 safe characters",
        ),
    ];
    for (body, sentence) in rows {
        assert_eq!(taken(&body), Err(RequestError::Bad(sentence)), "{body}");
    }
    for (name, value, sentence) in [
        (
            "trigger",
            json!("obey"),
            "`trigger` must be submit-message or regenerate-message",
        ),
        (
            "trigger",
            json!(1),
            "`trigger` must be submit-message or regenerate-message",
        ),
        ("messageId", json!(["u1"]), "`messageId` must be text"),
    ] {
        let mut other = body(json!([user("u1", "hi")]));
        other[name] = value;
        assert_eq!(taken(&other), Err(RequestError::Bad(sentence)));
    }
}
