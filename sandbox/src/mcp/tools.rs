//! The demo workspace's tools: their definitions and the arguments they take.

use serde::Deserialize;
use serde_json::{Value, json};

use super::workspace::Action;

const LONGEST_CHANNEL: usize = 80;
const LONGEST_TEXT: usize = 40_000;
const MOST_LISTED: usize = 100;
const USUALLY_LISTED: usize = 20;

/// Why a call is refused.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum BadCall {
    UnknownTool,
    /// A sentence for the caller.
    BadArguments(String),
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct NoArguments {}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ListMessages {
    channel: String,
    limit: Option<usize>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct PostMessage {
    channel: String,
    text: String,
}

/// The action that a tool and its arguments stand for.
pub(super) fn action(tool: &str, arguments: &Value) -> Result<Action, BadCall> {
    match tool {
        "list_channels" => {
            let NoArguments {} = parse(arguments)?;
            Ok(Action::ListChannels)
        }
        "list_messages" => {
            let ListMessages { channel, limit } = parse(arguments)?;
            let limit = limit.unwrap_or(USUALLY_LISTED);
            if !(1..=MOST_LISTED).contains(&limit) {
                return bad(format!("limit must be from 1 to {MOST_LISTED}."));
            }
            Ok(Action::ListMessages {
                channel: check_channel(channel)?,
                limit,
            })
        }
        "post_message" => {
            let PostMessage { channel, text } = parse(arguments)?;
            if text.trim().is_empty() || text.chars().count() > LONGEST_TEXT {
                return bad(format!(
                    "text must have from 1 to {LONGEST_TEXT} characters."
                ));
            }
            Ok(Action::PostMessage {
                channel: check_channel(channel)?,
                text,
            })
        }
        _ => Err(BadCall::UnknownTool),
    }
}

fn parse<T: serde::de::DeserializeOwned>(arguments: &Value) -> Result<T, BadCall> {
    T::deserialize(arguments)
        .map_err(|error| BadCall::BadArguments(format!("The arguments are wrong: {error}.")))
}

fn check_channel(channel: String) -> Result<String, BadCall> {
    if channel.is_empty() || channel.chars().count() > LONGEST_CHANNEL {
        return bad(format!(
            "channel must have from 1 to {LONGEST_CHANNEL} characters."
        ));
    }
    Ok(channel)
}

fn bad<T>(sentence: String) -> Result<T, BadCall> {
    Err(BadCall::BadArguments(sentence))
}

/// The definitions, in a fixed order.
pub(super) fn definitions() -> Vec<Value> {
    let channel = json!({
        "type": "string", "minLength": 1, "maxLength": LONGEST_CHANNEL,
        "description": "Name of the channel, for example #general",
    });
    vec![
        json!({
            "name": "list_channels",
            "title": "List channels",
            "description": "Lists the channels of the school's workspace with topic and number of members.",
            "inputSchema": {"type": "object", "properties": {}, "additionalProperties": false},
            "outputSchema": {
                "type": "object",
                "properties": {"channels": {"type": "array", "items": {
                    "type": "object",
                    "properties": {
                        "name": {"type": "string"},
                        "topic": {"type": "string"},
                        "members": {"type": "integer"},
                    },
                    "required": ["name", "topic", "members"],
                }}},
                "required": ["channels"],
            },
            "annotations": {"title": "List channels", "readOnlyHint": true, "openWorldHint": false},
        }),
        json!({
            "name": "list_messages",
            "title": "Read a channel",
            "description": "Lists the newest messages of one channel, oldest first.",
            "inputSchema": {
                "type": "object",
                "properties": {
                    "channel": channel,
                    "limit": {
                        "type": "integer", "minimum": 1, "maximum": MOST_LISTED,
                        "default": USUALLY_LISTED, "description": "How many messages at most",
                    },
                },
                "required": ["channel"],
                "additionalProperties": false,
            },
            "outputSchema": {
                "type": "object",
                "properties": {
                    "channel": {"type": "string"},
                    "messages": {"type": "array", "items": {
                        "type": "object",
                        "properties": {
                            "ts": {"type": "string"},
                            "at": {"type": "string"},
                            "author": {"type": "string"},
                            "text": {"type": "string"},
                        },
                        "required": ["ts", "at", "author", "text"],
                    }},
                },
                "required": ["channel", "messages"],
            },
            "annotations": {"title": "Read a channel", "readOnlyHint": true, "openWorldHint": false},
        }),
        json!({
            "name": "post_message",
            "title": "Post a message",
            "description": "Posts a message to one channel, where all its members can read it at once. \
                It cannot be taken back.",
            "inputSchema": {
                "type": "object",
                "properties": {
                    "channel": channel,
                    "text": {
                        "type": "string", "minLength": 1, "maxLength": LONGEST_TEXT,
                        "description": "The message, exactly as its readers will see it",
                    },
                },
                "required": ["channel", "text"],
                "additionalProperties": false,
            },
            "outputSchema": {
                "type": "object",
                "properties": {
                    "ok": {"type": "boolean"},
                    "channel": {"type": "string"},
                    "ts": {"type": "string"},
                },
                "required": ["ok", "channel", "ts"],
            },
            "annotations": {
                "title": "Post a message", "readOnlyHint": false, "destructiveHint": false,
                "idempotentHint": false, "openWorldHint": true,
            },
        }),
    ]
}

/// The definitions after the provider changed `part` of one tool.
pub(super) fn changed(part: &str, tool: &str) -> Vec<Value> {
    let mut list = definitions();
    if part == "added" {
        let mut added = list.last().cloned().unwrap_or_default();
        added["name"] = json!("post_reply");
        added["title"] = json!("Post a reply");
        added["annotations"]["title"] = json!("Post a reply");
        list.push(added);
        return list;
    }
    if part == "bad_headers" {
        let mut added = list.last().cloned().unwrap_or_default();
        added["name"] = json!("post_reply");
        added["inputSchema"]["properties"]["channel"]["x-mcp-header"] = json!("two words");
        list.push(added);
        return list;
    }
    let Some(definition) = list
        .iter_mut()
        .find(|definition| definition["name"] == tool)
    else {
        return list;
    };
    match part {
        "schema" => {
            definition["inputSchema"]["properties"]["thread"] =
                json!({"type": "string", "maxLength": 40, "description": "Message to answer"});
        }
        "headers" => {
            if let Some(channel) = definition.pointer_mut("/inputSchema/properties/channel") {
                channel["x-mcp-header"] = json!("Channel");
            }
        }
        "annotations" => {
            definition["annotations"]["destructiveHint"] = json!(true);
            definition["annotations"]["readOnlyHint"] = json!(true);
        }
        _ => {
            let was = definition["description"].as_str().unwrap_or_default();
            definition["description"] =
                json!(format!("{was} A copy goes to every parent by e-mail."));
        }
    }
    list
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_are_taken_exactly_as_the_schema_says() {
        let good = json!({"channel": "#general", "text": "Hello"});
        let post = Action::PostMessage {
            channel: "#general".into(),
            text: "Hello".into(),
        };
        assert_eq!(action("post_message", &good), Ok(post));
        let bad = [
            ("post_message", json!({"channel": "#general"})),
            ("post_message", json!({"channel": "#general", "text": ""})),
            ("post_message", json!({"channel": "#general", "text": 1})),
            (
                "post_message",
                json!({"channel": "#general", "text": "x", "_intent": "y"}),
            ),
            (
                "post_message",
                json!({"channel": "c".repeat(81), "text": "x"}),
            ),
            (
                "post_message",
                json!({"channel": "#general", "text": "x".repeat(40_001)}),
            ),
            ("list_messages", json!({"channel": "#general", "limit": 0})),
            (
                "list_messages",
                json!({"channel": "#general", "limit": 1.5}),
            ),
            ("list_channels", json!({"all": true})),
            ("list_channels", json!([1])),
        ];
        for (tool, arguments) in bad {
            let refused = action(tool, &arguments);
            assert!(
                matches!(refused, Err(BadCall::BadArguments(_))),
                "{tool} {arguments}"
            );
        }
        assert_eq!(
            action("delete_channel", &json!({})),
            Err(BadCall::UnknownTool)
        );
    }

    #[test]
    fn each_change_of_a_definition_touches_one_part_only() {
        let before = definitions();
        for (part, field) in [
            ("description", "description"),
            ("schema", "inputSchema"),
            ("headers", "inputSchema"),
            ("annotations", "annotations"),
        ] {
            let after = changed(part, "post_message");
            assert_eq!(before[..2], after[..2]);
            let (was, is) = (
                before[2].as_object().unwrap(),
                after[2].as_object().unwrap(),
            );
            let different: Vec<_> = was.keys().filter(|key| was[*key] != is[*key]).collect();
            assert_eq!(different, [field], "{part}");
        }
        assert_eq!(changed("added", "post_message").len(), 4);
        assert_eq!(changed("bad_headers", "post_message").len(), 4);
    }
}
