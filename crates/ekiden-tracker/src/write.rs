//! Writes as data: the wanted state of an issue.

use std::path::PathBuf;

use ekiden_core::issue::IssueRef;
use ekiden_core::time::Timestamp;
use ekiden_store::disk::DiskResult;
use ekiden_store::outbox::{Outbox, QueuedWrite};
use serde::{Deserialize, Serialize};

use crate::Entry;

/// A write as it is stored in the outbox.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Queued {
    pub v: u32,
    /// Identifies the write for good: the same key is written once.
    pub key: String,
    pub at: Timestamp,
    /// Its position among those of the same comment.
    pub order: u64,
    /// The project, whose settings say where trackers are, and with which key.
    pub dir: PathBuf,
    pub issue: IssueRef,
    pub write: Write,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Write {
    /// The living comment holds this entry.
    Entry {
        comment: String,
        /// How the comment begins.
        head: String,
        entry: Box<Entry>,
    },
    Label {
        name: String,
        is_set: bool,
    },
    State {
        state: NewState,
    },
    /// A sub-issue of this key exists, closed or as people left it.
    SubIssue {
        key: String,
        title: String,
        text: String,
        is_done: bool,
        /// It did not exist before this time.
        since: Timestamp,
    },
    /// The branch is there as it is here, and has a pull request.
    PullRequest {
        branch: String,
        title: String,
        body: String,
    },
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NewState {
    Named(String),
    /// The tracker's state for done.
    Done,
}

impl Queued {
    pub const VERSION: u32 = 1;

    /// Stores it in the outbox, durably. Returns whether it is new.
    pub fn queue(&self, outbox: &Outbox) -> DiskResult<bool> {
        outbox.queue(&self.key, &serde_json::to_vec(self).unwrap_or_default())
    }

    /// The stored write; `None` if a newer program wrote it, or it is damaged.
    pub fn of(kept: &QueuedWrite) -> Option<Self> {
        let queued: Self = serde_json::from_slice(&kept.bytes).ok()?;
        (queued.v <= Self::VERSION).then_some(queued)
    }

    /// The run or the watched session that it comes from. Its writes are in the order of `order`, even if the
    /// clock was set back between them.
    pub(crate) fn source(&self) -> &str {
        self.key.split('/').next().unwrap_or_default()
    }

    /// Comment, its head, and the entry, if it is one.
    pub(crate) fn entry(&self) -> Option<(&str, &str, &Entry)> {
        match &self.write {
            Write::Entry {
                comment,
                head,
                entry,
            } => Some((comment, head, entry)),
            Write::Label { .. }
            | Write::State { .. }
            | Write::SubIssue { .. }
            | Write::PullRequest { .. } => None,
        }
    }

    /// What it does, for people.
    pub fn in_words(&self) -> String {
        match &self.write {
            Write::Entry { entry, .. } => format!("comment: {}", entry.head),
            Write::Label { name, is_set: true } => format!("set label {name}"),
            Write::Label {
                name,
                is_set: false,
            } => format!("remove label {name}"),
            Write::State {
                state: NewState::Named(name),
            } => format!("move to {name}"),
            Write::State {
                state: NewState::Done,
            } => "close".to_owned(),
            Write::SubIssue {
                title,
                is_done: true,
                ..
            } => format!("close sub-issue {title}"),
            Write::SubIssue { title, .. } => format!("sub-issue {title}"),
            Write::PullRequest { title, .. } => format!("pull request: {title}"),
        }
    }
}
