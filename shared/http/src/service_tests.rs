use axum::body::Body;
use axum::http::StatusCode;
use axum::routing::get;
use http_body_util::BodyExt;
use serde_json::Value;
use tower::ServiceExt;

use super::*;

async fn answer(method: &str, path: &str) -> (StatusCode, HeaderMap, Value) {
    answer_to(method, path, None).await
}

async fn answer_to(
    method: &str,
    path: &str,
    origin: Option<HeaderValue>,
) -> (StatusCode, HeaderMap, Value) {
    let routes = Router::new()
        .route("/thing", get(|| async { "here" }))
        .route(
            "/broken",
            get(|| async { Problem::internal(&"a disk full of secrets") }),
        );
    let request = Request::builder()
        .method(method)
        .uri(path)
        .body(Body::empty())
        .unwrap();
    let response = service(routes, origin).oneshot(request).await.unwrap();
    let (parts, body) = response.into_parts();
    let bytes = body.collect().await.unwrap().to_bytes();
    let body = serde_json::from_slice(&bytes).unwrap_or(Value::Null);
    (parts.status, parts.headers, body)
}

#[tokio::test]
async fn a_route_answers_with_and_without_the_stage() {
    for path in ["/thing", "/v1/thing"] {
        assert_eq!(answer("GET", path).await.0, StatusCode::OK, "{path}");
    }
}

#[tokio::test]
async fn every_answer_has_a_request_id_and_is_not_stored() {
    for path in ["/thing", "/nowhere"] {
        let (_, headers, _) = answer("GET", path).await;
        assert!(!headers["x-request-id"].is_empty(), "{path}");
        assert_eq!(headers["cache-control"], "no-store", "{path}");
        assert_eq!(headers["x-content-type-options"], "nosniff", "{path}");
    }
}

#[tokio::test]
async fn what_no_route_takes_is_a_problem() {
    for path in ["/nowhere", "/v1/nowhere", "/v1"] {
        let (status, headers, body) = answer("GET", path).await;
        assert_eq!(status, StatusCode::NOT_FOUND, "{path}");
        assert_eq!(
            headers["content-type"], "application/problem+json",
            "{path}"
        );
        assert_eq!(body["code"], "not_found", "{path}");
    }
    for path in ["/thing", "/v1/thing"] {
        let (status, _, body) = answer("DELETE", path).await;
        assert_eq!(status, StatusCode::METHOD_NOT_ALLOWED, "{path}");
        assert_eq!(body["code"], "method_not_allowed", "{path}");
    }
}

#[tokio::test]
async fn a_failure_tells_its_number_and_nothing_of_its_cause() {
    let (status, headers, body) = answer("GET", "/broken").await;
    assert_eq!(status, StatusCode::INTERNAL_SERVER_ERROR);
    let id = headers["x-request-id"].to_str().unwrap();
    let detail = body["detail"].as_str().unwrap();
    assert!(detail.contains(id), "{detail}");
    assert!(!body.to_string().contains("disk"), "{body}");
    assert_eq!(headers["content-type"], "application/problem+json");
}

#[tokio::test]
async fn the_apis_own_request_id_is_kept() {
    let mut context =
        lambda_http::aws_lambda_events::apigw::ApiGatewayProxyRequestContext::default();
    context.request_id = Some("c6af9ac6-7b61-11e6-9a41-93e8deadbeef".to_owned());
    let mut request = Request::new(Body::empty());
    request
        .extensions_mut()
        .insert(RequestContext::ApiGatewayV1(context));
    assert_eq!(
        request_id(&request).as_str(),
        "c6af9ac6-7b61-11e6-9a41-93e8deadbeef"
    );
}

#[tokio::test]
async fn only_the_configured_console_may_read_answers_from_another_origin() {
    let console = HeaderValue::from_static("https://console.example");
    for path in ["/thing", "/nowhere", "/broken"] {
        let (_, headers, _) = answer_to("GET", path, Some(console.clone())).await;
        assert_eq!(headers["access-control-allow-origin"], console, "{path}");
        let (_, headers, _) = answer("GET", path).await;
        assert!(
            !headers.contains_key("access-control-allow-origin"),
            "{path}"
        );
    }
}
