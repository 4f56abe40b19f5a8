//! What stays out of commits: directories with so many new files that a tool must have created them and nobody
//! meant to commit them; files lent to a worktree, which are the user's; what git could not read, such as a file of
//! another user's, which would make it refuse all the others; and submodules that a merge or a switch has left behind.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::path::{Path, PathBuf};

use super::status::Entry;
use super::{Git, GitError};
use crate::globs;

/// If one directory has more new files than this, they stay out of commits.
const NEW_FILES_MAX: usize = 1_000;
/// Directories that tools fill. Elsewhere, the smallest directory that holds most of the new files counts.
const FILLED_BY_TOOLS: [&str; 6] = [
    "node_modules",
    ".venv",
    "venv",
    "target",
    "__pycache__",
    ".cache",
];

/// The user's files that were copied into a worktree. Git ignored them when the run began; a stage may have
/// changed that since.
#[derive(Debug, Clone, Default)]
pub struct Lent {
    /// What the manifest names, from the repository's root.
    pub(crate) names: Vec<String>,
    /// The root of the user's checkout.
    pub(crate) top: PathBuf,
}

impl Lent {
    /// The lent ones among these entries. A file that only the stage has is its own work, whatever its name.
    pub(crate) fn among(&self, entries: &[Entry]) -> Result<BTreeSet<String>, GitError> {
        if self.names.is_empty() {
            return Ok(BTreeSet::new());
        }
        // Includes what an agent has staged.
        let new = entries.iter().filter(|entry| entry.committed.is_none());
        let new: Vec<String> = new.map(Entry::shown).collect();
        let others = globs::undeclared(&new, &self.names).map_err(GitError::Refused)?;
        let others: BTreeSet<String> = others.into_iter().collect();
        let is_theirs = |path: &String| self.top.join(path).symlink_metadata().is_ok();
        let new = new.into_iter();
        Ok(new
            .filter(|path| !others.contains(path) && is_theirs(path))
            .collect())
    }
}

/// Which of these entries of the work tree `top` stay out of a commit.
pub(crate) async fn stays_out(
    git: &Git,
    entries: &[Entry],
    declared: &[String],
    lent: &Lent,
    top: &Path,
) -> Result<BTreeSet<String>, GitError> {
    let mut found = flooded(entries, declared)?;
    found.extend(lent.among(entries)?);
    let unreadable = entries
        .iter()
        .filter(|entry| !is_readable(&entry.place(top)));
    found.extend(unreadable.map(Entry::shown));
    for entry in entries.iter().filter(|entry| entry.is_moved_submodule) {
        if is_behind(git, entry, top).await {
            found.insert(entry.shown());
        }
    }
    Ok(found)
}

/// A merge or a switch, which leaves submodules alone, has moved this one on: the last commit names a commit that is
/// newer than what is checked out, or is not there. Committing what is checked out would undo that.
async fn is_behind(git: &Git, submodule: &Entry, top: &Path) -> bool {
    let git = git.within(submodule.place(top));
    let named = submodule.committed.as_deref().unwrap_or_default();
    let ask = git.run("merge-base --is-ancestor HEAD", &[named]).await;
    // It ends with 1 if this is not so, and with 128 if it does not find the commit.
    !matches!(ask, Err(GitError::Failed { code: 1, .. }))
}

/// Git can read what is there, or nothing is there.
fn is_readable(path: &Path) -> bool {
    let Ok(found) = path.symlink_metadata() else {
        return true;
    };
    match found.is_file() {
        true => File::open(path).is_ok(),
        false => found.is_dir() || found.is_symlink(),
    }
}

