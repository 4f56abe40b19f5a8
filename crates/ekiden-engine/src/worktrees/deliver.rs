//! Delivers the work of all stages: moves the user's branch forward if that overwrites nothing of theirs.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use ekiden_core::event::Delivery;
use ekiden_core::manifest::Isolation;
use ekiden_core::text::{in_full, shell_word};

use super::{Worktrees, no_worktrees};
use crate::git::branch::ON_A_REF;
use crate::git::flood::is_in;
use crate::git::status::{Entry, Scope, Status, under_way};
use crate::git::{Git, GitError, never};

/// Up to this many files in the way are named in the command; more are put into git's stash.
const ASIDE_MAX: usize = 5;

#[derive(Debug, Clone)]
pub(crate) struct DeliveryJob {
    /// The newest commit of the integration branch, once a stage is merged.
    pub(crate) integrated: Option<String>,
    /// Which effect of which run: it identifies processes that outlive the engine.
    pub(crate) mark: String,
    /// It was ordered before a crash, and may already have been done, wholly or in part.
    pub(crate) is_repeated: bool,
}

/// Moves the user's branch forward, or says why not, and removes what is no longer needed. The texts say
/// what is left over.
pub(crate) async fn deliver(trees: &Worktrees, job: &DeliveryJob) -> (Delivery, Vec<String>) {
    let delivery = match give(&trees.until(never()), job).await {
        Ok((branch, commit)) => Delivery::Given { branch, commit },
        Err(NotGiven { why, command }) => Delivery::Kept {
            branch: trees.paths.integration_branch(),
            why,
            command,
        },
    };
    let mut left_over = Vec::new();
    let is_given = matches!(delivery, Delivery::Given { .. });
    if let Err(error) = clear_away(trees, is_given, &mut left_over).await {
        left_over.push(format!("cannot remove all worktrees: {}", in_full(&error)));
    }
    (delivery, left_over)
}

/// Why the user's branch was left as it is, and the command that brings in what all stages made.
struct NotGiven {
    why: String,
    command: String,
}

/// Moves the user's branch forward. A stop waits for that: killing git in the middle would leave their
/// checkout between two commits.
async fn give(trees: &Worktrees, job: &DeliveryJob) -> Result<(Option<String>, String), NotGiven> {
    let (git, integration) = (
        trees.users_git().marked(&job.mark),
        trees.paths.integration_branch(),
    );
    let failed = |error: GitError| NotGiven {
        why: in_full(&error),
        command: format!("git merge {integration}"),
    };
    let Isolation::Worktrees { base, branch, .. } = &trees.isolation else {
        return Err(failed(no_worktrees()));
    };
    let status = Status::read(&git, Scope::Everything)
        .await
        .map_err(failed)?;
    let head = status.head.as_deref().unwrap_or_default();
    let [tip] = trees.branches([&integration]).await.map_err(failed)?;
    let known = job.integrated.as_deref();
    let is_given = match known {
        Some(known) => trees.is_ancestor(known, head).await,
        None => true,
    };
    if is_given && tip.is_none() {
        // It was delivered and cleaned up just before a crash.
        return Ok((branch.clone(), head.to_owned()));
    }
    let tip = trees.integration_tip(tip, known).await;
    let tip = tip.map_err(failed)?.commit;
    if status.branch == *branch && head == tip {
        return Ok((branch.clone(), tip));
    }
    if let Some(what) = git.git_dir().and_then(|dir| under_way(&dir)) {
        return Err(failed(GitError::Refused(format!(
            "{what} is under way, which has to end first"
        ))));
    }
    let has_changes = has_changes(&status);
    let moved = if status.branch != *branch {
        GitError::refused("another branch is checked out now")
    } else if head != base {
        GitError::refused("it has new commits since the run began")
    } else if has_changes {
        GitError::refused("there are changes that are not committed")
    } else {
        fast_forward(&git, &tip, branch.as_deref()).await
    };
    let Err(error) = moved else {
        return Ok((branch.clone(), tip));
    };
    let why = in_full(&error);
    // It may have been interrupted between two files.
    if job.is_repeated && status.branch == *branch && head == base {
        let command = format!("git reset --hard {integration}");
        let why = format!("`{command}` completes it, if nothing in the way is yours: {why}");
        return Err(NotGiven { why, command });
    }
    let new = "diff --name-only --no-renames --diff-filter=A -z";
    let new = git.run(new, &[&base[..], &tip]).await.unwrap_or_default();
    let top = git.top().await.map_err(failed)?;
    let mut aside = in_the_way(&status, new.split_terminator('\0'));
    aside.extend(ignored(&git, &top, &new).await);
    let aside = seen_from(&trees.paths.workspace.dir, &top, &aside);
    let left = branch.as_ref().filter(|_| status.branch != *branch);
    let switch = existing(trees, left).await.map_err(failed)?;
    Err(NotGiven {
        why,
        command: bring(&integration, switch, &aside, has_changes),
    })
}

