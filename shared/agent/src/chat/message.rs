//! Which message a request is about: a new one, another text for an old one, another answer.

use toshi_core::{ConversationId, MessageAuthor, MessageRow, UserMessageId};
use toshi_store::{History, School, StoreError, UserMessage};

use super::request::Said;

/// Finds it in what was read of the conversation, and further back only where the client names it.
pub(super) struct Meant<'a> {
    pub(super) school: School<'a>,
    pub(super) conversation: &'a ConversationId,
    pub(super) history: &'a History,
}

impl Meant<'_> {
    /// What was said. Only what is shown can be replaced: a page that was opened long ago must not
    /// take back what came since.
    pub(super) async fn said(
        &self,
        id: UserMessageId,
        text: String,
        said: Said,
    ) -> Result<UserMessage, StoreError> {
        let is_it = |row: &MessageRow| match &row.author {
            MessageAuthor::User { id: old, .. } => *old == id && self.is_shown(row),
            MessageAuthor::Assistant { .. } => false,
        };
        let latest = match (self.find_read(is_it), said) {
            (None, Said::InOtherWords | Said::Again) => self.find_older(is_it).await?,
            (read, _) => read,
        };
        if said == Said::Again
            && let Some(message) = latest.as_ref().and_then(once_more)
        {
            return Ok(message);
        }
        let replaces_from = latest.and_then(|row| match row.author {
            MessageAuthor::User { text: old, .. } if old != text => Some(row.seq),
            MessageAuthor::User { .. } | MessageAuthor::Assistant { .. } => None,
        });
        Ok(UserMessage {
            id,
            text,
            replaces_from,
            again: false,
        })
    }

    /// The message that `answer` belongs to, to be answered again. Another one than was meant must
    /// not be replaced.
    pub(super) async fn regenerated(
        &self,
        answer: &str,
    ) -> Result<Option<UserMessage>, StoreError> {
        let Some(row) = self
            .find(|row| is_called(row, answer) && self.is_shown(row))
            .await?
        else {
            return Ok(None);
        };
        if row.answers.is_some() {
            // It says what became of a request, after messages that would have to go with it.
            return Ok(None);
        }
        let is_asked = |other: &MessageRow| other.turn == row.turn && once_more(other).is_some();
        Ok(self.find(is_asked).await?.as_ref().and_then(once_more))
    }

    fn is_shown(&self, row: &MessageRow) -> bool {
        let meta = self.history.meta.as_ref();
        !meta.is_some_and(|meta| meta.hides(row))
    }

    async fn find(
        &self,
        fits: impl Fn(&MessageRow) -> bool,
    ) -> Result<Option<MessageRow>, StoreError> {
        match self.find_read(&fits) {
            Some(row) => Ok(Some(row)),
            None => self.find_older(fits).await,
        }
    }

    fn find_read(&self, fits: impl Fn(&MessageRow) -> bool) -> Option<MessageRow> {
        let mut rows = self.history.messages.iter().rev();
        rows.find(|row| fits(row)).cloned()
    }

    /// A message that is older than what was read.
    async fn find_older(
        &self,
        fits: impl Fn(&MessageRow) -> bool,
    ) -> Result<Option<MessageRow>, StoreError> {
        let first = self.history.messages.first().map_or(0, |row| row.seq);
        if first <= 1 {
            return Ok(None);
        }
        self.school
            .find_message(self.conversation, first, fits)
            .await
    }
}

fn is_called(row: &MessageRow, name: &str) -> bool {
    match &row.author {
        MessageAuthor::Assistant { id } => id.to_string() == name,
        MessageAuthor::User { id, .. } => id.as_str() == name,
    }
}

/// A person's message as if it was said once more.
fn once_more(row: &MessageRow) -> Option<UserMessage> {
    match &row.author {
        MessageAuthor::User { id, text } => Some(UserMessage {
            id: id.clone(),
            text: text.clone(),
            replaces_from: Some(row.seq),
            again: true,
        }),
        MessageAuthor::Assistant { .. } => None,
    }
}
