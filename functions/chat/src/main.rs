//! The chat function: one chat turn as a stream; conversation reads.

use std::sync::Arc;

use toshi_agent::AgentConfig;
use toshi_chat::{Chat, routes};
use toshi_http::start::{self, Aws, Environment};
use toshi_http::{Identity, service};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), lambda_http::Error> {
    let environment = Environment::read();
    start::init_log(&environment);
    start::arm_failpoints(&environment)?;
    let dev = environment.dev()?;
    let config = AgentConfig::read(|name| environment.maybe(name).map(ToOwned::to_owned), dev)?;
    let aws = Aws::load().await?;
    let store = aws.store(environment.store()?);
    let vault = aws.vault(environment.vault()?);
    let queue = aws.wake_queue(environment.wake_queue_url()?);
    let agent = Arc::new(config.build(store.clone(), vault, queue)?);
    agent.warm(start::now()).await;
    let identity = Identity::new(store, start::http_client(dev)?, dev);
    let chat = Chat {
        agent,
        identity: Arc::new(identity),
    };
    let routes = service(routes(chat), environment.allowed_origin()?);
    match environment.maybe("TOSHI_RESPONSE") {
        None | Some("buffer") => lambda_http::run(routes).await,
        Some("stream") => lambda_http::run_with_streaming_response(routes).await,
        Some(other) => {
            Err(format!("TOSHI_RESPONSE is {other:?}: it must be stream or buffer").into())
        }
    }
}
