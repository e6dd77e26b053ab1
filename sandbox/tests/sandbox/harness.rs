//! A sandbox on a free port with a state folder of its own.

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::{Context, ensure};
use reqwest::{Client, Response};
use serde_json::{Value, json};
use toshi_sandbox::{Options, Sandbox};

/// A folder that is removed with its owner.
pub(crate) struct Folder(PathBuf);

impl Folder {
    pub(crate) fn new() -> anyhow::Result<Self> {
        let path =
            std::env::temp_dir().join(format!("toshi-sandbox-{:016x}", rand::random::<u64>()));
        std::fs::create_dir_all(&path)?;
        Ok(Self(path))
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        _ = std::fs::remove_dir_all(&self.0);
    }
}

pub(crate) struct Here {
    pub(crate) sandbox: Sandbox,
    pub(crate) state: Folder,
    pub(crate) http: Client,
    pub(crate) url: String,
}

impl Here {
    pub(crate) async fn start() -> anyhow::Result<Self> {
        Self::start_with(Folder::new()?, Duration::from_secs(300)).await
    }

    pub(crate) async fn start_with(
        state: Folder,
        function_timeout: Duration,
    ) -> anyhow::Result<Self> {
        let web = state.path().join("web");
        let mut options = Options::new(0, state.path(), web);
        options.function_timeout = function_timeout;
        let sandbox = Sandbox::start(options).await?;
        let url = format!("http://{}", sandbox.address());
        Ok(Self {
            sandbox,
            state,
            http: client()?,
            url,
        })
    }

    /// Stops and starts again with the same state, on another port.
    pub(crate) async fn restart(self) -> anyhow::Result<Self> {
        self.sandbox.stop().await?;
        Self::start_with(self.state, Duration::from_secs(300)).await
    }

    pub(crate) fn at(&self, path: &str) -> String {
        format!("{}{path}", self.url)
    }

    pub(crate) async fn get(&self, path: &str) -> anyhow::Result<Response> {
        Ok(self.http.get(self.at(path)).send().await?)
    }

    pub(crate) async fn post(&self, path: &str, body: Value) -> anyhow::Result<Response> {
        Ok(self.http.post(self.at(path)).json(&body).send().await?)
    }

    pub(crate) async fn switch(&self, name: &str, value: Value) -> anyhow::Result<()> {
        let response = self
            .http
            .put(self.at("/_sandbox/switches"))
            .json(&json!({name: value}))
            .send()
            .await?;
        let status = response.status();
        ensure!(status == 200, "{name}: {status} {}", response.text().await?);
        Ok(())
    }

    /// The calls that took effect, without their times.
    pub(crate) async fn calls(&self) -> anyhow::Result<Vec<Value>> {
        let calls: Value = self.get("/_sandbox/mcp/calls").await?.json().await?;
        let mut calls = calls.as_array().context("calls are no list")?.clone();
        for call in &mut calls {
            let at = call.as_object_mut().and_then(|call| call.remove("at"));
            ensure!(
                at.is_some_and(|at| at.is_string()),
                "a call without its time"
            );
        }
        Ok(calls)
    }

    /// Writes the description of a deployment.
    pub(crate) fn deploy(&self, stack: &Value) -> anyhow::Result<()> {
        let draft = self.state.path().join("stack.new");
        std::fs::write(&draft, stack.to_string())?;
        std::fs::rename(draft, self.state.path().join("stack.json"))?;
        Ok(())
    }
}

/// A client that follows no redirects and uses no proxy.
pub(crate) fn client() -> anyhow::Result<Client> {
    Ok(Client::builder()
        .no_proxy()
        .redirect(reqwest::redirect::Policy::none())
        .build()?)
}

/// The problem's status and code.
pub(crate) async fn problem(response: Response) -> anyhow::Result<(u16, String)> {
    let status = response.status().as_u16();
    ensure!(
        response.headers()["content-type"] == "application/problem+json",
        "no problem: {status}"
    );
    let body: Value = response.json().await?;
    ensure!(
        body["detail"]
            .as_str()
            .is_some_and(|detail| detail.len() > 10),
        "no sentence: {body}"
    );
    Ok((status, body["code"].as_str().unwrap_or_default().to_owned()))
}
