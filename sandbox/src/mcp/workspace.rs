//! The demo workspaces: each school's channels, their messages, and the calls that took effect.

use std::collections::{BTreeMap, VecDeque};

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::clock;

const MOST_TENANTS: usize = 200;
const MOST_CALLS: usize = 1000;
const MOST_MESSAGES: usize = 200;

#[derive(Debug, Default, Deserialize, Serialize)]
#[serde(default)]
pub(crate) struct Workspaces {
    tenants: BTreeMap<String, Vec<Channel>>,
    calls: VecDeque<Call>,
    /// Makes time stamps unique.
    posted: u64,
}

#[derive(Debug, Clone, Deserialize, Serialize)]
struct Channel {
    name: String,
    topic: String,
    members: u32,
    messages: VecDeque<Message>,
}

#[derive(Debug, Clone, Deserialize, Serialize)]
struct Message {
    ts: String,
    at: String,
    author: String,
    text: String,
}

/// One call that took effect.
#[derive(Debug, Clone, Deserialize, Serialize)]
pub(crate) struct Call {
    server: String,
    tenant: String,
    tool: String,
    arguments: Value,
    at: String,
}

/// What a call may do once its arguments are known to be good.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Action {
    ListChannels,
    ListMessages { channel: String, limit: usize },
    PostMessage { channel: String, text: String },
}

impl Workspaces {
    pub(crate) fn calls(&self) -> Value {
        json!(self.calls)
    }

    /// Does what was asked and counts it. The error is a sentence for the caller.
    pub(super) fn commit(
        &mut self,
        tenant: &str,
        tool: &str,
        arguments: &Value,
        action: &Action,
    ) -> Result<Value, String> {
        if !self.tenants.contains_key(tenant) && self.tenants.len() >= MOST_TENANTS {
            self.tenants.pop_first();
        }
        let next = self.posted + 1;
        let channels = self
            .tenants
            .entry(tenant.to_owned())
            .or_insert_with(|| start(tenant));
        let result = match action {
            Action::ListChannels => {
                let list: Vec<_> = channels
                    .iter()
                    .map(|c| json!({"name": c.name, "topic": c.topic, "members": c.members}))
                    .collect();
                json!({"channels": list})
            }
            Action::ListMessages { channel, limit } => {
                let channel = find(channels, channel)?;
                let skip = channel.messages.len().saturating_sub(*limit);
                let list: Vec<_> = channel.messages.iter().skip(skip).collect();
                json!({"channel": channel.name, "messages": list})
            }
            Action::PostMessage { channel, text } => {
                let channel = find(channels, channel)?;
                let ts = format!("{}.{next:06}", clock::now_s());
                if channel.messages.len() >= MOST_MESSAGES {
                    channel.messages.pop_front();
                }
                channel.messages.push_back(Message {
                    ts: ts.clone(),
                    at: clock::now(),
                    author: "Toshi".to_owned(),
                    text: text.clone(),
                });
                self.posted = next;
                json!({"ok": true, "channel": channel.name, "ts": ts})
            }
        };
        if self.calls.len() >= MOST_CALLS {
            self.calls.pop_front();
        }
        self.calls.push_back(Call {
            server: "demo".to_owned(),
            tenant: tenant.to_owned(),
            tool: tool.to_owned(),
            arguments: arguments.clone(),
            at: clock::now(),
        });
        Ok(result)
    }
}

/// A channel by name, with or without its `#`.
fn find<'a>(channels: &'a mut [Channel], name: &str) -> Result<&'a mut Channel, String> {
    let bare = name.strip_prefix('#').unwrap_or(name);
    let known: Vec<_> = channels
        .iter()
        .map(|channel| channel.name.clone())
        .collect();
    channels
        .iter_mut()
        .find(|channel| channel.name.trim_start_matches('#') == bare)
        .ok_or_else(|| {
            format!(
                "There is no channel #{bare}. Channels: {}.",
                known.join(", ")
            )
        })
}

/// A workspace as it is on the first day.
fn start(tenant: &str) -> Vec<Channel> {
    let day = "2026-08-31T07:30:00.000Z";
    let channel = |name: &str, topic: &str, members, author: &str, text: String| Channel {
        name: name.to_owned(),
        topic: topic.to_owned(),
        members,
        messages: VecDeque::from([Message {
            ts: "1788161400.000000".to_owned(),
            at: day.to_owned(),
            author: author.to_owned(),
            text,
        }]),
    };
    vec![
        channel(
            "#general",
            "News for the whole school",
            84,
            "School office",
            format!("Welcome to the new school year at {tenant}."),
        ),
        channel(
            "#staff",
            "Teachers and office only",
            23,
            "School office",
            "The staff meeting is on Thursday at 15:30 in the library.".to_owned(),
        ),
        channel(
            "#science",
            "Science department",
            7,
            "Science department",
            "The microscopes are back from repair.".to_owned(),
        ),
        channel(
            "#parents",
            "Announcements for parents",
            212,
            "School office",
            "The first parents' evening is on 17 September.".to_owned(),
        ),
    ]
}
