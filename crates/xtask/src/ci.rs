//! `cargo xtask ci`: everything that CI checks, cheapest failures first.
//!
//! Every step is announced, timed, and shown in a summary. The first failing step ends the run with the
//! command that repeats it. All steps build in one directory, `target/ci`, so that nothing is built twice. The first
//! step finds it empty, as a new user does.

mod test_programs;

use std::time::Duration;

use crate::shell::{self, Program};
use crate::{licences, real_client, requirements, tidy};

/// Set where a run without the real client must not pass. `CI` has the same meaning.
const NEED_CLIENT_VARIABLE: &str = "EKIDEN_NEED_CLIENT";

/// How many simulated worlds DUR-02 promises before a release.
pub(crate) const SOAK_SEEDS: &str = "10000";
/// Stages of a fleet's plan during which everything killable is killed.
pub(crate) const TORTURE_STAGES: &str = "100";

/// Other platforms, and the C compiler that their libraries need.
const PLATFORMS: &[(&str, &str)] = &[
    ("aarch64-unknown-linux-gnu", "aarch64-linux-gnu-gcc"),
    ("aarch64-apple-darwin", "aarch64-apple-darwin-clang"),
    ("x86_64-apple-darwin", "x86_64-apple-darwin-clang"),
];

/// One step: its name, the command that repeats it alone, and what it does. It returns what the summary
/// should mention.
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
    let mut clients = None;
    for step in checks() {
        perform(step, &mut summary)?;
    }
    let install = Step {
        name: "real client",
        again: "cargo xtask real-client".to_owned(),
        act: Box::new(|| install_clients(&mut clients)),
    };
    perform(install, &mut summary)?;
    let mut programs = Vec::new();
    let build = Step {
        name: "test build",
        again: test_programs::build().to_string(),
        act: Box::new(|| test_programs::built(&mut programs)),
    };
    perform(build, &mut summary)?;
    let tests = Step {
        name: "tests",
        again: test_programs::every_test().to_string(),
        act: Box::new(move || test_programs::run(&programs, clients)),
    };
    perform(tests, &mut summary)?;
    shell::say("");
    summary.iter().for_each(|line| shell::say(line));
    Ok(())
}

fn checks() -> Vec<Step<'static>> {
    let quiet =
        |check: fn() -> Result<(), String>| Box::new(move || check().map(|()| String::new()));
    vec![
        Step {
            name: "first build",
            again: "rm -r target/ci; cargo build --locked --target-dir target/ci".to_owned(),
            act: Box::new(first_build),
        },
        cargo("format", Program::cargo(&["fmt", "--all", "--check"])),
        Step {
            name: "tidy",
            again: "cargo xtask tidy".to_owned(),
            act: quiet(tidy::run),
        },
        Step {
            name: "requirements",
            again: "cargo xtask requirements --check".to_owned(),
            act: quiet(requirements::run_check),
        },
        Step {
            name: "licences",
            again: "cargo deny check, or cargo test -p xtask licences".to_owned(),
            act: Box::new(licences::check),
        },
        cargo(
            "lints",
            Program::cargo(&[
                "clippy",
                "--locked",
                "--workspace",
                "--all-targets",
                "--",
                "-D",
                "warnings",
            ]),
        ),
        cargo(
            "docs",
            // With `--examples`, cargo chooses the same features of the libraries as for the lints, and need not check
            // them again.
            Program::cargo(&[
                "doc",
                "--locked",
                "--workspace",
                "--no-deps",
                "--lib",
                "--bins",
                "--examples",
            ])
            .with("RUSTDOCFLAGS", "-D warnings"),
        ),
        Step {
            name: "platforms",
            again: "cargo check --target TRIPLE".to_owned(),
            act: Box::new(other_platforms),
        },
    ]
}

/// What the README's first command takes, once the libraries are downloaded.
fn first_build() -> Result<String, String> {
    Program::cargo(&["fetch", "--locked"]).run()?;
    let is_first = !target().exists();
    let build = in_target(Program::cargo(&["build", "--locked"]));
    let (built, took) = shell::timed(|| build.run());
    built?;
    Ok(if is_first {
        format!("{} from an empty directory", seconds(took))
    } else {
        "not from an empty directory".to_owned()
    })
}

/// Where the steps build.
fn target() -> std::path::PathBuf {
    shell::target_dir().join("ci")
}

fn in_target(program: Program) -> Program {
    program.with("CARGO_TARGET_DIR", target())
}

/// Checks what can be checked here. For the other platforms, tidy checks that all offer the same functions.
fn other_platforms() -> Result<String, String> {
    let mut notes = Vec::new();
    for (target, compiler) in PLATFORMS {
        if is_host(target)? || !has_std(target)? || !has_program(compiler) {
            notes.push(format!("{target} left out"));
            continue;
        }
        in_target(Program::cargo(&["check", "--locked", "--target", target])).run()?;
        notes.push(format!("{target} checked"));
    }
    Ok(notes.join(", "))
}

