//! What the sandbox keeps between runs: one file, written shortly after each change.

use std::{
    collections::BTreeMap,
    io,
    path::{Path, PathBuf},
    sync::{Mutex, PoisonError},
    time::Duration,
};

use anyhow::Context;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::sync::Notify;

use crate::{mcp::workspace::Workspaces, oidc::Family};

#[derive(Debug, Default, Deserialize, Serialize)]
#[serde(default)]
pub(crate) struct Data {
    pub(crate) switches: BTreeMap<String, Value>,
    pub(crate) workspaces: Workspaces,
    pub(crate) sign_ins: Vec<Family>,
}

#[derive(Debug)]
pub(crate) struct Saved {
    path: PathBuf,
    data: Mutex<Data>,
    changed: Notify,
}

impl Saved {
    /// Reads `sandbox.json` in the state folder; a missing file is an empty start.
    pub(crate) fn open(folder: &Path) -> anyhow::Result<Self> {
        let path = folder.join("sandbox.json");
        let data = match std::fs::read(&path) {
            Ok(bytes) => serde_json::from_slice(&bytes).with_context(|| {
                format!(
                    "{} cannot be read: remove it to start afresh",
                    path.display()
                )
            })?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => Data::default(),
            Err(error) => {
                return Err(error).with_context(|| format!("cannot read {}", path.display()));
            }
        };
        Ok(Self {
            path,
            data: Mutex::new(data),
            changed: Notify::new(),
        })
    }

    pub(crate) fn read<T>(&self, look: impl FnOnce(&Data) -> T) -> T {
        look(&self.data.lock().unwrap_or_else(PoisonError::into_inner))
    }

    pub(crate) fn change<T>(&self, edit: impl FnOnce(&mut Data) -> T) -> T {
        let result = edit(&mut self.data.lock().unwrap_or_else(PoisonError::into_inner));
        self.changed.notify_one();
        result
    }

    /// Writes the file whenever something changed, at most every 50 ms. Runs until dropped.
    pub(crate) async fn keep_writing(&self) {
        loop {
            self.changed.notified().await;
            tokio::time::sleep(Duration::from_millis(50)).await;
            if let Err(error) = self.write() {
                eprintln!(
                    "toshi-sandbox: cannot write {}: {error}",
                    self.path.display()
                );
            }
        }
    }

    /// Writes the file now, whole or not at all.
    pub(crate) fn write(&self) -> io::Result<()> {
        let bytes = self.read(serde_json::to_vec)?;
        let draft = self.path.with_extension("json.new");
        std::fs::write(&draft, bytes)?;
        std::fs::rename(&draft, &self.path)
    }
}
