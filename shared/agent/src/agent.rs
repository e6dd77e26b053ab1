//! What a process needs to work on turns, built once.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use secrecy::SecretString;
use tokio::sync::OnceCell;
use toshi_connectors::Tools;
use toshi_core::{Catalogue, Millis, Sha256Hex, TenantId};
use toshi_store::{Store, StoreError, TenantRow, Vault, WakeQueue, hmac_hex};

use crate::model::{Model, ModelHealth};

/// The name of the model's key and of the HMAC key among the platform's secrets.
const LLM_KEY: &str = "llm-key";
const HMAC_KEY: &str = "hmac";

#[derive(Clone, Debug, Default)]
pub struct Settings {
    /// Only under `TOSHI_DEV`; elsewhere the key is a secret row.
    pub llm_key: Option<SecretString>,
    /// How long a question waits, in milliseconds, if not the product's default.
    pub decide_within_ms: Option<i64>,
}

#[derive(Debug, thiserror::Error)]
pub enum AgentError {
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// The parts of a runner. One per process.
#[derive(Debug)]
pub struct Agent {
    pub store: Store,
    pub vault: Vault,
    pub queue: WakeQueue,
    pub tools: Tools,
    pub model: Model,
    pub settings: Settings,
    llm_key: OnceCell<SecretString>,
    hmac_key: OnceCell<SecretString>,
    schools: Mutex<HashMap<TenantId, (Arc<TenantRow>, Millis)>>,
}

/// A start may take ten seconds, and a person waits for it.
const WARM_WITHIN: Duration = Duration::from_secs(2);

/// How long a school's own row is kept, in milliseconds.
const SCHOOL_KEPT_MS: i64 = 5 * 60 * 1000;

impl Agent {
    pub fn new(
        store: Store,
        vault: Vault,
        queue: WakeQueue,
        tools: Tools,
        model: Model,
        settings: Settings,
    ) -> Self {
        let llm_key = OnceCell::new_with(settings.llm_key.clone());
        Self {
            store,
            vault,
            queue,
            tools,
            model,
            settings,
            llm_key,
            hmac_key: OnceCell::new(),
            schools: Mutex::default(),
        }
    }

    /// The school's own row, kept for five minutes.
    pub(crate) async fn school_row(
        &self,
        tenant: &TenantId,
        now: Millis,
    ) -> Result<Arc<TenantRow>, StoreError> {
        let kept = {
            let schools = self.schools.lock().unwrap_or_else(PoisonError::into_inner);
            schools.get(tenant).cloned()
        };
        if let Some((row, until)) = kept
            && now < until
        {
            return Ok(row);
        }
        let row = self.store.tenant_row(tenant).await?;
        let row = Arc::new(row.ok_or_else(|| StoreError::Unreadable("no such school".to_owned()))?);
        let mut schools = self.schools.lock().unwrap_or_else(PoisonError::into_inner);
        schools.insert(tenant.clone(), (Arc::clone(&row), now.plus(SCHOOL_KEPT_MS)));
        Ok(row)
    }

    pub fn catalogue(&self) -> &Catalogue {
        self.tools.catalogue()
    }

    pub(crate) async fn llm_key(&self, now: Millis) -> Result<&SecretString, StoreError> {
        let load = || self.vault.platform_secret(&self.store, LLM_KEY, now);
        self.llm_key.get_or_try_init(load).await
    }

    async fn hmac_key(&self, now: Millis) -> Result<&SecretString, StoreError> {
        let load = || self.vault.platform_secret(&self.store, HMAC_KEY, now);
        self.hmac_key.get_or_try_init(load).await
    }

    pub(crate) async fn arguments_hmac(
        &self,
        hash: &Sha256Hex,
        now: Millis,
    ) -> Result<String, StoreError> {
        Ok(hmac_hex(self.hmac_key(now).await?, hash))
    }

    /// Fetches what the first turn would wait for, which also opens the connections to the table and
    /// the keys: for a function's init, where it has a whole CPU. What fails is left to the first
    /// turn, which says so.
    pub async fn warm(&self, now: Millis) {
        let both = async { tokio::try_join!(self.llm_key(now), self.hmac_key(now)).map(drop) };
        match tokio::time::timeout(WARM_WITHIN, both).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::info!(%error, "the start fetched no secrets"),
            Err(_) => tracing::info!("the start fetched no secrets in time"),
        }
    }

    /// One tiny real call of the model.
    pub async fn model_health(&self, now: Millis) -> ModelHealth {
        match self.llm_key(now).await {
            Ok(key) => self.model.health(key).await,
            Err(error) => ModelHealth {
                ok: false,
                detail: error.to_string(),
            },
        }
    }
}
