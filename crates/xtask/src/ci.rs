//! `cargo xtask ci`: all that CI checks, in the order in which a failure is cheapest.
//!
//! Every step is announced, timed, and shown in a summary; the first that fails ends the run with the
//! command that repeats it. Lints and documents share one checked build, the tests have the other:
//! both with the usual profile and flags, so nothing is built twice and a developer's own
//! `cargo test` finds it done.

use std::time::Duration;

use crate::shell::{self, Program};
use crate::{real_client, requirements, tidy};

/// Names the real client for the tests; then one that is missing is a failure.
const CLIENT_VARIABLE: &str = "EKIDEN_REAL_CLIENT";
/// Set where a run without the real client must not pass. `CI` has the same meaning.
const NEED_CLIENT_VARIABLE: &str = "EKIDEN_NEED_CLIENT";

/// One step: what it is called, how to do it again alone, and what it does. It answers with what is
/// worth a word in the summary.
struct Step<'a> {
    name: &'static str,
    again: String,
    act: Box<dyn FnOnce() -> Result<String, String> + 'a>,
}

/// Runs all steps.
///
/// # Errors
///
/// The first step that failed.
pub(crate) fn run() -> Result<(), String> {
    let mut summary = Vec::new();
    let mut client = None;
    for step in checks() {
        perform(step, &mut summary)?;
    }
    let install = Step {
        name: "real client",
        again: "cargo xtask real-client".to_owned(),
        act: Box::new(|| install_client(&mut client)),
    };
    perform(install, &mut summary)?;
    perform(tests(client), &mut summary)?;
    shell::say("");
    summary.iter().for_each(|line| shell::say(line));
    Ok(())
}

fn checks() -> Vec<Step<'static>> {
    let quiet = |check: fn() -> Result<(), String>| Box::new(move || check().map(|()| String::new()));
    vec![
        cargo("format", Program::cargo(&["fmt", "--all", "--check"])),
        Step { name: "tidy", again: "cargo xtask tidy".to_owned(), act: quiet(tidy::run) },
        Step {
            name: "requirements",
            again: "cargo xtask requirements --check".to_owned(),
            act: quiet(requirements::run_check),
        },
        cargo(
            "lints",
            Program::cargo(&["clippy", "--locked", "--workspace", "--all-targets", "--", "-D", "warnings"]),
        ),
        cargo(
            "docs",
            Program::cargo(&["doc", "--locked", "--workspace", "--no-deps"])
                .with("RUSTDOCFLAGS", "-D warnings"),
        ),
    ]
}

fn cargo(name: &'static str, program: Program) -> Step<'static> {
    let again = program.to_string();
    Step { name, again, act: Box::new(move || program.run().map(|()| String::new())) }
}

/// All tests, those of `examples/` and of the real client among them.
fn tests(client: Option<std::path::PathBuf>) -> Step<'static> {
    let mut program = Program::cargo(&["test", "--locked", "--workspace", "--no-fail-fast"]);
    if let Some(client) = client {
        program = program.with(CLIENT_VARIABLE, client);
    }
    let again = program.to_string();
    let act = move || {
        let mut tally = Tally::default();
        program.run_seen(|line| tally.note(line))?;
        Ok(tally.to_string())
    };
    Step { name: "tests", again, act: Box::new(act) }
}

/// Installs the client. Where it is not needed, its absence is no failure but is told.
fn install_client(client: &mut Option<std::path::PathBuf>) -> Result<String, String> {
    let needed = std::env::var_os("CI").is_some() || std::env::var_os(NEED_CLIENT_VARIABLE).is_some();
    match real_client::install() {
        Ok(program) => {
            *client = Some(program);
            Ok(String::new())
        }
        Err(failure) if needed => Err(failure),
        Err(failure) => Ok(format!("left out, and the tests that need it: {failure}")),
    }
}

fn perform(step: Step<'_>, summary: &mut Vec<String>) -> Result<(), String> {
    shell::say(&format!("── {} ── {}", step.name, step.again));
    let (result, took) = shell::timed(step.act);
    match result {
        Ok(note) => {
            let line = format!("{:<13}{:>6}  {note}", step.name, seconds(took));
            summary.push(line.trim_end().to_owned());
            Ok(())
        }
        Err(failure) => Err(format!(
            "{} failed after {}: {failure}\nto repeat it alone: {}",
            step.name,
            seconds(took),
            step.again
        )),
    }
}

fn seconds(took: Duration) -> String {
    format!("{:.1} s", took.as_secs_f64())
}

/// The closing lines of all test programs, added up.
#[derive(Debug, Default, PartialEq, Eq)]
struct Tally {
    programs: u32,
    passed: u32,
    failed: u32,
    ignored: u32,
}

impl Tally {
    /// Takes in a line if it closes a test program: `test result: ok. 3 passed; 0 failed; ...`
    fn note(&mut self, line: &str) {
        let Some(counts) = line.strip_prefix("test result: ") else { return };
        self.programs += 1;
        for count in counts.split(['.', ';']) {
            let mut words = count.split_whitespace();
            let (Some(Ok(number)), Some(what)) = (words.next().map(str::parse::<u32>), words.next()) else {
                continue;
            };
            match what {
                "passed" => self.passed += number,
                "failed" => self.failed += number,
                "ignored" => self.ignored += number,
                _ => {}
            }
        }
    }
}

impl std::fmt::Display for Tally {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { programs, passed, failed, ignored } = self;
        write!(f, "{passed} passed; {failed} failed; {ignored} ignored; in {programs} test programs")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn closing_lines_are_added_up() {
        let mut tally = Tally::default();
        tally.note(
            "test result: ok. 12 passed; 0 failed; 1 ignored; 0 measured; 3 filtered out; finished in 0.02s",
        );
        tally.note("test a::b ... ok");
        tally.note("test result: FAILED. 2 passed; 1 failed; 0 ignored; 0 measured; 0 filtered out; finished in 1.10s");
        assert_eq!(tally, Tally { programs: 2, passed: 14, failed: 1, ignored: 1 });
    }

    #[test]
    fn a_failure_names_the_step_and_how_to_repeat_it() {
        let mut summary = Vec::new();
        let failure = perform(cargo("lints", Program::new("false", &["-D"])), &mut summary).unwrap_err();
        assert!(
            failure.starts_with("lints failed after ") && failure.ends_with("alone: false -D"),
            "{failure}"
        );
        assert!(summary.is_empty());
        perform(cargo("docs", Program::new("true", &[])), &mut summary).unwrap();
        assert!(summary[0].starts_with("docs"), "{summary:?}");
    }
}
