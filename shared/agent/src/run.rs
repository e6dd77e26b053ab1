//! The runner: works a conversation under its lease until only people and clocks can go on.

use std::sync::Arc;
use std::time::Duration;

use toshi_core::{
    Cause, ConversationId, ConversationRow, Event, Finish, InboxId, InboxRow, LEASE_RENEW_MS,
    Lease, MessageAuthor, MessageRow, Millis, OpenTurn, RequestId, State, StepRow, TenantId,
    TurnEnd, TurnId, TurnRow, TurnState, VoidReason, Work, besides, next_work,
};
use toshi_failpoints::{Point, reach};
use toshi_store::{
    Begin, Commit, Committed, History, Release, School, StepRefusal, StoreError, TenantRow,
    Toolbox, TransitionError, UserRow, WakeMessage,
};

use crate::agent::Agent;
use crate::clock::now;
use crate::drive::Drive;
use crate::offer::{Offer, Person};
use crate::progress::{Progress, Sink};

/// How much of a conversation's work a run takes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scope {
    /// Everything there is: the worker.
    All,
    /// One turn: an HTTP invocation, which ends with its response.
    Turn(TurnId),
}

/// The invocation's own time.
#[derive(Clone, Copy, Debug)]
pub struct Budget {
    pub deadline: Millis,
}

impl Budget {
    pub fn left_ms(self) -> i64 {
        now().until(self.deadline)
    }
}

/// How a run begins.
#[derive(Debug)]
pub(crate) enum Entry {
    /// Take the lease if it is free.
    Take,
    /// The message was just stored and the lease is ours; what was read for it is at hand.
    Begun {
        begin: Box<Begin>,
        history: Box<History>,
        toolbox: Box<Toolbox>,
        person: Person,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RunEnd {
    /// Nothing is left but what people and clocks will bring.
    Idle,
    /// Someone else is at work, or the conversation does not exist.
    Busy,
    /// There is work left for another invocation; its hint has been sent.
    HandedOver,
    /// Another runner took over.
    Superseded,
}

#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The lease is another runner's.
    #[error("superseded by another runner")]
    Superseded,
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl From<StepRefusal> for RunError {
    fn from(refusal: StepRefusal) -> Self {
        match refusal {
            StepRefusal::Fenced => Self::Superseded,
            StepRefusal::Store(error) => Self::Store(error),
            // Callers that can act on these match them before.
            StepRefusal::Unknown | StepRefusal::Connection => Self::Store(StoreError::Conflict),
        }
    }
}

/// One run under a lease.
pub(crate) struct Run<'a> {
    pub(crate) agent: &'a Agent,
    pub(crate) school: School<'a>,
    /// The runner's own copy: it alone changes `next`, `open` and `replaced` under the lease.
    pub(crate) meta: ConversationRow,
    pub(crate) lease: Lease,
    pub(crate) budget: Budget,
    pub(crate) sink: Sink,
    pub(crate) request: Option<RequestId>,
    /// Whether there is work besides the turn that is driven, as far as `lease.seen` goes; `None`
    /// if nobody has looked.
    pub(crate) others: Option<bool>,
    /// The row is as the take returned it.
    fresh: bool,
    released: bool,
}

/// What a turn is driven with.
pub(crate) struct Context {
    pub(crate) school: Arc<TenantRow>,
    pub(crate) person: Person,
    pub(crate) history: History,
    pub(crate) offer: Offer,
}

/// What a chat request adds to a run.
#[derive(Debug)]
pub(crate) struct Job {
    pub(crate) entry: Entry,
    pub(crate) scope: Scope,
    pub(crate) sink: Sink,
    pub(crate) request: Option<RequestId>,
}

impl Agent {
    /// Works a conversation: everything there is to do, with nothing but its place.
    pub async fn run(
        &self,
        tenant: &TenantId,
        conversation: &ConversationId,
        budget: Budget,
    ) -> Result<RunEnd, RunError> {
        let job = Job {
            entry: Entry::Take,
            scope: Scope::All,
            sink: Sink::default(),
            request: None,
        };
        self.run_job(tenant, conversation, budget, job).await
    }

