//! The wake queue. A message is a hint that a conversation has work; the rows are the truth.

use aws_sdk_sqs::Client;
use serde::{Deserialize, Serialize};
use toshi_core::{ConversationId, TenantId};

use crate::StoreError;

/// What a hint says: where to look, and nothing else.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WakeMessage {
    pub tenant: TenantId,
    pub conversation: ConversationId,
}

#[derive(Clone, Debug)]
pub struct WakeQueue {
    sqs: Client,
    url: String,
}

impl WakeQueue {
    pub const fn new(sqs: Client, url: String) -> Self {
        Self { sqs, url }
    }

    /// Sends a hint, to be seen after `delay_s` seconds.
    pub async fn send(&self, message: &WakeMessage, delay_s: i32) -> Result<(), StoreError> {
        let body = serde_json::to_string(message).map_err(StoreError::encode)?;
        self.sqs
            .send_message()
            .queue_url(&self.url)
            .message_body(body)
            .delay_seconds(delay_s)
            .send()
            .await
            .map_err(|error| StoreError::service("SQS", error))?;
        Ok(())
    }

    /// Sends a hint that may be lost: the row's due time finds the work within a sweep.
    pub async fn hint(&self, message: &WakeMessage) {
        if let Err(error) = self.send(message, 0).await {
            tracing::warn!(%error, conversation = %message.conversation, "wake hint not sent; the sweep will find it");
        }
    }
}
