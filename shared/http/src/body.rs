//! Request bodies: JSON of bounded size, every misfit a problem with a sentence.

use axum::extract::{FromRequest, Request};
use axum::http::{HeaderMap, header};
use serde::de::{DeserializeOwned, IgnoredAny};

use crate::misfit::sentence;
use crate::{Code, Problem};

/// A JSON body of at most `MAX` bytes.
#[derive(Clone, Copy, Debug)]
pub struct Body<T, const MAX: usize = { 64 * 1024 }>(pub T);

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
    // A list would be read as the fields of an object in their order.
    if bytes.iter().find(|byte| !byte.is_ascii_whitespace()) != Some(&b'{') {
        serde_json::from_slice::<IgnoredAny>(bytes).map_err(|error| misfit("", &error))?;
        return Err(Problem::invalid("The request body must be an object."));
    }
    let mut json = serde_json::Deserializer::from_slice(bytes);
    let read = serde_path_to_error::deserialize(&mut json).map_err(|error| {
        let path = error.path().to_string();
        misfit(&path, &error.into_inner())
    })?;
    json.end().map_err(|error| misfit("", &error))?;
    Ok(read)
}

fn misfit(path: &str, error: &serde_json::Error) -> Problem {
    if error.is_data() {
        return Problem::invalid(sentence("The request body", path, &error.to_string()));
    }
    let (line, column) = (error.line(), error.column());
    let detail = format!(
        "The request body is not well-formed JSON; it breaks at line {line}, column {column}."
    );
    Problem::saying(Code::MalformedJson, detail)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, serde::Deserialize)]
    #[serde(deny_unknown_fields)]
    #[expect(dead_code, reason = "only parsed")]
    struct Sample {
        wanted: u8,
        #[serde(default)]
        words: Vec<String>,
        inner: Option<Inner>,
    }

    #[derive(Debug, serde::Deserialize)]
    #[expect(dead_code, reason = "only parsed")]
    struct Inner {
        sure: bool,
    }

    #[test]
    fn broken_json_is_told_apart_from_a_wrong_value() {
        let broken = read::<Sample>(b"{\"wanted\": 1").unwrap_err();
        assert_eq!(broken.code(), Code::MalformedJson);
        assert!(broken.detail().contains("line 1"), "{}", broken.detail());
        let unknown = read::<Sample>(b"{\"wanted\": 1, \"more\": 2}").unwrap_err();
        assert_eq!(unknown.code(), Code::InvalidArguments);
        let rest = read::<Sample>(b"{\"wanted\": 1} more").unwrap_err();
        assert_eq!(rest.code(), Code::MalformedJson);
    }

    #[test]
    fn what_does_not_fit_is_said_in_words_that_help() {
        let rows: [(&[u8], &str); 7] = [
            (b"{}", "`wanted` is missing."),
            (
                b"{\"wanted\": 1, \"more\": 2}",
                "`more` is not known here: use `wanted`, `words`, `inner`.",
            ),
            (
                b"{\"wanted\": 1, \"wanted\": 2}",
                "`wanted` is given twice.",
            ),
            (b"{\"wanted\": \"1\"}", "`wanted` must be a number."),
            (
                b"{\"wanted\": 1, \"words\": [true]}",
                "`words[0]` must be text.",
            ),
            (b"[1, [], null]", "The request body must be an object."),
            (b" 7", "The request body must be an object."),
        ];
        for (body, sentence) in rows {
            let problem = read::<Sample>(body).unwrap_err();
            assert_eq!(problem.code(), Code::InvalidArguments);
            assert_eq!(problem.detail(), sentence);
        }
        let inner = read::<Sample>(b"{\"wanted\": 1, \"inner\": {\"sure\": 1}}").unwrap_err();
        assert_eq!(inner.detail(), "`inner.sure` must be true or false.");
        let inner = read::<Sample>(b"{\"wanted\": 1, \"inner\": {}}").unwrap_err();
        assert_eq!(inner.detail(), "`inner.sure` is missing.");
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
