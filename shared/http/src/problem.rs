//! Problems (RFC 9457): what a client is told when a request does not succeed.

use axum::http::{HeaderValue, header};
use axum::response::{IntoResponse, Response};
use serde_json::{Map, Value, json};
use toshi_store::{NoPerson, StoreError};

use crate::Code;

/// A refusal or failure, in words for a person and a code for a program. Holds nothing that only
/// the log may hold.
#[derive(Clone, Debug)]
pub struct Problem {
    code: Code,
    detail: String,
    retry_after_s: Option<i64>,
    also: Map<String, Value>,
}

impl Problem {
    pub fn new(code: Code) -> Self {
        Self::saying(code, code.sentence())
    }

    /// With a sentence of its own.
    pub fn saying(code: Code, detail: impl Into<String>) -> Self {
        Self {
            code,
            detail: detail.into(),
            retry_after_s: None,
            also: Map::new(),
        }
    }

    /// Adds a member beside the standard ones.
    pub fn with(mut self, name: &str, value: Value) -> Self {
        self.also.insert(name.to_owned(), value);
        self
    }

    pub fn retry_after(mut self, seconds: i64) -> Self {
        self.retry_after_s = Some(seconds.max(1));
        self
    }

    pub fn not_found() -> Self {
        Self::new(Code::NotFound)
    }

    pub fn bad_request(detail: impl Into<String>) -> Self {
        Self::saying(Code::BadRequest, detail)
    }

    pub fn strange_cursor() -> Self {
        Self::bad_request("The cursor does not belong to this list. Begin again without one.")
    }

    pub fn invalid(detail: impl Into<String>) -> Self {
        Self::saying(Code::InvalidArguments, detail)
    }

    /// A failure on our side. What it was goes to the log, here and nowhere else.
    pub fn internal(error: &dyn std::fmt::Display) -> Self {
        tracing::error!(%error, "the request failed");
        Self::new(Code::Internal)
    }

    pub const fn code(&self) -> Code {
        self.code
    }

    pub fn detail(&self) -> &str {
        &self.detail
    }

    /// The body. `request` lets a person name the failure to whoever can read the log.
    pub(crate) fn body(&self, request: Option<&str>) -> Value {
        let detail = match (self.code, request) {
            (Code::Internal, Some(id)) => {
                format!("{} If it stays, tell us this number: {id}.", self.detail)
            }
            _ => self.detail.clone(),
        };
        let mut body = json!({
            "type": "about:blank",
            "title": self.code.title(),
            "status": self.code.status().as_u16(),
            "detail": detail,
            "code": self.code,
        });
        if let Value::Object(members) = &mut body {
            members.extend(self.also.clone());
        }
        body
    }
}

impl From<StoreError> for Problem {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::Busy => Self::new(Code::Unavailable).retry_after(1),
            StoreError::Deleted => Self::new(Code::UnknownConversation),
            error => Self::internal(&error),
        }
    }
}

impl From<NoPerson> for Problem {
    fn from(why: NoPerson) -> Self {
        Self::new(match why {
            NoPerson::Unknown => Code::UnknownPerson,
            NoPerson::Inactive => Code::PersonInactive,
        })
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let body = self.body(None).to_string();
        let mut response = (self.code.status(), body).into_response();
        let headers = response.headers_mut();
        headers.insert(
            header::CONTENT_TYPE,
            HeaderValue::from_static("application/problem+json"),
        );
        if self.code.status().as_u16() == 401 {
            headers.insert(
                header::WWW_AUTHENTICATE,
                HeaderValue::from_static("Bearer error=\"invalid_token\""),
            );
        }
        if let Some(seconds) = self.retry_after_s {
            headers.insert(header::RETRY_AFTER, HeaderValue::from(seconds));
        }
        // For the layer that knows the request's id.
        response.extensions_mut().insert(self);
        response
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_of_the_store_is_not_told_to_the_client() {
        let problem = Problem::from(StoreError::Unreadable("row T#lakeside secret".to_owned()));
        let body = problem.body(Some("req-1")).to_string();
        assert!(!body.contains("lakeside"), "{body}");
        assert!(body.contains("req-1"), "{body}");
        assert_eq!(problem.code(), Code::Internal);
    }

    #[test]
    fn a_busy_store_says_when_to_come_back() {
        let response = Problem::from(StoreError::Busy).into_response();
        assert_eq!(response.status().as_u16(), 503);
        assert_eq!(response.headers()["retry-after"], "1");
        assert_eq!(
            response.headers()["content-type"],
            "application/problem+json"
        );
    }

    #[test]
    fn a_problem_has_the_members_of_rfc_9457_and_its_own() {
        let problem = Problem::new(Code::AlreadyDecided).with("decided", json!({"at": "now"}));
        assert_eq!(
            problem.body(None),
            json!({
                "type": "about:blank",
                "title": "Already decided",
                "status": 409,
                "detail": "This was already answered.",
                "code": "already_decided",
                "decided": {"at": "now"},
            })
        );
    }
}
