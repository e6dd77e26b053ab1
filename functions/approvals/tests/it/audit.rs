use std::collections::HashMap;

use aws_sdk_dynamodb::types::AttributeValue;
use serde_json::{Value, json};
use toshi_core::Subject;
use toshi_test_support::{Asked, Question};

use crate::desk::{Desk, decision_path};

type Item = HashMap<String, AttributeValue>;

/// A decided approval: two records.
async fn decided(desk: &Desk) -> Asked {
    let asked = desk.ask("ann").await;
    let approve = json!({ "decision": "approve" });
    desk.post("ann", &decision_path(&asked), &approve)
        .await
        .ok();
    asked
}

fn key(subject: Subject, seq: u64) -> Item {
    let pk = format!("T#lakeside#{subject}");
    HashMap::from([
        ("PK".to_owned(), AttributeValue::S(pk)),
        ("SK".to_owned(), AttributeValue::S(format!("{seq:010}"))),
    ])
}

fn chain(asked: &Asked) -> Subject {
    Subject::Approval(asked.approval.approval_id)
}

/// What no function may do, and a thief with the table's rights could.
async fn read(desk: &Desk, subject: Subject, seq: u64) -> Item {
    let output = desk
        .stage
        .db
        .get_item()
        .table_name(&desk.stage.audit_table)
        .set_key(Some(key(subject, seq)))
        .send()
        .await
        .unwrap();
    output.item.expect("the record exists")
}

async fn write(desk: &Desk, item: Item) {
    desk.stage
        .db
        .put_item()
        .table_name(&desk.stage.audit_table)
        .set_item(Some(item))
        .send()
        .await
        .unwrap();
}

async fn delete(desk: &Desk, subject: Subject, seq: u64) {
    desk.stage
        .db
        .delete_item()
        .table_name(&desk.stage.audit_table)
        .set_key(Some(key(subject, seq)))
        .send()
        .await
        .unwrap();
}

async fn verify(desk: &Desk, asked: &Asked) -> Value {
    let id = asked.approval.approval_id;
    let one = desk
        .get("zoe", &format!("/audit/verify?approval={id}"))
        .await
        .ok();
    let mut all = verify_school(desk).await;
    all["next"] = Value::Null;
    assert_eq!(one, all, "the school has this approval only");
    one
}

/// Part after part, up to the first bad record; how much was checked in all.
async fn verify_school(desk: &Desk) -> Value {
    let mut path = "/audit/verify".to_owned();
    let mut checked = 0;
    // More parts than any of these tests needs: the walk has an end.
    for _ in 0..20 {
        let mut part = desk.get("zoe", &path).await.ok();
        checked += part["checked"].as_u64().unwrap();
        part["checked"] = checked.into();
        let next = part["next"].as_str().map(ToOwned::to_owned);
        match next {
            Some(next) if part["ok"] == true => path = format!("/audit/verify?cursor={next}"),
            _ => return part,
        }
    }
    panic!("the check does not end");
}

#[track_caller]
fn assert_bad(verdict: &Value, asked: &Asked, seq: u64, problem: &str) {
    let bad = json!({
        "subject": asked.approval.approval_id,
        "seq": seq,
        "problem": problem,
    });
    assert_eq!(verdict["ok"], false, "{verdict}");
    assert_eq!(verdict["first_bad"], bad, "{verdict}");
}

#[tokio::test]
async fn whole_records_verify() {
    let desk = Desk::open().await;
    let asked = decided(&desk).await;
    assert_eq!(
        verify(&desk, &asked).await,
        json!({
            "ok": true, "sealed_to": null, "checked": 2, "first_bad": null, "next": null,
        })
    );
}

#[tokio::test]
async fn an_altered_record_is_found() {
    let desk = Desk::open().await;
    let asked = decided(&desk).await;
    let mut item = read(&desk, chain(&asked), 2).await;
    let Some(AttributeValue::M(detail)) = item.get_mut("detail") else {
        panic!("{item:?}");
    };
    detail.insert("answer".to_owned(), AttributeValue::S("reject".to_owned()));
    write(&desk, item).await;
    assert_bad(&verify(&desk, &asked).await, &asked, 2, "altered");
}

