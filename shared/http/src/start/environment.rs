//! The environment: read once, each variable named when it is missing or wrong.

use std::collections::BTreeMap;
use std::str::FromStr;

use axum::http::HeaderValue;
use reqwest::Url;
use toshi_store::{StoreConfig, VaultConfig};

use super::is_loopback;

/// A setting that must stop the start.
#[derive(thiserror::Error)]
pub enum ConfigError {
    #[error("{0} is not set")]
    Missing(&'static str),
    #[error("{name} is {value:?}: {why}")]
    Invalid {
        name: &'static str,
        value: String,
        why: &'static str,
    },
    #[error(
        "TOSHI_DEV=1 needs AWS_ENDPOINT_URL to be a loopback address; it is {0:?}. Development \
         settings are not for AWS"
    )]
    DevOutsideLoopback(String),
    #[error("the HTTP client could not be built: {0}")]
    Http(#[source] reqwest::Error),
    #[error("the client for AWS could not be built: {0}")]
    Aws(#[source] Box<dyn std::error::Error + Send + Sync>),
    #[error("TLS could not be set up: {0}")]
    Tls(#[source] Box<dyn std::error::Error + Send + Sync>),
    #[error("{0}")]
    Failpoints(String),
}

impl std::fmt::Debug for ConfigError {
    /// The sentence: it is what a `main` that ends with this error prints.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        std::fmt::Display::fmt(self, f)
    }
}

/// The variables as they were at the start.
#[derive(Clone, Default)]
pub struct Environment(BTreeMap<String, String>);

impl std::fmt::Debug for Environment {
    /// Names only: some values are secrets.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}

impl Environment {
    /// The one place where a process looks at its environment.
    pub fn read() -> Self {
        // Without those that are not text: none of ours is.
        let texts = std::env::vars_os().filter_map(|(name, value)| {
            Some((name.into_string().ok()?, value.into_string().ok()?))
        });
        Self(texts.collect())
    }

    /// For tests and tools: variables from elsewhere.
    pub fn of<const N: usize>(variables: [(&str, &str); N]) -> Self {
        let owned = variables.map(|(name, value)| (name.to_owned(), value.to_owned()));
        Self(BTreeMap::from(owned))
    }

    /// A variable that may be absent; empty is absent.
    pub fn maybe(&self, name: &'static str) -> Option<&str> {
        self.0
            .get(name)
            .map(String::as_str)
            .filter(|value| !value.is_empty())
    }

    pub fn need(&self, name: &'static str) -> Result<&str, ConfigError> {
        self.maybe(name).ok_or(ConfigError::Missing(name))
    }

    /// A variable that is read as something, if it is there.
    pub fn parsed<T: FromStr>(
        &self,
        name: &'static str,
        why: &'static str,
    ) -> Result<Option<T>, ConfigError> {
        let Some(text) = self.maybe(name) else {
            return Ok(None);
        };
        text.parse().map(Some).map_err(|_| ConfigError::Invalid {
            name,
            value: text.to_owned(),
            why,
        })
    }

    /// Names separated by commas.
    pub fn list(&self, name: &'static str) -> Vec<&str> {
        let text = self.maybe(name).unwrap_or_default();
        text.split(',')
            .map(str::trim)
            .filter(|part| !part.is_empty())
            .collect()
    }

    /// `TOSHI_DEV`, which unlocks what only a machine of one's own may have: refused unless AWS
    /// itself is a stand-in on this machine.
    pub fn dev(&self) -> Result<bool, ConfigError> {
        match self.maybe("TOSHI_DEV") {
            None | Some("0") => Ok(false),
            Some("1") => {
                let endpoint = self.maybe("AWS_ENDPOINT_URL").unwrap_or_default();
                let local = Url::parse(endpoint).is_ok_and(|url| is_loopback(&url));
                if local {
                    Ok(true)
                } else {
                    Err(ConfigError::DevOutsideLoopback(endpoint.to_owned()))
                }
            }
            Some(other) => Err(ConfigError::Invalid {
                name: "TOSHI_DEV",
                value: other.to_owned(),
                why: "it must be 0 or 1",
            }),
        }
    }

    pub fn store(&self) -> Result<StoreConfig, ConfigError> {
        Ok(StoreConfig {
            table: self.need("TOSHI_TABLE")?.to_owned(),
            audit_table: self.need("TOSHI_AUDIT_TABLE")?.to_owned(),
        })
    }

    /// Both keys are optional: a function has those that it needs.
    pub fn vault(&self) -> Result<VaultConfig, ConfigError> {
        Ok(VaultConfig {
            access: self.maybe("TOSHI_KEY_ACCESS").map(ToOwned::to_owned),
            platform: self.maybe("TOSHI_KEY_PLATFORM").map(ToOwned::to_owned),
            environment: self.need("TOSHI_ENV")?.to_owned(),
        })
    }

    /// The web console's origin, where its browser is to read answers from another one.
    pub fn allowed_origin(&self) -> Result<Option<HeaderValue>, ConfigError> {
        self.parsed(
            "TOSHI_ALLOWED_ORIGIN",
            "it must be an origin such as https://console.example",
        )
    }

    pub fn wake_queue_url(&self) -> Result<&str, ConfigError> {
        self.need("TOSHI_WAKE_QUEUE_URL")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn development_settings_need_a_stand_in_for_aws_on_this_machine() {
        let dev = |value: &str, endpoint: &str| {
            Environment::of([("TOSHI_DEV", value), ("AWS_ENDPOINT_URL", endpoint)]).dev()
        };
        assert!(dev("1", "http://127.0.0.1:4566").unwrap());
        assert!(dev("1", "http://localhost:4566").unwrap());
        assert!(dev("1", "http://[::1]:4566").unwrap());
        assert!(!dev("0", "").unwrap());
        assert!(!dev("", "http://127.0.0.1:1").unwrap());
        for elsewhere in [
            "",
            "https://dynamodb.eu-west-1.amazonaws.com",
            "http://127.0.0.1.example.com",
            "http://localhost@example.com",
            "http://10.0.0.1:4566",
            "not an address",
        ] {
            let refused = dev("1", elsewhere).unwrap_err();
            assert!(
                matches!(refused, ConfigError::DevOutsideLoopback(_)),
                "{elsewhere}"
            );
        }
        assert!(matches!(
            dev("yes", ""),
            Err(ConfigError::Invalid {
                name: "TOSHI_DEV",
                ..
            })
        ));
    }

    #[test]
    fn an_error_names_the_variable() {
        let error = Environment::default().store().unwrap_err();
        assert_eq!(error.to_string(), "TOSHI_TABLE is not set");
        let environment = Environment::of([("TOSHI_APPROVAL_TTL", "soon")]);
        let error = environment
            .parsed::<u32>("TOSHI_APPROVAL_TTL", "it must be seconds")
            .unwrap_err();
        assert_eq!(
            error.to_string(),
            "TOSHI_APPROVAL_TTL is \"soon\": it must be seconds"
        );
    }

    #[test]
    fn values_do_not_show_in_debug_output() {
        let environment = Environment::of([("TOSHI_LLM_KEY", "canary")]);
        assert!(!format!("{environment:?}").contains("canary"));
    }

    #[test]
    fn a_list_is_split_at_commas() {
        let environment = Environment::of([("TOSHI_CONNECTORS", "demo, slack,,")]);
        assert_eq!(environment.list("TOSHI_CONNECTORS"), ["demo", "slack"]);
        assert!(Environment::default().list("TOSHI_CONNECTORS").is_empty());
    }
}
