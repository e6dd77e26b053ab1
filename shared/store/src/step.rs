//! The runner's commits: a step with its reads and questions, under the fence.

use toshi_core::{
    Approval, CallOutcome, Cause, ConversationRow, InboxId, Lease, MessageRow, Millis, RecordDraft,
    StepRow, Subject, TurnRow,
};

use crate::connection::Target;
use crate::conversation::list;
use crate::item::{CommitError, Expression, Guard, Transaction, n, to_item};
use crate::outcome::keepable;
use crate::{School, StoreError};

/// A read's audit record, in the order of the calls.
#[derive(Clone, Debug)]
pub struct ReadRecord(pub RecordDraft);

/// Everything that one step boundary makes durable.
#[derive(Debug, Default)]
pub struct Commit {
    pub turn: Option<TurnRow>,
    pub step: Option<StepRow>,
    /// Replaces a step's row (a question asked again).
    pub step_again: Option<StepRow>,
    pub reads: Vec<ReadRecord>,
    pub asks: Vec<(Approval, Cause)>,
    /// The connections that the asks are for, as judged.
    pub targets: Vec<Target>,
    pub messages: Vec<MessageRow>,
    pub inbox_done: Option<InboxId>,
    /// Let go of the lease in the same transaction, if nothing new has come.
    pub release: bool,
}

#[derive(Debug)]
pub struct Committed {
    pub turn: Option<TurnRow>,
    pub asks: Vec<Approval>,
    pub released: bool,
}

/// Why a step could not be committed.
#[derive(Debug, thiserror::Error)]
pub enum StepRefusal {
    /// The lease is another runner's: this one must stop.
    #[error("superseded by another runner")]
    Fenced,
    /// An identical call's outcome is unknown; see [`School::unknown_calls`].
    #[error("an identical call's outcome is unknown")]
    Unknown,
    /// A connection or kill switch changed since it was judged.
    #[error("a connection changed meanwhile")]
    Connection,
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl School<'_> {
    /// Commits under the lease. `meta` is the runner's own copy of the conversation's row: it
    /// alone changes `next` and `open` while it holds the lease.
    pub async fn commit(
        &self,
        meta: &ConversationRow,
        lease: &Lease,
        commit: &Commit,
        now: Millis,
    ) -> Result<Committed, StepRefusal> {
        match self
            .try_commit(meta, lease, commit, commit.release, now)
            .await
        {
            Err(CommitError::Refused(guards))
                if commit.release && guards.contains(&Guard::Conversation) =>
            {
                // Something new came, or the fence moved: the second try tells which, also where
                // another guard failed beside it.
                self.try_commit(meta, lease, commit, false, now)
                    .await
                    .map_err(refusal)
            }
            result => result.map_err(refusal),
        }
    }

