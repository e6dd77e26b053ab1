//! What every test needs: the stack, its people, their chats, and patience with a deadline.

mod answer;
mod aws;
mod chat;
mod own;
mod person;
mod stack;
mod stream;

pub(crate) use answer::Answer;
pub(crate) use aws::{Aws, Mapping, Rows};
pub(crate) use chat::{Chat, last_text};
pub(crate) use own::Own;
pub(crate) use person::Person;
pub(crate) use stack::Stack;
pub(crate) use stream::Told;

use std::hash::{BuildHasher, RandomState};
use std::time::{Duration, Instant};

/// Looks again and again until there is something; panics when the time is over.
pub(crate) async fn eventually<T>(
    what: &str,
    seconds: u64,
    mut look: impl AsyncFnMut() -> Option<T>,
) -> T {
    let seen = async || look().await.ok_or(String::new());
    settled(what, seconds, seen).await
}

/// The same, where a look that finds nothing says what it saw instead.
async fn settled<T>(
    what: &str,
    seconds: u64,
    mut look: impl AsyncFnMut() -> Result<T, String>,
) -> T {
    let deadline = Instant::now() + Duration::from_secs(seconds);
    loop {
        let seen = match look().await {
            Ok(found) => return found,
            Err(seen) => seen,
        };
        assert!(
            Instant::now() < deadline,
            "not within {seconds} s: {what}\n{seen}"
        );
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// Different at every call and in every run, so that calls are counted by their text.
pub(crate) fn fresh(word: &str) -> String {
    format!("{word}-{:016x}", RandomState::new().hash_one(word))
}
