//! The agent from a deployment's settings, in one place for every binary that runs turns.

use secrecy::SecretString;
use toshi_connectors::{ConfigError, Guard, Outbound, Tools, ToolsConfig};
use toshi_core::{Catalogue, CatalogueError};
use toshi_store::{Store, Vault, WakeQueue};

use crate::agent::{Agent, Settings};
use crate::model::{Model, ModelConfig};

/// A setting that must stop the start.
#[derive(Debug, thiserror::Error)]
pub enum WiringError {
    #[error("{0} is not set")]
    Missing(&'static str),
    #[error("{name} is not usable: {why}")]
    Invalid {
        name: &'static str,
        why: &'static str,
    },
    #[error(
        "TOSHI_LLM_KEY is only for development; set the secret with `toshi secret set llm-key`"
    )]
    KeyOutsideDev,
    #[error(transparent)]
    Catalogue(#[from] CatalogueError),
    #[error(transparent)]
    Connectors(#[from] ConfigError),
}

/// What a deployment says about turns.
#[derive(Debug)]
pub struct AgentConfig {
    dev: bool,
    connectors: Vec<String>,
    demo_endpoint: Option<String>,
    model: ModelConfig,
    settings: Settings,
}

impl AgentConfig {
    /// Reads the settings; `variable` gives a variable's value, absent if empty.
    pub fn read(
        variable: impl Fn(&'static str) -> Option<String>,
        dev: bool,
    ) -> Result<Self, WiringError> {
        let need = |name| variable(name).ok_or(WiringError::Missing(name));
        let llm_key = variable("TOSHI_LLM_KEY");
        if llm_key.is_some() && !dev {
            return Err(WiringError::KeyOutsideDev);
        }
        let ttl = variable("TOSHI_APPROVAL_TTL").map(|text| text.parse::<i64>());
        let decide_within_ms = match ttl {
            None => None,
            Some(Ok(seconds)) if (1..=DECIDE_MAX_S).contains(&seconds) => Some(seconds * 1000),
            Some(_) => {
                return Err(WiringError::Invalid {
                    name: "TOSHI_APPROVAL_TTL",
                    why: "it must be 1 to 604800 seconds",
                });
            }
        };
        let connectors = variable("TOSHI_CONNECTORS").unwrap_or_default();
        let connectors = connectors
            .split(',')
            .map(str::trim)
            .filter(|key| !key.is_empty());
        Ok(Self {
            dev,
            connectors: connectors.map(ToOwned::to_owned).collect(),
            demo_endpoint: variable("TOSHI_DEMO_ENDPOINT"),
            model: ModelConfig {
                url: need("TOSHI_LLM_URL")?,
                model: need("TOSHI_LLM_MODEL")?,
            },
            settings: Settings {
                llm_key: llm_key.map(SecretString::from),
                decide_within_ms,
            },
        })
    }

    pub fn build(self, store: Store, vault: Vault, queue: WakeQueue) -> Result<Agent, WiringError> {
        let keys: Vec<&str> = self.connectors.iter().map(String::as_str).collect();
        let catalogue = Catalogue::load(&keys, self.dev)?;
        let url = reqwest::Url::parse(&self.model.url).map_err(|_| WiringError::Invalid {
            name: "TOSHI_LLM_URL",
            why: "it must be an address such as https://api.example.com/v1",
        })?;
        // The operator chose the model's host; a school's addresses may still not lead there.
        let hosts = url.host_str().map(ToOwned::to_owned);
        let outbound = Outbound::new(Guard::new(self.dev).with_operators_hosts(hosts))?;
        let model = Model::new(outbound.client().clone(), self.model);
        let config = ToolsConfig {
            dev: self.dev,
            demo_endpoint: self.demo_endpoint,
        };
        let tools = Tools::new(outbound, catalogue, config)?;
        Ok(Agent::new(store, vault, queue, tools, model, self.settings))
    }
}

/// The longest that any question may wait: seven days.
const DECIDE_MAX_S: i64 = 7 * 24 * 3600;
