//! What surrounds a function's routes: request ids, security headers, one log line, and problems
//! for what no route takes.

use std::time::Instant;

use axum::Router;
use axum::extract::Request;
use axum::http::{HeaderMap, HeaderName, HeaderValue, header};
use axum::middleware::{Next, from_fn};
use axum::response::{IntoResponse, Response};
use lambda_http::request::RequestContext;
use toshi_core::RequestId;
use tracing::Instrument;

use crate::{Code, Problem, start};

/// The API's stage, with which a path may or may not begin.
const STAGE: &str = "/v1";

/// The routes as a function serves them, with and without the stage before their paths.
///
/// A handler finds the request's [`RequestId`] in the request's extensions. `origin` is the web
/// console's, if that is another than the API's: its browser may read the answers (the preflight is
/// the API's own).
pub fn service(routes: Router, origin: Option<HeaderValue>) -> Router {
    let routes = routes
        .fallback(|| async { Problem::saying(Code::NotFound, "There is nothing at this address.") })
        .method_not_allowed_fallback(|| async { Problem::new(Code::MethodNotAllowed) });
    Router::new()
        .nest(STAGE, routes.clone())
        .merge(routes)
        .layer(from_fn(move |request, next| {
            let origin = origin.clone();
            async move { allow(surround(request, next).await, origin) }
        }))
}

fn allow(mut response: Response, origin: Option<HeaderValue>) -> Response {
    if let Some(origin) = origin {
        let headers = response.headers_mut();
        headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, origin);
        headers.insert(header::VARY, HeaderValue::from_static("origin"));
        headers.insert(
            header::ACCESS_CONTROL_EXPOSE_HEADERS,
            HeaderValue::from_static("retry-after,x-request-id"),
        );
    }
    response
}

async fn surround(mut request: Request, next: Next) -> Response {
    let began = Instant::now();
    let id = request_id(&request);
    request.extensions_mut().insert(id.clone());
    let method = request.method().clone();
    let path = request.uri().path().to_owned();
    let span = tracing::info_span!(
        "request",
        request_id = %id,
        tenant = tracing::field::Empty,
        user = tracing::field::Empty,
    );
    async move {
        let response = next.run(request).await;
        let response = finish(response, &id);
        let ms = u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX);
        tracing::info!(%method, path, status = response.status().as_u16(), ms, "answered");
        response
    }
    .instrument(span)
    .await
}

/// The API's own id for the request, or a new one.
fn request_id(request: &Request) -> RequestId {
    let given = match request.extensions().get::<RequestContext>() {
        Some(RequestContext::ApiGatewayV1(context)) => context.request_id.as_deref(),
        _ => None,
    };
    given
        .and_then(|text| text.parse().ok())
        .unwrap_or_else(start::new_request_id)
}

fn finish(response: Response, id: &RequestId) -> Response {
    let internal = response
        .extensions()
        .get::<Problem>()
        .filter(|problem| problem.code() == Code::Internal)
        .cloned();
    let mut response = match internal {
        Some(problem) => {
            let body = problem.body(Some(id.as_str())).to_string();
            let (parts, _) = response.into_parts();
            let mut headers: HeaderMap = parts.headers;
            headers.remove(header::CONTENT_LENGTH);
            (parts.status, headers, body).into_response()
        }
        None => response,
    };
    let headers = response.headers_mut();
    if let Ok(value) = HeaderValue::from_str(id.as_str()) {
        headers.insert(HeaderName::from_static("x-request-id"), value);
    }
    headers.insert(
        header::X_CONTENT_TYPE_OPTIONS,
        HeaderValue::from_static("nosniff"),
    );
    headers
        .entry(header::CACHE_CONTROL)
        .or_insert(HeaderValue::from_static("no-store"));
    response
}

#[cfg(test)]
#[path = "service_tests.rs"]
mod tests;
