//! A long tool result in parts: the model is shown one at a time and reads on where it wants.
//!
//! A row keeps the first part. The whole text is stored beside it in chunks, so that any part lies
//! in one chunk. Every cut is moved back to the start of a character.

use crate::limits::{RESULT_CHUNK, RESULT_CHUNKS_MAX, RESULT_MAX};

/// The tool of our own that reads on in a stored result.
pub const READ_RESULT: &str = "read_result";

const PARTS_PER_CHUNK: usize = RESULT_CHUNK / RESULT_MAX;

/// How much of a text of `bytes` is kept in so many chunks; without any, the row's own part.
pub fn kept_bytes(bytes: u64, chunks: u32) -> u64 {
    let kept = match u64::from(chunks) {
        0 => RESULT_MAX as u64,
        chunks => chunks * RESULT_CHUNK as u64,
    };
    bytes.min(kept)
}

/// How many parts of a text can be read. A short text is its only part.
pub fn part_count(bytes: u64, chunks: u32) -> u32 {
    let parts = kept_bytes(bytes, chunks).div_ceil(RESULT_MAX as u64);
    u32::try_from(parts).unwrap_or(u32::MAX).max(1)
}

/// The chunk that holds a part, both counted as people do it: parts from 1, chunks from 0.
pub const fn chunk_of(part: u32) -> u32 {
    part.saturating_sub(1) / PARTS_PER_CHUNK as u32
}

/// A text as it is stored: where each chunk begins, and its text.
pub fn chunks(text: &str) -> impl Iterator<Item = (u64, &str)> {
    (0..RESULT_CHUNKS_MAX as usize).map_while(|n| {
        let from = text.floor_char_boundary(n * RESULT_CHUNK);
        let to = text.floor_char_boundary((n + 1) * RESULT_CHUNK);
        let chunk = text.get(from..to).filter(|chunk| !chunk.is_empty())?;
        Some((from as u64, chunk))
    })
}

/// A part of the text whose chunk begins at byte `from`; `None` if the chunk does not hold it.
pub fn part_in(chunk: &str, from: u64, part: u32) -> Option<&str> {
    let start = u64::from(part.checked_sub(1)?) * RESULT_MAX as u64;
    let place = |at: u64| {
        // A chunk's first part may begin a few bytes before its usual place.
        let at = usize::try_from(at.saturating_sub(from)).unwrap_or(usize::MAX);
        chunk.floor_char_boundary(at)
    };
    let part = chunk.get(place(start)..place(start + RESULT_MAX as u64))?;
    Some(part).filter(|part| !part.is_empty())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Reads a text part by part from its stored chunks, as the model does.
    fn read_through(text: &str) -> String {
        let stored: Vec<(u64, &str)> = chunks(text).collect();
        let count = part_count(text.len() as u64, u32::try_from(stored.len()).unwrap());
        let part = |n| {
            let (from, chunk) = stored[chunk_of(n) as usize];
            let part = part_in(chunk, from, n).unwrap();
            assert!(part.len() < RESULT_MAX + 4, "{n}: {}", part.len());
            part
        };
        (1..=count).map(part).collect()
    }

    #[test]
    fn all_parts_of_a_text_are_the_text() {
        let (part, chunk) = (RESULT_MAX, RESULT_CHUNK);
        for len in [part, part + 1, chunk - 1, chunk, chunk + 1, 4 * chunk] {
            let text = "a".repeat(len);
            assert_eq!(read_through(&text), text, "{len}");
        }
    }

    #[test]
    fn what_is_longer_than_may_be_kept_ends_at_the_last_whole_chunk() {
        let text = "x".repeat(4 * RESULT_CHUNK + 5);
        assert_eq!(chunks(&text).count(), RESULT_CHUNKS_MAX as usize);
        assert_eq!(part_count(text.len() as u64, RESULT_CHUNKS_MAX), 64);
        assert_eq!(read_through(&text).len(), 4 * RESULT_CHUNK);
    }

    #[test]
    fn a_short_text_is_one_part_and_so_is_one_of_which_nothing_more_was_kept() {
        assert_eq!(part_count(0, 0), 1);
        assert_eq!(part_count(RESULT_MAX as u64, 0), 1);
        assert_eq!(part_count(5 * RESULT_MAX as u64, 0), 1);
        assert_eq!(part_count(5 * RESULT_MAX as u64, 1), 5);
        assert_eq!(part_in("abc", 0, 0), None);
        assert_eq!(part_in("abc", 0, 2), None);
        assert_eq!(part_in("", 0, 1), None);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn no_part_cuts_a_character_wherever_it_falls(
            before in 0..8_usize,
            wide in prop::sample::select(vec!["ä", "…", "🙂"]),
            parts in 1..40_usize,
        ) {
            let text = format!("{}{}", "-".repeat(before), wide.repeat(parts * RESULT_MAX / wide.len()));
            prop_assert_eq!(read_through(&text), text);
        }
    }
}
