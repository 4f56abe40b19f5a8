//! The agent: its program, version and login, and what the user has set up for it.

use std::ffi::{OsStr, OsString};
use std::path::Path;

use ekiden_agent::child::{ChildEnd, find_program};
use ekiden_agent::task::run_quick;
use ekiden_core::settings::{AgentKind, AgentSpec};
use ekiden_core::time::Millis;
use serde_json::Value;

use super::Check;
use crate::client::permission;
use crate::client::settings::ClientSettings;
use crate::exit::Exit;
use crate::output::line::one_line;
use crate::settings::environment::Environment;

/// The versions of Claude Code that ekiden was tested with, both ends included.
const TESTED: [Version; 2] = [Version([2, 1, 329]), Version([2, 1, 329])];
/// How long the client may take to answer.
const PATIENCE: Millis = Millis::from_secs(20);

/// A version of the client.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Version([u32; 3]);

/// What there is to say of the agent.
pub(super) fn checks(spec: &AgentSpec, environment: &Environment, dir: &Path) -> Vec<Check> {
    let program = program(spec);
    let found = program.state == super::State::Ok;
    let mut checks = vec![program];
    if spec.kind == AgentKind::Claude {
        if found {
            checks.extend([version(spec, dir), login(spec, dir)]);
        }
        let client = ClientSettings::read(environment, dir, spec.permissions.isolated);
        checks.extend([permissions(spec, &client), hooks(&client)]);
        checks.extend(super::guard::checks(environment, dir));
    }
    checks
}

fn program(spec: &AgentSpec) -> Check {
    let Some(program) = spec.command.first() else {
        return Check::ok("agent", format!("{}, which is built in", spec.name));
    };
    let path = std::env::var_os("PATH").unwrap_or_default();
    match find_program(OsStr::new(program), &path) {
        Some(path) => Check::ok("agent", format!("{}: {}", spec.name, path.display())),
        None => {
            let remedy = match spec.kind {
                AgentKind::Claude => {
                    "npm install -g @anthropic-ai/claude-code, or try for free with `--agent rehearsal`"
                }
                AgentKind::Rehearsal | AgentKind::Exec => "name another with `--agent`",
            };
            Check::failure("agent", Exit::Unreachable, format!("`{program}` is not there"), remedy)
        }
    }
}

fn version(spec: &AgentSpec, dir: &Path) -> Check {
    match said(spec, dir, &["--version"]) {
        Ok((_, text)) => judge_version(&text),
        Err(why) => Check::failure("version", Exit::Unreachable, why, "install the agent anew"),
    }
}

fn judge_version(text: &str) -> Check {
    let [oldest, newest] = TESTED;
    match Version::of(text) {
        None => Check::warning(
            "version",
            format!("not told: {}", one_line(text)),
            "see whether it is Claude Code",
        ),
        Some(version) if version < oldest => Check::failure(
            "version",
            Exit::Unreachable,
            format!("{version}, older than any that ekiden was tested with ({oldest})"),
            "update it: npm install -g @anthropic-ai/claude-code",
        ),
        Some(version) if version > newest => Check::warning(
            "version",
            format!("{version}, newer than any that ekiden was tested with ({newest})"),
            "it will most likely work; `ekiden run --agent rehearsal` shows what should happen",
        ),
        Some(version) => Check::ok("version", format!("{version}, tested")),
    }
}

/// The client looks into its own files and variables; it asks no service.
fn login(spec: &AgentSpec, dir: &Path) -> Check {
    let remedy = "`claude auth login`, or set ANTHROPIC_API_KEY or CLAUDE_CODE_OAUTH_TOKEN";
    let (text, status) = match said(spec, dir, &["auth", "status"]) {
        Ok((_, text)) => (text.clone(), serde_json::from_str::<Value>(&text).unwrap_or_default()),
        Err(why) => return Check::warning("login", why, remedy),
    };
    match status["loggedIn"].as_bool() {
        Some(true) => {
            let by = status["authMethod"].as_str().unwrap_or("a way that it does not name");
            let at = status["apiProvider"].as_str().unwrap_or("its own service");
            Check::ok("login", format!("{} at {}; not tried", one_line(by), one_line(at)))
        }
        Some(false) => Check::failure("login", Exit::Unreachable, "not logged in", remedy),
        None => Check::warning("login", format!("not told: {}", one_line(&text)), remedy),
    }
}

