//! Tests that were deleted, skipped or weakened, as the difference of two trees shows it.
//!
//! A verification that passes proves nothing where its tests were taken away. The signs are read from
//! `git diff -U0` by the words of common languages and test frameworks. A sign is told to the user
//! beside the agent's claim and decides nothing: tests are rightly deleted, too.
//!
//! A line that only moved, into another file or within its own, is no sign, unless it moved to where no
//! test runs: into a file that is set aside (`test_cart.py.bak`), or under a name that no runner looks for.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// Signs that are kept; more say nothing more.
const SIGNS_MAX: usize = 50;

/// A sign that a test says less than before.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WeakenedTest {
    /// The file, from the work dir.
    pub path: String,
    /// What was done to it.
    pub how: Weakening,
}

/// What was done to a test.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Weakening {
    /// The file is gone.
    Deleted,
    /// Marks were added by which tests are passed over.
    Skipped {
        /// How many.
        marks: u32,
    },
    /// It has fewer tests.
    FewerTests {
        /// By how many.
        by: u32,
    },
    /// It has fewer assertions.
    FewerAssertions {
        /// By how many.
        by: u32,
    },
    /// What runs tests, such as a continuous integration, runs them less often.
    FewerRuns {
        /// By how many commands.
        by: u32,
    },
}

/// The signs in a difference as `git diff -U0` tells it.
#[must_use]
pub fn weakened_tests(diff: &str) -> Vec<WeakenedTest> {
    let mut files = files(diff);
    leave_out_moved(&mut files);
    files.iter().flat_map(signs).take(SIGNS_MAX).collect()
}

/// What changed in one file.
#[derive(Debug, Default)]
struct FileDiff<'a> {
    path: &'a str,
    /// Its name before, if it was renamed.
    renamed: Option<&'a str>,
    deleted: bool,
    removed: Vec<&'a str>,
    added: Vec<&'a str>,
    /// There were tests in it, and they all moved elsewhere.
    moved: bool,
}

impl FileDiff<'_> {
    fn has_tests(&self) -> bool {
        self.removed.iter().any(|line| is(line, Kind::Test) || is(line, Kind::Assertion))
    }
}

/// What a line of a test is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Test,
    Skip,
    Assertion,
    /// A command that runs tests.
    Run,
    /// What makes such a command pass, or pass over tests.
    Excuse,
}

