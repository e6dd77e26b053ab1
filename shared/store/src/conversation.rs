//! Conversations: their row, their lease, their messages.

use aws_sdk_dynamodb::types::AttributeValue;
use serde::{Deserialize, Serialize};
use toshi_core::{
    ClientId, ConversationId, ConversationRow, InboxId, InboxRow, LEASE_MS, Lease, MessageAuthor,
    MessageId, MessageRow, Millis, OpenTurn, StepRow, TurnId, TurnRow, TurnState, UserId,
    UserMessageId,
};

use crate::item::{CommitError, Expression, Guard, Range, Transaction, from_item, n, s, to_item};
use crate::keys::{self, Key, prefix};
use crate::sweep::DueKind;
use crate::{School, StoreError};

/// A message that a person sent.
#[derive(Clone, Debug)]
pub struct UserMessage {
    pub id: UserMessageId,
    pub text: String,
    /// It replaces the conversation from this message number on.
    pub replaces_from: Option<u64>,
    /// A known id and text is the same message, unless the person asked for another answer.
    pub again: bool,
}

#[derive(Clone, Debug)]
pub struct NewMessage {
    pub conversation: ConversationId,
    pub client_id: ClientId,
    pub user: UserId,
    pub message: UserMessage,
}

/// What `begin` did with a message.
#[derive(Clone, Debug)]
pub enum Begun {
    /// Message and turn are stored and the lease is ours.
    Started(Box<Begin>),
    /// Someone else is at work: the message waits in the inbox. Its turn will have these ids.
    Queued { turn: TurnId, answer: MessageId },
    /// This message was stored before.
    Known { turn: TurnId, answer: MessageId },
}

#[derive(Clone, Debug)]
pub struct Begin {
    pub meta: ConversationRow,
    pub lease: Lease,
    pub turn: TurnRow,
    pub messages: Vec<MessageRow>,
}

/// How to let go of a lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Release {
    /// Only if nothing has been bumped since it was looked at.
    IfNothingNew,
    /// In any case; what is left is due after so many milliseconds.
    LeaveDue(i64),
}

/// A conversation in its owner's list.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Listed {
    pub client_id: ClientId,
    pub conversation: ConversationId,
    pub title: String,
    pub last_activity: Millis,
}

impl Listed {
    fn place(&self) -> (Millis, &str) {
        (self.last_activity, self.client_id.as_str())
    }

    fn parse_place(text: &str) -> Option<(Millis, &str)> {
        let (at, client) = text.split_once('#')?;
        Some((Millis::from_epoch(at.parse().ok()?), client))
    }
}

#[derive(Debug)]
pub struct ConversationPage {
    pub items: Vec<Listed>,
    pub next: Option<String>,
}

#[derive(Debug, Serialize, Deserialize)]
struct UserMessageRow {
    turn: TurnId,
    answer: MessageId,
}

const LISTED_MAX: usize = 1_000;
const INBOX_READ: usize = 20;
const BEGIN_TRIES: u32 = 20;
const TITLE_CHARS: usize = 80;
/// A deleted conversation's marker stays as long as an audit reader may meet its id.
const TOMBSTONE_S: i64 = 30 * 24 * 3600;