/// The directories among these entries whose new files stay out, each with a slash at its end. Declared files,
/// from the repository's root, do not count.
pub(crate) fn flooded(
    entries: &[Entry],
    declared: &[String],
) -> Result<BTreeSet<String>, GitError> {
    let new = entries.iter().filter(|entry| entry.is_untracked());
    let new: Vec<String> = new.map(Entry::shown).collect();
    // Usually there are few.
    if new.len() <= NEW_FILES_MAX {
        return Ok(BTreeSet::new());
    }
    let new = globs::undeclared(&new, declared).map_err(GitError::Refused)?;
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for path in &new {
        for dir in dirs(path) {
            *counts.entry(dir).or_default() += 1;
        }
    }
    let is_full = |dir: &&str| counts.get(dir).is_some_and(|files| *files > NEW_FILES_MAX);
    // Directories whose new files are mostly in one directory below.
    let mut around = BTreeSet::new();
    for (dir, files) in counts.iter().filter(|(dir, _)| is_full(dir)) {
        let above = dirs(dir.trim_end_matches('/')).last();
        around.extend(above.filter(|above| 2 * files > counts[above]));
    }
    let mut found = BTreeSet::new();
    for path in &new {
        let mut full = dirs(path).filter(is_full);
        let dir = full.find(|dir| is_of_tools(dir) || !around.contains(dir));
        found.extend(dir.map(str::to_owned));
    }
    let holds_output = |dir: &String| declared.iter().any(|output| output.starts_with(dir));
    found.retain(|dir| !holds_output(dir));
    Ok(found)
}

/// The entry is one of these files, or a new one in one of these directories.
pub(crate) fn is_in(entry: &Entry, stays_out: &BTreeSet<String>) -> bool {
    let path = entry.shown();
    let is_in_dir = entry.is_untracked() && dirs(&path).any(|dir| stays_out.contains(dir));
    is_in_dir || stays_out.contains(&path)
}

/// The directories above a path, the topmost first, each with a slash at its end.
fn dirs(path: &str) -> impl Iterator<Item = &str> {
    path.match_indices('/').map(|(at, _)| &path[..=at])
}

fn is_of_tools(dir: &str) -> bool {
    let name = dir.trim_end_matches('/').rsplit('/').next();
    name.is_some_and(|name| FILLED_BY_TOOLS.contains(&name))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn new(paths: impl IntoIterator<Item = String>) -> Vec<Entry> {
        let entry = |path: String| Entry {
            path: path.into_bytes(),
            code: "??".to_owned(),
            committed: None,
            is_unmerged: false,
            is_dirty_submodule: false,
            is_only_inside: false,
            is_moved_submodule: false,
        };
        paths.into_iter().map(entry).collect()
    }

    fn found(entries: &[Entry]) -> Vec<String> {
        let declared = ["wanted/".to_owned()];
        flooded(entries, &declared).unwrap().into_iter().collect()
    }

    // shows: REL-18
    #[test]
    fn the_directory_that_a_tool_filled_is_found_and_nothing_around_it() {
        let files = |dir: &'static str, count| (0..count).map(move |n| format!("{dir}{n}.js"));
        let sources = || files("web/src/", 900);
        assert_eq!(found(&new(files("many/", 1_000))), Vec::<String>::new());
        assert_eq!(found(&new(files("many/", 1_001))), ["many/"]);
        assert_eq!(found(&new(files("", 3_000))), Vec::<String>::new());
        assert_eq!(found(&new(files("wanted/", 3_000))), Vec::<String>::new());
        let modules = || files("web/node_modules/big/", 1_500);
        let more = || files("web/node_modules/small/", 100);
        let entries = new(modules().chain(more()).chain(sources()));
        assert_eq!(found(&entries), ["web/node_modules/"]);
        let flooded = flooded(&entries, &[]).unwrap();
        let left: Vec<&Entry> = entries
            .iter()
            .filter(|entry| !is_in(entry, &flooded))
            .collect();
        assert_eq!(left.len(), 900);
        let deep = files("data/a/b/", 2_000).chain(files("data/c/", 20));
        assert_eq!(found(&new(deep)), ["data/a/b/"]);
    }
}
