//! Following a turn that somebody else runs: its stored steps, once a second.

use std::time::Duration;

use toshi_core::{
    Approval, ApprovalId, ConversationId, InboxRow, MessageId, Millis, OpenTurn, State, StepRow,
    TenantId, TurnEnd, TurnId, TurnRow, TurnState, Work, next_work,
};
use toshi_store::StoreError;

use crate::agent::Agent;
use crate::clock::now;
use crate::ui::Writer;

/// How long a follower waits, in milliseconds, and how often it looks.
const FOLLOW_MS: i64 = 60_000;
const LOOK_EVERY: Duration = Duration::from_secs(1);

pub(crate) const STILL_WORKING: &str = "Still working on it. Reload in a moment to see the result.";

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
    /// after each look and says if anybody still listens. The turn as it was seen last comes back.
    pub(crate) async fn follow(
        &self,
        tenant: &TenantId,
        conversation: &ConversationId,
        followed: Followed,
        writer: &mut Writer,
        mut tell: impl FnMut(&mut Writer) -> bool,
    ) -> Result<Option<TurnRow>, StoreError> {
        let until = now().plus(FOLLOW_MS);
        loop {
            let Seen { turn, rests } = self.look(tenant, conversation, followed, writer).await?;
            if rests {
                return Ok(turn);
            }
            let listens = tell(writer);
            if !listens || now() >= until {
                if !writer.opened_step() {
                    writer.note(STILL_WORKING);
                }
                return Ok(turn);
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }

    /// Tells all that is stored of a message.
    pub(crate) async fn look(
        &self,
        tenant: &TenantId,
        conversation: &ConversationId,
        followed: Followed,
        writer: &mut Writer,
    ) -> Result<Seen, StoreError> {
        let school = self.store.school(tenant);
        // In this order: when the turn is done, all of its steps are there to be read.
        let turn = school.turn(conversation, followed.turn).await?;
        let steps = school.steps_of(conversation, followed.turn).await?;
        let ids: Vec<ApprovalId> = steps.iter().flat_map(StepRow::approvals).collect();
        let approvals = school.approvals_in(conversation, &ids).await?;
        for step in steps.iter().filter(|step| !is_failure(turn.as_ref(), step)) {
            writer.step(step, &approvals);
        }
        let rests = turn
            .as_ref()
            .is_some_and(|turn| rests(turn, followed, &steps, &approvals));
        Ok(Seen { turn, rests })
    }
}

/// A turn as it was seen, and whether nothing more will come by itself.
pub(crate) struct Seen {
    pub(crate) turn: Option<TurnRow>,
    rests: bool,
}

/// A failed turn's last step is the sentence that the end of the stream tells.
fn is_failure(turn: Option<&TurnRow>, step: &StepRow) -> bool {
    turn.is_some_and(|turn| {
        let failed = matches!(
            turn.state,
            TurnState::Done {
                end: TurnEnd::Failed { .. }
            }
        );
        failed && step.n == turn.steps
    })
}

/// Whether nothing more will come of this message by itself.
fn rests(turn: &TurnRow, followed: Followed, steps: &[StepRow], approvals: &[Approval]) -> bool {
    let states = |ids: Vec<ApprovalId>| -> Vec<State> {
        let rows = approvals
            .iter()
            .filter(|row| ids.contains(&row.approval_id));
        rows.map(|row| row.state).collect()
    };
    let moves = |state: &State| {
        matches!(
            state,
            State::Approved | State::Executing | State::Superseded
        )
    };
    if turn.answer != followed.answer {
        // Its continuation is another message; its own calls may still be under way.
        let own = steps.iter().filter(|step| step.answer == followed.answer);
        return !states(own.flat_map(StepRow::approvals).collect())
            .iter()
            .any(moves);
    }
    match turn.state {
        TurnState::Done { .. } => true,
        TurnState::Running => false,
        TurnState::Waiting => {
            let last = steps.last().map(|step| step.approvals().collect());
            let states = states(last.unwrap_or_default());
            // If all are settled, the continuation is about to come.
            !states.iter().all(|state| state.is_settled()) && !states.iter().any(moves)
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
