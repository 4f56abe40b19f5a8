//! The branch a run works on.
//!
//! A branch that the user names is checked before anything is created. The switch happens under the run's lock.
//! Git itself refuses to overwrite changes, and nothing here forces it.
//!
//! Everything here blocks on git, so it panics within a runtime.

use std::path::Path;

use ekiden_core::text::{in_full, one_line};

use super::status::under_way;
use super::{GitError, ask};
use crate::workspace::Workspace;

/// Prints a branch or another ref that contains the checked-out commit, if there is one.
pub(crate) const ON_A_REF: &str = "for-each-ref --count=1 --contains=HEAD";
/// How much of git's own message is shown, in characters.
const WORDS_CHARS_MAX: usize = 160;

/// A run cannot work on a branch. Reads well after "cannot".
#[derive(Debug, thiserror::Error)]
pub enum BranchError {
    #[error("work on branch `{name}`: the work dir is not in a git repository")]
    NoRepository { name: String },
    #[error("work on branch `{name}`: that cannot be a branch's name")]
    Name { name: String },
    /// It is not safe, or not possible, to switch.
    #[error("switch to branch `{name}`: {why}")]
    Refused { name: String, why: String },
    /// Git failed, or took too long.
    #[error("tell what is committed here: {why}")]
    Unknown { why: String },
}

impl From<GitError> for BranchError {
    fn from(error: GitError) -> Self {
        Self::Unknown {
            why: in_full(&error),
        }
    }
}

/// What a plan's stages start from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Base {
    pub commit: String,
    /// Files that git knows and that have changes.
    pub changed: Vec<String>,
}

/// A branch for git, which takes a short name for a tag if there is one.
pub(crate) fn full_name(branch: &str) -> String {
    format!("refs/heads/{branch}")
}

/// The checked-out branch; none on a detached head.
pub fn current(workspace: &Workspace) -> Option<String> {
    line(&workspace.dir, "symbolic-ref --quiet --short HEAD", &[])
}

/// What a plan's stages start from; none without a repository, or in one without a commit.
pub fn base(workspace: &Workspace) -> Result<Option<Base>, BranchError> {
    if workspace.git.is_none() {
        return Ok(None);
    }
    let dir = &workspace.dir;
    let commit = match ask(dir, "rev-parse --verify --quiet HEAD", &[]) {
        Err(GitError::Failed { code: 1, .. }) => return Ok(None),
        commit => commit?.trim_end().to_owned(),
    };
    let changed = ask(dir, "diff --name-only -z HEAD --", &[])?;
    let changed = changed.split_terminator('\0').map(str::to_owned).collect();
    Ok(Some(Base { commit, changed }))
}

/// The tracked ones among these files. Does not ask git about files outside the repository.
pub fn tracked<'p>(
    workspace: &Workspace,
    files: &[&'p Path],
) -> Result<Vec<&'p Path>, BranchError> {
    let mut known = Vec::new();
    let Some(git) = &workspace.git else {
        return Ok(known);
    };
    let depth = Path::new(&git.prefix).components().count();
    let top = workspace.dir.ancestors().nth(depth);
    for file in files {
        let dir = file.parent().and_then(|dir| dir.canonicalize().ok());
        let Some((dir, name)) = dir.zip(file.file_name()) else {
            continue;
        };
        if top.is_some_and(|top| dir.starts_with(top)) {
            let args = [&*name.to_string_lossy()];
            let found = ask(&dir, "--literal-pathspecs ls-files -z --", &args);
            known.extend((!found?.is_empty()).then_some(*file));
        }
    }
    Ok(known)
}

/// Whether a branch is the repository's default one, as far as we know without the network: the one
/// that the remote had at the last fetch, else the one that new repositories begin with, else by its name.
pub fn is_default(workspace: &Workspace, branch: &str) -> bool {
    let dir = &workspace.dir;
    if let Some(head) = line(dir, "symbolic-ref --quiet refs/remotes/origin/HEAD", &[]) {
        return head.strip_prefix("refs/remotes/origin/") == Some(branch);
    }
    line(dir, "config --get init.defaultBranch", &[]).as_deref() == Some(branch)
        || matches!(branch, "main" | "master")
}

