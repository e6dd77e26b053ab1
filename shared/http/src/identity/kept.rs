//! A small map whose entries end, bounded in size.

use std::borrow::Borrow;
use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Mutex, PoisonError};

use toshi_core::Millis;

#[derive(Debug)]
pub(super) struct Kept<K, V> {
    entries: Mutex<HashMap<K, (V, Millis)>>,
    max: usize,
    life_ms: i64,
}

impl<K: Eq + Hash + Clone, V: Clone> Kept<K, V> {
    pub(super) fn new(max: usize, life_ms: i64) -> Self {
        Self {
            entries: Mutex::default(),
            max,
            life_ms,
        }
    }

    pub(super) fn get<Q>(&self, key: &Q, now: Millis) -> Option<V>
    where
        K: Borrow<Q>,
        Q: Eq + Hash + ?Sized,
    {
        let entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        entries
            .get(key)
            .filter(|(_, until)| now < *until)
            .map(|(value, _)| value.clone())
    }

    pub(super) fn put(&self, key: K, value: V, now: Millis) {
        let mut entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        if entries.len() >= self.max {
            entries.retain(|_, (_, until)| now < *until);
        }
        if entries.len() >= self.max
            && let Some(oldest) = entries
                .iter()
                .min_by_key(|(_, (_, until))| *until)
                .map(|(key, _)| key.clone())
        {
            entries.remove(&oldest);
        }
        entries.insert(key, (value, now.plus(self.life_ms)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_ends_and_the_oldest_makes_room() {
        let at = Millis::from_epoch;
        let kept = Kept::new(2, 100);
        kept.put("a", 1, at(0));
        kept.put("b", 2, at(10));
        assert_eq!(kept.get("a", at(99)), Some(1));
        assert_eq!(kept.get("a", at(100)), None);
        kept.put("c", 3, at(20));
        assert_eq!(kept.get("a", at(20)), None);
        assert_eq!(
            (kept.get("b", at(20)), kept.get("c", at(20))),
            (Some(2), Some(3))
        );
    }
}
