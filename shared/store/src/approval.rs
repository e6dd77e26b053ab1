//! Approvals: one conditional transaction a transition, with its audit record.

use std::time::{Duration, Instant};

use aws_sdk_dynamodb::types::AttributeValue;
use toshi_core::{
    Access, Approval, ApprovalId, AttemptId, BlockReason, CLAIM_LEASE_MS, Catalogue, Cause,
    ConversationId, Effect, Event, Millis, Outcome, Refusal, Role, State, Subject, Transition,
    UserId, Verdict,
};

use crate::connection::{Target, kill_scopes};
use crate::item::{
    CommitError, Expression, Guard, Item, Range, Transaction, from_item, n, s, to_item,
};
use crate::keys::{self, Key, prefix};
use crate::outcome::keepable;
use crate::permit::{Grant, Permit};
use crate::results::ResultOrigin;
use crate::sweep::DueKind;
use crate::{School, StoreError};

/// Tries at a row that others change at the same time.
const ROW_TRIES: u32 = 20;

#[derive(Debug, thiserror::Error)]
pub enum TransitionError {
    /// Not possible for the row as it is now, which is returned.
    #[error("{refusal}")]
    Refused {
        refusal: Refusal,
        row: Box<Approval>,
    },
    #[error("no such approval")]
    NotFound,
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// A claimed call: the permit, and the row that says so.
#[derive(Debug)]
pub struct Claim {
    pub permit: Permit,
    pub row: Approval,
}

#[derive(Debug, thiserror::Error)]
pub enum ClaimRefusal {
    /// The approval is not claimable as it is now.
    #[error("{refusal}")]
    Refused {
        refusal: Refusal,
        row: Box<Approval>,
    },
    /// The gate, a kill switch or an unknown outcome stands in the way.
    #[error("blocked")]
    Blocked(BlockReason),
    /// The connection's account is not the one that was approved.
    #[error("another account")]
    OtherAccount,
    /// The connection or the row changed between read and claim: read again.
    #[error("changed meanwhile")]
    Again,
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// A page of approvals, newest first.
#[derive(Debug)]
pub struct ApprovalPage {
    pub items: Vec<Approval>,
    pub next: Option<ApprovalId>,
}

impl School<'_> {
    pub(crate) fn approval_item(&self, row: &Approval, now: Millis) -> Result<Item, StoreError> {
        let key = self.keys().approval(&row.conversation, row.approval_id);
        let mut item = to_item(&key, row)?;
        if let Some(due) = row.due(now) {
            let id = row.approval_id.to_string();
            let kind = DueKind::Approval.as_str();
            let sort = keys::due_sort(due, kind, self.tenant, &row.conversation, &id);
            let shard = keys::shard_of(&row.conversation);
            item.insert("G1PK".to_owned(), s(keys::due_partition(shard)));
            item.insert("G1SK".to_owned(), s(sort));
        }
        Ok(item)
    }

    pub(crate) fn open_key(&self, row: &Approval) -> Key {
        let limit = row.decide_by.time().unwrap_or(row.created_at);
        self.keys().open(&row.requester, limit, row.approval_id)
    }

    /// Reads an approval by its id, with the conversation that holds it.
    pub async fn approval(&self, id: ApprovalId) -> Result<Option<Approval>, StoreError> {
        let Some(item) = self.store.get(&self.keys().approval_by_id(id)).await? else {
            return Ok(None);
        };
        let Some(conversation) = pointer(&item) else {
            return Ok(None);
        };
        self.approval_in(&conversation, id).await
    }

    pub async fn approval_in(
        &self,
        conversation: &ConversationId,
        id: ApprovalId,
    ) -> Result<Option<Approval>, StoreError> {
        self.store
            .get_row(&self.keys().approval(conversation, id))
            .await
    }

    pub async fn approvals_in(
        &self,
        conversation: &ConversationId,
        ids: &[ApprovalId],
    ) -> Result<Vec<Approval>, StoreError> {
        if ids.is_empty() {
            return Ok(Vec::new());
        }
        let keys: Vec<Key> = ids
            .iter()
            .map(|id| self.keys().approval(conversation, *id))
            .collect();
        let rows: Vec<Approval> = self
            .store
            .batch_get(&keys)
            .await?
            .into_iter()
            .map(from_item)
            .collect::<Result<_, _>>()?;
        // In the order asked for: the order of the calls in their step.
        Ok(ids
            .iter()
            .filter_map(|id| rows.iter().find(|row| row.approval_id == *id).cloned())
            .collect())
    }

