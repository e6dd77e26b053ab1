//! The two generations of the tool protocol.

use serde::{Deserialize, Serialize};

/// How a server speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Era {
    /// `initialize` first; what follows belongs to it, often by a session.
    #[serde(rename = "2025-11-25")]
    Handshake,
    /// Every request stands alone.
    #[serde(rename = "2026-07-28")]
    Stateless,
}

impl Era {
    pub const fn other(self) -> Self {
        match self {
            Self::Handshake => Self::Stateless,
            Self::Stateless => Self::Handshake,
        }
    }
}

/// What the catalogue says of the servers of a type.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub enum EraRule {
    #[serde(rename = "2025-11-25")]
    Handshake,
    #[serde(rename = "2026-07-28")]
    Stateless,
    /// Each connection finds out, and keeps what it found.
    #[serde(rename = "auto")]
    Auto,
}

impl EraRule {
    /// The era, where it is not to be found out.
    pub const fn fixed(self) -> Option<Era> {
        match self {
            Self::Handshake => Some(Era::Handshake),
            Self::Stateless => Some(Era::Stateless),
            Self::Auto => None,
        }
    }
}
