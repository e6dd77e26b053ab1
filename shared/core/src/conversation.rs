//! The conversation's own row: who works on it, and whether there is something to work on.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::{ApprovalId, ClientId, ConversationId, MessageRow, Millis, TurnId, UserId};

/// A runner's lease: how long it holds without being renewed, and how often it is renewed.
pub const LEASE_MS: i64 = 60_000;
pub const LEASE_RENEW_MS: i64 = 20_000;
/// An interrupted turn is taken over this often, and for this long after its interruption.
pub const MAX_TAKEOVERS: u32 = 3;
pub const INTERRUPTED_MAX_MS: i64 = 60 * 60 * 1000;

/// The `META` row.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ConversationRow {
    pub conversation: ConversationId,
    pub client_id: ClientId,
    pub user: UserId,
    /// Counts everything that a runner must look at. A release requires what was last read.
    pub wake: u64,
    /// The next message's number.
    pub next: u64,
    /// Grows with each lease; a late writer's transaction fails on it.
    pub fence: u64,
    pub lease_until: Option<Millis>,
    /// Turns that are not done.
    #[serde(default)]
    pub open: Vec<TurnId>,
    /// Message numbers, from and up to but without, that were sent again with another text: they
    /// stay on record and leave the prompt and the page.
    #[serde(default)]
    pub replaced: Vec<(u64, u64)>,
    /// Calls whose outcome became unknown here: the model must hear of them, however old they are.
    /// Written by the store alone.
    #[serde(default, skip_serializing)]
    pub unknown: BTreeSet<ApprovalId>,
    pub created_at: Millis,
    /// Its contents were erased; the id is not used again.
    #[serde(default)]
    pub deleted_at: Option<Millis>,
    /// Its place in the sweep's list, as read: somebody has something to look at. Written by the
    /// store alone.
    #[serde(rename = "G1SK", default, skip_serializing)]
    pub due: Option<String>,
}

impl ConversationRow {
    pub fn new(
        conversation: ConversationId,
        client_id: ClientId,
        user: UserId,
        now: Millis,
    ) -> Self {
        Self {
            conversation,
            client_id,
            user,
            wake: 0,
            next: 1,
            fence: 0,
            lease_until: None,
            open: Vec::new(),
            replaced: Vec::new(),
            unknown: BTreeSet::new(),
            created_at: now,
            deleted_at: None,
            due: None,
        }
    }

    /// Takes the messages from `from` on out of the prompt. A later range swallows earlier ones.
    pub fn replace(&mut self, from: u64, next: u64) {
        self.replaced.retain(|(start, _)| *start < from);
        if from < next {
            self.replaced.push((from, next));
        }
    }

    pub fn is_replaced(&self, seq: u64) -> bool {
        self.replaced
            .iter()
            .any(|(from, to)| (*from..*to).contains(&seq))
    }

    /// Whether the page and the prompt leave a message out. An answer goes with the message that it
    /// answers, wherever it stands: what became of a request is not lost with a later message.
    pub fn hides(&self, row: &MessageRow) -> bool {
        self.is_replaced(row.answers.unwrap_or(row.seq))
    }

    pub fn is_held(&self, now: Millis) -> bool {
        self.lease_until.is_some_and(|until| now < until)
    }

    /// The row under a new lease.
    pub fn taken(&self, now: Millis) -> Self {
        Self {
            fence: self.fence + 1,
            lease_until: Some(now.plus(LEASE_MS)),
            ..self.clone()
        }
    }

    pub fn lease(&self) -> Lease {
        Lease {
            fence: self.fence,
            seen: self.wake,
            until: self.lease_until.unwrap_or(Millis::from_epoch(0)),
        }
    }
}

/// What a runner holds while it works.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lease {
    pub fence: u64,
    /// The `wake` whose causes this runner has looked at, own bumps included: a bump by anybody
    /// else leaves the row ahead of it, and the release fails.
    pub seen: u64,
    pub until: Millis,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::{NOW, user};
    use crate::{MessageAuthor, MessageId};

    fn row() -> ConversationRow {
        let client: ClientId = "chat-0001".parse().unwrap();
        let ann = user("ann");
        ConversationRow::new(ConversationId::of(&ann, &client), client, ann, NOW)
    }

    #[test]
    fn a_lease_is_held_until_its_end_and_fences_its_predecessor() {
        let free = row();
        assert!(!free.is_held(NOW));
        let first = free.taken(NOW);
        assert!(first.is_held(NOW.plus(LEASE_MS - 1)));
        assert!(!first.is_held(NOW.plus(LEASE_MS)));
        let second = first.taken(NOW.plus(LEASE_MS));
        assert!(second.lease().fence > first.lease().fence);
        assert_eq!(second.lease().until, NOW.plus(2 * LEASE_MS));
    }

    #[test]
    fn an_answer_is_hidden_with_the_message_that_it_answers() {
        let answer = |answers| MessageRow {
            seq: 5,
            turn: TurnId::new(NOW, 1),
            author: MessageAuthor::Assistant {
                id: MessageId::new(NOW, 2),
            },
            at: NOW,
            answers,
        };
        let mut later = row();
        later.replace(3, 6);
        assert!(later.hides(&answer(None)));
        assert!(!later.hides(&answer(Some(1))), "of an earlier message");
        let mut earlier = row();
        earlier.replace(1, 4);
        assert!(!earlier.hides(&answer(None)));
        assert!(earlier.hides(&answer(Some(1))));
    }

    #[test]
    fn replaced_messages_are_those_from_the_first_to_the_last_then() {
        let mut row = row();
        row.replace(3, 6);
        let replaced = |row: &ConversationRow| -> Vec<u64> {
            (1..12).filter(|seq| row.is_replaced(*seq)).collect()
        };
        assert_eq!(replaced(&row), [3, 4, 5]);
        // The message sent again stands at 6; later it and what follows are replaced too.
        row.replace(8, 10);
        assert_eq!(replaced(&row), [3, 4, 5, 8, 9]);
        row.replace(2, 11);
        assert_eq!(row.replaced, [(2, 11)]);
        row.replace(11, 11);
        assert_eq!(row.replaced, [(2, 11)]);
    }
}
