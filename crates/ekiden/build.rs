//! Builds the commit into the program, for `ekiden --version`.
#![expect(
    clippy::disallowed_methods,
    clippy::disallowed_macros,
    reason = "a build script runs git and speaks to cargo on its standard output"
)]

use std::path::Path;
use std::process::Command;

fn main() {
    // A new commit, or another branch. A missing file would make cargo build again each time.
    for name in ["HEAD", "logs/HEAD"] {
        let path = git(&["rev-parse", "--git-path", name]);
        if let Some(path) = path.filter(|path| Path::new(path).exists()) {
            println!("cargo::rerun-if-changed={path}");
        }
    }
    println!("cargo::rerun-if-changed=build.rs");
    let is = |variable: &str, value| std::env::var(variable).is_ok_and(|set| set == value);
    let on_linux = is("CARGO_CFG_TARGET_OS", "linux") && is("CARGO_CFG_TARGET_ENV", "gnu");
    if on_linux && is("PROFILE", "debug") {
        // At a fixed address a start needs no relocations. They are a fifth of its time, and the tests start it
        // thousands of times.
        println!("cargo::rustc-link-arg-bins=-no-pie");
    }
    let ask = ["log", "-1", "--format=%h %cs", "--abbrev=10"];
    // Sources without a repository of their own may lie in another one.
    let own = Path::new("../../.git").exists().then(|| git(&ask));
    let commit = own.flatten().unwrap_or_else(|| "no commit".to_owned());
    println!("cargo::rustc-env=EKIDEN_COMMIT={commit}");
}

/// The first line of its answer. `None` if git or its repository is missing.
fn git(args: &[&str]) -> Option<String> {
    let output = Command::new("git").args(args).output().ok()?;
    let said = String::from_utf8(output.stdout).ok()?;
    let line = said.lines().next()?.to_owned();
    output.status.success().then_some(line)
}
