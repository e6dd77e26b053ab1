//! One message of the wake queue, lifted to a batch with partial failures.

use lambda_runtime::Context;
use serde::{Deserialize, Serialize};
use toshi_agent::{Agent, Budget, RunError, now};
use toshi_core::Millis;
use toshi_failpoints::ahead_ms;
use toshi_store::WakeMessage;

/// What the worker needs of an SQS event
/// (<https://docs.aws.amazon.com/lambda/latest/dg/with-sqs.html>).
#[derive(Debug, Deserialize)]
pub struct SqsBatch {
    #[serde(rename = "Records")]
    records: Vec<SqsRecord>,
}

#[derive(Debug, Deserialize)]
struct SqsRecord {
    #[serde(rename = "messageId")]
    message_id: String,
    body: String,
}

/// The messages that must come again.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub struct Failures {
    #[serde(rename = "batchItemFailures")]
    items: Vec<Failure>,
}

#[derive(Debug, PartialEq, Eq, Serialize)]
struct Failure {
    #[serde(rename = "itemIdentifier")]
    id: String,
}

/// Runs each message's conversation, one after another: they share the invocation's time.
pub async fn handle(agent: &Agent, batch: SqsBatch, context: &Context) -> Failures {
    let deadline = i64::try_from(context.deadline).map_or_else(|_| now(), Millis::from_epoch);
    // The runtime's clock is the machine's.
    let deadline = deadline.plus(ahead_ms());
    let budget = Budget::until(deadline);
    let mut items = Vec::new();
    for record in batch.records {
        if let Err(problem) = one(agent, &record.body, budget).await {
            tracing::error!(message = %record.message_id, %problem, "a wake message failed");
            items.push(Failure {
                id: record.message_id,
            });
        }
    }
    Failures { items }
}

#[derive(Debug, thiserror::Error)]
enum Problem {
    /// Without the reader's own words, which quote the message.
    #[error("the message cannot be read")]
    Unreadable(#[from] serde_json::Error),
    #[error(transparent)]
    Run(#[from] RunError),
}

/// A hint is done when the conversation was looked at: what is left there has a due time.
async fn one(agent: &Agent, body: &str, budget: Budget) -> Result<(), Problem> {
    let WakeMessage {
        tenant,
        conversation,
    } = serde_json::from_str(body)?;
    let end = agent.run(&tenant, &conversation, budget).await?;
    tracing::info!(%tenant, %conversation, ?end, "worked");
    Ok(())
}
