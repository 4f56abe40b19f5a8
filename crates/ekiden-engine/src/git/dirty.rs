//! Files that had changes when a run began, and stay out of its commits.
//!
//! Such a file holds a person's work. It stays out of the run's commits until somebody commits it: the whole file
//! is not the agent's work, and a part of it would be a state that never existed. We compare the file's object in
//! the last commit with the one at the start. If they differ, the person's changes have been committed.

use std::collections::{BTreeMap, BTreeSet};

use ekiden_core::settings::{CommitPlan, DirtyFile};

use super::flood::{Lent, is_in, stays_out};
use super::status::{Entry, Scope, Status};
use super::{Git, GitError};

/// Up to this many files that stay out are named.
const LEFT_OUT_TOLD_MAX: usize = 20;

#[derive(Debug)]
pub(crate) struct Changes {
    pub(crate) entries: Vec<Entry>,
    pub(crate) branch: Option<String>,
    /// Paths that stay out although they have changed since the start, including those in `stays_out`, and
    /// new nested repositories.
    pub(crate) left_out: Vec<String>,
    /// Directories with too many new files, files that were lent or cannot be read, and submodules that are behind.
    pub(crate) stays_out: BTreeSet<String>,
    /// There are nested repositories that git does not know. They stay out.
    pub(crate) has_repositories: bool,
}

/// The files that a run beginning here leaves alone.
pub(crate) async fn plan(git: &Git) -> Result<CommitPlan, GitError> {
    let status = Status::read(git, Scope::Dir).await?;
    let entries = without_inner_changes(status.entries);
    let contents = contents(git, &entries).await?;
    let dirty = entries.into_iter().zip(contents);
    let dirty = dirty.map(|(entry, content)| DirtyFile {
        path: entry.shown(),
        committed: entry.committed,
        content,
    });
    Ok(CommitPlan {
        dirty: dirty.collect(),
        branch: status.branch,
    })
}

/// What to commit now of this part of the repository.
pub(crate) async fn changes(
    git: &Git,
    scope: Scope,
    plan: &CommitPlan,
    declared: &[String],
    lent: &Lent,
) -> Result<Changes, GitError> {
    let dirty: BTreeMap<&str, &DirtyFile> = plan
        .dirty
        .iter()
        .map(|file| (file.path.as_str(), file))
        .collect();
    let before = |entry: &Entry| dirty.get(entry.shown().as_str()).copied();
    let stays = |entry: &Entry| before(entry).is_some_and(|file| file.committed == entry.committed);
    let status = Status::read(git, scope).await?;
    let has_repositories = status.entries.iter().any(Entry::is_repository);
    let entries = without_inner_changes(status.entries).into_iter();
    let (stay, entries): (Vec<_>, Vec<_>) = entries.partition(stays);
    let entries = entries.into_iter();
    let (nested, mut entries): (Vec<_>, Vec<_>) = entries.partition(Entry::is_repository);
    let stays_out = match entries.is_empty() {
        true => BTreeSet::new(),
        false => stays_out(git, &entries, declared, lent, &git.top().await?).await?,
    };
    entries.retain(|entry| !is_in(entry, &stays_out));
    let contents = contents(git, &stay).await?;
    let changed = stay
        .iter()
        .zip(contents)
        .filter(|(entry, content)| before(entry).is_some_and(|file| file.content != *content));
    let left_out = changed.map(|(entry, _)| entry);
    let left_out = left_out.chain(&nested).map(Entry::shown);
    Ok(Changes {
        left_out: left_out
            .take(LEFT_OUT_TOLD_MAX)
            .chain(stays_out.iter().cloned())
            .collect(),
        stays_out,
        entries,
        branch: status.branch,
        has_repositories,
    })
}

/// Leaves out submodules in which only files have changed: no commit here can hold that.
fn without_inner_changes(mut entries: Vec<Entry>) -> Vec<Entry> {
    entries.retain(|entry| !entry.is_only_inside);
    entries
}

/// Identifies the content of the files as they are in the work tree.
async fn contents(git: &Git, entries: &[Entry]) -> Result<Vec<Option<String>>, GitError> {
    if entries.is_empty() {
        return Ok(Vec::new());
    }
    let top = git.top().await?;
    let path = |entry: &Entry| top.join(entry.shown()).to_string_lossy().into_owned();
    let paths: Vec<String> = entries.iter().map(path).collect();
    Ok(git.contents(&paths).await)
}
