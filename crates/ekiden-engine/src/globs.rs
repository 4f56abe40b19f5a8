//! Files by their names: paths and globs from a manifest, seen from a work dir.
//!
//! A name without special characters is a file or a whole directory. Nothing leads out of the work dir, no
//! link is followed, and what is git's or ekiden's own is no file.

use std::path::Path;

use ekiden_core::glob::{Glob, is_pattern};
use walkdir::{DirEntry, WalkDir};

/// Directories that are nobody's output.
const NOT_FILES: &[&str] = &[".git", ".ekiden"];

/// What names found.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Found {
    /// Files, from the work dir, in order.
    pub(crate) files: Vec<String>,
    /// Names without special characters that are no file.
    pub(crate) missing: Vec<String>,
    /// There are more than were asked for.
    pub(crate) more: bool,
}

/// Finds what the names stand for, in their order; at most so many files.
///
/// # Errors
///
/// If a name is no pattern.
pub(crate) fn find(dir: &Path, names: &[String], files_max: usize) -> Result<Found, String> {
    let mut found = Found::default();
    for name in names {
        let before = found.files.len();
        look(dir, name, files_max, &mut found)?;
        found.files[before..].sort();
        if found.files.len() == before && !is_pattern(name) {
            found.missing.push(name.clone());
        }
    }
    let mut seen = std::collections::BTreeSet::new();
    found.files.retain(|file| seen.insert(file.clone()));
    Ok(found)
}

/// The names that find no file.
///
/// # Errors
///
/// As [`find`].
pub(crate) fn unmatched(dir: &Path, names: &[String]) -> Result<Vec<String>, String> {
    let finds = |name: &String| {
        let mut found = Found::default();
        look(dir, name, 1, &mut found).map(|()| !found.files.is_empty())
    };
    let mut unmatched = Vec::new();
    for name in names {
        if !finds(name)? {
            unmatched.push(name.clone());
        }
    }
    Ok(unmatched)
}

/// Which paths none of the names stands for.
///
/// # Errors
///
/// As [`find`].
pub(crate) fn beside(paths: &[String], names: &[String]) -> Result<Vec<String>, String> {
    let mut globs = Vec::new();
    for name in names.iter().map(|name| plain(name)).filter(|name| is_pattern(name)) {
        globs.push(Glob::new(name)?);
    }
    // A directory stands for all that is in it.
    let is_in = |path: &str, name: &str| {
        path.strip_prefix(plain(name)).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    };
    let is_named = |path: &&String| {
        names.iter().any(|name| is_in(path, name)) || globs.iter().any(|glob| glob.matches(path))
    };
    Ok(paths.iter().filter(|path| !is_named(path)).cloned().collect())
}

fn look(dir: &Path, name: &str, files_max: usize, found: &mut Found) -> Result<(), String> {
    let name = plain(name);
    let glob = if is_pattern(name) { Some(Glob::new(name)?) } else { None };
    let start = glob.as_ref().map_or(name, Glob::base);
    walk(dir, start, glob.as_ref(), files_max, found);
    Ok(())
}

fn walk(dir: &Path, start: &str, glob: Option<&Glob>, files_max: usize, found: &mut Found) {
    let ours = |entry: &DirEntry| !NOT_FILES.iter().any(|name| entry.file_name() == *name);
    for entry in WalkDir::new(dir.join(start)).into_iter().filter_entry(ours).flatten() {
        if entry.file_type().is_dir() {
            continue;
        }
        let Some(path) = entry.path().strip_prefix(dir).ok().and_then(Path::to_str) else { continue };
        if glob.is_some_and(|glob| !glob.matches(path)) {
            continue;
        }
        if found.files.len() >= files_max {
            found.more = true;
            return;
        }
        found.files.push(path.to_owned());
    }
}

/// `./src/` is `src`.
fn plain(name: &str) -> &str {
    name.trim_start_matches("./").trim_end_matches('/')
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[expect(clippy::disallowed_methods, reason = "a test makes its own files")]
    fn tree() -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        for file in ["a.rs", "src/b.rs", "src/deep/c.rs", "src/d.txt", ".git/x.rs", ".ekiden/y.rs"] {
            let path = dir.path().join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "text").unwrap();
        }
        dir
    }

    fn names(names: &[&str]) -> Vec<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    // shows: PLN-11
    #[test]
    fn names_stand_for_files_directories_and_patterns() {
        let dir = tree();
        let files = |given: &[&str]| find(dir.path(), &names(given), 100).unwrap().files;
        assert_eq!(files(&["**/*.rs"]), ["a.rs", "src/b.rs", "src/deep/c.rs"]);
        assert_eq!(files(&["src/*.rs", "a.rs"]), ["src/b.rs", "a.rs"]);
        assert_eq!(files(&["./src/", "src/b.rs"]), ["src/b.rs", "src/d.txt", "src/deep/c.rs"]);
        let found = find(dir.path(), &names(&["none.rs", "none/*.rs", "a.rs"]), 100).unwrap();
        assert_eq!((found.files, found.missing), (names(&["a.rs"]), names(&["none.rs"])));
        assert!(find(dir.path(), &names(&["**/*.rs"]), 2).unwrap().more);
        assert_eq!(
            unmatched(dir.path(), &names(&["a.rs", "none/*.rs", "src", "x"])).unwrap(),
            ["none/*.rs", "x"]
        );
    }

    // shows: PLN-15
    #[test]
    fn what_was_not_declared_is_told() {
        let changed = names(&["src/b.rs", "docs/a/b.md", "Makefile"]);
        assert_eq!(beside(&changed, &names(&["src/*.rs", "docs"])).unwrap(), ["Makefile"]);
        assert_eq!(beside(&changed, &[]).unwrap(), changed);
    }
}
