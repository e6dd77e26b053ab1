//! A person's conversations as their page reads them.

use serde_json::Value;
use toshi_core::{Cause, ConversationId, Event, TenantId, VoidReason};
use toshi_store::{Release, StoreError, TransitionError};

use crate::agent::Agent;
use crate::clock::now;
use crate::follow::running;
use crate::view;

/// A page of messages, oldest first.
#[derive(Debug)]
pub struct Messages {
    pub items: Vec<Value>,
    /// The message number before which the next page, with older messages, ends.
    pub next: Option<u64>,
    /// Something is being done by itself: a page follows it.
    pub running: bool,
}

/// What became of a deletion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Erased {
    Done,
    /// A turn is running; try again when it rests.
    Busy,
    NotFound,
}

impl Agent {
    /// The newest messages before number `before`; `None` if there is no such conversation.
    pub async fn messages(
        &self,
        tenant: &TenantId,
        conversation: &ConversationId,
        before: Option<u64>,
        limit: usize,
    ) -> Result<Option<Messages>, StoreError> {
        let school = self.store.school(tenant);
        let page = school.messages(conversation, before, limit).await?;
        let Some(meta) = page.meta.as_ref().filter(|meta| meta.deleted_at.is_none()) else {
            return Ok(None);
        };
        let (open, inbox) = tokio::try_join!(school.open_turns(meta), school.inbox(conversation))?;
        let running = running(&open, &inbox, now()).is_some();
        let first = page.messages.first().map(|row| row.seq);
        let next = first.filter(|seq| *seq > 1);
        let waiting = if before.is_none() {
            inbox.as_slice()
        } else {
            &[]
        };
        Ok(Some(Messages {
            items: view::messages(&page, waiting),
            next,
            running,
        }))
    }

    /// Deletes a conversation's contents: its open questions are withdrawn first.
    pub async fn erase(
        &self,
        tenant: &TenantId,
        conversation: &ConversationId,
    ) -> Result<Erased, StoreError> {
        let school = self.store.school(tenant);
        let meta = school.meta(conversation).await?;
        if meta.is_none_or(|meta| meta.deleted_at.is_some()) {
            return Ok(Erased::NotFound);
        }
        let Some((meta, lease)) = school.take(conversation, now()).await? else {
            return Ok(Erased::Busy);
        };
        let open = school.open_turns(&meta).await?;
        let sending = |state| state == toshi_core::State::Executing;
        if open
            .iter()
            .flat_map(|turn| &turn.approvals)
            .any(|row| sending(row.state))
        {
            // Its result must still find its conversation.
            school
                .release(conversation, &lease, Release::LeaveDue(0), now())
                .await?;
            return Ok(Erased::Busy);
        }
        for row in open.iter().flat_map(|turn| &turn.approvals) {
            let event = Event::Void(VoidReason::ConversationDeleted);
            match school.transition(row, event, &Cause::system(), now()).await {
                Ok(_) | Err(TransitionError::Refused { .. } | TransitionError::NotFound) => {}
                Err(TransitionError::Store(error)) => return Err(error),
            }
        }
        school.erase_conversation(&meta, &lease, now()).await?;
        Ok(Erased::Done)
    }
}
