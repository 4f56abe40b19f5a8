//! Tests that were deleted, skipped, or weakened, as a diff of two trees shows them.
//!
//! A passing verification proves nothing if its tests were removed. The signs are found in `git diff -U0` by
//! the keywords of common languages and test frameworks. ekiden shows a sign to the user beside the agent's
//! claim and decides nothing by it, since deleting a test can be right. So this module looks only for plain
//! cases, and a line that moved, within its file or into another test, is no sign.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// Signs that are kept; more would add nothing.
const SIGNS_MAX: usize = 50;

/// A sign that a test checks less than before.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WeakenedTest {
    /// The file, from the work dir.
    pub path: String,
    pub how: Weakening,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Weakening {
    Deleted,
    /// Marks were added that skip tests.
    Skipped {
        marks: u32,
    },
    FewerAssertions {
        by: u32,
    },
}

/// The signs in the output of `git diff -U0`.
pub fn weakened_tests(diff: &str) -> Vec<WeakenedTest> {
    let mut files = files(diff);
    leave_out_moved(&mut files);
    files.iter().flat_map(signs).take(SIGNS_MAX).collect()
}

/// Whether a file holds tests, by its name.
pub fn is_test_file(path: &str) -> bool {
    let (dirs, name) = path.rsplit_once('/').unwrap_or(("", path));
    let (stem, ending) = name.split_once('.').unwrap_or((name, ""));
    let lower = stem.to_lowercase();
    let named = lower.starts_with("test_")
        || ["_test", "_tests", "_spec"]
            .iter()
            .any(|end| lower.ends_with(end))
        || ["Test", "Tests", "Spec"]
            .iter()
            .any(|end| stem.ends_with(end))
        || ["test.", "spec."]
            .iter()
            .any(|mark| ending.starts_with(mark))
        || ["conftest", "tests"].contains(&lower.as_str());
    let among = |dir: &str| TEST_DIRS.contains(&dir.to_lowercase().as_str());
    // Files that no test runner reads: documents, snapshots, files that were moved out of the way.
    let is_other = NOT_CODE
        .iter()
        .any(|end| name.to_lowercase().ends_with(end));
    !is_other && (named || dirs.split('/').any(among))
}

#[derive(Debug, Default)]
struct FileDiff<'a> {
    path: &'a str,
    /// The path that it had before.
    renamed: Option<&'a str>,
    deleted: bool,
    removed: Vec<&'a str>,
    added: Vec<&'a str>,
}

/// Splits a difference into files.
fn files(diff: &str) -> Vec<FileDiff<'_>> {
    let mut files: Vec<FileDiff<'_>> = Vec::new();
    let mut in_hunk = false;
    for line in diff.lines() {
        if let Some(names) = line.strip_prefix("diff --git ") {
            let path = names.rsplit_once(" b/").map_or(names, |(_, path)| path);
            files.push(FileDiff {
                path,
                ..FileDiff::default()
            });
            in_hunk = false;
            continue;
        }
        let Some(file) = files.last_mut() else {
            continue;
        };
        match line.split_at_checked(1) {
            Some(("@", _)) => in_hunk = true,
            Some(("-", text)) if in_hunk => file.removed.push(text.trim()),
            Some(("+", text)) if in_hunk => file.added.push(text.trim()),
            Some(_) | None if in_hunk => {}
            Some(_) | None => {
                file.deleted |= line.starts_with("deleted file mode");
                file.renamed = file.renamed.or(line.strip_prefix("rename from "));
            }
        }
    }
    files
}

