use reqwest::header::HeaderMap;
use serde_json::Value;

/// A whole response.
#[derive(Clone, Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: HeaderMap,
    pub(crate) text: String,
    /// Null if the text is not JSON.
    pub(crate) body: Value,
}

impl Answer {
    pub(crate) async fn of(response: reqwest::Response) -> Self {
        let status = response.status().as_u16();
        let headers = response.headers().clone();
        let text = response.text().await.expect("the whole body");
        let body = serde_json::from_str(&text).unwrap_or_default();
        Self {
            status,
            headers,
            text,
            body,
        }
    }

    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers
            .get(name)
            .map_or("", |value| value.to_str().expect("a text"))
    }

    #[track_caller]
    pub(crate) fn ok(self) -> Value {
        assert_eq!(self.status, 200, "{}", self.text);
        self.body
    }

    /// The body of a problem, which must have this status and code and a sentence.
    #[track_caller]
    pub(crate) fn problem(self, status: u16, code: &str) -> Value {
        assert_eq!(self.status, status, "expected {code}: {}", self.text);
        assert_eq!(
            self.header("content-type"),
            "application/problem+json",
            "{}",
            self.text
        );
        assert_eq!(self.body["code"], code, "{}", self.text);
        assert_eq!(self.body["status"], status, "{}", self.text);
        assert_eq!(self.body["type"], "about:blank", "{}", self.text);
        let words = |name: &str| self.body[name].as_str().unwrap_or_default();
        assert!(!words("title").is_empty(), "{}", self.text);
        let detail = words("detail");
        assert!(
            detail.ends_with(['.', '!', '?']) && detail.contains(' '),
            "no sentence: {detail:?}"
        );
        self.body
    }
}
