//! `cargo xtask real-client`: the pinned Claude Code client, installed for the tests that run it.
//!
//! `real-client/package.json` names the version and `real-client/package-lock.json` its hashes;
//! `npm ci` installs exactly that below `real-client/node_modules`, which git ignores. Whether it is
//! there already is asked of the program itself: a half installation, or one whose install script
//! did not run, does not answer with the right version.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// The package whose version is pinned.
const PACKAGE: &str = "@anthropic-ai/claude-code";

/// The client's program in the pinned version, installed first if it is not there. When it is, this
/// takes some 20 ms and needs no network.
///
/// # Errors
///
/// A sentence for people: npm is missing or failed, or what it installed is not what was pinned.
pub(crate) fn install() -> Result<PathBuf, String> {
    let directory = directory();
    let pinned = pinned_version(&directory)?;
    let program = directory.join("node_modules/.bin/claude");
    if !is_version(&program, &pinned) {
        npm_ci(&directory)?;
        if !is_version(&program, &pinned) {
            return Err(format!("npm ci went well, but {} is not version {pinned}", program.display()));
        }
    }
    Ok(program)
}

fn directory() -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2);
    root.expect("this crate lies two directories below the root").join("real-client")
}

fn pinned_version(directory: &Path) -> Result<String, String> {
    let path = directory.join("package.json");
    let text =
        std::fs::read_to_string(&path).map_err(|error| format!("cannot read {}: {error}", path.display()))?;
    let package: serde_json::Value = serde_json::from_str(&text)
        .map_err(|error| format!("cannot understand {}: {error}", path.display()))?;
    let version = package["dependencies"][PACKAGE].as_str();
    version.map(str::to_owned).ok_or_else(|| format!("{} does not pin {PACKAGE}", path.display()))
}

/// The program runs and says that it is this version: `2.1.329 (Claude Code)`.
fn is_version(program: &Path, pinned: &str) -> bool {
    let said = run(program.as_os_str().as_ref(), &["--version"], Path::new("."));
    said.is_ok_and(|output| String::from_utf8_lossy(&output.stdout).split_whitespace().next() == Some(pinned))
}

fn npm_ci(directory: &Path) -> Result<(), String> {
    let output = match run(Path::new("npm"), &["ci", "--no-audit", "--no-fund"], directory) {
        Ok(output) => output,
        Err(error) if error.kind() == ErrorKind::NotFound => {
            return Err(
                "npm is not on PATH; the real client comes from the npm registry, so install Node.js first"
                    .into(),
            );
        }
        Err(error) => return Err(format!("cannot start npm: {error}")),
    };
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    Err(format!("npm ci failed in {} ({}):\n{}", directory.display(), output.status, said.trim_end()))
}

#[expect(
    clippy::disallowed_methods,
    reason = "the project's own tasks run other programs; nothing of this is shipped"
)]
fn run(program: &Path, arguments: &[&str], directory: &Path) -> std::io::Result<Output> {
    Command::new(program).args(arguments).current_dir(directory).output()
}
