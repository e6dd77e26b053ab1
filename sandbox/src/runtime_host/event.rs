//! API Gateway REST proxy events, version 1.

use std::{collections::BTreeMap, net::IpAddr};

use axum::http::{HeaderMap, header, request::Parts};
use base64::{Engine, prelude::BASE64_STANDARD};
use serde_json::{Value, json};

use crate::clock;

/// Where a request came in, as the event tells it.
#[derive(Debug)]
pub(crate) struct Entry<'a> {
    pub(crate) api_id: &'a str,
    pub(crate) stage: &'a str,
    pub(crate) peer: IpAddr,
    pub(crate) request_id: &'a str,
}

/// The event for a request whose path starts with `/<stage>`.
pub(crate) fn proxy_event(parts: &Parts, body: &[u8], entry: &Entry<'_>) -> Value {
    let full = parts.uri.path();
    let path = full
        .strip_prefix('/')
        .and_then(|rest| rest.strip_prefix(entry.stage))
        .unwrap_or(full);
    let headers = grouped(header_pairs(&parts.headers, entry.peer));
    let query = grouped(query_pairs(parts.uri.query().unwrap_or_default()));
    let text = |name| {
        parts
            .headers
            .get(name)
            .and_then(|value| value.to_str().ok())
    };
    let (body, is_base64) = match std::str::from_utf8(body) {
        Ok("") => (Value::Null, false),
        Ok(text) => (json!(text), false),
        Err(_) => (json!(BASE64_STANDARD.encode(body)), true),
    };
    json!({
        "resource": "/{proxy+}",
        "path": path,
        "httpMethod": parts.method.as_str(),
        "headers": last_of(&headers),
        "multiValueHeaders": headers,
        "queryStringParameters": last_of(&query),
        "multiValueQueryStringParameters": query,
        "pathParameters": {"proxy": path.trim_start_matches('/')},
        "stageVariables": null,
        "requestContext": {
            "accountId": "000000000000",
            "apiId": entry.api_id,
            "domainName": text(header::HOST),
            "extendedRequestId": entry.request_id,
            "httpMethod": parts.method.as_str(),
            "identity": {
                "sourceIp": entry.peer.to_string(),
                "userAgent": text(header::USER_AGENT),
            },
            "path": full,
            "protocol": "HTTP/1.1",
            "requestId": entry.request_id,
            "requestTimeEpoch": clock::now_ms(),
            "resourceId": "proxy",
            "resourcePath": "/{proxy+}",
            "stage": entry.stage,
        },
        "body": body,
        "isBase64Encoded": is_base64,
    })
}

/// The headers of a request, with the peer added to those it was forwarded for.
fn header_pairs(headers: &HeaderMap, peer: IpAddr) -> Vec<(String, String)> {
    let mut pairs: Vec<_> = headers
        .iter()
        .filter(|(name, _)| !matches!(name.as_str(), "connection" | "x-forwarded-for"))
        .map(|(name, value)| {
            (
                name.as_str().to_owned(),
                String::from_utf8_lossy(value.as_bytes()).into_owned(),
            )
        })
        .collect();
    pairs.push(("x-forwarded-for".to_owned(), forwarded_for(headers, peer)));
    pairs
}

/// The value of `x-forwarded-for` with this hop's peer at its end.
pub(crate) fn forwarded_for(headers: &HeaderMap, peer: IpAddr) -> String {
    let before = headers
        .get_all("x-forwarded-for")
        .iter()
        .filter_map(|value| value.to_str().ok());
    let mut hops: Vec<_> = before.map(str::to_owned).collect();
    hops.push(peer.to_string());
    hops.join(", ")
}

/// API Gateway hands query parameters over decoded.
fn query_pairs(query: &str) -> Vec<(String, String)> {
    let Ok(mut url) = reqwest::Url::parse("http://sandbox/") else {
        return Vec::new();
    };
    url.set_query(Some(query));
    url.query_pairs()
        .filter(|(name, _)| !name.is_empty())
        .map(|(name, value)| (name.into_owned(), value.into_owned()))
        .collect()
}

fn grouped(pairs: Vec<(String, String)>) -> Option<BTreeMap<String, Vec<String>>> {
    let mut groups: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (name, value) in pairs {
        groups.entry(name).or_default().push(value);
    }
    (!groups.is_empty()).then_some(groups)
}

fn last_of(groups: &Option<BTreeMap<String, Vec<String>>>) -> Value {
    json!(groups.as_ref().map(|groups| {
        let last = groups.iter().map(|(name, values)| (name, values.last()));
        last.collect::<BTreeMap<_, _>>()
    }))
}

#[cfg(test)]
mod tests {
    use axum::http::Request;

    use super::*;

    fn event(request: Request<()>, body: &[u8]) -> Value {
        let entry = Entry {
            api_id: "api",
            stage: "v1",
            peer: IpAddr::from([127, 0, 0, 1]),
            request_id: "r",
        };
        proxy_event(&request.into_parts().0, body, &entry)
    }

    #[test]
    fn an_event_has_the_path_below_the_stage_and_every_value_of_a_name() {
        let request = Request::post("/v1/chat/a%20b/stream?x=1&x=%C3%A4&y=")
            .header("host", "127.0.0.1:8080")
            .header("authorization", "Bearer t")
            .header("x-forwarded-for", "10.0.0.1")
            .header("x-two", "a")
            .header("x-two", "b");
        let event = event(request.body(()).unwrap(), b"{}");
        assert_eq!(event["path"], "/chat/a%20b/stream");
        assert_eq!(event["requestContext"]["path"], "/v1/chat/a%20b/stream");
        assert_eq!(event["requestContext"]["stage"], "v1");
        assert_eq!(event["queryStringParameters"], json!({"x": "ä", "y": ""}));
        assert_eq!(
            event["multiValueQueryStringParameters"],
            json!({"x": ["1", "ä"], "y": [""]})
        );
        assert_eq!(event["multiValueHeaders"]["x-two"], json!(["a", "b"]));
        assert_eq!(event["headers"]["x-two"], "b");
        assert_eq!(event["headers"]["authorization"], "Bearer t");
        assert_eq!(event["headers"]["x-forwarded-for"], "10.0.0.1, 127.0.0.1");
        assert_eq!(
            (&event["body"], &event["isBase64Encoded"]),
            (&json!("{}"), &json!(false))
        );
    }

    #[test]
    fn a_binary_body_travels_as_base64_and_an_empty_one_as_null() {
        let request = || Request::post("/v1/chat").body(()).unwrap();
        let binary = event(request(), &[0xff, 0x00]);
        assert_eq!(
            (&binary["body"], &binary["isBase64Encoded"]),
            (&json!("/wA="), &json!(true))
        );
        let empty = event(request(), b"");
        assert_eq!(
            (&empty["body"], &empty["queryStringParameters"]),
            (&Value::Null, &Value::Null)
        );
    }
}