impl School<'_> {
    pub async fn meta(
        &self,
        conversation: &ConversationId,
    ) -> Result<Option<ConversationRow>, StoreError> {
        self.store.get_row(&self.keys().meta(conversation)).await
    }

    pub async fn turn(
        &self,
        conversation: &ConversationId,
        turn: TurnId,
    ) -> Result<Option<TurnRow>, StoreError> {
        self.store
            .get_row(&self.keys().turn(conversation, turn))
            .await
    }

    pub async fn inbox(&self, conversation: &ConversationId) -> Result<Vec<InboxRow>, StoreError> {
        let pk = self.keys().conversation(conversation);
        self.store
            .query(&pk, prefix::INBOX, Range::first(INBOX_READ))
            .await
    }

    /// The turns that are not done, each with its last step and that step's approvals.
    pub async fn open_turns(&self, meta: &ConversationRow) -> Result<Vec<OpenTurn>, StoreError> {
        let conversation = &meta.conversation;
        let keys: Vec<Key> = meta
            .open
            .iter()
            .map(|turn| self.keys().turn(conversation, *turn))
            .collect();
        if keys.is_empty() {
            return Ok(Vec::new());
        }
        let rows = self.store.batch_get(&keys).await?;
        let mut turns: Vec<TurnRow> = rows.into_iter().map(from_item).collect::<Result<_, _>>()?;
        turns.sort_by_key(|row| row.turn);
        let steps: Vec<Key> = turns
            .iter()
            .filter(|row| row.steps > 0)
            .map(|row| self.keys().step(conversation, row.turn, row.steps))
            .collect();
        let steps: Vec<StepRow> = self
            .store
            .batch_get(&steps)
            .await?
            .into_iter()
            .map(from_item)
            .collect::<Result<_, _>>()?;
        let ids: Vec<_> = steps.iter().flat_map(StepRow::approvals).collect();
        let approvals = self.approvals_in(conversation, &ids).await?;
        Ok(turns
            .into_iter()
            .filter(|turn| !turn.is_done())
            .map(|turn| {
                let step = steps.iter().find(|step| step.turn == turn.turn).cloned();
                let ids: Vec<_> = step.iter().flat_map(StepRow::approvals).collect();
                let approvals = approvals
                    .iter()
                    .filter(|row| ids.contains(&row.approval_id))
                    .cloned()
                    .collect();
                OpenTurn {
                    turn,
                    step,
                    approvals,
                }
            })
            .collect())
    }

    /// Stores a message: starts its turn under a new lease if the conversation is free, else puts
    /// it in the inbox. `meta` is the row as the caller read it.
    pub async fn begin(
        &self,
        new: &NewMessage,
        meta: Option<ConversationRow>,
        now: Millis,
    ) -> Result<Begun, StoreError> {
        let mut meta = meta;
        for attempt in 0..BEGIN_TRIES {
            let held = meta.as_ref().is_some_and(|row| row.is_held(now));
            let waits = meta.as_ref().is_some_and(|row| row.due.is_some());
            let inbox = if held || waits {
                self.inbox(&new.conversation).await?
            } else {
                Vec::new()
            };
            let result = match &meta {
                Some(row) if row.deleted_at.is_some() => return Err(StoreError::Deleted),
                // Also behind those that wait though nobody is at work: messages keep their order.
                Some(_) if held || !inbox.is_empty() => self.enqueue(new, &inbox, now).await,
                _ => self.start(new, meta.as_ref(), now).await,
            };
            match result {
                Ok(begun) => return Ok(begun),
                Err(CommitError::Refused(guards)) if guards.contains(&Guard::Message) => {
                    let key = self.keys().user_message(
                        &new.conversation,
                        &new.message.id,
                        &new.message.text,
                    );
                    if let Some(row) = self.store.get_row::<UserMessageRow>(&key).await? {
                        return Ok(Begun::Known {
                            turn: row.turn,
                            answer: row.answer,
                        });
                    }
                }
                Err(CommitError::Refused(_)) => {}
                Err(CommitError::Store(error)) => return Err(error),
            }
            crate::pause(u64::from(attempt) * 3).await;
            meta = self.meta(&new.conversation).await?;
        }
        Err(StoreError::Busy)
    }

    async fn start(
        &self,
        new: &NewMessage,
        meta: Option<&ConversationRow>,
        now: Millis,
    ) -> Result<Begun, CommitError> {
        let fresh;
        let old = match meta {
            Some(row) => row,
            None => {
                let (conversation, client) = (new.conversation.clone(), new.client_id.clone());
                fresh = ConversationRow::new(conversation, client, new.user.clone(), now);
                &fresh
            }
        };
        let turn_id: TurnId = crate::mint(now);
        let (turn, messages) = first_rows(new, turn_id, crate::mint(now), old.next, now);
        let mut row = old.taken(now);
        row.next += 2;
        row.open.push(turn_id);
        if let Some(from) = new.message.replaces_from {
            row.replace(from, old.next);
        }
        let mut transaction = Transaction::new(self.store);
        let unchanged = match meta {
            None => Expression::absent(),
            Some(old) => free(now)
                .and_equals("fence", n(old.fence))
                .and_equals("next", n(old.next)),
        };
        match meta {
            None => {
                transaction.put(Guard::Conversation, self.meta_item(&row)?, Some(unchanged))?;
            }
            Some(_) => {
                let update = self.held_update(&row)?;
                let key = self.keys().meta(&new.conversation);
                transaction.update(Guard::Conversation, &key, update, Some(unchanged))?;
            }
        }
        self.message_parts(&mut transaction, new, &turn, now)?;
        for message in &messages {
            let key = self.keys().message(&new.conversation, message.seq);
            transaction.put(
                Guard::Row,
                to_item(&key, message)?,
                Some(Expression::absent()),
            )?;
        }
        let key = self.keys().turn(&new.conversation, turn_id);
        transaction.put(
            Guard::Row,
            to_item(&key, &turn)?,
            Some(Expression::absent()),
        )?;
        transaction.commit().await?;
        let lease = row.lease();
        Ok(Begun::Started(Box::new(Begin {
            meta: row,
            lease,
            turn,
            messages,
        })))
    }

    async fn enqueue(
        &self,
        new: &NewMessage,
        inbox: &[InboxRow],
        now: Millis,
    ) -> Result<Begun, CommitError> {
        // The same message with another text, not yet looked at: this one takes its place.
        let stale = inbox
            .iter()
            .filter(|row| row.message == new.message.id && row.text != new.message.text);
        let id: InboxId = crate::mint(now);
        let turn_id: TurnId = crate::mint(now);
        let answer: MessageId = crate::mint(now);
        let row = InboxRow {
            inbox: id,
            turn: turn_id,
            answer,
            user: new.user.clone(),
            message: new.message.id.clone(),
            text: new.message.text.clone(),
            at: now,
            replaces_from: new.message.replaces_from,
        };
        let (turn, _) = first_rows(new, turn_id, answer, 0, now);
        let mut transaction = Transaction::new(self.store);
        self.message_parts(&mut transaction, new, &turn, now)?;
        let key = self.keys().inbox(&new.conversation, id);
        transaction.put(Guard::Row, to_item(&key, &row)?, Some(Expression::absent()))?;
        for old in stale {
            transaction.delete(&self.keys().inbox(&new.conversation, old.inbox))?;
            let known = self
                .keys()
                .user_message(&new.conversation, &old.message, &old.text);
            transaction.delete(&known)?;
        }
        self.wake_part(&mut transaction, &new.conversation, None, now)?;
        transaction.commit().await?;
        Ok(Begun::Queued {
            turn: turn_id,
            answer,
        })
    }

    /// The message's idempotency row and its conversation's place in the owner's list.
    fn message_parts(
        &self,
        transaction: &mut Transaction<'_>,
        new: &NewMessage,
        turn: &TurnRow,
        now: Millis,
    ) -> Result<(), StoreError> {
        let key = self
            .keys()
            .user_message(&new.conversation, &new.message.id, &new.message.text);
        let row = UserMessageRow {
            turn: turn.turn,
            answer: turn.answer,
        };
        let condition = (!new.message.again).then(Expression::absent);
        transaction.put(Guard::Message, to_item(&key, &row)?, condition)?;
        let title: String = new.message.text.chars().take(TITLE_CHARS).collect();
        let update = Expression::raw(
            "SET title = if_not_exists(title, :title), client_id = :client, \
             conversation = :conversation, last_activity = :now",
            &[],
            vec![
                (
                    ":title",
                    s(title.split_whitespace().collect::<Vec<_>>().join(" ")),
                ),
                (":client", s(new.client_id.as_str())),
                (":conversation", s(new.conversation.as_str())),
                (":now", n(now.as_epoch())),
            ],
        );
        let key = self.keys().listed_conversation(&new.user, &new.client_id);
        transaction.update(Guard::None, &key, update, None)?;
        Ok(())
    }

    fn meta_item(&self, row: &ConversationRow) -> Result<crate::item::Item, StoreError> {
        let mut item = to_item(&self.keys().meta(&row.conversation), row)?;
        if let Some(until) = row.lease_until {
            item.insert("G1PK".to_owned(), s(self.shard(&row.conversation)));
            item.insert(
                "G1SK".to_owned(),
                s(self.due_sort(&row.conversation, until)),
            );
        }
        Ok(item)
    }

    /// Sets what only a lease holder may set, and the lease itself.
    fn held_update(&self, row: &ConversationRow) -> Result<Expression, StoreError> {
        let until = row.lease_until.unwrap_or(row.created_at);
        Ok(Expression::raw(
            "SET #next = :next, fence = :fence, lease_until = :until, #open = :open, \
             #replaced = :replaced, G1PK = :shard, G1SK = :due",
            &[
                ("#next", "next"),
                ("#open", "open"),
                ("#replaced", "replaced"),
            ],
            vec![
                (":next", n(row.next)),
                (":fence", n(row.fence)),
                (":until", n(until.as_epoch())),
                (":open", list(&row.open)?),
                (":replaced", list(&row.replaced)?),
                (":shard", s(self.shard(&row.conversation))),
                (":due", s(self.due_sort(&row.conversation, until))),
            ],
        ))
    }

    pub(crate) fn shard(&self, conversation: &ConversationId) -> String {
        keys::due_partition(keys::shard_of(conversation))
    }

    pub(crate) fn due_sort(&self, conversation: &ConversationId, due: Millis) -> String {
        keys::due_sort(
            due,
            DueKind::Conversation.as_str(),
            self.tenant,
            conversation,
            "",
        )
    }

    /// Takes the lease if it is free: the row as taken, or `None` if someone holds it or there is
    /// no such conversation.
    pub async fn take(
        &self,
        conversation: &ConversationId,
        now: Millis,
    ) -> Result<Option<(ConversationRow, Lease)>, StoreError> {
        let Some(meta) = self.meta(conversation).await? else {
            return Ok(None);
        };
        if meta.is_held(now) {
            return Ok(None);
        }
        let until = now.plus(LEASE_MS);
        let update = Expression::raw(
            "SET fence = :next, lease_until = :until, G1PK = :shard, G1SK = :due",
            &[],
            vec![
                (":next", n(meta.fence + 1)),
                (":until", n(until.as_epoch())),
                (":shard", s(self.shard(conversation))),
                (":due", s(self.due_sort(conversation, until))),
            ],
        );
        let unchanged = free(now).and_equals("fence", n(meta.fence));
        let key = self.keys().meta(conversation);
        let Some(item) = self.store.update(&key, update, unchanged).await? else {
            return Ok(None);
        };
        let row: ConversationRow = from_item(item)?;
        let lease = row.lease();
        Ok(Some((row, lease)))
    }

    /// Prolongs the lease; `None` if it is no longer ours.
    pub async fn renew(
        &self,
        conversation: &ConversationId,
        fence: u64,
        now: Millis,
    ) -> Result<Option<Millis>, StoreError> {
        let until = now.plus(LEASE_MS);
        let update = Expression::raw(
            "SET lease_until = :until, G1PK = :shard, G1SK = :due",
            &[],
            vec![
                (":until", n(until.as_epoch())),
                (":shard", s(self.shard(conversation))),
                (":due", s(self.due_sort(conversation, until))),
            ],
        );
        let key = self.keys().meta(conversation);
        let ours = Expression::raw(
            "fence = :ours AND attribute_exists(lease_until)",
            &[],
            vec![(":ours", n(fence))],
        );
        let item = self.store.update(&key, update, ours).await?;
        Ok(item.map(|_| until))
    }

    /// Lets go of the lease. `false`: the condition did not hold (something new, or not ours).
    pub async fn release(
        &self,
        conversation: &ConversationId,
        lease: &Lease,
        how: Release,
        now: Millis,
    ) -> Result<bool, StoreError> {
        let ours = Expression::equals("fence", n(lease.fence));
        let (update, condition) = match how {
            Release::IfNothingNew => (
                Expression::raw("REMOVE lease_until, G1PK, G1SK", &[], Vec::new()),
                ours.and_equals("wake", n(lease.seen)),
            ),
            Release::LeaveDue(after) => (
                Expression::raw(
                    "SET G1PK = :shard, G1SK = :due REMOVE lease_until",
                    &[],
                    vec![
                        (":shard", s(self.shard(conversation))),
                        (":due", s(self.due_sort(conversation, now.plus(after)))),
                    ],
                ),
                ours,
            ),
        };
        let key = self.keys().meta(conversation);
        Ok(self.store.update(&key, update, condition).await?.is_some())
    }

    /// The owner's conversations, last used first. A page begins after a place in time, so that
    /// one which was used or deleted since does not end the list.
    pub async fn conversations(
        &self,
        user: &UserId,
        after: Option<&str>,
        limit: usize,
    ) -> Result<ConversationPage, StoreError> {
        let pk = self.keys().user_conversations(user);
        let mut rows: Vec<Listed> = self
            .store
            .query(&pk, prefix::CONVERSATION, Range::first(LISTED_MAX))
            .await?;
        rows.sort_by(|a, b| b.place().cmp(&a.place()));
        if let Some(cursor) = after {
            match Listed::parse_place(cursor) {
                Some(place) => rows.retain(|row| row.place() < place),
                None => rows.clear(),
            }
        }
        let more = rows.len() > limit;
        rows.truncate(limit);
        let next = rows.last().filter(|_| more).map(|row| {
            let (at, client) = row.place();
            format!("{}#{client}", at.as_epoch())
        });
        Ok(ConversationPage { items: rows, next })
    }

    /// Removes a conversation's contents under its lease. Approvals and audit records stay: they
    /// are the school's record of what was asked and done. A message that comes meanwhile goes
    /// with the rest.
    pub async fn erase_conversation(
        &self,
        meta: &ConversationRow,
        lease: &Lease,
        now: Millis,
    ) -> Result<(), StoreError> {
        for _ in 0..BEGIN_TRIES {
            let row = self.meta(&meta.conversation).await?;
            let row = row.filter(|row| row.fence == lease.fence);
            let row = row.ok_or(StoreError::Conflict)?;
            if row.deleted_at.is_some() {
                return Ok(());
            }
            self.erase_contents(&row).await?;
            match self.bury(&row, now).await {
                // Something was written after it had been looked for, or the lease is lost.
                Err(CommitError::Refused(_)) => {}
                result => return result.map_err(CommitError::into_store),
            }
        }
        Err(StoreError::Busy)
    }

    async fn erase_contents(&self, meta: &ConversationRow) -> Result<(), StoreError> {
        let pk = self.keys().conversation(&meta.conversation);
        let table = &self.store.config.table;
        let key = self.keys().meta(&meta.conversation);
        let ours = Expression::equals("fence", n(meta.fence));
        for part in [
            "SUMMARY",
            prefix::MESSAGE,
            prefix::STEP,
            prefix::INBOX,
            "R#",
            "TURN#",
            "UM#",
        ] {
            loop {
                let items = self
                    .store
                    .query_in(table, &pk, part, Range::first(25))
                    .await?;
                if items.is_empty() {
                    break;
                }
                let mut transaction = Transaction::new(self.store);
                transaction.check(Guard::Conversation, &key, ours.clone())?;
                for item in &items {
                    if let Some(sk) = item.get("SK").and_then(|sk| sk.as_s().ok()) {
                        transaction.delete(&Key {
                            pk: pk.clone(),
                            sk: sk.clone(),
                        })?;
                    }
                }
                transaction
                    .commit()
                    .await
                    .map_err(CommitError::into_store)?;
            }
        }
        Ok(())
    }

    /// Leaves the marker of a deleted conversation, if nothing has come since `meta` was read.
    async fn bury(&self, meta: &ConversationRow, now: Millis) -> Result<(), CommitError> {
        let mut transaction = Transaction::new(self.store);
        let listed = self.keys().listed_conversation(&meta.user, &meta.client_id);
        transaction.delete(&listed)?;
        let update = Expression::raw(
            "SET deleted_at = :now, #open = :none, #ttl = :ttl REMOVE lease_until, G1PK, G1SK",
            &[("#open", "open"), ("#ttl", "ttl")],
            vec![
                (":now", n(now.as_epoch())),
                (":none", AttributeValue::L(Vec::new())),
                (":ttl", n(now.as_epoch_seconds() + TOMBSTONE_S)),
            ],
        );
        let unchanged = Expression::equals("fence", n(meta.fence)).and_equals("wake", n(meta.wake));
        let key = self.keys().meta(&meta.conversation);
        transaction.update(Guard::Conversation, &key, update, Some(unchanged))?;
        transaction.commit().await
    }
}

