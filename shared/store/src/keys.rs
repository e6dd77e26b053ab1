//! Every key of both tables, built in this one place. Nothing else spells a prefix.
//!
//! Keys below a school need its [`TenantId`]; the few that come before one (a person's identity,
//! the platform's rows, rate counters) have constructors of their own.

use std::collections::HashMap;

use aws_sdk_dynamodb::types::AttributeValue;
use toshi_core::{
    ApprovalId, CallId, ClientId, ConnectionId, ConversationId, InboxId, Millis, Sha256Hex,
    Subject, TenantId, TurnId, UserId, UserMessageId,
};

/// A primary key.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Key {
    pub(crate) pk: String,
    pub(crate) sk: String,
}

impl Key {
    fn new(pk: impl Into<String>, sk: impl Into<String>) -> Self {
        Self {
            pk: pk.into(),
            sk: sk.into(),
        }
    }

    pub(crate) fn attributes(&self) -> HashMap<String, AttributeValue> {
        HashMap::from([
            ("PK".to_owned(), AttributeValue::S(self.pk.clone())),
            ("SK".to_owned(), AttributeValue::S(self.sk.clone())),
        ])
    }
}

/// The prefixes that are read as ranges.
pub(crate) mod prefix {
    pub(crate) const APPROVAL: &str = "AP#";
    pub(crate) const APPROVAL_BY_ID: &str = "APID#";
    pub(crate) const CONNECTION: &str = "CONN#";
    pub(crate) const CONVERSATION: &str = "CV#";
    pub(crate) const INBOX: &str = "IN#";
    pub(crate) const KILL: &str = "KILL#";
    pub(crate) const MESSAGE: &str = "M#";
    pub(crate) const OPEN: &str = "OPEN#";
    pub(crate) const STEP: &str = "STEP#";
    pub(crate) const TENANT: &str = "TENANT#";
    pub(crate) const TOOL: &str = "TOOL#";
}

/// Keys of one school.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Keys<'a>(pub(crate) &'a TenantId);

impl Keys<'_> {
    fn tenant(&self) -> String {
        format!("T#{}", self.0)
    }

    pub(crate) fn school(&self) -> String {
        self.tenant()
    }

    pub(crate) fn user(&self, user: &UserId) -> Key {
        Key::new(self.tenant(), format!("USER#{user}"))
    }

    pub(crate) fn user_conversations(&self, user: &UserId) -> String {
        format!("T#{}#U#{user}", self.0)
    }

    pub(crate) fn listed_conversation(&self, user: &UserId, client: &ClientId) -> Key {
        Key::new(
            self.user_conversations(user),
            format!("{}{client}", prefix::CONVERSATION),
        )
    }

    pub(crate) fn conversation(&self, conversation: &ConversationId) -> String {
        format!("T#{}#C#{conversation}", self.0)
    }

    fn within(&self, conversation: &ConversationId, sk: String) -> Key {
        Key::new(self.conversation(conversation), sk)
    }

    pub(crate) fn meta(&self, conversation: &ConversationId) -> Key {
        self.within(conversation, "META".to_owned())
    }

    pub(crate) fn summary(&self, conversation: &ConversationId) -> Key {
        self.within(conversation, "SUMMARY".to_owned())
    }

    pub(crate) fn user_message(
        &self,
        conversation: &ConversationId,
        id: &UserMessageId,
        text: &str,
    ) -> Key {
        let hash = Sha256Hex::of(format!("{id}\0{text}").as_bytes());
        self.within(conversation, format!("UM#{hash}"))
    }

    pub(crate) fn message(&self, conversation: &ConversationId, seq: u64) -> Key {
        self.within(conversation, format!("{}{seq:010}", prefix::MESSAGE))
    }

    pub(crate) fn turn(&self, conversation: &ConversationId, turn: TurnId) -> Key {
        self.within(conversation, format!("TURN#{turn}"))
    }

    pub(crate) fn step(&self, conversation: &ConversationId, turn: TurnId, n: u32) -> Key {
        self.within(conversation, format!("{}{turn}#{n:04}", prefix::STEP))
    }

    pub(crate) fn inbox(&self, conversation: &ConversationId, inbox: InboxId) -> Key {
        self.within(conversation, format!("{}{inbox}", prefix::INBOX))
    }

    pub(crate) fn approval(&self, conversation: &ConversationId, approval: ApprovalId) -> Key {
        self.within(conversation, format!("{}{approval}", prefix::APPROVAL))
    }

    pub(crate) fn chunk(&self, conversation: &ConversationId, call: CallId, n: u32) -> Key {
        self.within(conversation, format!("R#{call}#{n:03}"))
    }

    pub(crate) fn approval_by_id(&self, approval: ApprovalId) -> Key {
        Key::new(
            self.tenant(),
            format!("{}{approval}", prefix::APPROVAL_BY_ID),
        )
    }

    /// The pointer of an open approval in its approver's list, soonest limit first.
    pub(crate) fn open(&self, approver: &UserId, decide_by: Millis, approval: ApprovalId) -> Key {
        let sk = format!(
            "{}user:{approver}#{:013}#{approval}",
            prefix::OPEN,
            decide_by.as_epoch()
        );
        Key::new(self.tenant(), sk)
    }

    pub(crate) fn open_of(approver: &UserId) -> String {
        format!("{}user:{approver}#", prefix::OPEN)
    }

    pub(crate) fn unknown(&self, connection: &ConnectionId, tool: &str, hash: &Sha256Hex) -> Key {
        Key::new(self.tenant(), format!("UNK#{connection}#{tool}#{hash}"))
    }

    pub(crate) fn kill(&self, scope: &str) -> Key {
        Key::new(self.tenant(), format!("{}{scope}", prefix::KILL))
    }

    pub(crate) fn connection(&self, connector: &str, connection: &ConnectionId) -> Key {
        Key::new(
            self.tenant(),
            format!("{}{connector}#{connection}", prefix::CONNECTION),
        )
    }

    pub(crate) fn credential(&self, connection: &ConnectionId) -> Key {
        Key::new(self.tenant(), format!("CRED#{connection}"))
    }

    pub(crate) fn tool(&self, connection: &ConnectionId, tool: &str) -> Key {
        Key::new(
            self.tenant(),
            format!("{}{connection}#{tool}", prefix::TOOL),
        )
    }

    pub(crate) fn audit(&self, subject: Subject, seq: u64) -> Key {
        Key::new(
            self.audit_subject(&subject.to_string()),
            format!("{seq:010}"),
        )
    }

    pub(crate) fn audit_subject(&self, subject: &str) -> String {
        format!("T#{}#{subject}", self.0)
    }

    pub(crate) fn audit_day(&self, day: &str) -> String {
        format!("T#{}#{day}", self.0)
    }

    /// Refusals have a stream of their own, in eight shards a day.
    pub(crate) fn audit_refusal(&self, shard: u8, day: &str, ulid: &str) -> Key {
        Key::new(format!("T#{}#REF#{}#{day}", self.0, shard % 8), ulid)
    }

    pub(crate) fn rate(&self, scope: &str, window: i64) -> Key {
        Key::new(format!("RATE#T#{}#{scope}#{window}", self.0), "R")
    }
}

