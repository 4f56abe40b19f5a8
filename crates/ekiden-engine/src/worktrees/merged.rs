//! What a merge changed, as a stage's agent sees it.

use std::path::{Path, PathBuf};

use ekiden_core::event::Merge;

use crate::globs;

/// A merge that changed these files, which are named from the repository's root; `prefix` is the work dir there.
pub fn merged(
    commit: String,
    changed: &[String],
    prefix: &Path,
    declared: &[String],
) -> Result<Merge, String> {
    let files = seen(changed, prefix);
    // A stage that declares no outputs has nothing to comply with.
    let undeclared = match declared.is_empty() {
        true => Vec::new(),
        false => globs::undeclared(&files, declared)?,
    };
    Ok(Merge::Done {
        commit,
        files,
        undeclared,
    })
}

/// Files as a stage's agent sees them, from its work dir.
pub(super) fn seen(files: &[String], prefix: &Path) -> Vec<String> {
    let up: PathBuf = prefix.components().map(|_| "..").collect();
    let seen = |file: &String| {
        let file = Path::new(file);
        let within = file.strip_prefix(prefix).map(Path::to_owned);
        let path = within.unwrap_or_else(|_| up.join(file));
        path.to_string_lossy().into_owned()
    };
    files.iter().map(seen).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A fleet's follower has the commit only, and fills in the rest.
    // shows: PLN-15, FLT-01
    #[test]
    fn a_merge_names_files_from_the_work_dir_and_those_that_were_not_declared() {
        let [changed, declared] = [
            ["sub ü/näme.txt", "sub ü/d/q\"uote", "top.txt"],
            ["näme.txt", "other", "src/"],
        ]
        .map(|names| names.map(str::to_owned));
        let done = |declared: &[String]| {
            let done = merged("c".to_owned(), &changed, Path::new("sub ü"), declared);
            let Merge::Done {
                files, undeclared, ..
            } = done.unwrap()
            else {
                panic!("it is no merge");
            };
            (files, undeclared)
        };
        let (files, undeclared) = done(&declared);
        assert_eq!(files, ["näme.txt", "d/q\"uote", "../top.txt"]);
        assert_eq!(undeclared, ["d/q\"uote", "../top.txt"]);
        assert!(done(&[]).1.is_empty());
    }
}