/// Takes out what stands on both sides, wherever.
fn leave_out_moved(files: &mut [FileDiff<'_>]) {
    let mut removed = BTreeMap::new();
    let mut added = BTreeMap::new();
    for file in files.iter() {
        file.removed.iter().for_each(|line| *removed.entry(*line).or_insert(0) += 1);
        if !is_set_aside(file.path) {
            file.added.iter().for_each(|line| *added.entry(*line).or_insert(0) += 1);
        }
    }
    for file in files {
        let held = file.has_tests();
        file.removed.retain(|line| !take_one(&mut added, line));
        file.moved = held && !file.has_tests();
        file.added.retain(|line| !take_one(&mut removed, line));
    }
}

fn take_one(lines: &mut BTreeMap<&str, u32>, line: &str) -> bool {
    let left = lines.get_mut(line).filter(|left| **left > 0);
    left.map(|left| *left -= 1).is_some()
}

fn signs(file: &FileDiff<'_>) -> Vec<WeakenedTest> {
    let count = |lines: &[&str], kind| {
        u32::try_from(lines.iter().filter(|line| is(line, kind)).count()).unwrap_or(u32::MAX)
    };
    let fewer = |kind| count(&file.removed, kind).saturating_sub(count(&file.added, kind));
    let marks = count(&file.added, Kind::Skip).saturating_sub(count(&file.removed, Kind::Skip));
    let excuses = count(&file.added, Kind::Excuse).saturating_sub(count(&file.removed, Kind::Excuse));
    let tests = is_test_file(file.path);
    let settings = is_test_settings(file.path);
    let marks = if settings { marks.saturating_add(excuses) } else { marks };
    // Rust keeps tests beside the code.
    let may_hold_tests = tests || file.path.ends_with(".rs");
    let hidden = file.renamed.filter(|before| is_collected(before) && !is_collected(file.path));
    let found = [
        (tests && file.deleted && !file.moved || hidden.is_some(), Weakening::Deleted),
        (!file.deleted && (may_hold_tests || settings), Weakening::Skipped { marks }),
        (!file.deleted && may_hold_tests, Weakening::FewerTests { by: fewer(Kind::Test) }),
        (!file.deleted && tests, Weakening::FewerAssertions { by: fewer(Kind::Assertion) }),
        (settings, Weakening::FewerRuns { by: fewer(Kind::Run) }),
    ];
    let sign = |how: Weakening| WeakenedTest { path: hidden.unwrap_or(file.path).to_owned(), how };
    found.into_iter().filter(|(holds, how)| *holds && !how.is_nothing()).map(|(_, how)| sign(how)).collect()
}

impl Weakening {
    fn is_nothing(self) -> bool {
        match self {
            Self::Deleted => false,
            Self::Skipped { marks: number }
            | Self::FewerTests { by: number }
            | Self::FewerAssertions { by: number }
            | Self::FewerRuns { by: number } => number == 0,
        }
    }
}

/// Splits a difference into files.
fn files(diff: &str) -> Vec<FileDiff<'_>> {
    let mut files: Vec<FileDiff<'_>> = Vec::new();
    let mut in_hunk = false;
    for line in diff.lines() {
        if let Some(names) = line.strip_prefix("diff --git ") {
            let path = names.rsplit_once(" b/").map_or(names, |(_, path)| path);
            files.push(FileDiff { path, ..FileDiff::default() });
            in_hunk = false;
            continue;
        }
        let Some(file) = files.last_mut() else { continue };
        match line.split_at_checked(1) {
            Some(("@", _)) => in_hunk = true,
            Some(("-", text)) if in_hunk => file.removed.push(text.trim()),
            Some(("+", text)) if in_hunk => file.added.push(text.trim()),
            Some(_) | None if !in_hunk => {
                file.deleted |= line.starts_with("deleted file mode");
                file.renamed = line.strip_prefix("rename from ").or(file.renamed);
            }
            Some(_) | None => {}
        }
    }
    files
}

/// Whether a file holds tests, by its name.
#[must_use]
pub fn is_test_file(path: &str) -> bool {
    let (dirs, name) = path.rsplit_once('/').unwrap_or(("", path));
    let among = |dir: &str| TEST_DIRS.contains(&dir.to_lowercase().as_str());
    let lower = name.to_lowercase();
    let is_text = [".md", ".txt", ".rst", ".snap", ".lock"].iter().any(|end| lower.ends_with(end));
    !is_text && !is_set_aside(path) && (is_named_as_test(name) || dirs.split('/').any(among))
}

fn is_named_as_test(name: &str) -> bool {
    let stem = name.split('.').next().unwrap_or_default();
    let (lower, words) = (name.to_lowercase(), stem.to_lowercase());
    words.starts_with("test_")
        || ["_test", "_tests", "_spec"].iter().any(|end| words.ends_with(end))
        || ["Test", "Tests", "Spec", "TestCase", "IT"].iter().any(|end| stem.len() > 2 && stem.ends_with(end))
        || [".test.", ".spec.", ".cy.", ".e2e."].iter().any(|mark| lower.contains(mark))
        || words == "conftest"
        || words == "tests"
}

/// Kept, but nothing runs it.
fn is_set_aside(path: &str) -> bool {
    let lower = path.to_lowercase();
    [".bak", ".disabled", ".old", ".orig", ".off", ".skip", ".txt", ".md"]
        .iter()
        .any(|end| lower.ends_with(end))
}

/// A runner that goes by names finds it.
fn is_collected(path: &str) -> bool {
    !is_set_aside(path) && is_named_as_test(path.rsplit('/').next().unwrap_or_default())
}

