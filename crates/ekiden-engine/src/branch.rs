//! Which branch a run works on.
//!
//! A branch that the user names is looked at before anything is created, and switched to under the
//! run's lock. Git itself refuses whatever would overwrite changes; nothing here forces it.

use ekiden_core::text::one_line;

use crate::commit::{under_way_in, under_way_question};
use crate::git::{self, GitError};
use crate::workspace::Workspace;

/// The most of git's own words that is told, in characters.
const WORDS_CHARS_MAX: usize = 160;

/// Where a repository's work tree stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Head {
    /// The branch that is checked out; none on a detached head.
    pub branch: Option<String>,
}

/// A run cannot work on a branch. Reads well after "cannot".
#[derive(Debug, thiserror::Error)]
pub enum BranchError {
    /// There are no branches here.
    #[error("work on branch `{name}`: the work dir lies in no git repository")]
    NoRepository {
        /// The branch.
        name: String,
    },
    /// Git takes no branch of this name.
    #[error("work on branch `{name}`: that cannot be a branch's name")]
    Name {
        /// The name.
        name: String,
    },
    /// It is not safe, or not possible, to switch.
    #[error("switch to branch `{name}`: {why}")]
    Refused {
        /// The branch.
        name: String,
        /// Why not.
        why: String,
    },
}

/// Where a work dir's repository stands, as far as git can tell.
#[must_use]
pub fn head(workspace: &Workspace) -> Head {
    let branch = git::ask(&workspace.dir, &["symbolic-ref", "--quiet", "--short", "HEAD"]);
    Head { branch: branch.ok().map(|name| name.trim().to_owned()) }
}

/// What a plan's stages start from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Base {
    /// The commit that is checked out.
    pub commit: String,
    /// Files that git knows and that have changes.
    pub changed: Vec<String>,
}

/// What a plan's stages start from; nothing in a repository without a commit.
#[must_use]
pub fn base(workspace: &Workspace) -> Option<Base> {
    let ask = |args: &[&str]| git::ask(&workspace.dir, args);
    let commit = ask(&["rev-parse", "--verify", "--quiet", "HEAD^{commit}"]).ok()?.trim().to_owned();
    let changed = ask(&["diff", "--name-only", "-z", "HEAD"]).unwrap_or_default();
    let changed = changed.split('\0').filter(|file| !file.is_empty()).map(str::to_owned).collect();
    Some(Base { commit, changed })
}

/// Whether a branch is the repository's default one, as far as can be told without the network: the
/// one that the remote had at the last fetch, else the one that new repositories begin with, else by
/// its name.
#[must_use]
pub fn is_default(workspace: &Workspace, branch: &str) -> bool {
    let ask = |args: &[&str]| git::ask(&workspace.dir, args).ok().map(|text| text.trim().to_owned());
    if let Some(head) = ask(&["symbolic-ref", "--quiet", "refs/remotes/origin/HEAD"]) {
        return head.strip_prefix("refs/remotes/origin/") == Some(branch);
    }
    ask(&["config", "--get", "init.defaultBranch"]).as_deref() == Some(branch)
        || matches!(branch, "main" | "master")
}

/// Looks whether a run can work on a branch, and changes nothing.
///
/// # Errors
///
/// If it cannot: see [`BranchError`].
///
/// # Panics
///
/// Within a runtime, since it asks git and waits.
pub fn check(workspace: &Workspace, name: &str) -> Result<(), BranchError> {
    let (dir, named) = (&workspace.dir, name.to_owned());
    if workspace.git.is_none() {
        return Err(BranchError::NoRepository { name: named });
    }
    // What git would expand, such as `@{-1}`, is no name either.
    let checked = git::ask(dir, &["check-ref-format", "--branch", name]);
    if checked.is_err() || checked.is_ok_and(|text| text.trim_end() != name) {
        return Err(BranchError::Name { name: named });
    }
    if head(workspace).branch.as_deref() == Some(name) {
        return Ok(());
    }
    match in_the_way(workspace, name) {
        Ok(None) => Ok(()),
        Ok(Some(why)) => Err(BranchError::Refused { name: named, why }),
        Err(error) => Err(BranchError::Refused { name: named, why: words(&error) }),
    }
}