fn permissions(spec: &AgentSpec, client: &ClientSettings) -> Check {
    let chosen = &spec.permissions;
    if permission::is_chosen(spec) {
        let what = match (&chosen.mode, chosen.skip) {
            (_, true) => "everything, without asking".to_owned(),
            (Some(mode), false) => format!("mode {}", one_line(mode)),
            (None, false) => "by its flags and rules".to_owned(),
        };
        return Check::ok("permissions", what);
    }
    if client.choose_permissions() {
        return Check::ok("permissions", "by the agent's own settings");
    }
    let remedy = "`permission_mode = \"acceptEdits\"` in your config.toml, or rules in the agent's settings";
    Check::failure(
        "permissions",
        Exit::Settings,
        "nobody has chosen what the agent may do without asking",
        remedy,
    )
}

/// Callbacks run in any case; hook processes are for sessions that a person started.
fn hooks(client: &ClientSettings) -> Check {
    match client.hooks_are_off() {
        None => Check::ok("hooks", "reachable"),
        Some(path) => Check::warning(
            "hooks",
            format!("`disableAllHooks` in {}: runs are not touched by it", path.display()),
            "without it ekiden could also watch sessions that you start yourself",
        ),
    }
}

/// What the agent's program says to these arguments: its exit code and standard output.
fn said(spec: &AgentSpec, dir: &Path, args: &[&str]) -> Result<(i32, String), String> {
    let mut words = spec.command.iter().map(OsString::from);
    let program = words.next().unwrap_or_default();
    let args: Vec<OsString> = words.chain(args.iter().map(OsString::from)).collect();
    let output = run_quick(&program, &args, dir, PATIENCE).map_err(|error| crate::failure::chain(&error))?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    match output.end {
        _ if output.timed_out => Err(format!("no answer in {PATIENCE}")),
        ChildEnd::Exited(code) => Ok((code, text)),
        ChildEnd::Signaled(signal) => Err(format!("ended by signal {signal}")),
        ChildEnd::KeeperLost => Err("its keeper was killed".to_owned()),
        ChildEnd::NotStarted(why) => Err(why),
    }
}

impl Version {
    /// The version at the beginning of a text such as `2.1.329 (Claude Code)`.
    fn of(text: &str) -> Option<Self> {
        let mut numbers = text.split_whitespace().next()?.splitn(3, '.').map(|part| part.parse().ok());
        let version = [numbers.next()??, numbers.next()??, numbers.next()??];
        Some(Self(version))
    }
}

impl std::fmt::Display for Version {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let [major, minor, patch] = self.0;
        write!(f, "{major}.{minor}.{patch}")
    }
}

#[cfg(test)]
mod tests {
    use super::super::State;
    use super::*;

    // shows: AGT-10
    #[test]
    fn a_version_is_too_old_tested_or_new() {
        let state = |text| judge_version(text).state;
        assert_eq!(state("2.1.329 (Claude Code)\n"), State::Ok);
        assert_eq!(state("2.1.328 (Claude Code)\n"), State::Failure);
        assert_eq!(state("1.9.400 (Claude Code)\n"), State::Failure);
        assert_eq!(state("2.2.0 (Claude Code)\n"), State::Warning);
        assert_eq!(state("GNU bash, version 5"), State::Warning);
    }

    #[test]
    fn the_pinned_client_is_the_newest_that_was_tested() {
        let pinned: Value =
            serde_json::from_str(include_str!("../../../../../real-client/package.json")).unwrap();
        assert_eq!(pinned["dependencies"]["@anthropic-ai/claude-code"], TESTED[1].to_string());
    }
}
