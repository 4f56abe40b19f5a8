//! Finds files by the paths and globs of a manifest, within a work dir.
//!
//! A name without special characters is a file or a whole directory. A file or directory whose path reads exactly
//! like a pattern is always included: some frameworks have names like `[id].tsx`. A walk does not follow the links it meets;
//! the name itself may pass through links that stay in the project. Nothing in `.git` or `.ekiden` is ever found.

use std::ffi::OsStr;
use std::path::Path;

use ekiden_store::beneath::{self, NotInside};
use globset::{GlobBuilder, GlobSet};
use ignore::WalkBuilder;

/// Directories that contain no output.
const NOT_FILES: &[&str] = &[".git", ".ekiden"];
/// What makes a name a pattern.
const SPECIAL: [char; 4] = ['*', '?', '[', '{'];

#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Found {
    /// Files, from the work dir, in order.
    pub(crate) files: Vec<String>,
    /// Names without special characters that do not exist.
    pub(crate) missing: Vec<String>,
    /// There are more files than were asked for.
    pub(crate) more: bool,
}

/// Finds the files that the names stand for, in the order of the names; at most `files_max`.
pub(crate) fn find(dir: &Path, names: &[String], files_max: usize) -> Result<Found, String> {
    let mut found = Found::default();
    for name in names {
        let before = found.files.len();
        walk(dir, name, files_max, &mut found)?;
        found.files[before..].sort();
        if found.files.len() == before && !name.contains(SPECIAL) {
            found.missing.push(name.clone());
        }
    }
    let mut seen = std::collections::BTreeSet::new();
    found.files.retain(|file| seen.insert(file.clone()));
    Ok(found)
}

/// All files that these names stand for, from `dir`. The error is for people.
pub fn all_of(dir: &Path, names: &[String]) -> Result<Vec<String>, String> {
    Ok(find(dir, names, usize::MAX)?.files)
}

/// Refuses a name that leads out of the project, or through a link into git's own files. The error follows the name.
pub fn stays_inside(dir: &Path, name: &str) -> Result<(), NotInside> {
    let name = plain(name);
    if is_never_found(name) {
        return Ok(());
    }
    match beneath::open(dir, Path::new(start_of(name))) {
        Err(refused) if refused.is_refused() => Err(refused),
        // Whether it exists is not checked here.
        Ok(_) | Err(_) => Ok(()),
    }
}

/// The names that match no file.
pub(crate) fn unmatched(dir: &Path, names: &[String]) -> Result<Vec<String>, String> {
    let mut unmatched = Vec::new();
    for name in names {
        if let Err(refused) = stays_inside(dir, name) {
            unmatched.push(format!("{name} (it {refused})"));
            continue;
        }
        let mut found = Found::default();
        walk(dir, name, 1, &mut found)?;
        if found.files.is_empty() {
            unmatched.push(name.clone());
        }
    }
    Ok(unmatched)
}

/// The paths that no name covers.
pub(crate) fn undeclared(paths: &[String], names: &[String]) -> Result<Vec<String>, String> {
    let globs = globs(names)?;
    let is_named =
        |path: &&String| globs.is_match(path) || names.iter().any(|name| is_in(path, name));
    Ok(paths
        .iter()
        .filter(|path| !is_named(path))
        .cloned()
        .collect())
}

fn walk(dir: &Path, name: &str, files_max: usize, found: &mut Found) -> Result<(), String> {
    let name = plain(name);
    // The walker does not ask about the directory that it starts in.
    if is_never_found(name) {
        return Ok(());
    }
    let start = start_of(name);
    stays_inside(dir, name).map_err(|refused| format!("`{name}` {refused}"))?;
    let globs = match name.contains(SPECIAL) {
        true => Some(globs(&[name.to_owned()])?),
        false => None,
    };
    let mut entries = WalkBuilder::new(dir.join(start));
    entries
        .standard_filters(false)
        .filter_entry(|entry| !is_not_file(entry.file_name()));
    for entry in entries.build().flatten() {
        if entry.file_type().is_none_or(|kind| kind.is_dir()) {
            continue;
        }
        let Some(path) = entry.path().strip_prefix(dir).ok().and_then(Path::to_str) else {
            continue;
        };
        if globs
            .as_ref()
            .is_some_and(|globs| !is_in(path, name) && !globs.is_match(path))
        {
            continue;
        }
        if found.files.len() >= files_max {
            found.more = true;
            break;
        }
        found.files.push(path.to_owned());
    }
    Ok(())
}

/// A file has this name, or is in the directory of this name. The manifest's reader makes `a/**` of `a/`.
fn is_in(path: &str, name: &str) -> bool {
    let name = plain(name);
    let dir = name.strip_suffix("/**");
    let rest = path.strip_prefix(dir.unwrap_or(name));
    rest.is_some_and(|rest| rest.starts_with('/') || rest.is_empty() && dir.is_none())
}

/// Compiles the patterns among the names, as the manifest's reader checked them.
fn globs(names: &[String]) -> Result<GlobSet, String> {
    let mut globs = GlobSet::builder();
    for name in names.iter().filter(|name| name.contains(SPECIAL)) {
        let glob = GlobBuilder::new(plain(name))
            .literal_separator(true)
            .empty_alternates(true)
            .build();
        globs.add(glob.map_err(|error| error.to_string())?);
    }
    globs.build().map_err(|error| error.to_string())
}

