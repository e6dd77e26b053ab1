//! The audit table: records are put once and read, never changed.

use toshi_core::{Millis, Record, RecordDraft, RecordEvent, Sha256Hex, Subject, TurnId};

use crate::item::{CommitError, Item, Range, from_item, s, to_item};
use crate::keys::{Key, Keys};
use crate::{School, StoreError};

/// A page of records and where the next begins.
#[derive(Debug)]
pub struct AuditPage {
    pub records: Vec<Record>,
    pub next: Option<String>,
}

/// A record as an item, in its day's index.
pub(crate) fn record_item(keys: Keys<'_>, key: &Key, record: &Record) -> Result<Item, StoreError> {
    let mut item = to_item(key, record)?;
    item.insert("DAY".to_owned(), s(keys.audit_day(&record.at.day())));
    item.insert(
        "AT".to_owned(),
        // With the subject: two records of one instant must not share a place, or a page that
        // ends between them would skip one.
        s(format!(
            "{:013}#{}#{}",
            record.at.as_epoch(),
            record.subject,
            key.sk
        )),
    );
    Ok(item)
}

const SUBJECT_MAX: usize = 1_000;

impl School<'_> {
    /// All records of one subject, in order.
    pub async fn audit_of(&self, subject: Subject) -> Result<Vec<Record>, StoreError> {
        let pk = self.keys().audit_subject(&subject.to_string());
        let table = &self.store.config.audit_table;
        let items = self
            .store
            .query_in(table, &pk, "", Range::first(SUBJECT_MAX))
            .await?;
        items.into_iter().map(from_item).collect()
    }

    /// Records of a day, newest first, from the index (which may lag a moment).
    pub async fn audit_day(
        &self,
        day: &str,
        before: Option<&str>,
        limit: usize,
    ) -> Result<AuditPage, StoreError> {
        let mut request = self
            .store
            .db
            .query()
            .table_name(&self.store.config.audit_table)
            .index_name("day")
            .expression_attribute_values(":day", s(self.keys().audit_day(day)))
            .expression_attribute_names("#day", "DAY")
            .scan_index_forward(false)
            .limit(i32::try_from(limit).unwrap_or(i32::MAX));
        request = match before {
            Some(at) => request
                .key_condition_expression("#day = :day AND #at < :at")
                .expression_attribute_names("#at", "AT")
                .expression_attribute_values(":at", s(at)),
            None => request.key_condition_expression("#day = :day"),
        };
        let output = request.send().await.map_err(StoreError::aws)?;
        // The service also ends a page at its own size limit: only it knows if there is more.
        let more = output.last_evaluated_key.is_some_and(|key| !key.is_empty());
        let items = output.items.unwrap_or_default();
        let last = items
            .last()
            .and_then(|item| item.get("AT")?.as_s().ok().cloned());
        let next = if more { last } else { None };
        let records = items.into_iter().map(from_item).collect::<Result<_, _>>()?;
        Ok(AuditPage { records, next })
    }

    /// Records an answer that was refused: a stream of its own, so that nobody can make a chain
    /// hot by answering what is not theirs. There is one record for each `key`, however often the
    /// answer is given, in the place of the instant `at`.
    pub async fn record_refusal(
        &self,
        draft: RecordDraft,
        key: &str,
        at: Millis,
    ) -> Result<(), StoreError> {
        let hash = Sha256Hex::of(key.as_bytes());
        let random = hash.as_str().get(..20).unwrap_or_default();
        let random = u128::from_str_radix(random, 16).unwrap_or_default();
        let id = TurnId::new(at, random);
        let ulid = id.to_string();
        let hash = Sha256Hex::of(ulid.as_bytes());
        let shard = hash.as_str().bytes().next().unwrap_or(0);
        let key = self.keys().audit_refusal(shard, &at.day(), &ulid);
        let draft = RecordDraft {
            event: RecordEvent::Refused,
            ..draft
        };
        // A refusal stands alone: its subject is what was answered, its place is its own.
        let subject = match (draft.approval, draft.turn) {
            (Some(approval), _) => Subject::Approval(approval),
            (None, Some(turn)) => Subject::Turn(turn),
            (None, None) => Subject::Turn(id),
        };
        let record = draft.place(self.tenant, subject, 0, None);
        let item = record_item(self.keys(), &key, &record)?;
        let mut transaction = crate::item::Transaction::new(self.store);
        transaction.put_audit(item)?;
        match transaction.commit().await {
            // Refused: it is on record.
            Ok(()) | Err(CommitError::Refused(_)) => Ok(()),
            Err(CommitError::Store(error)) => Err(error),
        }
    }

    pub(crate) fn audit_item(
        &self,
        subject: Subject,
        draft: RecordDraft,
        seq: u64,
        head: Option<&Sha256Hex>,
    ) -> Result<(Item, Sha256Hex), StoreError> {
        let record = draft.place(self.tenant, subject, seq, head);
        let key = self.keys().audit(subject, seq);
        Ok((record_item(self.keys(), &key, &record)?, record.hash))
    }
}
