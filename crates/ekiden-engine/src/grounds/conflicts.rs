//! What a stage was given to put right, and whether it did.
//!
//! Conflicts are committed into the stage's branch as they are. What they were is kept beside the stage's
//! sessions before that: the commit on which it is made, and the files by their bytes. A file is open while it holds more marks of a conflict
//! than it did before that commit; so does any other into which they were moved. Marks that a file holds by
//! right, such as a text about them, are counted on both sides. Where git leaves no marks (one side deleted, a
//! binary), a file that nobody touched is asked about once more, then it stands as it is, but for one that has
//! its name from git.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use ekiden_store::disk::Disk;
use ekiden_store::replace::{Durability, replace};
use serde::{Deserialize, Serialize};

use crate::error::in_full;
use crate::git::{Git, GitError};

/// A list of more is as good as none: everything is in conflict.
const LIST_BYTES_MAX: u64 = 4 * 1024 * 1024;

/// Conflicts that stand in a commit.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Conflicts {
    /// The stage's commit before the one that holds them.
    before: String,
    files: Vec<Conflict>,
}

/// A file that git could not merge.
#[derive(Debug, Serialize, Deserialize)]
struct Conflict {
    /// From the repository's root.
    path: Vec<u8>,
    /// It was untouched once, and asked about again.
    asked: bool,
}

/// Where they are kept, and what is asked about them.
pub(super) struct ConflictFile<'a> {
    pub(super) disk: &'a dyn Disk,
    pub(super) path: PathBuf,
    pub(super) git: &'a Git,
    /// The branch that was merged, by which git labels its side.
    pub(super) whole: &'a str,
}

impl ConflictFile<'_> {
    /// Keeps that these files are in conflict in the commit that is made next; forgets all if there are none.
    pub(super) async fn keep(&self, files: Vec<Vec<u8>>) -> Result<(), String> {
        if files.is_empty() {
            return self.forget();
        }
        let before = self.git.line(&["rev-parse", "HEAD"]).await.map_err(|error| in_full(&error))?;
        let files = files.into_iter().map(|path| Conflict { path, asked: false }).collect();
        self.write(&Conflicts { before, files })
    }

    /// Forgets them.
    pub(super) fn forget(&self) -> Result<(), String> {
        match self.disk.stat(&self.path) {
            Ok(None) => Ok(()),
            Ok(Some(_)) | Err(_) => self.disk.remove(&self.path).map_err(|error| in_full(&error)),
        }
    }

    /// The files that are open, by their paths from the repository's root.
    pub(super) async fn open(&self) -> Result<Vec<Vec<u8>>, String> {
        let Some(mut known) = self.read() else { return Ok(Vec::new()) };
        let range = format!("{}..HEAD", known.before);
        let since =
            self.git.run(&["rev-list", "--first-parent", &range]).await.map_err(|error| in_full(&error))?;
        let Some(commit) = since.lines().last() else { return Ok(Vec::new()) };
        let args = ["diff", "--name-only", "--no-renames", "--no-relative", "-z", commit, "HEAD"];
        let changed = self.git.whole(&args).await.map_err(|error| in_full(&error))?;
        let changed: BTreeSet<&[u8]> = changed.split(|byte| *byte == 0).collect();
        let before = self.marks(&known.before).await?;
        let (given, now) = (self.marks(commit).await?, self.marks("HEAD").await?);
        let more = |path: &[u8], marks: &BTreeMap<Vec<u8>, u64>| {
            marks.get(path).copied().unwrap_or(0) > before.get(path).copied().unwrap_or(0)
        };
        let mut open = Vec::new();
        let mut asks = false;
        for conflict in &mut known.files {
            let had_marks = more(&conflict.path, &given);
            let untouched = !had_marks && !changed.contains(&conflict.path[..]);
            let is_left = untouched && self.is_gits_name(&conflict.path);
            if more(&conflict.path, &now) || is_left || (untouched && !conflict.asked) {
                asks |= untouched;
                conflict.asked |= untouched;
                open.push(conflict.path.clone());
            }
        }
        let moved = now.keys().filter(|path| changed.contains(&path[..]) && more(path, &now));
        let moved: Vec<Vec<u8>> = moved.filter(|path| !open.contains(path)).cloned().collect();
        open.extend(moved);
        if asks {
            self.write(&known)?;
        }
        Ok(open)
    }

    /// Where a file stands in a directory's place, git puts one side under a name of its own making.
    fn is_gits_name(&self, path: &[u8]) -> bool {
        let whole = format!("~{}", self.whole.replace('/', "_"));
        path.ends_with(b"~HEAD") || path.ends_with(whole.as_bytes())
    }

    /// How many lines of each file are marks of a conflict with the whole.
    async fn marks(&self, commit: &str) -> Result<BTreeMap<Vec<u8>, u64>, String> {
        let ours = "^<{7,} HEAD$|^[|]{7,} [0-9a-f]+$";
        let pattern = format!("{ours}|^>{{7,}} {}$", self.whole.replace('.', "[.]"));
        let args = ["grep", "--full-name", "-z", "-c", "-I", "-E", "-e", &pattern, commit, "--", ":(top)"];
        match self.git.whole(&args).await {
            Ok(said) => Ok(counts(&said, commit)),
            // It says so where nothing is found.
            Err(GitError::Failed { .. }) => Ok(BTreeMap::new()),
            Err(error) => Err(in_full(&error)),
        }
    }

    fn read(&self) -> Option<Conflicts> {
        let bytes = self.disk.read(&self.path, LIST_BYTES_MAX).ok()?;
        serde_json::from_slice(&bytes).ok()
    }

    fn write(&self, conflicts: &Conflicts) -> Result<(), String> {
        let text = serde_json::to_vec(conflicts).map_err(|error| error.to_string())?;
        replace(self.disk, &self.path, &text, Durability::Full).map_err(|error| in_full(&error))
    }
}

/// `COMMIT:path NUL count LF`, again and again.
fn counts(said: &[u8], commit: &str) -> BTreeMap<Vec<u8>, u64> {
    let mut counts = BTreeMap::new();
    let mut rest = said;
    while let Some(nul) = rest.iter().position(|byte| *byte == 0) {
        let end = rest[nul..].iter().position(|byte| *byte == b'\n').map_or(rest.len(), |line| nul + line);
        let path = rest[..nul].strip_prefix(commit.as_bytes()).and_then(|path| path.strip_prefix(b":"));
        let count = str::from_utf8(&rest[nul + 1..end]).ok().and_then(|count| count.parse().ok());
        counts.extend(path.map(<[u8]>::to_vec).zip(count));
        rest = rest.get(end + 1..).unwrap_or_default();
    }
    counts
}

#[cfg(test)]
mod tests {
    use super::*;

    // shows: PLN-08
    #[test]
    fn counts_are_read_whatever_a_path_holds() {
        let said = b"HEAD:a\nb\x002\nHEAD: c \x0011\n";
        let expected = BTreeMap::from([(b"a\nb".to_vec(), 2), (b" c ".to_vec(), 11)]);
        assert_eq!(counts(said, "HEAD"), expected);
    }
}
