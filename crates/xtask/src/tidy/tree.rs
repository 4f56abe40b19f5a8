//! The project's texts: everything that a person wrote and another will read.

use std::path::Path;

/// Directories whose files are checked, beside the files at the root.
const DIRECTORIES: &[&str] = &[".cargo", ".ci", "crates", "docs", "examples"];
/// Directories that hold what programs wrote.
const FOREIGN: &[&str] = &[
    "fixtures",
    "node_modules",
    "proptest-regressions",
    "snapshots",
    "target",
];
/// Files in the root that programs wrote. In a worktree `.git` is one.
const GENERATED: &[&str] = &[".git", "Cargo.lock"];

/// A text of the project.
#[derive(Debug, Clone)]
pub(crate) struct SourceFile {
    /// Its path from the root, with `/`.
    pub(crate) path: String,
    /// Its contents.
    pub(crate) text: String,
}

/// All texts of the project.
#[derive(Debug, Clone, Default)]
pub(crate) struct Tree {
    /// In the order of their paths.
    pub(crate) files: Vec<SourceFile>,
}

impl Tree {
    /// Reads them.
    pub(crate) fn read(root: &Path) -> Result<Self, String> {
        let mut files = Vec::new();
        for name in names(root)? {
            let path = root.join(&name);
            if path.is_dir() && DIRECTORIES.contains(&name.as_str()) {
                collect(&path, &name, &mut files)?;
            } else if path.is_file() && !GENERATED.contains(&name.as_str()) {
                read_text(&path, name, &mut files)?;
            }
        }
        Ok(Self { files })
    }

    /// A tree of these paths and texts.
    #[cfg(test)]
    pub(crate) fn of(files: &[(&str, &str)]) -> Self {
        let file = |(path, text): &(&str, &str)| SourceFile {
            path: (*path).to_owned(),
            text: (*text).to_owned(),
        };
        Self {
            files: files.iter().map(file).collect(),
        }
    }

    /// The files with an ending, such as `.rs`.
    pub(crate) fn ending(&self, ending: &str) -> impl Iterator<Item = &SourceFile> {
        self.files
            .iter()
            .filter(move |file| file.path.ends_with(ending))
    }

    /// A file by its path.
    pub(crate) fn get(&self, path: &str) -> Option<&SourceFile> {
        self.files.iter().find(|file| file.path == path)
    }
}

impl SourceFile {
    /// The crate that it belongs to.
    pub(crate) fn crate_name(&self) -> Option<&str> {
        self.path.strip_prefix("crates/")?.split('/').next()
    }

    /// It is compiled for tests and benches only.
    pub(crate) fn is_test(&self) -> bool {
        let in_tests = self
            .path
            .split('/')
            .any(|part| part == "tests" || part == "benches");
        in_tests || self.path.ends_with("/tests.rs")
    }

    /// It is part of a program or library.
    pub(crate) fn is_production(&self) -> bool {
        let mut parts = self.path.split('/').skip(2);
        self.path.starts_with("crates/") && parts.next() == Some("src") && !self.is_test()
    }

    /// Its lines with their numbers, from 1.
    pub(crate) fn lines(&self) -> impl Iterator<Item = (usize, &str)> {
        self.text
            .lines()
            .enumerate()
            .map(|(index, line)| (index + 1, line))
    }
}

fn collect(directory: &Path, name: &str, files: &mut Vec<SourceFile>) -> Result<(), String> {
    for entry in names(directory)? {
        let (path, name) = (directory.join(&entry), format!("{name}/{entry}"));
        if path.is_file() {
            read_text(&path, name, files)?;
        } else if path.is_dir() && !path.is_symlink() && !FOREIGN.contains(&entry.as_str()) {
            collect(&path, &name, files)?;
        }
    }
    Ok(())
}

/// Binary files are not checked.
fn read_text(path: &Path, name: String, files: &mut Vec<SourceFile>) -> Result<(), String> {
    let bytes =
        std::fs::read(path).map_err(|error| format!("cannot read {}: {error}", path.display()))?;
    files.extend(
        String::from_utf8(bytes)
            .ok()
            .map(|text| SourceFile { path: name, text }),
    );
    Ok(())
}

fn names(directory: &Path) -> Result<Vec<String>, String> {
    let failed = |error| format!("cannot list {}: {error}", directory.display());
    let mut names = Vec::new();
    for entry in std::fs::read_dir(directory).map_err(failed)? {
        names.extend(entry.map_err(failed)?.file_name().into_string());
    }
    names.sort();
    Ok(names)
}

/// The workspace's own tree, for tests.
#[cfg(test)]
pub(crate) fn own() -> Tree {
    Tree::read(crate::shell::root()).unwrap()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tree_holds_what_people_write_and_nothing_else() {
        let tree = own();
        for there in [
            "Cargo.toml",
            "README.md",
            "crates/xtask/src/tidy/tree.rs",
            "docs/glossary.md",
        ] {
            assert!(tree.get(there).is_some(), "{there}");
        }
        let foreign = |file: &&SourceFile| {
            file.path.contains("/target/") || file.path.contains("node_modules")
        };
        assert_eq!(tree.files.iter().find(foreign).map(|file| &file.path), None);
    }

    #[test]
    fn production_code_is_told_from_tests() {
        let production = |path: &str| {
            SourceFile {
                path: path.to_owned(),
                text: String::new(),
            }
            .is_production()
        };
        assert!(production("crates/ekiden-core/src/relay/mod.rs"));
        assert!(!production("crates/ekiden-core/src/relay/tests.rs"));
        assert!(!production("crates/ekiden/tests/cli/main.rs"));
        assert!(!production("examples/first-relay/task.md"));
    }
}
