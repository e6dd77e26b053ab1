//! What a function answers: a whole proxy response, or a prelude and then bytes.

use axum::{
    body::Bytes,
    http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header},
};
use base64::{Engine, prelude::BASE64_STANDARD};
use serde::Deserialize;
use serde_json::{Map, Value};

const LARGEST_PRELUDE: usize = 64 * 1024;
const DELIMITER: [u8; 8] = [0; 8];

/// How `lambda_runtime` reports an error in the middle of a stream: as text after the body.
const ERROR_TRAILER: &[u8] = b"Lambda-Runtime-Function-Error-Type: ";

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Head {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
}

/// A proxy response or the prelude of a streamed one.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Wire {
    status_code: u16,
    #[serde(default)]
    headers: Option<Map<String, Value>>,
    #[serde(default)]
    multi_value_headers: Option<Map<String, Value>>,
    #[serde(default)]
    cookies: Vec<String>,
    #[serde(default)]
    body: Option<String>,
    #[serde(default)]
    is_base64_encoded: bool,
}

/// Reads a buffered answer.
pub(super) fn whole(bytes: &[u8]) -> Result<(Head, Bytes), String> {
    let wire: Wire = serde_json::from_slice(bytes)
        .map_err(|error| format!("the function's answer is not a proxy response: {error}"))?;
    let body = match (&wire.body, wire.is_base64_encoded) {
        (None, _) => Bytes::new(),
        (Some(text), false) => Bytes::from(text.clone()),
        (Some(text), true) => BASE64_STANDARD
            .decode(text)
            .map(Bytes::from)
            .map_err(|_| "the function's body is not base64".to_owned())?,
    };
    Ok((wire.head()?, body))
}

impl Wire {
    fn head(&self) -> Result<Head, String> {
        let status = StatusCode::from_u16(self.status_code)
            .map_err(|_| format!("{} is not a status", self.status_code))?;
        let mut headers = HeaderMap::new();
        for (name, value) in self.multi_value_headers.iter().flatten() {
            add(&mut headers, name, value)?;
        }
        let single = self.headers.iter().flatten();
        let unsaid: Vec<_> = single
            .filter(|(name, _)| !headers.contains_key(name.as_str()))
            .collect();
        for (name, value) in unsaid {
            add(&mut headers, name, value)?;
        }
        for cookie in &self.cookies {
            add(
                &mut headers,
                header::SET_COOKIE.as_str(),
                &Value::String(cookie.clone()),
            )?;
        }
        for hop in [
            "connection",
            "transfer-encoding",
            "content-length",
            "keep-alive",
        ] {
            headers.remove(hop);
        }
        Ok(Head { status, headers })
    }
}

fn add(headers: &mut HeaderMap, name: &str, value: &Value) -> Result<(), String> {
    let bad = || format!("the function's header {name} is not valid");
    if let Value::Array(values) = value {
        return values
            .iter()
            .try_for_each(|value| add(headers, name, value));
    }
    let text = value
        .as_str()
        .map_or_else(|| value.to_string(), str::to_owned);
    let parsed = HeaderName::from_bytes(name.as_bytes()).map_err(|_| bad())?;
    headers.append(parsed, HeaderValue::from_str(&text).map_err(|_| bad())?);
    Ok(())
}

/// One thing found in a streamed answer.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Piece {
    Head(Head),
    Bytes(Bytes),
    /// The function gave up in the middle.
    Broken(String),
}

/// Takes a streamed answer apart, chunk by chunk.
#[derive(Debug)]
pub(super) struct Splitter {
    /// The bytes before the delimiter; `None` once it was found.
    prelude: Option<Vec<u8>>,
}

impl Splitter {
    pub(super) fn new() -> Self {
        Self {
            prelude: Some(Vec::new()),
        }
    }

