//! Items, conditions and transactions over the DynamoDB client.

use std::collections::HashMap;

use aws_sdk_dynamodb::error::SdkError;
use aws_sdk_dynamodb::operation::transact_write_items::TransactWriteItemsError;
use aws_sdk_dynamodb::types::{
    AttributeValue, ConditionCheck, Delete, Put, TransactWriteItem, Update,
};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::keys::Key;
use crate::{Store, StoreError};

pub(crate) type Item = HashMap<String, AttributeValue>;

pub(crate) fn s(text: impl Into<String>) -> AttributeValue {
    AttributeValue::S(text.into())
}

pub(crate) fn n(number: impl ToString) -> AttributeValue {
    AttributeValue::N(number.to_string())
}

/// A row as an item under its key.
pub(crate) fn to_item<T: Serialize>(key: &Key, row: &T) -> Result<Item, StoreError> {
    let mut item: Item = serde_dynamo::to_item(row).map_err(StoreError::encode)?;
    item.extend(key.attributes());
    Ok(item)
}

pub(crate) fn from_item<T: DeserializeOwned>(item: Item) -> Result<T, StoreError> {
    serde_dynamo::from_item(item).map_err(StoreError::decode)
}

/// DynamoDB's own limits, in bytes.
const ITEM_MAX: usize = 400 * 1024;
const TRANSACTION_MAX: usize = 4 * 1024 * 1024;

/// What an item counts for, rounded up where the service's rule is vague.
fn size_of(item: &Item) -> usize {
    item.iter()
        .map(|(name, value)| name.len() + size_of_value(value))
        .sum()
}

fn size_of_value(value: &AttributeValue) -> usize {
    match value {
        AttributeValue::S(text) => text.len(),
        AttributeValue::N(number) => number.len().min(21),
        AttributeValue::B(blob) => blob.as_ref().len(),
        AttributeValue::Ss(texts) => texts.iter().map(String::len).sum(),
        AttributeValue::Ns(numbers) => numbers.iter().map(|number| number.len().min(21)).sum(),
        AttributeValue::Bs(blobs) => blobs.iter().map(|blob| blob.as_ref().len()).sum(),
        AttributeValue::L(values) => {
            3 + values
                .iter()
                .map(|value| 1 + size_of_value(value))
                .sum::<usize>()
        }
        AttributeValue::M(members) => 3 + members.len() + size_of(members),
        _ => 1,
    }
}

fn checked_size(item: &Item) -> Result<usize, StoreError> {
    match size_of(item) {
        size if size > ITEM_MAX => Err(StoreError::TooLarge(size)),
        size => Ok(size),
    }
}

/// A condition or update expression with its placeholders.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Expression {
    text: String,
    names: HashMap<String, String>,
    values: HashMap<String, AttributeValue>,
}

impl Expression {
    pub(crate) fn absent() -> Self {
        Self {
            text: "attribute_not_exists(PK)".to_owned(),
            ..Self::default()
        }
    }

    pub(crate) fn missing(name: &str) -> Self {
        let mut expression = Self::default();
        let name = expression.name(name);
        expression.text = format!("attribute_not_exists({name})");
        expression
    }

    pub(crate) fn equals(name: &str, value: AttributeValue) -> Self {
        Self::default().and_equals(name, value)
    }

    pub(crate) fn and_equals(self, name: &str, value: AttributeValue) -> Self {
        self.and(name, "=", value)
    }

    pub(crate) fn and(mut self, name: &str, operator: &str, value: AttributeValue) -> Self {
        let name = self.name(name);
        let value = self.value(value);
        let joint = if self.text.is_empty() { "" } else { " AND " };
        self.text = format!("{}{joint}{name} {operator} {value}", self.text);
        self
    }

    /// Text with `#name` and `:value` placeholders of the caller's.
    pub(crate) fn raw(
        text: &str,
        names: &[(&str, &str)],
        values: Vec<(&str, AttributeValue)>,
    ) -> Self {
        Self {
            text: text.to_owned(),
            names: names
                .iter()
                .map(|(k, v)| ((*k).to_owned(), (*v).to_owned()))
                .collect(),
            values: values.into_iter().map(|(k, v)| (k.to_owned(), v)).collect(),
        }
    }