/// Files that say which tests run, and when.
fn is_test_settings(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or_default();
    SETTINGS.contains(&name)
        || ["jest.config", "vitest.config", "karma.conf", "playwright.config"]
            .iter()
            .any(|n| name.starts_with(n))
        || path.contains(".github/workflows/")
}

const SETTINGS: &[&str] = &[
    "pyproject.toml",
    "setup.cfg",
    "pytest.ini",
    "tox.ini",
    "noxfile.py",
    "package.json",
    "Makefile",
    "makefile",
    "justfile",
    "pom.xml",
    "build.gradle",
    "build.gradle.kts",
    ".gitlab-ci.yml",
    ".travis.yml",
    "azure-pipelines.yml",
    "Jenkinsfile",
    ".circleci/config.yml",
    ".pre-commit-config.yaml",
];

const TEST_DIRS: &[&str] = &["test", "tests", "__tests__", "spec", "specs", "e2e", "testing"];

/// Words at the beginning of a line with which a test begins.
const TESTS: &[&str] = &[
    "def test_",
    "async def test_",
    "def test ",
    "#[test]",
    "#[tokio::test",
    "#[rstest",
    "#[test_case",
    "it(",
    "it (",
    "test(",
    "test (",
    "it.each",
    "test.each",
    "it \"",
    "it '",
    "test \"",
    "specify ",
    "@Test",
    "@ParameterizedTest",
    "func Test",
    "TEST(",
    "TEST_F(",
    "TEST_P(",
    "TEST_CASE(",
    "[Fact",
    "[Theory",
    "[Test]",
    "[TestMethod",
    "public function test",
    "fun `",
    "@pytest.mark.parametrize",
];

/// Marks by which tests are passed over.
const SKIPS: &[&str] = &[
    "pytest.mark.skip",
    "pytest.mark.xfail",
    "pytest.skip(",
    "unittest.skip",
    "skipTest(",
    "importorskip(",
    concat!("#[", "ignore"),
    "it.skip",
    "test.skip",
    "describe.skip",
    "it.todo",
    "test.todo",
    "it.only",
    "test.only",
    "describe.only",
    "t.Skip",
    "@Disabled",
    "@Ignore",
    "[Ignore",
    "Skip =",
    "GTEST_SKIP",
    "DISABLED_",
    "markTestSkipped",
    "collect_ignore",
    "--deselect",
    "testPathIgnorePatterns",
    "SkipTest",
    "except AssertionError",
    "catch (AssertionError",
    ".fixme(",
    ".failing(",
    "test.fails",
    "it.fails",
    "this.skip(",
    "describe.todo",
    "concurrent.skip",
    ".skipIf(",
    "//go:build ignore",
    "// +build ignore",
    "assumeTrue(false",
    "assumeFalse(true",
    "#[cfg(any())]",
    "#[cfg(false)]",
    ", ignore)]",
    "XCTSkip",
];

/// Commands that run tests.
const RUNS: &[&str] = &[
    "pytest",
    "cargo test",
    "nextest",
    "npm test",
    "npm run test",
    "npm t ",
    "yarn test",
    "pnpm test",
    "jest",
    "vitest",
    "mocha",
    "playwright test",
    "go test",
    "mvn test",
    "mvn verify",
    "gradlew test",
    "gradle test",
    "gradlew check",
    "make test",
    "make check",
    "rspec",
    "phpunit",
    "dotnet test",
    "ctest",
    "python -m unittest",
    "manage.py test",
];

/// Words by which a command or a job of tests passes whatever they say, or runs fewer of them.
const EXCUSES: &[&str] = &[
    "continue-on-error: true",
    "allow_failure: true",
    "if: false",
    "--passWithNoTests",
    "skipTests",
    "maven.test.skip",
    "norecursedirs",
    "--ignore=",
    "-k \"not ",
    "-k 'not ",
    "-m \"not ",
    "-m 'not ",
    "-- --skip",
];

