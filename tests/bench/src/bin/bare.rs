//! The least that a function can be: what ours are measured against.
//!
//! `BARE_CLIENTS=1` builds the same clients first. `BARE_TLS` names an address, and `BARE_ROOT` a
//! file with the certificate it is known by: the first TLS of the process happens before it asks for
//! work.

use lambda_http::{Body, Request, Response, service_fn};
use rustls::RootCertStore;
use toshi_http::start::{self, Aws, Environment};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), lambda_http::Error> {
    let environment = Environment::read();
    let clients = match environment.maybe("BARE_CLIENTS") {
        Some(_) => Some(clients(&environment).await?),
        None => None,
    };
    if let Some(address) = environment.maybe("BARE_TLS") {
        first_tls(address, environment.need("BARE_ROOT")?).await?;
    }
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

async fn first_tls(address: &str, root: &str) -> Result<(), lambda_http::Error> {
    let mut roots = RootCertStore::empty();
    roots.add(std::fs::read(root)?.into())?;
    let client = reqwest::Client::builder()
        .tls_backend_preconfigured(toshi_tls::with_roots(roots.roots)?)
        .no_proxy()
        .build()?;
    client.get(address).send().await?;
    Ok(())
}