    fn name(&mut self, name: &str) -> String {
        let placeholder = format!("#c{}", self.names.len());
        self.names.insert(placeholder.clone(), name.to_owned());
        placeholder
    }

    fn value(&mut self, value: AttributeValue) -> String {
        let placeholder = format!(":c{}", self.values.len());
        self.values.insert(placeholder.clone(), value);
        placeholder
    }

    fn names(&self) -> Option<HashMap<String, String>> {
        (!self.names.is_empty()).then(|| self.names.clone())
    }

    fn values(&self) -> Option<HashMap<String, AttributeValue>> {
        (!self.values.is_empty()).then(|| self.values.clone())
    }
}

/// What a part of a transaction guards; a refused commit names the guards that failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Guard {
    /// The row that is changed has moved on.
    Row,
    /// The conversation's fence, lease or `wake`, or that it is not deleted.
    Conversation,
    Connection,
    /// The tool as it was reviewed.
    Tool,
    Kill,
    /// An identical call's outcome is unknown.
    Unknown,
    /// The message was stored before.
    Message,
    /// An audit record with this number exists.
    Audit,
    /// Parts without a condition.
    None,
}

/// Why a commit did not happen.
#[derive(Debug)]
pub(crate) enum CommitError {
    /// Conditions that did not hold.
    Refused(Vec<Guard>),
    Store(StoreError),
}

impl From<StoreError> for CommitError {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

impl CommitError {
    /// For callers whose transaction holds no guard that they could act on.
    pub(crate) fn into_store(self) -> StoreError {
        match self {
            Self::Refused(_) => StoreError::Conflict,
            Self::Store(error) => error,
        }
    }
}

/// One all-or-nothing write.
#[derive(Debug)]
pub(crate) struct Transaction<'a> {
    store: &'a Store,
    items: Vec<TransactWriteItem>,
    guards: Vec<Guard>,
    bytes: usize,
    checked: Vec<(Key, Expression)>,
    /// Guards of checks that cannot all hold.
    contradicted: Vec<Guard>,
}

/// DynamoDB's own limit.
const MAX_ITEMS: usize = 100;
/// Tries at a commit that met another transaction on the same items.
const CONFLICT_TRIES: u32 = 12;

impl<'a> Transaction<'a> {
    pub(crate) fn new(store: &'a Store) -> Self {
        Self {
            store,
            items: Vec::new(),
            guards: Vec::new(),
            bytes: 0,
            checked: Vec::new(),
            contradicted: Vec::new(),
        }
    }

    pub(crate) fn put(
        &mut self,
        guard: Guard,
        item: Item,
        condition: Option<Expression>,
    ) -> Result<&mut Self, StoreError> {
        self.put_in(&self.store.config.table.clone(), guard, item, condition)
    }

    pub(crate) fn put_audit(&mut self, item: Item) -> Result<&mut Self, StoreError> {
        let table = self.store.config.audit_table.clone();
        self.put_in(&table, Guard::Audit, item, Some(Expression::absent()))
    }

    fn put_in(
        &mut self,
        table: &str,
        guard: Guard,
        item: Item,
        condition: Option<Expression>,
    ) -> Result<&mut Self, StoreError> {
        self.bytes += checked_size(&item)?;
        let condition = condition.unwrap_or_default();
        let put = Put::builder()
            .table_name(table)
            .set_item(Some(item))
            .set_condition_expression((!condition.text.is_empty()).then(|| condition.text.clone()))
            .set_expression_attribute_names(condition.names())
            .set_expression_attribute_values(condition.values())
            .build()
            .map_err(StoreError::encode)?;
        Ok(self.push(guard, TransactWriteItem::builder().put(put).build()))
    }