    /// The same for a chat request: its own turn, told as it goes.
    pub(crate) async fn run_job(
        &self,
        tenant: &TenantId,
        conversation: &ConversationId,
        budget: Budget,
        job: Job,
    ) -> Result<RunEnd, RunError> {
        let Job {
            entry,
            scope,
            sink,
            request,
        } = job;
        let school = self.store.school(tenant);
        let (meta, lease, first) = match entry {
            Entry::Take => match school.take(conversation, now()).await? {
                Some((meta, lease)) => (meta, lease, None),
                None => return Ok(RunEnd::Busy),
            },
            Entry::Begun {
                begin,
                history,
                toolbox,
                person,
            } => {
                let Begin {
                    meta,
                    lease,
                    turn,
                    messages,
                } = *begin;
                let mut history = *history;
                history.messages.extend(messages);
                history.meta = Some(meta.clone());
                (meta, lease, Some((turn, history, *toolbox, person)))
            }
        };
        reach(Point::TurnAfterTake);
        let fence = lease.fence;
        // A message took the lease of a conversation that waited for nobody, or it did not: the row
        // says so, as it was before.
        let others = first.as_ref().map(|_| meta.due.is_some());
        let mut run = Run {
            agent: self,
            school,
            meta,
            lease,
            budget,
            sink,
            request,
            others,
            fresh: first.is_none(),
            released: false,
        };
        // On the heap: a turn's state is large, and stacks are not.
        let work = Box::pin(async {
            if let Some((turn, history, toolbox, person)) = first {
                run.retire_replaced().await?;
                let context = run.context_of(history, &toolbox, person).await?;
                run.drive(turn, context).await?;
            }
            run.work(scope).await
        });
        // The lease is renewed beside the work. A lost one does not stop a call in flight: its
        // result must be settled, and every other write fails on the fence.
        let end = tokio::select! {
            end = work => end,
            () = renew(school, conversation, fence) => Err(RunError::Superseded),
        };
        let end = match end {
            Err(RunError::Superseded) => RunEnd::Superseded,
            end => end?,
        };
        match end {
            RunEnd::Idle | RunEnd::Busy => {}
            // A late runner may leave a result behind that nobody else was there to see.
            RunEnd::HandedOver | RunEnd::Superseded => {
                let message = WakeMessage {
                    tenant: tenant.clone(),
                    conversation: conversation.clone(),
                };
                self.queue.hint(&message).await;
            }
        }
        Ok(end)
    }
}

/// Renews the lease every 20 s; never returns, so that only the work ends the run.
async fn renew(school: School<'_>, conversation: &ConversationId, fence: u64) {
    loop {
        tokio::time::sleep(Duration::from_millis(LEASE_RENEW_MS.unsigned_abs())).await;
        match school.renew(conversation, fence, now()).await {
            Ok(Some(_)) => {}
            Ok(None) => {
                tracing::warn!(%conversation, "the lease is no longer ours");
                std::future::pending::<()>().await;
            }
            Err(error) => tracing::warn!(%error, "the lease could not be renewed; trying again"),
        }
    }
}

impl Run<'_> {
    /// Takes what there is to do, one thing after another, until the lease is let go.
    async fn work(&mut self, scope: Scope) -> Result<RunEnd, RunError> {
        loop {
            if self.released {
                return Ok(RunEnd::Idle);
            }
            // `wake` is read before the rows that it announces; taking the lease has just read it.
            if !std::mem::take(&mut self.fresh) {
                self.refresh_meta().await?;
            }
            let (open, inbox) = tokio::try_join!(
                self.school.open_turns(&self.meta),
                self.school.inbox(&self.meta.conversation)
            )?;
            let replaced = |one: &OpenTurn| self.meta.is_replaced(one.turn.message_seq);
            if open.iter().any(replaced) {
                // Whoever replaced them died before it could end them.
                self.retire_replaced().await?;
                continue;
            }
            let own: Vec<OpenTurn> = match scope {
                Scope::All => open.clone(),
                Scope::Turn(turn) => open
                    .iter()
                    .filter(|open| open.turn.turn == turn)
                    .cloned()
                    .collect(),
            };
            let mine: &[InboxRow] = if scope == Scope::All { &inbox } else { &[] };
            // What ran out is recorded first, whosever turn it is.
            let work = match next_work(&open, &[], now(), i64::MAX) {
                over @ Work::Expire(_) => over,
                _ => next_work(&own, mine, now(), self.budget.left_ms()),
            };
            self.others = Some(besides(&work, &open, &inbox, now()));
            match work {
                Work::Expire(id) => self.expire(&open, id).await?,
                Work::Call(id) => Box::pin(self.execute(&own, id)).await?,
                Work::Continue(id) => Box::pin(self.go_on(&own, id)).await?,
                Work::TakeOver(id) => Box::pin(self.take_over(&own, id)).await?,
                Work::Interrupt(id) => Box::pin(self.interrupt(&own, id)).await?,
                Work::Start(id) => Box::pin(self.start(&inbox, id)).await?,
                Work::HandOver => {
                    self.let_go(Release::LeaveDue(0)).await?;
                    return Ok(RunEnd::HandedOver);
                }
                Work::Idle => {
                    let others = next_work(&open, &inbox, now(), i64::MAX);
                    if others == Work::Idle {
                        if self.let_go(Release::IfNothingNew).await? {
                            return Ok(RunEnd::Idle);
                        }
                        continue;
                    }
                    // Work of another turn: it is not for this invocation.
                    self.let_go(Release::LeaveDue(0)).await?;
                    return Ok(RunEnd::HandedOver);
                }
            }
        }
    }

