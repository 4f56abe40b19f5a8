//! Snapshots: commits of a work tree that leave branch, index and files alone.
//!
//! ```text
//! read-tree HEAD ─► add what differs ─► write-tree ─► commit-tree ─► update-ref
//! └──────────── in an index of our own ───────────┘
//! ```
//!
//! - *Nothing else changes.* No hook runs, because a snapshot must neither wait for tests nor be refused. It works
//!   during a merge, with a locked index, and in a repository without a commit.
//! - *New files too*, except ignored files, ekiden's own files, nested repositories, and files too large to keep
//!   in every version. A warning names what is left out.
//! - *Once.* If the ref already has this tree on this commit, no new snapshot is made. Earlier snapshots stay in
//!   the ref's reflog.
//!
//! Why not `git stash create`: it leaves new files out, and fails in the middle of a merge. Why not a copy of the
//! index: git compares its entries with the time of the index file, and a copy has a different time.

use std::path::Path;

use ekiden_core::limits;
use ekiden_core::text::one_line;
use ekiden_store::archive::ensure_dir;
use ekiden_store::disk::{Disk, DiskResult, parent};

use super::flood::is_in;
use super::status::{Entry, Scope, Status, pathspecs};
use super::{FROM_STDIN, Git, GitError};

/// The committer if git does not know the user.
const NOBODY: [(&str, &str); 4] = [
    ("GIT_AUTHOR_NAME", "ekiden"),
    ("GIT_AUTHOR_EMAIL", "ekiden@localhost"),
    ("GIT_COMMITTER_NAME", "ekiden"),
    ("GIT_COMMITTER_EMAIL", "ekiden@localhost"),
];
/// How much of git's own message is kept, in characters.
const WORDS_CHARS_MAX: usize = 160;

/// A tree that was written.
pub(crate) struct Tree {
    pub(crate) id: String,
    pub(crate) left_out: Vec<String>,
    /// What git could not read.
    pub(crate) unread: Option<String>,
}

/// Writes the work tree's content through an index that begins as the last commit. `index` is where that index is
/// kept meanwhile.
pub(crate) async fn write_tree(
    git: &Git,
    disk: &dyn Disk,
    index: &Path,
    status: &Status,
) -> Result<Tree, GitError> {
    clear(disk, index)?;
    let git = git.clone().quiet();
    let indexed = git.with_env("GIT_INDEX_FILE", index);
    let written = written(&git, &indexed, status).await;
    // The next snapshot removes what stays behind.
    let _ = clear(disk, index);
    written
}

async fn written(git: &Git, indexed: &Git, status: &Status) -> Result<Tree, GitError> {
    if let Some(head) = &status.head {
        indexed.run("read-tree", &[head]).await?;
    }
    let (mut paths, mut left_out) = choose(&status.entries, &git.top().await?);
    let unread = match add(indexed, &paths).await {
        // A file may have gone since it was listed: try once more with a new list. With the last commit's
        // index, a path that only the real index knows is new and absent: no difference.
        Err(GitError::Failed { .. }) => {
            let mut able = Status::read(indexed, Scope::Repository).await?.entries;
            let failing = git.failing(&able).await?;
            able.retain(|entry| !is_in(entry, &failing));
            (paths, left_out) = choose(&able, &git.top().await?);
            let whys = failing
                .iter()
                .map(|path| format!("{path} (git cannot take it in)"));
            left_out.extend(whys);
            add(indexed, &paths).await?
        }
        added => added?,
    };
    let id = indexed.line("write-tree", &[]).await?;
    Ok(Tree {
        id,
        left_out,
        unread,
    })
}

/// The paths that go into a commit, as git reads them, and what is left out.
pub(crate) fn choose(entries: &[Entry], top: &Path) -> (Vec<u8>, Vec<String>) {
    let (mut chosen, mut left_out) = (Vec::new(), Vec::new());
    // Only the index knows a path that was added and is gone from the work tree.
    for entry in entries.iter().filter(|entry| entry.code != "AD") {
        // Git refuses a name behind a link, and drops it by itself when it takes in the link.
        if entry.is_deleted() && is_behind_link(&entry.place(top), top) {
            continue;
        }
        let path = entry.shown();
        if entry.is_dirty_submodule {
            left_out.push(format!("{path} (what is changed inside the submodule)"));
        }
        let new = top.join(&path).symlink_metadata().ok();
        let length = new.filter(|_| entry.is_untracked()).map_or(0, |f| f.len());
        if entry.is_repository() {
            let why = "a repository of its own, or too many new files";
            left_out.push(format!("{path} ({why})"));
        } else if length > limits::WIP_FILE_BYTES_MAX {
            left_out.push(format!("{path} ({} MB)", length / (1024 * 1024)));
        } else {
            chosen.push(entry);
        }
    }
    (pathspecs(chosen), left_out)
}

fn is_behind_link(path: &Path, top: &Path) -> bool {
    let mut above = path.ancestors().skip(1).take_while(|dir| *dir != top);
    above.any(Path::is_symlink)
}

/// Adds to the index. A file that cannot be read is reported; the rest is added.
pub(crate) async fn add(git: &Git, paths: &[u8]) -> Result<Option<String>, GitError> {
    if paths.is_empty() {
        return Ok(None);
    }
    let add = "-c advice.addEmbeddedRepo=false add --all --sparse --ignore-errors";
    match git.fed(add, &FROM_STDIN, paths).await {
        Ok(_) => Ok(None),
        Err(GitError::Failed { code: 1, said, .. }) => {
            let mut lines = said.lines().filter(|line| !line.starts_with("warning:"));
            let first = lines.next().unwrap_or("git said nothing");
            let first = one_line(first, WORDS_CHARS_MAX);
            Ok(Some(format!("Git could not read everything: {first}")))
        }
        Err(error) => Err(error),
    }
}

/// Commits a tree under a ref, unless the ref already has it. Returns the commit.
pub(crate) async fn keep(
    git: &Git,
    tree: &str,
    parent: Option<&str>,
    subject: &str,
    name: &str,
) -> Result<String, GitError> {
    if let Some(commit) = kept(git, tree, parent, name).await {
        return Ok(commit);
    }
    let mut git = git.clone().quiet();
    if !git.knows_committer().await {
        git = NOBODY.iter().fold(git, |git, (k, v)| git.with_env(k, *v));
    }
    let mut args = vec!["-m", subject, tree];
    args.extend(parent.into_iter().flat_map(|parent| ["-p", parent]));
    let commit = git.line("commit-tree --no-gpg-sign", &args).await?;
    let update = "update-ref --create-reflog -m checkpoint";
    git.run(update, &[name, &commit]).await?;
    Ok(commit)
}

/// The commit that the ref names, if it has this tree and this parent.
async fn kept(git: &Git, tree: &str, parent: Option<&str>, name: &str) -> Option<String> {
    let log = "log -1 --no-show-signature --format=%H%n%T%n%P";
    let text = git.run(log, &[name, "--"]).await.ok()?;
    let mut lines = text.lines();
    let commit = lines.next()?;
    let is_same = lines.next()? == tree && lines.next().unwrap_or("") == parent.unwrap_or("");
    is_same.then(|| commit.to_owned())
}

/// Removes our index with its lock, and makes its directory.
fn clear(disk: &dyn Disk, index: &Path) -> DiskResult<()> {
    ensure_dir(disk, parent(index))?;
    for path in [index.to_owned(), index.with_extension("index.lock")] {
        if disk.stat(&path)?.is_some() {
            disk.remove(&path)?;
        }
    }
    Ok(())
}