#[tokio::test]
async fn a_deleted_record_is_found_in_the_middle_and_at_the_end() {
    let desk = Desk::open().await;
    let asked = decided(&desk).await;
    let last = read(&desk, chain(&asked), 2).await;
    delete(&desk, chain(&asked), 2).await;
    assert_bad(&verify(&desk, &asked).await, &asked, 2, "missing");
    write(&desk, last).await;
    delete(&desk, chain(&asked), 1).await;
    assert_bad(&verify(&desk, &asked).await, &asked, 1, "missing");
    delete(&desk, chain(&asked), 2).await;
    assert_bad(&verify(&desk, &asked).await, &asked, 1, "missing");
}

#[tokio::test]
async fn records_in_another_order_are_found() {
    let desk = Desk::open().await;
    let asked = decided(&desk).await;
    let (mut one, mut two) = (
        read(&desk, chain(&asked), 1).await,
        read(&desk, chain(&asked), 2).await,
    );
    let (first, second) = (one["SK"].clone(), two["SK"].clone());
    one.insert("SK".to_owned(), second);
    two.insert("SK".to_owned(), first);
    write(&desk, one).await;
    write(&desk, two).await;
    let verdict = verify(&desk, &asked).await;
    assert_eq!(verdict["ok"], false, "{verdict}");
}

#[tokio::test]
async fn a_school_is_checked_to_its_end_and_the_oldest_request_too() {
    let desk = Desk::open().await;
    let oldest = desk.ask("ann").await;
    for n in 0..101 {
        let question = Question {
            conversation: format!("chat-{n:04}"),
            ..Question::of("ann")
        };
        desk.stage.ask(&desk.lakeside, &question).await;
    }
    let whole = verify_school(&desk).await;
    assert_eq!(
        (&whole["ok"], &whole["checked"]),
        (&json!(true), &json!(102))
    );
    delete(&desk, chain(&oldest), 1).await;
    assert_eq!(desk.get("zoe", "/audit/verify").await.ok()["ok"], true);
    assert_bad(&verify_school(&desk).await, &oldest, 1, "missing");
}

#[tokio::test]
async fn reads_and_refused_answers_are_checked_too() {
    let desk = Desk::open().await;
    let asked = decided(&desk).await;
    let reject = json!({ "decision": "reject" });
    desk.post("tom", &decision_path(&asked), &reject)
        .await
        .problem(403, "not_yours");
    let turn = desk
        .stage
        .read(&desk.lakeside, &Question::of("ann"), 3)
        .await;
    let whole = verify_school(&desk).await;
    let counted = json!(2 + 1 + 3);
    assert_eq!((&whole["ok"], &whole["checked"]), (&json!(true), &counted));

    let reads = Subject::Turn(turn.turn);
    for seq in [1, 2, 3] {
        let record = read(&desk, reads, seq).await;
        delete(&desk, reads, seq).await;
        let bad = json!({ "subject": turn.turn, "seq": seq, "problem": "missing" });
        assert_eq!(verify_school(&desk).await["first_bad"], bad);
        let mut altered = record.clone();
        altered.insert("tool".to_owned(), AttributeValue::S("other".to_owned()));
        write(&desk, altered).await;
        let bad = json!({ "subject": turn.turn, "seq": seq, "problem": "altered" });
        assert_eq!(verify_school(&desk).await["first_bad"], bad);
        write(&desk, record).await;
    }
    assert_eq!(verify_school(&desk).await, whole);

    let scanned = desk.stage.db.scan().table_name(&desk.stage.audit_table);
    let items = scanned.send().await.unwrap().items.unwrap();
    let is_refusal = |item: &&Item| item["PK"].as_s().unwrap().contains("#REF#");
    let mut refusal = items.iter().find(is_refusal).unwrap().clone();
    let other = AttributeValue::S("chat".to_owned());
    refusal.insert("how".to_owned(), other);
    write(&desk, refusal).await;
    assert_bad(&verify_school(&desk).await, &asked, 0, "altered");
}

