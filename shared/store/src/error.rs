//! What can go wrong at the store's border, by who must act.

use aws_sdk_dynamodb::error::{DisplayErrorContext, ProvideErrorMetadata};

#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// Another writer was first; read again and decide again.
    #[error("the row has changed meanwhile")]
    Conflict,
    /// Retryable by the caller later.
    #[error("the table is busy")]
    Busy,
    #[error("a transaction of {0} items is too large")]
    TooManyItems(usize),
    /// A row over 400 KB or a transaction over 4 MB, in bytes.
    #[error("a write of {0} bytes is too large")]
    TooLarge(usize),
    /// The conversation was deleted; its id is not used again.
    #[error("the conversation was deleted")]
    Deleted,
    #[error("a stored row cannot be read: {0}")]
    Unreadable(String),
    #[error("a row cannot be written: {0}")]
    Unwritable(String),
    /// A sealed blob does not open under its context.
    #[error("a sealed value does not open: {0}")]
    Sealed(&'static str),
    #[error("secret {0:?} is not set; set it with `toshi secret set {0}`")]
    NoSecret(String),
    /// The service's own error; its text goes to the log only.
    #[error("{service} failed: {detail}")]
    Aws {
        service: &'static str,
        detail: String,
        code: Option<String>,
    },
}

impl StoreError {
    pub(crate) fn decode(error: impl std::fmt::Display) -> Self {
        Self::Unreadable(error.to_string())
    }

    pub(crate) fn encode(error: impl std::fmt::Display) -> Self {
        Self::Unwritable(error.to_string())
    }

    pub(crate) fn aws<E>(error: E) -> Self
    where
        E: std::error::Error + ProvideErrorMetadata,
    {
        Self::service("DynamoDB", error)
    }

    pub(crate) fn service<E>(service: &'static str, error: E) -> Self
    where
        E: std::error::Error + ProvideErrorMetadata,
    {
        let code = error.code().map(ToOwned::to_owned);
        Self::Aws {
            service,
            detail: DisplayErrorContext(error).to_string(),
            code,
        }
    }
}
