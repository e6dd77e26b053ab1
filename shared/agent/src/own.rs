//! Tools of our own: declared here, in code, where a connector's tools are learned from a server.

use std::sync::LazyLock;

use serde_json::{Map, Value, json};
use toshi_connectors::schema;
use toshi_core::{
    BlockReason, CallId, CallOutcome, ConnectionId, Outcome, READ_RESULT, blocked_words,
};
use toshi_store::{History, OpenError, PartError};

use crate::drive::Drive;
use crate::model::ModelTool;
use crate::run::RunError;

/// A part of a stored result that the model wants to read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ReadOn {
    call: CallId,
    part: u32,
}

/// What became of it, and whose answer it was.
pub(crate) struct WasRead {
    pub(crate) outcome: Outcome,
    pub(crate) connection: Option<ConnectionId>,
    /// What a person and the model read as its place.
    pub(crate) title: String,
}

static SCHEMA: LazyLock<Map<String, Value>> = LazyLock::new(|| {
    let schema = json!({
        "type": "object",
        "properties": {
            "call": { "type": "string", "description": "The id of the call whose result is long" },
            "part": { "type": "integer", "minimum": 1, "description": "Which part of it" },
        },
        "required": ["call", "part"],
        "additionalProperties": false,
    });
    match schema {
        Value::Object(schema) => schema,
        _ => Map::new(),
    }
});

pub(crate) fn is_own(name: &str) -> bool {
    name == READ_RESULT
}

/// Our tools as the model is shown them: only where there is something to use them on.
pub(crate) fn shown(history: &History) -> Option<ModelTool> {
    let long = history.approvals.values().any(|row| row.chunks > 0)
        || history
            .steps
            .iter()
            .flat_map(|step| &step.calls)
            .any(|call| matches!(call.outcome, CallOutcome::Read { chunks, .. } if chunks > 0));
    long.then(|| ModelTool {
        name: READ_RESULT.to_owned(),
        description: "Reads one part of a long result of this conversation, of which only the \
                      first part was shown."
            .to_owned(),
        schema: schema::acceptable(&SCHEMA).unwrap_or_default(),
    })
}

/// Reads the arguments of a call of `read_result`; the error is a sentence for the model.
pub(crate) fn read_on(arguments: &Value) -> Result<ReadOn, String> {
    schema::validate(arguments, &SCHEMA)
        .map_err(|why| format!("the arguments do not fit: {why}"))?;
    let call = arguments.get("call").and_then(Value::as_str);
    let call = call.and_then(|call| call.parse().ok());
    let part = arguments.get("part").and_then(Value::as_u64);
    let part = part.map(|part| u32::try_from(part).unwrap_or(u32::MAX));
    match (call, part) {
        (Some(call), Some(part)) => Ok(ReadOn { call, part }),
        _ => Err("`call` must be the id that the shortened result names".to_owned()),
    }
}

impl Drive<'_, '_> {
    /// Reads on. Only the store's own failures stop the turn.
    pub(crate) async fn read_on(&self, wanted: &ReadOn) -> Result<WasRead, RunError> {
        let ReadOn { call, part } = *wanted;
        let catalogue = self.run.agent.catalogue();
        let person = &self.context.person;
        let opened = self
            .run
            .school
            .open_result(
                catalogue,
                (&person.user, person.role),
                &self.run.meta.conversation,
                call,
                part,
            )
            .await;
        let refused = |why: String| {
            Ok(WasRead {
                outcome: Outcome::Refused { why },
                connection: None,
                title: "Read on".to_owned(),
            })
        };
        let kept = match opened {
            Ok(kept) => kept,
            Err(PartError::Closed(OpenError::Store(error))) => return Err(error.into()),
            Err(PartError::NoResult) => {
                return refused(format!(
                    "this conversation has no long result of call {call}"
                ));
            }
            Err(PartError::NoPart { parts }) => {
                return refused(format!("there is no part {part}; the result has {parts}"));
            }
            Err(PartError::Closed(OpenError::Denied(why))) => {
                return refused(blocked_words(why).to_owned());
            }
            Err(PartError::Closed(OpenError::NotFound | OpenError::NeedsApproval)) => {
                return refused(blocked_words(BlockReason::ConnectionUnusable).to_owned());
            }
        };
        let origin = kept.origin;
        let connector = catalogue.get(&origin.connector);
        let tool = connector.map_or(origin.tool.as_str(), |connector| {
            connector.tool_title(&origin.tool)
        });
        let place = connector.map_or("", |connector| connector.title.as_str());
        Ok(WasRead {
            outcome: Outcome::Succeeded {
                bytes: kept.text.len() as u64,
                text: kept.text,
                structured: None,
            },
            connection: Some(origin.connection),
            title: format!("{tool} · {place} (part {part} of {})", kept.parts),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample;

    #[test]
    fn arguments_must_name_a_call_of_ours_and_a_part() {
        let call: CallId = sample::id(7);
        let good = json!({ "call": call, "part": 3 });
        assert_eq!(read_on(&good), Ok(ReadOn { call, part: 3 }));
        let far = json!({ "call": call, "part": u64::MAX });
        assert_eq!(read_on(&far).map(|wanted| wanted.part), Ok(u32::MAX));
        let bad = [
            json!({ "call": call }),
            json!({ "part": 2 }),
            json!({ "call": call, "part": 0 }),
            json!({ "call": call, "part": "2" }),
            json!({ "call": call, "part": 1.5 }),
            json!({ "call": call, "part": 2, "conversation": "other" }),
            json!({ "call": "../R#x", "part": 2 }),
            json!({ "call": "", "part": 2 }),
        ];
        for arguments in bad {
            assert!(read_on(&arguments).is_err(), "{arguments}");
        }
    }

    #[test]
    fn the_tool_is_shown_where_a_result_is_longer_than_what_was_shown() {
        let outcome = || sample::succeeded();
        let read = |chunks| {
            sample::call(
                1,
                CallOutcome::Read {
                    outcome: outcome(),
                    chunks,
                },
            )
        };
        let with = |chunks| sample::history(&[sample::step(1, "", vec![read(chunks)])], &[]);
        assert_eq!(shown(&with(0)), None);
        assert_eq!(shown(&with(2)).unwrap().name, "read_result");
        let mut write = sample::life(1, toshi_core::State::Succeeded).pop().unwrap();
        let asked = |row: &toshi_core::Approval| {
            sample::history(
                &[sample::step(1, "", vec![sample::asking(row)])],
                std::slice::from_ref(row),
            )
        };
        assert_eq!(shown(&asked(&write)), None);
        write.chunks = 1;
        assert!(shown(&asked(&write)).is_some());
    }
}