    async fn refresh_meta(&mut self) -> Result<(), RunError> {
        let meta = self.school.meta(&self.meta.conversation).await?;
        let meta = meta.filter(|meta| meta.fence == self.lease.fence);
        let meta = meta.ok_or(RunError::Superseded)?;
        self.lease.seen = meta.wake;
        self.meta = meta;
        Ok(())
    }

    async fn let_go(&mut self, how: Release) -> Result<bool, RunError> {
        let conversation = &self.meta.conversation;
        reach(Point::ReleaseBefore);
        let released = self
            .school
            .release(conversation, &self.lease, how, now())
            .await?;
        reach(Point::ReleaseAfter);
        self.released |= released;
        if !released && how != Release::IfNothingNew {
            return Err(RunError::Superseded);
        }
        Ok(released)
    }

    /// Commits under the fence and keeps in mind whether the lease went with it. It only goes if
    /// the conversation has no other work: whoever releases it takes it off the sweep's list.
    pub(crate) async fn commit(&mut self, commit: Commit) -> Result<Committed, StepRefusal> {
        let commit = Commit {
            release: commit.release && self.others == Some(false),
            ..commit
        };
        let committed = self
            .school
            .commit(&self.meta, &self.lease, &commit, now())
            .await?;
        self.released = committed.released;
        Ok(committed)
    }

    async fn expire(&self, open: &[OpenTurn], id: toshi_core::ApprovalId) -> Result<(), RunError> {
        let found = approval(open, id).and_then(|row| Some((row, row.overdue()?)));
        let Some((row, event)) = found else {
            return Ok(());
        };
        reach(Point::ExpireBeforeCommit);
        match self
            .school
            .transition(row, event, &Cause::system(), now())
            .await
        {
            Ok(row) => {
                reach(Point::ExpireAfterCommit);
                if row.state == State::Unknown {
                    tracing::warn!(approval = %row.approval_id, "a claimed call was never settled: its outcome is unknown");
                }
                self.sink.tell(Progress::Approval(Box::new(row)));
            }
            // Someone answered in the last moment: the next look sees it.
            Err(TransitionError::Refused { .. } | TransitionError::NotFound) => {}
            Err(TransitionError::Store(error)) => return Err(error.into()),
        }
        Ok(())
    }

    /// The step is complete: the model goes on. If newer messages exist, in a new message.
    async fn go_on(&mut self, open: &[OpenTurn], id: TurnId) -> Result<(), RunError> {
        let Some(turn) = turn(open, id) else {
            return Ok(());
        };
        let mut turn = turn.clone();
        turn.state = TurnState::Running;
        turn.run_at = now();
        // A new run: what an earlier one suffered is not counted against it.
        turn.takeovers = 0;
        turn.interrupted_at = None;
        let mut commit = Commit::default();
        if self.meta.next > turn.answer_seq + 1 {
            turn.answer = toshi_store::mint(now());
            turn.answer_seq = self.meta.next;
            self.meta.next += 1;
            commit.messages.push(MessageRow {
                seq: turn.answer_seq,
                turn: turn.turn,
                author: MessageAuthor::Assistant { id: turn.answer },
                at: now(),
                answers: Some(turn.message_seq),
            });
        }
        commit.turn = Some(turn.clone());
        reach(Point::ContinueBeforeCommit);
        self.commit(commit).await?;
        reach(Point::ContinueAfterCommit);
        self.drive_fresh(turn).await
    }

