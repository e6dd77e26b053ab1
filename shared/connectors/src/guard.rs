//! Where this process may connect to: the one rule for outbound addresses.
//!
//! A URL is judged by its spelling before use ([`Guard::check`]) and by its addresses when they are
//! resolved for the connection that is then made ([`Outbound`]'s resolver), so that a name which
//! changes its mind between two look-ups gains nothing.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use reqwest::Url;
use reqwest::dns::{Addrs, Name, Resolve, Resolving};

/// DNS, TCP and TLS together.
const CONNECT_WITHIN: Duration = Duration::from_secs(5);
/// Shorter than usual keep-alive times, so that a kept connection is seldom one that the server has
/// already left.
const IDLE: Duration = Duration::from_secs(20);
const IDLE_PER_HOST: usize = 8;

/// A setting that must stop the start.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    #[error("the HTTP client could not be built: {0}")]
    Client(#[source] reqwest::Error),
    #[error("TLS could not be set up: {0}")]
    Tls(#[source] Box<dyn std::error::Error + Send + Sync>),
    #[error("the demo endpoint is only for development")]
    DemoOutsideDev,
    #[error("the demo endpoint {0:?} is not a usable address: {1}")]
    DemoEndpoint(String, String),
}

/// Why an address is not called.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Forbidden {
    #[error("the address is not a URL")]
    NotAUrl,
    #[error("the address is not https")]
    NotHttps,
    #[error("the address carries a name or password")]
    Credentials,
    #[error("the address has no host")]
    NoHost,
    #[error("the address is not on the public internet")]
    NotPublic,
}

/// Judges addresses that a tenant or a server named.
#[derive(Clone, Debug, Default)]
pub struct Guard {
    dev: bool,
    operators: Arc<[String]>,
}

impl Guard {
    /// Under `dev` loopback is allowed, with and without TLS.
    pub fn new(dev: bool) -> Self {
        Self {
            dev,
            operators: Arc::default(),
        }
    }

    /// Lets the process connect to hosts that its operator configured (the model's), wherever they
    /// are. [`Self::check`] refuses them: no tenant's address may lead there.
    pub fn with_operators_hosts(self, hosts: impl IntoIterator<Item = String>) -> Self {
        let operators = hosts
            .into_iter()
            .map(|host| host.to_ascii_lowercase())
            .collect();
        Self { operators, ..self }
    }

    /// The URL, if its spelling allows a call.
    pub fn check(&self, address: &str) -> Result<Url, Forbidden> {
        let url = Url::parse(address).map_err(|_| Forbidden::NotAUrl)?;
        if !url.username().is_empty() || url.password().is_some() {
            return Err(Forbidden::Credentials);
        }
        let host = url
            .host_str()
            .filter(|host| !host.is_empty())
            .ok_or(Forbidden::NoHost)?;
        let literal = host.trim_matches(['[', ']']).parse::<IpAddr>().ok();
        let is_loopback = host == "localhost" || literal.is_some_and(|ip| ip.is_loopback());
        if url.scheme() != "https" && !(url.scheme() == "http" && self.dev && is_loopback) {
            return Err(Forbidden::NotHttps);
        }
        let is_operators = self.operators.iter().any(|own| own == host);
        let is_allowed = match literal {
            Some(ip) => self.allows(ip),
            None => !is_operators && (host.contains('.') || (self.dev && is_loopback)),
        };
        // In development everything stands on one loopback host.
        if is_allowed || (self.dev && is_loopback) {
            Ok(url)
        } else {
            Err(Forbidden::NotPublic)
        }
    }

    fn allows(&self, ip: IpAddr) -> bool {
        is_public(ip) || (self.dev && ip.is_loopback())
    }

    fn allows_resolved(&self, host: &str, ip: IpAddr) -> bool {
        self.operators
            .iter()
            .any(|own| own.eq_ignore_ascii_case(host))
            || self.allows(ip)
    }
}

