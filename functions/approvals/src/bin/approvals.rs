//! The approvals function: list, show, decide, resolve, audit.

use std::sync::Arc;

use toshi_approvals::http::{App, routes};
use toshi_http::start::{self, Aws, Environment};
use toshi_http::{Identity, service};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), lambda_http::Error> {
    let environment = Environment::read();
    start::init_log(&environment);
    start::arm_failpoints(&environment)?;
    let dev = environment.dev()?;
    let origin = environment.allowed_origin()?;
    let http = start::http_client(dev)?;
    let (tables, queue) = (environment.store()?, environment.wake_queue_url()?);
    let aws = Aws::load().await?;
    let store = aws.store(tables);
    let queue = aws.wake_queue(queue);
    let app = Arc::new(App {
        identity: Identity::new(store.clone(), http, dev),
        store,
        queue,
    });
    lambda_http::run(service(routes(app), origin)).await
}
