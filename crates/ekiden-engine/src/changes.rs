//! What is not committed, as `git status` tells it, and which of it a run leaves alone.
//!
//! A file that had changes when the run began holds a person's work, and stays out of the run's
//! commits until somebody commits it: its whole is not the agent's, and a part of it would be a state
//! that never was. So what decides is the object that the last commit has for it. If that is another
//! than at the start, the changes of then are in history.

use std::collections::BTreeMap;

use ekiden_core::settings::{CommitPlan, DirtyFile};

use crate::git::{Git, GitError};

/// Everything below the directory that differs from the last commit and that git does not ignore.
/// A submodule counts by the commit that is checked out in it.
pub(crate) const STATUS: &[&str] = &[
    "--no-optional-locks",
    "status",
    "--porcelain=v2",
    "-z",
    "--no-renames",
    "--untracked-files=all",
    "--ignore-submodules=dirty",
    "--",
    ".",
    ":(exclude).ekiden",
];
/// Files hashed by one command, below every platform's limit of arguments.
const HASHED_AT_ONCE: usize = 200;
/// Fields of an entry behind its kind.
const FIELDS_CHANGED: usize = 8;
const FIELDS_UNMERGED: usize = 10;
/// Files that stay out are told by name up to this many.
const LEFT_OUT_TOLD_MAX: usize = 20;

/// A path that differs from the last commit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Change {
    /// From the repository's root.
    pub(crate) path: Vec<u8>,
    /// Git does not know it yet.
    pub(crate) untracked: bool,
    /// Its object in the last commit, if it has one.
    pub(crate) committed: Option<String>,
}

/// What is to be committed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Take {
    /// The paths.
    pub(crate) changes: Vec<Change>,
    /// Paths that stay out though they were changed since the start.
    pub(crate) left_out: Vec<String>,
    /// There are repositories within this one that git does not know.
    pub(crate) nested: bool,
}

impl Change {
    fn shown(&self) -> String {
        String::from_utf8_lossy(&self.path).into_owned()
    }
}

/// Reads [`STATUS`]'s answer. A repository inside that is no submodule is left to itself.
pub(crate) fn read(status: &[u8]) -> Vec<Change> {
    status.split(|byte| *byte == 0).filter_map(entry).collect()
}

fn entry(entry: &[u8]) -> Option<Change> {
    let (kind, rest) = (entry.first()?, entry.get(2..)?);
    match kind {
        b'?' if rest.ends_with(b"/") => None,
        b'?' => Some(Change { path: rest.to_owned(), untracked: true, committed: None }),
        // XY sub mH mI mW hH hI path
        b'1' => {
            let fields: Vec<&[u8]> = rest.splitn(FIELDS_CHANGED, |byte| *byte == b' ').collect();
            let committed = object(fields.get(5)?);
            Some(Change { path: fields.get(7)?.to_vec(), untracked: false, committed })
        }
        b'u' => {
            let path = rest.splitn(FIELDS_UNMERGED, |byte| *byte == b' ').last()?;
            Some(Change { path: path.to_vec(), untracked: false, committed: None })
        }
        _ => None,
    }
}

/// An object's id; zeros are none.
fn object(id: &[u8]) -> Option<String> {
    let id = String::from_utf8_lossy(id).into_owned();
    Some(id).filter(|id| id.bytes().any(|byte| byte != b'0'))
}

/// What a run that begins here leaves alone.
///
/// # Errors
///
/// If git does not answer, or so much is not committed that it cannot be told apart.
pub(crate) async fn plan(git: &Git) -> Result<CommitPlan, GitError> {
    let changes = read(&git.whole(STATUS).await?);
    let contents = contents(git, &changes).await?;
    let dirty = changes.iter().zip(contents).map(|(change, content)| DirtyFile {
        path: change.shown(),
        committed: change.committed.clone(),
        content,
    });
    Ok(CommitPlan { dirty: dirty.collect() })
}

/// What is to be committed now.
///
/// # Errors
///
/// As [`plan`].
pub(crate) async fn take(git: &Git, plan: &CommitPlan) -> Result<Take, GitError> {
    let dirty: BTreeMap<&str, &DirtyFile> =
        plan.dirty.iter().map(|file| (file.path.as_str(), file)).collect();
    let before = |change: &Change| dirty.get(change.shown().as_str()).copied();
    let stays = |change: &Change| before(change).is_some_and(|file| file.committed == change.committed);
    let status = git.whole(STATUS).await?;
    let nested =
        status.split(|byte| *byte == 0).any(|entry| entry.starts_with(b"? ") && entry.ends_with(b"/"));
    let (stay, changes): (Vec<_>, Vec<_>) = read(&status).into_iter().partition(stays);
    let contents = contents(git, &stay).await?;
    let changed = stay
        .iter()
        .zip(contents)
        .filter(|(change, content)| before(change).is_some_and(|file| file.content != *content));
    let left_out = changed.map(|(change, _)| change.shown()).take(LEFT_OUT_TOLD_MAX).collect();
    Ok(Take { changes, left_out, nested })
}

/// The objects of the files as they lie in the work tree. None for what is no file.
async fn contents(git: &Git, changes: &[Change]) -> Result<Vec<Option<String>>, GitError> {
    if changes.is_empty() {
        return Ok(Vec::new());
    }
    let top = git.run(&["rev-parse", "--show-toplevel"]).await?;
    let path = |change: &Change| format!("{}/{}", top.trim_end_matches('\n'), change.shown());
    let paths: Vec<String> = changes.iter().map(path).collect();
    let mut contents = Vec::new();
    for some in paths.chunks(HASHED_AT_ONCE) {
        match hash(git, some).await {
            Some(ids) if ids.len() == some.len() => contents.extend(ids.into_iter().map(Some)),
            // One that cannot be hashed, such as a deleted file, makes the whole command fail.
            Some(_) | None => {
                for path in some {
                    let id = hash(git, std::slice::from_ref(path)).await;
                    contents.push(id.and_then(|ids| ids.into_iter().next()));
                }
            }
        }
    }
    Ok(contents)
}

async fn hash(git: &Git, paths: &[String]) -> Option<Vec<String>> {
    let mut args = vec!["hash-object", "--"];
    args.extend(paths.iter().map(String::as_str));
    Some(git.run(&args).await.ok()?.lines().map(str::to_owned).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn change(path: &str, untracked: bool, committed: Option<&str>) -> Change {
        Change { path: path.as_bytes().to_vec(), untracked, committed: committed.map(str::to_owned) }
    }

    // shows: REL-18
    #[test]
    fn every_kind_of_change_is_read_with_its_committed_object() {
        let id = "8baef1b4abc478178b004d62031cf7fe6db6f903";
        let zeros = "0".repeat(40);
        let status = [
            format!("1 .M N... 100644 100644 100644 {id} {id} src/a b.rs"),
            format!("1 A. N... 000000 100644 100644 {zeros} {id} new.rs"),
            format!("1 D. N... 100644 000000 000000 {id} {zeros} gone.rs"),
            format!("1 .M SC.. 160000 160000 160000 {id} {id} module"),
            format!("u UU N... 100644 100644 100644 100644 {id} {id} {id} both.rs"),
            "? x\u{a0}y\n".to_owned(),
            "? other/".to_owned(),
            String::new(),
        ];
        let expected = [
            change("src/a b.rs", false, Some(id)),
            change("new.rs", false, None),
            change("gone.rs", false, Some(id)),
            change("module", false, Some(id)),
            change("both.rs", false, None),
            change("x\u{a0}y\n", true, None),
        ];
        assert_eq!(read(status.join("\0").as_bytes()), expected);
    }
}