    /// Open approvals that this person may answer, soonest limit first, strongly read.
    pub async fn open_approvals(
        &self,
        approver: &UserId,
        limit: usize,
    ) -> Result<Vec<Approval>, StoreError> {
        let prefix = keys::Keys::open_of(approver);
        let (mut rows, _) = self.pointed(&prefix, Range::first(limit)).await?;
        // The pointer's place holds the limit: it stays behind if the row's own became unreadable.
        rows.retain(|row| row.state == State::Pending);
        Ok(rows)
    }

    /// All approvals of the school, newest first.
    pub async fn recent_approvals(
        &self,
        before: Option<ApprovalId>,
        limit: usize,
    ) -> Result<ApprovalPage, StoreError> {
        let after = before.map(|id| self.keys().approval_by_id(id));
        let range = Range {
            ascending: false,
            limit,
            after: after.as_ref(),
        };
        let (mut items, pointers) = self.pointed(prefix::APPROVAL_BY_ID, range).await?;
        items.sort_by_key(|row| std::cmp::Reverse(row.approval_id));
        // By pointers, not rows: a pointer whose row is gone must not end the list.
        let full = pointers.len() == limit;
        let next = pointers.last().copied().filter(|_| full);
        Ok(ApprovalPage { items, next })
    }

    async fn pointed(
        &self,
        prefix: &str,
        range: Range<'_>,
    ) -> Result<(Vec<Approval>, Vec<ApprovalId>), StoreError> {
        let table = &self.store.config.table;
        let pointers = self
            .store
            .query_in(table, &self.keys().school(), prefix, range)
            .await?;
        let id_of = |item: &Item| -> Option<ApprovalId> {
            item.get("SK")?
                .as_s()
                .ok()?
                .rsplit('#')
                .next()?
                .parse()
                .ok()
        };
        let keys: Vec<Key> = pointers
            .iter()
            .filter_map(|item| Some(self.keys().approval(&pointer(item)?, id_of(item)?)))
            .collect();
        let rows = self.store.batch_get(&keys).await?;
        let mut rows: Vec<Approval> = rows.into_iter().map(from_item).collect::<Result<_, _>>()?;
        rows.sort_by_key(|row| (row.decide_by.time(), row.approval_id));
        Ok((rows, pointers.iter().filter_map(id_of).collect()))
    }

    /// Applies an event. If another writer was first, the event is put to the row as it is then.
    pub async fn transition(
        &self,
        row: &Approval,
        event: Event,
        cause: &Cause,
        now: Millis,
    ) -> Result<Approval, TransitionError> {
        let mut row = row.clone();
        for _ in 0..ROW_TRIES {
            let transition = match row.apply(event.clone(), cause, now) {
                Ok(transition) => transition,
                Err(refusal) => {
                    return Err(TransitionError::Refused {
                        refusal,
                        row: Box::new(row),
                    });
                }
            };
            match self.commit_transition(&row, transition, now, None).await {
                Ok(after) => return Ok(after),
                Err(CommitError::Refused(_)) => {
                    let fresh = self.approval_in(&row.conversation, row.approval_id).await?;
                    row = fresh.ok_or(TransitionError::NotFound)?;
                }
                Err(CommitError::Store(error)) => return Err(error.into()),
            }
        }
        Err(StoreError::Busy.into())
    }

    /// Makes the transition durable: row, record and effects in one transaction.
    pub(crate) async fn commit_transition(
        &self,
        before: &Approval,
        transition: Transition,
        now: Millis,
        checks: Option<&Target>,
    ) -> Result<Approval, CommitError> {
        let (row, mut transaction) =
            self.transition_parts(before, transition.clone(), now, true)?;
        if let Some(target) = checks {
            self.check_claim(&mut transaction, before, target)?;
        }
        match transaction.commit().await {
            Ok(()) => Ok(row),
            // The conversation was deleted: there is nobody to wake.
            Err(CommitError::Refused(guards)) if guards == [Guard::Conversation] => {
                let (row, mut transaction) =
                    self.transition_parts(before, transition, now, false)?;
                if let Some(target) = checks {
                    self.check_claim(&mut transaction, before, target)?;
                }
                transaction.commit().await.map(|()| row)
            }
            Err(error) => Err(error),
        }
    }

