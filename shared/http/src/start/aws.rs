//! The clients of the cloud, from one configuration.

use aws_config::{BehaviorVersion, SdkConfig};
use toshi_store::{Store, StoreConfig, Vault, VaultConfig, WakeQueue};

/// Credentials, region and the one HTTP client that all SDK clients share.
#[derive(Clone, Debug)]
pub struct Aws(SdkConfig);

impl Aws {
    pub async fn load() -> Self {
        Self(aws_config::defaults(BehaviorVersion::latest()).load().await)
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
