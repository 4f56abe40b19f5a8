//! What can go wrong in a fleet.

use std::io;

use ekiden_agent::child::SpawnError;

#[derive(Debug, thiserror::Error)]
pub(crate) enum Fault {
    #[error("git {command}: {said}")]
    Git { command: String, said: String },
    #[error("run a program")]
    Spawn(#[from] SpawnError),
    #[error("{what}")]
    Io {
        what: &'static str,
        source: io::Error,
    },
    #[error("read or write JSON")]
    Json(#[from] serde_json::Error),
    #[error("{0}")]
    Refused(String),
    /// What it would run was not approved by anybody whom this worker trusts.
    #[error("{0}")]
    Untrusted(String),
    /// Another worker has this stage now.
    #[error("another worker has taken over")]
    Taken,
}

impl Fault {
    pub(crate) fn io(what: &'static str) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Io { what, source }
    }
}
