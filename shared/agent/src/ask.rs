//! A step's calls: judged one by one, reads run at once, writes turned into questions.

use futures::future::join_all;
use serde_json::Value;
use toshi_connectors::{schema, settle};
use toshi_core::{
    ARGUMENTS_MAX, Access, Actor, Approval, BlockReason, CALLS_PER_STEP, CallId, CallOutcome,
    Canonical, CanonicalError, Cause, Deadline, Finish, How, Outcome, RecordDraft, RecordEvent,
    State, StepCall, Verdict, take_intent,
};
use toshi_store::{OpenError, ReadRecord, ResultOrigin, StoreError, Target};

use crate::clock::now;
use crate::drive::{Drive, invalid};
use crate::execute::long_text;
use crate::model::ModelCall;
use crate::offer::{OfferedTool, safe_name};
use crate::own::{self, ReadOn, WasRead};
use crate::run::RunError;

/// Everything that becomes of a step's calls before its commit.
pub(crate) struct Batch {
    /// In the model's order.
    pub(crate) calls: Vec<StepCall>,
    pub(crate) reads: Vec<ReadRecord>,
    pub(crate) asks: Vec<(Approval, Cause)>,
    pub(crate) targets: Vec<Target>,
    /// Bytes of structured answers kept so far.
    structured: usize,
}

/// All arguments of one step, and all structured answers of its reads, in bytes: with the text and
/// the reads' own texts they share the step's row, which may have 400 KiB.
const STEP_ARGUMENTS_MAX: usize = 128 * 1024;
const STEP_STRUCTURED_MAX: usize = 48 * 1024;

/// A call after it was read and judged.
enum Judged {
    Settled(CallOutcome),
    Read(OfferedTool),
    /// A read of our own store.
    ReadOn(ReadOn),
    Write {
        tool: OfferedTool,
        intent: Option<String>,
    },
}

/// What a read brought.
enum Brought {
    Answer { outcome: Outcome, chunks: u32 },
    Kept(WasRead),
}

impl Batch {
    pub(crate) async fn of(
        drive: &Drive<'_, '_>,
        calls: Vec<ModelCall>,
        finish: Finish,
    ) -> Result<Self, RunError> {
        let mut size = 0;
        let mut judged = Vec::with_capacity(calls.len());
        for (index, call) in calls.into_iter().enumerate() {
            let (mut arguments, mut verdict) = judge(drive, &call);
            size += arguments.as_str().len();
            let too_large = size > STEP_ARGUMENTS_MAX;
            if too_large {
                size -= arguments.as_str().len();
                arguments = empty();
            }
            if finish == Finish::Length {
                // Half an argument can be a whole other meaning.
                verdict = Judged::Settled(invalid(
                    "your output was cut off at its length limit; make the call again, shorter",
                ));
            } else if finish == Finish::ContentFilter {
                verdict = Judged::Settled(invalid("your output was stopped by a content filter"));
            } else if index >= CALLS_PER_STEP {
                let why = format!("at most {CALLS_PER_STEP} calls are possible in one step");
                verdict = Judged::Settled(invalid(why));
            } else if too_large {
                verdict = Judged::Settled(invalid("the arguments of this step are too large"));
            }
            judged.push((toshi_store::mint(now()), call, arguments, verdict));
        }
        let mut batch = Self {
            calls: Vec::new(),
            reads: Vec::new(),
            asks: Vec::new(),
            targets: Vec::new(),
            structured: 0,
        };
        let reads = judged.iter().map(|(id, _, arguments, verdict)| async move {
            match verdict {
                Judged::Read(tool) => Some(read(drive, *id, tool, arguments).await),
                Judged::ReadOn(wanted) => Some(drive.read_on(wanted).await.map(Brought::Kept)),
                Judged::Settled(_) | Judged::Write { .. } => None,
            }
        });
        let mut results = join_all(reads).await.into_iter();
        for (id, call, arguments, verdict) in judged {
            let brought = results.next().flatten().transpose()?;
            let call = StepCall {
                call: id,
                name: safe_name(&call.name),
                connection: None,
                tool: String::new(),
                title: String::new(),
                arguments,
                outcome: invalid("not run"),
            };
            batch.add(drive, call, verdict, brought).await?;
        }
        Ok(batch)
    }