/// Checks whether a run can work on a branch. Changes nothing.
pub fn check(workspace: &Workspace, name: &str) -> Result<(), BranchError> {
    let named = name.to_owned();
    if workspace.git.is_none() {
        return Err(BranchError::NoRepository { name: named });
    }
    // A name that git would expand, such as `@{-1}`, is not a name either.
    let checked = line(&workspace.dir, "check-ref-format --branch", &[name]);
    if checked.as_deref() != Some(name) {
        return Err(BranchError::Name { name: named });
    }
    if current(workspace).as_deref() == Some(name) {
        return Ok(());
    }
    let obstacle = obstacle(&workspace.dir, name);
    match obstacle.unwrap_or_else(|error| Some(words(&error))) {
        None => Ok(()),
        Some(why) => Err(BranchError::Refused { name: named, why }),
    }
}

/// A branch of this name exists, here or on a remote as last fetched.
pub fn exists(workspace: &Workspace, name: &str) -> bool {
    target(&workspace.dir, name).is_ok_and(|found| found.is_some())
}

/// Pushes a branch to `origin`, never by force. The error says why not, in git's words.
pub fn push(dir: &Path, branch: &str) -> Result<(), String> {
    let to = format!("refs/heads/{branch}:refs/heads/{branch}");
    // Nobody is there to answer a password prompt.
    let quiet = "-c core.askPass=true -c credential.interactive=false push --quiet origin";
    // A relative address of `origin` is relative to the main worktree, which comes first.
    let trees = line(dir, "worktree list --porcelain", &[]).unwrap_or_default();
    let main = trees.lines().next();
    let main = main.and_then(|tree| tree.strip_prefix("worktree "));
    ask(main.map_or(dir, Path::new), quiet, &[&to])
        .map(drop)
        .map_err(|error| words(&error))
}

/// Ensures that a worktree is at this place, with this commit checked out and no branch. One in which nothing
/// ran is repaired. `--force` twice replaces a worktree that git knows and that is gone.
pub fn add_worktree(dir: &Path, tree: &Path, commit: &str) -> Result<(), String> {
    let added = || {
        let path = tree.to_string_lossy();
        if !tree.join(".git").exists() {
            let add = "worktree add --quiet --detach --force --force";
            ask(dir, add, &[&path, commit])?;
        }
        ask(tree, "checkout --quiet --force --detach", &[commit])
    };
    match added() {
        // A hook that fails after a checkout makes the command fail, not the checkout.
        Err(_) if is_at(tree, commit) => Ok(()),
        added => added.map(drop).map_err(|error| words(&error)),
    }
}

/// Whether this commit is checked out there, completely.
fn is_at(tree: &Path, commit: &str) -> bool {
    line(tree, "rev-parse HEAD", &[]).as_deref() == Some(commit)
        && ask(tree, "diff-index --quiet HEAD --", &[]).is_ok()
}

/// Removes a worktree, unless it has uncommitted changes, or commits that are on no branch. Its branch stays.
pub fn remove_worktree(dir: &Path, tree: &Path) -> Result<(), String> {
    let said = |words: &str| ask(tree, words, &[]).map_err(|error| self::words(&error));
    if said(ON_A_REF)?.is_empty() {
        return Err("it has commits that are on no branch".to_owned());
    }
    // Git would refuse, and advise to lose it.
    if !said("status --porcelain")?.is_empty() {
        let tree = tree.display();
        return Err(format!(
            "something in it is not committed: `git -C {tree} status`"
        ));
    }
    let removed = ask(dir, "worktree remove", &[&tree.to_string_lossy()]);
    removed.map(drop).map_err(|error| words(&error))
}

/// Switches to a branch, and creates it if it does not exist. If a run's work ended on it with the commit `last`, it is
/// an error that it does not exist.
pub(crate) fn switch(
    workspace: &Workspace,
    name: &str,
    last: Option<&str>,
) -> Result<(), BranchError> {
    if current(workspace).as_deref() == Some(name) {
        return Ok(());
    }
    let switched = target(&workspace.dir, name).and_then(|target| {
        let how = match (target, last) {
            (Some(_), _) => "--guess",
            (None, None) => "--create",
            (None, Some(last)) => {
                return GitError::refused(format!(
                    "it is gone; `git branch {name} {last}` brings it back"
                ));
            }
        };
        ask(
            &workspace.dir,
            "switch --quiet --no-overwrite-ignore",
            &[how, name],
        )
    });
    match switched {
        // Only a hook failed, after the switch.
        Err(_) if current(workspace).as_deref() == Some(name) => Ok(()),
        switched => switched.map(drop).map_err(|error| BranchError::Refused {
            name: name.to_owned(),
            why: words(&error),
        }),
    }
}

