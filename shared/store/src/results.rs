//! Long results: stored beside the row that refers to them, and read on from there.

use std::time::Duration;

use futures::future::try_join_all;
use serde::{Deserialize, Serialize};
use toshi_core::{
    ApprovalId, CallId, Catalogue, ConnectionId, ConversationId, Gate, Role, UserId, Verdict,
};

use crate::item::{from_item, to_item};
use crate::{OpenError, School, StoreError};

/// Whose answer a stored result is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ResultOrigin {
    pub connector: String,
    pub connection: ConnectionId,
    pub tool: String,
    /// The approval of a write: its row says whether the result was settled.
    pub approval: Option<ApprovalId>,
}

/// One stored chunk. A row that refers to it is committed after it.
#[derive(Debug, Serialize, Deserialize)]
struct ChunkRow {
    origin: ResultOrigin,
    /// Where it begins in the whole text, in bytes.
    from: u64,
    /// Bytes that were kept in all chunks together.
    kept: u64,
    text: String,
}

/// A part of a stored result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResultPart {
    pub origin: ResultOrigin,
    pub text: String,
    pub parts: u32,
}

/// Why a part cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum PartError {
    /// The conversation has no such result.
    #[error("no such result")]
    NoResult,
    #[error("no such part")]
    NoPart { parts: u32 },
    /// Its connection or tool may no longer be used by the person.
    #[error(transparent)]
    Closed(#[from] OpenError),
}

impl From<StoreError> for PartError {
    fn from(error: StoreError) -> Self {
        Self::Closed(error.into())
    }
}

/// What keeping a result may take of the time in which its outcome must be settled.
const KEEP_WITHIN: Duration = Duration::from_secs(5);

impl School<'_> {
    /// Stores a result that its row cannot hold, before that row; so many chunks were kept. The
    /// row has the first part in any case: if the rest cannot be stored, that is logged and the
    /// row says so.
    pub async fn keep_result(
        &self,
        conversation: &ConversationId,
        call: CallId,
        origin: &ResultOrigin,
        text: &str,
    ) -> u32 {
        let why = match tokio::time::timeout(
            KEEP_WITHIN,
            self.put_chunks(conversation, call, origin, text),
        )
        .await
        {
            Ok(Ok(count)) => return count,
            Ok(Err(error)) => error.to_string(),
            Err(_) => "it took too long".to_owned(),
        };
        tracing::warn!(why, %call, "the rest of a long result could not be kept");
        0
    }

    async fn put_chunks(
        &self,
        conversation: &ConversationId,
        call: CallId,
        origin: &ResultOrigin,
        text: &str,
    ) -> Result<u32, StoreError> {
        let chunks: Vec<(u64, &str)> = toshi_core::chunks(text).collect();
        let kept: usize = chunks.iter().map(|(_, chunk)| chunk.len()).sum();
        let puts = (0..).zip(&chunks).map(|(n, (from, chunk))| {
            let row = ChunkRow {
                origin: origin.clone(),
                from: *from,
                kept: kept as u64,
                text: (*chunk).to_owned(),
            };
            async move {
                let item = to_item(&self.keys().chunk(conversation, call, n), &row)?;
                self.store.put(item, None).await
            }
        });
        let count = try_join_all(puts).await?.len();
        Ok(u32::try_from(count).unwrap_or_default())
    }

    /// Reads one part of a result of this conversation, if the gate still lets the person see what
    /// its connection and tool answer.
    pub async fn open_result(
        &self,
        catalogue: &Catalogue,
        person: (&UserId, Role),
        conversation: &ConversationId,
        call: CallId,
        part: u32,
    ) -> Result<ResultPart, PartError> {
        let key = |n| self.keys().chunk(conversation, call, n);
        let wanted = toshi_core::chunk_of(part);
        let items = self.store.batch_get(&[key(0), key(wanted)]).await?;
        let mut rows: Vec<ChunkRow> = items
            .into_iter()
            .map(from_item)
            .collect::<Result<_, StoreError>>()?;
        rows.sort_by_key(|row| row.from);
        let Some(first) = rows.first() else {
            return Err(PartError::NoResult);
        };
        let origin = first.origin.clone();
        if let Some(approval) = origin.approval {
            // Chunks are stored first: those of a call that was never settled are nobody's answer.
            let row = self.approval_in(conversation, approval).await?;
            if row.is_none_or(|row| row.chunks == 0) {
                return Err(PartError::NoResult);
            }
        }
        let (user, role) = person;
        let target = self
            .target(&origin.connector, &origin.connection, &origin.tool)
            .await?
            .ok_or(OpenError::NotFound)?;
        let gate = Gate::new(catalogue, &target.connection, role, user, target.killed);
        match gate.judge_kept(&origin.tool) {
            Verdict::Allow => {}
            Verdict::Ask => return Err(OpenError::NeedsApproval.into()),
            Verdict::Deny(why) => return Err(OpenError::Denied(why).into()),
        }
        let chunks = u32::try_from(first.kept.div_ceil(toshi_core::RESULT_CHUNK as u64));
        let parts = toshi_core::part_count(first.kept, chunks.unwrap_or(u32::MAX));
        let text = rows
            .iter()
            .find_map(|row| toshi_core::part_in(&row.text, row.from, part))
            .ok_or(PartError::NoPart { parts })?
            .to_owned();
        Ok(ResultPart {
            origin,
            text,
            parts,
        })
    }
}
