//! The project's own tasks. `cargo xtask` alone lists them.
//!
//! ```text
//! ci ─┬─ format, lints, docs, tests      cargo, as anybody would call it
//!     ├─ tidy                            what no compiler checks
//!     ├─ requirements                    what is promised, and the tests that show it
//!     └─ real-client                     the agent that the tests run against
//! soak                                   more of the simulated worlds than CI has time for
//! torture                                a fleet whose workers, server and network fail
//! bench                                  the promises about time and size
//! agents                                 what other agents call what we use
//! dist                                   what a release hands out
//! ```
//!
//! None of this is shipped. Everything that touches the system goes through [`shell`].

mod agents;
mod bench;
mod ci;
mod dist;
mod licences;
mod real_client;
mod requirements;
mod shell;
mod size;
mod tidy;

use std::process::ExitCode;

const USAGE: &str = "\
cargo xtask ci                        all that CI checks, in its order
cargo xtask tidy                      what no compiler checks: sizes, arrows, leftovers, links
cargo xtask requirements              what is promised and the tests that show it, as target/requirements.md
cargo xtask requirements --check      fails where a promise is not shown
cargo xtask size                      lines of Rust by crate and folder
cargo xtask size --write              the same, written into docs/design/size.md
cargo xtask soak                      10,000 seeds of the simulated worlds, before a release
cargo xtask soak 50                   so many
cargo xtask torture [STAGES]          a fleet's plan of a hundred stages, or so many, while all that can be killed is
cargo xtask bench                     measures what is promised about time and size
cargo xtask bench PART                the same of one part, such as `view`
cargo xtask bench --write             all, and writes docs/benchmarks.md
cargo xtask agents                    the conformance suite with every pinned agent, and Codex's names (1.1 GB)
cargo xtask agents --write            the same, and writes the fixture anew
cargo xtask dist [TARGET]             archive and npm packages of a release, below target/dist
cargo xtask real-client               installs the pinned client for the tests, prints its path";

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match run(&words) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            shell::complain(&format!("error: {failure}"));
            ExitCode::FAILURE
        }
    }
}

fn run(words: &[&str]) -> Result<(), String> {
    match words {
        ["ci"] => ci::run(),
        ["soak"] => ci::soak(ci::SOAK_SEEDS),
        ["soak", seeds] => ci::soak(seeds),
        ["torture"] => ci::torture(ci::TORTURE_STAGES),
        ["torture", stages] => ci::torture(stages),
        ["tidy"] => tidy::run(),
        ["requirements"] => requirements::write(),
        ["requirements", "--check"] => requirements::run_check(),
        ["bench"] => bench::run(bench::Page::Keep, None),
        ["bench", "--write"] => bench::run(bench::Page::Write, None),
        ["bench", part] => bench::run(bench::Page::Keep, Some(part)),
        ["agents"] => agents::run(false),
        ["agents", "--write"] => agents::run(true),
        ["dist"] => dist::run(None),
        ["dist", target] => dist::run(Some(target)),
        ["size"] => size::print(),
        ["size", "--write"] => size::write(),
        ["real-client"] => real_client::install().map(|clients| {
            shell::say(&clients.client.display().to_string());
            shell::say(&clients.older.display().to_string());
        }),
        [] | ["help" | "-h" | "--help"] => {
            shell::say(USAGE);
            Ok(())
        }
        unknown => Err(format!(
            "no task `{}`; these are there:\n\n{USAGE}",
            unknown.join(" ")
        )),
    }
}
