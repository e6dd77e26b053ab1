//! Counters for rate limits: one row a window, gone by TTL.

use toshi_core::{MESSAGES_PER_PERSON, Millis, UserId};

use crate::item::{Expression, n};
use crate::{School, StoreError};

/// One window, in seconds.
const WINDOW_S: i64 = 60;

impl School<'_> {
    /// Counts one message of this person and of the school; the counts of the current minute,
    /// and the seconds until the next. A message too many of a person is none of the school.
    pub async fn count_message(
        &self,
        user: &UserId,
        now: Millis,
    ) -> Result<(u64, u64, i64), StoreError> {
        let second = now.as_epoch_seconds();
        let window = second.div_euclid(WINDOW_S);
        let person_scope = format!("person#{user}");
        let (person, school) = tokio::try_join!(
            self.add(&person_scope, window, 1),
            self.add("school", window, 1)
        )?;
        // Refused in any case: one person alone cannot use up what their school may send.
        let school = if person > MESSAGES_PER_PERSON {
            self.add("school", window, -1).await?
        } else {
            school
        };
        Ok((person, school, (window + 1) * WINDOW_S - second))
    }

    async fn add(&self, scope: &str, window: i64, by: i64) -> Result<u64, StoreError> {
        let update = Expression::raw(
            "ADD #count :by SET #ttl = :ttl",
            &[("#count", "count"), ("#ttl", "ttl")],
            vec![(":by", n(by)), (":ttl", n((window + 10) * WINDOW_S))],
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
