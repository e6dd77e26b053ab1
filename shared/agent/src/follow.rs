//! Following a turn that somebody else runs: its stored steps, once a second.

use std::time::Duration;

use toshi_core::{
    ApprovalId, ConversationId, InboxRow, MessageId, Millis, OpenTurn, State, StepRow, TenantId,
    TurnId, TurnState, Work, next_work,
};
use toshi_store::StoreError;

use crate::agent::Agent;
use crate::clock::now;
use crate::ui::Writer;

/// How long a follower waits, in milliseconds, and how often it looks.
const FOLLOW_MS: i64 = 60_000;
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// What a follower is looking at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Followed {
    pub turn: TurnId,
    pub answer: MessageId,
}

impl Agent {
    /// What is running in a conversation, if anything: the last turn that moves by itself.
    pub async fn running(
        &self,
        tenant: &TenantId,
        conversation: &ConversationId,
    ) -> Result<Option<Followed>, StoreError> {
        let school = self.store.school(tenant);
        let Some(meta) = school.meta(conversation).await? else {
            return Ok(None);
        };
        let (open, inbox) = tokio::try_join!(school.open_turns(&meta), school.inbox(conversation))?;
        Ok(running(&open, &inbox, now()))
    }

    /// Tells a turn's stored progress until it rests, at most a minute; `tell` gets the writer
    /// after each look and says if anybody still listens.
    pub async fn follow(
        &self,
        tenant: &TenantId,
        conversation: &ConversationId,
        followed: Followed,
        writer: &mut Writer,
        mut tell: impl FnMut(&mut Writer) -> bool,
    ) -> Result<(), StoreError> {
        let school = self.store.school(tenant);
        let until = now().plus(FOLLOW_MS);
        loop {
            let (turn, steps) = tokio::try_join!(
                school.turn(conversation, followed.turn),
                school.steps_of(conversation, followed.turn)
            )?;
            let ids: Vec<ApprovalId> = steps.iter().flat_map(StepRow::approvals).collect();
            let approvals = school.approvals_in(conversation, &ids).await?;
            for step in &steps {
                writer.step(step, &approvals);
            }
            let moved_on = turn
                .as_ref()
                .is_some_and(|turn| turn.answer != followed.answer);
            let rests = turn.as_ref().is_some_and(|turn| {
                let moving = |state: State| {
                    matches!(
                        state,
                        State::Approved | State::Executing | State::Superseded
                    )
                };
                let current = steps
                    .last()
                    .map(|step| step.approvals().collect::<Vec<_>>());
                let current = current.unwrap_or_default();
                let waiting: Vec<State> = approvals
                    .iter()
                    .filter(|row| current.contains(&row.approval_id))
                    .map(|row| row.state)
                    .collect();
                match turn.state {
                    TurnState::Done { .. } => true,
                    TurnState::Running => false,
                    // Complete: its continuation is about to come.
                    TurnState::Waiting => {
                        !waiting.iter().all(|state| state.is_settled())
                            && !waiting.iter().any(|state| moving(*state))
                    }
                }
            });
            if rests || moved_on {
                writer.end(turn.as_ref().filter(|_| !moved_on));
                tell(writer);
                return Ok(());
            }
            if now() >= until {
                if !writer.opened_step() {
                    writer.note("Still working on it. Reload in a moment to see the result.");
                }
                writer.end(turn.as_ref());
                tell(writer);
                return Ok(());
            }
            if !tell(writer) {
                return Ok(());
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }
}

/// The turn that a reader should follow: one that is being run or is about to be.
pub(crate) fn running(open: &[OpenTurn], inbox: &[InboxRow], now: Millis) -> Option<Followed> {
    let moving = open.iter().rev().find(|one| {
        let alone = std::slice::from_ref(*one);
        let executing = one
            .approvals
            .iter()
            .any(|row| row.state == State::Executing);
        executing || next_work(alone, &[], now, i64::MAX) != Work::Idle
    });
    let queued = inbox.last().map(|row| Followed {
        turn: row.turn,
        answer: row.answer,
    });
    queued.or(moving.map(|one| Followed {
        turn: one.turn.turn,
        answer: one.turn.answer,
    }))
}
