//! What a program saw of an attempt, for a rescue.

use serde::{Deserialize, Serialize};

use crate::limits;
use crate::prompt::FailedCommand;

/// The last observations of an attempt. They are bounded where they are collected.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Traces {
    /// The last file written, with the tool.
    pub last_edit: Option<String>,
    pub last_call: Option<String>,
    pub last_words: Option<String>,
    /// The last commands that succeeded.
    pub succeeded: Vec<String>,
    /// The last commands that failed, with their error.
    pub failed: Vec<FailedCommand>,
    /// Rules that would have allowed the calls that the agent's own permissions refused.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub denied: Vec<String>,
}

impl Traces {
    /// Adds what a later attempt at the same session left. Only the last attempt shows what is refused: a person may have
    /// allowed since what was refused before.
    pub(crate) fn add(&mut self, later: &Self) {
        let last = |kept: &mut Option<String>, later: &Option<String>| {
            if later.is_some() {
                kept.clone_from(later);
            }
        };
        last(&mut self.last_edit, &later.last_edit);
        last(&mut self.last_call, &later.last_call);
        last(&mut self.last_words, &later.last_words);
        append(
            &mut self.succeeded,
            &later.succeeded,
            limits::RESCUE_SUCCEEDED_MAX,
        );
        append(&mut self.failed, &later.failed, limits::RESCUE_FAILED_MAX);
        self.denied.clone_from(&later.denied);
    }
}

/// Appends, and forgets the oldest above `most`.
fn append<T: Clone>(kept: &mut Vec<T>, later: &[T], most: usize) {
    kept.extend_from_slice(later);
    kept.drain(..kept.len().saturating_sub(most));
}
