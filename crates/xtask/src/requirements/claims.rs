//! Which test shows which requirement: what the tests claim of themselves.
//!
//! A claim is a comment directly above a test, `shows: REL-07, REL-08`, or an id in the test's name,
//! `rel_07_a_failing_verification_vetoes`. Read line by line, so that tests inside macros count too. What is
//! promised as a figure no test can show on a busy machine: there the claim stands above the row of the bench
//! that judges it.

use std::collections::BTreeMap;

use super::list::{List, is_id};
use crate::tidy::{Fault, SourceFile, Tree};

const MARK: &str = "// shows:";
const BENCH: &str = "crates/xtask/src/bench/";

/// The claims of all tests.
#[derive(Debug, Default)]
pub(super) struct Claims {
    /// For each id the tests that show it, as `path::name`.
    tests: BTreeMap<String, Vec<String>>,
    /// What is wrong with claims.
    pub(super) faults: Vec<Fault>,
}

impl Claims {
    /// Reads the claims of all Rust files.
    pub(super) fn of(tree: &Tree, list: &List) -> Self {
        let mut claims = Self::default();
        for file in tree.ending(".rs") {
            claims.scan(file, list);
        }
        claims
    }

    /// The tests that show a requirement, in the order of their files.
    pub(super) fn tests_of(&self, id: &str) -> &[String] {
        self.tests.get(id).map_or(&[], Vec::as_slice)
    }

    fn scan(&mut self, file: &SourceFile, list: &List) {
        let mut above = Above::default();
        for (number, line) in file.lines().map(|(number, line)| (number, line.trim())) {
            if let Some(ids) = line.strip_prefix(MARK) {
                above
                    .claims
                    .extend(ids.split(',').map(|id| (number, id.trim().to_owned())));
            } else if line.starts_with("#[") || above.in_attribute {
                above.in_attribute = !line.ends_with(']');
                above.test |= is_test_attribute(line);
            } else if !line.starts_with("//") {
                self.take(file, list, &std::mem::take(&mut above), line);
            }
        }
        self.take(file, list, &above, "");
    }

    /// A line that is neither comment nor attribute: either a test, or the claims above it belong to
    /// nothing.
    fn take(&mut self, file: &SourceFile, list: &List, above: &Above, line: &str) {
        let is_row = file.path.starts_with(BENCH) && line.contains("Row");
        let test = function_name(line).filter(|_| above.test || is_row);
        for (number, id) in &above.claims {
            let fault = |what: String| Fault::at(&file.path, *number, what);
            match test {
                _ if !is_id(id) => self
                    .faults
                    .push(fault(format!("`{id}` is no id of a requirement"))),
                _ if !list.knows(id) => self
                    .faults
                    .push(fault(format!("there is no requirement {id}"))),
                None => self
                    .faults
                    .push(fault(format!("no test stands under the claim of {id}"))),
                Some(name) => self.add(id, &file.path, name),
            }
        }
        if let Some(name) = test {
            let ids = ids_in_name(name).into_iter().filter(|id| list.knows(id));
            ids.for_each(|id| self.add(&id, &file.path, name));
        }
    }

    fn add(&mut self, id: &str, path: &str, name: &str) {
        let (tests, test) = (
            self.tests.entry(id.to_owned()).or_default(),
            format!("{path}::{name}"),
        );
        if !tests.contains(&test) {
            tests.push(test);
        }
    }
}

/// What is above a line.
#[derive(Debug, Default)]
struct Above {
    /// Claims with their lines.
    claims: Vec<(usize, String)>,
    /// An attribute that makes a test of what follows.
    test: bool,
    /// An attribute continues on the next line.
    in_attribute: bool,
}

/// `#[test]`, `#[tokio::test]`, `#[tokio::test(start_paused = true)]`.
fn is_test_attribute(line: &str) -> bool {
    let path = line
        .trim_start_matches("#[")
        .split(['(', ']'])
        .next()
        .unwrap_or_default();
    path.rsplit("::").next() == Some("test")
}

fn function_name(line: &str) -> Option<&str> {
    let (before, after) = line.split_once("fn ")?;
    let qualified = before
        .split_whitespace()
        .all(|word| matches!(word, "async" | "pub" | "const" | "unsafe"));
    let name = after
        .split(|c: char| !c.is_alphanumeric() && c != '_')
        .next()?;
    (qualified && !name.is_empty()).then_some(name)
}

