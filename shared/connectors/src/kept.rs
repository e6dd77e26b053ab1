//! Sessions that are kept between calls, and between the invocations of a warm process.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::Mutex as AsyncMutex;
use toshi_core::{ConnectionId, Era, TenantId};

use crate::session::Session;
use crate::shot::Fault;

const MOST: usize = 64;

/// Whose session it is. Never shared beyond this: not with another tenant, another account, or an
/// older token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Key {
    pub(crate) tenant: TenantId,
    pub(crate) connection: ConnectionId,
    pub(crate) account: String,
    pub(crate) token_version: u64,
}

impl Key {
    /// The same connection, perhaps with an account or token that it no longer has.
    fn is_same_connection(&self, other: &Self) -> bool {
        self.tenant == other.tenant && self.connection == other.connection
    }
}

type Place = Arc<AsyncMutex<Option<Arc<Session>>>>;

/// Least recently used first.
#[derive(Default)]
pub(crate) struct Kept(Mutex<VecDeque<(Key, Place)>>);

/// A session, and whether it was open before it was asked for.
pub(crate) struct Found {
    pub(crate) session: Arc<Session>,
    pub(crate) kept: bool,
}

impl Kept {
    /// The kept session, or the one that `open` makes, told the era of the last one. Calls that come
    /// at the same time for one key share one opening.
    pub(crate) async fn get<F>(
        &self,
        key: &Key,
        open: impl FnOnce(Option<Era>) -> F,
    ) -> Result<Found, Fault>
    where
        F: Future<Output = Result<Session, Fault>>,
    {
        let place = self.place(key);
        let mut place = place.lock().await;
        if let Some(session) = place.as_ref().filter(|session| session.is_alive()) {
            return Ok(Found {
                session: Arc::clone(session),
                kept: true,
            });
        }
        let last = place.as_ref().map(|session| session.era());
        let session = Arc::new(open(last).await?);
        *place = Some(Arc::clone(&session));
        Ok(Found {
            session,
            kept: false,
        })
    }

    /// The era of the session that was opened last, if nobody is opening one now.
    pub(crate) fn era(&self, key: &Key) -> Option<Era> {
        let place = self.find(key)?;
        let place = place.try_lock().ok()?;
        place.as_ref().map(|session| session.era())
    }

    fn find(&self, key: &Key) -> Option<Place> {
        let places = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let found = places.iter().find(|(other, _)| other == key);
        found.map(|(_, place)| Arc::clone(place))
    }

    fn place(&self, key: &Key) -> Place {
        let mut places = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let found = places.iter().position(|(other, _)| other == key);
        let place = match found.and_then(|at| places.remove(at)) {
            Some((_, place)) => place,
            None => {
                places.retain(|(other, _)| !other.is_same_connection(key));
                Place::default()
            }
        };
        if places.len() >= MOST {
            places.pop_front();
        }
        places.push_back((key.clone(), Arc::clone(&place)));
        place
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(tenant: &str, connection: &str, account: &str, token_version: u64) -> Key {
        Key {
            tenant: TenantId::from_stored(tenant).unwrap(),
            connection: connection.parse().unwrap(),
            account: account.to_owned(),
            token_version,
        }
    }

    #[test]
    fn a_session_is_kept_for_exactly_one_tenant_account_and_token() {
        let kept = Kept::default();
        let place = kept.place(&key("lakeside", "demo", "a", 1));
        assert!(Arc::ptr_eq(
            &place,
            &kept.place(&key("lakeside", "demo", "a", 1))
        ));
        assert!(!Arc::ptr_eq(
            &place,
            &kept.place(&key("hilltop", "demo", "a", 1))
        ));
        assert!(!Arc::ptr_eq(
            &place,
            &kept.place(&key("lakeside", "other", "a", 1))
        ));
        assert!(!Arc::ptr_eq(
            &place,
            &kept.place(&key("lakeside", "demo", "b", 1))
        ));
        assert!(!Arc::ptr_eq(
            &place,
            &kept.place(&key("lakeside", "demo", "a", 2))
        ));
    }

    #[test]
    fn a_new_token_ends_what_was_kept_for_the_old_one() {
        let kept = Kept::default();
        let _ = kept.place(&key("lakeside", "demo", "a", 1));
        let _ = kept.place(&key("lakeside", "demo", "a", 2));
        assert_eq!(kept.0.lock().unwrap().len(), 1);
    }

    #[test]
    fn the_number_of_kept_sessions_is_bounded() {
        let kept = Kept::default();
        let first = kept.place(&key("lakeside", "c0", "a", 1));
        for n in 1..MOST {
            let _ = kept.place(&key("lakeside", &format!("c{n}"), "a", 1));
            let _ = kept.place(&key("lakeside", "c0", "a", 1));
        }
        let _ = kept.place(&key("lakeside", "last", "a", 1));
        assert_eq!(kept.0.lock().unwrap().len(), MOST);
        assert!(Arc::ptr_eq(
            &first,
            &kept.place(&key("lakeside", "c0", "a", 1))
        ));
    }
}
