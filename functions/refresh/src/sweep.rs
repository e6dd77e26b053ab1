//! Walking the index: all shards, several at a time, until nothing is due or time runs out.

use futures::{StreamExt, stream};
use toshi_core::Millis;
use toshi_store::{Due, DueKind, SHARDS, Store, StoreError};

/// Shards that are read at the same time.
const AT_ONCE: usize = 8;
/// Entries of one read.
const PAGE: i32 = 100;
/// Reads of one shard in one sweep, so that entries which cannot be served do not make it endless.
const PAGES: usize = 50;
/// A sweep's own limit; its invocation has 60 seconds.
const BUDGET_MS: i64 = 25_000;

/// When a sweep that begins now must end.
pub(crate) fn until(now: Millis) -> Millis {
    now.plus(BUDGET_MS)
}

/// What became of the entries of one kind.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Tally {
    pub(crate) due: u64,
    pub(crate) acted: u64,
    pub(crate) failed: u64,
    pub(crate) more: bool,
}

impl Tally {
    fn plus(self, other: Self) -> Self {
        Self {
            due: self.due + other.due,
            acted: self.acted + other.acted,
            failed: self.failed + other.failed,
            more: self.more || other.more,
        }
    }
}

/// Serves each due entry of `kind` once. `serve` says whether it changed something; its error is
/// logged by this function, once, and stops nothing.
pub(crate) async fn each_due<F>(
    store: &Store,
    kind: DueKind,
    clock: fn() -> Millis,
    serve: impl Fn(Due) -> F,
) -> Result<Tally, StoreError>
where
    F: Future<Output = Result<bool, Failed>>,
{
    let end = until(clock());
    let serve = &serve;
    // All shards are walked to their ends before a failed read fails the sweep.
    let tallies: Vec<Result<Tally, StoreError>> = stream::iter(0..SHARDS)
        .map(|shard| shard_due(store, shard, kind, clock, end, serve))
        .buffer_unordered(AT_ONCE)
        .collect()
        .await;
    tallies
        .into_iter()
        .try_fold(Tally::default(), |sum, tally| Ok(sum.plus(tally?)))
}

/// Why an entry could not be served, for the log.
pub(crate) type Failed = Box<dyn std::error::Error + Send + Sync>;

async fn shard_due<F>(
    store: &Store,
    shard: u8,
    kind: DueKind,
    clock: fn() -> Millis,
    end: Millis,
    serve: &impl Fn(Due) -> F,
) -> Result<Tally, StoreError>
where
    F: Future<Output = Result<bool, Failed>>,
{
    let mut tally = Tally::default();
    let mut after = None;
    for _ in 0..PAGES {
        let page = store
            .due_after(shard, clock(), after.as_deref(), PAGE)
            .await?;
        for due in page.items.into_iter().filter(|due| due.kind == kind) {
            if clock() >= end {
                return Ok(Tally {
                    more: true,
                    ..tally
                });
            }
            tally.due += 1;
            let name = format!("{due:?}");
            match serve(due).await {
                Ok(true) => tally.acted += 1,
                Ok(false) => {}
                Err(error) => {
                    tally.failed += 1;
                    tracing::error!(%error, entry = %name, "a due row could not be served");
                }
            }
        }
        after = page.next;
        if after.is_none() {
            return Ok(tally);
        }
    }
    Ok(Tally {
        more: true,
        ..tally
    })
}