    async fn add(
        &mut self,
        drive: &Drive<'_, '_>,
        mut step_call: StepCall,
        verdict: Judged,
        brought: Option<Brought>,
    ) -> Result<(), RunError> {
        let catalogue = drive.run.agent.catalogue();
        match verdict {
            Judged::Settled(outcome) => {
                step_call.tool = step_call.name.clone();
                step_call.title = step_call.name.clone();
                step_call.outcome = outcome;
            }
            Judged::Read(tool) => {
                describe(&mut step_call, catalogue, &tool);
                self.add_read(drive, &mut step_call, brought).await?;
            }
            Judged::ReadOn(_) => {
                step_call.tool = step_call.name.clone();
                self.add_read(drive, &mut step_call, brought).await?;
            }
            Judged::Write { tool, intent } => {
                describe(&mut step_call, catalogue, &tool);
                self.require(&tool);
                let row = question(drive, &step_call, &tool, intent).await?;
                step_call.outcome = CallOutcome::Approval {
                    id: row.approval_id,
                };
                self.asks.push((row, asker(drive)));
            }
        }
        self.calls.push(step_call);
        Ok(())
    }

    async fn add_read(
        &mut self,
        drive: &Drive<'_, '_>,
        call: &mut StepCall,
        brought: Option<Brought>,
    ) -> Result<(), RunError> {
        let (mut outcome, chunks) = match brought {
            Some(Brought::Answer { outcome, chunks }) => (outcome, chunks),
            Some(Brought::Kept(kept)) => {
                call.connection = kept.connection;
                call.title = kept.title;
                (kept.outcome, 0)
            }
            None => (refused("it was not run"), 0),
        };
        self.limit(&mut outcome);
        self.reads.push(read_record(drive, call, &outcome).await?);
        call.outcome = CallOutcome::Read { outcome, chunks };
        Ok(())
    }

    /// An answer whose structure finds no room in the row is kept as its text alone.
    fn limit(&mut self, outcome: &mut Outcome) {
        if let Outcome::Succeeded { structured, .. } = outcome {
            let size = structured
                .as_ref()
                .map_or(0, |value| value.to_string().len());
            if self.structured + size > STEP_STRUCTURED_MAX {
                *structured = None;
            } else {
                self.structured += size;
            }
        }
    }

    /// The commit must find the connection as the offer was made from it.
    fn require(&mut self, tool: &OfferedTool) {
        let connection = &tool.connection;
        if self
            .targets
            .iter()
            .any(|known| known.connection.connection == connection.connection)
        {
            return;
        }
        self.targets.push(Target {
            connection: connection.clone(),
            credential: None,
            tool: Some(tool.row.clone()),
            killed: false,
        });
    }

    /// Takes a question back: its call is told why.
    fn block(&mut self, id: toshi_core::ApprovalId, why: BlockReason) {
        self.asks.retain(|(row, _)| row.approval_id != id);
        for call in &mut self.calls {
            if call.outcome == (CallOutcome::Approval { id }) {
                call.outcome = CallOutcome::Blocked { why };
            }
        }
        if self.asks.is_empty() {
            self.targets.clear();
        }
    }
}

impl Drive<'_, '_> {
    /// The commit met an unknown outcome of an identical call: that call is not asked.
    pub(crate) async fn drop_unknown(&self, batch: &mut Batch) -> Result<(), RunError> {
        let rows: Vec<Approval> = batch.asks.iter().map(|(row, _)| row.clone()).collect();
        for id in self.run.school.unknown_calls(&rows).await? {
            batch.block(id, BlockReason::OutcomeUnknown);
        }
        Ok(())
    }

    /// A connection changed between the offer and the commit: its calls are judged on what is now.
    pub(crate) async fn judge_again(&self, batch: &mut Batch) -> Result<(), RunError> {
        let person = &self.context.person;
        let catalogue = self.run.agent.catalogue();
        batch.targets.clear();
        for (row, _) in batch.asks.clone() {
            let connector = &row.connection.connector;
            let target = self
                .run
                .school
                .target(connector, &row.connection.id, &row.tool)
                .await?;
            let Some(target) = target else {
                batch.block(row.approval_id, BlockReason::ConnectionUnusable);
                continue;
            };
            match target.judge(catalogue, person.role, &person.user, &row.tool) {
                Verdict::Ask | Verdict::Allow
                    if target.connection.account == row.connection.account =>
                {
                    let known = batch
                        .targets
                        .iter()
                        .any(|known| known.connection.connection == target.connection.connection);
                    if !known {
                        batch.targets.push(target);
                    }
                }
                Verdict::Ask | Verdict::Allow => {
                    batch.block(row.approval_id, BlockReason::ConnectionUnusable);
                }
                Verdict::Deny(why) => batch.block(row.approval_id, why),
            }
        }
        Ok(())
    }

