//! The earlier part of a conversation in short, where all of it would be too much for a prompt.

use serde::{Deserialize, Serialize};

use crate::{ConversationRow, Millis};

/// A conversation has one of these; each new one stands for more of it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SummaryRow {
    /// The last message that it stands for.
    pub upto: u64,
    /// The next message's number when it was made.
    pub next: u64,
    /// The model's words: data, as a tool's answer is.
    pub text: String,
    /// What people and the assistant named exactly, in the order of mention.
    pub said: Vec<String>,
    /// What tools named.
    pub told: Vec<String>,
    pub at: Millis,
}

impl SummaryRow {
    /// Whether it still tells what was said: a message that was replaced since is no longer part of
    /// the conversation.
    pub fn holds(&self, conversation: &ConversationRow) -> bool {
        let replaced_since = |(from, to): &(u64, u64)| *from <= self.upto && *to >= self.next;
        !conversation.replaced.iter().any(replaced_since)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::{NOW, user};
    use crate::{ClientId, ConversationId};

    #[test]
    fn a_summary_holds_until_a_message_that_it_covers_is_replaced() {
        let client: ClientId = "chat-0001".parse().unwrap();
        let ann = user("ann");
        let id = ConversationId::of(&ann, &client);
        let mut row = ConversationRow::new(id, client, ann, NOW);
        // Replaced before it was made, by the message with number 9.
        row.replace(3, 9);
        let summary = SummaryRow {
            upto: 20,
            next: 33,
            text: String::new(),
            said: Vec::new(),
            told: Vec::new(),
            at: NOW,
        };
        assert!(summary.holds(&row));
        row.replace(21, 33);
        assert!(summary.holds(&row), "a message that it does not cover");
        row.replace(20, 35);
        assert!(!summary.holds(&row));
        row.replace(1, 37);
        assert!(!summary.holds(&row));
    }
}
