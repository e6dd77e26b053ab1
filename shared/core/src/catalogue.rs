//! The reviewed list of connector types: data in this repository, compiled in.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::Sha256Hex;
use crate::approval::ApproverPolicy;
use crate::era::EraRule;

/// How a type's calls are sorted into reads and writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// Every call is a write. The default for anything new.
    Deny,
    /// A read if listed in `read_tools`; everything else is a write.
    Classify,
    /// A write if listed in `write_tools`; everything else is a read. Needs `trusted`.
    Allowlist,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Transport {
    McpHttp,
    InProcess,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Sharing {
    TenantShared,
    PerUser,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Risk {
    Low,
    Medium,
    High,
}

/// What the catalogue says of one tool.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ToolEntry {
    /// What a person reads instead of the tool's name.
    pub title: String,
    /// The reviewed definition's hash. Without one, the admin's review pins it.
    pub pin: Option<Sha256Hex>,
    #[serde(default)]
    pub approver: ApproverPolicy,
    #[serde(default = "medium")]
    pub risk: Risk,
    /// What the call does, for the person who approves it.
    pub effect: Option<String>,
}

const fn medium() -> Risk {
    Risk::Medium
}

#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Connector {
    pub key: String,
    pub title: String,
    #[serde(default)]
    pub enabled: bool,
    /// Only under `TOSHI_DEV`.
    #[serde(default)]
    pub dev_only: bool,
    pub transport: Transport,
    /// How its servers speak; for `mcp_http`, and only there.
    pub era: Option<EraRule>,
    pub sharing: Sharing,
    pub mode: Mode,
    /// The server's tool list is believed to be complete and honest; `allowlist` needs it.
    #[serde(default)]
    pub trusted: bool,
    #[serde(default)]
    pub read_tools: Vec<String>,
    #[serde(default)]
    pub write_tools: Vec<String>,
    #[serde(default)]
    pub tools: BTreeMap<String, ToolEntry>,
}

impl Connector {
    pub fn tool_title<'a>(&'a self, tool: &'a str) -> &'a str {
        self.tools
            .get(tool)
            .map_or(tool, |entry| entry.title.as_str())
    }