/// Nobody holds the lease, and the conversation was not deleted.
fn free(now: Millis) -> Expression {
    Expression::raw(
        "(NOT lease_until > :free_at) AND (NOT attribute_type(deleted_at, :number))",
        &[],
        vec![(":free_at", n(now.as_epoch())), (":number", s("N"))],
    )
}

pub(crate) fn list<T: Serialize>(rows: &[T]) -> Result<AttributeValue, StoreError> {
    serde_dynamo::to_attribute_value(rows).map_err(StoreError::encode)
}

/// A new turn and its two messages.
pub(crate) fn first_rows(
    new: &NewMessage,
    turn: TurnId,
    answer: MessageId,
    seq: u64,
    now: Millis,
) -> (TurnRow, Vec<MessageRow>) {
    let row = TurnRow {
        turn,
        user: new.user.clone(),
        message: new.message.id.clone(),
        message_seq: seq,
        answer,
        answer_seq: seq + 1,
        state: TurnState::Running,
        steps: 0,
        run_at: now,
        takeovers: 0,
        interrupted_at: None,
        created_at: now,
        seq: 0,
        head: None,
    };
    let author = MessageAuthor::User {
        id: new.message.id.clone(),
        text: new.message.text.clone(),
    };
    let messages = vec![
        MessageRow {
            seq,
            turn,
            author,
            at: now,
            answers: None,
        },
        MessageRow {
            seq: seq + 1,
            turn,
            author: MessageAuthor::Assistant { id: answer },
            at: now,
            answers: None,
        },
    ];
    (row, messages)
}
