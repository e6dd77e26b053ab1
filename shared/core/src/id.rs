//! Identifiers. Each kind is its own type; none is made from a bare string without a check.

use std::fmt;
use std::marker::PhantomData;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use sha2::{Digest, Sha256};
use ulid::Ulid;

use crate::Millis;

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("not a valid {kind}")]
pub struct IdError {
    kind: &'static str,
}

/// What an identifier names.
pub trait Kind {
    const NAME: &'static str;
}

/// A time-ordered id of ours: a ULID, 26 characters of Crockford base 32.
pub struct Id<K>(Ulid, PhantomData<fn() -> K>);

impl<K> Id<K> {
    /// Makes an id from a time and 80 random bits, both given by the caller.
    pub fn new(now: Millis, random: u128) -> Self {
        let ms = u64::try_from(now.as_epoch()).unwrap_or(0);
        Self(Ulid::from_parts(ms, random), PhantomData)
    }

    /// When the id was made.
    pub fn made_at(&self) -> Millis {
        Millis::from_epoch(i64::try_from(self.0.timestamp_ms()).unwrap_or(i64::MAX))
    }
}

impl<K> Clone for Id<K> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<K> Copy for Id<K> {}
impl<K> PartialEq for Id<K> {
    fn eq(&self, other: &Self) -> bool {
        self.0 == other.0
    }
}
impl<K> Eq for Id<K> {}
impl<K> PartialOrd for Id<K> {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}
impl<K> Ord for Id<K> {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.0.cmp(&other.0)
    }
}
impl<K> std::hash::Hash for Id<K> {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.0.hash(state);
    }
}
impl<K> fmt::Display for Id<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
impl<K: Kind> fmt::Debug for Id<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}({})", K::NAME, self.0)
    }
}
impl<K: Kind> FromStr for Id<K> {
    type Err = IdError;

    fn from_str(text: &str) -> Result<Self, IdError> {
        let ulid = Ulid::from_string(text).map_err(|_| IdError { kind: K::NAME })?;
        // Lower case decodes too; one id must have one spelling.
        if ulid.to_string() != text {
            return Err(IdError { kind: K::NAME });
        }
        Ok(Self(ulid, PhantomData))
    }
}
impl<K> Serialize for Id<K> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}
impl<'de, K: Kind> Deserialize<'de> for Id<K> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?
            .parse()
            .map_err(de::Error::custom)
    }
}

/// The kinds of [`Id`].
mod kind {
    use super::Kind;

    #[derive(Debug)]
    pub enum Approval {}
    #[derive(Debug)]
    pub enum Attempt {}
    #[derive(Debug)]
    pub enum Call {}
    #[derive(Debug)]
    pub enum Inbox {}
    #[derive(Debug)]
    pub enum Message {}
    #[derive(Debug)]
    pub enum Turn {}

    impl Kind for Approval {
        const NAME: &'static str = "approval id";
    }
    impl Kind for Attempt {
        const NAME: &'static str = "attempt id";
    }
    impl Kind for Call {
        const NAME: &'static str = "tool call id";
    }
    impl Kind for Inbox {
        const NAME: &'static str = "inbox id";
    }
    impl Kind for Message {
        const NAME: &'static str = "message id";
    }
    impl Kind for Turn {
        const NAME: &'static str = "turn id";
    }
}

pub type ApprovalId = Id<kind::Approval>;
pub type AttemptId = Id<kind::Attempt>;
pub type CallId = Id<kind::Call>;
pub type InboxId = Id<kind::Inbox>;
pub type MessageId = Id<kind::Message>;
pub type TurnId = Id<kind::Turn>;

/// A checked name: characters that are safe in a key, a URL and a log line.
pub struct Name<K>(String, PhantomData<fn() -> K>);

/// What a [`Name`] names, and how long it may be.
pub trait NameKind {
    const NAME: &'static str;
    const MIN: usize = 1;
    const MAX: usize = 64;
    /// Characters allowed besides letters, digits, `-` and `_`.
    const ALSO: &'static str = "";
}

impl<K> Name<K> {
    pub fn as_str(&self) -> &str {
        &self.0
    }
}
impl<K> Clone for Name<K> {
    fn clone(&self) -> Self {
        Self(self.0.clone(), PhantomData)
    }
}
impl<K> PartialEq for Name<K> {
    fn eq(&self, other: &Self) -> bool {
        self.0 == other.0
    }
}
impl<K> Eq for Name<K> {}
impl<K> PartialOrd for Name<K> {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}
impl<K> Ord for Name<K> {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.0.cmp(&other.0)
    }
}
impl<K> std::hash::Hash for Name<K> {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.0.hash(state);
    }
}
impl<K> fmt::Display for Name<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
impl<K: NameKind> fmt::Debug for Name<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}({})", K::NAME, self.0)
    }
}
impl<K: NameKind> FromStr for Name<K> {
    type Err = IdError;

    fn from_str(text: &str) -> Result<Self, IdError> {
        let allowed =
            |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_' || K::ALSO.contains(c);
        if (K::MIN..=K::MAX).contains(&text.len()) && text.chars().all(allowed) {
            Ok(Self(text.to_owned(), PhantomData))
        } else {
            Err(IdError { kind: K::NAME })
        }
    }
}
impl<K> Serialize for Name<K> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0)
    }
}
impl<'de, K: NameKind> Deserialize<'de> for Name<K> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?
            .parse()
            .map_err(de::Error::custom)
    }
}

