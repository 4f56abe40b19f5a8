//! Checks the agent: its program, version and login, and the user's settings for it.

use ekiden_core::text::in_full;
use std::path::Path;

use ekiden_agent::child::ChildEnd;
use ekiden_agent::task::run_quick;
use ekiden_core::agent::{AgentKind, AgentSpec};
use ekiden_core::time::Millis;
use serde_json::Value;

use super::{Check, State};
use crate::client::permission;
use crate::client::settings::ClientSettings;
use crate::commands::run::find_agent;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::line::one_line;
use crate::settings::approval::Approvals;
use crate::settings::environment::Environment;

/// The versions of Claude Code that ekiden was tested with, both ends included.
const TESTED: [Version; 2] = [Version([2, 1, 197]), Version([2, 1, 332])];
/// From this version on the client needs Node.js 22.
const NEEDS_NODE_22: Version = Version([2, 1, 198]);
const NODE_OF_NEW_AGENTS: Version = Version([22, 0, 0]);
/// How long the client may take to answer.
const PATIENCE: Millis = Millis::from_secs(20);
/// The same before a run, which starts without an answer.
const PATIENCE_BEFORE_RUN: Millis = Millis::from_secs(2);

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Version([u32; 3]);

pub(super) fn checks(spec: &AgentSpec, environment: &Environment, dir: &Path) -> Vec<Check> {
    let program = program(spec);
    let found = program.state == State::Ok;
    let mut checks = vec![program];
    if found && spec.name == "qwen" {
        checks.extend(old_node(spec, dir));
    }
    let mut client = ClientSettings::default();
    if spec.kind == AgentKind::Claude {
        client = ClientSettings::read(environment, dir, spec.permissions.isolated);
        if found {
            let told = said(spec, dir, &["--version"], PATIENCE);
            let known = told.as_ref().ok().and_then(|(_, text)| Version::of(text));
            let is_old =
                known.is_some_and(|version| TESTED[0] <= version && version < NEEDS_NODE_22);
            checks.push(version(told));
            checks.extend(old_node(spec, dir).filter(|_| is_old));
            checks.push(login(spec, dir, PATIENCE));
        }
    }
    if permission::asks(spec) {
        let approvals = Approvals::read(environment);
        let everything = approvals.is_ok_and(|approvals| approvals.has_everything(dir));
        let refused = refused_mode(spec, &client, environment);
        checks.extend([refused.unwrap_or_else(|| permissions(spec, &client, everything))]);
    }
    if spec.kind == AgentKind::Claude {
        checks.push(hooks(&client));
        checks.extend(super::guard::checks(environment, dir));
    }
    checks
}

/// Why no session can work, by what the client itself says: it is too old, or not logged in. Any other
/// answer passes, and so does none: a wrapper need not know these commands.
pub fn refusal(spec: &AgentSpec, environment: &Environment, dir: &Path) -> Result<(), Failure> {
    if spec.kind != AgentKind::Claude {
        return Ok(());
    }
    let (version, login) = std::thread::scope(|scope| {
        // A gateway may need no login.
        let has_gateway = environment.variable("ANTHROPIC_BASE_URL").is_some();
        let login = (!has_gateway).then(|| scope.spawn(|| login(spec, dir, PATIENCE_BEFORE_RUN)));
        let version = said(spec, dir, &["--version"], PATIENCE_BEFORE_RUN);
        let version = version.ok().map(|(_, text)| judge_version(&text));
        (version, login.and_then(|asked| asked.join().ok()))
    });
    let is_refused = |check: &Check| check.state == State::Failure;
    match [version, login].into_iter().flatten().find(is_refused) {
        None => Ok(()),
        Some(check) => {
            let text = format!(
                "cannot start a session: agent `{}`: {}",
                spec.name, check.found
            );
            let failure = Failure::new(check.exit, text);
            Err(failure
                .hint(check.remedy.unwrap_or_default())
                .hint("`ekiden doctor` checks everything that a run needs"))
        }
    }
}

