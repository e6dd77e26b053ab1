//! The front: the page's files, its configuration, and the way to the deployed API.

use std::sync::{Arc, Mutex, PoisonError};

use anyhow::Context;
use axum::{
    Json, Router,
    body::Bytes,
    extract::State,
    http::{HeaderMap, Method, StatusCode, Uri},
    response::IntoResponse,
};
use serde_json::{Value, json};
use tokio::net::TcpListener;

use crate::harness::{Here, problem};

type Seen = Arc<Mutex<Vec<Value>>>;

/// An emulator that remembers what it was asked; its refresh function fails for `turns`.
async fn emulator() -> anyhow::Result<(String, Seen)> {
    async fn answer(
        State(seen): State<Seen>,
        method: Method,
        uri: Uri,
        headers: HeaderMap,
        body: Bytes,
    ) -> axum::response::Response {
        let body = String::from_utf8_lossy(&body).into_owned();
        let header = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
        let asked = json!({
            "method": method.as_str(), "target": uri.to_string(), "body": body,
            "authorization": header("authorization"), "forwarded": header("x-forwarded-for"),
        });
        seen.lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(asked);
        if uri.path().ends_with("/invocations") {
            let failed = body.contains("turns");
            let headers = failed.then_some([("x-amz-function-error", "Unhandled")]);
            return (
                headers.unwrap_or([("x-test", "1")]),
                Json(json!({"due": 2})),
            )
                .into_response();
        }
        (StatusCode::CONFLICT, [("x-api", "yes")], "from the api").into_response()
    }
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let url = format!("http://{}", listener.local_addr()?);
    let seen = Seen::default();
    let service = Router::new().fallback(answer).with_state(Arc::clone(&seen));
    tokio::spawn(axum::serve(listener, service).into_future());
    Ok((url, seen))
}

fn stack(emulator: &str) -> Value {
    json!({
        "emulator": emulator, "region": "eu-west-1", "api_id": "abc", "stage": "v1",
        "chat": {"bootstrap": "/nonexistent/bootstrap", "environment": {}},
        "functions": {"refresh": "toshi-refresh"}, "model": "some-model",
    })
}

#[tokio::test]
async fn until_the_deploy_is_done_the_api_says_that_it_is_starting() -> anyhow::Result<()> {
    let here = Here::start().await?;
    let starting = (503, "starting".to_owned());
    for path in ["/v1", "/v1/health", "/v1/chat", "/v1/chat/abc/stream"] {
        assert_eq!(problem(here.get(path).await?).await?, starting, "{path}");
    }
    let tick = here
        .post("/_sandbox/tick", json!({"sweep": "turns"}))
        .await?;
    assert_eq!(problem(tick).await?, starting);
    Ok(())
}

#[tokio::test]
async fn a_request_reaches_the_deployed_api_as_it_was_sent() -> anyhow::Result<()> {
    let here = Here::start().await?;
    let (emulator, seen) = emulator().await?;
    here.deploy(&stack(&emulator))?;
    let response = here
        .http
        .post(here.at("/v1/approvals/01J/decision?x=1&y=%C3%A4"))
        .bearer_auth("secret")
        .body("{\"decision\":\"approve\"}")
        .send()
        .await?;
    assert_eq!(response.status(), 409);
    assert_eq!(response.headers()["x-api"], "yes");
    assert_eq!(response.text().await?, "from the api");
    let seen = seen.lock().unwrap().clone();
    assert_eq!(seen.len(), 1);
    let expected = json!({
        "method": "POST",
        "target": "/restapis/abc/v1/_user_request_/approvals/01J/decision?x=1&y=%C3%A4",
        "body": "{\"decision\":\"approve\"}",
        "authorization": "Bearer secret",
        "forwarded": "127.0.0.1",
    });
    assert_eq!(seen[0], expected);
    Ok(())
}

#[tokio::test]
async fn two_authorization_headers_are_refused_and_neither_wins() -> anyhow::Result<()> {
    let here = Here::start().await?;
    let (emulator, seen) = emulator().await?;
    here.deploy(&stack(&emulator))?;
    for path in ["/v1/chat", "/v1/me"] {
        let request = here.http.post(here.at(path)).bearer_auth("one");
        let response = request.header("authorization", "Bearer two").send().await?;
        assert_eq!(problem(response).await?, (400, "bad_request".to_owned()));
    }
    assert_eq!(seen.lock().unwrap().len(), 0);
    Ok(())
}

#[tokio::test]
async fn a_body_that_is_too_large_is_refused_before_it_is_passed_on() -> anyhow::Result<()> {
    let here = Here::start().await?;
    let (emulator, seen) = emulator().await?;
    here.deploy(&stack(&emulator))?;
    for (path, size) in [
        ("/v1/chat", 6 * 1024 * 1024 + 1),
        ("/v1/x", 10 * 1024 * 1024 + 1),
    ] {
        let response = here
            .http
            .post(here.at(path))
            .body(vec![b'x'; size])
            .send()
            .await?;
        assert_eq!(problem(response).await?, (413, "too_large".to_owned()));
    }
    assert_eq!(seen.lock().unwrap().len(), 0);
    Ok(())
}