    pub(crate) fn transition_parts(
        &self,
        before: &Approval,
        transition: Transition,
        now: Millis,
        wake: bool,
    ) -> Result<(Approval, Transaction<'_>), StoreError> {
        let Transition {
            mut row,
            record,
            effects,
        } = transition;
        let keys = self.keys();
        let subject = Subject::Approval(row.approval_id);
        row.seq = before.seq + 1;
        let (audit, head) = self.audit_item(subject, record, row.seq, Some(&before.head))?;
        row.head = head;
        let mut transaction = Transaction::new(self.store);
        let unchanged =
            Expression::equals("seq", n(before.seq)).and_equals("state", s(before.state.as_str()));
        transaction.put(Guard::Row, self.approval_item(&row, now)?, Some(unchanged))?;
        transaction.put_audit(audit)?;
        let unknown = keys.unknown(&row.connection.id, &row.tool, row.arguments.hash());
        let among = |verb: &str| {
            let id = ids(&[row.approval_id]);
            Expression::raw(&format!("{verb} ids :id"), &[], vec![(":id", id)])
        };
        let became_unknown = effects.contains(&Effect::AddUnknown);
        let newly = became_unknown.then_some(row.approval_id);
        for effect in effects {
            match effect {
                Effect::CloseOpen => transaction.delete(&self.open_key(before))?,
                Effect::AddUnknown => {
                    transaction.update(Guard::None, &unknown, among("ADD"), None)?
                }
                Effect::RemoveUnknown => {
                    transaction.update(Guard::None, &unknown, among("DELETE"), None)?
                }
                Effect::Wake if wake => {
                    self.wake_part(&mut transaction, &row.conversation, newly, now)?
                }
                Effect::Wake => &mut transaction,
                Effect::Alarm => {
                    tracing::error!(approval = %row.approval_id, "a true result came after a person had resolved the outcome");
                    &mut transaction
                }
            };
        }
        Ok((row, transaction))
    }

    /// Bumps `wake`, makes the conversation due now and notes a call whose outcome is unknown now.
    /// A conversation that was deleted is not woken.
    pub(crate) fn wake_part<'t, 's>(
        &self,
        transaction: &'t mut Transaction<'s>,
        conversation: &ConversationId,
        unknown: Option<ApprovalId>,
        now: Millis,
    ) -> Result<&'t mut Transaction<'s>, StoreError> {
        let kind = DueKind::Conversation.as_str();
        let sort = keys::due_sort(now, kind, self.tenant, conversation, "");
        let mut text = "ADD #wake :one".to_owned();
        let mut names = vec![("#wake", "wake")];
        let mut values = vec![
            (":one", n(1)),
            (
                ":shard",
                s(keys::due_partition(keys::shard_of(conversation))),
            ),
            (":due", s(sort)),
        ];
        if let Some(id) = unknown {
            text.push_str(", #unknown :id");
            names.push(("#unknown", "unknown"));
            values.push((":id", ids(&[id])));
        }
        text.push_str(" SET G1PK = :shard, G1SK = :due");
        let update = Expression::raw(&text, &names, values);
        let exists = Expression::raw(
            "attribute_exists(PK) AND (NOT attribute_type(deleted_at, :number))",
            &[],
            vec![(":number", s("N"))],
        );
        transaction.update(
            Guard::Conversation,
            &self.keys().meta(conversation),
            update,
            Some(exists),
        )
    }

    /// The conditions of asking and claiming: the connection as judged, and no kill switch.
    pub(crate) fn check_target(
        &self,
        transaction: &mut Transaction<'_>,
        target: &Target,
    ) -> Result<(), StoreError> {
        let connection = &target.connection;
        let key = self
            .keys()
            .connection(&connection.connector, &connection.connection);
        let unchanged = Expression::equals(
            "usable",
            aws_sdk_dynamodb::types::AttributeValue::Bool(true),
        )
        .and_equals("epoch", n(connection.epoch))
        .and_equals("account", s(&connection.account));
        transaction.check(Guard::Connection, &key, unchanged)?;
        for scope in kill_scopes(connection) {
            transaction.check(Guard::Kill, &self.keys().kill(&scope), Expression::absent())?;
        }
        Ok(())
    }

    /// What a claim requires besides its own row: target, tool, and no identical unknown outcome.
    fn check_claim(
        &self,
        transaction: &mut Transaction<'_>,
        row: &Approval,
        target: &Target,
    ) -> Result<(), StoreError> {
        self.check_target(transaction, target)?;
        let reviewed =
            Expression::equals("hash", s(row.definition.as_str())).and_equals("state", s("active"));
        let key = self.keys().tool(&row.connection.id, &row.tool);
        transaction.check(Guard::Tool, &key, reviewed)?;
        self.check_unknown(transaction, row)
    }

