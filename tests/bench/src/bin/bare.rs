//! The least that a function can be: what ours are measured against. With `BARE_CLIENTS=1` it builds
//! the same clients first.

use lambda_http::{Body, Request, Response, service_fn};
use toshi_http::start::{self, Aws, Environment};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), lambda_http::Error> {
    let environment = Environment::read();
    let clients = match environment.maybe("BARE_CLIENTS") {
        Some(_) => Some(clients(&environment).await?),
        None => None,
    };
    let answer = |_: Request| async { Ok::<_, lambda_http::Error>(Response::new(Body::Empty)) };
    let end = lambda_http::run(service_fn(answer)).await;
    drop(clients);
    end
}

async fn clients(environment: &Environment) -> Result<impl Sized, start::ConfigError> {
    let aws = Aws::load().await?;
    Ok((
        aws.store(environment.store()?),
        aws.vault(environment.vault()?),
        aws.wake_queue(environment.wake_queue_url()?),
        start::http_client(false)?,
        start::http_client(false)?,
    ))
}