#[tokio::test]
async fn an_emulator_that_is_gone_is_told_as_such() -> anyhow::Result<()> {
    let here = Here::start().await?;
    let gone = TcpListener::bind("127.0.0.1:0").await?.local_addr()?;
    here.deploy(&stack(&format!("http://{gone}")))?;
    let told = problem(here.get("/v1/me").await?).await?;
    assert_eq!(told, (502, "upstream_unreachable".to_owned()));
    Ok(())
}

#[tokio::test]
async fn a_tick_invokes_the_deployed_refresh_function() -> anyhow::Result<()> {
    let here = Here::start().await?;
    let (emulator, seen) = emulator().await?;
    here.deploy(&stack(&emulator))?;
    let tick = |sweep: &'static str| here.post("/_sandbox/tick", json!({"sweep": sweep}));
    let answer: Value = tick("approvals").await?.json().await?;
    assert_eq!(answer, json!({"due": 2}));
    assert_eq!(
        problem(tick("turns").await?).await?,
        (502, "function_failed".to_owned())
    );
    assert_eq!(
        problem(tick("everything").await?).await?,
        (400, "bad_request".to_owned())
    );
    let first = seen
        .lock()
        .unwrap()
        .first()
        .cloned()
        .context("not invoked")?;
    assert_eq!(
        first["target"],
        "/2015-03-31/functions/toshi-refresh/invocations"
    );
    assert_eq!(first["body"], "{\"sweep\":\"approvals\"}");
    Ok(())
}

#[tokio::test]
async fn the_page_is_served_for_its_own_paths_with_security_headers() -> anyhow::Result<()> {
    let here = Here::start().await?;
    let web = here.state.path().join("web");
    assert_eq!(here.get("/").await?.status(), 503);
    std::fs::create_dir_all(web.join("assets"))?;
    std::fs::write(
        web.join("index.html"),
        "<!doctype html><title>Toshi</title>",
    )?;
    std::fs::write(web.join("assets/app.js"), "1")?;
    for path in ["/", "/approvals", "/callback?code=1"] {
        let page = here.get(path).await?;
        assert_eq!(page.status(), 200, "{path}");
        let policy = page.headers()["content-security-policy"]
            .to_str()?
            .to_owned();
        assert!(policy.starts_with("default-src 'self';"), "{policy}");
        assert_eq!(page.headers()["x-content-type-options"], "nosniff");
        assert!(page.text().await?.contains("<title>Toshi</title>"));
    }
    let script = here.get("/assets/app.js").await?;
    assert_eq!(
        script.headers()["content-type"],
        "text/javascript; charset=utf-8"
    );
    for path in [
        "/assets/none.js",
        "/..%2fsandbox.json",
        "/%2e%2e/sandbox.json",
    ] {
        assert_eq!(here.get(path).await?.status(), 404, "{path}");
    }
    assert_eq!(here.post("/", json!({})).await?.status(), 405);
    let port = here.sandbox.address().port();
    let by_name = here
        .http
        .get(here.at("/chat/1?x=y"))
        .header("host", format!("localhost:{port}"));
    let by_name = by_name.send().await?;
    assert_eq!(by_name.status(), 307);
    assert_eq!(
        by_name.headers()["location"].to_str()?,
        here.at("/chat/1?x=y")
    );
    Ok(())
}

#[tokio::test]
async fn the_configuration_names_the_issuer_and_the_model() -> anyhow::Result<()> {
    let here = Here::start().await?;
    let mut expected = json!({
        "issuer": here.at("/_sandbox/oidc"), "client_id": "toshi-web",
        "audience": "https://api.toshi.test", "scope": "openid toshi",
        "model": "scripted", "sandbox": true,
    });
    assert_eq!(
        here.get("/config.json").await?.json::<Value>().await?,
        expected
    );
    here.deploy(&stack("http://127.0.0.1:1"))?;
    expected["model"] = json!("some-model");
    assert_eq!(
        here.get("/config.json").await?.json::<Value>().await?,
        expected
    );
    Ok(())
}

#[tokio::test]
async fn a_port_in_use_is_told_with_what_to_do() -> anyhow::Result<()> {
    let here = Here::start().await?;
    let port = here.sandbox.address().port();
    let options = toshi_sandbox::Options::new(port, here.state.path(), here.state.path());
    let error = toshi_sandbox::Sandbox::start(options)
        .await
        .err()
        .context("started twice")?;
    let told = error.to_string();
    assert!(
        told.contains(&format!("port {port} is in use")) && told.contains("make stop"),
        "{told}"
    );
    Ok(())
}