    pub(super) fn push(&mut self, chunk: Bytes) -> Result<Vec<Piece>, String> {
        let Some(prelude) = &mut self.prelude else {
            return Ok(body(chunk).into_iter().collect());
        };
        prelude.extend_from_slice(&chunk);
        let Some(end) = prelude
            .windows(DELIMITER.len())
            .position(|window| window == DELIMITER)
        else {
            if prelude.len() > LARGEST_PRELUDE {
                return Err("the prelude of the stream does not end".to_owned());
            }
            return Ok(Vec::new());
        };
        let wire: Wire = serde_json::from_slice(&prelude[..end])
            .map_err(|error| format!("the prelude of the stream is not valid: {error}"))?;
        let rest = Bytes::copy_from_slice(&prelude[end + DELIMITER.len()..]);
        self.prelude = None;
        let mut pieces = vec![Piece::Head(wire.head()?)];
        pieces.extend(body(rest));
        Ok(pieces)
    }

    pub(super) fn has_head(&self) -> bool {
        self.prelude.is_none()
    }
}

fn body(chunk: Bytes) -> Option<Piece> {
    if chunk.is_empty() {
        return None;
    }
    if chunk.starts_with(ERROR_TRAILER) {
        return Some(Piece::Broken(
            String::from_utf8_lossy(&chunk)
                .trim_end()
                .replace("\r\n", "; "),
        ));
    }
    Some(Piece::Bytes(chunk))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head(pairs: &[(&'static str, &'static str)], status: u16) -> Head {
        let mut headers = HeaderMap::new();
        for (name, value) in pairs {
            headers.append(*name, HeaderValue::from_static(value));
        }
        Head {
            status: StatusCode::from_u16(status).unwrap(),
            headers,
        }
    }

    #[test]
    fn the_prelude_is_found_wherever_the_chunks_are_cut() {
        let prelude = r#"{"statusCode":201,"headers":{"a":"1","b":["2","3"]},"cookies":["c=d"]}"#;
        let mut bytes = prelude.as_bytes().to_vec();
        bytes.extend_from_slice(&DELIMITER);
        bytes.extend_from_slice(b"hello");
        let expected = head(
            &[("a", "1"), ("b", "2"), ("b", "3"), ("set-cookie", "c=d")],
            201,
        );
        for size in 1..bytes.len() {
            let mut splitter = Splitter::new();
            let mut pieces = Vec::new();
            for chunk in bytes.chunks(size) {
                pieces.extend(splitter.push(Bytes::copy_from_slice(chunk)).unwrap());
            }
            assert_eq!(pieces[0], Piece::Head(expected.clone()), "{size}");
            let body: Vec<u8> = pieces[1..]
                .iter()
                .flat_map(|piece| match piece {
                    Piece::Bytes(bytes) => bytes.to_vec(),
                    other => panic!("{other:?}"),
                })
                .collect();
            assert_eq!(body, b"hello");
        }
    }

    #[test]
    fn an_error_after_the_body_breaks_the_stream() {
        let mut splitter = Splitter::new();
        let mut start = br#"{"statusCode":200}"#.to_vec();
        start.extend_from_slice(&DELIMITER);
        assert_eq!(
            splitter.push(start.into()).unwrap(),
            [Piece::Head(head(&[], 200))]
        );
        let trailer = "Lambda-Runtime-Function-Error-Type: Runtime.StreamError\r\n";
        let pieces = splitter
            .push(Bytes::from_static(trailer.as_bytes()))
            .unwrap();
        let told = "Lambda-Runtime-Function-Error-Type: Runtime.StreamError".to_owned();
        assert_eq!(pieces, [Piece::Broken(told)]);
    }

    #[test]
    fn a_buffered_answer_is_decoded_and_its_headers_are_merged() {
        let answer = r#"{"statusCode":404,"headers":{"A":"1","b":"2"},"multiValueHeaders":{"a":["1","3"]},
            "body":"/wA=","isBase64Encoded":true}"#;
        let (found, body) = whole(answer.as_bytes()).unwrap();
        assert_eq!(found, head(&[("a", "1"), ("a", "3"), ("b", "2")], 404));
        assert_eq!(body.as_ref(), [0xff, 0x00]);
        assert!(whole(b"[]").is_err());
    }
}
