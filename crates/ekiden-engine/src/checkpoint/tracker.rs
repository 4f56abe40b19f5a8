//! The one place where a checkpoint meets a tracker of issues.

use std::path::Path;

use ekiden_core::guard::checkpoint::CheckpointReason;
use ekiden_core::guard::document::IssueState;

/// Knows issues. Neither call may fail a checkpoint: what does not answer says so in its state, and what
/// cannot be written now is its own to write later.
pub trait Tracker {
    /// What it says of an issue.
    fn state(&self, issue: &str) -> IssueState;

    /// Tells an issue that a checkpoint was taken, and where its document is.
    fn note(&self, issue: &str, reason: CheckpointReason, document: &Path);
}

/// No tracker is configured.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoTracker;

impl Tracker for NoTracker {
    fn state(&self, _issue: &str) -> IssueState {
        IssueState::NoTracker
    }

    fn note(&self, _issue: &str, _reason: CheckpointReason, _document: &Path) {}
}