/// Where to look for the files that a name stands for: the part before its first special character.
fn start_of(name: &str) -> &str {
    certain_part(name).trim_end_matches('/')
}

/// What is known of a path without looking: all of a plain name, or the directory of a pattern, with a slash at its end.
pub fn certain_part(name: &str) -> &str {
    let pattern = name.find(SPECIAL);
    let end = pattern.map_or(name.len(), |at| {
        name[..at].rfind('/').map_or(0, |at| at + 1)
    });
    &name[..end]
}

fn is_never_found(name: &str) -> bool {
    name.split('/').any(|part| is_not_file(part.as_ref()))
}

/// Some file systems ignore case.
fn is_not_file(name: &OsStr) -> bool {
    NOT_FILES
        .iter()
        .any(|other| name.eq_ignore_ascii_case(other))
}

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
        for file in [
            "a.rs",
            "src/b.rs",
            "src/deep/c.rs",
            "src/d.txt",
            "app/[id].tsx",
            "app/[id]/e.tsx",
            ".git/x.rs",
            ".ekiden/y.rs",
        ] {
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
        assert_eq!(
            files(&["./src/", "src/b.rs"]),
            ["src/b.rs", "src/d.txt", "src/deep/c.rs"]
        );
        assert_eq!(
            files(&["app/[id].tsx", "{,s}rc/d*"]),
            ["app/[id].tsx", "src/d.txt"]
        );
        assert_eq!(files(&["app/[id]/**"]), ["app/[id]/e.tsx"]);
        assert_eq!(files(&["app/[id]"]), ["app/[id]/e.tsx"]);
        let found = find(dir.path(), &names(&["none.rs", "none/*.rs", "a.rs"]), 100).unwrap();
        assert_eq!(
            (found.files, found.missing),
            (names(&["a.rs"]), names(&["none.rs"]))
        );
        assert!(find(dir.path(), &names(&["**/*.rs"]), 2).unwrap().more);
        assert_eq!(
            unmatched(dir.path(), &names(&["a.rs", "none/*.rs", "src", "x"])).unwrap(),
            ["none/*.rs", "x"]
        );
    }

    // shows: PLN-11, SEC-01
    #[test]
    fn nothing_of_git_or_ekiden_is_found() {
        let dir = tree();
        let hidden = names(&[".git/", ".git/**", "./.git/x.rs", ".ekiden", "{.git,b}/*"]);
        let found = find(dir.path(), &hidden, 100).unwrap();
        assert_eq!(found.files, Vec::<String>::new());
        assert_eq!(found.missing, [".git/", "./.git/x.rs", ".ekiden"]);
        assert_eq!(unmatched(dir.path(), &hidden).unwrap(), hidden);
        let upper = dir.path().join("sub/.GIT");
        #[expect(clippy::disallowed_methods, reason = "a test makes its own files")]
        fs::create_dir_all(&upper)
            .and_then(|()| fs::write(upper.join("config"), "text"))
            .unwrap();
        let upper = names(&["sub/.GIT/", "sub/**", "sub"]);
        assert_eq!(unmatched(dir.path(), &upper).unwrap(), upper);
    }

    // shows: SEC-09
    #[test]
    fn no_name_passes_a_link_out_of_the_project() {
        let dir = tree();
        let outside = tempfile::tempdir().unwrap();
        #[expect(clippy::disallowed_methods, reason = "a test makes its own files")]
        fs::write(outside.path().join("secret.rs"), "text").unwrap();
        for (target, link) in [(outside.path(), "out"), (Path::new("src"), "in")] {
            std::os::unix::fs::symlink(target, dir.path().join(link)).unwrap();
        }
        let out = outside.path().canonicalize().unwrap();
        for (name, to) in [
            ("out", out.clone()),
            ("out/", out.clone()),
            ("out/secret.rs", out.join("secret.rs")),
            ("out/*.rs", out.clone()),
        ] {
            let said = format!("leads out of the project, to {}", to.display());
            let error = find(dir.path(), &names(&[name]), 100).unwrap_err();
            assert_eq!(error, format!("`{}` {said}", plain(name)));
            assert_eq!(
                unmatched(dir.path(), &names(&[name])).unwrap(),
                [format!("{name} (it {said})")]
            );
        }
        let found = find(dir.path(), &names(&["in/*.rs", "in/d.txt"]), 100).unwrap();
        assert_eq!(found.files, ["in/b.rs", "in/d.txt"]);
    }

    // shows: PLN-15
    #[test]
    fn what_was_not_declared_is_found() {
        let changed = names(&["src/b.rs", "docs/a/b.md", "Makefile"]);
        let brackets = names(&["app/[id]/e.tsx", "app/[id]"]);
        assert_eq!(
            undeclared(&brackets, &names(&["app/[id]/**"])).unwrap(),
            ["app/[id]"]
        );
        assert_eq!(
            undeclared(&changed, &names(&["src/*.rs", "docs"])).unwrap(),
            ["Makefile"]
        );
        assert_eq!(undeclared(&changed, &[]).unwrap(), changed);
    }
}
