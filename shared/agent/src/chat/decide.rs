//! Answers to questions that come with a chat request.

use toshi_core::{
    Actor, Approval, ApprovalId, Cause, ConversationId, Event, How, RecordDraft, RecordEvent,
    RequestId, State, TenantId,
};
use toshi_failpoints::{Point, reach};
use toshi_store::{StoreError, TransitionError, WakeMessage};

use super::request::Answer;
use crate::agent::Agent;
use crate::clock::now;
use crate::offer::Person;

/// Commits answers that came with a chat request.
pub(super) struct Decider<'a> {
    pub(super) agent: &'a Agent,
    pub(super) tenant: &'a TenantId,
    pub(super) person: &'a Person,
    pub(super) request: &'a Option<RequestId>,
}

impl Decider<'_> {
    /// Each answer in its own transaction. One that is already on record, contradicts the record,
    /// or is for nothing of this conversation changes nothing: clients post old answers again. What
    /// changed comes back.
    pub(super) async fn decide(
        &self,
        conversation: &ConversationId,
        answers: &[Answer],
    ) -> Result<Vec<Approval>, StoreError> {
        let school = self.agent.store.school(self.tenant);
        let ids: Vec<ApprovalId> = answers.iter().map(|answer| answer.approval).collect();
        let rows = school.approvals_in(conversation, &ids).await?;
        let mut changed = Vec::new();
        for answer in answers {
            let row = rows.iter().find(|row| row.approval_id == answer.approval);
            let Some(row) = row.filter(|row| row.may_decide(&self.person.user)) else {
                continue;
            };
            if row.decision.is_some() || row.state != State::Pending {
                self.record_contradiction(row, answer).await?;
                continue;
            }
            let event = Event::Decide {
                answer: if answer.approved {
                    toshi_core::Answer::Approve
                } else {
                    toshi_core::Answer::Reject
                },
                reason: answer.reason.clone(),
            };
            let cause = Cause {
                actor: self.actor(),
                how: How::Chat,
                request: self.request.clone(),
            };
            reach(Point::AnswerBeforeCommit);
            match school.transition(row, event, &cause, now()).await {
                Ok(row) => {
                    reach(Point::AnswerAfterCommit);
                    changed.push(row);
                }
                Err(TransitionError::Refused {
                    refusal: toshi_core::Refusal::Expired,
                    row,
                }) => {
                    let expire = Event::Expire;
                    // The sweep would find it too; the person is told now.
                    match school
                        .transition(&row, expire, &Cause::system(), now())
                        .await
                    {
                        Ok(row) => changed.push(row),
                        Err(TransitionError::Refused { .. } | TransitionError::NotFound) => {}
                        Err(TransitionError::Store(error)) => return Err(error),
                    }
                }
                Err(TransitionError::Refused { .. } | TransitionError::NotFound) => {}
                Err(TransitionError::Store(error)) => return Err(error),
            }
        }
        if !changed.is_empty() {
            let message = WakeMessage {
                tenant: self.tenant.clone(),
                conversation: conversation.clone(),
            };
            self.agent.queue.hint(&message).await;
        }
        Ok(changed)
    }

    fn actor(&self) -> Actor {
        Actor::User {
            id: self.person.user.clone(),
            name: self.person.name.clone(),
            role: self.person.role,
        }
    }

    /// An answer that is not the one on record, or came when there was nothing to answer: on record
    /// once, however often it is posted.
    async fn record_contradiction(
        &self,
        row: &Approval,
        answer: &Answer,
    ) -> Result<(), StoreError> {
        let yes = |answer: toshi_core::Answer| answer == toshi_core::Answer::Approve;
        if row
            .decision
            .as_ref()
            .is_some_and(|decision| yes(decision.answer) == answer.approved)
        {
            return Ok(());
        }
        let draft = RecordDraft {
            event: RecordEvent::Refused,
            at: now(),
            actor: self.actor(),
            how: How::Chat,
            request: self.request.clone(),
            conversation: Some(row.conversation.clone()),
            turn: Some(row.turn),
            approval: Some(row.approval_id),
            connection: Some(row.connection.id.clone()),
            tool: Some(row.tool.clone()),
            arguments_hmac: Some(row.arguments_hmac.clone()),
            detail: serde_json::json!({
                "approved": answer.approved,
                "why": if row.decision.is_some() { "already_decided" } else { "no_longer_open" },
                "state": row.state,
            }),
        };
        let key = format!(
            "{}#{}#{}",
            row.approval_id, self.person.user, answer.approved
        );
        let school = self.agent.store.school(self.tenant);
        school.record_refusal(draft, &key, row.created_at).await
    }
}
