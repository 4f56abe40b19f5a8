//! What people write in the issue while a run works on it: each new comment reaches the next session.

use ekiden_core::hash::sha256_hex;
use ekiden_core::ids::{MessageId, RunId};
use ekiden_core::issue::{Comment, IssueRef};
use ekiden_core::limits;
use ekiden_core::prompt::comment_note;
use ekiden_core::steering::{Steered, Steering};
use ekiden_core::time::Timestamp;
use ekiden_engine::steering::Sender;
use ekiden_engine::workspace::Workspace;
use ekiden_tracker::of_people;

use super::Trackers;
use crate::settings::table;

#[derive(Clone)]
pub(super) struct Listener {
    pub(super) workspace: Workspace,
    pub(super) issue: IssueRef,
    pub(super) run: RunId,
    /// Earlier comments are in the task.
    pub(super) since: Timestamp,
}

impl Listener {
    /// Asks the tracker once, and sends new comments to the run. What fails is tried again at the next poll.
    pub(super) fn look(&self, trackers: &Trackers) {
        for message in self.messages(trackers) {
            let sender = Sender::to(&self.workspace, &self.run);
            let _ = sender.send(&message, limits::STEER_PATIENCE);
        }
    }

    /// The comments since then, as messages to the run.
    pub(super) fn messages(&self, trackers: &Trackers) -> Vec<Steered> {
        let tracker = trackers.open(&self.issue);
        let comments = tracker.and_then(|tracker| tracker.comments(&self.issue.id));
        let trust = trackers.get(&table::TRACKER_TRUST).unwrap_or_default();
        let comments = of_people(comments.unwrap_or_default());
        let new = comments.iter().filter(|comment| self.is_new(comment));
        let messages = new.filter_map(|comment| {
            // The same comment has the same id, which the run remembers for good.
            let id = format!("{}{}{}", comment.author, comment.at, comment.text);
            let words = comment_note(comment, &trust);
            Some(Steered {
                message: MessageId::try_from(sha256_hex(id.as_bytes())).ok()?,
                from: None,
                steering: Steering::Instruct { words },
            })
        });
        messages.collect()
    }

    fn is_new(&self, comment: &Comment) -> bool {
        let at = Timestamp::parse_rfc3339(&comment.at);
        at.is_some_and(|at| at > self.since)
    }
}
