//! Request bodies: JSON of bounded size, every misfit a problem with a sentence.

use axum::extract::{FromRequest, Request};
use axum::http::{HeaderMap, header};
use serde::de::DeserializeOwned;

use crate::{Code, Problem};

/// A JSON body of at most `MAX` bytes.
#[derive(Clone, Copy, Debug)]
pub struct Body<T, const MAX: usize = { 64 * 1024 }>(pub T);

/// How much of a parser's message is worth repeating.
const MESSAGE_CHARS: usize = 200;

impl<T, S, const MAX: usize> FromRequest<S> for Body<T, MAX>
where
    T: DeserializeOwned,
    S: Send + Sync,
{
    type Rejection = Problem;

    async fn from_request(request: Request, _: &S) -> Result<Self, Problem> {
        if !is_json(request.headers()) {
            return Err(Problem::new(Code::UnsupportedMediaType));
        }
        let too_large = |_| {
            let detail = format!("The request body is larger than {} KiB.", MAX / 1024);
            Problem::saying(Code::TooLarge, detail)
        };
        let bytes = axum::body::to_bytes(request.into_body(), MAX)
            .await
            .map_err(too_large)?;
        read(&bytes).map(Self)
    }
}

fn is_json(headers: &HeaderMap) -> bool {
    let Some(text) = headers
        .get(header::CONTENT_TYPE)
        .and_then(|value| value.to_str().ok())
    else {
        return false;
    };
    let essence = text.split(';').next().unwrap_or_default().trim();
    essence.eq_ignore_ascii_case("application/json")
        || (essence.starts_with("application/") && essence.ends_with("+json"))
}

fn read<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, Problem> {
    serde_json::from_slice(bytes).map_err(|error| {
        let (line, column) = (error.line(), error.column());
        if error.is_data() {
            let message: String = error.to_string().chars().take(MESSAGE_CHARS).collect();
            return Problem::invalid(format!("The request body does not fit: {message}."));
        }
        let detail = format!(
            "The request body is not well-formed JSON; it breaks at line {line}, column {column}."
        );
        Problem::saying(Code::MalformedJson, detail)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, serde::Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Sample {
        #[expect(dead_code, reason = "only parsed")]
        wanted: u8,
    }

    #[test]
    fn broken_json_is_told_apart_from_a_wrong_value() {
        let broken = read::<Sample>(b"{\"wanted\": 1").unwrap_err();
        assert_eq!(broken.code(), Code::MalformedJson);
        assert!(broken.detail().contains("line 1"), "{}", broken.detail());
        let unknown = read::<Sample>(b"{\"wanted\": 1, \"more\": 2}").unwrap_err();
        assert_eq!(unknown.code(), Code::InvalidArguments);
        assert!(unknown.detail().contains("more"), "{}", unknown.detail());
        assert_eq!(
            read::<Sample>(b"{}").unwrap_err().code(),
            Code::InvalidArguments
        );
    }

    #[test]
    fn only_json_is_taken_as_json() {
        let with = |value: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(header::CONTENT_TYPE, value.parse().unwrap());
            is_json(&headers)
        };
        assert!(with("application/json"));
        assert!(with("Application/JSON; charset=utf-8"));
        assert!(with("application/merge-patch+json"));
        assert!(!with("text/plain"));
        assert!(!is_json(&HeaderMap::new()));
    }
}
