//! `toshi llm-health`: one tiny call of the model, with the functions' own settings and key.

use anyhow::bail;
use toshi_agent::AgentConfig;
use toshi_http::start::{self, Environment};

use crate::cloud::Cloud;
use crate::say::say;

pub(crate) async fn health(environment: &Environment) -> anyhow::Result<()> {
    let dev = environment.dev()?;
    let variable = |name| environment.maybe(name).map(ToOwned::to_owned);
    let config = AgentConfig::read(variable, dev)?;
    let cloud = Cloud::of(environment).await?;
    let queue = cloud.aws.wake_queue(environment.wake_queue_url()?);
    let agent = config.build(cloud.store, cloud.vault, queue)?;
    let health = agent.model_health(start::now()).await;
    let model = agent.model.name();
    if !health.ok {
        bail!("the model {model} does not answer: {}", health.detail);
    }
    say(&format!("the model {model} answers: {}", health.detail));
    Ok(())
}