#[tokio::test]
async fn a_school_is_checked_by_its_administrators_with_its_own_cursors_alone() {
    let desk = Desk::open().await;
    desk.ask("ann").await;
    let part = desk.get("zoe", "/audit/verify").await.ok();
    let next = part["next"].as_str().unwrap();
    let path = format!("/audit/verify?cursor={next}");
    desk.get("zoe", &path).await.ok();
    desk.get("eve", &path).await.problem(400, "bad_request");
    desk.get("tom", &path).await.problem(403, "not_allowed");
    for odd in ["", "x", "YXVkaXQudmVyaWZ5Cmxha2VzaWRlCng"] {
        desk.get("zoe", &format!("/audit/verify?cursor={odd}"))
            .await
            .problem(400, "bad_request");
    }
}

#[tokio::test]
async fn a_chain_is_read_oldest_first_in_parts() {
    let desk = Desk::open().await;
    let asked = decided(&desk).await;
    let id = asked.approval.approval_id;
    let whole = desk.get("ann", &format!("/audit?approval={id}")).await.ok();
    let events = |body: &Value| -> Vec<String> {
        let items = body["items"].as_array().unwrap();
        items
            .iter()
            .map(|item| item["event"].as_str().unwrap().to_owned())
            .collect()
    };
    assert_eq!(events(&whole), ["requested", "decided"]);
    assert_eq!(whole["next"], Value::Null);
    let decided = &whole["items"][1];
    assert_eq!(decided["subject"], json!(id));
    assert_eq!(decided["seq"], 2);
    assert_eq!(
        decided["actor"],
        json!({ "kind": "user", "id": "ann", "name": "The admin" })
    );
    assert_eq!(decided["how"], "web");
    assert!(decided["request_id"].is_string());
    assert_eq!(decided["prev"], whole["items"][0]["hash"]);

    let path = format!("/audit?approval={id}&limit=1");
    let first = desk.get("ann", &path).await.ok();
    assert_eq!(events(&first), ["requested"]);
    let next = first["next"].as_str().unwrap();
    let second = desk.get("ann", &format!("{path}&cursor={next}")).await.ok();
    assert_eq!(events(&second), ["decided"]);
    assert_eq!(second["next"], Value::Null);
}

#[tokio::test]
async fn the_schools_records_are_read_newest_first_and_none_is_lost_between_parts() {
    let desk = Desk::open().await;
    for n in 0..4 {
        let question = Question {
            conversation: format!("chat-{n:04}"),
            ..Question::of("ann")
        };
        desk.stage.ask(&desk.lakeside, &question).await;
    }
    let asked = decided(&desk).await;
    desk.post(
        "tom",
        &decision_path(&asked),
        &json!({ "decision": "reject" }),
    )
    .await
    .problem(403, "not_yours");
    let mut walked = Vec::new();
    for limit in [1, 2, 3, 100] {
        let mut found: Vec<Value> = Vec::new();
        let mut cursor = String::new();
        // More parts than records: the walk has an end.
        for _ in 0..20 {
            let path = format!("/audit?limit={limit}{cursor}");
            let page = desk.get("zoe", &path).await.ok();
            found.extend(page["items"].as_array().unwrap().iter().cloned());
            match page["next"].as_str() {
                None => break,
                Some(next) => cursor = format!("&cursor={next}"),
            }
        }
        assert_eq!(found.len(), 7, "five asked, one decided, one refused");
        assert_eq!(found[0]["event"], "refused");
        assert_eq!(found[1]["event"], "decided");
        assert!(found.is_sorted_by(|a, b| a["at"].as_str() >= b["at"].as_str()));
        walked.push(found);
    }
    walked.dedup();
    assert_eq!(walked.len(), 1, "the same whatever the parts");

    let conversation = &asked.approval.conversation;
    for name in [conversation.as_str(), "sample-chat"] {
        let user = if name == "sample-chat" { "ann" } else { "zoe" };
        let page = desk
            .get(user, &format!("/audit?conversation={name}"))
            .await
            .ok();
        let items = page["items"].as_array().unwrap();
        assert_eq!(items.len(), 3, "{name}");
        assert!(
            items
                .iter()
                .all(|item| item["conversation_id"] == conversation.as_str())
        );
    }
}
