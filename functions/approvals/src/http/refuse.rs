//! Answers that do not count: each is on record, once.

use serde::Serialize;
use serde_json::{Value, json};
use toshi_core::{Answer, Approval, RecordDraft, RecordEvent};
use toshi_http::Problem;

use super::App;
use super::visit::Visit;

/// Characters of a person's reason.
const REASON_MAX: usize = 500;

/// What the person wanted to say.
#[derive(Clone, Copy, Debug)]
pub(super) enum Said {
    Decision(Answer),
    Outcome { done: bool },
}

impl From<Answer> for Said {
    fn from(answer: Answer) -> Self {
        Self::Decision(answer)
    }
}

impl Said {
    fn detail(self, why: Why) -> Value {
        match self {
            Self::Decision(answer) => json!({ "answer": answer, "why": why }),
            Self::Outcome { done } => {
                let outcome = if done { "done" } else { "not_done" };
                json!({ "outcome": outcome, "why": why })
            }
        }
    }
}

#[derive(Clone, Copy, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Why {
    NotYours,
    AlreadyDecided,
    Expired,
    NoLongerOpen,
}

/// Puts the refused answer on record: the same one of the same person once, since anybody may
/// repeat it without end.
pub(super) async fn record(
    app: &App,
    visit: &Visit,
    row: &Approval,
    said: Said,
    why: Why,
) -> Result<(), Problem> {
    let cause = visit.cause();
    let detail = said.detail(why);
    let key = format!("{}#{}#web#{detail}", row.approval_id, visit.person.user);
    let draft = RecordDraft {
        event: RecordEvent::Refused,
        at: visit.now,
        actor: cause.actor,
        how: cause.how,
        request: cause.request,
        conversation: Some(row.conversation.clone()),
        turn: Some(row.turn),
        approval: Some(row.approval_id),
        connection: Some(row.connection.id.clone()),
        tool: Some(row.tool.clone()),
        arguments_hmac: Some(row.arguments_hmac.clone()),
        detail,
    };
    let school = app.school(visit);
    school.record_refusal(draft, &key, row.created_at).await?;
    Ok(())
}

/// A person's words: trimmed, bounded, absent if nothing is left.
pub(super) fn reason(given: Option<String>) -> Result<Option<String>, Problem> {
    let Some(text) = given else { return Ok(None) };
    let text = text.trim();
    if text.chars().count() > REASON_MAX {
        let detail = format!("The reason is longer than {REASON_MAX} characters.");
        return Err(Problem::invalid(detail));
    }
    Ok((!text.is_empty()).then(|| text.to_owned()))
}
