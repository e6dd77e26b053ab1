//! Time as rows keep it: milliseconds since the Unix epoch, passed in by the caller.

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// An instant in milliseconds since the Unix epoch. Shown as RFC 3339 UTC.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Millis(i64);

impl Millis {
    pub const fn from_epoch(ms: i64) -> Self {
        Self(ms)
    }

    pub const fn as_epoch(self) -> i64 {
        self.0
    }

    pub const fn plus(self, ms: i64) -> Self {
        Self(self.0.saturating_add(ms))
    }

    /// Milliseconds from `self` until `later`; negative when `later` is past.
    pub const fn until(self, later: Self) -> i64 {
        later.0.saturating_sub(self.0)
    }

    /// Seconds since the epoch, as DynamoDB's TTL wants them.
    pub const fn as_epoch_seconds(self) -> i64 {
        self.0.div_euclid(1000)
    }

    /// The UTC day, `YYYY-MM-DD`.
    pub fn day(self) -> String {
        self.to_string().chars().take(10).collect()
    }
}

impl fmt::Display for Millis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match jiff::Timestamp::from_millisecond(self.0) {
            Ok(timestamp) => write!(f, "{timestamp:.3}"),
            Err(_) => write!(f, "{}ms", self.0),
        }
    }
}

/// A time limit. One that is missing or unreadable has passed: nothing stays open by accident.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Deadline(Option<Millis>);

impl Deadline {
    pub const fn at(time: Millis) -> Self {
        Self(Some(time))
    }

    pub const fn malformed() -> Self {
        Self(None)
    }

    /// The limit itself is too late: at `decide_by` an approval is expired.
    pub fn is_over(self, now: Millis) -> bool {
        self.0.is_none_or(|time| now >= time)
    }

    pub const fn time(self) -> Option<Millis> {
        self.0
    }

    /// When a sweep should look at it: at once, if nobody can say when.
    pub fn due(self, now: Millis) -> Millis {
        self.0.unwrap_or(now)
    }
}

impl Serialize for Deadline {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Deadline {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let value = serde_json::Value::deserialize(deserializer)?;
        Ok(Self(value.as_i64().filter(|ms| *ms > 0).map(Millis)))
    }
}

impl Default for Deadline {
    fn default() -> Self {
        Self::malformed()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_or_malformed_deadline_has_passed() {
        let now = Millis::from_epoch(1);
        for json in ["null", "\"tomorrow\"", "{}", "-5", "0", "1.5"] {
            let deadline: Deadline = serde_json::from_str(json).unwrap();
            assert!(deadline.is_over(now), "{json}");
            assert_eq!(deadline.due(now), now);
        }
    }

    #[test]
    fn a_deadline_is_over_at_its_own_instant() {
        let deadline = Deadline::at(Millis::from_epoch(1_000));
        assert!(!deadline.is_over(Millis::from_epoch(999)));
        assert!(deadline.is_over(Millis::from_epoch(1_000)));
    }

    #[test]
    fn an_instant_shows_as_rfc_3339_in_utc() {
        let time = Millis::from_epoch(1_796_062_800_123);
        assert_eq!(time.to_string(), "2026-11-30T18:20:00.123Z");
        assert_eq!(time.day(), "2026-11-30");
    }
}
