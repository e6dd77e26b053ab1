//! The wall clock of the stand-ins.

use jiff::Timestamp;

/// Milliseconds since the Unix epoch.
pub(crate) fn now_ms() -> i64 {
    Timestamp::now().as_millisecond()
}

/// Seconds since the Unix epoch.
pub(crate) fn now_s() -> i64 {
    Timestamp::now().as_second()
}

/// RFC 3339 in UTC with milliseconds.
pub(crate) fn now() -> String {
    format!("{:.3}", Timestamp::now())
}
