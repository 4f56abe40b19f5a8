//! Where the real Claude Code client is, and the environment that it runs in under test.
//!
//! The client is no part of a plain checkout: `cargo xtask real-client` installs the pinned version
//! from the npm registry. Without it, tests that need it say that they were left out; whoever wants
//! to be sure that none was sets [`PROGRAM_VARIABLE`], and then a missing client is a failure.

use std::ffi::{OsStr, OsString};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::json;
use tempfile::TempDir;

use crate::messages_api::MessagesApi;

/// The variable that names the client's program.
pub const PROGRAM_VARIABLE: &str = "EKIDEN_REAL_CLIENT";

/// An invented key. It is sent to loopback only, and would open nothing elsewhere.
const API_KEY: &str = "sk-ant-fake-0000000000000000";
/// Where `npm ci` puts the client, from the root of the workspace.
const INSTALLED: &str = "real-client/node_modules/.bin/claude";

/// The client's program: the one that [`PROGRAM_VARIABLE`] names, else the installed one, if any.
///
/// # Panics
///
/// If the variable names no file.
pub fn find_real_client() -> Option<PathBuf> {
    if let Some(named) = std::env::var_os(PROGRAM_VARIABLE) {
        let program = PathBuf::from(named);
        assert!(
            program.is_file(),
            "{PROGRAM_VARIABLE} names {}, which is no file",
            program.display()
        );
        return Some(program);
    }
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2)?;
    Some(root.join(INSTALLED)).filter(|program| program.is_file())
}

/// [`find_real_client`], and where there is none a line on standard error that `what` was left out.
/// The line is written past the test harness, which would keep it from view.
pub fn real_client_for(what: &str) -> Option<PathBuf> {
    let program = find_real_client();
    if program.is_none() {
        let line =
            format!("left out: {what} (no real client; `cargo xtask real-client` installs it)\n");
        // Nobody to tell: the test is left out either way.
        let _ = io::stderr().write_all(line.as_bytes());
    }
    program
}

/// Whether the client lacks what a test needs, because it is older than this version. Then a line on standard
/// error says that `what` was left out, and why.
///
/// # Panics
///
/// If the client does not tell its version.
pub fn is_too_old(since: [u32; 3], what: &str, why: &str) -> bool {
    let version = find_real_client().map(|program| {
        let said = Command::new(program).arg("--version").output();
        let said = said.expect("the client runs").stdout;
        let said = String::from_utf8_lossy(&said).into_owned();
        let number = said
            .split_whitespace()
            .next()
            .unwrap_or_default()
            .to_owned();
        let parts: Vec<u32> = number
            .split('.')
            .map_while(|part| part.parse().ok())
            .collect();
        assert_eq!(parts.len(), 3, "the client tells its version: {said}");
        (number, parts)
    });
    let older = version.filter(|(_, parts)| parts[..] < since[..]);
    if let Some((number, _)) = &older {
        let line = format!("left out: {what} (with {number} {why})\n");
        let _ = io::stderr().write_all(line.as_bytes());
    }
    older.is_some()
}

/// An environment in which the client knows nothing but the fake API: an empty home of its own, an
/// invented key, and no traffic but to [`MessagesApi`]. The home goes when this is dropped.
#[derive(Debug)]
pub struct CleanEnvironment {
    home: TempDir,
    variables: Vec<(OsString, OsString)>,
}

impl CleanEnvironment {
    /// An environment for a client that talks to `api`.
    pub fn new(api: &MessagesApi) -> io::Result<Self> {
        let home = tempfile::Builder::new().prefix("ekiden-home-").tempdir()?;
        let path = std::env::var_os("PATH").unwrap_or_else(|| "/usr/bin:/bin".into());
        let environment = Self {
            home,
            variables: Vec::new(),
        };
        let home = environment.home().as_os_str().to_owned();
        Ok(environment
            .with("PATH", path)
            .with("HOME", home)
            .with("LANG", "C.UTF-8")
            .with("ANTHROPIC_BASE_URL", api.base_url())
            .with("ANTHROPIC_API_KEY", API_KEY)
            .with("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "1")
            .with("DISABLE_AUTOUPDATER", "1"))
    }

    /// The same environment with one more variable, or another value of it.
    pub fn with(mut self, name: &str, value: impl Into<OsString>) -> Self {
        self.variables.retain(|(known, _)| known != name);
        self.variables.push((name.into(), value.into()));
        self
    }

    /// Answers beforehand what the client's own interface asks a new user: how it shall look, whether
    /// the key may be used, and whether `project` is trusted.
    pub fn seed_interface(&self, project: &Path) -> io::Result<()> {
        let key = &API_KEY[API_KEY.len() - 20..];
        let seed = json!({
            "hasCompletedOnboarding": true,
            "customApiKeyResponses": {"approved": [key], "rejected": []},
            "projects": {project.display().to_string(): {"hasTrustDialogAccepted": true}},
        });
        std::fs::write(self.home().join(".claude.json"), seed.to_string())
    }

    /// The same environment without a variable.
    pub fn without(mut self, name: &str) -> Self {
        self.variables.retain(|(known, _)| known != name);
        self
    }

    /// The empty home.
    pub fn home(&self) -> &Path {
        self.home.path()
    }

    /// All variables. The client is to have these and no others.
    pub fn variables(&self) -> impl Iterator<Item = (&OsStr, &OsStr)> {
        self.variables
            .iter()
            .map(|(name, value)| (name.as_os_str(), value.as_os_str()))
    }

    /// A command that runs `program` with these variables and no others.
    pub fn command(&self, program: &Path) -> Command {
        let mut command = Command::new(program);
        command.env_clear().envs(self.variables());
        command
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::messages_api::Reply;

    #[test]
    fn a_program_sees_the_clean_environment_and_nothing_else() {
        let api = MessagesApi::start(|_| Reply::Drop);
        let environment = CleanEnvironment::new(&api)
            .unwrap()
            .with("LANG", "C")
            .with("EXTRA", "1");
        let output = environment.command(Path::new("env")).output().unwrap();
        let seen = String::from_utf8(output.stdout).unwrap();
        let mut names: Vec<_> = seen
            .lines()
            .filter_map(|line| line.split('=').next())
            .collect();
        names.sort_unstable();
        assert_eq!(
            names,
            [
                "ANTHROPIC_API_KEY",
                "ANTHROPIC_BASE_URL",
                "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC",
                "DISABLE_AUTOUPDATER",
                "EXTRA",
                "HOME",
                "LANG",
                "PATH",
            ]
        );
        assert!(
            seen.contains("LANG=C\n")
                && seen.contains(&format!("ANTHROPIC_BASE_URL={}\n", api.base_url()))
        );
    }

    #[test]
    fn the_home_is_empty_and_goes_with_its_environment() {
        let api = MessagesApi::start(|_| Reply::Drop);
        let environment = CleanEnvironment::new(&api).unwrap();
        let home = environment.home().to_owned();
        assert_eq!(home.read_dir().unwrap().count(), 0);
        drop(environment);
        assert!(!home.exists());
    }
}