/// The process's one HTTP client, with the settings that the rules here rest on.
#[derive(Clone, Debug)]
pub struct Outbound {
    client: reqwest::Client,
    guard: Guard,
}

impl Outbound {
    /// Builds the client: no redirects, no proxy (it would connect for us, past the guard), and no
    /// re-sending.
    ///
    /// `reqwest`'s own retries are switched off. What is left below it is `hyper-util`'s: a request
    /// that was queued on a pooled connection, and handed back whole because that connection ended
    /// before its task took it, is put on another connection. `hyper` hands back only requests of
    /// which it has not encoded a byte, so this never sends anything twice.
    ///
    /// Every request still needs its own total timeout.
    pub fn new(guard: Guard) -> Result<Self, ConfigError> {
        let tls = toshi_tls::client_config().map_err(|error| ConfigError::Tls(error.into()))?;
        let client = reqwest::Client::builder()
            .tls_backend_preconfigured(tls)
            .user_agent(concat!("toshi/", env!("CARGO_PKG_VERSION")))
            .redirect(reqwest::redirect::Policy::none())
            .retry(reqwest::retry::never())
            .no_proxy()
            .referer(false)
            .https_only(!guard.dev)
            .connect_timeout(CONNECT_WITHIN)
            .pool_idle_timeout(IDLE)
            .pool_max_idle_per_host(IDLE_PER_HOST)
            .dns_resolver(GuardedNames {
                guard: guard.clone(),
            })
            .build()
            .map_err(ConfigError::Client)?;
        Ok(Self { client, guard })
    }

    pub fn client(&self) -> &reqwest::Client {
        &self.client
    }

    pub fn guard(&self) -> &Guard {
        &self.guard
    }
}

struct GuardedNames {
    guard: Guard,
}

impl Resolve for GuardedNames {
    fn resolve(&self, name: Name) -> Resolving {
        let guard = self.guard.clone();
        Box::pin(async move {
            let host = name.as_str();
            let found = tokio::net::lookup_host((host, 0)).await?;
            let (allowed, refused): (Vec<SocketAddr>, Vec<SocketAddr>) =
                found.partition(|address| guard.allows_resolved(host, address.ip()));
            // A name with one private address is not half trusted.
            if allowed.is_empty() || !refused.is_empty() {
                return Err(Box::new(Forbidden::NotPublic) as _);
            }
            Ok(Box::new(allowed.into_iter()) as Addrs)
        })
    }
}

impl fmt::Debug for GuardedNames {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("GuardedNames")
    }
}

/// Whether an address is reachable by anybody: no private, loopback, link-local (cloud metadata),
/// shared, reserved or translated address.
pub fn is_public(ip: IpAddr) -> bool {
    match ip {
        IpAddr::V4(ip) => is_public_v4(ip),
        IpAddr::V6(ip) => is_public_v6(ip),
    }
}

fn is_public_v4(ip: Ipv4Addr) -> bool {
    let [a, b, c, _] = ip.octets();
    let special = ip.is_private()
        || ip.is_loopback()
        || ip.is_link_local()
        || ip.is_multicast()
        || ip.is_broadcast()
        || ip.is_documentation()
        || a == 0
        || (a == 100 && (64..128).contains(&b))
        || (a == 192 && b == 0 && c == 0)
        || (a == 192 && b == 88 && c == 99)
        || (a == 198 && (b == 18 || b == 19))
        || a >= 240;
    !special
}