fn is_host(target: &str) -> Result<bool, String> {
    let version = Program::new("rustc", &["-vV"]).output()?;
    Ok(version
        .lines()
        .any(|line| line == format!("host: {target}")))
}

fn has_std(target: &str) -> Result<bool, String> {
    let libraries =
        Program::new("rustc", &["--print", "target-libdir", "--target", target]).output()?;
    Ok(std::path::Path::new(libraries.trim()).is_dir())
}

fn has_program(name: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|directory| directory.join(name).is_file())
}

fn cargo(name: &'static str, program: Program) -> Step<'static> {
    Step {
        name,
        again: program.to_string(),
        act: Box::new(move || in_target(program).run().map(|()| String::new())),
    }
}

/// Tries every loss in the simulations, this many seeds of relays and of plans, and ten times as many inputs of each
/// reader.
///
/// # Errors
///
/// A seed that fails, or an argument that is not a number.
pub(crate) fn soak(seeds: &str) -> Result<(), String> {
    let program = soak_program(seeds, first_seed())?;
    shell::say(&program.to_string());
    program.run()?;
    let fuzz = test_programs::optimised("fuzz")
        .with("EKIDEN_FIRST_SEED", first_seed().to_string())
        .with("EKIDEN_FUZZ_INPUTS", format!("{seeds}0"));
    shell::say(&fuzz.to_string());
    fuzz.run()
}

/// A fleet on the real server while workers, the server and the network are killed at random moments.
pub(crate) fn torture(stages: &str) -> Result<(), String> {
    let test = "whatever_is_killed";
    let fleet = [
        "test",
        "--locked",
        "-p",
        "ekiden-fleet",
        "--test",
        "fleet",
        test,
    ];
    let program = Program::cargo(&[&fleet[..], &["--", "--nocapture"]].concat())
        .with("EKIDEN_FLEET_STAGES", stages.to_owned())
        .with("EKIDEN_FIRST_SEED", first_seed().to_string());
    shell::say(&program.to_string());
    program.run()
}

fn soak_program(seeds: &str, first: u64) -> Result<Program, String> {
    let count: u64 = seeds
        .parse()
        .map_err(|_| format!("`soak` takes a number of seeds, not `{seeds}`"))?;
    let tests = test_programs::optimised(test_programs::SIMULATION);
    let tests = tests.arg("--").arg("--nocapture");
    Ok(tests
        .with("EKIDEN_LOSSES", "all")
        .with("EKIDEN_FIRST_SEED", first.to_string())
        .with("EKIDEN_SEEDS", count.to_string()))
}

/// Every commit tries worlds that no commit before it tried, and tries the same ones when CI is repeated.
/// Zero outside a repository.
fn first_seed() -> u64 {
    let commit = Program::new("git", &["rev-parse", "HEAD"]).output();
    let head = commit.as_deref().ok().and_then(|id| id.get(..8));
    head.and_then(|head| u64::from_str_radix(head, 16).ok())
        .unwrap_or(0)
}

/// Installs the clients. If they are optional, a missing one is mentioned and is no failure.
fn install_clients(clients: &mut Option<real_client::Clients>) -> Result<String, String> {
    let needed =
        std::env::var_os("CI").is_some() || std::env::var_os(NEED_CLIENT_VARIABLE).is_some();
    match real_client::install() {
        Ok(found) => {
            *clients = Some(found);
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

#[cfg(test)]
mod tests {
    use super::*;

    // shows: DUR-02
    #[test]
    fn the_soak_tries_ten_thousand_seeds() {
        let line = soak_program(SOAK_SEEDS, 7).unwrap().to_string();
        assert!(
            line.contains("EKIDEN_LOSSES=all EKIDEN_FIRST_SEED=7 EKIDEN_SEEDS=10000 "),
            "{line}"
        );
        let simulation = shell::root().join("crates/ekiden-engine/tests/simulation");
        for file in ["main.rs", "plans/mod.rs"] {
            let text = shell::read(&simulation.join(file)).unwrap();
            assert!(text.contains("fn seeded_crashes_of_"), "{file}");
        }
        assert!(soak_program("many", 7).is_err());
    }

    #[test]
    fn a_failure_names_the_step_and_how_to_repeat_it() {
        let mut summary = Vec::new();
        let failure =
            perform(cargo("lints", Program::new("false", &["-D"])), &mut summary).unwrap_err();
        assert!(
            failure.starts_with("lints failed after ") && failure.ends_with("alone: false -D"),
            "{failure}"
        );
        assert!(summary.is_empty());
        perform(cargo("docs", Program::new("true", &[])), &mut summary).unwrap();
        assert!(summary[0].starts_with("docs"), "{summary:?}");
    }
}
