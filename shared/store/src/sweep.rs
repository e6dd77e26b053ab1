//! The sweep index: what is due some day, and only that. A hint; the row decides.

use toshi_core::{ConversationId, Millis, TenantId};

use crate::item::s;
use crate::keys::{self, SHARDS};
use crate::{Store, StoreError};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DueKind {
    /// A conversation with work and no runner.
    Conversation,
    /// An approval whose time ran out.
    Approval,
}

impl DueKind {
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Conversation => "META",
            Self::Approval => "AP",
        }
    }

    fn parse(text: &str) -> Option<Self> {
        match text {
            "META" => Some(Self::Conversation),
            "AP" => Some(Self::Approval),
            _ => None,
        }
    }
}

/// One entry of the index.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Due {
    pub kind: DueKind,
    pub tenant: TenantId,
    pub conversation: ConversationId,
    /// The approval's id; empty for a conversation.
    pub id: String,
}

impl Due {
    fn parse(sort: &str) -> Option<Self> {
        let mut parts = sort.splitn(5, '#');
        let _due = parts.next()?;
        let kind = DueKind::parse(parts.next()?)?;
        let tenant = TenantId::from_stored(parts.next()?).ok()?;
        let conversation = parts.next()?.parse().ok()?;
        Some(Self {
            kind,
            tenant,
            conversation,
            id: parts.next()?.to_owned(),
        })
    }
}

impl Store {
    /// What is due at `now` in one shard, soonest first, at most `limit`.
    pub async fn due(&self, shard: u8, now: Millis, limit: i32) -> Result<Vec<Due>, StoreError> {
        let output = self
            .db
            .query()
            .table_name(&self.config.table)
            .index_name("due")
            .key_condition_expression("G1PK = :shard AND G1SK < :until")
            .expression_attribute_values(":shard", s(keys::due_partition(shard % SHARDS)))
            .expression_attribute_values(":until", s(format!("{:013}$", now.as_epoch())))
            .limit(limit)
            .send()
            .await
            .map_err(StoreError::aws)?;
        let sorts = output.items.unwrap_or_default();
        let parsed = sorts.iter().filter_map(|item| {
            let sort = item.get("G1SK")?.as_s().ok()?;
            let due = Due::parse(sort);
            if due.is_none() {
                tracing::error!(entry = %sort, "an entry of the sweep index cannot be read");
            }
            due
        });
        Ok(parsed.collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_reads_back_as_it_was_written() {
        let tenant = TenantId::from_stored("lakeside").unwrap();
        let conversation: ConversationId = "0123456789abcdef0123456789abcdef".parse().unwrap();
        let sort = keys::due_sort(
            Millis::from_epoch(5),
            DueKind::Approval.as_str(),
            &tenant,
            &conversation,
            "01J",
        );
        let due = Due {
            kind: DueKind::Approval,
            tenant,
            conversation,
            id: "01J".to_owned(),
        };
        assert_eq!(Due::parse(&sort), Some(due));
        assert!(sort < format!("{:013}$", 5));
        assert!(sort > format!("{:013}$", 4));
    }
}
