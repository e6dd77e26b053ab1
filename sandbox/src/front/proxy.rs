//! The way of `/v1`: chat through the runtime host, everything else through the deployed API.

use std::sync::Arc;

use axum::{
    body::{Body, Bytes},
    extract::{ConnectInfo, Request, State},
    http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header, request::Parts},
    response::{IntoResponse, Response},
};

use crate::{
    App,
    problem::Problem,
    runtime_host::{Entry, forwarded_for, proxy_event, request_id},
    wire::Connection,
};

/// What API Gateway takes, and what Lambda takes of it.
const LARGEST_BODY: usize = 10 * 1024 * 1024;
const LARGEST_EVENT: usize = 6 * 1024 * 1024;

pub(super) async fn chat(
    State(app): State<Arc<App>>,
    ConnectInfo(connection): ConnectInfo<Connection>,
    request: Request,
) -> Response {
    invoke(&app, &connection, request)
        .await
        .unwrap_or_else(IntoResponse::into_response)
}

async fn invoke(app: &App, connection: &Connection, request: Request) -> Result<Response, Problem> {
    let stack = app.stack.current().map_err(Problem::starting)?;
    let (parts, body) = take(request, LARGEST_EVENT).await?;
    let request_id = request_id();
    let entry = Entry {
        api_id: &stack.api_id,
        stage: &stack.stage,
        peer: connection.peer.ip(),
        request_id: &request_id,
    };
    let event = proxy_event(&parts, &body, &entry).to_string();
    app.host
        .invoke(stack.chat(), request_id, event.into())
        .await
}

pub(super) async fn api(
    State(app): State<Arc<App>>,
    ConnectInfo(connection): ConnectInfo<Connection>,
    request: Request,
) -> Response {
    forward(&app, &connection, request)
        .await
        .unwrap_or_else(IntoResponse::into_response)
}

async fn forward(
    app: &App,
    connection: &Connection,
    request: Request,
) -> Result<Response, Problem> {
    let stack = app.stack.current().map_err(Problem::starting)?;
    let (parts, body) = take(request, LARGEST_BODY).await?;
    let path = parts.uri.path().strip_prefix("/v1").unwrap_or_default();
    if climbs(path) {
        return Err(Problem::bad_request(
            "The path must not contain dot segments.",
        ));
    }
    let query = parts
        .uri
        .query()
        .map(|query| format!("?{query}"))
        .unwrap_or_default();
    let address = format!(
        "{}/restapis/{}/{}/_user_request_{path}{query}",
        stack.emulator, stack.api_id, stack.stage
    );
    let mut headers = passed_on(&parts.headers);
    let hops = forwarded_for(&parts.headers, connection.peer.ip());
    if let Ok(hops) = HeaderValue::from_str(&hops) {
        headers.insert("x-forwarded-for", hops);
    }
    let answer = app
        .http
        .request(parts.method, address)
        .headers(headers)
        .body(body)
        .send()
        .await
        .map_err(|error| unreachable(&error))?;
    let mut response = Response::new(Body::empty());
    *response.status_mut() = answer.status();
    *response.headers_mut() = passed_on(answer.headers());
    if answer.status() == StatusCode::FORBIDDEN {
        let body = answer.bytes().await.map_err(|error| unreachable(&error))?;
        if body.windows(NO_ROUTE.len()).any(|part| part == NO_ROUTE) {
            return Err(Problem::not_found());
        }
        *response.body_mut() = Body::from(body);
        return Ok(response);
    }
    *response.body_mut() = Body::from_stream(answer.bytes_stream());
    Ok(response)
}

/// What API Gateway says of a path or method that it has no route for, with a 403. The template
/// words it as a 404 (its gateway responses), which the emulator does not apply.
const NO_ROUTE: &[u8] = b"Missing Authentication Token";

async fn take(request: Request, limit: usize) -> Result<(Parts, Bytes), Problem> {
    let (parts, body) = request.into_parts();
    if parts.headers.get_all(header::AUTHORIZATION).iter().count() > 1 {
        return Err(Problem::bad_request(
            "There must be one Authorization header.",
        ));
    }
    let body = axum::body::to_bytes(body, limit)
        .await
        .map_err(|_| Problem::too_large(limit))?;
    Ok((parts, body))
}

/// Whether a path would be resolved to somewhere else on its way.
fn climbs(path: &str) -> bool {
    path.split('/').any(|part| {
        let part = part.to_ascii_lowercase().replace("%2e", ".");
        matches!(part.as_str(), "." | "..") || part.contains('\\')
    })
}

/// All headers but those that belong to one connection.
fn passed_on(headers: &HeaderMap) -> HeaderMap {
    const OF_ONE_HOP: [&str; 9] = [
        "connection",
        "content-length",
        "host",
        "keep-alive",
        "proxy-connection",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
    ];
    let stays = |name: &HeaderName| OF_ONE_HOP.contains(&name.as_str());
    headers
        .iter()
        .filter(|(name, _)| !stays(name))
        .map(|(name, value)| (name.clone(), value.clone()))
        .collect()
}

/// The emulator did not answer.
pub(crate) fn unreachable(error: &reqwest::Error) -> Problem {
    let detail = if error.is_timeout() {
        "The API took too long to answer."
    } else {
        "The API cannot be reached. Is the emulator still running?"
    };
    Problem::new(StatusCode::BAD_GATEWAY, "upstream_unreachable", detail)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_cannot_climb_out_of_the_api() {
        for path in ["/../x", "/a/%2e%2E/b", "/./a", "/.%2e", "/a\\..\\b"] {
            assert!(climbs(path), "{path}");
        }
        for path in ["/me", "/approvals/01J.Z/decision", "/a..b", ""] {
            assert!(!climbs(path), "{path}");
        }
    }
}