/// The branch, unless a person has renamed or deleted it.
async fn existing<'a>(
    trees: &Worktrees,
    branch: Option<&'a String>,
) -> Result<Option<&'a String>, GitError> {
    let Some(name) = branch else { return Ok(None) };
    let [found] = trees.branches([name]).await?;
    Ok(branch.filter(|_| found.is_some()))
}

/// Paths of a repository, relative to the work dir if they are in it.
fn seen_from(dir: &Path, top: &Path, paths: &BTreeSet<String>) -> Vec<PathBuf> {
    let paths = paths.iter().map(|path| top.join(path));
    let seen = |path: PathBuf| path.strip_prefix(dir).map_or(path.clone(), Path::to_owned);
    paths.map(seen).collect()
}

/// The command that brings in a branch and keeps the user's own files beside it.
fn bring(
    integration: &str,
    switch: Option<&String>,
    aside: &[PathBuf],
    has_changes: bool,
) -> String {
    // We do not know a name that is not UTF-8, so we cannot give it to a shell.
    let is_known = |path: &PathBuf| !path.to_string_lossy().contains(char::REPLACEMENT_CHARACTER);
    let fits = aside.len() <= ASIDE_MAX && aside.iter().all(is_known);
    let stash = (!fits).then(|| "git stash --include-untracked".to_owned());
    let aside = aside.iter().filter(|_| fits).map(|path| set_aside(path));
    let switch = switch.map(|branch| format!("git switch {}", shell_word(branch)));
    // The command may be typed later, when there are no changes: a `git stash pop` would take an older entry.
    let autostash = if has_changes { "--autostash " } else { "" };
    let merge = format!("git merge {autostash}{integration}");
    let steps = stash.into_iter().chain(aside).chain(switch);
    steps.chain([merge]).collect::<Vec<String>>().join(" && ")
}

fn has_changes(status: &Status) -> bool {
    let mut entries = status.entries.iter();
    entries.any(|entry| !entry.is_untracked() && !entry.is_only_inside)
}

/// The user's own untracked files and directories that are where these files belong.
fn in_the_way<'a>(status: &Status, new: impl Iterator<Item = &'a str>) -> BTreeSet<String> {
    let entries = status.entries.iter().filter(|entry| entry.is_untracked());
    let untracked: BTreeSet<String> = entries.map(Entry::shown).collect();
    let mut found = BTreeSet::new();
    for path in new {
        let within = format!("{path}/");
        let is_within = |other: &String| other.starts_with(&within);
        if untracked
            .range(within.clone()..)
            .next()
            .is_some_and(is_within)
        {
            found.insert(path.to_owned());
        }
        let itself_and_above = Path::new(path).ancestors().filter_map(Path::to_str);
        let above = itself_and_above.filter(|above| untracked.contains(*above));
        found.extend(above.map(str::to_owned));
    }
    found
}

