//! Where a stream's work is done: a turn is run, or followed, and told chunk by chunk.

use std::sync::Arc;

use tokio::sync::mpsc;
use toshi_core::{
    ApprovalId, ConversationId, MessageAuthor, MessageId, RequestId, StepRow, TenantId, TurnId,
    TurnRow,
};
use toshi_store::{History, StoreError, WakeMessage};

use super::request::{Answer, Shown};
use crate::agent::Agent;
use crate::follow::{Followed, STILL_WORKING};
use crate::progress::{Progress, Sink};
use crate::run::{Budget, Entry, Job, RunEnd, RunError, Scope};
use crate::ui::{Chunk, Writer};

const NOT_KNOWN: &str = "These approvals are not known in this conversation.";

/// Where chunks go; a client that left does not stop the turn.
#[derive(Clone)]
pub(super) struct Out(pub(super) mpsc::UnboundedSender<Chunk>);

impl Out {
    fn send(&self, writer: &mut Writer) -> bool {
        writer
            .take()
            .into_iter()
            .all(|chunk| self.0.send(chunk).is_ok())
    }
}

/// Where a stream's work is done.
pub(super) struct Place {
    pub(super) agent: Arc<Agent>,
    pub(super) tenant: TenantId,
    pub(super) conversation: ConversationId,
    pub(super) request: Option<RequestId>,
    pub(super) budget: Budget,
    pub(super) out: Out,
}

impl Place {
    pub(super) async fn hint(&self) {
        let message = WakeMessage {
            tenant: self.tenant.clone(),
            conversation: self.conversation.clone(),
        };
        self.agent.queue.hint(&message).await;
    }

    pub(super) fn run(self, followed: Followed, entry: Entry, writer: Writer, answered: Answered) {
        outlive(async move { self.run_and_tell(followed, entry, writer, answered).await });
    }

    pub(super) fn follow(self, followed: Followed) {
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
                // Nothing was left to do: somebody else did it, and that is told.
                None => match self.catch_up(followed, &mut writer).await {
                    Ok(turn) => self.close(&mut writer, &answered, turn).await,
                    Err(error) => self.apologise(&mut writer, &error),
                },
            },
            Err(RunError::Store(error)) => self.apologise(&mut writer, &error),
        }
        self.out.send(&mut writer);
    }

    async fn catch_up(
        &self,
        followed: Followed,
        writer: &mut Writer,
    ) -> Result<Option<TurnRow>, StoreError> {
        let seen = self
            .agent
            .look(&self.tenant, &self.conversation, followed, writer)
            .await?;
        Ok(seen.turn)
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
    pub(super) fn go_on(
        self,
        answer: String,
        shown: Option<Shown>,
        answered: Answered,
        history: History,
    ) {
        outlive(async move { self.go_on_now(&answer, shown, answered, history).await });
    }

    async fn go_on_now(
        self,
        answer: &str,
        shown: Option<Shown>,
        answered: Answered,
        mut history: History,
    ) {
        if known_answer(&history, answer).is_none() {
            // The message may be older than what was read: its approvals lead to its turn.
            if let Err(error) = self.include_turns(&answered, &mut history).await {
                tracing::warn!(%error, "the turns of answered approvals could not be read");
            }
        }
        let Some((turn, answer)) = known_answer(&history, answer) else {
            let id = crate::clock::now();
            let mut writer = Writer::new(toshi_store::mint(id), toshi_store::mint(id));
            writer.note(NOT_KNOWN);
            writer.end(None);
            self.out.send(&mut writer);
            return;
        };
        let followed = Followed { turn, answer };
        let mut writer = Writer::new(turn, answer);
        let own = history.steps.iter().filter(|step| step.answer == answer);
        let has = |step: &&StepRow| shown.as_ref().is_some_and(|shown| shown.has(step));
        // A client that shows nothing which we know of is taken to have what there is.
        let last_shown = own.clone().filter(has).map(|step| step.n).max();
        let (known, unseen): (Vec<&StepRow>, Vec<&StepRow>) =
            own.partition(|step| last_shown.is_none_or(|last| step.n <= last));
        for step in known {
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
        // What came while the client did not look, such as after a decision elsewhere.
        if !unseen.is_empty()
            && let Err(error) = self.catch_up(followed, &mut writer).await
        {
            tracing::warn!(%error, "what the client has not seen could not be read yet");
        }
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
pub(super) struct Answered {
    pub(super) answers: Vec<Answer>,
    /// Some of it is for no question that could be ours.
    pub(super) strange: bool,
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
