//! Counters for rate limits: one row a window, gone by TTL.

use toshi_core::{Millis, UserId};

use crate::item::{Expression, n};
use crate::{School, StoreError};

/// One window, in seconds.
const WINDOW_S: i64 = 60;

impl School<'_> {
    /// Counts one message of this person and of the school; the counts of the current minute,
    /// and the seconds until the next.
    pub async fn count_message(
        &self,
        user: &UserId,
        now: Millis,
    ) -> Result<(u64, u64, i64), StoreError> {
        let second = now.as_epoch_seconds();
        let window = second.div_euclid(WINDOW_S);
        let person_scope = format!("person#{user}");
        let (person, school) = tokio::try_join!(
            self.count(&person_scope, window),
            self.count("school", window)
        )?;
        Ok((person, school, (window + 1) * WINDOW_S - second))
    }

    async fn count(&self, scope: &str, window: i64) -> Result<u64, StoreError> {
        let update = Expression::raw(
            "ADD #count :one SET #ttl = :ttl",
            &[("#count", "count"), ("#ttl", "ttl")],
            vec![(":one", n(1)), (":ttl", n((window + 10) * WINDOW_S))],
        );
        let item = self
            .store
            .update(
                &self.keys().rate(scope, window),
                update,
                Expression::default(),
            )
            .await?
            .unwrap_or_default();
        let count = item.get("count").and_then(|value| value.as_n().ok());
        Ok(count.and_then(|text| text.parse().ok()).unwrap_or(u64::MAX))
    }
}