/// The user's ignored files that are in the way of these files.
async fn ignored(git: &Git, top: &Path, new: &str) -> Vec<String> {
    let is_file = |path: &&Path| {
        let found = top.join(path).symlink_metadata();
        found.is_ok_and(|found| !found.is_dir())
    };
    let new = new.split_terminator('\0').map(Path::new);
    let there = new.flat_map(Path::ancestors).filter(is_file);
    let there: BTreeSet<&str> = there.filter_map(Path::to_str).collect();
    let there: Vec<&str> = there.into_iter().collect();
    let ignored = git.within(top.to_owned()).ignored(&there).await;
    ignored.into_iter().map(|(path, _)| path).collect()
}

/// The command that renames a file to a name that is free.
fn set_aside(path: &Path) -> String {
    let path = path.to_string_lossy();
    // Not an option.
    let path = match path.starts_with('-') {
        true => format!("./{path}").into(),
        false => path,
    };
    let (from, to) = (
        shell_word(&path),
        shell_word(&format!("{path}.before-merge")),
    );
    format!("mv -n {from} {to}")
}

/// Moves a clean checkout forward and nothing else, whatever the user's git settings do on a merge.
pub(super) async fn fast_forward(
    git: &Git,
    to: &str,
    branch: Option<&str>,
) -> Result<(), GitError> {
    let options = branch.map(|branch| format!("branch.{branch}.mergeOptions="));
    // A name with `=` cannot be passed like this.
    let options = options.filter(|options| options.matches('=').count() == 1);
    let options = options.map(|options| format!("-c {options} "));
    let merge = format!(
        "-c advice.diverging=false {}merge --quiet --ff-only --no-overwrite-ignore --no-squash --commit --no-verify-signatures",
        options.unwrap_or_default()
    );
    let to_its_end = git.clone().until(never());
    to_its_end.long(&merge, &[to], b"").await?;
    match git.line("rev-parse HEAD", &[]).await? {
        head if head == to => Ok(()),
        head => GitError::refused(format!("git moved it to {head} and not to {to}")),
    }
}

/// Removes the worktrees and branches that are no longer needed. What is not on the integration branch
/// stays: a stage that was skipped may have done half its work.
async fn clear_away(
    trees: &Worktrees,
    is_given: bool,
    left_over: &mut Vec<String>,
) -> Result<(), GitError> {
    let git = trees.users_git();
    let integration = trees.paths.integration_branch();
    let prefix = trees.paths.integration_tree().ok_or_else(no_worktrees)?;
    let prefix = prefix.to_string_lossy().into_owned();
    let [tip] = trees.branches([&integration]).await?;
    let into = tip.map_or_else(|| "HEAD".to_owned(), |tip| tip.commit);
    let pattern = format!("refs/heads/{integration}*");
    let list = "for-each-ref --format=%(refname:lstrip=2) --merged";
    let merged = git.run(list, &[&into, &pattern]).await?;
    let mut needless: Vec<&str> = merged.lines().collect();
    let known = git.run("worktree list --porcelain", &[]).await?;
    let known = known
        .lines()
        .filter_map(|line| line.strip_prefix("worktree "));
    for path in known {
        // The rest is `-` and a stage, or nothing where merges are validated.
        let Some(stage) = path.strip_prefix(&prefix) else {
            continue;
        };
        let (branch, tree) = (format!("{integration}{stage}"), PathBuf::from(path));
        if !stage.is_empty()
            && (!needless.contains(&&branch[..]) || holds_work(trees, &tree, left_over).await)
        {
            needless.retain(|needless| *needless != branch);
            continue;
        }
        if let Err(error) = trees.remove_tree(&tree).await {
            let error = in_full(&error);
            left_over.push(format!("the worktree {path} is left over: {error}"));
        }
    }
    needless.retain(|branch| is_given || *branch != integration);
    if needless.is_empty() {
        return Ok(());
    }
    git.run("branch --quiet -D", &needless).await.map(drop)
}

/// It contains only files that the user has too.
fn is_lent(trees: &Worktrees, status: &Status) -> bool {
    let lent = trees.lent().among(&status.entries).unwrap_or_default();
    status.entries.iter().all(|entry| is_in(entry, &lent))
}

