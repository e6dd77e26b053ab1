//! The answer to a chat request: messages and answers are stored first, then the turn is run, or
//! followed if somebody else runs it.

use std::sync::Arc;

use tokio::sync::mpsc;
use toshi_core::{
    Actor, Approval, ApprovalId, Cause, ConversationId, Event, How, MESSAGES_PER_PERSON,
    MESSAGES_PER_TENANT, MessageAuthor, MessageId, Millis, RecordDraft, RecordEvent, RequestId,
    State, TenantId, TurnId, TurnRow, UserId,
};
use toshi_store::{
    Begun, History, NewMessage, NoPerson, StoreError, TransitionError, UserMessage, UserRow,
    WakeMessage,
};

use super::request::{Answer, Intent, Posted};
use crate::agent::Agent;
use crate::clock::now;
use crate::follow::{Followed, STILL_WORKING};
use crate::offer::Person;
use crate::progress::{Progress, Sink};
use crate::run::{Budget, Entry, Job, RunEnd, RunError, Scope};
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

const NOT_KNOWN: &str = "These approvals are not known in this conversation.";

/// Where chunks go; a client that left does not stop the turn.
#[derive(Clone)]
struct Out(mpsc::UnboundedSender<Chunk>);

impl Out {
    fn send(&self, writer: &mut Writer) -> bool {
        writer
            .take()
            .into_iter()
            .all(|chunk| self.0.send(chunk).is_ok())
    }
}

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
        let message = match posted.intent {
            Intent::Continue { answer } => {
                let answered = Answered {
                    answers: posted.answers,
                    strange: posted.strange_answers,
                };
                place.go_on(answer, answered, history);
                return Ok(stream);
            }
            Intent::Say { id, text } => {
                let mut known = history
                    .messages
                    .iter()
                    .rev()
                    .filter_map(|row| match &row.author {
                        MessageAuthor::User {
                            id: old,
                            text: said,
                        } if *old == id => Some((row.seq, *said == text)),
                        MessageAuthor::User { .. } | MessageAuthor::Assistant { .. } => None,
                    });
                let latest = known.next();
                let replaces_from = latest.and_then(|(seq, same)| (!same).then_some(seq));
                // Back to a text that was replaced since: known, and yet to be answered anew.
                let again = replaces_from.is_some() && known.any(|(_, same)| same);
                UserMessage {
                    id,
                    text,
                    replaces_from,
                    again,
                }
            }
            Intent::Regenerate { answer } => {
                regenerated(&history, answer.as_deref()).ok_or(ChatError::NothingToRegenerate)?
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
        let begun = school.begin(&new, history.meta.clone(), now()).await?;
        match begun {
            Begun::Started(begin) => {
                let read = history.meta.as_ref().map_or(0, |meta| meta.fence);
                if read + 1 != begin.meta.fence {
                    // Somebody was at work between the reads and the start.
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

/// The message to answer again: the last one, or the one that `answer` belongs to.
fn regenerated(history: &History, answer: Option<&str>) -> Option<UserMessage> {
    let meta = history.meta.as_ref()?;
    let shown = || {
        history
            .messages
            .iter()
            .rev()
            .filter(|row| !meta.is_replaced(row.seq))
    };
    let turn = answer.and_then(|answer| {
        shown().find_map(|row| match &row.author {
            MessageAuthor::Assistant { id } if id.to_string() == answer => Some(row.turn),
            MessageAuthor::User { id, .. } if id.as_str() == answer => Some(row.turn),
            MessageAuthor::Assistant { .. } | MessageAuthor::User { .. } => None,
        })
    });
    if answer.is_some() && turn.is_none() {
        // Another message than the one that was meant must not be replaced.
        return None;
    }
    shown().find_map(|row| match &row.author {
        MessageAuthor::User { id, text } if turn.is_none_or(|turn| turn == row.turn) => {
            Some(UserMessage {
                id: id.clone(),
                text: text.clone(),
                replaces_from: Some(row.seq),
                again: true,
            })
        }
        MessageAuthor::User { .. } | MessageAuthor::Assistant { .. } => None,
    })
}

/// Commits answers that came with a chat request.
struct Decider<'a> {
    agent: &'a Agent,
    tenant: &'a TenantId,
    person: &'a Person,
    request: &'a Option<RequestId>,
}

impl Decider<'_> {
    /// Each answer in its own transaction. One that is already on record, contradicts the record,
    /// or is for nothing of this conversation changes nothing: clients post old answers again. What
    /// changed comes back.
    async fn decide(
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
            match school.transition(row, event, &cause, now()).await {
                Ok(row) => changed.push(row),
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

/// Where a stream's work is done.
struct Place {
    agent: Arc<Agent>,
    tenant: TenantId,
    conversation: ConversationId,
    request: Option<RequestId>,
    budget: Budget,
    out: Out,
}

impl Place {
    async fn hint(&self) {
        let message = WakeMessage {
            tenant: self.tenant.clone(),
            conversation: self.conversation.clone(),
        };
        self.agent.queue.hint(&message).await;
    }

    fn run(self, followed: Followed, entry: Entry, writer: Writer, answered: Answered) {
        outlive(async move { self.run_and_tell(followed, entry, writer, answered).await });
    }

    fn follow(self, followed: Followed) {
        outlive(async move {
            let mut writer = Writer::new(followed.turn, followed.answer);
            self.follow_and_tell(followed, &mut writer, &Answered::default())
                .await;
        });
    }

    async fn follow_and_tell(&self, followed: Followed, writer: &mut Writer, answered: &Answered) {
        let tell = |writer: &mut Writer| self.out.send(writer);
        let result = self
            .agent
            .follow(&self.tenant, &self.conversation, followed, writer, tell)
            .await;
        match result {
            Ok(turn) => self.close(writer, answered, turn).await,
            Err(error) => {
                tracing::error!(%error, conversation = %self.conversation, "following failed");
                writer.fail("Something went wrong on our side. Please reload.");
            }
        }
        self.out.send(writer);
    }

    /// Runs under the lease and tells what happens; if somebody else holds it, follows.
    async fn run_and_tell(
        self,
        followed: Followed,
        entry: Entry,
        mut writer: Writer,
        answered: Answered,
    ) {
        self.out.send(&mut writer);
        let (sink, mut progress) = Sink::channel();
        let agent = Arc::clone(&self.agent);
        let job = Job {
            entry,
            scope: Scope::Turn(followed.turn),
            sink,
            request: self.request.clone(),
        };
        let work = agent.run_job(&self.tenant, &self.conversation, self.budget, job);
        let mut work = std::pin::pin!(work);
        let mut last_turn = None;
        let end = loop {
            tokio::select! {
                biased;
                Some(event) = progress.recv() => {
                    if let Progress::Turn(turn) = &event {
                        last_turn = Some(turn.clone());
                    }
                    writer.progress(&event);
                    self.out.send(&mut writer);
                }
                end = &mut work => break end,
            }
        };
        while let Ok(event) = progress.try_recv() {
            if let Progress::Turn(turn) = &event {
                last_turn = Some(turn.clone());
            }
            writer.progress(&event);
        }
        match end {
            Ok(RunEnd::Busy) => {
                self.follow_and_tell(followed, &mut writer, &answered).await;
                return;
            }
            Ok(RunEnd::Superseded) | Err(RunError::Superseded) => {
                writer.fail("Another process took over this answer. Please reload.");
            }
            Ok(RunEnd::Idle | RunEnd::HandedOver) => match last_turn {
                Some(turn) => self.close(&mut writer, &answered, Some(turn)).await,
                None => {
                    let school = self.agent.store.school(&self.tenant);
                    match school.turn(&self.conversation, followed.turn).await {
                        Ok(turn) => self.close(&mut writer, &answered, turn).await,
                        Err(error) => self.apologise(&mut writer, &error),
                    }
                }
            },
            Err(RunError::Store(error)) => self.apologise(&mut writer, &error),
        }
        self.out.send(&mut writer);
    }

    fn apologise(&self, writer: &mut Writer, error: &StoreError) {
        tracing::error!(%error, conversation = %self.conversation, "the turn failed");
        writer.fail("Something went wrong on our side. Nothing is lost; please reload.");
    }

    /// The end of a stream. What was not told is read: every answered call is settled, asked again,
    /// or a step is opened, or real clients would send again without end.
    async fn close(&self, writer: &mut Writer, answered: &Answered, turn: Option<TurnRow>) {
        match self.tell_answered(writer, answered).await {
            Ok(Some(sentence)) if !writer.opened_step() => writer.note(sentence),
            Ok(_) => {}
            Err(error) => return self.apologise(writer, &error),
        }
        writer.end(turn.as_ref().filter(|turn| turn.answer == writer.answer()));
    }

    /// Tells what became of the answered questions. If of some there is nothing to tell, the
    /// sentence that says why.
    async fn tell_answered(
        &self,
        writer: &mut Writer,
        answered: &Answered,
    ) -> Result<Option<&'static str>, StoreError> {
        let school = self.agent.store.school(&self.tenant);
        let ids: Vec<ApprovalId> = answered
            .answers
            .iter()
            .map(|answer| answer.approval)
            .collect();
        let rows = school.approvals_in(&self.conversation, &ids).await?;
        for row in &rows {
            writer.approval(row);
            let mut next = row.superseded_by;
            while let Some(id) = next {
                let successor = school.approval_in(&self.conversation, id).await?;
                next = successor.as_ref().and_then(|row| row.superseded_by);
                successor.iter().for_each(|row| writer.approval(row));
            }
        }
        Ok(if answered.strange || rows.len() < ids.len() {
            Some(NOT_KNOWN)
        } else if rows.iter().any(|row| writer.owes(row)) {
            Some(STILL_WORKING)
        } else {
            None
        })
    }

    /// Going on after answers: outputs of the answered calls first, then the next step, in the same
    /// message.
    fn go_on(self, answer: String, answered: Answered, history: History) {
        outlive(async move { self.go_on_now(answer, answered, history).await });
    }

    async fn go_on_now(self, answer: String, answered: Answered, mut history: History) {
        if known_answer(&history, &answer).is_none() {
            // The message may be older than what was read: its approvals lead to its turn.
            if let Err(error) = self.include_turns(&answered, &mut history).await {
                tracing::warn!(%error, "the turns of answered approvals could not be read");
            }
        }
        let Some((turn, answer)) = known_answer(&history, &answer) else {
            let id = crate::clock::now();
            let mut writer = Writer::new(toshi_store::mint(id), toshi_store::mint(id));
            writer.note(NOT_KNOWN);
            writer.end(None);
            self.out.send(&mut writer);
            return;
        };
        let mut writer = Writer::new(turn, answer);
        for step in &history.steps {
            writer.known(step);
        }
        for answer in &answered.answers {
            if let Some(row) = history.approvals.get(&answer.approval) {
                writer.answered(row, answer.approved);
            }
        }
        if let Err(error) = self.tell_answered(&mut writer, &answered).await {
            tracing::warn!(%error, "answered approvals could not be read yet");
        }
        let followed = Followed { turn, answer };
        self.run_and_tell(followed, Entry::Take, writer, answered)
            .await;
    }

    async fn include_turns(
        &self,
        answered: &Answered,
        history: &mut History,
    ) -> Result<(), StoreError> {
        let school = self.agent.store.school(&self.tenant);
        let ids: Vec<ApprovalId> = answered
            .answers
            .iter()
            .map(|answer| answer.approval)
            .collect();
        let rows = school.approvals_in(&self.conversation, &ids).await?;
        let mut turns: Vec<TurnId> = rows.iter().map(|row| row.turn).collect();
        turns.sort_unstable();
        turns.dedup();
        for id in turns {
            if let Some(turn) = school.turn(&self.conversation, id).await? {
                school.include(&self.conversation, history, &turn).await?;
            }
        }
        Ok(())
    }
}

/// What a client answered, and now waits to hear of.
#[derive(Debug, Default)]
struct Answered {
    answers: Vec<Answer>,
    /// Some of it is for no question that could be ours.
    strange: bool,
}

fn known_answer(history: &History, answer: &str) -> Option<(TurnId, MessageId)> {
    history
        .messages
        .iter()
        .rev()
        .find_map(|row| match &row.author {
            MessageAuthor::Assistant { id } if id.to_string() == answer => Some((row.turn, *id)),
            MessageAuthor::Assistant { .. } | MessageAuthor::User { .. } => None,
        })
}

/// Work that goes on when its caller is cancelled (the client left), within the invocation: the
/// response's body ends only when this drops its sender.
#[expect(
    clippy::disallowed_methods,
    reason = "the one helper for work that outlives its caller"
)]
fn outlive(work: impl Future<Output = ()> + Send + 'static) {
    // On the heap before it is moved: a turn's state is large, and stacks are not.
    tokio::spawn(Box::pin(work));
}

/// The end of an invocation as the runtime gives it.
impl Budget {
    pub const fn until(deadline: Millis) -> Self {
        Self { deadline }
    }
}
