//! The answer to a chat request: messages and answers are stored first, then the turn is run, or
//! followed if somebody else runs it.

use std::sync::Arc;

use tokio::sync::mpsc;
use toshi_core::{
    ConversationId, ConversationRow, MESSAGES_PER_PERSON, MESSAGES_PER_TENANT, Millis, RequestId,
    TenantId, UserId,
};
use toshi_failpoints::{Point, reach};
use toshi_store::{Begun, NewMessage, NoPerson, School, StoreError, UserRow};

use super::decide::Decider;
use super::message::Meant;
use super::place::{Answered, Out, Place};
use super::request::{Intent, Posted};
use crate::agent::Agent;
use crate::clock::now;
use crate::follow::Followed;
use crate::offer::Person;
use crate::run::{Budget, Entry};
use crate::ui::{Chunk, Writer};

/// Who asks, as their token says; their role is read from their row.
#[derive(Clone, Debug)]
pub struct ChatRequest {
    pub tenant: TenantId,
    pub user: UserId,
    pub posted: Posted,
    pub request: Option<RequestId>,
    pub budget: Budget,
}

/// Chunks as they come; the stream ends with the turn's pause or end.
pub type ChatStream = mpsc::UnboundedReceiver<Chunk>;

/// Why there is no stream: told with a status code, before anything is stored.
#[derive(Debug, thiserror::Error)]
pub enum ChatError {
    #[error("this account may not use the school's chat")]
    NoPerson(NoPerson),
    #[error("too many messages")]
    RateLimited { retry_after_s: i64 },
    #[error("too many unanswered requests in this conversation")]
    TooManyOpen,
    #[error("this conversation was deleted")]
    Deleted,
    #[error("there is no message to answer again")]
    NothingToRegenerate,
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Turns of one conversation that may wait at the same time.
const OPEN_TURNS_MAX: usize = 20;

impl Agent {
    /// Stores what was posted and starts the answer.
    pub async fn chat(self: &Arc<Self>, request: ChatRequest) -> Result<ChatStream, ChatError> {
        let ChatRequest {
            tenant,
            user,
            posted,
            request,
            budget,
        } = request;
        let school = self.store.school(&tenant);
        let conversation = ConversationId::of(&user, &posted.client_id);
        let time = now();
        // On the heap: eleven requests at once are a large state.
        let reads = Box::pin(async {
            tokio::try_join!(
                school.user(&user),
                school.count_message(&user, time),
                school.history(&conversation),
                school.toolbox(),
            )
        });
        let (row, counts, history, toolbox) = reads.await?;
        let row = UserRow::admit(row, &user).map_err(ChatError::NoPerson)?;
        let (by_person, by_school, left) = counts;
        if by_person > MESSAGES_PER_PERSON || by_school > MESSAGES_PER_TENANT {
            return Err(ChatError::RateLimited {
                retry_after_s: left,
            });
        }
        if history
            .meta
            .as_ref()
            .is_some_and(|meta| meta.deleted_at.is_some())
        {
            return Err(ChatError::Deleted);
        }
        let person = Person {
            user: row.user,
            name: row.name,
            role: row.role,
        };
        let decider = Decider {
            agent: self,
            tenant: &tenant,
            person: &person,
            request: &request,
        };
        let mut history = history;
        for row in decider.decide(&conversation, &posted.answers).await? {
            // What the person just answered must not be called pending.
            history.approvals.insert(row.approval_id, row);
        }

        let (sender, stream) = mpsc::unbounded_channel();
        let out = Out(sender);
        let place = Place {
            agent: Arc::clone(self),
            tenant: tenant.clone(),
            conversation: conversation.clone(),
            request: request.clone(),
            budget,
            out,
        };
        let meant = Meant {
            school,
            conversation: &conversation,
            history: &history,
        };
        let message = match posted.intent {
            Intent::Continue { answer, shown } => {
                let answered = Answered {
                    answers: posted.answers,
                    strange: posted.strange_answers,
                };
                place.go_on(answer, shown, answered, history);
                return Ok(stream);
            }
            Intent::Say { id, text, said } => meant.said(id, text, said).await?,
            Intent::Regenerate { answer } => {
                let meant = meant.regenerated(&answer).await?;
                meant.ok_or(ChatError::NothingToRegenerate)?
            }
        };
        if history
            .meta
            .as_ref()
            .is_some_and(|meta| meta.open.len() >= OPEN_TURNS_MAX)
        {
            return Err(ChatError::TooManyOpen);
        }
        let new = NewMessage {
            conversation,
            client_id: posted.client_id,
            user,
            message,
        };
        // The messages before it may be older than what was read.
        let first = history.messages.first().map_or(0, |row| row.seq);
        let reaches_back = new.message.replaces_from.is_some_and(|from| from < first);
        reach(Point::BeginBeforeCommit);
        let begun = begin(&school, new, history.meta.clone()).await?;
        reach(Point::BeginAfterCommit);
        match begun {
            Begun::Started(begin) => {
                let read = history.meta.as_ref().map_or(0, |meta| meta.fence);
                if read + 1 != begin.meta.fence || reaches_back {
                    // Or somebody was at work between the reads and the start.
                    history = school.history(&begin.meta.conversation).await?;
                    history.messages.retain(|row| row.turn != begin.turn.turn);
                }
                let followed = Followed {
                    turn: begin.turn.turn,
                    answer: begin.turn.answer,
                };
                let entry = Entry::Begun {
                    begin,
                    history: Box::new(history),
                    toolbox: Box::new(toolbox),
                    person,
                };
                place.run(
                    followed,
                    entry,
                    Writer::new(followed.turn, followed.answer),
                    Answered::default(),
                );
            }
            Begun::Queued { turn, answer } => {
                place.hint().await;
                place.follow(Followed { turn, answer });
            }
            Begun::Known { turn, answer } => {
                if history
                    .meta
                    .as_ref()
                    .is_some_and(|meta| meta.open.contains(&turn))
                {
                    // Its runner may have died: whoever sends again should not wait for the sweep.
                    place.hint().await;
                }
                place.follow(Followed { turn, answer });
            }
        }
        Ok(stream)
    }

    /// A replay of what is running in a conversation, from its start and on; `None` if nothing is.
    pub async fn resume(
        self: &Arc<Self>,
        tenant: &TenantId,
        conversation: &ConversationId,
        budget: Budget,
    ) -> Result<Option<ChatStream>, StoreError> {
        let Some(followed) = self.running(tenant, conversation).await? else {
            return Ok(None);
        };
        let (sender, stream) = mpsc::unbounded_channel();
        let place = Place {
            agent: Arc::clone(self),
            tenant: tenant.clone(),
            conversation: conversation.clone(),
            request: None,
            budget,
            out: Out(sender),
        };
        place.follow(followed);
        Ok(Some(stream))
    }
}

/// Stores a message. One that got an earlier text back is known, and yet to be answered anew.
async fn begin(
    school: &School<'_>,
    mut new: NewMessage,
    meta: Option<ConversationRow>,
) -> Result<Begun, StoreError> {
    let begun = school.begin(&new, meta.clone(), now()).await?;
    if let (Begun::Known { turn, .. }, Some(from)) = (&begun, new.message.replaces_from)
        && let Some(turn) = school.turn(&new.conversation, *turn).await?
        && turn.message_seq < from
    {
        new.message.again = true;
        return school.begin(&new, meta, now()).await;
    }
    Ok(begun)
}

/// The end of an invocation as the runtime gives it.
impl Budget {
    pub const fn until(deadline: Millis) -> Self {
        Self { deadline }
    }
}
