//! The clients of the cloud, from one configuration.

use aws_config::{BehaviorVersion, SdkConfig};
use aws_smithy_http_client::Builder;
use aws_smithy_http_client::tls::rustls_provider::CryptoMode;
use aws_smithy_http_client::tls::{Provider, TlsContext, TrustStore};
use toshi_store::{Store, StoreConfig, Vault, VaultConfig, WakeQueue};

use super::ConfigError;

/// Credentials, region and the one HTTP client that all SDK clients share.
#[derive(Clone, Debug)]
pub struct Aws(SdkConfig);

impl Aws {
    /// Trusts AWS's own roots alone: nothing else answers there, and parsing all of the web's would
    /// be most of the start.
    pub async fn load() -> Result<Self, ConfigError> {
        let roots = TrustStore::empty().with_pem_certificate(toshi_tls::AWS_ROOTS);
        let tls = TlsContext::builder().with_trust_store(roots).build();
        let http = Builder::new()
            .tls_provider(Provider::Rustls(CryptoMode::AwsLc))
            .tls_context(tls.map_err(|error| ConfigError::Aws(error.into()))?)
            .build_https();
        let defaults = aws_config::defaults(BehaviorVersion::latest());
        Ok(Self(defaults.http_client(http).load().await))
    }

    #[expect(clippy::disallowed_methods, reason = "this is the store's wiring")]
    pub fn store(&self, config: StoreConfig) -> Store {
        Store::new(aws_sdk_dynamodb::Client::new(&self.0), config)
    }

    #[expect(clippy::disallowed_methods, reason = "this is the queue's wiring")]
    pub fn wake_queue(&self, url: &str) -> WakeQueue {
        WakeQueue::new(aws_sdk_sqs::Client::new(&self.0), url.to_owned())
    }

    #[expect(clippy::disallowed_methods, reason = "this is the vault's wiring")]
    pub fn vault(&self, config: VaultConfig) -> Vault {
        Vault::new(aws_sdk_kms::Client::new(&self.0), config)
    }
}
