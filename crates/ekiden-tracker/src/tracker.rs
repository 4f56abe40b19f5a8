//! What any tracker can do.

use ekiden_core::issue::{Comment, Issue};
use ekiden_core::time::Timestamp;

use crate::{Fault, Markup, NewState};

/// The comment that a run keeps up to date.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LivingComment<'a> {
    /// Known by this for good.
    pub key: &'a str,
    /// All of it, as it shall be.
    pub body: String,
    /// It was not there before this time.
    pub since: Timestamp,
    /// A version of it arrived before.
    pub is_there: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NewIssue<'a> {
    /// The same key makes no second one.
    pub key: &'a str,
    pub title: &'a str,
    pub text: &'a str,
    pub parent: Option<&'a str>,
    /// It was not there before this time.
    pub since: Timestamp,
}

/// The pull request of a branch.
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
/// Each write says what shall be: done already, it does nothing. What a tracker does not have is left out, as `docs/trackers.md` says.
pub trait Tracker {
    /// In which notation texts are read there.
    fn markup(&self) -> Markup;
    /// All but its comments.
    fn issue(&self, id: &str) -> Result<Issue, Fault>;
    /// The newest, oldest first.
    fn comments(&self, id: &str) -> Result<Vec<Comment>, Fault>;
    /// Open issues, of one label or all, of one assignee or all, without texts, comments and children, newest first. Bounded: some hundreds.
    fn find(&self, label: Option<&str>, assignee: Option<&str>) -> Result<Vec<Issue>, Fault>;
    fn put_comment(&self, id: &str, comment: &LivingComment<'_>) -> Result<(), Fault>;
    fn set_label(&self, id: &str, label: &str, is_set: bool) -> Result<(), Fault>;
    fn set_state(&self, id: &str, state: &NewState) -> Result<(), Fault>;
    /// The new issue's id.
    fn create(&self, new: &NewIssue<'_>) -> Result<String, Fault>;
    /// There is a pull request of the branch, with this body. `push` brings the branch to where it is pulled from.
    fn put_pull_request(
        &self,
        pull: &PullRequest<'_>,
        push: &dyn Fn() -> Result<(), Fault>,
    ) -> Result<(), Fault> {
        let _ = (pull, push);
        Err(Fault::refused("it has no pull requests"))
    }
    /// What the pull request of a branch waits for: checks that failed are its text, what reviewers say are its comments.
    fn review(&self, branch: &str) -> Result<Issue, Fault> {
        Err(Fault::Missing(format!("a pull request of {branch}")))
    }
    /// Who the key belongs to, by one harmless request.
    fn check(&self) -> Result<String, Fault>;
}