    pub(crate) fn update(
        &mut self,
        guard: Guard,
        key: &Key,
        update: Expression,
        condition: Option<Expression>,
    ) -> Result<&mut Self, StoreError> {
        let condition = condition.unwrap_or_default();
        let mut names = update.names.clone();
        names.extend(condition.names.clone());
        let mut values = update.values.clone();
        values.extend(condition.values.clone());
        let update = Update::builder()
            .table_name(&self.store.config.table)
            .set_key(Some(key.attributes()))
            .update_expression(update.text)
            .set_condition_expression((!condition.text.is_empty()).then(|| condition.text.clone()))
            .set_expression_attribute_names((!names.is_empty()).then_some(names))
            .set_expression_attribute_values((!values.is_empty()).then_some(values))
            .build()
            .map_err(StoreError::encode)?;
        Ok(self.push(guard, TransactWriteItem::builder().update(update).build()))
    }

    pub(crate) fn delete(&mut self, key: &Key) -> Result<&mut Self, StoreError> {
        let delete = Delete::builder()
            .table_name(&self.store.config.table)
            .set_key(Some(key.attributes()))
            .build()
            .map_err(StoreError::encode)?;
        Ok(self.push(
            Guard::None,
            TransactWriteItem::builder().delete(delete).build(),
        ))
    }

    /// Requires a condition of a row that is not written. The service takes one operation a row:
    /// the same check twice is one, and two different ones are two versions of the row, of which
    /// at most one is true.
    pub(crate) fn check(
        &mut self,
        guard: Guard,
        key: &Key,
        condition: Expression,
    ) -> Result<&mut Self, StoreError> {
        if let Some((_, known)) = self.checked.iter().find(|(checked, _)| checked == key) {
            if *known != condition {
                self.contradicted.push(guard);
            }
            return Ok(self);
        }
        self.checked.push((key.clone(), condition.clone()));
        let check = ConditionCheck::builder()
            .table_name(&self.store.config.table)
            .set_key(Some(key.attributes()))
            .condition_expression(&condition.text)
            .set_expression_attribute_names(condition.names())
            .set_expression_attribute_values(condition.values())
            .build()
            .map_err(StoreError::encode)?;
        Ok(self.push(
            guard,
            TransactWriteItem::builder().condition_check(check).build(),
        ))
    }

    fn push(&mut self, guard: Guard, item: TransactWriteItem) -> &mut Self {
        self.items.push(item);
        self.guards.push(guard);
        self
    }

    /// Commits. A conflict with another transaction, also one met by a condition check, says
    /// nothing about the rows: it is tried again with jitter and never read as a refusal.
    pub(crate) async fn commit(self) -> Result<(), CommitError> {
        if self.items.len() > MAX_ITEMS {
            return Err(StoreError::TooManyItems(self.items.len()).into());
        }
        if self.bytes > TRANSACTION_MAX {
            return Err(StoreError::TooLarge(self.bytes).into());
        }
        if !self.contradicted.is_empty() {
            return Err(CommitError::Refused(self.contradicted));
        }
        let mut pauses = Pauses::new();
        let mut token = fresh_token();
        for _ in 0..CONFLICT_TRIES {
            let result = self
                .store
                .db
                .transact_write_items()
                .set_transact_items(Some(self.items.clone()))
                .client_request_token(&token)
                .send()
                .await;
            let Err(error) = result else { return Ok(()) };
            match self.failure(&error) {
                Failure::Refused(guards) => return Err(CommitError::Refused(guards)),
                Failure::NotDone => token = fresh_token(),
                // Under its own token the service tells whether it was done; under a new one its
                // own success would look like another writer's.
                Failure::Unclear => {}
                Failure::Other => return Err(StoreError::aws(error).into()),
            }
            pauses.next().await;
        }
        Err(StoreError::Busy.into())
    }

