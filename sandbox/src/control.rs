//! The control interface below `/_sandbox`.

use std::sync::Arc;

use axum::{
    Json, Router,
    extract::{DefaultBodyLimit, State, rejection::JsonRejection},
    http::StatusCode,
    response::{IntoResponse, Response},
    routing::{get, post},
};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::{
    App, front, oidc,
    page::{escape, html},
    problem::Problem,
    switches,
};

const SWEEPS: [&str; 3] = ["approvals", "turns", "tokens"];

pub(crate) fn routes() -> Router<Arc<App>> {
    Router::new()
        .route("/", get(documentation))
        .route("/mcp/calls", get(calls))
        .route("/llm/requests", get(requests))
        .route("/switches", get(show_switches).put(set_switches))
        .route("/tick", post(tick))
        .route("/reset", post(reset))
        .route("/token", post(oidc::mint))
        .layer(DefaultBodyLimit::max(64 * 1024))
}

async fn calls(State(app): State<Arc<App>>) -> Json<Value> {
    Json(app.saved.read(|data| data.workspaces.calls()))
}

async fn requests(State(app): State<Arc<App>>) -> Json<Value> {
    Json(app.heard.all())
}

async fn show_switches(State(app): State<Arc<App>>) -> Json<Value> {
    Json(app.switches.all())
}

async fn set_switches(
    State(app): State<Arc<App>>,
    wanted: Result<Json<Map<String, Value>>, JsonRejection>,
) -> Result<Json<Value>, Problem> {
    let Json(wanted) = wanted.map_err(|error| Problem::bad_request(error.body_text()))?;
    app.switches.merge(&wanted).map_err(Problem::bad_request)?;
    if wanted.contains_key("mcp.demo.drop_session") {
        app.demo.arm_drop(true);
    }
    Ok(Json(app.switches.all()))
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Tick {
    sweep: String,
}

/// Runs one sweep now, as the scheduler does every minute, and answers what it answered.
async fn tick(
    State(app): State<Arc<App>>,
    wanted: Result<Json<Tick>, JsonRejection>,
) -> Result<Response, Problem> {
    let Json(Tick { sweep }) = wanted.map_err(|error| Problem::bad_request(error.body_text()))?;
    if !SWEEPS.contains(&sweep.as_str()) {
        let known = SWEEPS.join(", ");
        return Err(Problem::bad_request(format!(
            "There is no sweep {sweep}. Known: {known}."
        )));
    }
    let stack = app.stack.current().map_err(Problem::starting)?;
    let function = stack
        .function("refresh")
        .ok_or_else(|| Problem::starting("The refresh function is not deployed."))?;
    let address = format!(
        "{}/2015-03-31/functions/{function}/invocations",
        stack.emulator
    );
    // The emulator reads the account and the region from the credential's scope alone.
    let scope = format!("test/20260101/{}/lambda/aws4_request", stack.region);
    let signature = format!("AWS4-HMAC-SHA256 Credential={scope}, SignedHeaders=host, Signature=0");
    let answer = app
        .http
        .post(address)
        .header("authorization", signature)
        .header("x-amz-invocation-type", "RequestResponse")
        .json(&json!({"sweep": sweep}))
        .send()
        .await
        .map_err(|error| front::unreachable(&error))?;
    let failed =
        !answer.status().is_success() || answer.headers().contains_key("x-amz-function-error");
    let body = answer
        .bytes()
        .await
        .map_err(|error| front::unreachable(&error))?;
    if failed {
        let told = String::from_utf8_lossy(&body)
            .chars()
            .take(1000)
            .collect::<String>();
        let detail = format!("The refresh function failed: {told}");
        return Err(Problem::new(
            StatusCode::BAD_GATEWAY,
            "function_failed",
            detail,
        ));
    }
    let answer: Value = serde_json::from_slice(&body).unwrap_or(Value::Null);
    Ok(Json(answer).into_response())
}

/// Puts the stand-ins back to their first day; sign-ins stay.
async fn reset(State(app): State<Arc<App>>) -> StatusCode {
    app.switches.clear();
    app.demo.arm_drop(false);
    app.demo.end_sessions();
    app.heard.clear();
    app.saved
        .change(|data| data.workspaces = Default::default());
    StatusCode::NO_CONTENT
}

async fn documentation() -> Response {
    let mut main = String::from(ROUTES);
    main.push_str("<h2>Switches</h2>\n<dl>\n");
    for (name, accepts, what) in switches::described() {
        main.push_str(&format!(
            "<dt><code>{name}</code></dt>\n<dd>{} Accepts {}.</dd>\n",
            escape(&sentence(what)),
            escape(&accepts)
        ));
    }
    main.push_str("</dl>\n");
    html(StatusCode::OK, "Sandbox", &main, "")
}

fn sentence(text: &str) -> String {
    let mut letters = text.chars();
    let first = letters
        .next()
        .map(|c| c.to_uppercase().to_string())
        .unwrap_or_default();
    format!("{first}{}.", letters.as_str())
}

const ROUTES: &str = r#"<p>Stand-ins for the outside world. Only programs of this machine and pages of this address may use them.</p>
<h2>Control</h2>
<dl>
<dt><code>GET /_sandbox/mcp/calls</code></dt>
<dd>The tool calls that took effect, oldest first: server, tenant, tool, arguments, at.</dd>
<dt><code>GET /_sandbox/switches</code></dt>
<dd>Every switch with its value; null is off.</dd>
<dt><code>PUT /_sandbox/switches</code> <code>{"&lt;name&gt;": value}</code></dt>
<dd>Changes the named switches; null or false turns one off. A switch of the MCP server may be narrowed to a tool: <code>{"value": true, "tool": "post_message"}</code>.</dd>
<dt><code>POST /_sandbox/tick</code> <code>{"sweep": "approvals" | "turns" | "tokens"}</code></dt>
<dd>Runs a sweep now and answers what it answered.</dd>
<dt><code>POST /_sandbox/reset</code></dt>
<dd>Calls, messages, switches, MCP sessions and remembered requests go back to the start.</dd>
<dt><code>GET /_sandbox/llm/requests</code></dt>
<dd>The last 50 requests to the scripted model, oldest first.</dd>
<dt><code>POST /_sandbox/token</code> <code>{"tenant": "lakeside", "as": "admin", "ttl"?, "audience"?}</code></dt>
<dd>An access token as text. A negative ttl makes an expired one.</dd>
</dl>
<h2>Stand-ins</h2>
<dl>
<dt><code>/_sandbox/oidc</code></dt>
<dd>OIDC issuer: <a href="/_sandbox/oidc/.well-known/openid-configuration">discovery</a>.</dd>
<dt><code>/_sandbox/mcp/demo/&lt;tenant&gt;</code></dt>
<dd>Demo workspace, an MCP server. Bearer token: <code>demo-&lt;tenant&gt;-token</code>.</dd>
<dt><code>/_sandbox/llm/v1</code></dt>
<dd>Scripted model, OpenAI-compatible. Any key.</dd>
</dl>
"#;
