//! The fingerprint of a repository's work tree.
//!
//! It is a hash of the work dir's tree in the commit, of the status, and of the content of every changed
//! file that git does not ignore. WHY not the commit's id: a commit without content is no progress, and one
//! elsewhere in a monorepo is none of ours.
//!
//! A repository within this one, a submodule or a clone that lies there, is one line of the status however
//! often it changes. So it is looked into in the same way.

use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::time::UNIX_EPOCH;

use ekiden_core::hash::sha256_hex;

use super::content::Content;
use super::git::Changed;
use crate::git::{Git, GitError};

/// Changed files whose content is hashed; more are told apart by size and time.
const HASHED_FILES_MAX: usize = 2000;
/// Files hashed by one command, below every platform's limit of arguments.
const HASHED_AT_ONCE: usize = 200;
/// Changed repositories that are looked into; of more only the names count.
const INNER_MAX: usize = 50;
/// How deep they may lie within each other.
const INNER_DEPTH_MAX: usize = 3;

/// Two accounts of a tree: all of it, and without what only tells the time.
type Accounts = (String, String);

/// The fingerprint, and the one without what only tells the time.
pub(super) async fn fingerprints(git: &Git, dir: &Path, files: &Changed) -> Accounts {
    let (tree, substance) = account(git, dir, files, INNER_DEPTH_MAX).await;
    (sha256_hex(tree.as_bytes()), sha256_hex(substance.as_bytes()))
}

async fn account(git: &Git, dir: &Path, files: &Changed, depth: usize) -> Accounts {
    let mut tree = files.tree.clone().unwrap_or_else(|| "no commit".to_owned());
    for (code, path) in &files.entries {
        tree.push_str(&format!("\n{code} {path}"));
    }
    let mut substance = tree.clone();
    let (repositories, present): (Vec<_>, Vec<_>) = files.present().into_iter().partition(|path| {
        let found = dir.join(path).symlink_metadata();
        found.is_ok_and(|found| found.is_dir())
    });
    let (hashed, many) = present.split_at(present.len().min(HASHED_FILES_MAX));
    for some in hashed.chunks(HASHED_AT_ONCE) {
        let (whole, timeless) = (hashes(git, some).await, substances(dir, some).await);
        for (hash, timeless) in whole.iter().zip(timeless) {
            substance.push_str(timeless.as_ref().unwrap_or(hash));
            tree.push_str(hash);
        }
    }
    let many = many.iter().map(|path| size_and_time(&dir.join(path))).collect::<String>();
    tree.push_str(&many);
    substance.push_str(&many);
    for path in repositories.iter().take(INNER_MAX) {
        let (whole, timeless) = inner(git, dir.join(path), depth).await;
        tree.push_str(&whole);
        substance.push_str(&timeless);
    }
    (tree, substance)
}

/// What is in a repository within this one; nothing if git cannot tell.
fn inner(git: &Git, dir: PathBuf, depth: usize) -> Pin<Box<dyn Future<Output = Accounts> + Send + '_>> {
    Box::pin(async move {
        let git = git.within(dir.clone());
        match Changed::find(&git).await {
            Ok(files) if depth > 0 => account(&git, &dir, &files, depth - 1).await,
            Ok(_) | Err(_) => Accounts::default(),
        }
    })
}

fn size_and_time(path: &Path) -> String {
    let Ok(found) = path.symlink_metadata() else { return String::new() };
    let time = found.modified().ok().and_then(|time| time.duration_since(UNIX_EPOCH).ok());
    format!("\n{} {}", found.len(), time.unwrap_or_default().as_nanos())
}

/// The files' substance, of each that tells a time.
async fn substances(dir: &Path, paths: &[String]) -> Vec<Option<String>> {
    let paths: Vec<PathBuf> = paths.iter().map(|path| dir.join(path)).collect();
    let of = |path: &PathBuf| Content::of(path).ok().flatten().and_then(|content| content.substance);
    let known = paths.len();
    let read = tokio::task::spawn_blocking(move || paths.iter().map(of).collect());
    read.await.unwrap_or_else(|_| vec![None; known])
}

/// The files' hashes. One that cannot be hashed, such as a link to a directory or a file that
/// vanished meanwhile, makes the whole command fail; then each is hashed by itself, and the name of
/// that one must do.
async fn hashes(git: &Git, paths: &[String]) -> Vec<String> {
    if let Ok(text) = hash(git, paths).await {
        return text.lines().map(str::to_owned).collect();
    }
    let mut hashes = Vec::new();
    for path in paths {
        hashes.push(hash(git, std::slice::from_ref(path)).await.unwrap_or_default());
    }
    hashes
}

async fn hash(git: &Git, paths: &[String]) -> Result<String, GitError> {
    let mut args = vec!["hash-object", "--"];
    args.extend(paths.iter().map(String::as_str));
    git.run(&args).await
}