/// `REL-07` for `rel_07` anywhere in a name.
fn ids_in_name(name: &str) -> Vec<String> {
    let words: Vec<&str> = name.split('_').collect();
    let pairs = words
        .windows(2)
        .map(|pair| format!("{}-{}", pair[0].to_uppercase(), pair[1]));
    pairs.filter(|id| is_id(id)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIST: &str = "[[area]]\nid = \"REL\"\ntitle = \"t\"\n\
        [[requirement]]\nid = \"REL-07\"\ntext = \"a\"\nfrom = [\"new\"]\ndone = true\n\
        [[requirement]]\nid = \"REL-08\"\ntext = \"b\"\nfrom = [\"new\"]\ndone = true\n";

    fn claims(lines: &[&str]) -> Claims {
        let list = List::parse(LIST).unwrap();
        Claims::of(
            &Tree::of(&[("crates/a/src/b.rs", &lines.join("\n"))]),
            &list,
        )
    }

    fn faults(lines: &[&str]) -> Vec<String> {
        claims(lines)
            .faults
            .iter()
            .map(ToString::to_string)
            .collect()
    }

    #[test]
    fn a_comment_above_a_test_is_a_claim() {
        let claims = claims(&[
            "    // shows: REL-07, REL-08",
            "    // The reason.",
            "    #[tokio::test(",
            "        start_paused = true",
            "    )]",
            "    async fn a_veto() {",
            "    // shows: REL-08",
            "    #[test]",
            "    fn another(text in \".*\") {",
        ]);
        assert_eq!(claims.tests_of("REL-07"), ["crates/a/src/b.rs::a_veto"]);
        assert_eq!(
            claims.tests_of("REL-08"),
            ["crates/a/src/b.rs::a_veto", "crates/a/src/b.rs::another"]
        );
        assert!(claims.faults.is_empty());
    }

    #[test]
    fn a_row_of_the_bench_shows_a_figure() {
        let list = List::parse(LIST).unwrap();
        let text = "// shows: REL-07\nfn alone(what: &str) -> Result<Row, String> {";
        let path = "crates/xtask/src/bench/guard.rs";
        let claims = Claims::of(&Tree::of(&[(path, text)]), &list);
        assert_eq!(claims.tests_of("REL-07"), [format!("{path}::alone")]);
        assert_eq!(claims.faults, []);
        let elsewhere = Claims::of(&Tree::of(&[("crates/a/src/b.rs", text)]), &list);
        assert_eq!(elsewhere.faults.len(), 1);
    }

    #[test]
    fn an_id_in_the_name_of_a_test_is_a_claim() {
        let claims = claims(&[
            "#[test]",
            "fn rel_07_vetoes_and_sha_256_does_not() {",
            "fn rel_08_helper() {",
        ]);
        assert_eq!(
            claims.tests_of("REL-07"),
            ["crates/a/src/b.rs::rel_07_vetoes_and_sha_256_does_not"]
        );
        assert!(claims.tests_of("REL-08").is_empty());
    }

    #[test]
    fn a_claim_that_nothing_shows_is_a_fault() {
        let none = "no test stands under the claim of REL-07";
        assert_eq!(
            faults(&["// shows: REL-07", "fn helper() {"]),
            [format!("crates/a/src/b.rs:1: {none}")]
        );
        assert_eq!(
            faults(&["", "// shows: REL-07", "", "#[test]", "fn a() {"]),
            [format!("crates/a/src/b.rs:2: {none}")]
        );
        assert_eq!(
            faults(&["fn a() {}", "// shows: REL-07"]),
            [format!("crates/a/src/b.rs:2: {none}")]
        );
    }

    #[test]
    fn a_claim_of_nothing_known_is_a_fault() {
        let test = ["#[test]", "fn a() {"];
        assert_eq!(
            faults(&[&["// shows: REL-99"], &test[..]].concat()),
            ["crates/a/src/b.rs:1: there is no requirement REL-99"]
        );
        assert_eq!(
            faults(&[&["// shows: the veto"], &test[..]].concat()),
            ["crates/a/src/b.rs:1: `the veto` is no id of a requirement"]
        );
    }
}
