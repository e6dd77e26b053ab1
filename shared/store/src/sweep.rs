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

/// Part of what is due in a shard, and where the part after it begins.
#[derive(Debug)]
pub struct DuePage {
    pub items: Vec<Due>,
    pub next: Option<String>,
}

impl Store {
    /// What is due at `now` in one shard, soonest first, at most `limit`.
    pub async fn due(&self, shard: u8, now: Millis, limit: i32) -> Result<Vec<Due>, StoreError> {
        self.due_after(shard, now, None, limit)
            .await
            .map(|page| page.items)
    }

    /// As [`Store::due`], from `after` on: kinds share a shard, and a crowd of one must not hide
    /// the other.
    pub async fn due_after(
        &self,
        shard: u8,
        now: Millis,
        after: Option<&str>,
        limit: i32,
    ) -> Result<DuePage, StoreError> {
        // A space sorts before every character of an entry: nothing lies between.
        let from = after.map_or_else(|| "0".to_owned(), |after| format!("{after} "));
        let output = self
            .db
            .query()
            .table_name(&self.config.table)
            .index_name("due")
            .key_condition_expression("G1PK = :shard AND G1SK BETWEEN :from AND :until")
            .expression_attribute_values(":shard", s(keys::due_partition(shard % SHARDS)))
            .expression_attribute_values(":from", s(from))
            .expression_attribute_values(":until", s(format!("{:013}$", now.as_epoch())))
            .limit(limit)
            .send()
            .await
            .map_err(StoreError::aws)?;
        let more = output.last_evaluated_key.is_some_and(|key| !key.is_empty());
        let items = output.items.unwrap_or_default();
        let sorts: Vec<&str> = items
            .iter()
            .filter_map(|item| item.get("G1SK")?.as_s().ok().map(String::as_str))
            .collect();
        let parsed = sorts.iter().filter_map(|sort| {
            let due = Due::parse(sort);
            if due.is_none() {
                tracing::error!(entry = %sort, "an entry of the sweep index cannot be read");
            }
            due
        });
        Ok(DuePage {
            items: parsed.collect(),
            next: sorts.last().filter(|_| more).map(|sort| (*sort).to_owned()),
        })
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