/// The branch as it is here, or as a remote has it.
fn target(dir: &Path, name: &str) -> Result<Option<String>, GitError> {
    let here = format!("refs/heads/{name}");
    let remote = format!("refs/remotes/*/{name}");
    let found = ask(dir, "for-each-ref --format=%(refname)", &[&here, &remote])?;
    // The first pattern also matches the branches below that name.
    let mut found = found.lines();
    let is_it = |found: &&str| *found == here || !found.starts_with("refs/heads/");
    Ok(found.find(is_it).map(str::to_owned))
}

/// Why git would not switch.
fn obstacle(dir: &Path, name: &str) -> Result<Option<String>, GitError> {
    let git_dir = ask(dir, "rev-parse --absolute-git-dir", &[])?;
    if let Some(what) = under_way(Path::new(git_dir.trim_end_matches('\n'))) {
        return Ok(Some(format!("{what} is under way")));
    }
    let Some(target) = target(dir, name)? else {
        return Ok(None);
    };
    if let Some(place) = elsewhere(&ask(dir, "worktree list --porcelain", &[])?, &target) {
        return Ok(Some(format!("it is checked out in {place}")));
    }
    if line(dir, "rev-parse --quiet --verify HEAD", &[]).is_none() {
        return Ok(None);
    }
    // The index may list files as changed when only their times changed; status refreshes it.
    ask(dir, "status --porcelain --untracked-files=no", &[])?;
    ask(dir, "read-tree --dry-run -m -u HEAD", &[&target]).map(|_| None)
}

/// The worktree in which a branch is checked out. The answer has a paragraph for each.
pub(crate) fn elsewhere<'a>(worktrees: &'a str, branch: &str) -> Option<&'a str> {
    let line = format!("branch {branch}");
    let mut paragraphs = worktrees.split("\n\n");
    let worktree = paragraphs.find(|worktree| worktree.lines().any(|said| said == line))?;
    worktree
        .lines()
        .find_map(|said| said.strip_prefix("worktree "))
}

/// An answer of one line; none if git has none.
fn line(dir: &Path, words: &str, args: &[&str]) -> Option<String> {
    ask(dir, words, args)
        .ok()
        .map(|text| text.trim_end().to_owned())
}

/// What git said; if it names a file that is in the way, that part.
fn words(error: &GitError) -> String {
    let GitError::Failed { said, .. } = error else {
        return in_full(error);
    };
    let is_fault = |line: &&str| !line.starts_with("hint:") && !line.starts_with("warning:");
    let lines = said.lines().filter(is_fault);
    // A refused push first says where to.
    let refused = lines.clone().find(|line| line.starts_with(" ! "));
    let message = refused.map_or_else(|| lines.collect::<Vec<_>>().join(" "), str::to_owned);
    match message.split('\'').collect::<Vec<_>>()[..] {
        [_, file, rest] if rest.contains("not uptodate") || rest.contains("overwritten") => {
            format!("it would overwrite {file}, which is not committed")
        }
        _ => {
            let message = message.trim_start_matches("error: ");
            one_line(message.trim_start_matches("fatal: "), WORDS_CHARS_MAX)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // shows: RUN-17
    #[test]
    fn what_is_in_the_way_is_told_in_plain_words() {
        let words = |said: &str| {
            words(&GitError::Failed {
                command: "read-tree".to_owned(),
                code: 128,
                said: said.to_owned(),
            })
        };
        let plain = "it would overwrite src/a b.rs, which is not committed";
        assert_eq!(
            words("error: Entry 'src/a b.rs' not uptodate. Cannot merge."),
            plain
        );
        let untracked =
            "error: Untracked working tree file 'src/a b.rs' would be overwritten by merge.";
        assert_eq!(words(untracked), plain);
        assert_eq!(
            words("fatal: 'x' is already used by worktree at '/y'"),
            "'x' is already used by worktree at '/y'"
        );
        let several =
            "hint: do this\nerror: these files would be overwritten:\n\ta1\nPlease move them.";
        assert_eq!(
            words(several),
            "these files would be overwritten: a1 Please move them."
        );
        let push = "To ../o.git\n ! [rejected]        x -> x (non-fast-forward)\nerror: failed";
        assert_eq!(words(push), "! [rejected] x -> x (non-fast-forward)");
    }

    // shows: RUN-17
    #[test]
    fn a_branch_that_another_worktree_has_is_found_there() {
        let list = "worktree /p\nHEAD aaa\nbranch refs/heads/main\n\nworktree /q r\nHEAD bbb\nbranch refs/heads/x\n";
        assert_eq!(elsewhere(list, "refs/heads/x"), Some("/q r"));
        assert_eq!(elsewhere(list, "refs/heads/y"), None);
    }
}