/// The same, but only at the beginning of a line: `exit(` is none.
const SKIPS_IN_FRONT: &[&str] = &[
    "xit(",
    "xtest(",
    "xdescribe(",
    "xcontext(",
    "xspecify(",
    "fit(",
    "fdescribe(",
    "pending",
    "if False:",
    "if (false)",
];

/// Words with which something is asserted.
const ASSERTIONS: &[&str] = &[
    "assert",
    "Assert",
    "expect(",
    "expect!",
    "require.",
    "should.",
    ".should",
    "t.Error",
    "t.Fatal",
    "EXPECT_",
    "ASSERT_",
    "CHECK(",
    "REQUIRE(",
    "pytest.raises",
    "raise_error",
    "verify(",
    "insta::",
];

/// Assertions that always hold, without blanks.
const EMPTY_ASSERTIONS: &[&str] = &[
    "asserttrue",
    "assert1",
    "assert!(true",
    "expect(true).to",
    "asserttrue(true",
    "assertequal(1,1",
    "assert_eq!(1,1",
    "expect(1).tobe(1",
    "expect(true",
    "assert.ok(true",
    "assert(true",
    "assert1==1",
    "assertnotfalse",
    "asserttrue(1==1",
    "assert!(1==1",
    "assert_eq!(true,true",
    "assertequals(1,1",
    "assertequals(true,true",
    "assert.equal(1,1",
    "assert.true(t,true",
    "require.true(t,true",
    "assert.equal(t,1,1",
    "expect(1).toequal(1",
    "assertthat(true",
];

/// Ends of a condition that holds whatever stands before them, without blanks.
const EMPTY_ENDS: &[&str] = &["ortrue", "||true", "||true)", "||true);"];

fn is(line: &str, kind: Kind) -> bool {
    let any = |words: &[&str]| words.iter().any(|word| line.contains(word));
    let in_front = |words: &[&str]| words.iter().any(|word| line.starts_with(word));
    match kind {
        Kind::Skip => any(SKIPS) || in_front(SKIPS_IN_FRONT),
        Kind::Test => in_front(TESTS),
        Kind::Assertion => any(ASSERTIONS) && !is_comment(line) && !always_holds(line),
        Kind::Run => any(RUNS) && !is_comment(line) && !is_version(line),
        Kind::Excuse => !is_comment(line) && (any(EXCUSES) || (any(RUNS) && is_excused(line))),
    }
}

/// A command whose failure is passed over.
fn is_excused(line: &str) -> bool {
    ["|| true", "|| :", "|| exit 0", "|| echo"].iter().any(|excuse| line.contains(excuse))
}

/// `"jest": "^29.7.0",` or `pytest>=8`: what is needed, not what is run.
fn is_version(line: &str) -> bool {
    let value = line.split_once(": \"").map_or("", |(_, value)| value);
    value.starts_with(|c: char| c.is_ascii_digit() || "^~*<>=".contains(c))
        || [">=", "==", "~="].iter().any(|mark| line.contains(mark))
}

fn is_comment(line: &str) -> bool {
    ["//", "# ", "#!", "--", "/*", "*", ";", "\"\"\""].iter().any(|mark| line.starts_with(mark))
        || (line.starts_with('#') && !line.starts_with("#["))
}

fn always_holds(line: &str) -> bool {
    let bare: String = line.to_lowercase().chars().filter(|c| !c.is_whitespace()).collect();
    let bare = bare.strip_prefix("self.").unwrap_or(&bare);
    let whatever = EMPTY_ENDS.iter().any(|end| bare.ends_with(end));
    whatever
        || EMPTY_ASSERTIONS.iter().any(|empty| match bare.strip_prefix(empty) {
            // `assert True` is empty, `assertTrue(x)` is not.
            Some(rest) => {
                !rest.starts_with(|c: char| c.is_alphanumeric() || matches!(c, '(' | '_' | '.' | '='))
            }
            None => false,
        })
}

#[cfg(test)]
mod tests;