    fn failure(&self, error: &SdkError<TransactWriteItemsError>) -> Failure {
        let Some(service) = error.as_service_error() else {
            return Failure::Other;
        };
        if service.is_transaction_in_progress_exception() {
            return Failure::Unclear;
        }
        let TransactWriteItemsError::TransactionCanceledException(cancelled) = service else {
            return Failure::Other;
        };
        let codes: Vec<&str> = cancelled
            .cancellation_reasons()
            .iter()
            .map(|reason| reason.code().unwrap_or("None"))
            .collect();
        let failed: Vec<Guard> = codes
            .iter()
            .zip(&self.guards)
            .filter(|(code, _)| **code == "ConditionalCheckFailed")
            .map(|(_, guard)| *guard)
            .collect();
        if !failed.is_empty() {
            Failure::Refused(failed)
        } else if codes.iter().any(|code| NOT_DONE.contains(code)) {
            Failure::NotDone
        } else {
            Failure::Other
        }
    }
}

/// Why one try at a transaction failed.
enum Failure {
    /// Conditions that did not hold.
    Refused(Vec<Guard>),
    /// The service was busy with these rows; nothing was written.
    NotDone,
    /// An earlier try of the same may still be written.
    Unclear,
    Other,
}

/// Reasons of a cancelled transaction that say nothing about the rows.
const NOT_DONE: [&str; 3] = [
    "TransactionConflict",
    "ThrottlingError",
    "ProvisionedThroughputExceeded",
];

fn fresh_token() -> String {
    format!("{:032x}", rand::random::<u128>())
}

/// Growing waits between tries at rows that others change at the same time.
struct Pauses(u64);

impl Pauses {
    const fn new() -> Self {
        Self(4)
    }

    async fn next(&mut self) {
        crate::pause(self.0).await;
        self.0 = (self.0 * 2).min(250);
    }
}

impl Store {
    pub(crate) async fn get(&self, key: &Key) -> Result<Option<Item>, StoreError> {
        let output = self
            .db
            .get_item()
            .table_name(&self.config.table)
            .set_key(Some(key.attributes()))
            .consistent_read(true)
            .send()
            .await
            .map_err(StoreError::aws)?;
        Ok(output.item)
    }

    pub(crate) async fn get_row<T: DeserializeOwned>(
        &self,
        key: &Key,
    ) -> Result<Option<T>, StoreError> {
        self.get(key).await?.map(from_item).transpose()
    }

    pub(crate) async fn put(
        &self,
        item: Item,
        condition: Option<Expression>,
    ) -> Result<bool, StoreError> {
        checked_size(&item)?;
        let condition = condition.unwrap_or_default();
        let mut pauses = Pauses::new();
        for _ in 0..CONFLICT_TRIES {
            let result = self
                .db
                .put_item()
                .table_name(&self.config.table)
                .set_item(Some(item.clone()))
                .set_condition_expression(
                    (!condition.text.is_empty()).then(|| condition.text.clone()),
                )
                .set_expression_attribute_names(condition.names())
                .set_expression_attribute_values(condition.values())
                .send()
                .await;
            let Err(error) = result else { return Ok(true) };
            match error.as_service_error() {
                Some(service) if service.is_conditional_check_failed_exception() => {
                    return Ok(false);
                }
                Some(service) if service.is_transaction_conflict_exception() => {}
                _ => return Err(StoreError::aws(error)),
            }
            pauses.next().await;
        }
        Err(StoreError::Busy)
    }

    /// Updates one row; `None` if the condition did not hold, else the row as it is now.
    pub(crate) async fn update(
        &self,
        key: &Key,
        update: Expression,
        condition: Expression,
    ) -> Result<Option<Item>, StoreError> {
        let mut names = update.names.clone();
        names.extend(condition.names.clone());
        let mut values = update.values.clone();
        values.extend(condition.values.clone());
        let mut pauses = Pauses::new();
        for _ in 0..CONFLICT_TRIES {
            let result = self
                .db
                .update_item()
                .table_name(&self.config.table)
                .set_key(Some(key.attributes()))
                .update_expression(&update.text)
                .set_condition_expression(
                    (!condition.text.is_empty()).then(|| condition.text.clone()),
                )
                .set_expression_attribute_names((!names.is_empty()).then(|| names.clone()))
                .set_expression_attribute_values((!values.is_empty()).then(|| values.clone()))
                .return_values(aws_sdk_dynamodb::types::ReturnValue::AllNew)
                .send()
                .await;
            let error = match result {
                Ok(output) => return Ok(Some(output.attributes.unwrap_or_default())),
                Err(error) => error,
            };
            match error.as_service_error() {
                Some(service) if service.is_conditional_check_failed_exception() => {
                    return Ok(None);
                }
                Some(service) if service.is_transaction_conflict_exception() => {}
                _ => return Err(StoreError::aws(error)),
            }
            pauses.next().await;
        }
        Err(StoreError::Busy)
    }

