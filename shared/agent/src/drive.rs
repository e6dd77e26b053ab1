//! One turn under way: a model call, its tool calls, one commit; and again.

use std::time::Duration;

use toshi_core::{
    CallOutcome, Canonical, Finish, Millis, RUN_MAX_MS, SAME_CALL_MAX, STEPS_PER_TURN, StepCall,
    StepRow, TURN_TOKENS, TurnEnd, TurnRow, TurnState,
};
use toshi_failpoints::{Point, reach};
use toshi_store::{Commit, StepRefusal, StoreError};

use crate::ask::Batch;
use crate::clock::now;
use crate::model::{Bounds, ModelError, ModelStep};
use crate::progress::Progress;
use crate::prompt::{self, Ingredients};
use crate::run::{Context, Run, RunError};

pub(crate) struct Drive<'d, 'r> {
    pub(crate) run: &'d mut Run<'r>,
    pub(crate) turn: TurnRow,
    pub(crate) context: Context,
}

/// Tries at a commit whose connections or unknown outcomes changed while it was prepared.
const COMMIT_TRIES: u32 = 4;

impl<'d, 'r> Drive<'d, 'r> {
    pub(crate) const fn new(run: &'d mut Run<'r>, turn: TurnRow, context: Context) -> Self {
        Self { run, turn, context }
    }

    /// Until the turn waits for people or is done.
    pub(crate) async fn run(mut self) -> Result<(), RunError> {
        self.summarise().await?;
        loop {
            if let Some(sentence) = self.limit() {
                return self.last_step(sentence).await;
            }
            reach(Point::TurnBeforeModel);
            let step = match self.ask_model().await? {
                Ok(step) => step,
                Err(error) => {
                    tracing::warn!(%error, turn = %self.turn.turn, "the model gave no answer");
                    let sentence = format!("I cannot answer: {error}.");
                    return self.run.fail_turn(self.turn, sentence).await;
                }
            };
            reach(Point::TurnAfterModel);
            if self.take(step).await? {
                return Ok(());
            }
        }
    }

    /// The limit that ends the turn before another model call, in words.
    fn limit(&self) -> Option<String> {
        if self.turn.steps >= STEPS_PER_TURN {
            return Some(format!(
                "I stop here: this request took {STEPS_PER_TURN} rounds of work, which is the \
                 limit. Tell me to go on if it is not done."
            ));
        }
        if self.turn.run_at.until(now()) > RUN_MAX_MS {
            return Some(
                "I stop here: this request took longer than four minutes. Tell me to go on if it \
                 is not done."
                    .to_owned(),
            );
        }
        if self.ingredients().own_tokens() > TURN_TOKENS {
            return Some(
                "I stop here: what this request gathered is more than I can keep in mind at once. \
                 Please ask for a part of it."
                    .to_owned(),
            );
        }
        (self.looping() || self.alternating()).then(|| {
            "I stop here: I was about to make the same call again and again. Please put the \
             request in other words."
                .to_owned()
        })
    }

    /// The same call, tool and arguments, was made as often as a turn may.
    fn looping(&self) -> bool {
        let calls: Vec<(&str, &Canonical)> = self
            .own_steps()
            .flat_map(|step| &step.calls)
            // Arguments that could not be read are all kept as none: they need not be the same.
            .filter(|call| {
                let unread = call.arguments == Canonical::empty_object();
                !(unread && matches!(call.outcome, CallOutcome::Invalid { .. }))
            })
            .map(|call| (call.name.as_str(), &call.arguments))
            .collect();
        calls
            .iter()
            .any(|call| calls.iter().filter(|other| *other == call).count() >= SAME_CALL_MAX)
    }

    /// The last four steps are one pair of steps twice, with the same answers: nothing new comes.
    fn alternating(&self) -> bool {
        let steps: Vec<&StepRow> = self.own_steps().collect();
        let [.., one, two, one_again, two_again] = steps.as_slice() else {
            return false;
        };
        let same = |a: &StepRow, b: &StepRow| {
            let calls = a.calls.iter().zip(&b.calls);
            a.calls.len() == b.calls.len()
                && !a.calls.is_empty()
                && calls.into_iter().all(|(a, b)| {
                    (&a.name, &a.arguments, &a.outcome) == (&b.name, &b.arguments, &b.outcome)
                })
        };
        same(one, one_again) && same(two, two_again)
    }