    /// The turn's runner died: its step is done again. Nothing of it was sent without a claim.
    async fn take_over(&mut self, open: &[OpenTurn], id: TurnId) -> Result<(), RunError> {
        let Some(turn) = turn(open, id) else {
            return Ok(());
        };
        let mut turn = turn.clone();
        turn.takeovers += 1;
        turn.interrupted_at = turn.interrupted_at.or(Some(now()));
        turn.run_at = now();
        tracing::warn!(turn = %turn.turn, takeovers = turn.takeovers, "an interrupted turn is taken over");
        reach(Point::TakeoverBeforeCommit);
        self.commit(Commit {
            turn: Some(turn.clone()),
            ..Commit::default()
        })
        .await?;
        reach(Point::TakeoverAfterCommit);
        self.drive_fresh(turn).await
    }

    async fn interrupt(&mut self, open: &[OpenTurn], id: TurnId) -> Result<(), RunError> {
        let Some(turn) = turn(open, id) else {
            return Ok(());
        };
        let sentence = "This request was interrupted and could not be finished. Please ask again.";
        self.end_turn(turn.clone(), sentence.to_owned(), TurnEnd::Interrupted)
            .await
    }

    /// Ends a turn with a sentence of ours, stored as its last step so that a reload shows it.
    pub(crate) async fn end_turn(
        &mut self,
        mut turn: TurnRow,
        sentence: String,
        end: TurnEnd,
    ) -> Result<(), RunError> {
        turn.state = TurnState::Done { end };
        turn.steps += 1;
        self.meta.open.retain(|open| *open != turn.turn);
        let step = StepRow {
            turn: turn.turn,
            n: turn.steps,
            answer: turn.answer,
            text: sentence,
            calls: Vec::new(),
            finish: Finish::Stop,
            at: now(),
        };
        let commit = Commit {
            turn: Some(turn.clone()),
            step: Some(step.clone()),
            release: true,
            ..Commit::default()
        };
        reach(Point::StepBeforeCommit);
        self.commit(commit).await?;
        reach(Point::StepAfterCommit);
        // A failure is told by its own chunk, anything else as what it is: a step.
        if !matches!(
            turn.state,
            TurnState::Done {
                end: TurnEnd::Failed { .. }
            }
        ) {
            let approvals = Vec::new();
            self.sink.tell(Progress::Step { step, approvals });
        }
        self.sink.tell(Progress::Turn(turn));
        Ok(())
    }

    pub(crate) async fn fail_turn(
        &mut self,
        turn: TurnRow,
        sentence: String,
    ) -> Result<(), RunError> {
        self.end_turn(turn, sentence.clone(), TurnEnd::Failed { sentence })
            .await
    }

    /// The next message of the inbox becomes a turn.
    async fn start(&mut self, inbox: &[InboxRow], id: InboxId) -> Result<(), RunError> {
        let Some(row) = inbox.iter().find(|row| row.inbox == id) else {
            return Ok(());
        };
        let seq = self.meta.next;
        let turn = TurnRow {
            turn: row.turn,
            user: row.user.clone(),
            message: row.message.clone(),
            message_seq: seq,
            answer: row.answer,
            answer_seq: seq + 1,
            state: TurnState::Running,
            steps: 0,
            run_at: now(),
            takeovers: 0,
            interrupted_at: None,
            created_at: row.at,
            seq: 0,
            head: None,
        };
        self.meta.next += 2;
        self.meta.open.push(turn.turn);
        let from = match row.replaces_from {
            Some(from) => Some(from),
            None => self.stored_before(row).await?,
        };
        if let Some(from) = from {
            self.meta.replace(from, seq);
        }
        let user = MessageAuthor::User {
            id: row.message.clone(),
            text: row.text.clone(),
        };
        let assistant = MessageAuthor::Assistant { id: row.answer };
        let messages = vec![
            MessageRow {
                seq,
                turn: turn.turn,
                author: user,
                at: row.at,
                answers: None,
            },
            MessageRow {
                seq: seq + 1,
                turn: turn.turn,
                author: assistant,
                at: row.at,
                answers: None,
            },
        ];
        let commit = Commit {
            turn: Some(turn.clone()),
            messages,
            inbox_done: Some(row.inbox),
            ..Commit::default()
        };
        reach(Point::StartBeforeCommit);
        self.commit(commit).await?;
        reach(Point::StartAfterCommit);
        self.retire_replaced().await?;
        self.drive_fresh(turn).await
    }

