//! What each function's `main` shares: configuration, the log, clients.

mod aws;
mod environment;
mod log;

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use reqwest::Url;
use toshi_core::{Millis, RequestId, TurnId};
use toshi_failpoints::ahead_ms;

pub use aws::Aws;
pub use environment::{ConfigError, Environment};
pub use log::{count, init as init_log, log};

/// DNS, TCP and TLS together.
const CONNECT_WITHIN: Duration = Duration::from_secs(5);

/// The wall clock, for the one place of each request that reads it.
pub fn now() -> Millis {
    #[expect(
        clippy::disallowed_methods,
        reason = "this is the clock that wiring reads"
    )]
    let now = SystemTime::now();
    let since = now.duration_since(UNIX_EPOCH).unwrap_or_default();
    Millis::from_epoch(i64::try_from(since.as_millis()).unwrap_or(i64::MAX)).plus(ahead_ms())
}

/// Failpoints and a clock that is ahead, as a development environment says; nothing in a build that
/// has none.
pub fn arm_failpoints(environment: &Environment) -> Result<(), ConfigError> {
    if environment.dev()? {
        toshi_failpoints::arm(|name| environment.maybe(name)).map_err(ConfigError::Failpoints)?;
    }
    Ok(())
}

/// An id for a request that came without one.
pub(crate) fn new_request_id() -> RequestId {
    let id: TurnId = toshi_store::mint(now());
    // A ULID's characters are all allowed in a request id.
    id.to_string()
        .parse()
        .unwrap_or_else(|_| unreachable!("a ULID is a request id"))
}

/// The HTTP client that fetches issuers' keys: no redirects, no proxy. Every request sets its own
/// total time.
pub fn http_client(dev: bool) -> Result<reqwest::Client, ConfigError> {
    let tls = toshi_tls::client_config().map_err(|error| ConfigError::Tls(error.into()))?;
    reqwest::Client::builder()
        .tls_backend_preconfigured(tls)
        .user_agent(concat!("toshi/", env!("CARGO_PKG_VERSION")))
        .redirect(reqwest::redirect::Policy::none())
        .no_proxy()
        .https_only(!dev)
        .connect_timeout(CONNECT_WITHIN)
        .build()
        .map_err(ConfigError::Http)
}

/// Whether the address names this machine, by its spelling.
pub(crate) fn is_loopback(url: &Url) -> bool {
    let Some(host) = url.host_str() else {
        return false;
    };
    host == "localhost"
        || host
            .trim_matches(['[', ']'])
            .parse::<std::net::IpAddr>()
            .is_ok_and(|ip| ip.is_loopback())
}
