//! `cargo xtask real-client`: installs the pinned Claude Code clients for the tests that run them: a new
//! one, and, under another name, the one that npm installs on Node 20.
//!
//! `real-client/package.json` names the versions and `real-client/package-lock.json` their hashes; `npm ci`
//! installs exactly that below `real-client/node_modules`, which git ignores. To find out whether it is
//! already there, this task asks the program itself: a half-finished installation, or one whose install
//! script did not run, does not answer with the right version.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// The package whose version is pinned, and its program below `node_modules`.
const PACKAGE: [&str; 2] = ["@anthropic-ai/claude-code", ".bin/claude"];
/// The same in an older version.
const OLDER: [&str; 2] = ["claude-code-older", "claude-code-older/bin/claude.exe"];

/// The clients' programs in the pinned versions.
pub(crate) struct Clients {
    pub(crate) client: PathBuf,
    pub(crate) older: PathBuf,
}

/// Installs them if they are not there. If they are, this takes about 40 ms and needs no network.
///
/// # Errors
///
/// A sentence for people: npm is missing or failed, or what it installed is not what was pinned.
pub(crate) fn install() -> Result<Clients, String> {
    let directory = directory();
    let found = || -> Result<Clients, String> {
        Ok(Clients {
            client: find(&directory, PACKAGE)?,
            older: find(&directory, OLDER)?,
        })
    };
    found().or_else(|_| {
        npm_ci(&directory)?;
        found().map_err(|missing| format!("npm ci went well, but {missing}"))
    })
}

/// The program of a package, if it is there in the pinned version.
fn find(directory: &Path, [package, program]: [&str; 2]) -> Result<PathBuf, String> {
    let pinned = pinned_version(directory, package)?;
    let program = directory.join("node_modules").join(program);
    match is_version(&program, &pinned) {
        true => Ok(program),
        false => Err(format!("{} is not version {pinned}", program.display())),
    }
}

fn directory() -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2);
    root.expect("this crate lies two directories below the root")
        .join("real-client")
}

fn pinned_version(directory: &Path, name: &str) -> Result<String, String> {
    let path = directory.join("package.json");
    let text = std::fs::read_to_string(&path)
        .map_err(|error| format!("cannot read {}: {error}", path.display()))?;
    let package: serde_json::Value = serde_json::from_str(&text)
        .map_err(|error| format!("cannot understand {}: {error}", path.display()))?;
    let version = package["dependencies"][name].as_str();
    // An alias names the package before the version.
    let version = version.and_then(|version| version.rsplit('@').next());
    version
        .map(str::to_owned)
        .ok_or_else(|| format!("{} does not pin {name}", path.display()))
}

/// The program runs and says that it is this version: `2.1.329 (Claude Code)`.
fn is_version(program: &Path, pinned: &str) -> bool {
    let said = run(program.as_os_str().as_ref(), &["--version"], Path::new("."));
    said.is_ok_and(|output| {
        String::from_utf8_lossy(&output.stdout)
            .split_whitespace()
            .next()
            == Some(pinned)
    })
}

fn npm_ci(directory: &Path) -> Result<(), String> {
    let output = match run(
        Path::new("npm"),
        &["ci", "--no-audit", "--no-fund"],
        directory,
    ) {
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
    Err(format!(
        "npm ci failed in {} ({}):\n{}",
        directory.display(),
        output.status,
        said.trim_end()
    ))
}

#[expect(
    clippy::disallowed_methods,
    reason = "the project's own tasks run other programs; nothing of this is shipped"
)]
fn run(program: &Path, arguments: &[&str], directory: &Path) -> std::io::Result<Output> {
    Command::new(program)
        .args(arguments)
        .current_dir(directory)
        .output()
}
