//! `toshi secret set`: the platform's secrets, sealed before they are stored.

use std::io::{IsTerminal, Read};
use std::process::{Command, Stdio};

use anyhow::{Context, bail};
use secrecy::SecretString;
use toshi_http::start::Environment;

use crate::cloud::Cloud;
use crate::say::{ask, say};

/// What the functions read, and what for.
const KNOWN: [(&str, &str); 2] = [
    ("llm-key", "the model's API key"),
    ("hmac", "the key under which audit records name arguments"),
];
const BYTES_MAX: u64 = 16 * 1024;

pub(crate) async fn set(
    environment: &Environment,
    name: &str,
    keep: bool,
    generate: bool,
) -> anyhow::Result<()> {
    if !KNOWN.iter().any(|(known, _)| *known == name) {
        let known: Vec<String> = KNOWN
            .iter()
            .map(|(known, what)| format!("{known} ({what})"))
            .collect();
        bail!("there is no secret {name:?}; known: {}", known.join(", "));
    }
    let cloud = Cloud::of(environment).await?;
    let secret = if generate { random() } else { read(name)? };
    let is_set = cloud
        .vault
        .set_platform_secret(&cloud.store, name, &secret, keep)
        .await?;
    let what = if is_set {
        "is set"
    } else {
        "was set before; kept"
    };
    say(&format!("secret {name} {what}"));
    Ok(())
}

/// 256 random bits in hex.
pub(crate) fn random() -> SecretString {
    SecretString::from(hex::encode(rand::random::<[u8; 32]>()))
}

fn read(name: &str) -> anyhow::Result<SecretString> {
    let stdin = std::io::stdin();
    let mut text = String::new();
    if stdin.is_terminal() {
        ask(&format!("{name}: "));
        let hidden = Hidden::begin();
        stdin.read_line(&mut text).context("reading the secret")?;
        drop(hidden);
        ask("\n");
    } else {
        stdin
            .take(BYTES_MAX)
            .read_to_string(&mut text)
            .context("reading the secret")?;
    }
    let value = text.trim_end_matches(['\r', '\n']);
    if value.trim().is_empty() {
        bail!("the secret is empty; nothing was changed");
    }
    Ok(SecretString::from(value.to_owned()))
}

/// What is typed is not shown while this lives.
struct Hidden;

impl Hidden {
    fn begin() -> Self {
        stty("-echo");
        Self
    }
}

impl Drop for Hidden {
    fn drop(&mut self) {
        stty("echo");
    }
}

fn stty(setting: &str) {
    let status = Command::new("stty")
        .arg(setting)
        .stdin(Stdio::inherit())
        .stderr(Stdio::null())
        .status();
    if !status.is_ok_and(|status| status.success()) {
        ask("(this terminal cannot hide what you type) ");
    }
}

#[cfg(test)]
mod tests {
    use secrecy::ExposeSecret;

    use super::*;

    #[test]
    fn a_generated_secret_has_256_bits_and_is_new() {
        let (one, two) = (random(), random());
        assert_eq!(one.expose_secret().len(), 64);
        assert_ne!(one.expose_secret(), two.expose_secret());
    }
}