/// The kinds of [`Name`].
mod name {
    use super::NameKind;

    #[derive(Debug)]
    pub enum Client {}
    #[derive(Debug)]
    pub enum Connection {}
    #[derive(Debug)]
    pub enum Conversation {}
    #[derive(Debug)]
    pub enum Request {}
    #[derive(Debug)]
    pub enum User {}
    #[derive(Debug)]
    pub enum UserMessage {}

    impl NameKind for Client {
        const NAME: &'static str = "conversation id";
        const MIN: usize = 8;
    }
    impl NameKind for Connection {
        const NAME: &'static str = "connection id";
    }
    impl NameKind for Conversation {
        const NAME: &'static str = "conversation key";
        const MIN: usize = 32;
        const MAX: usize = 32;
    }
    impl NameKind for Request {
        const NAME: &'static str = "request id";
        const MAX: usize = 128;
        const ALSO: &'static str = ":=.";
    }
    impl NameKind for User {
        const NAME: &'static str = "user id";
    }
    impl NameKind for UserMessage {
        const NAME: &'static str = "message id";
        const MAX: usize = 128;
        const ALSO: &'static str = ".:";
    }
}

/// A conversation id as its client made it: `[A-Za-z0-9_-]{8,64}`.
pub type ClientId = Name<name::Client>;
pub type ConnectionId = Name<name::Connection>;
/// A conversation's key: a hash of its user and the client's id, so that no mapping row is needed
/// and one person's id never reaches another person's conversation.
pub type ConversationId = Name<name::Conversation>;
pub type RequestId = Name<name::Request>;
pub type UserId = Name<name::User>;
/// A user message's id as its client made it.
pub type UserMessageId = Name<name::UserMessage>;

impl ConversationId {
    pub fn of(user: &UserId, client: &ClientId) -> Self {
        let mut hash = Sha256::new();
        hash.update(b"conversation\0");
        hash.update(user.as_str());
        hash.update(b"\0");
        hash.update(client.as_str());
        let text = hex::encode(&hash.finalize()[..16]);
        Self(text, PhantomData)
    }
}

/// A school. The capability to build keys: without one there is no row to read.
///
/// It is made from a stored row or a message that we wrote, after the person or channel that leads
/// to it was verified; never from what a client says. No text becomes one by itself:
///
/// ```compile_fail,E0423
/// let school = toshi_core::TenantId("lakeside".into());
/// ```
///
/// ```compile_fail,E0277
/// let school: toshi_core::TenantId = String::from("lakeside").into();
/// ```
///
/// ```compile_fail,E0277
/// let school: toshi_core::TenantId = "lakeside".parse().unwrap();
/// ```
///
/// ```
/// let school = toshi_core::TenantId::from_stored("lakeside")?;
/// # Ok::<_, toshi_core::IdError>(())
/// ```
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(transparent)]
pub struct TenantId(String);

impl TenantId {
    /// Takes a tenant id out of a row or queue message of ours.
    pub fn from_stored(text: &str) -> Result<Self, IdError> {
        let allowed = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
        if (1..=40).contains(&text.len()) && text.chars().all(allowed) {
            Ok(Self(text.to_owned()))
        } else {
            Err(IdError { kind: "tenant id" })
        }
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl<'de> Deserialize<'de> for TenantId {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::from_stored(&String::deserialize(deserializer)?).map_err(de::Error::custom)
    }
}
impl fmt::Display for TenantId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
impl fmt::Debug for TenantId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "tenant id({})", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_has_exactly_one_spelling() {
        let id = ApprovalId::new(Millis::from_epoch(1_700_000_000_000), 42);
        let text = id.to_string();
        assert_eq!(text.parse::<ApprovalId>().unwrap(), id);
        assert!(text.to_lowercase().parse::<ApprovalId>().is_err());
        assert!(format!("{text}0").parse::<ApprovalId>().is_err());
        assert!("".parse::<ApprovalId>().is_err());
        assert_eq!(id.made_at(), Millis::from_epoch(1_700_000_000_000));
    }

    #[test]
    fn a_conversation_key_separates_users_and_client_ids() {
        let user = |text: &str| text.parse::<UserId>().unwrap();
        let client = |text: &str| text.parse::<ClientId>().unwrap();
        let one = ConversationId::of(&user("ann"), &client("chat-0001"));
        assert_eq!(one, ConversationId::of(&user("ann"), &client("chat-0001")));
        assert_ne!(one, ConversationId::of(&user("bob"), &client("chat-0001")));
        assert_ne!(one, ConversationId::of(&user("ann"), &client("chat-0002")));
        assert!(one.to_string().parse::<ConversationId>().is_ok());
    }

    #[test]
    fn names_refuse_what_could_change_a_key() {
        for bad in ["", "a#b", "a/b", "a b", "ü", "a\n", "."] {
            assert!(bad.parse::<UserId>().is_err(), "{bad:?}");
        }
        assert!("short".parse::<ClientId>().is_err());
        assert!("x".repeat(65).parse::<ClientId>().is_err());
        assert!(TenantId::from_stored("Lakeside").is_err());
        assert!(TenantId::from_stored("a#b").is_err());
        assert!(TenantId::from_stored("lakeside").is_ok());
    }
}
