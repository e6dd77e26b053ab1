//! The control interface.

use std::time::Duration;

use anyhow::Context;
use serde_json::{Value, json};

use crate::harness::{Folder, Here, problem};

#[tokio::test]
async fn switches_are_merged_checked_kept_and_cleared() -> anyhow::Result<()> {
    let here = Here::start().await?;
    let put = |body: Value| {
        here.http
            .put(here.at("/_sandbox/switches"))
            .json(&body)
            .send()
    };
    here.switch("mcp.demo.delay_ms", json!(20)).await?;
    here.switch("llm.loop", json!(true)).await?;
    let unknown = put(json!({"llm.status": 500, "mcp.demo.explode": true})).await?;
    let text = unknown.text().await?;
    assert!(text.contains("mcp.demo.explode") && text.contains("mcp.demo.drop_reply_after_commit"));
    let wrong = problem(put(json!({"llm.status": "500"})).await?).await?;
    assert_eq!(wrong, (400, "bad_request".to_owned()));
    assert_eq!(problem(put(json!([])).await?).await?.0, 400);

    let here = here.restart().await?;
    let all: Value = here.get("/_sandbox/switches").await?.json().await?;
    let on: Vec<_> = all
        .as_object()
        .context("no object")?
        .iter()
        .filter(|(_, v)| !v.is_null())
        .collect();
    assert_eq!(
        on,
        [
            (&"llm.loop".to_owned(), &json!(true)),
            (&"mcp.demo.delay_ms".to_owned(), &json!(20))
        ]
    );
    assert_eq!(here.post("/_sandbox/reset", json!({})).await?.status(), 204);
    let all: Value = here.get("/_sandbox/switches").await?.json().await?;
    assert!(
        all.as_object()
            .context("no object")?
            .values()
            .all(Value::is_null)
    );
    Ok(())
}

#[tokio::test]
async fn pages_of_other_sites_and_names_that_resolve_here_are_refused() -> anyhow::Result<()> {
    let here = Here::start().await?;
    for path in [
        "/_sandbox",
        "/_sandbox/switches",
        "/_sandbox/oidc/jwks",
        "/_sandbox/llm/v1/models",
    ] {
        let foreign = here
            .http
            .get(here.at(path))
            .header("origin", "https://evil.example")
            .send();
        assert_eq!(problem(foreign.await?).await?.0, 403, "{path}");
        let rebound = here
            .http
            .get(here.at(path))
            .header("host", "evil.example")
            .send();
        assert_eq!(problem(rebound.await?).await?.0, 403, "{path}");
        let own = here
            .http
            .get(here.at(path))
            .header("origin", &here.url)
            .bearer_auth("k")
            .send();
        assert_eq!(own.await?.status(), 200, "{path}");
    }
    Ok(())
}

#[tokio::test]
async fn every_switch_and_route_is_on_the_documentation_page() -> anyhow::Result<()> {
    let here = Here::start().await?;
    let page = here.get("/_sandbox").await?.text().await?;
    let all: Value = here.get("/_sandbox/switches").await?.json().await?;
    let switches = all
        .as_object()
        .context("no object")?
        .keys()
        .map(String::as_str);
    let routes = [
        "mcp/calls",
        "switches",
        "tick",
        "reset",
        "llm/requests",
        "token",
    ];
    for word in switches.chain(routes) {
        assert!(page.contains(word), "{word}");
    }
    Ok(())
}

#[tokio::test]
async fn what_does_not_exist_is_no_page() -> anyhow::Result<()> {
    let here = Here::start().await?;
    let nothing = problem(here.get("/_sandbox/other").await?).await?;
    assert_eq!(nothing, (404, "not_found".to_owned()));
    Ok(())
}

#[tokio::test]
async fn a_state_that_cannot_be_read_is_told_with_what_to_do() -> anyhow::Result<()> {
    let state = Folder::new()?;
    std::fs::write(state.path().join("sandbox.json"), "{")?;
    let started = Here::start_with(state, Duration::from_secs(1)).await;
    let error = started.err().context("started with a broken state")?;
    assert!(error.to_string().contains("sandbox.json") && error.to_string().contains("remove it"));
    Ok(())
}
