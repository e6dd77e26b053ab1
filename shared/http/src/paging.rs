//! Pages: a bounded limit and an opaque cursor.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::Deserialize;
use toshi_core::TenantId;

use crate::Problem;

const DEFAULT: usize = 50;
const MAX: usize = 100;
const CURSOR_BYTES: usize = 1_024;

/// `limit` and `cursor` as a client sends them.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct Paging {
    #[serde(default)]
    limit: Option<String>,
    #[serde(default)]
    cursor: Option<String>,
}

/// Says where one list of one school goes on; of no use anywhere else.
#[derive(Clone, Copy, Debug)]
pub struct Cursor<'a> {
    pub route: &'a str,
    pub tenant: &'a TenantId,
}

impl Paging {
    pub fn new(limit: Option<String>, cursor: Option<String>) -> Self {
        Self { limit, cursor }
    }

    /// 1 to 100; 50 if nothing is asked.
    pub fn limit(&self) -> Result<usize, Problem> {
        let Some(text) = &self.limit else {
            return Ok(DEFAULT);
        };
        text.parse()
            .ok()
            .filter(|limit| (1..=MAX).contains(limit))
            .ok_or_else(|| Problem::bad_request(format!("The limit must be 1 to {MAX}.")))
    }

    /// Where the page begins, as [`Cursor::make`] was told.
    pub fn after(&self, of: Cursor<'_>) -> Result<Option<String>, Problem> {
        let Some(text) = &self.cursor else {
            return Ok(None);
        };
        of.read(text).map(Some).ok_or_else(Problem::strange_cursor)
    }
}

impl Cursor<'_> {
    pub fn make(self, after: &str) -> String {
        URL_SAFE_NO_PAD.encode(format!("{}\n{}\n{after}", self.route, self.tenant))
    }

    fn read(self, text: &str) -> Option<String> {
        if text.len() > CURSOR_BYTES {
            return None;
        }
        let bytes = URL_SAFE_NO_PAD.decode(text).ok()?;
        let plain = String::from_utf8(bytes).ok()?;
        let mut parts = plain.splitn(3, '\n');
        let ours = parts.next()? == self.route && parts.next()? == self.tenant.as_str();
        let after = parts.next()?;
        ours.then(|| after.to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_is_of_use_in_its_own_list_only() {
        let (a, b) = (tenant("lakeside"), tenant("hilltop"));
        let here = Cursor {
            route: "approvals",
            tenant: &a,
        };
        let text = here.make("01ARZ3NDEKTSV4RRFFQ69G5FAV");
        let paging = Paging::new(None, Some(text));
        assert_eq!(
            paging.after(here).unwrap().as_deref(),
            Some("01ARZ3NDEKTSV4RRFFQ69G5FAV")
        );
        let elsewhere = [
            Cursor {
                route: "audit",
                tenant: &a,
            },
            Cursor {
                route: "approvals",
                tenant: &b,
            },
        ];
        for other in elsewhere {
            assert_eq!(
                paging.after(other).unwrap_err().code(),
                crate::Code::BadRequest
            );
        }
        for bad in ["", "%%%", "bm90IG91cnM", &"a".repeat(2_000)] {
            let paging = Paging::new(None, Some(bad.to_owned()));
            assert!(paging.after(here).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn a_limit_is_1_to_100() {
        let limit = |text: &str| Paging::new(Some(text.to_owned()), None).limit();
        assert_eq!(limit("1").unwrap(), 1);
        assert_eq!(limit("100").unwrap(), 100);
        assert_eq!(Paging::default().limit().unwrap(), 50);
        for bad in ["0", "101", "-1", "many", ""] {
            assert!(limit(bad).is_err(), "{bad:?}");
        }
    }

    fn tenant(id: &str) -> TenantId {
        TenantId::from_stored(id).unwrap()
    }
}