/// Removes the lines that were deleted in one place and added to a test elsewhere. A deleted file whose lines
/// all moved does not count as deleted.
fn leave_out_moved(files: &mut [FileDiff<'_>]) {
    let mut added: BTreeMap<&str, u32> = BTreeMap::new();
    for file in files.iter().filter(|file| may_hold_tests(file.path)) {
        for line in &file.added {
            *added.entry(line).or_default() += 1;
        }
    }
    let mut moved: BTreeMap<&str, u32> = BTreeMap::new();
    for file in &mut *files {
        let had_tests = assertions(file.path, &file.removed) > 0;
        file.removed.retain(|line| {
            let is_moved = take_one(&mut added, line);
            if is_moved {
                *moved.entry(line).or_default() += 1;
            }
            !is_moved
        });
        file.deleted &= !had_tests || assertions(file.path, &file.removed) > 0;
    }
    for file in files.iter_mut().filter(|file| may_hold_tests(file.path)) {
        file.added.retain(|line| !take_one(&mut moved, line));
    }
}

fn take_one(lines: &mut BTreeMap<&str, u32>, line: &str) -> bool {
    let left = lines.get_mut(line).filter(|left| **left > 0);
    left.map(|left| *left -= 1).is_some()
}

fn signs(file: &FileDiff<'_>) -> Vec<WeakenedTest> {
    let of = |path: &str, how| WeakenedTest {
        path: path.to_owned(),
        how,
    };
    let sign = |how| of(file.path, how);
    // A test file with a name that no test runner looks for is as good as deleted.
    if let Some(before) = file.renamed
        && is_test_file(before)
        && !may_hold_tests(file.path)
    {
        return vec![of(before, Weakening::Deleted)];
    }
    if file.deleted {
        let deleted = is_test_file(file.path).then(|| sign(Weakening::Deleted));
        return deleted.into_iter().collect();
    }
    if !may_hold_tests(file.path) {
        return Vec::new();
    }
    let marks = skips(&file.added).saturating_sub(skips(&file.removed));
    let by =
        assertions(file.path, &file.removed).saturating_sub(assertions(file.path, &file.added));
    let skipped = (marks > 0).then(|| sign(Weakening::Skipped { marks }));
    let fewer = (by > 0).then(|| sign(Weakening::FewerAssertions { by }));
    skipped.into_iter().chain(fewer).collect()
}

/// Whether a file may hold tests, by its name: Rust has unit tests beside the code.
pub fn may_hold_tests(path: &str) -> bool {
    is_test_file(path) || path.ends_with(".rs")
}

fn skips(lines: &[&str]) -> u32 {
    count(lines, |line| {
        SKIPS.iter().any(|mark| line.contains(mark))
            || SKIPS_IN_FRONT.iter().any(|mark| line.starts_with(mark))
    })
}

/// In code beside tests, only whole tests are counted: an assertion there may belong to the code.
fn assertions(path: &str, lines: &[&str]) -> u32 {
    let words = if is_test_file(path) {
        ASSERTIONS
    } else {
        &["#[test", "::test]", "::test(", "#[rstest"]
    };
    count(lines, |line| words.iter().any(|word| line.contains(word)))
}

fn count(lines: &[&str], is: impl Fn(&str) -> bool) -> u32 {
    let comment = |line: &str| line.starts_with("//") || line.starts_with("# ");
    let found = lines.iter().filter(|line| !comment(line) && is(line));
    u32::try_from(found.count()).unwrap_or(u32::MAX)
}

const TEST_DIRS: &[&str] = &["test", "tests", "__tests__", "spec", "specs", "e2e"];

const NOT_CODE: &[&str] = &[
    ".md",
    ".txt",
    ".rst",
    ".snap",
    ".lock",
    ".bak",
    ".old",
    ".disabled",
];

const SKIPS: &[&str] = &[
    "pytest.mark.skip",
    "pytest.mark.xfail",
    "pytest.skip(",
    "unittest.skip",
    "skipTest(",
    concat!("#[", "ignore"),
    "it.skip",
    "it.todo",
    "it.only",
    "test.skip",
    "test.todo",
    "test.only",
    "describe.skip",
    "describe.only",
    "t.Skip",
    "@Disabled",
    "@Ignore",
    "[Ignore",
    "(Skip =",
    "GTEST_SKIP",
    "markTestSkipped",
];

/// Marks that count only at the beginning of a line: `exit(` contains one of them.
const SKIPS_IN_FRONT: &[&str] = &["xit(", "xtest(", "xdescribe(", "fit(", "fdescribe("];

const ASSERTIONS: &[&str] = &[
    "assert",
    "Assert",
    "expect(",
    "expect!",
    "require.",
    "should",
    "t.Error",
    "t.Fatal",
    "EXPECT_",
    "ASSERT_",
    "REQUIRE(",
    "pytest.raises",
    "insta::",
];

#[cfg(test)]
mod tests;