/// Switches to a branch, and creates it if there is none.
///
/// # Errors
///
/// If git refuses; then nothing has changed.
pub(crate) fn switch(workspace: &Workspace, name: &str) -> Result<(), BranchError> {
    if head(workspace).branch.as_deref() == Some(name) {
        return Ok(());
    }
    let refused = |error: GitError| BranchError::Refused { name: name.to_owned(), why: words(&error) };
    let exists = target(workspace, name).map_err(refused)?.is_some();
    let how = if exists { "--guess" } else { "--create" };
    git::ask(&workspace.dir, &["switch", "--quiet", how, name]).map(|_| ()).map_err(refused)
}

/// The branch as it is here, or as a remote has it.
fn target(workspace: &Workspace, name: &str) -> Result<Option<String>, GitError> {
    let (here, remote) = (format!("refs/heads/{name}"), format!("refs/remotes/*/{name}"));
    let found = git::ask(&workspace.dir, &["for-each-ref", "--format=%(refname)", &here, &remote])?;
    Ok(found.lines().next().map(str::to_owned))
}

/// Why git would not switch.
fn in_the_way(workspace: &Workspace, name: &str) -> Result<Option<String>, GitError> {
    let ask = |args: &[&str]| git::ask(&workspace.dir, args);
    if let Some(what) = under_way_in(&ask(&under_way_question())?) {
        return Ok(Some(format!("{what} is under way")));
    }
    let Some(target) = target(workspace, name)? else { return Ok(None) };
    if let Some(place) = elsewhere(&ask(&["worktree", "list", "--porcelain"])?, &target) {
        return Ok(Some(format!("it is checked out in {place}")));
    }
    if ask(&["rev-parse", "--quiet", "--verify", "HEAD"]).is_err() {
        return Ok(None);
    }
    // The index may think of files as changed whose times alone are; a look at the status mends that.
    ask(&["status", "--porcelain", "--untracked-files=no"])?;
    match ask(&["read-tree", "--dry-run", "-m", "-u", "HEAD", &target]) {
        Ok(_) => Ok(None),
        Err(error) => Ok(Some(words(&error))),
    }
}

/// The worktree in which a branch is checked out. The answer holds a paragraph for each.
fn elsewhere<'a>(worktrees: &'a str, branch: &str) -> Option<&'a str> {
    let line = format!("branch {branch}");
    let mut holding = worktrees.split("\n\n").filter(|worktree| worktree.lines().any(|said| said == line));
    holding.next()?.lines().find_map(|said| said.strip_prefix("worktree "))
}

/// What git said; where it names a file that is in the way, that.
fn words(error: &GitError) -> String {
    let GitError::Failed { message, .. } = error else { return crate::error::in_full(error) };
    match message.split('\'').collect::<Vec<_>>()[..] {
        [_, file, rest] if rest.contains("not uptodate") || rest.contains("overwritten") => {
            format!("it would overwrite {file}, which is not committed")
        }
        _ => one_line(message.trim_start_matches("error: ").trim_start_matches("fatal: "), WORDS_CHARS_MAX),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // shows: RUN-17
    #[test]
    fn what_is_in_the_way_is_told_in_plain_words() {
        let said = |message: &str| {
            words(&GitError::Failed { command: "read-tree".to_owned(), message: message.to_owned() })
        };
        let plain = "it would overwrite src/a b.rs, which is not committed";
        assert_eq!(said("error: Entry 'src/a b.rs' not uptodate. Cannot merge."), plain);
        let untracked = "error: Untracked working tree file 'src/a b.rs' would be overwritten by merge.";
        assert_eq!(said(untracked), plain);
        assert_eq!(
            said("fatal: 'x' is already used by worktree at '/y'"),
            "'x' is already used by worktree at '/y'"
        );
    }

    // shows: RUN-17
    #[test]
    fn a_branch_that_another_worktree_has_is_found_there() {
        let list =
            "worktree /p\nHEAD aaa\nbranch refs/heads/main\n\nworktree /q r\nHEAD bbb\nbranch refs/heads/x\n";
        assert_eq!(elsewhere(list, "refs/heads/x"), Some("/q r"));
        assert_eq!(elsewhere(list, "refs/heads/y"), None);
    }
}