    pub(crate) fn ingredients(&self) -> Ingredients<'_> {
        Ingredients {
            school: &self.context.school.name,
            person: &self.context.person,
            catalogue: self.run.agent.catalogue(),
            offer: &self.context.offer,
            history: &self.context.history,
            turn: &self.turn,
            now: now(),
        }
    }

    /// What this run still has.
    pub(crate) fn left(&self) -> Duration {
        let left = RUN_MAX_MS - self.turn.run_at.until(now());
        Duration::from_millis(left.max(0).unsigned_abs())
    }

    pub(crate) fn own_steps(&self) -> impl Iterator<Item = &StepRow> {
        self.context
            .history
            .steps
            .iter()
            .filter(|step| step.turn == self.turn.turn)
    }

    /// Asks for the next step, within the time that this run still has. Whether the conversation
    /// has other work is found out meanwhile.
    async fn ask_model(&mut self) -> Result<Result<ModelStep, ModelError>, StoreError> {
        let key = match self.run.agent.llm_key(now()).await {
            Ok(key) => key,
            Err(StoreError::NoSecret(_)) => return Ok(Err(ModelError::NoKey)),
            Err(error) => return Err(error),
        };
        let prompt = prompt::build(&self.ingredients());
        let (answer, n) = (self.turn.answer, self.turn.steps + 1);
        let sink = &self.run.sink;
        let on_text = |delta: &str| {
            sink.tell(Progress::Text {
                answer,
                n,
                delta: delta.to_owned(),
            })
        };
        let bounds = Bounds::step(self.left());
        let answer = self.run.agent.model.step(key, &prompt, bounds, on_text);
        Ok(answer.await)
    }

    /// Judges the step's calls, runs its reads, and commits all of it at once. `true` if the turn
    /// now waits or is done.
    async fn take(&mut self, step: ModelStep) -> Result<bool, RunError> {
        let ModelStep {
            text,
            calls,
            finish,
        } = step;
        if calls.is_empty() {
            let text = if text.trim().is_empty() {
                // An empty step would be asked for again and again.
                "I have no answer to that. Please ask in other words.".to_owned()
            } else if finish == Finish::Length {
                format!("{text} …\n\n(My answer was cut off at its length limit.)")
            } else {
                text
            };
            self.finish(text, finish).await?;
            return Ok(true);
        }
        let batch = Batch::of(self, calls, finish).await?;
        self.store(text, finish, batch).await
    }

    async fn store(
        &mut self,
        text: String,
        finish: Finish,
        mut batch: Batch,
    ) -> Result<bool, RunError> {
        let n = self.turn.steps + 1;
        for _ in 0..COMMIT_TRIES {
            let waits = !batch.asks.is_empty();
            let mut turn = self.turn.clone();
            turn.steps = n;
            turn.state = if waits {
                TurnState::Waiting
            } else {
                TurnState::Running
            };
            let step = self.step_row(n, text.clone(), batch.calls.clone(), finish);
            let commit = Commit {
                turn: Some(turn),
                step: Some(step.clone()),
                reads: batch.reads.clone(),
                asks: batch.asks.clone(),
                targets: batch.targets.clone(),
                release: waits,
                ..Commit::default()
            };
            let (before, after) = if waits {
                (Point::AskBeforeCommit, Point::AskAfterCommit)
            } else {
                (Point::StepBeforeCommit, Point::StepAfterCommit)
            };
            reach(before);
            match self.run.commit(commit).await {
                Ok(committed) => {
                    reach(after);
                    self.turn = committed.turn.unwrap_or_else(|| self.turn.clone());
                    for row in &committed.asks {
                        self.context
                            .history
                            .approvals
                            .insert(row.approval_id, row.clone());
                    }
                    self.context.history.steps.push(step.clone());
                    let turn = self.turn.clone();
                    let approvals = committed.asks;
                    self.run.sink.tell(Progress::Step { step, approvals });
                    if waits {
                        self.run.sink.tell(Progress::Turn(turn));
                    }
                    return Ok(waits);
                }
                Err(StepRefusal::Unknown) => self.drop_unknown(&mut batch).await?,
                Err(StepRefusal::Connection) => self.judge_again(&mut batch).await?,
                Err(other) => return Err(other.into()),
            }
        }
        Err(StoreError::Busy.into())
    }

    /// A last step in our own words, and the turn is done.
    async fn last_step(mut self, sentence: String) -> Result<(), RunError> {
        let end = TurnEnd::Limit {
            sentence: sentence.clone(),
        };
        self.finish_with(sentence, Finish::Stop, end).await
    }

    async fn finish(&mut self, text: String, finish: Finish) -> Result<(), RunError> {
        self.finish_with(text, finish, TurnEnd::Complete).await
    }

    async fn finish_with(
        &mut self,
        text: String,
        finish: Finish,
        end: TurnEnd,
    ) -> Result<(), RunError> {
        let n = self.turn.steps + 1;
        let mut turn = self.turn.clone();
        turn.steps = n;
        turn.state = TurnState::Done { end };
        let step = self.step_row(n, text, Vec::new(), finish);
        self.run.meta.open.retain(|open| *open != turn.turn);
        let commit = Commit {
            turn: Some(turn.clone()),
            step: Some(step.clone()),
            release: true,
            ..Commit::default()
        };
        reach(Point::StepBeforeCommit);
        self.run.commit(commit).await?;
        reach(Point::StepAfterCommit);
        let approvals = Vec::new();
        self.run.sink.tell(Progress::Step { step, approvals });
        self.run.sink.tell(Progress::Turn(turn));
        Ok(())
    }

    fn step_row(&self, n: u32, text: String, calls: Vec<StepCall>, finish: Finish) -> StepRow {
        StepRow {
            turn: self.turn.turn,
            n,
            answer: self.turn.answer,
            text,
            calls,
            finish,
            at: now(),
        }
    }

    /// When a question asked now must be answered.
    pub(crate) fn decide_by(&self, now: Millis) -> Millis {
        let within = self
            .run
            .agent
            .settings
            .decide_within_ms
            .or(self.context.school.decide_within_ms)
            .unwrap_or(toshi_core::DECIDE_WITHIN_WEB_MS);
        now.plus(within)
    }
}

/// The calls that the gate or the model itself made impossible, as the model is told.
pub(crate) fn invalid(why: impl Into<String>) -> CallOutcome {
    CallOutcome::Invalid { why: why.into() }
}
