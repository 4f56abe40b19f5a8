//! Why a request to a tracker failed.

use ekiden_core::text::one_line;
use ekiden_core::time::Millis;

/// How much of a tracker's own message is shown, in characters.
const SAID_CHARS_MAX: usize = 160;

/// Reads well after the tracker's name and a colon. Never contains a credential or an address.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// The project's settings do not tell where its issues are.
    #[error("{0}")]
    Settings(String),
    /// Another try may work.
    #[error("no answer: {0}")]
    Unreachable(String),
    /// Another try may work: the tracker's server has a problem.
    #[error("it fails with {0}")]
    Failing(String),
    #[error("it takes no more requests for {wait}")]
    Limited { wait: Millis },
    #[error("there is no key: {0}")]
    NoKey(&'static str),
    /// What became of the user's program that prints the key.
    #[error("there is no key: {0}")]
    KeyCommand(String),
    #[error("it does not permit this: {0}")]
    NotPermitted(String),
    #[error("{0} is not there")]
    Missing(String),
    /// It understood the request and refuses it.
    #[error("it refuses: {0}")]
    Refused(String),
    #[error("its answer cannot be read: {0}")]
    Garbage(String),
}

impl Fault {
    pub(crate) fn garbage(what: &str) -> Self {
        Self::Garbage(one_line(what, SAID_CHARS_MAX))
    }

    pub(crate) fn refused(said: &str) -> Self {
        Self::Refused(said_by(said))
    }

    pub(crate) fn not_permitted(said: &str) -> Self {
        Self::NotPermitted(said_by(said))
    }
}

fn said_by(said: &str) -> String {
    match one_line(said, SAID_CHARS_MAX) {
        said if said.is_empty() => "it does not say why".to_owned(),
        said => said,
    }
}
