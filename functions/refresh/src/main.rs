//! The refresh function: one sweep an invocation, as its schedule's input names it.

use lambda_runtime::{LambdaEvent, service_fn};
use toshi_http::start::{self, Aws, Environment};
use toshi_refresh::{Ask, Sweeper};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), lambda_runtime::Error> {
    let environment = Environment::read();
    start::init_log(&environment);
    start::arm_failpoints(&environment)?;
    environment.dev()?;
    let (tables, queue) = (environment.store()?, environment.wake_queue_url()?);
    let aws = Aws::load().await?;
    let sweeper = Sweeper {
        store: aws.store(tables),
        queue: aws.wake_queue(queue),
    };
    let sweeper = &sweeper;
    lambda_runtime::run(service_fn(|event: LambdaEvent<Ask>| async move {
        let report = sweeper.sweep(&event.payload, start::now).await?;
        Ok::<_, lambda_runtime::Error>(report)
    }))
    .await
}