    async fn try_commit(
        &self,
        meta: &ConversationRow,
        lease: &Lease,
        commit: &Commit,
        release: bool,
        now: Millis,
    ) -> Result<Committed, CommitError> {
        let Commit {
            turn,
            step,
            step_again,
            reads,
            asks,
            targets,
            messages,
            inbox_done,
            release: _,
        } = commit;
        let keys = self.keys();
        let conversation = &meta.conversation;
        let mut transaction = Transaction::new(self.store);
        let absent = || Some(Expression::absent());

        let mut turn = turn.clone();
        if let Some(turn) = &mut turn {
            for ReadRecord(draft) in reads {
                let seq = turn.seq + 1;
                let subject = Subject::Turn(turn.turn);
                let (item, head) =
                    self.audit_item(subject, draft.clone(), seq, turn.head.as_ref())?;
                transaction.put_audit(item)?;
                turn.seq = seq;
                turn.head = Some(head);
            }
            let key = keys.turn(conversation, turn.turn);
            transaction.put(Guard::None, to_item(&key, turn)?, None)?;
        }
        if let Some(step) = step {
            let key = keys.step(conversation, step.turn, step.n);
            transaction.put(Guard::Row, to_item(&key, &keepable_step(step))?, absent())?;
        }
        if let Some(step) = step_again {
            let key = keys.step(conversation, step.turn, step.n);
            transaction.put(Guard::None, to_item(&key, &keepable_step(step))?, None)?;
        }
        let mut asked = Vec::with_capacity(asks.len());
        for (row, cause) in asks {
            let mut row = row.clone();
            self.ask_parts(&mut transaction, &mut row, cause, now)?;
            asked.push(row);
        }
        for target in targets {
            self.check_target(&mut transaction, target)?;
        }
        for message in messages {
            let key = keys.message(conversation, message.seq);
            transaction.put(Guard::Row, to_item(&key, message)?, absent())?;
        }
        if let Some(inbox) = inbox_done {
            transaction.delete(&keys.inbox(conversation, *inbox))?;
        }

        let mut update = "SET #open = :open, #next = :next, #replaced = :replaced".to_owned();
        let mut ours = Expression::equals("fence", n(lease.fence));
        if release {
            update.push_str(" REMOVE lease_until, G1PK, G1SK");
            ours = ours.and_equals("wake", n(lease.seen));
        }
        let update = Expression::raw(
            &update,
            &[
                ("#open", "open"),
                ("#next", "next"),
                ("#replaced", "replaced"),
            ],
            vec![
                (":open", list(&meta.open)?),
                (":next", n(meta.next)),
                (":replaced", list(&meta.replaced)?),
            ],
        );
        let key = keys.meta(conversation);
        transaction.update(Guard::Conversation, &key, update, Some(ours))?;
        transaction.commit().await?;
        Ok(Committed {
            turn,
            asks: asked,
            released: release,
        })
    }

    /// Ends a superseded question and asks its successor in one transaction: the new approval
    /// stands in the step in the old one's place.
    pub async fn ask_again(
        &self,
        meta: &ConversationRow,
        lease: &Lease,
        old: &Approval,
        new: Approval,
        step: StepRow,
        now: Millis,
    ) -> Result<Approval, StepRefusal> {
        let cause = Cause::system();
        let event = toshi_core::Event::Supersede(new.approval_id);
        let transition = old
            .apply(event, &cause, now)
            .map_err(|_| StepRefusal::Store(StoreError::Conflict))?;
        let mut new = new;
        let (_, mut transaction) = self.transition_parts(old, transition, now, false)?;
        self.ask_parts(&mut transaction, &mut new, &cause, now)?;
        let key = self.keys().step(&meta.conversation, step.turn, step.n);
        transaction.put(Guard::None, to_item(&key, &keepable_step(&step))?, None)?;
        let ours = Expression::equals("fence", n(lease.fence));
        let key = self.keys().meta(&meta.conversation);
        transaction.check(Guard::Conversation, &key, ours)?;
        transaction.commit().await.map_err(refusal)?;
        Ok(new)
    }
}

fn keepable_step(step: &StepRow) -> StepRow {
    let mut step = step.clone();
    for call in &mut step.calls {
        if let CallOutcome::Read { outcome, .. } = &mut call.outcome {
            *outcome = keepable(outcome.clone());
        }
    }
    step
}

pub(crate) fn refusal(error: CommitError) -> StepRefusal {
    match error {
        CommitError::Store(error) => StepRefusal::Store(error),
        CommitError::Refused(guards) if guards.contains(&Guard::Conversation) => {
            StepRefusal::Fenced
        }
        CommitError::Refused(guards) if guards.contains(&Guard::Unknown) => StepRefusal::Unknown,
        CommitError::Refused(guards)
            if guards.contains(&Guard::Connection) || guards.contains(&Guard::Kill) =>
        {
            StepRefusal::Connection
        }
        CommitError::Refused(_) => StepRefusal::Store(StoreError::Conflict),
    }
}
