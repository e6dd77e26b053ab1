//! The one address that people and tests use: the page, the API and the stand-ins.

mod files;
mod proxy;

use std::sync::Arc;

use axum::{
    Json, Router,
    extract::{Request, State},
    http::{HeaderValue, StatusCode, header},
    middleware::{self, Next},
    response::{IntoResponse, Response},
    routing::{any, get},
};
use serde_json::json;

pub(crate) use proxy::unreachable;

use crate::{App, control, guard, llm, mcp, oidc, page, problem::Problem};

pub(crate) fn router(app: Arc<App>) -> Router {
    let sandbox = Router::new()
        .merge(control::routes())
        .nest("/oidc", oidc::routes())
        .nest("/mcp", mcp::routes())
        .nest("/llm", llm::routes())
        .route("/style.css", get(style))
        .fallback(nothing)
        .layer(middleware::from_fn_with_state(
            Arc::clone(&app),
            own_callers_only,
        ));
    Router::new()
        .nest("/_sandbox", sandbox)
        .route("/v1/chat", any(proxy::chat))
        .route("/v1/chat/{*rest}", any(proxy::chat))
        .route("/v1", any(proxy::api))
        .route("/v1/", any(proxy::api))
        .route("/v1/{*rest}", any(proxy::api))
        .route("/config.json", get(config))
        .fallback(files::serve)
        .with_state(app)
}

async fn own_callers_only(State(app): State<Arc<App>>, request: Request, next: Next) -> Response {
    match guard::check(request.headers(), app.port) {
        Ok(()) => next.run(request).await,
        Err(problem) => problem.into_response(),
    }
}

async fn nothing() -> Problem {
    let detail = "There is nothing here. GET /_sandbox lists what there is.";
    Problem::new(StatusCode::NOT_FOUND, "not_found", detail)
}

async fn style() -> Response {
    (
        [(header::CONTENT_TYPE, "text/css; charset=utf-8")],
        page::STYLE,
    )
        .into_response()
}

/// What the page needs to know before anybody has signed in.
async fn config(State(app): State<Arc<App>>) -> Response {
    let model = app
        .stack
        .current()
        .map_or_else(|_| llm::NAME.to_owned(), |stack| stack.model.clone());
    let body = Json(json!({
        "issuer": app.issuer.url(),
        "client_id": oidc::CLIENT,
        "audience": oidc::AUDIENCE,
        "scope": oidc::SCOPE,
        "model": model,
        "sandbox": true,
    }));
    let mut response = body.into_response();
    response
        .headers_mut()
        .insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}
