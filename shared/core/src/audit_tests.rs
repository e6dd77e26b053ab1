use serde_json::json;

use super::*;
use crate::approval::State;
use crate::sample::{NOW, Stored, id, tenant};

/// Five records: requested, decided, claimed, settled, resolved.
fn chain() -> Stored {
    let stored = Stored::in_state(State::ResolvedDone);
    assert_eq!(stored.records.len(), 5);
    stored
}

fn check(stored: &Stored, records: &[Record]) -> Result<(), (u64, FaultKind)> {
    verify_chain(&stored.subject(), records, Some(&stored.seal())).map_err(|fault| {
        assert_eq!(fault.subject, stored.subject());
        (fault.seq, fault.problem)
    })
}

/// Gives a forged record a hash that fits its contents.
fn rehash(record: &mut Record) {
    record.hash = record.computed_hash().unwrap();
}

#[test]
fn a_chain_verifies_with_and_without_its_seal() {
    let stored = chain();
    assert_eq!(check(&stored, &stored.records), Ok(()));
    assert_eq!(
        verify_chain(&stored.subject(), &stored.records, None),
        Ok(())
    );
    let earlier = Seal {
        seq: 2,
        head: stored.records[1].hash.clone(),
    };
    assert_eq!(
        verify_chain(&stored.subject(), &stored.records, Some(&earlier)),
        Ok(()),
        "what came after the seal is linked"
    );
    assert_eq!(verify_chain(&stored.subject(), &[], None), Ok(()));
}

#[test]
fn an_altered_field_is_named_whichever_it_is() {
    type Forge = fn(&mut Record);
    let forgeries: [(&str, Forge); 16] = [
        ("tenant", |r| {
            r.tenant = TenantId::from_stored("hilltop").unwrap()
        }),
        ("subject", |r| r.subject = "AP#other".to_owned()),
        ("seq", |r| r.seq = 4),
        ("event", |r| r.event = RecordEvent::Read),
        ("at", |r| r.at = r.at.plus(1)),
        ("actor", |r| {
            r.actor = Actor::User {
                id: "bob".parse().unwrap(),
                name: "Bob".to_owned(),
                role: crate::Role::Admin,
            }
        }),
        ("how", |r| r.how = How::Chat),
        ("request", |r| r.request = Some("other".parse().unwrap())),
        ("conversation", |r| r.conversation = None),
        ("turn", |r| r.turn = None),
        ("approval", |r| r.approval = None),
        ("connection", |r| r.connection = None),
        ("tool", |r| r.tool = Some("list_channels".to_owned())),
        ("arguments_hmac", |r| r.arguments_hmac = None),
        ("detail", |r| r.detail = json!({"answer": "reject"})),
        ("prev", |r| r.prev = GENESIS.to_owned()),
    ];
    let stored = chain();
    let fields = serde_json::to_value(&stored.records[2]).unwrap();
    let named: Vec<&str> = forgeries.iter().map(|(name, _)| *name).collect();
    for field in fields.as_object().unwrap().keys() {
        assert!(
            field == "hash" || named.contains(&field.as_str()),
            "{field}"
        );
    }
    for (name, forge) in forgeries {
        let mut records = stored.records.clone();
        forge(&mut records[2]);
        let seq = records[2].seq;
        assert_ne!(records[2], stored.records[2], "{name}");
        assert_eq!(
            check(&stored, &records),
            Err((seq, FaultKind::Altered)),
            "{name}"
        );
    }
}

#[test]
fn a_record_altered_with_its_hash_breaks_the_next_link() {
    let stored = chain();
    let mut records = stored.records.clone();
    records[1].detail = json!({"answer": "reject"});
    rehash(&mut records[1]);
    assert_eq!(check(&stored, &records), Err((3, FaultKind::OutOfPlace)));
}

#[test]
fn a_chain_rewritten_to_its_end_differs_from_its_seal() {
    let stored = chain();
    let mut records = stored.records.clone();
    records[1].detail = json!({"answer": "reject"});
    rehash(&mut records[1]);
    for at in 2..records.len() {
        records[at].prev = records[at - 1].hash.to_string();
        rehash(&mut records[at]);
    }
    assert_eq!(check(&stored, &records), Err((5, FaultKind::Altered)));
    assert_eq!(
        verify_chain(&stored.subject(), &records, None),
        Ok(()),
        "without a seal nobody can tell"
    );
}