    pub fn risk(&self, tool: &str) -> Risk {
        self.tools.get(tool).map_or(Risk::High, |entry| entry.risk)
    }
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CatalogueError {
    #[error("catalogue file {file}: {problem}")]
    Unreadable { file: String, problem: String },
    #[error("connector {0:?} is not in the catalogue")]
    Unknown(String),
    #[error("connector {key}: {problem}")]
    Invalid { key: String, problem: &'static str },
}

/// The connector types that this deployment has switched on.
#[derive(Clone, Debug, Default)]
pub struct Catalogue {
    types: BTreeMap<String, Connector>,
}

const FILES: [(&str, &str); 1] = [("demo.toml", include_str!("../catalogue/demo.toml"))];

impl Catalogue {
    /// Loads the compiled-in files and keeps what `enabled` names (`EnabledConnectors`).
    ///
    /// A name that is not in the catalogue stops the start: a typo must not switch a tool off
    /// unseen.
    pub fn load(enabled: &[&str], dev: bool) -> Result<Self, CatalogueError> {
        let mut all = BTreeMap::new();
        for (file, text) in FILES {
            let connector = Self::read(file, text)?;
            all.insert(connector.key.clone(), connector);
        }
        let mut types = BTreeMap::new();
        for key in enabled {
            let connector = all
                .remove(*key)
                .ok_or_else(|| CatalogueError::Unknown((*key).to_owned()))?;
            if !connector.enabled || (connector.dev_only && !dev) {
                return Err(CatalogueError::Invalid {
                    key: connector.key,
                    problem: "is not available in this deployment",
                });
            }
            types.insert(connector.key.clone(), connector);
        }
        Ok(Self { types })
    }

    fn read(file: &str, text: &str) -> Result<Connector, CatalogueError> {
        let connector: Connector =
            toml::from_str(text).map_err(|error| CatalogueError::Unreadable {
                file: file.to_owned(),
                problem: error.to_string(),
            })?;
        let invalid = |problem| {
            Err(CatalogueError::Invalid {
                key: connector.key.clone(),
                problem,
            })
        };
        let is_name = |text: &str| {
            // Names of tools begin with it, and one model provider wants a letter there.
            text.starts_with(|c: char| c.is_ascii_lowercase())
                && text.len() <= 20
                && !text.contains("__")
                && text
                    .chars()
                    .all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_')
        };
        if !is_name(&connector.key) {
            return invalid("its key must be 1-20 of a-z, 0-9 and single _, a letter first");
        }
        match (connector.transport, connector.era) {
            (Transport::McpHttp, None) => return invalid("a server over HTTP needs an era"),
            (Transport::InProcess, Some(_)) => {
                return invalid("only a server over HTTP has an era");
            }
            (Transport::McpHttp, Some(_)) | (Transport::InProcess, None) => {}
        }
        if connector.mode == Mode::Allowlist && !connector.trusted {
            return invalid("mode `allowlist` needs trusted = true");
        }
        if connector
            .read_tools
            .iter()
            .any(|tool| connector.write_tools.contains(tool))
        {
            return invalid("a tool stands in both read_tools and write_tools");
        }
        Ok(connector)
    }

    /// The type, if it is known and on.
    pub fn get(&self, key: &str) -> Option<&Connector> {
        self.types.get(key)
    }

    pub fn iter(&self) -> impl Iterator<Item = &Connector> {
        self.types.values()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::era::Era;

    const BASE: &str = r#"
        key = "x"
        title = "X"
        enabled = true
        sharing = "tenant_shared"
    "#;
    const OVER_HTTP: &str = "transport = \"mcp_http\"\nera = \"auto\"\n";

    fn read(rest: &str) -> Result<Connector, CatalogueError> {
        Catalogue::read("x.toml", &format!("{BASE}{OVER_HTTP}{rest}"))
    }

    #[test]
    fn every_file_loads_and_is_valid() {
        for (file, text) in FILES {
            Catalogue::read(file, text).unwrap();
        }
    }

    #[test]
    fn the_demo_connector_exists_only_under_dev() {
        assert!(
            Catalogue::load(&["demo"], true)
                .unwrap()
                .get("demo")
                .is_some()
        );
        assert!(Catalogue::load(&["demo"], false).is_err());
        assert!(Catalogue::load(&[], true).unwrap().get("demo").is_none());
    }

    #[test]
    fn a_misspelt_connector_stops_the_start() {
        let error = Catalogue::load(&["slak"], true).unwrap_err();
        assert_eq!(error, CatalogueError::Unknown("slak".to_owned()));
    }

    #[test]
    fn a_key_that_cannot_begin_a_tools_name_is_refused() {
        for key in ["", "1password", "_x", "X", "a__b", "a-b"] {
            let text = BASE.replace("\"x\"", &format!("{key:?}"));
            assert!(
                Catalogue::read("x.toml", &format!("{text}mode = \"deny\"")).is_err(),
                "{key}"
            );
        }
        assert!(read("mode = \"deny\"").is_ok());
    }

    #[test]
    fn an_allowlist_needs_a_trusted_server() {
        assert!(read("mode = \"allowlist\"").is_err());
        assert!(read("mode = \"allowlist\"\ntrusted = true").is_ok());
    }

    #[test]
    fn a_bad_mode_an_unknown_key_and_a_tool_in_both_lists_are_refused() {
        assert!(read("mode = \"sometimes\"").is_err());
        assert!(read("mode = \"deny\"\nallow_everything = true").is_err());
        assert!(read("mode = \"classify\"\nread_tools = [\"a\"]\nwrite_tools = [\"a\"]").is_err());
    }

    #[test]
    fn a_server_over_http_and_nothing_else_has_an_era_that_exists() {
        let read = |transport: &str, era: &str| {
            let text = format!("{BASE}transport = \"{transport}\"\n{era}\nmode = \"deny\"");
            Catalogue::read("x.toml", &text).map(|connector| connector.era)
        };
        let rows = [
            ("auto", EraRule::Auto, None),
            ("2025-11-25", EraRule::Handshake, Some(Era::Handshake)),
            ("2026-07-28", EraRule::Stateless, Some(Era::Stateless)),
        ];
        for (word, rule, fixed) in rows {
            let era = format!("era = \"{word}\"");
            assert_eq!(read("mcp_http", &era), Ok(Some(rule)), "{word}");
            assert_eq!(rule.fixed(), fixed);
            assert!(read("in_process", &era).is_err(), "{word}");
        }
        assert!(read("mcp_http", "").is_err());
        assert!(read("mcp_http", "era = \"2026-07-29\"").is_err());
        assert_eq!(read("in_process", ""), Ok(None));
    }
}