fn is_public_v6(ip: Ipv6Addr) -> bool {
    let [first, second, ..] = ip.segments();
    // Only global unicast; of it neither the ranges that carry an IPv4 address inside (6to4,
    // Teredo), nor protocol assignments, nor documentation. Mapped and translated IPv4 lie outside.
    let is_global = first & 0xe000 == 0x2000;
    let special = first == 0x2002
        || (first == 0x2001 && second < 0x0200)
        || (first == 0x2001 && second == 0x0db8)
        || first == 0x3fff;
    is_global && !special
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_public_addresses_are_public() {
        let private = [
            "0.0.0.0",
            "10.1.2.3",
            "100.64.0.1",
            "127.0.0.1",
            "127.9.9.9",
            "169.254.169.254",
            "172.16.0.1",
            "172.31.255.255",
            "192.0.0.8",
            "192.0.2.1",
            "192.168.1.1",
            "198.18.0.1",
            "198.51.100.7",
            "203.0.113.9",
            "224.0.0.1",
            "240.0.0.1",
            "255.255.255.255",
            "::",
            "::1",
            "::ffff:10.0.0.1",
            "::ffff:8.8.8.8",
            "::127.0.0.1",
            "64:ff9b::a00:1",
            "fc00::1",
            "fd00:ec2::254",
            "fe80::1",
            "fec0::1",
            "ff02::1",
            "2001::1",
            "2001:db8::1",
            "2002:7f00:1::1",
            "3fff::1",
        ];
        for ip in private {
            assert!(!is_public(ip.parse().unwrap()), "{ip}");
        }
        for ip in [
            "1.1.1.1",
            "8.8.8.8",
            "100.128.0.1",
            "172.32.0.1",
            "2606:4700::1111",
            "2a00::1",
        ] {
            assert!(is_public(ip.parse().unwrap()), "{ip}");
        }
    }

    #[test]
    fn an_address_is_https_and_public_in_production() {
        let guard = Guard::new(false);
        assert!(guard.check("https://mcp.example.com/mcp").is_ok());
        let rows = [
            ("mcp.example.com", Forbidden::NotAUrl),
            ("http://mcp.example.com/mcp", Forbidden::NotHttps),
            ("ftp://mcp.example.com", Forbidden::NotHttps),
            ("file:///etc/passwd", Forbidden::NoHost),
            ("https://user:pass@mcp.example.com", Forbidden::Credentials),
            ("http://127.0.0.1:8080/mcp", Forbidden::NotHttps),
            ("https://127.0.0.1/mcp", Forbidden::NotPublic),
            ("https://localhost/mcp", Forbidden::NotPublic),
            ("https://intranet/mcp", Forbidden::NotPublic),
            ("https://169.254.169.254/latest", Forbidden::NotPublic),
            ("https://[fd00:ec2::254]/latest", Forbidden::NotPublic),
            ("https://2130706433/", Forbidden::NotPublic),
            ("https://0x7f.1/", Forbidden::NotPublic),
        ];
        for (address, why) in rows {
            assert_eq!(guard.check(address).unwrap_err(), why, "{address}");
        }
    }

    #[test]
    fn development_adds_loopback_and_nothing_else() {
        let guard = Guard::new(true);
        for address in [
            "http://127.0.0.1:8080/mcp",
            "http://localhost:1/x",
            "http://[::1]:9/x",
        ] {
            assert!(guard.check(address).is_ok(), "{address}");
        }
        for address in [
            "http://10.0.0.1/",
            "http://mcp.example.com/",
            "https://10.0.0.1/",
        ] {
            assert!(guard.check(address).is_err(), "{address}");
        }
    }

    #[test]
    fn an_operators_host_is_not_reached_by_a_tenants_address() {
        let guard = Guard::new(false).with_operators_hosts(["Model.example.com".to_owned()]);
        assert!(guard.check("https://model.example.com/v1").is_err());
        assert!(guard.allows_resolved("model.example.com", "10.0.0.1".parse().unwrap()));
        assert!(!guard.allows_resolved("mcp.example.com", "10.0.0.1".parse().unwrap()));
    }

    #[tokio::test]
    async fn a_name_that_resolves_to_a_private_address_is_not_connected_to() {
        let names = GuardedNames {
            guard: Guard::new(false),
        };
        assert!(names.resolve("localhost".parse().unwrap()).await.is_err());
        let names = GuardedNames {
            guard: Guard::new(true),
        };
        assert!(names.resolve("localhost".parse().unwrap()).await.is_ok());
    }
}
