//! An approved call: checked, claimed, sent once, settled.

use toshi_connectors::{AccessToken, CallReport, Prepared, ToolAnswer, settle};
use toshi_core::{
    Access, Approval, ApprovalId, BlockReason, CLAIM_NEEDS_MS, CallOutcome, Cause, ConnectionRow,
    Deadline, Event, NotSent, OpenTurn, RESULT_MAX, State, StepRow, ToolDefinition, ToolRow,
    ToolState, VoidReason, WireFault,
};
use toshi_failpoints::{Point, reach};
use toshi_store::{ClaimRefusal, StepRefusal, StoreError, Target, TransitionError, UserRow};

use crate::clock::now;
use crate::progress::Progress;
use crate::run::{Run, RunError, approval};

/// What settling needs of the invocation's end.
const SETTLE_MARGIN_MS: i64 = 1_000;
/// Looks at a connection that changes under a claim.
const CLAIM_TRIES: u32 = 5;

impl Run<'_> {
    /// Runs one approved call to its end. Only the store's failures are errors: whatever the tool
    /// or the checks say becomes the approval's state.
    pub(crate) async fn execute(
        &mut self,
        open: &[OpenTurn],
        id: ApprovalId,
    ) -> Result<(), RunError> {
        let Some(row) = approval(open, id) else {
            return Ok(());
        };
        let step = open.iter().find_map(|turn| {
            turn.step
                .as_ref()
                .filter(|step| step.approvals().any(|own| own == id))
        });
        for _ in 0..CLAIM_TRIES {
            match self.attempt(row, step).await? {
                Done::Settled(row) => {
                    self.sink.tell(Progress::Approval(row));
                    return Ok(());
                }
                Done::Moved => return Ok(()),
                Done::Again => {}
            }
        }
        Err(StoreError::Busy.into())
    }

    async fn attempt(&mut self, row: &Approval, step: Option<&StepRow>) -> Result<Done, RunError> {
        let connection = &row.connection;
        let (target, user) = tokio::try_join!(
            self.school
                .target(&connection.connector, &connection.id, &row.tool),
            self.school.user(&row.requester)
        )?;
        let Some(target) = target else {
            return self
                .end(row, Event::Block(BlockReason::ConnectionUnusable))
                .await;
        };
        let Ok(user) = UserRow::admit(user, &row.requester) else {
            return self.end(row, Event::Void(VoidReason::PersonChanged)).await;
        };
        if target.connection.account != connection.account {
            return self.end(row, Event::Void(VoidReason::AccountChanged)).await;
        }
        if target.killed {
            return self.end(row, Event::Block(BlockReason::Killed)).await;
        }
        if !target.connection.usable {
            return self
                .end(row, Event::Block(BlockReason::ConnectionUnusable))
                .await;
        }
        let Some(token) = self.token(&target).await? else {
            return self.end(row, Event::GiveUp(NotSent::NeedsReauth)).await;
        };
        // Outside the window in which bytes may have been sent: the session and the definition.
        reach(Point::PrepareBefore);
        let prepared = match self.prepare(&target, &token, &row.tool).await {
            Ok(prepared) => prepared,
            Err(fault) => {
                tracing::warn!(?fault, approval = %row.approval_id, "the check before the claim failed");
                return self.end(row, Event::GiveUp(give_up_reason(&fault))).await;
            }
        };
        reach(Point::PrepareAfter);
        let Some(live) = prepared.live.clone() else {
            return self.end(row, Event::GiveUp(NotSent::ToolGone)).await;
        };
        let Ok(hash) = live.hash() else {
            return self
                .end(row, Event::Block(BlockReason::DefinitionChanged))
                .await;
        };
        if hash != row.definition {
            return self.changed(row, step, &target, live).await;
        }
        if let Some(tool) = &target.tool
            && tool.state == ToolState::Withheld
            && tool.hash == hash
        {
            // It was another for a while, and is again what was reviewed and approved.
            let state = ToolState::Active;
            let tool = tool.clone();
            self.school.put_tool(&ToolRow { state, ..tool }).await?;
            return Ok(Done::Again);
        }
        let asked = self
            .agent
            .arguments_hmac(row.arguments.hash(), now())
            .await?;
        if asked != row.arguments_hmac {
            // Somebody wrote to the row past the rules: it is not the call that was asked.
            tracing::error!(approval = %row.approval_id, "the stored arguments are not those that were asked");
            return self.end(row, Event::Block(BlockReason::Altered)).await;
        }
        if self.budget.left_ms() < CLAIM_NEEDS_MS {
            // The check took the time that the call would need: another invocation makes it.
            return Ok(Done::Moved);
        }
        let catalogue = self.agent.catalogue();
        reach(Point::ClaimBeforeCommit);
        let claimed = self
            .school
            .claim(catalogue, user.role, row, &target, now())
            .await;
        let claim = match claimed {
            Ok(claim) => claim,
            Err(ClaimRefusal::Blocked(why)) => return self.end(row, Event::Block(why)).await,
            Err(ClaimRefusal::OtherAccount) => {
                return self.end(row, Event::Void(VoidReason::AccountChanged)).await;
            }
            Err(ClaimRefusal::Again) => {
                let fresh = self
                    .school
                    .approval_in(&row.conversation, row.approval_id)
                    .await?;
                let same = fresh.is_some_and(|fresh| fresh.seq == row.seq);
                return Ok(if same { Done::Again } else { Done::Moved });
            }
            Err(ClaimRefusal::Refused { .. }) => return Ok(Done::Moved),
            Err(ClaimRefusal::Store(error)) => return Err(error.into()),
        };
        reach(Point::ClaimAfterCommit);
        // Nothing stands between the claim and the call.
        let report = self
            .agent
            .tools
            .call(prepared, claim.permit, &claim.row.arguments)
            .await;
        reach(Point::SendAfterReply);
        let row = claim.row;
        let report = self.after_challenge(&row, &target, &token, report).await;
        self.record(&row, report).await
    }

    /// A 401 with a challenge says that the call was not run. With a newer token at hand it is
    /// sent once more, as attempt 2, recorded before.
    async fn after_challenge(
        &self,
        row: &Approval,
        used: &Target,
        token: &AccessToken,
        report: CallReport,
    ) -> CallReport {
        if !report.challenged {
            return report;
        }
        let connection = &used.connection;
        let fresh = self
            .school
            .target(&connection.connector, &connection.connection, &row.tool)
            .await;
        let Ok(Some(fresh)) = fresh else {
            return report;
        };
        let same = fresh.connection.usable
            && !fresh.killed
            && fresh.connection.account == row.connection.account
            && fresh.connection.epoch == connection.epoch;
        let Ok(Some(newer)) = self.token(&fresh).await else {
            return report;
        };
        let Some(attempt) = row.attempt.as_ref().map(|attempt| attempt.id) else {
            return report;
        };
        if !same || newer.version == token.version {
            return report;
        }
        let Ok(prepared) = self.prepare(&fresh, &newer, &row.tool).await else {
            return report;
        };
        let unchanged = prepared
            .live
            .as_ref()
            .is_some_and(|live| live.hash().is_ok_and(|hash| hash == row.definition));
        if !unchanged {
            return report;
        }
        match self.school.send_again(row, attempt, now()).await {
            Ok(claim) => {
                self.agent
                    .tools
                    .call(prepared, claim.permit, &row.arguments)
                    .await
            }
            Err(_) => report,
        }
    }

    async fn record(&self, row: &Approval, report: CallReport) -> Result<Done, RunError> {
        let Some(attempt) = row.attempt.as_ref().map(|attempt| attempt.id) else {
            return Ok(Done::Moved);
        };
        let text = long_text(&report.result);
        let outcome = settle(report.result, Access::Write);
        let give_up = self.budget.deadline.plus(-SETTLE_MARGIN_MS);
        reach(Point::SettleBeforeCommit);
        let settled = self
            .school
            .settle(row, attempt, outcome, &text, now, give_up)
            .await;
        match settled {
            Ok(row) => {
                reach(Point::SettleAfterCommit);
                if row.state == State::Unknown {
                    tracing::warn!(approval = %row.approval_id, "the outcome of a write is unknown");
                }
                Ok(Done::Settled(Box::new(row)))
            }
            Err(TransitionError::Refused { row, .. }) => Ok(Done::Settled(row)),
            Err(TransitionError::NotFound) => Ok(Done::Moved),
            Err(TransitionError::Store(error)) => Err(error.into()),
        }
    }

    async fn end(&self, row: &Approval, event: Event) -> Result<Done, RunError> {
        match self
            .school
            .transition(row, event, &Cause::system(), now())
            .await
        {
            Ok(row) => Ok(Done::Settled(Box::new(row))),
            Err(TransitionError::Refused { .. } | TransitionError::NotFound) => Ok(Done::Moved),
            Err(TransitionError::Store(error)) => Err(error.into()),
        }
    }

    /// The tool is no longer what was approved: it is withheld, and the call is asked again under
    /// its new definition.
    async fn changed(
        &mut self,
        row: &Approval,
        step: Option<&StepRow>,
        target: &Target,
        live: ToolDefinition,
    ) -> Result<Done, RunError> {
        let hash = match live.hash() {
            Ok(hash) => hash,
            Err(_) => {
                return self
                    .end(row, Event::Block(BlockReason::DefinitionChanged))
                    .await;
            }
        };
        if let Some(tool) = &target.tool {
            // Withheld while it differs from what was reviewed, and no longer than that.
            let state = if tool.hash == hash {
                ToolState::Active
            } else {
                ToolState::Withheld
            };
            if tool.state != state {
                let tool = tool.clone();
                self.school.put_tool(&ToolRow { state, ..tool }).await?;
            }
        }
        let arguments = row.arguments.value();
        let fits = toshi_connectors::schema::validate(&arguments, &live.input_schema).is_ok();
        let Some(step) = step.filter(|_| fits) else {
            return self
                .end(row, Event::Block(BlockReason::DefinitionChanged))
                .await;
        };
        let time = now();
        let within = row
            .decide_by
            .time()
            .map_or(0, |limit| row.created_at.until(limit));
        let reviewed = target.tool.as_ref().is_some_and(|tool| tool.hash == hash);
        let effect = row.effect.clone().unwrap_or_default();
        let effect = if reviewed {
            row.effect.clone()
        } else {
            // A yes alone will not run it; the person should know before they answer.
            Some(format!(
                "The tool changed since you were asked. It can only run once an administrator has \
                 reviewed the change. {effect}"
            ))
        };
        let successor = Approval {
            approval_id: toshi_store::mint(time),
            effect,
            definition: hash,
            created_at: time,
            decide_by: Deadline::at(time.plus(within)),
            run_by: None,
            state: State::Pending,
            decision: None,
            supersedes: Some(row.approval_id),
            seq: 0,
            ..row.clone()
        };
        let mut step = step.clone();
        for call in &mut step.calls {
            if call.outcome
                == (CallOutcome::Approval {
                    id: row.approval_id,
                })
            {
                call.outcome = CallOutcome::Approval {
                    id: successor.approval_id,
                };
            }
        }
        let asked = self
            .school
            .ask_again(&self.meta, &self.lease, row, successor, step, time)
            .await;
        match asked {
            Ok(successor) => {
                let old = self
                    .school
                    .approval_in(&row.conversation, row.approval_id)
                    .await?;
                if let Some(old) = old {
                    self.sink.tell(Progress::Approval(Box::new(old)));
                }
                Ok(Done::Settled(Box::new(successor)))
            }
            Err(StepRefusal::Unknown) => {
                self.end(row, Event::Block(BlockReason::OutcomeUnknown))
                    .await
            }
            Err(StepRefusal::Store(StoreError::Conflict)) => Ok(Done::Moved),
            Err(error) => Err(error.into()),
        }
    }

    /// Withheld tools whose live definition is the reviewed one again are offered again.
    pub(crate) async fn restore_withheld(
        &self,
        connections: &[ConnectionRow],
    ) -> Result<bool, RunError> {
        let mut restored = false;
        for connection in connections {
            let toolbox = self.school.toolbox().await?;
            let withheld = toolbox.tools.iter().filter(|tool| {
                tool.connection == connection.connection && tool.state == ToolState::Withheld
            });
            let withheld: Vec<&ToolRow> = withheld.collect();
            let Some(first) = withheld.first() else {
                continue;
            };
            let target = self
                .school
                .target(
                    &connection.connector,
                    &connection.connection,
                    &first.definition.name,
                )
                .await?;
            let Some(target) = target.filter(|target| target.connection.usable) else {
                continue;
            };
            let Some(token) = self.token(&target).await? else {
                continue;
            };
            let at = toshi_connectors::Target {
                tenant: self.school.tenant(),
                connection: &target.connection,
                token: &token,
            };
            let live = self.agent.tools.list(&at).await;
            self.keep_era(&at).await;
            let Ok(live) = live else {
                continue;
            };
            for tool in withheld {
                let same = live.iter().any(|definition| {
                    definition.name == tool.definition.name
                        && definition.hash().is_ok_and(|hash| hash == tool.hash)
                });
                if same {
                    let active = ToolRow {
                        state: ToolState::Active,
                        ..tool.clone()
                    };
                    self.school.put_tool(&active).await?;
                    restored = true;
                }
            }
        }
        Ok(restored)
    }

    /// The connection's token, if there is one.
    pub(crate) async fn token(&self, target: &Target) -> Result<Option<AccessToken>, StoreError> {
        let Some(credential) = &target.credential else {
            return Ok(None);
        };
        if credential.access_exp.is_some_and(|end| end.is_over(now())) {
            return Ok(None);
        }
        let secret = self
            .school
            .access_token(&self.agent.vault, &target.connection, credential, now())
            .await?;
        Ok(Some(AccessToken {
            version: credential.tok_ver,
            secret,
        }))
    }

    async fn prepare(
        &self,
        target: &Target,
        token: &AccessToken,
        tool: &str,
    ) -> Result<Prepared, WireFault> {
        let at = toshi_connectors::Target {
            tenant: self.school.tenant(),
            connection: &target.connection,
            token,
        };
        let prepared = self.agent.tools.prepare(&at, tool).await;
        self.keep_era(&at).await;
        prepared
    }

    /// Keeps how the server speaks if that was found out just now, so that the next process need not
    /// ask. It saves time and nothing else, so a failure stops nothing.
    pub(crate) async fn keep_era(&self, at: &toshi_connectors::Target<'_>) {
        let Some(era) = self.agent.tools.learned(at) else {
            return;
        };
        if let Err(error) = self.school.learn_era(at.connection, era).await {
            tracing::warn!(%error, connection = %at.connection.connection, "how a server speaks was not kept");
        }
    }
}

enum Done {
    Settled(Box<Approval>),
    /// Another writer moved the row: the next look sees where to.
    Moved,
    /// The connection changed under the claim.
    Again,
}

fn give_up_reason(fault: &WireFault) -> NotSent {
    match fault {
        WireFault::HttpStatus {
            status: 401 | 403, ..
        } => NotSent::NeedsReauth,
        WireFault::HttpStatus { .. }
        | WireFault::NotSent(_)
        | WireFault::Rpc { .. }
        | WireFault::Timeout
        | WireFault::Cut
        | WireFault::TooLarge
        | WireFault::Unfinished(_)
        | WireFault::Other(_) => NotSent::ServerUnreachable,
    }
}

/// The whole of an answer that its row cannot hold.
pub(crate) fn long_text(result: &Result<ToolAnswer, WireFault>) -> String {
    match result {
        Ok(answer) if !answer.is_error && answer.text.len() > RESULT_MAX => answer.text.clone(),
        Ok(_) | Err(_) => String::new(),
    }
}
