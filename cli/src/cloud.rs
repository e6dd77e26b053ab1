//! The deployment that a command works on.

use toshi_http::start::{Aws, Environment};
use toshi_store::{Store, Vault};

pub(crate) struct Cloud {
    pub(crate) store: Store,
    pub(crate) vault: Vault,
    pub(crate) aws: Aws,
}

impl Cloud {
    pub(crate) async fn of(environment: &Environment) -> anyhow::Result<Self> {
        let (store, vault) = (environment.store()?, environment.vault()?);
        let aws = Aws::load().await?;
        Ok(Self {
            store: aws.store(store),
            vault: aws.vault(vault),
            aws,
        })
    }
}