    /// The number of the same message with another text, which became a turn after this one was
    /// put in the inbox.
    async fn stored_before(&self, row: &InboxRow) -> Result<Option<u64>, StoreError> {
        let history = self.school.history(&self.meta.conversation).await?;
        let stored = history
            .messages
            .iter()
            .rev()
            .filter(|old| !self.meta.is_replaced(old.seq));
        let same = stored.filter(|old| match &old.author {
            MessageAuthor::User { id, text } => *id == row.message && *text != row.text,
            MessageAuthor::Assistant { .. } => false,
        });
        Ok(same.map(|old| old.seq).next())
    }

    /// Ends the turns of messages that were replaced and voids their open questions.
    /// Executed writes stay executed: they are on record and never repeated.
    async fn retire_replaced(&mut self) -> Result<(), RunError> {
        if self.meta.replaced.is_empty() {
            return Ok(());
        }
        for open in self.school.open_turns(&self.meta).await? {
            if !self.meta.is_replaced(open.turn.message_seq) {
                continue;
            }
            for row in &open.approvals {
                let event = Event::Void(VoidReason::MessageReplaced);
                match self
                    .school
                    .transition(row, event, &Cause::system(), now())
                    .await
                {
                    Ok(_) | Err(TransitionError::Refused { .. } | TransitionError::NotFound) => {}
                    Err(TransitionError::Store(error)) => return Err(error.into()),
                }
            }
            let mut turn = open.turn;
            turn.state = TurnState::Done {
                end: TurnEnd::Replaced,
            };
            self.meta.open.retain(|id| *id != turn.turn);
            self.commit(Commit {
                turn: Some(turn),
                ..Commit::default()
            })
            .await?;
        }
        Ok(())
    }

    /// Drives a turn on what the rows say now.
    async fn drive_fresh(&mut self, turn: TurnRow) -> Result<(), RunError> {
        let (mut history, toolbox, user) = tokio::try_join!(
            self.school.history(&self.meta.conversation),
            self.school.toolbox(),
            self.school.user(&turn.user)
        )?;
        // A turn can be older than what is read of a long conversation.
        self.school
            .include(&self.meta.conversation, &mut history, &turn)
            .await?;
        let Ok(user) = UserRow::admit(user, &turn.user) else {
            let sentence = "The account of the person who asked is no longer active.".to_owned();
            return self.fail_turn(turn, sentence).await;
        };
        let person = Person {
            user: user.user,
            name: user.name,
            role: user.role,
        };
        let context = self.context_of(history, &toolbox, person).await?;
        self.drive(turn, context).await
    }

    async fn context_of(
        &self,
        history: History,
        toolbox: &Toolbox,
        person: Person,
    ) -> Result<Context, RunError> {
        let catalogue = self.agent.catalogue();
        let mut offer = Offer::of(catalogue, toolbox, &person);
        if !offer.withheld().is_empty() && self.restore_withheld(offer.withheld()).await? {
            let toolbox = self.school.toolbox().await?;
            offer = Offer::of(catalogue, &toolbox, &person);
        }
        let school = self.agent.school_row(self.school.tenant(), now()).await?;
        Ok(Context {
            school,
            person,
            history,
            offer,
        })
    }

    async fn drive(&mut self, turn: TurnRow, context: Context) -> Result<(), RunError> {
        // Boxed, as is each kind of work: one state machine of all of them would be too large for
        // a thread's stack.
        Box::pin(Drive::new(self, turn, context).run()).await
    }
}

pub(crate) fn approval(
    open: &[OpenTurn],
    id: toshi_core::ApprovalId,
) -> Option<&toshi_core::Approval> {
    open.iter()
        .flat_map(|turn| &turn.approvals)
        .find(|row| row.approval_id == id)
}

fn turn(open: &[OpenTurn], id: TurnId) -> Option<&TurnRow> {
    open.iter()
        .map(|open| &open.turn)
        .find(|turn| turn.turn == id)
}
