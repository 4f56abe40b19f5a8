//! What every tracker can do.

use ekiden_core::issue::{Comment, Issue};
use ekiden_core::time::Timestamp;

use crate::{Fault, Markup, NewState};

/// The comment that a run keeps up to date.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LivingComment<'a> {
    /// Identifies the comment for good.
    pub key: &'a str,
    pub body: String,
    /// It did not exist before this time.
    pub since: Timestamp,
    /// An earlier version of it has arrived.
    pub is_there: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NewIssue<'a> {
    /// The same key creates no second one.
    pub key: &'a str,
    pub title: &'a str,
    pub text: &'a str,
    pub parent: Option<&'a str>,
    /// It did not exist before this time.
    pub since: Timestamp,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PullRequest<'a> {
    /// The write that asks for it.
    pub key: &'a str,
    pub branch: &'a str,
    pub title: &'a str,
    pub body: &'a str,
}

/// A tracker, or a part of one: a repository, a directory. `id` is an issue's id there.
///
/// Each write describes the wanted state: if that is reached already, it does nothing. What a tracker does
/// not have is left out, as `docs/trackers.md` says.
pub trait Tracker {
    fn markup(&self) -> Markup;
    /// Everything except its comments.
    fn issue(&self, id: &str) -> Result<Issue, Fault>;
    /// The newest comments, oldest first.
    fn comments(&self, id: &str) -> Result<Vec<Comment>, Fault>;
    /// Open issues, newest first: of one label or all, of one assignee or all, without texts, comments and
    /// children. A few hundred at most.
    fn find(&self, label: Option<&str>, assignee: Option<&str>) -> Result<Vec<Issue>, Fault>;
    fn put_comment(&self, id: &str, comment: &LivingComment<'_>) -> Result<(), Fault>;
    fn set_label(&self, id: &str, label: &str, is_set: bool) -> Result<(), Fault>;
    fn set_state(&self, id: &str, state: &NewState) -> Result<(), Fault>;
    /// The new issue's id.
    fn create(&self, new: &NewIssue<'_>) -> Result<String, Fault>;
    /// Makes sure that the branch has a pull request with this body. `push` brings the branch to where the
    /// pull request needs it.
    fn put_pull_request(
        &self,
        pull: &PullRequest<'_>,
        push: &dyn Fn() -> Result<(), Fault>,
    ) -> Result<(), Fault> {
        let _ = (pull, push);
        Err(Fault::refused("it has no pull requests"))
    }
    /// What the pull request of a branch waits for: failed checks are its text, reviewers' remarks are its
    /// comments.
    fn review(&self, branch: &str) -> Result<Issue, Fault> {
        Err(Fault::Missing(format!("a pull request of {branch}")))
    }
    /// The owner of the key, by one harmless request.
    fn check(&self) -> Result<String, Fault>;
}
