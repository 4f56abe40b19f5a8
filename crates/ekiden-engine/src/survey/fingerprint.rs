//! The fingerprint of a repository's work tree.
//!
//! It is a hash of the work dir's tree in the last commit, of the status, and of the content of every changed
//! file that git does not ignore. Why not the commit's id: a commit without content is no progress, and one
//! elsewhere in a monorepo is not ours.
//!
//! A nested repository, a submodule or a clone, stays one line of the status however often it changes. So its
//! fingerprint is taken in the same way.

use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::time::UNIX_EPOCH;

use ekiden_core::hash::sha256_hex;

use super::content::Content;
use super::git::{Changed, line};
use crate::git::Git;

/// Changed files whose content is hashed; the rest are compared by size and time.
const HASHED_FILES_MAX: usize = 2000;
/// Larger files are compared by size and time, too: reading a data set would take minutes, after each session.
const HASHED_BYTES_MAX: u64 = 20 * 1024 * 1024;
/// How many changed nested repositories are looked into; of the rest only the names count.
const INNER_MAX: usize = 50;
/// How deep they may be nested.
const INNER_DEPTH_MAX: usize = 3;

/// A description of a whole tree, and one without text that only tells the time.
type Descriptions = (String, String);

/// The fingerprint, and the one without text that only tells the time.
pub(super) async fn fingerprints(git: &Git, dir: &Path, changed: &Changed) -> (String, String) {
    let (tree, substance) = describe(git, dir, changed, INNER_DEPTH_MAX).await;
    (
        sha256_hex(tree.as_bytes()),
        sha256_hex(substance.as_bytes()),
    )
}

async fn describe(git: &Git, dir: &Path, changed: &Changed, depth: usize) -> Descriptions {
    let mut tree = changed
        .tree
        .clone()
        .unwrap_or_else(|| "no commit".to_owned());
    for entry in &changed.status.entries {
        tree.push_str(&format!("\n{}", line(entry)));
    }
    let mut substance = tree.clone();
    let is_dir = |path: &String| {
        let found = dir.join(path).symlink_metadata();
        found.is_ok_and(|found| found.is_dir())
    };
    let (repositories, files): (Vec<_>, Vec<_>) = changed.present().into_iter().partition(is_dir);
    let is_large = |path: &String| {
        let found = dir.join(path).symlink_metadata();
        found.is_ok_and(|found| found.len() > HASHED_BYTES_MAX)
    };
    let (large, small): (Vec<_>, Vec<_>) = files.into_iter().partition(is_large);
    let (hashed, many) = small.split_at(small.len().min(HASHED_FILES_MAX));
    // Files that cannot be hashed, such as one that is gone by now, count by name only.
    let hashes = git.contents(hashed).await;
    for (hash, timeless) in hashes.into_iter().zip(substances(dir, hashed).await) {
        let hash = hash.unwrap_or_default();
        tree.push_str(&hash);
        substance.push_str(&timeless.unwrap_or(hash));
    }
    let mut add = |(whole, timeless): Descriptions| {
        tree.push_str(&whole);
        substance.push_str(&timeless);
    };
    for path in many.iter().chain(&large) {
        let told = size_and_time(&dir.join(path));
        add((told.clone(), told));
    }
    for path in repositories.iter().take(INNER_MAX) {
        add(inner(git, dir.join(path), depth).await);
    }
    (tree, substance)
}

/// What is in a nested repository; none if git cannot tell.
fn inner(
    git: &Git,
    dir: PathBuf,
    depth: usize,
) -> Pin<Box<dyn Future<Output = Descriptions> + Send + '_>> {
    Box::pin(async move {
        let git = git.within(dir.clone());
        match Changed::find(&git, "").await {
            Ok(changed) if depth > 0 => describe(&git, &dir, &changed, depth - 1).await,
            Ok(_) | Err(_) => Descriptions::default(),
        }
    })
}

fn size_and_time(path: &Path) -> String {
    let Ok(found) = path.symlink_metadata() else {
        return String::new();
    };
    let time = found.modified().ok();
    let time = time.and_then(|time| time.duration_since(UNIX_EPOCH).ok());
    format!("\n{} {}", found.len(), time.unwrap_or_default().as_nanos())
}

/// The substance of each file that contains a time.
async fn substances(dir: &Path, paths: &[String]) -> Vec<Option<String>> {
    let paths: Vec<PathBuf> = paths.iter().map(|path| dir.join(path)).collect();
    let known = paths.len();
    let read = tokio::task::spawn_blocking(move || {
        let contents = paths.iter().map(|path| Content::of(path).ok().flatten());
        contents.map(|content| content?.substance).collect()
    });
    read.await.unwrap_or_else(|_| vec![None; known])
}
