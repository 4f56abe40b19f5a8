//! `cargo xtask tidy`: checks what no compiler checks, as far as a program can be certain.
//!
//! | part | checks |
//! |---|---|
//! | [`code`] | module documents, the length of files and functions, where `unsafe` and lint exceptions stand |
//! | [`reach`] | no Rust file that cargo never compiles |
//! | [`arrows`] | which crate may know which |
//! | [`circles`] | files of a crate that use each other in a circle |
//! | [`platforms`] | `linux.rs` and `macos.rs` offer the same functions |
//! | [`words`] | leftovers, words that the glossary replaces, names of one person's machine |
//! | [`documents`] | links lead somewhere, the README opens with its two commands, each library has a reason, the code map leads to the answers of `reading.md` |
//!
//! It runs as a test too, so `cargo test` and CI cannot disagree. A check that is sometimes wrong would be
//! silenced, and its true findings with it. So anything that needs judgement is left to readers.

mod arrows;
mod circles;
mod code;
mod documents;
mod platforms;
mod reach;
mod tree;
mod words;

use std::fmt;

pub(crate) use arrows::NEVER_SHIPPED;
pub(crate) use tree::{SourceFile, Tree};

use crate::shell;

/// Something that is wrong, and where.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Fault {
    path: String,
    line: usize,
    what: String,
}

impl Fault {
    /// A fault of a line, counted from 1.
    pub(crate) fn at(path: &str, line: usize, what: impl Into<String>) -> Self {
        Self {
            path: path.to_owned(),
            line,
            what: what.into(),
        }
    }

    /// A fault of a whole file.
    pub(crate) fn of(path: &str, what: impl Into<String>) -> Self {
        Self::at(path, 0, what)
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.path)?;
        if self.line > 0 {
            write!(f, ":{}", self.line)?;
        }
        write!(f, ": {}", self.what)
    }
}

/// Checks the workspace.
///
/// # Errors
///
/// All faults, one per line.
pub(crate) fn run() -> Result<(), String> {
    report(check(&Tree::read(shell::root())?))
}

/// Nothing, or all faults as one text.
pub(crate) fn report(mut faults: Vec<Fault>) -> Result<(), String> {
    if faults.is_empty() {
        return Ok(());
    }
    faults.sort();
    let lines: String = faults.iter().map(|fault| format!("\n  {fault}")).collect();
    Err(format!("{} to mend:{lines}", faults.len()))
}

fn check(tree: &Tree) -> Vec<Fault> {
    let parts = [
        code::check,
        reach::check,
        arrows::check,
        circles::check,
        platforms::check,
        words::check,
        documents::check,
    ];
    parts.iter().flat_map(|part| part(tree)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_project_is_tidy() {
        if let Err(faults) = run() {
            panic!("{faults}");
        }
    }

    #[test]
    fn faults_are_told_in_order_with_their_place() {
        let faults = vec![
            Fault::at("b.rs", 7, "too long"),
            Fault::of("a.rs", "no documents"),
        ];
        expect_test::expect![[r"
            2 to mend:
              a.rs: no documents
              b.rs:7: too long"]]
        .assert_eq(&report(faults).unwrap_err());
    }
}