/// It may contain somebody's work that is not committed, or not on the branch.
async fn holds_work(trees: &Worktrees, tree: &Path, left_over: &mut Vec<String>) -> bool {
    // It is gone and only needs to be forgotten, or its removal was interrupted.
    if tree.symlink_metadata().is_err() || trees.is_half_removed(tree) {
        return false;
    }
    let (git, place) = (trees.git(tree), tree.display());
    match Status::read(&git, Scope::Everything).await {
        Ok(status) if !is_lent(trees, &status) => {
            left_over.push(format!(
                "the worktree {place} is kept: it has uncommitted files; {} removes it",
                removal(tree)
            ));
            return true;
        }
        Ok(status)
            if status.branch.is_none()
                && git
                    .run(ON_A_REF, &[])
                    .await
                    .is_ok_and(|refs| refs.is_empty()) =>
        {
            left_over.push(format!(
                "the worktree {place} is kept: it has commits that are on no branch; `git branch NAME` there \
                 keeps them"
            ));
            return true;
        }
        Ok(_) => {}
        Err(error) => {
            let error = in_full(&error);
            left_over.push(format!("the worktree {place} is left over: {error}"));
            return true;
        }
    }
    if let Some(submodule) = unfilled(trees, tree).await {
        left_over.push(format!(
            "the worktree {place} is kept: files were written in `{submodule}`, a submodule that nothing filled there, and git \
             commits none of them; {} removes it",
            removal(tree)
        ));
        return true;
    }
    // Commits in a submodule are in this worktree's git directory, and nowhere else.
    let Isolation::Worktrees { base, .. } = &trees.isolation else {
        return false;
    };
    let has_modules = trees
        .git_dir(tree)
        .is_some_and(|dir| dir.join("modules").exists());
    if !has_modules {
        return false;
    }
    let diff = "diff --raw --no-renames --ignore-submodules=none";
    let changed = git
        .run(diff, &[base, "HEAD", "--"])
        .await
        .unwrap_or_default();
    let is_submodule = |line: &str| line.split(' ').nth(1) == Some("160000");
    let holds_work = changed.lines().any(is_submodule);
    if holds_work {
        left_over.push(format!(
            "the worktree {place} is kept: a submodule in it has commits that may exist nowhere else; push them, \
             then {}",
            removal(tree)
        ));
    }
    holds_work
}

/// A submodule that is not checked out in a worktree although there are files in its place, other than lent ones. Git
/// does not look at them.
async fn unfilled(trees: &Worktrees, tree: &Path) -> Option<String> {
    let list = "ls-files -z --format=%(objectmode)%x20%(path)";
    let told = trees.git(tree).run(list, &[]).await.ok()?;
    let names = trees.lent().names;
    let is_lent = |path: &str| names.iter().any(|name| Path::new(name).starts_with(path));
    let holds_files = |path: &&str| {
        let dir = tree.join(path);
        let is_filled = dir.join(".git").symlink_metadata().is_ok();
        let mut entries = dir.read_dir().into_iter().flatten();
        !is_filled && !is_lent(path) && entries.next().is_some()
    };
    let mut paths = told
        .split('\0')
        .filter_map(|line| line.strip_prefix("160000 "));
    paths.find(holds_files).map(str::to_owned)
}

/// The command that removes a worktree with everything in it.
fn removal(tree: &Path) -> String {
    let tree = shell_word(&tree.to_string_lossy());
    format!("`git worktree remove --force {tree}`")
}

#[cfg(test)]
mod tests {
    use super::*;

    // shows: PLN-08
    #[test]
    fn the_command_that_removes_a_worktree_names_it_as_one_word() {
        let wanted = "`git worktree remove --force '/p q/tree'`";
        assert_eq!(removal(Path::new("/p q/tree")), wanted);
    }

    // shows: PLN-08
    #[test]
    fn a_file_in_the_way_that_begins_with_a_dash_is_no_option() {
        let wanted = "mv -n ./-x ./-x.before-merge";
        assert_eq!(set_aside(Path::new("-x")), wanted);
    }
}