/// An agent that may take over, or reviews.
pub(super) fn other(spec: &AgentSpec, environment: &Environment, dir: &Path) -> Vec<Check> {
    let program = program(spec);
    let found = program.state == State::Ok;
    let refused = refusal(spec, environment, dir).err().filter(|_| found);
    let refused = refused.map(|failure| {
        let remedy = failure.hints().first().cloned().unwrap_or_default();
        Check::failure("agent", failure.exit(), failure.error(), remedy)
    });
    std::iter::once(program).chain(refused).collect()
}

fn program(spec: &AgentSpec) -> Check {
    let name = &spec.name;
    match find_agent(spec) {
        Ok(None) => Check::ok("agent", format!("{name}, which is built in")),
        Ok(Some(path)) => Check::ok("agent", format!("{name}: {}", path.display())),
        Err((absent, remedy)) => {
            let found = format!("{name}: {absent}");
            Check::failure("agent", Exit::Unreachable, found, remedy)
        }
    }
}

fn version(told: Result<(i32, String), String>) -> Check {
    match told {
        Ok((_, text)) => judge_version(&text),
        Err(why) => Check::failure("version", Exit::Unreachable, why, "reinstall the agent"),
    }
}

/// A Node.js that is too old for the agent's newest version: npm then installs an old one, and does not say so.
fn old_node(spec: &AgentSpec, dir: &Path) -> Option<Check> {
    let node = AgentSpec {
        command: vec!["node".to_owned()],
        ..spec.clone()
    };
    let (_, text) = said(&node, dir, &["--version"], PATIENCE).ok()?;
    let version = Version::of(text.trim_start_matches('v'))?;
    (version < NODE_OF_NEW_AGENTS).then(|| {
        Check::warning(
            "node",
            format!(
                "{version}: with it npm installs an old version of an agent, and does not say so"
            ),
            "install Node.js 22 or later, then the agent again",
        )
    })
}

fn judge_version(text: &str) -> Check {
    let [oldest, newest] = TESTED;
    match Version::of(text) {
        None => Check::warning(
            "version",
            format!("unknown: {}", one_line(text)),
            "check that it is Claude Code",
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
            format!(
                "it will most likely work; if not, try the tested one: npm install -g \
                 @anthropic-ai/claude-code@{newest}"
            ),
        ),
        Some(version) => Check::ok("version", format!("{version}, tested")),
    }
}

/// The client reads its own files and variables; it asks no service.
fn login(spec: &AgentSpec, dir: &Path, patience: Millis) -> Check {
    let remedy = "`claude auth login`, or set ANTHROPIC_API_KEY or CLAUDE_CODE_OAUTH_TOKEN";
    let (text, status) = match said(spec, dir, &["auth", "status"], patience) {
        Ok((_, text)) => (
            text.clone(),
            serde_json::from_str::<Value>(&text).unwrap_or_default(),
        ),
        Err(why) => return Check::warning("login", why, remedy),
    };
    match status["loggedIn"].as_bool() {
        Some(true) => {
            let by = status["authMethod"].as_str().unwrap_or("an unknown method");
            let at = status["apiProvider"].as_str().unwrap_or("its own service");
            Check::ok(
                "login",
                format!("{} at {}; not tested", one_line(by), one_line(at)),
            )
        }
        Some(false) => Check::failure("login", Exit::Unreachable, "not logged in", remedy),
        None => Check::warning("login", format!("unknown: {}", one_line(&text)), remedy),
    }
}

/// The client would refuse to start, or to write a handoff.
fn refused_mode(
    spec: &AgentSpec,
    client: &ClientSettings,
    environment: &Environment,
) -> Option<Check> {
    let failure = permission::check_mode(spec, client, environment).err()?;
    let remedy = failure.hints().join("; ");
    let found = failure
        .error()
        .trim_start_matches("cannot start a session: ");
    Some(Check::failure("permissions", failure.exit(), found, remedy))
}

fn permissions(spec: &AgentSpec, client: &ClientSettings, everything: bool) -> Check {
    if let Some(found) = client.denies_handoffs(&spec.command, spec.interface) {
        let text = format!("{}: no session could write its handoff", found.why);
        return Check::failure("permissions", Exit::NotPermitted, text, found.remedy);
    }
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
    if everything {
        return Check::ok("permissions", "everything, in this project");
    }
    let remedy = match spec.kind {
        AgentKind::Claude => {
            "`permission_mode = \"acceptEdits\"` in your config.toml, or rules in the agent's settings"
        }
        AgentKind::Rehearsal | AgentKind::Acp | AgentKind::Codex | AgentKind::Exec => {
            "`permission_mode = \"acceptEdits\"` in your config.toml"
        }
    };
    Check::failure(
        "permissions",
        Exit::Settings,
        "you have not chosen what the agent may do without asking",
        remedy,
    )
}