    /// The same call was denied by a person in this turn.
    fn was_denied(&self, tool: &OfferedTool, arguments: &Canonical) -> bool {
        self.context.history.approvals.values().any(|row| {
            row.turn == self.turn.turn
                && row.state == State::Rejected
                && row.connection.id == tool.connection.connection
                && row.tool == tool.row.definition.name
                && row.arguments.hash() == arguments.hash()
        })
    }
}

/// Reads a call's arguments and asks the gate.
fn judge(drive: &Drive<'_, '_>, call: &ModelCall) -> (Canonical, Judged) {
    let settled = |arguments, outcome| (arguments, Judged::Settled(outcome));
    let text = if call.arguments.trim().is_empty() {
        "{}"
    } else {
        call.arguments.as_str()
    };
    let arguments = match Canonical::arguments(text, ARGUMENTS_MAX) {
        Ok(arguments) => arguments,
        Err(error @ CanonicalError::Malformed(_)) => {
            // Some servers say that calls are whole though they were cut off.
            let why = format!(
                "{error}; if your output was cut off at its limit, make the call again, shorter"
            );
            return settled(empty(), invalid(why));
        }
        Err(error) => return settled(empty(), invalid(error.to_string())),
    };
    if own::is_own(&call.name) {
        return match own::read_on(&arguments.value()) {
            Ok(wanted) => (arguments, Judged::ReadOn(wanted)),
            Err(why) => settled(arguments, invalid(why)),
        };
    }
    let Some(tool) = drive.context.offer.tool(&call.name) else {
        return settled(
            arguments,
            invalid(format!("there is no tool {:?} here", safe_name(&call.name))),
        );
    };
    let mut object = arguments.object();
    let intent = match tool.access {
        Access::Read => None,
        Access::Write => take_intent(&mut object),
    };
    let object = Value::Object(object);
    if let Err(why) = schema::validate(&object, &tool.row.definition.input_schema) {
        return settled(
            arguments,
            invalid(format!("the arguments do not fit: {why}")),
        );
    }
    let arguments = match Canonical::of(&object) {
        Ok(arguments) => arguments,
        Err(error) => return settled(empty(), invalid(error.to_string())),
    };
    match tool.access {
        Access::Read => (arguments, Judged::Read(tool.clone())),
        Access::Write if drive.was_denied(tool, &arguments) => settled(
            arguments,
            CallOutcome::Blocked {
                why: BlockReason::DeniedBefore,
            },
        ),
        Access::Write => (
            arguments,
            Judged::Write {
                tool: tool.clone(),
                intent,
            },
        ),
    }
}

fn empty() -> Canonical {
    Canonical::empty_object()
}

fn describe(call: &mut StepCall, catalogue: &toshi_core::Catalogue, tool: &OfferedTool) {
    let name = &tool.row.definition.name;
    let connector = catalogue.get(&tool.connection.connector);
    let title = connector.map_or(name.as_str(), |connector| connector.tool_title(name));
    let place = connector.map_or("", |connector| connector.title.as_str());
    call.connection = Some(tool.connection.connection.clone());
    call.tool = name.clone();
    call.title = format!("{title} · {place}");
}

fn asker(drive: &Drive<'_, '_>) -> Cause {
    let person = &drive.context.person;
    let actor = Actor::User {
        id: person.user.clone(),
        name: person.name.clone(),
        role: person.role,
    };
    Cause {
        actor,
        how: How::Chat,
        request: drive.run.request.clone(),
    }
}

async fn question(
    drive: &Drive<'_, '_>,
    call: &StepCall,
    tool: &OfferedTool,
    intent: Option<String>,
) -> Result<Approval, RunError> {
    let agent = drive.run.agent;
    let catalogue = agent.catalogue();
    let connection = &tool.connection;
    let connector = catalogue.get(&connection.connector);
    let entry = connector.and_then(|connector| connector.tools.get(&call.tool));
    let time = now();
    Ok(Approval {
        approval_id: toshi_store::mint(time),
        conversation: drive.run.meta.conversation.clone(),
        client_id: drive.run.meta.client_id.clone(),
        turn: drive.turn.turn,
        step: drive.turn.steps + 1,
        call: call.call,
        connection: toshi_core::ApprovalConnection {
            id: connection.connection.clone(),
            connector: connection.connector.clone(),
            title: connector.map_or_else(String::new, |connector| connector.title.clone()),
            account: connection.account.clone(),
            account_name: connection.account_name.clone(),
            epoch: connection.epoch,
        },
        tool: call.tool.clone(),
        tool_title: connector
            .map_or(call.tool.as_str(), |connector| {
                connector.tool_title(&call.tool)
            })
            .to_owned(),
        definition: tool.row.hash.clone(),
        arguments: call.arguments.clone(),
        arguments_hmac: agent.arguments_hmac(call.arguments.hash(), time).await?,
        intent,
        effect: entry.and_then(|entry| entry.effect.clone()),
        risk: connector.map_or(toshi_core::Risk::High, |connector| {
            connector.risk(&call.tool)
        }),
        requester: drive.context.person.user.clone(),
        requester_name: drive.context.person.name.clone(),
        approver: entry.map(|entry| entry.approver).unwrap_or_default(),
        created_at: time,
        decide_by: Deadline::at(drive.decide_by(time)),
        run_by: None,
        state: State::Pending,
        decision: None,
        attempt: None,
        outcome: None,
        chunks: 0,
        blocked: None,
        not_sent: None,
        voided: None,
        resolution: None,
        supersedes: None,
        superseded_by: None,
        seq: 0,
        head: call.arguments.hash().clone(),
    })
}

