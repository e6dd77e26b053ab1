//! The product's tool client, as the MCP conformance suite runs a client:
//! `conformance-client <server's URL>`, under `infra/dev.py emulator -- …`.
//!
//! There is no second way to a tool for it. What it calls is asked, approved, checked and claimed on
//! tables of its own on the emulator, as in a school, and the permit comes from the claim.

mod plan;
mod school;

use std::io::Write;

use anyhow::Context;
use serde_json::Value;
use toshi_connectors::{Guard, Outbound, Tools, ToolsConfig, schema};
use toshi_core::Catalogue;

use school::School;

/// What the suite says of this run.
struct Run {
    url: String,
    /// The calls that it wants made, where it does not leave that to the client.
    calls: Option<Vec<(String, Value)>>,
}

impl Run {
    fn read() -> anyhow::Result<Self> {
        let url = std::env::args()
            .next_back()
            .filter(|url| url.contains("://"));
        #[expect(
            clippy::disallowed_methods,
            reason = "this is where this program reads its configuration"
        )]
        let context = std::env::var("MCP_CONFORMANCE_CONTEXT").ok();
        Ok(Self {
            url: url.context("the last argument must be the server's URL")?,
            calls: context.as_deref().map(plan::wanted).transpose()?.flatten(),
        })
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> anyhow::Result<()> {
    let run = Run::read()?;
    let mut out = std::io::stdout().lock();
    let school = School::connect(tools_at(&run.url)?).await?;
    let listed = school.list().await?;
    for tool in &listed {
        // As for a turn: nothing in a schema is ever fetched.
        let shown = schema::acceptable(&tool.input_schema);
        let shown = shown.map_or_else(|why| why.to_string(), |_| "fit to be shown".to_owned());
        writeln!(out, "listed {}: {shown}", tool.name)?;
    }
    let calls = run.calls.unwrap_or_else(|| plan::of(&listed));
    for (tool, arguments) in calls {
        let outcome = school.call(&listed, &tool, &arguments).await?;
        writeln!(out, "called {tool}: {outcome:?}")?;
    }
    writeln!(out, "the server speaks {:?}", school.learned())?;
    Ok(())
}

/// The demo connector, with the suite's server in its place.
fn tools_at(url: &str) -> anyhow::Result<Tools> {
    let outbound = Outbound::new(Guard::new(true))?;
    let catalogue = Catalogue::load(&["demo"], true)?;
    let config = ToolsConfig {
        dev: true,
        // The school's own part of the address lands in the query, which the suite does not read.
        demo_endpoint: Some(format!("{url}?")),
    };
    Ok(Tools::new(outbound, catalogue, config)?)
}