    /// No identical call whose outcome is unknown.
    pub(crate) fn check_unknown(
        &self,
        transaction: &mut Transaction<'_>,
        row: &Approval,
    ) -> Result<(), StoreError> {
        let key = self
            .keys()
            .unknown(&row.connection.id, &row.tool, row.arguments.hash());
        transaction.check(Guard::Unknown, &key, Expression::missing("ids"))?;
        Ok(())
    }

    /// Which of these calls are blocked by an unknown outcome.
    pub async fn unknown_calls(&self, rows: &[Approval]) -> Result<Vec<ApprovalId>, StoreError> {
        let key_of = |row: &Approval| {
            self.keys()
                .unknown(&row.connection.id, &row.tool, row.arguments.hash())
        };
        let mut keys: Vec<Key> = rows.iter().map(key_of).collect();
        keys.sort_by(|a, b| a.sk.cmp(&b.sk));
        keys.dedup();
        let items = self.store.batch_get(&keys).await?;
        let blocked: Vec<&str> = items
            .iter()
            .filter(|item| item.contains_key("ids"))
            .filter_map(|item| item.get("SK")?.as_s().ok().map(String::as_str))
            .collect();
        Ok(rows
            .iter()
            .filter(|row| blocked.contains(&key_of(row).sk.as_str()))
            .map(|row| row.approval_id)
            .collect())
    }

    /// `approved → executing` for the call as approved, on the account as approved: the only way
    /// to a write's permit. `target` is what was read just before; it is judged once more, and the
    /// transaction requires that it has not changed.
    pub async fn claim(
        &self,
        catalogue: &Catalogue,
        role: Role,
        row: &Approval,
        target: &Target,
        now: Millis,
    ) -> Result<Claim, ClaimRefusal> {
        let read = &target.connection;
        let approved = (
            &row.connection.connector,
            &row.connection.id,
            &row.connection.account,
        );
        if (&read.connector, &read.connection, &read.account) != approved {
            return Err(ClaimRefusal::OtherAccount);
        }
        match target.judge(catalogue, role, &row.requester, &row.tool) {
            // A write that has since been reclassified as a read was still approved as a write.
            Verdict::Ask | Verdict::Allow => {}
            Verdict::Deny(why) => return Err(ClaimRefusal::Blocked(why)),
        }
        if target.tool.as_ref().map(|tool| &tool.hash) != Some(&row.definition) {
            return Err(ClaimRefusal::Blocked(BlockReason::DefinitionChanged));
        }
        let attempt: AttemptId = crate::mint(now);
        let event = Event::Claim {
            attempt,
            lease_until: now.plus(CLAIM_LEASE_MS),
        };
        let lease_ends = Instant::now() + Duration::from_millis(CLAIM_LEASE_MS.unsigned_abs());
        let transition =
            row.apply(event, &Cause::system(), now)
                .map_err(|refusal| ClaimRefusal::Refused {
                    refusal,
                    row: Box::new(row.clone()),
                })?;
        let committed = self
            .commit_transition(row, transition, now, Some(target))
            .await;
        let claimed = match committed {
            Ok(claimed) => claimed,
            // Whatever else stands in the way: another was first.
            Err(CommitError::Refused(guards)) if guards.contains(&Guard::Row) => {
                return Err(ClaimRefusal::Again);
            }
            Err(CommitError::Refused(guards)) if guards.contains(&Guard::Unknown) => {
                return Err(ClaimRefusal::Blocked(BlockReason::OutcomeUnknown));
            }
            Err(CommitError::Refused(guards)) if guards.contains(&Guard::Kill) => {
                return Err(ClaimRefusal::Blocked(BlockReason::Killed));
            }
            Err(CommitError::Refused(_)) => return Err(ClaimRefusal::Again),
            Err(CommitError::Store(error)) => {
                // The reply may be lost though the claim is not: the row says whose it is.
                self.own_attempt(row, attempt).await?.ok_or(error)?
            }
        };
        let permit = self.write_permit(&claimed, attempt, 1, lease_ends);
        Ok(Claim {
            permit,
            row: claimed,
        })
    }

    /// Attempt 2 of a claim, recorded before it is sent.
    pub async fn send_again(
        &self,
        row: &Approval,
        attempt: AttemptId,
        now: Millis,
    ) -> Result<Claim, TransitionError> {
        let left = row
            .lease()
            .time()
            .map_or(0, |until| now.until(until))
            .max(0);
        let lease_ends = Instant::now() + Duration::from_millis(left.unsigned_abs());
        let row = self
            .transition(row, Event::SendAgain { attempt }, &Cause::system(), now)
            .await?;
        let permit = self.write_permit(&row, attempt, 2, lease_ends);
        Ok(Claim { permit, row })
    }