/// Runs use callbacks, which always work; hook processes are for sessions that a person started.
fn hooks(client: &ClientSettings) -> Check {
    let Some((setting, path)) = client.hooks_are_off() else {
        return Check::ok("hooks", "reachable");
    };
    let remedy = match setting {
        "allowManagedHooksOnly" => "ask your administrator to allow the guard, or use runs only",
        _ => "remove it to let ekiden watch sessions that you start yourself",
    };
    let path = path.display();
    let found = format!("`{setting}` in {path}: it does not affect runs");
    Check::warning("hooks", found, remedy)
}

/// What the agent's program says to these arguments: its exit code and standard output.
fn said(
    spec: &AgentSpec,
    dir: &Path,
    args: &[&str],
    patience: Millis,
) -> Result<(i32, String), String> {
    let account = spec.account_variable();
    let account = account.map(|(name, dir)| ["env".to_owned(), format!("{name}={dir}")]);
    let words = account.iter().flatten().chain(&spec.command);
    let mut words = words.map(String::as_str);
    let program = words.next().unwrap_or_default();
    let args: Vec<&str> = words.chain(args.iter().copied()).collect();
    let output = run_quick(program, &args, dir, patience).map_err(|error| in_full(&error))?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    match output.end {
        _ if output.timed_out => Err(format!("no answer in {patience}")),
        ChildEnd::Exited(code) => Ok((code, text)),
        ChildEnd::Signaled(signal) => Err(format!("ended by signal {signal}")),
        ChildEnd::KeeperLost => Err("its keeper was killed".to_owned()),
        ChildEnd::NotStarted(why) => Err(why),
    }
}

impl Version {
    /// The version at the beginning of a text such as `2.1.329 (Claude Code)`.
    fn of(text: &str) -> Option<Self> {
        let mut numbers = text
            .split_whitespace()
            .next()?
            .splitn(3, '.')
            .map(|part| part.parse().ok());
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
    use super::*;

    // shows: AGT-10
    #[test]
    fn a_version_is_too_old_tested_or_new() {
        let state = |text| judge_version(text).state;
        assert_eq!(state("2.1.329 (Claude Code)\n"), State::Ok);
        assert_eq!(state("2.1.196 (Claude Code)\n"), State::Failure);
        assert_eq!(state("1.9.400 (Claude Code)\n"), State::Failure);
        assert_eq!(state("2.2.0 (Claude Code)\n"), State::Warning);
        assert_eq!(state("GNU bash, version 5"), State::Warning);
    }

    // shows: AGT-10, OPS-02
    #[test]
    fn an_administrator_who_allows_only_hooks_of_his_own_is_told_of() {
        let managed = |setting: &str| ClientSettings::managed(serde_json::json!({setting: true}));
        let told = |check: Check| (check.state, check.found, check.remedy.unwrap_or_default());
        let place = crate::client::settings::MANAGED;
        let (state, found, remedy) = told(hooks(&managed("allowManagedHooksOnly")));
        assert_eq!(state, State::Warning);
        assert_eq!(
            found,
            format!("`allowManagedHooksOnly` in {place}: it does not affect runs")
        );
        assert!(
            remedy.starts_with("ask your administrator to allow the guard"),
            "{remedy}"
        );
        assert_eq!(told(hooks(&managed("other"))).0, State::Ok);
    }

    #[test]
    fn the_pinned_clients_were_tested() {
        let pinned: Value =
            serde_json::from_str(include_str!("../../../../../real-client/package.json")).unwrap();
        let pinned = pinned["dependencies"].as_object().unwrap();
        assert_eq!(pinned.len(), 2);
        for version in pinned.values().filter_map(Value::as_str) {
            let version = version.rsplit('@').next().unwrap();
            assert_eq!(judge_version(version).state, State::Ok, "{version}");
        }
    }
}
