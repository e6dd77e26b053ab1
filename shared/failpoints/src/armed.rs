use std::cell::Cell;
use std::io::Write;
use std::path::PathBuf;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicI64, Ordering};

use crate::Point;

/// The point at which this process ends.
static ABORT_AT: OnceLock<Point> = OnceLock::new();
/// Where it writes the point's name first.
static TOLD: OnceLock<PathBuf> = OnceLock::new();
/// What a test does at every point.
static WATCH: OnceLock<fn(Point)> = OnceLock::new();
static AHEAD_MS: AtomicI64 = AtomicI64::new(0);

thread_local! {
    /// Of a test that has several processes in one, each on a thread of its own.
    static OWN_AHEAD_MS: Cell<Option<i64>> = const { Cell::new(None) };
}

/// Says that the process has come this far. It ends here, if that was asked for.
pub fn reach(point: Point) {
    if let Some(watch) = WATCH.get() {
        watch(point);
    }
    if ABORT_AT.get() == Some(&point) {
        end(point);
    }
}

/// Calls `hook` at every point from now on. There is one for the whole process.
pub fn watch(hook: fn(Point)) {
    _ = WATCH.set(hook);
}

fn end(point: Point) {
    if let Some(path) = TOLD.get() {
        let file = std::fs::OpenOptions::new()
            .append(true)
            .create(true)
            .open(path);
        if let Ok(mut file) = file {
            // Whoever waits for the line does not see it, and says so.
            _ = file.write_all(format!("{}\n", point.name()).as_bytes());
        }
    }
    std::process::abort();
}

/// How far this process's clock is ahead of the machine's, in milliseconds.
pub fn ahead_ms() -> i64 {
    OWN_AHEAD_MS
        .get()
        .unwrap_or_else(|| AHEAD_MS.load(Ordering::Relaxed))
}

/// Sets the clock of this thread, and of no other.
pub fn set_ahead_ms(ms: i64) {
    OWN_AHEAD_MS.set(Some(ms));
}

/// Takes what a development environment says: `FAILPOINT`, the point at which the process aborts;
/// `FAILPOINT_TOLD`, the file that it writes the point's name to before; `CLOCK_AHEAD_MS`. The error
/// is a sentence.
pub fn arm<'a>(variable: impl Fn(&'static str) -> Option<&'a str>) -> Result<(), String> {
    if let Some(name) = variable("FAILPOINT") {
        let point = Point::ALL.iter().find(|point| point.name() == name);
        let point = point.ok_or_else(|| format!("FAILPOINT is {name:?}: there is none such"))?;
        _ = ABORT_AT.set(*point);
    }
    if let Some(path) = variable("FAILPOINT_TOLD") {
        _ = TOLD.set(path.into());
    }
    if let Some(text) = variable("CLOCK_AHEAD_MS") {
        let ms = text
            .parse()
            .map_err(|_| format!("CLOCK_AHEAD_MS is {text:?}: it must be milliseconds"))?;
        AHEAD_MS.store(ms, Ordering::Relaxed);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_say_of_what_and_when() {
        let mut names: Vec<&str> = Point::ALL.iter().map(|point| point.name()).collect();
        assert!(names.iter().all(|name| name.contains("::")), "{names:?}");
        let count = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), count);
    }

    #[test]
    fn a_name_that_is_not_registered_stops_the_start() {
        let told = arm(|name| (name == "FAILPOINT").then_some("claim::after_comit"));
        assert_eq!(
            told.unwrap_err(),
            "FAILPOINT is \"claim::after_comit\": there is none such"
        );
        assert!(arm(|name| (name == "CLOCK_AHEAD_MS").then_some("soon")).is_err());
        assert_eq!(arm(|_| None), Ok(()));
    }

    #[test]
    fn a_thread_has_a_clock_of_its_own() {
        set_ahead_ms(5);
        assert_eq!(ahead_ms(), 5);
        let elsewhere = std::thread::spawn(ahead_ms).join().unwrap();
        assert_eq!(elsewhere, 0);
    }
}
