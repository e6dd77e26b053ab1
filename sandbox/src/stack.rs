//! What is deployed: `stack.json` in the state folder, written after each deploy.

use std::{
    collections::BTreeMap,
    path::PathBuf,
    sync::{Arc, Mutex, PoisonError},
    time::SystemTime,
};

use serde::Deserialize;

use crate::runtime_host::Function;

#[derive(Deserialize)]
pub(crate) struct Stack {
    /// `http://127.0.0.1:<port>` of the AWS emulator.
    pub(crate) emulator: String,
    pub(crate) region: String,
    pub(crate) api_id: String,
    pub(crate) stage: String,
    chat: Chat,
    /// Deployed names by the product's names.
    functions: BTreeMap<String, String>,
    pub(crate) model: String,
}

#[derive(Deserialize)]
struct Chat {
    bootstrap: PathBuf,
    environment: BTreeMap<String, String>,
}

impl std::fmt::Debug for Stack {
    /// The environment may hold a model's key.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Stack")
            .field("api_id", &self.api_id)
            .finish_non_exhaustive()
    }
}

impl Stack {
    pub(crate) fn function(&self, name: &str) -> Option<&str> {
        self.functions.get(name).map(String::as_str)
    }

    /// The chat function as the runtime host starts it.
    pub(crate) fn chat(&self) -> Function {
        let mut environment = BTreeMap::from(
            [
                ("AWS_ENDPOINT_URL", self.emulator.as_str()),
                ("AWS_REGION", &self.region),
                ("AWS_DEFAULT_REGION", &self.region),
                ("AWS_ACCESS_KEY_ID", "test"),
                ("AWS_SECRET_ACCESS_KEY", "test"),
                ("TOSHI_RESPONSE", "stream"),
            ]
            .map(|(name, value)| (name.to_owned(), value.to_owned())),
        );
        environment.extend(self.chat.environment.clone());
        Function {
            name: self.function("chat").unwrap_or("chat").to_owned(),
            region: self.region.clone(),
            bootstrap: self.chat.bootstrap.clone(),
            environment,
        }
    }
}

#[derive(Debug)]
pub(crate) struct StackFile {
    path: PathBuf,
    read: Mutex<Option<(SystemTime, Arc<Stack>)>>,
}

impl StackFile {
    pub(crate) fn new(folder: &std::path::Path) -> Self {
        Self {
            path: folder.join("stack.json"),
            read: Mutex::new(None),
        }
    }

    /// The current stack, read again when the file is new. The error is a sentence for people.
    pub(crate) fn current(&self) -> Result<Arc<Stack>, String> {
        let changed = std::fs::metadata(&self.path)
            .and_then(|meta| meta.modified())
            .map_err(|_| "Toshi is still being deployed. Try again in a moment.".to_owned())?;
        let mut read = self.read.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((at, stack)) = read.as_ref()
            && *at == changed
        {
            return Ok(Arc::clone(stack));
        }
        let stack = std::fs::read(&self.path)
            .map_err(|error| error.to_string())
            .and_then(|bytes| serde_json::from_slice(&bytes).map_err(|error| error.to_string()))
            .map_err(|error| {
                format!("The description of the deployment is not readable: {error}")
            })?;
        let stack = Arc::new(stack);
        *read = Some((changed, Arc::clone(&stack)));
        Ok(stack)
    }
}
