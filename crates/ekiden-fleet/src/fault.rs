//! What can go wrong in a fleet.

use std::error::Error;
use std::io;

use ekiden_agent::child::SpawnError;
use ekiden_core::text::{in_full, one_line};
use ekiden_engine::EngineError;
use temporalio_client::errors::{ClientConnectError, WorkflowInteractionError};
use tonic::{Code, Status};

use crate::Failure;

/// The longest message of the server that is shown.
const SAID_CHARS: usize = 300;

/// Why a stage stops that continues on another worker.
pub(crate) const LEAVES: &str = "its worker leaves";

#[derive(Debug, thiserror::Error)]
pub(crate) enum Fault {
    #[error("git {command}: {said}")]
    Git { command: String, said: String },
    /// It may come back at any time.
    #[error("cannot {what} the remote: {said}")]
    Remote { what: &'static str, said: String },
    /// The result of a stage cannot be passed on, and another try would fail the same way. It stays where
    /// it is.
    #[error("{0}")]
    Kept(String),
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
    /// Nobody whom this worker trusts approved what it would run.
    #[error("{0}")]
    Untrusted(String),
    /// A newer ekiden wrote what this one has to read.
    #[error("this is ekiden {ours}, and {0}", ours = env!("CARGO_PKG_VERSION"))]
    Older(String),
    /// The login, or the account's usage limit, is this worker's: another one may do the stage.
    #[error("{0}; it goes to another worker")]
    NoAgent(String),
    /// It waited in vain for a slot of this worker.
    #[error("given back, since its worker has no free slot, or rests after a fault")]
    NoSlot,
    /// Nobody wants it any more, or the worker is leaving.
    #[error("cancelled")]
    Cancelled,
    /// Another worker has this stage now.
    #[error("another worker has taken over")]
    Taken,
    /// The follower will not see how it ends.
    #[error("{0}")]
    Lost(&'static str),
    #[error("the Temporal server does not answer: {}", of_server(.0).1)]
    Server(WorkflowInteractionError),
    #[error("cannot {0}")]
    Engine(#[from] EngineError),
}

/// How the server refused, if it did, and the last cause: those around it are in the words of libraries.
pub(crate) fn of_server(error: &(dyn Error + 'static)) -> (Option<Code>, String) {
    let mut cause = error;
    while let Some(next) = cause.source() {
        cause = next;
    }
    // These two do not pass it on.
    let status = if let Some(ClientConnectError::SystemInfoCallError(status)) = cause.downcast_ref()
    {
        Some(status)
    } else if let Some(WorkflowInteractionError::Rpc(status)) = cause.downcast_ref() {
        Some(status)
    } else {
        cause.downcast_ref::<Status>()
    };
    match status {
        Some(status) => (Some(status.code()), one_line(status.message(), SAID_CHARS)),
        None => (None, cause.to_string()),
    }
}

/// The server has no such run, or not even the namespace.
fn unknown_run(status: Status) -> Failure {
    if status.message().starts_with("Namespace") {
        return Failure::unreachable(status);
    }
    let text = "the Temporal server knows no such run; perhaps it has forgotten it";
    Failure::missing(text.to_owned())
}

/// What git asks for is not at the remote.
pub(crate) fn is_gone(said: &str) -> bool {
    said.contains("couldn't find remote ref")
}

impl From<WorkflowInteractionError> for Fault {
    fn from(error: WorkflowInteractionError) -> Self {
        Self::Server(error)
    }
}

impl Fault {
    pub(crate) fn io(what: &'static str) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Io { what, source }
    }

    /// A git command that contacts the remote failed. What was removed there does not come back; other
    /// faults are this machine's.
    pub(crate) fn of_remote(self, what: &'static str) -> Self {
        let Self::Git { said, .. } = &self else {
            return self;
        };
        let is_ours = ["No space left on device", ".lock'"]
            .iter()
            .any(|text| said.contains(text))
            && !said.contains("remote:");
        match is_gone(said) || is_ours {
            true => self,
            false => Self::Remote {
                what,
                said: said.clone(),
            },
        }
    }

    /// Whether another try would end the same way.
    pub(crate) fn is_final(&self) -> bool {
        matches!(self, Self::Untrusted(_) | Self::Kept(_))
    }

    /// The fault is in this machine or in the stage: another worker may succeed.
    pub(crate) fn is_of_machine(&self) -> bool {
        match self {
            Self::Git { .. }
            | Self::Spawn(_)
            | Self::Io { .. }
            | Self::Json(_)
            | Self::Refused(_)
            | Self::Engine(_) => true,
            Self::Remote { .. }
            | Self::Kept(_)
            | Self::Untrusted(_)
            | Self::Older(_)
            | Self::NoAgent(_)
            | Self::NoSlot
            | Self::Cancelled
            | Self::Taken
            | Self::Lost(_)
            | Self::Server(_) => false,
        }
    }

    /// Nothing has failed for good: the remote may come back, or another worker may succeed.
    pub(crate) fn is_away(&self) -> bool {
        matches!(
            self,
            Self::Remote { .. } | Self::Older(_) | Self::NoAgent(_)
        )
    }

    /// Fails the follower of a plan, unless the server or the remote may come back.
    pub(crate) fn for_good(self) -> Result<Self, Failure> {
        match self {
            Self::Server(WorkflowInteractionError::NotFound(status)) => Err(unknown_run(status)),
            Self::Lost(why) => Err(Failure::missing(why.to_owned())),
            Self::Engine(error) => Err(Failure::state(&error)),
            Self::Older(_) => Err(Failure::settings(in_full(&self))),
            Self::Json(_) => Err(Failure::bug(in_full(&self))),
            Self::Io { what, source } => Err(Failure::state(&EngineError::System { what, source })),
            Self::Server(_)
            | Self::Git { .. }
            | Self::Remote { .. }
            | Self::Kept(_)
            | Self::Spawn(_)
            | Self::Refused(_)
            | Self::Untrusted(_)
            | Self::NoAgent(_)
            | Self::NoSlot
            | Self::Cancelled
            | Self::Taken => Ok(self),
        }
    }
}
