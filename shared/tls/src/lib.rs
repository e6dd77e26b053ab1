//! Whom a process trusts: TLS from roots that are compiled in.
//!
//! Reading and parsing the system's bundle costs more than a millisecond of CPU for each client at
//! each start; these cost nothing. They are Mozilla's, from crates that follow its list, so a new
//! root arrives with a dependency update and a deployment.

use std::sync::Arc;

use rustls::{ClientConfig, RootCertStore};

/// The configuration of every HTTP client of ours but AWS's own.
///
/// # Errors
/// Only if the crypto library supports none of TLS 1.2 and 1.3.
pub fn client_config() -> Result<ClientConfig, rustls::Error> {
    with_roots(webpki_roots::TLS_SERVER_ROOTS.to_vec())
}

/// The same with other roots: for a server that a test or a measurement runs.
///
/// # Errors
/// As [`client_config`].
pub fn with_roots(
    roots: Vec<rustls::pki_types::TrustAnchor<'static>>,
) -> Result<ClientConfig, rustls::Error> {
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_root_certificates(RootCertStore { roots })
        .with_no_client_auth();
    Ok(config)
}

/// The roots that AWS's own endpoints lead to, as PEM: Amazon Trust Services, and Starfield, which
/// signed its roots across (<https://www.amazontrust.com/repository/>).
pub const AWS_ROOTS: &str = include_str!(concat!(env!("OUT_DIR"), "/aws-roots.pem"));

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_are_roots_for_the_web_and_for_aws() {
        assert!(webpki_roots::TLS_SERVER_ROOTS.len() > 100);
        assert!(client_config().is_ok());
        // Amazon's four; Starfield's may leave Mozilla's list one day.
        let count = AWS_ROOTS.matches("BEGIN CERTIFICATE").count();
        assert!((4..10).contains(&count), "{AWS_ROOTS}");
    }
}
