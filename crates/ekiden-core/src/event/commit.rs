//! What came of a commit.

use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Commit {
    Made {
        id: String,
        files: u32,
        /// The branch that it is on, or `HEAD`, if another was checked out at the start.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        elsewhere: Option<String>,
        /// Files that stay out because they had changes at the start, and were changed since, or cannot be read, and
        /// submodules that are behind; directories, with a slash at the end, that have too many new files or are
        /// repositories.
        left_out: Vec<String>,
    },
    /// A branch other than the user's is checked out: nothing is committed there.
    Elsewhere {
        /// The branch that the user named.
        branch: String,
        /// What is checked out; nothing on a detached head.
        found: Option<String>,
    },
    Nothing {
        left_out: Vec<String>,
    },
    /// A hook of the repository refused it. `tail` is as below.
    Refused {
        tail: String,
    },
    /// Git made no commit, for another reason.
    Failed {
        error: String,
        /// The end of the output of git and the repository's hooks.
        tail: String,
    },
    /// The run was stopped meanwhile, so there is no commit.
    Cancelled,
}
