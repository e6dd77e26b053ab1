//! A conversation as a prompt and a page read it: messages, their steps, their approvals.

use std::collections::{BTreeMap, BTreeSet};

use toshi_core::{
    Approval, ConversationId, ConversationRow, MessageRow, StepRow, SummaryRow, TurnId, TurnRow,
};

use crate::item::{Range, from_item};
use crate::keys::{Key, prefix};
use crate::{School, StoreError};

/// What a prompt and a page are made from: the newest part of a conversation, oldest first.
#[derive(Clone, Debug, Default)]
pub struct History {
    pub meta: Option<ConversationRow>,
    pub messages: Vec<MessageRow>,
    pub steps: Vec<StepRow>,
    pub approvals: BTreeMap<toshi_core::ApprovalId, Approval>,
    /// What stands for the messages before.
    pub summary: Option<SummaryRow>,
}

/// How much of a conversation is read at once.
const MESSAGES_READ: usize = 60;
/// How often a reader looks further back, and how many messages it looks at then.
const LOOKS_BACK: usize = 10;
const LOOK_BACK: usize = 200;
const STEPS_READ: usize = 120;
const APPROVALS_READ: usize = 120;
const UNKNOWN_READ: usize = 40;

impl School<'_> {
    /// The newest part of the conversation, in five reads at once, and what stands open in the rest.
    pub async fn history(&self, conversation: &ConversationId) -> Result<History, StoreError> {
        let pk = self.keys().conversation(conversation);
        let summary = self.keys().summary(conversation);
        let (meta, summary, messages, mut steps, approvals) = tokio::try_join!(
            self.meta(conversation),
            self.store.get_row(&summary),
            self.messages_before(conversation, None, MESSAGES_READ),
            self.store
                .query::<StepRow>(&pk, prefix::STEP, Range::last(STEPS_READ)),
            self.store
                .query::<Approval>(&pk, prefix::APPROVAL, Range::last(APPROVALS_READ)),
        )?;
        steps.reverse();
        let approvals = approvals
            .into_iter()
            .map(|row| (row.approval_id, row))
            .collect();
        let mut history = History {
            meta,
            messages,
            steps,
            approvals,
            summary,
        };
        let older = self
            .past_replaced(conversation, &mut history, MESSAGES_READ)
            .await?;
        if !older.is_empty() {
            history.steps.retain(|step| !older.contains(&step.turn));
            self.add_steps(conversation, &mut history, older).await?;
        }
        self.add_open(&mut history).await?;
        Ok(history)
    }

    /// Adds the approvals that nobody may forget and that are older than what was read: those of
    /// turns that wait, and those whose outcome became unknown. Seldom are there any.
    async fn add_open(&self, history: &mut History) -> Result<(), StoreError> {
        let Some(meta) = &history.meta else {
            return Ok(());
        };
        let read = |turn: &TurnId| history.messages.iter().any(|row| row.turn == *turn);
        let mut older = Vec::new();
        if !meta.open.iter().all(read) {
            let open = self.open_turns(meta).await?;
            older.extend(open.into_iter().flat_map(|open| open.approvals));
        }
        let unknown = meta.unknown.iter().rev();
        let unknown: Vec<_> = unknown
            .filter(|id| !history.approvals.contains_key(id))
            .take(UNKNOWN_READ)
            .copied()
            .collect();
        if !unknown.is_empty() {
            older.extend(self.approvals_in(&meta.conversation, &unknown).await?);
        }
        let older = older.into_iter().map(|row| (row.approval_id, row));
        history.approvals.extend(older);
        Ok(())
    }

    /// Reads on where most of what was read is replaced, or what is shown would end there; the turns
    /// that came with it.
    async fn past_replaced(
        &self,
        conversation: &ConversationId,
        history: &mut History,
        limit: usize,
    ) -> Result<BTreeSet<TurnId>, StoreError> {
        let mut turns = BTreeSet::new();
        let Some(meta) = &history.meta else {
            return Ok(turns);
        };
        for _ in 0..LOOKS_BACK {
            let shown = history
                .messages
                .iter()
                .filter(|row| !meta.hides(row))
                .count();
            let first = history.messages.first().map_or(1, |row| row.seq);
            if first <= 1 || shown >= limit.div_ceil(2) {
                break;
            }
            let older = self
                .messages_before(conversation, Some(first), limit)
                .await?;
            turns.extend(older.iter().map(|row| row.turn));
            history.messages.splice(0..0, older);
        }
        Ok(turns)
    }

    /// The newest `limit` messages, or those before number `before`, oldest first.
    async fn messages_before(
        &self,
        conversation: &ConversationId,
        before: Option<u64>,
        limit: usize,
    ) -> Result<Vec<MessageRow>, StoreError> {
        let pk = self.keys().conversation(conversation);
        let after = before.map(|seq| self.keys().message(conversation, seq));
        let range = Range {
            ascending: false,
            limit,
            after: after.as_ref(),
        };
        let mut rows: Vec<MessageRow> = self.store.query(&pk, prefix::MESSAGE, range).await?;
        rows.reverse();
        Ok(rows)
    }

    /// The newest message before number `before` that fits, if it is not too long ago.
    pub async fn find_message(
        &self,
        conversation: &ConversationId,
        before: u64,
        fits: impl Fn(&MessageRow) -> bool,
    ) -> Result<Option<MessageRow>, StoreError> {
        let mut before = before;
        for _ in 0..LOOKS_BACK {
            let rows = self
                .messages_before(conversation, Some(before), LOOK_BACK)
                .await?;
            let Some(first) = rows.first() else {
                return Ok(None);
            };
            before = first.seq;
            if let Some(row) = rows.into_iter().rev().find(&fits) {
                return Ok(Some(row));
            }
        }
        Ok(None)
    }

    /// Adds all steps of these turns, and their approvals.
    async fn add_steps(
        &self,
        conversation: &ConversationId,
        history: &mut History,
        turns: impl IntoIterator<Item = TurnId>,
    ) -> Result<(), StoreError> {
        let steps = turns
            .into_iter()
            .map(|turn| self.steps_of(conversation, turn));
        let steps = futures::future::try_join_all(steps).await?;
        let steps: Vec<StepRow> = steps.into_iter().flatten().collect();
        let ids: Vec<_> = steps.iter().flat_map(StepRow::approvals).collect();
        history.steps.extend(steps);
        history.steps.sort_by_key(|step| (step.turn, step.n));
        for row in self.approvals_in(conversation, &ids).await? {
            history.approvals.insert(row.approval_id, row);
        }
        Ok(())
    }

    /// The newest `limit` messages before number `before`, with all their steps and approvals; more
    /// where most of them are replaced.
    pub async fn messages(
        &self,
        conversation: &ConversationId,
        before: Option<u64>,
        limit: usize,
    ) -> Result<History, StoreError> {
        let (meta, messages) = tokio::try_join!(
            self.meta(conversation),
            self.messages_before(conversation, before, limit)
        )?;
        let mut history = History {
            meta,
            messages,
            ..History::default()
        };
        self.past_replaced(conversation, &mut history, limit)
            .await?;
        let turns: BTreeSet<TurnId> = history.messages.iter().map(|row| row.turn).collect();
        self.add_steps(conversation, &mut history, turns).await?;
        Ok(history)
    }

    /// Adds a turn's own messages, steps and approvals to what was read of the conversation, where
    /// the turn is older.
    pub async fn include(
        &self,
        conversation: &ConversationId,
        history: &mut History,
        turn: &TurnRow,
    ) -> Result<(), StoreError> {
        let has = |seq: u64| history.messages.iter().any(|row| row.seq == seq);
        if has(turn.message_seq) && has(turn.answer_seq) {
            return Ok(());
        }
        let seqs = [turn.message_seq, turn.message_seq + 1, turn.answer_seq];
        let keys: Vec<Key> = seqs
            .iter()
            .filter(|seq| !has(**seq))
            .map(|seq| self.keys().message(conversation, *seq))
            .collect();
        let rows = self.store.batch_get(&keys).await?;
        let rows: Vec<MessageRow> = rows.into_iter().map(from_item).collect::<Result<_, _>>()?;
        history.messages.extend(rows);
        history.messages.sort_by_key(|row| row.seq);
        history.messages.dedup_by_key(|row| row.seq);
        history.steps.retain(|step| step.turn != turn.turn);
        self.add_steps(conversation, history, [turn.turn]).await
    }

    pub async fn steps_of(
        &self,
        conversation: &ConversationId,
        turn: TurnId,
    ) -> Result<Vec<StepRow>, StoreError> {
        let pk = self.keys().conversation(conversation);
        let prefix = format!("{}{turn}#", prefix::STEP);
        self.store
            .query(&pk, &prefix, Range::first(STEPS_READ))
            .await
    }
}