fn refused(why: impl Into<String>) -> Outcome {
    Outcome::Refused { why: why.into() }
}

/// Runs one read. What goes wrong is told to the model; only the store's own failures stop a turn.
async fn read(
    drive: &Drive<'_, '_>,
    id: CallId,
    tool: &OfferedTool,
    arguments: &Canonical,
) -> Result<Brought, RunError> {
    let no_answer = |why: &str| {
        Ok(Brought::Answer {
            outcome: refused(why),
            chunks: 0,
        })
    };
    let run = &drive.run;
    let person = &drive.context.person;
    let connection = &tool.connection;
    let name = tool.row.definition.name.as_str();
    let call = (connection.connector.as_str(), &connection.connection, name);
    let opened = run
        .school
        .open_read(
            run.agent.catalogue(),
            (&person.user, person.role),
            call,
            arguments,
        )
        .await;
    let opened = match opened {
        Ok(opened) => opened,
        Err(OpenError::Store(error)) => return Err(error.into()),
        Err(OpenError::Denied(why)) => {
            return no_answer(toshi_core::blocked_words(why));
        }
        Err(OpenError::NeedsApproval) => {
            return no_answer("this call now needs a person's approval; ask again");
        }
        Err(OpenError::NotFound) => {
            let why = toshi_core::blocked_words(BlockReason::ConnectionUnusable);
            return no_answer(why);
        }
    };
    let Some(token) = run.token(&opened.target).await? else {
        return no_answer("the connection must be signed in again by an administrator");
    };
    let target = toshi_connectors::Target {
        tenant: run.school.tenant(),
        connection: &opened.target.connection,
        token: &token,
    };
    let report = run
        .agent
        .tools
        .read(&target, opened.permit, &tool.row.definition, arguments)
        .await;
    run.keep_era(&target).await;
    let text = long_text(&report.result);
    let outcome = settle(report.result, Access::Read);
    let chunks = if text.is_empty() {
        0
    } else {
        let origin = ResultOrigin {
            connector: connection.connector.clone(),
            connection: connection.connection.clone(),
            tool: name.to_owned(),
            approval: None,
        };
        // Before the step that refers to them: a runner that dies between leaves nothing to find.
        let conversation = &run.meta.conversation;
        run.school
            .keep_result(conversation, id, &origin, &text)
            .await
    };
    Ok(Brought::Answer { outcome, chunks })
}

async fn read_record(
    drive: &Drive<'_, '_>,
    call: &StepCall,
    outcome: &Outcome,
) -> Result<ReadRecord, StoreError> {
    let cause = asker(drive);
    let (kind, bytes) = match outcome {
        Outcome::Succeeded { bytes, .. } => ("succeeded", *bytes),
        Outcome::ReportedError { text } => ("reported_error", text.len() as u64),
        Outcome::Refused { .. } => ("refused", 0),
        Outcome::NotSent { .. } => ("not_sent", 0),
        Outcome::Unknown { .. } => ("unknown", 0),
    };
    let hash = call.arguments.hash();
    Ok(ReadRecord(RecordDraft {
        event: RecordEvent::Read,
        at: now(),
        actor: cause.actor,
        how: cause.how,
        request: cause.request,
        conversation: Some(drive.run.meta.conversation.clone()),
        turn: Some(drive.turn.turn),
        approval: None,
        connection: call.connection.clone(),
        tool: Some(call.tool.clone()),
        arguments_hmac: Some(drive.run.agent.arguments_hmac(hash, now()).await?),
        detail: serde_json::json!({ "call": call.call, "outcome": kind, "bytes": bytes }),
    }))
}
