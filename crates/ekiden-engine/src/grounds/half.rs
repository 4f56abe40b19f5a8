//! A delivery that was broken off: a git that was killed leaves the user's checkout between two commits, and
//! that is none of their changes.
//!
//! It is ours if each file that differs from the commit at which the checkout was is as it is in the commit
//! to which it goes. One may be in between: git removes a file and then writes it.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use ekiden_store::disk::Kind;

use super::{Cancelled, Grounds, patiently};
use crate::error::in_full;
use crate::git::Git;

/// Paths are told from the top of the repository, whatever the user's settings say.
const FROM_TOP: [&str; 2] = ["-c", "diff.relative=false"];
/// The index into which the commit is read for the comparison, in the run's directory.
const INDEX: &str = "delivery.index";
/// What git writes into the reflog, as if nothing had happened.
const REFLOG_ACTION: &str = "GIT_REFLOG_ACTION";

/// A checkout that was to go from one commit to another.
pub(super) struct Half<'a> {
    pub(super) grounds: &'a Grounds,
    pub(super) git: &'a Git,
    pub(super) base: &'a str,
    pub(super) tip: &'a str,
}

impl Half<'_> {
    /// Completes what was begun. Whether there was anything to complete.
    pub(super) async fn complete(&self, cancelled: Cancelled) -> Result<bool, String> {
        if !self.is_ours().await? {
            return Ok(false);
        }
        let action = format!("merge {}: Fast-forward", self.grounds.places.whole_branch());
        let git = self.git.clone().with_env(REFLOG_ACTION, action);
        // Files that git does not know, and that the commit does not have, stay.
        patiently(&git, &["reset", "--quiet", "--hard", self.tip], cancelled).await.map_err(|error| {
            format!(
                "git was killed while it moved it, so it is half moved. {error}. `git reset --hard {}` completes it",
                self.tip
            )
        })?;
        Ok(true)
    }

    async fn is_ours(&self) -> Result<bool, String> {
        let (goal, status) = (self.goal().await?, self.status().await?);
        let (touched, others): (Vec<_>, Vec<_>) =
            status.into_iter().partition(|(path, _)| goal.contains_key(path));
        if touched.is_empty() || others.iter().any(|(_, state)| state != b"??") {
            return Ok(false);
        }
        let is_staged = touched.iter().any(|(_, state)| !matches!(state.first(), Some(b' ' | b'?')));
        // Git writes the whole index at once, behind all files.
        if is_staged && !self.says_yes(&["diff-index", "--cached", "--quiet", self.tip]).await {
            return Ok(false);
        }
        let unlike = self.unlike().await?;
        let mut between = 0;
        for (path, _) in &touched {
            let is_deleted = goal.get(path).is_some_and(|change| change == b"D");
            if is_deleted && self.grounds.is_there(&self.place(path)) {
                return Ok(false);
            }
            if unlike.contains(path) {
                between += 1;
                if !self.is_begun(path).await {
                    return Ok(false);
                }
            }
        }
        Ok(between <= 1)
    }

    /// The paths that change, and how.
    async fn goal(&self) -> Result<BTreeMap<Vec<u8>, Vec<u8>>, String> {
        let args = ["diff-tree", "-r", "-z", "--no-renames", "--name-status", self.base, self.tip];
        let said = self.whole(self.git, &args).await?;
        let fields: Vec<&[u8]> = said.split(|byte| *byte == 0).collect();
        Ok(fields.chunks_exact(2).map(|pair| (pair[1].to_vec(), pair[0].to_vec())).collect())
    }

    /// What is not as in the commit at which the checkout was: paths, and two letters of each.
    async fn status(&self) -> Result<Vec<(Vec<u8>, Vec<u8>)>, String> {
        let args = [
            "status",
            "--porcelain",
            "-z",
            "--no-renames",
            "--untracked-files=all",
            "--ignore-submodules=dirty",
        ];
        let said = self.whole(self.git, &args).await?;
        let entries = said.split(|byte| *byte == 0).filter(|entry| entry.len() > 3);
        Ok(entries.map(|entry| (entry[3..].to_vec(), entry[..2].to_vec())).collect())
    }

    /// The paths that are not as in the commit to which the checkout goes. Git compares, so that line ends
    /// and filters are as the user has them.
    async fn unlike(&self) -> Result<BTreeSet<Vec<u8>>, String> {
        let index = self.grounds.places.run().dir().join(INDEX);
        let git = self.git.clone().with_env("GIT_INDEX_FILE", &index);
        let read = git.run(&["read-tree", self.tip]).await;
        read.map_err(|error| in_full(&error))?;
        // It fails if a file differs, which is what is asked next.
        let _ = git.run(&["update-index", "-q", "--refresh"]).await;
        let args = ["diff-files", "-z", "--name-only", "--no-renames", "--ignore-submodules=dirty"];
        let said = self.whole(&git, &args).await;
        self.grounds.disk.remove(&index).map_err(|error| in_full(&error))?;
        Ok(said?.split(|byte| *byte == 0).map(<[u8]>::to_vec).collect())
    }

    /// The file is gone, or as long as git came with it.
    async fn is_begun(&self, path: &[u8]) -> bool {
        let (disk, place) = (&*self.grounds.disk, self.place(path));
        match disk.stat(&place).map(|stat| stat.map(|stat| (stat.kind, stat.len))) {
            Ok(None) => true,
            Ok(Some((Kind::File, len))) => {
                let name = format!("{}:{}", self.tip, String::from_utf8_lossy(path));
                let goal = self.git.whole(&["cat-file", "blob", &name]).await.unwrap_or_default();
                disk.read(&place, len).is_ok_and(|begun| goal.starts_with(&begun))
            }
            Ok(Some((Kind::Dir | Kind::Link | Kind::Other, _))) | Err(_) => false,
        }
    }

    fn place(&self, path: &[u8]) -> PathBuf {
        self.grounds.places.top().join(OsStr::from_bytes(path))
    }

    async fn says_yes(&self, args: &[&str]) -> bool {
        self.git.run(args).await.is_ok()
    }

    async fn whole(&self, git: &Git, args: &[&str]) -> Result<Vec<u8>, String> {
        git.whole(&[&FROM_TOP, args].concat()).await.map_err(|error| in_full(&error))
    }
}