    /// Rows of one partition whose sort key has a prefix, at most `limit`, strongly read.
    pub(crate) async fn query<T: DeserializeOwned>(
        &self,
        pk: &str,
        prefix: &str,
        range: Range<'_>,
    ) -> Result<Vec<T>, StoreError> {
        self.query_in(&self.config.table, pk, prefix, range)
            .await?
            .into_iter()
            .map(from_item)
            .collect()
    }

    pub(crate) async fn query_in(
        &self,
        table: &str,
        pk: &str,
        prefix: &str,
        range: Range<'_>,
    ) -> Result<Vec<Item>, StoreError> {
        let mut items = Vec::new();
        let mut from = range.after.map(|key| key.attributes());
        loop {
            let left = range.limit.saturating_sub(items.len());
            if left == 0 {
                return Ok(items);
            }
            let request = self
                .db
                .query()
                .table_name(table)
                .consistent_read(true)
                .expression_attribute_values(":pk", s(pk));
            // A key condition may not compare with the empty text.
            let request = if prefix.is_empty() {
                request.key_condition_expression("PK = :pk")
            } else {
                request
                    .key_condition_expression("PK = :pk AND begins_with(SK, :prefix)")
                    .expression_attribute_values(":prefix", s(prefix))
            };
            let output = request
                .scan_index_forward(range.ascending)
                .limit(i32::try_from(left).unwrap_or(i32::MAX))
                .set_exclusive_start_key(from)
                .send()
                .await
                .map_err(StoreError::aws)?;
            items.extend(output.items.unwrap_or_default());
            match output.last_evaluated_key {
                Some(key) if !key.is_empty() => from = Some(key),
                _ => return Ok(items),
            }
        }
    }

    /// Reads keys, strongly; each once, in no order, and absent ones are left out.
    pub(crate) async fn batch_get(&self, keys: &[Key]) -> Result<Vec<Item>, StoreError> {
        let mut items = Vec::new();
        let mut keys = keys.to_vec();
        keys.sort_unstable();
        keys.dedup();
        for part in keys.chunks(MAX_ITEMS) {
            let mut wanted: Vec<Item> = part.iter().map(Key::attributes).collect();
            let mut pauses = Pauses::new();
            while !wanted.is_empty() {
                let request = aws_sdk_dynamodb::types::KeysAndAttributes::builder()
                    .set_keys(Some(wanted))
                    .consistent_read(true)
                    .build()
                    .map_err(StoreError::encode)?;
                let output = self
                    .db
                    .batch_get_item()
                    .request_items(&self.config.table, request)
                    .send()
                    .await
                    .map_err(StoreError::aws)?;
                let mut responses = output.responses.unwrap_or_default();
                items.extend(responses.remove(&self.config.table).unwrap_or_default());
                wanted = output
                    .unprocessed_keys
                    .and_then(|mut keys| keys.remove(&self.config.table))
                    .map(|keys| keys.keys)
                    .unwrap_or_default();
                if !wanted.is_empty() {
                    pauses.next().await;
                }
            }
        }
        Ok(items)
    }
}

/// Which part of a partition a query reads.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Range<'a> {
    pub(crate) ascending: bool,
    pub(crate) limit: usize,
    pub(crate) after: Option<&'a Key>,
}

impl Range<'_> {
    pub(crate) const fn first(limit: usize) -> Self {
        Range {
            ascending: true,
            limit,
            after: None,
        }
    }

    pub(crate) const fn last(limit: usize) -> Self {
        Range {
            ascending: false,
            limit,
            after: None,
        }
    }
}