#[test]
fn a_deleted_record_is_missing() {
    let stored = chain();
    for at in 0..stored.records.len() {
        let mut records = stored.records.clone();
        let deleted = records.remove(at);
        assert_eq!(
            check(&stored, &records),
            Err((deleted.seq, FaultKind::Missing))
        );
    }
}

#[test]
fn a_cut_tail_is_missing_only_to_who_has_the_seal() {
    let stored = chain();
    for left in 0..stored.records.len() {
        let records = &stored.records[..left];
        assert_eq!(
            check(&stored, records),
            Err((left as u64 + 1, FaultKind::Missing))
        );
        assert_eq!(verify_chain(&stored.subject(), records, None), Ok(()));
    }
}

#[test]
fn a_record_deleted_and_closed_over_differs_from_its_seal() {
    let stored = chain();
    let mut records = stored.records.clone();
    records.remove(2);
    for at in 2..records.len() {
        records[at].seq = at as u64 + 1;
        records[at].prev = records[at - 1].hash.to_string();
        rehash(&mut records[at]);
    }
    assert_eq!(check(&stored, &records), Err((5, FaultKind::Missing)));
}

#[test]
fn an_inserted_record_puts_the_true_one_out_of_place() {
    let stored = chain();
    let mut forged = stored.records[2].clone();
    forged.at = NOW.plus(1);
    rehash(&mut forged);
    let mut records = stored.records.clone();
    records.insert(2, forged);
    assert_eq!(check(&stored, &records), Err((3, FaultKind::OutOfPlace)));

    let mut records = stored.records.clone();
    records.insert(3, stored.records[2].clone());
    assert_eq!(check(&stored, &records), Err((3, FaultKind::OutOfPlace)));
}

#[test]
fn swapped_records_are_out_of_place() {
    let stored = chain();
    for at in 0..stored.records.len() - 1 {
        let mut records = stored.records.clone();
        records.swap(at, at + 1);
        assert_eq!(
            check(&stored, &records),
            Err((at as u64 + 2, FaultKind::OutOfPlace))
        );
    }
}

#[test]
fn a_record_of_another_subject_does_not_count() {
    let stored = chain();
    let other = Subject::Approval(id(2));
    let fault = verify_chain(&other.to_string(), &stored.records, None).unwrap_err();
    assert_eq!((fault.seq, fault.problem), (1, FaultKind::Altered));

    let mut records = stored.records.clone();
    records[3].subject = other.to_string();
    rehash(&mut records[3]);
    assert_eq!(check(&stored, &records), Err((4, FaultKind::Altered)));
}

#[test]
fn a_record_keeps_its_hash_through_storage() {
    for record in chain().records {
        let text = serde_json::to_string(&record).unwrap();
        let back: Record = serde_json::from_str(&text).unwrap();
        assert_eq!(back, record);
        assert_eq!(back.computed_hash(), Some(record.hash));
    }
}

#[test]
fn a_hash_does_not_depend_on_how_a_number_or_a_key_is_written() {
    let record = |detail| {
        let stored = chain();
        let draft = RecordDraft {
            detail,
            ..stored.row.requested(&crate::approval::Cause::system())
        };
        draft.place(&tenant(), Subject::Approval(id(1)), 1, None)
    };
    let one = record(serde_json::from_str(r#"{"b":1,"a":2.0}"#).unwrap());
    let two = record(serde_json::from_str(r#"{"a":2,"b":1e0}"#).unwrap());
    assert_eq!(one.hash, two.hash);
}

#[test]
fn a_record_that_has_no_exact_form_never_verifies() {
    let stored = chain();
    let draft = RecordDraft {
        detail: json!({ "bytes": u64::MAX }),
        ..stored.row.requested(&crate::approval::Cause::system())
    };
    let subject = Subject::Approval(stored.row.approval_id);
    let record = draft.place(&tenant(), subject, 1, None);
    let fault = verify_chain(&subject.to_string(), &[record], None).unwrap_err();
    assert_eq!((fault.seq, fault.problem), (1, FaultKind::Altered));
}

#[test]
fn records_carry_no_contents_and_no_hash_that_could_be_guessed() {
    let stored = chain();
    let text = serde_json::to_string(&stored.records).unwrap();
    let hash = stored.row.arguments.hash().as_str();
    for secret in ["#staff", "\"hi\"", "posted", "I looked", hash] {
        assert!(!text.contains(secret), "{secret}");
    }
}