pub(crate) fn platform() -> &'static str {
    "PLATFORM"
}

pub(crate) fn tenant_row(tenant: &str) -> Key {
    Key::new(platform(), format!("{}{tenant}", prefix::TENANT))
}

/// A person's identity at their issuer; its rows list the schools they belong to.
pub(crate) fn identity(issuer: &str, subject: &str) -> String {
    let hash = Sha256Hex::of(format!("{issuer}\0{subject}").as_bytes());
    format!("SUB#{hash}")
}

pub(crate) fn identity_in(issuer: &str, subject: &str, tenant: &TenantId) -> Key {
    Key::new(identity(issuer, subject), format!("T#{tenant}"))
}

pub(crate) fn identity_of_operator(issuer: &str, subject: &str) -> Key {
    Key::new(identity(issuer, subject), platform())
}

pub(crate) fn operator(user: &UserId) -> Key {
    Key::new(platform(), format!("USER#{user}"))
}

pub(crate) fn platform_secret(name: &str) -> Key {
    Key::new(platform(), format!("SECRET#{name}"))
}

/// Sweep shards.
pub const SHARDS: u8 = 16;

pub(crate) fn shard_of(conversation: &ConversationId) -> u8 {
    let hash = Sha256Hex::of(conversation.as_str().as_bytes());
    u8::from_str_radix(hash.as_str().get(..2).unwrap_or("0"), 16).unwrap_or(0) % SHARDS
}

pub(crate) fn due_partition(shard: u8) -> String {
    format!("D#{}", shard % SHARDS)
}

/// `<due>#<kind>#<tenant>#<conversation>#<id>`
pub(crate) fn due_sort(
    due: Millis,
    kind: &str,
    tenant: &TenantId,
    conversation: &ConversationId,
    id: &str,
) -> String {
    format!(
        "{:013}#{kind}#{tenant}#{conversation}#{id}",
        due.as_epoch().max(0)
    )
}

#[cfg(test)]
#[path = "keys_tests.rs"]
mod tests;