    fn write_permit(
        &self,
        row: &Approval,
        attempt: AttemptId,
        number: u32,
        lease_ends: Instant,
    ) -> Permit {
        Permit::new(Grant {
            tenant: self.tenant.clone(),
            connection: row.connection.id.clone(),
            account: row.connection.account.clone(),
            tool: row.tool.clone(),
            arguments: row.arguments.hash().clone(),
            access: Access::Write,
            attempt: Some((row.approval_id, attempt, number)),
            lease_ends,
        })
    }

    async fn own_attempt(
        &self,
        row: &Approval,
        attempt: AttemptId,
    ) -> Result<Option<Approval>, StoreError> {
        let fresh = self.approval_in(&row.conversation, row.approval_id).await?;
        Ok(fresh.filter(|row| row.attempt.as_ref().is_some_and(|own| own.id == attempt)))
    }

    /// Records what became of an attempt. Tried until it holds or `give_up` has passed: a result
    /// must not be lost while there is time. An answer whose `text` the row cannot hold whole is
    /// stored first; without success the row has its beginning.
    pub async fn settle(
        &self,
        row: &Approval,
        attempt: AttemptId,
        outcome: Outcome,
        text: &str,
        clock: impl Fn() -> Millis,
        give_up: Millis,
    ) -> Result<Approval, TransitionError> {
        let outcome = keepable(outcome);
        let own = |row: &Approval| row.attempt.as_ref().is_some_and(|own| own.id == attempt);
        let chunks = if text.len() > toshi_core::RESULT_MAX {
            let origin = ResultOrigin {
                connector: row.connection.connector.clone(),
                connection: row.connection.id.clone(),
                tool: row.tool.clone(),
                approval: Some(row.approval_id),
            };
            self.keep_result(&row.conversation, row.call, &origin, text)
                .await
        } else {
            0
        };
        let mut pause_ms = 20;
        loop {
            let now = clock();
            let event = Event::Settle {
                attempt,
                outcome: outcome.clone(),
                chunks,
            };
            match self.transition(row, event, &Cause::system(), now).await {
                Ok(row) => return Ok(row),
                Err(TransitionError::Refused { row, .. })
                    if row.state.is_settled() && own(&row) =>
                {
                    // The reply of an earlier try was lost, or a person was first.
                    return Ok(*row);
                }
                Err(error @ (TransitionError::Refused { .. } | TransitionError::NotFound)) => {
                    return Err(error);
                }
                Err(TransitionError::Store(error)) => {
                    if clock() >= give_up {
                        return Err(error.into());
                    }
                    tracing::warn!(%error, approval = %row.approval_id, "settling failed; trying again");
                    crate::pause(pause_ms).await;
                    pause_ms = (pause_ms * 2).min(2_000);
                }
            }
        }
    }

    /// The parts of a new approval's ask: row, pointers, first record, and the unknown check.
    pub(crate) fn ask_parts(
        &self,
        transaction: &mut Transaction<'_>,
        row: &mut Approval,
        cause: &Cause,
        now: Millis,
    ) -> Result<(), StoreError> {
        let subject = Subject::Approval(row.approval_id);
        row.seq = 1;
        let (audit, head) = self.audit_item(subject, row.requested(cause), 1, None)?;
        row.head = head;
        let to_conversation = |key: &Key| {
            let mut item = key.attributes();
            item.insert("conversation".to_owned(), s(row.conversation.as_str()));
            item.insert("connection".to_owned(), s(row.connection.id.as_str()));
            item.insert("requester".to_owned(), s(row.requester.as_str()));
            item
        };
        let open = to_conversation(&self.open_key(row));
        let by_id = to_conversation(&self.keys().approval_by_id(row.approval_id));
        let absent = Some(Expression::absent());
        transaction.put(Guard::Row, self.approval_item(row, now)?, absent)?;
        transaction.put(Guard::None, open, None)?;
        transaction.put(Guard::None, by_id, None)?;
        transaction.put_audit(audit)?;
        self.check_unknown(transaction, row)
    }
}

/// A set of approvals.
pub(crate) fn ids(ids: &[ApprovalId]) -> AttributeValue {
    AttributeValue::Ss(ids.iter().map(ToString::to_string).collect())
}

fn pointer(item: &Item) -> Option<ConversationId> {
    item.get("conversation")?.as_s().ok()?.parse().ok()
}
