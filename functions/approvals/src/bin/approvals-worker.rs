#![recursion_limit = "256"]

//! The approvals worker: runs the conversations that the wake queue hints at.

use lambda_runtime::{LambdaEvent, service_fn};
use toshi_agent::AgentConfig;
use toshi_approvals::worker::{self, SqsBatch};
use toshi_http::start::{self, Aws, Environment};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), lambda_runtime::Error> {
    let environment = Environment::read();
    start::init_log(&environment);
    start::arm_failpoints(&environment)?;
    let dev = environment.dev()?;
    let config = AgentConfig::read(|name| environment.maybe(name).map(ToOwned::to_owned), dev)?;
    let aws = Aws::load().await?;
    let store = aws.store(environment.store()?);
    let vault = aws.vault(environment.vault()?);
    let queue = aws.wake_queue(environment.wake_queue_url()?);
    let agent = config.build(store, vault, queue)?;
    agent.warm(start::now()).await;
    let agent = &agent;
    lambda_runtime::run(service_fn(|event: LambdaEvent<SqsBatch>| async move {
        let (batch, context) = event.into_parts();
        Ok::<_, lambda_runtime::Error>(worker::handle(agent, batch, &context).await)
    }))
    .await
}
