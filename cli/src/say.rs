//! Plain lines: results on standard output, what went wrong on standard error.

use std::io::Write;

/// One line of the result. A reader that has gone away is no failure of ours.
pub(crate) fn say(line: &str) {
    drop(writeln!(std::io::stdout(), "{line}"));
}

pub(crate) fn problem(line: &str) {
    drop(writeln!(std::io::stderr(), "toshi: {line}"));
}

/// A question without an end of line.
pub(crate) fn ask(text: &str) {
    let mut stderr = std::io::stderr();
    drop(write!(stderr, "{text}"));
    drop(stderr.flush());
}
