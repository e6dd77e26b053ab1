//! The names under which tools are shown to a model: `type__tool`, and back.

use std::collections::{BTreeMap, BTreeSet};

use toshi_core::Sha256Hex;

/// What model providers accept.
pub const SHOWN_MAX: usize = 64;
const BETWEEN: &str = "__";
const HASH: usize = 10;

/// The shown name of a tool. Where the plain form is too long or has characters that providers
/// refuse, a shortened one that ends in a hash of both names.
pub fn shown(connector: &str, tool: &str) -> String {
    let plain = format!("{connector}{BETWEEN}{tool}");
    if plain.len() <= SHOWN_MAX && plain.chars().all(is_allowed) {
        return plain;
    }
    let hash = Sha256Hex::of(format!("{connector}\0{tool}").as_bytes());
    let mut short: String = plain
        .chars()
        .map(|c| if is_allowed(c) { c } else { '_' })
        .collect();
    short.truncate(SHOWN_MAX - HASH - 1);
    let hash: String = hash.as_str().chars().take(HASH).collect();
    format!("{short}_{hash}")
}

fn is_allowed(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_' || c == '-'
}

/// The tools offered together, and their shown names: exact both ways.
///
/// A shown name that two tools would share is given to neither: a model's call must never reach
/// another tool than the one it was shown.
#[derive(Clone, Debug, Default)]
pub struct Names {
    real: BTreeMap<String, (String, String)>,
}

impl Names {
    /// Takes (connector, tool) pairs; a pair that comes twice counts once.
    pub fn of<'a>(offered: impl IntoIterator<Item = (&'a str, &'a str)>) -> Self {
        let offered: BTreeSet<(&str, &str)> = offered.into_iter().collect();
        let mut by_shown: BTreeMap<String, Vec<(&str, &str)>> = BTreeMap::new();
        for (connector, tool) in offered {
            by_shown
                .entry(shown(connector, tool))
                .or_default()
                .push((connector, tool));
        }
        let mut real = BTreeMap::new();
        for (shown, tools) in by_shown {
            match tools.as_slice() {
                [(connector, tool)] => {
                    real.insert(shown, ((*connector).to_owned(), (*tool).to_owned()));
                }
                _ => tracing::warn!(name = shown, "tools share a shown name and are left out"),
            }
        }
        Self { real }
    }

    /// The shown name, if this tool is among the offered ones.
    pub fn shown(&self, connector: &str, tool: &str) -> Option<&str> {
        let (name, real) = self.real.get_key_value(&shown(connector, tool))?;
        (real.0 == connector && real.1 == tool).then_some(name)
    }

    /// The (connector, tool) behind a name that a model used.
    pub fn real(&self, shown: &str) -> Option<(&str, &str)> {
        let (connector, tool) = self.real.get(shown)?;
        Some((connector, tool))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_usual_name_is_type_and_tool() {
        assert_eq!(shown("demo", "post_message"), "demo__post_message");
        let names = Names::of([("demo", "post_message")]);
        assert_eq!(
            names.real("demo__post_message"),
            Some(("demo", "post_message"))
        );
        assert_eq!(names.real("demo__other"), None);
        assert_eq!(names.shown("demo", "other"), None);
    }

    #[test]
    fn a_name_that_providers_refuse_becomes_a_short_one_that_leads_back() {
        let long = "x".repeat(128);
        let tools = [long.as_str(), "a.b", "a:b", "größe", "a b", "", "a/b"];
        let names = Names::of(tools.map(|tool| ("demo", tool)));
        for tool in tools {
            let shown = names.shown("demo", tool).unwrap();
            assert!(
                shown.len() <= SHOWN_MAX && shown.chars().all(is_allowed),
                "{shown}"
            );
            assert_eq!(names.real(shown), Some(("demo", tool)));
        }
    }

    #[test]
    fn tools_that_would_share_a_name_are_both_left_out() {
        let short = shown("demo", "a.b");
        let twin = short.strip_prefix("demo__").unwrap();
        let names = Names::of([("demo", "a.b"), ("demo", twin), ("demo", "c")]);
        assert_eq!(names.shown("demo", "a.b"), None);
        assert_eq!(names.shown("demo", twin), None);
        assert_eq!(names.real(&short), None);
        assert!(names.shown("demo", "c").is_some());
        let names = Names::of([("a_", "b"), ("a", "_b")]);
        assert_eq!(names.real("a___b"), None);
    }

    proptest! {
        #[test]
        fn every_offered_tool_leads_back_to_itself_or_is_left_out(
            tools in prop::collection::vec(("[a-z_]{1,4}", ".{0,80}"), 0..12),
        ) {
            let pairs = || tools.iter().map(|(connector, tool)| (connector.as_str(), tool.as_str()));
            let names = Names::of(pairs());
            for (connector, tool) in pairs() {
                if let Some(shown) = names.shown(connector, tool) {
                    prop_assert!(shown.len() <= SHOWN_MAX && shown.chars().all(is_allowed));
                    prop_assert_eq!(names.real(shown), Some((connector, tool)));
                }
            }
        }
    }
}
