//! `ekiden doctor`: checks whether a run can work here, and says how to fix what is wrong.
//!
//! It changes nothing and contacts no service except a configured tracker. The client itself reports its
//! version and login.

mod agent;
mod guard;
mod machine;
mod notify;
mod tracker;

pub use agent::refusal;
use clap::Args;
use ekiden_core::agent::AgentSpec;
use ekiden_core::settings::Settings;
use ekiden_engine::clock::{Clock as _, SystemClock};
use ekiden_engine::known_limits;
use ekiden_engine::workspace::Workspace;
use jiff::tz::TimeZone;
use serde::Serialize;

use super::Invocation;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::json::{Fields, fields};
use crate::output::line::{Line, Tone};
use crate::output::{Output, phrase};
use crate::settings::chosen;
use crate::settings::flags::{Starting, Typed};

/// Check whether a run can work here, and say how to fix it
///
/// Checks the agent's program, the version and login of Claude Code, permissions, hooks and the guard, known usage
/// limits, and also git, the disk, the terminal, system limits, notifications and the tracker's key. It changes nothing
/// and costs nothing, and sends notifications only with `--try-notify`.
///
/// Exits with 0 if nothing failed; warnings do not count. Otherwise it exits with the code that a run would
/// fail with: 69 if the agent is missing, too old or not logged in, 74 if state cannot be kept, 77 if the
/// agent's own settings forbid handoffs, 78 if a setting is wrong or nobody chose what the agent may do.
#[derive(Args)]
pub struct DoctorArgs {
    /// Send a notification by each way that is set, and show the result
    #[arg(long)]
    try_notify: bool,
    #[command(flatten)]
    typed: Typed<Starting>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
struct Check {
    name: &'static str,
    state: State,
    found: String,
    /// What to do about it.
    #[serde(skip_serializing_if = "Option::is_none")]
    remedy: Option<String>,
    /// How a run would fail because of it.
    #[serde(skip)]
    exit: Exit,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum State {
    Ok,
    /// A run can work, but something will be missing.
    Warning,
    /// A run cannot work.
    Failure,
}

impl Check {
    fn ok(name: &'static str, found: impl Into<String>) -> Self {
        Self {
            name,
            state: State::Ok,
            found: found.into(),
            remedy: None,
            exit: Exit::Done,
        }
    }

    fn warning(name: &'static str, found: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self {
            state: State::Warning,
            remedy: Some(remedy.into()),
            ..Self::ok(name, found)
        }
    }

    fn failure(
        name: &'static str,
        exit: Exit,
        found: impl Into<String>,
        remedy: impl Into<String>,
    ) -> Self {
        Self {
            state: State::Failure,
            exit,
            ..Self::warning(name, found, remedy)
        }
    }
}

pub fn doctor(args: &DoctorArgs, output: &mut Output) -> Result<Exit, Failure> {
    let invocation = Invocation::new(args.typed.flags())?;
    let workspace = match invocation.workspace_here() {
        // Without git the rest can be checked all the same.
        Err(failure) if failure.exit() != Exit::State => return Err(failure),
        found => found,
    };
    let dir = workspace.as_ref().map_or(&invocation.here, |it| &it.dir);
    let settings = chosen::settings(&invocation.given, &invocation.here)?;
    let endpoints = chosen::driving(&invocation.given, &invocation.here)?.endpoints;
    let mut checks = agent::checks(&settings.agent, &invocation.environment, dir);
    let others = settings
        .agents()
        .filter(|spec| !spec.shares_login(&settings.agent));
    checks.extend(others.flat_map(|spec| agent::other(spec, &invocation.environment, dir)));
    match &workspace {
        Ok(workspace) => {
            let limits = settings
                .agents()
                .filter_map(|spec| limit(spec, &settings, workspace));
            checks.extend(limits);
            checks.extend(machine::checks(workspace, &invocation.environment));
        }
        Err(failure) => {
            let (found, remedy) = (failure.error(), failure.hints().join("; "));
            checks.push(Check::failure("git", failure.exit(), found, remedy));
        }
    }
    match args.try_notify {
        true => checks.extend(notify::try_each(dir, &endpoints)?),
        false => checks.push(notify::check(&endpoints)),
    }
    if let Ok(workspace) = &workspace {
        checks.extend(tracker::check(&invocation.trackers(workspace)));
    }
    if invocation.json()? {
        let ok = checks.iter().all(|check| check.state != State::Failure);
        output.json(&Fields::versioned().and(fields! { "ok": ok, "checks": checks }));
    } else {
        tell(&checks, output);
    }
    Ok(exit_of(&checks))
}

/// A usage limit that holds all runs of this account.
fn limit(spec: &AgentSpec, settings: &Settings, workspace: &Workspace) -> Option<Check> {
    let now = SystemClock.now();
    let cause = known_limits::held(workspace, [spec], now)?;
    let until = phrase::future(cause.resets_at()?, now, &TimeZone::system());
    let found = format!("{}: {cause}, until {until}", spec.name);
    let is_worker = settings.workers().any(|worker| worker == spec);
    let remedy = match known_limits::held(workspace, settings.workers(), now) {
        None if is_worker => "runs continue with another agent until then",
        Some(_) | None => "runs wait for it; `--fallback` names an agent that takes over",
    };
    Some(Check::warning("limit", found, remedy))
}

/// The code that the first failure would end a run with.
fn exit_of(checks: &[Check]) -> Exit {
    let failed = checks.iter().find(|check| check.state == State::Failure);
    failed.map_or(Exit::Done, |check| check.exit)
}

fn tell(checks: &[Check], output: &mut Output) {
    let width = checks
        .iter()
        .map(|check| check.name.len())
        .max()
        .unwrap_or(0);
    for check in checks {
        let (tone, word) = match check.state {
            State::Ok => (Tone::Done, "ok"),
            State::Warning => (Tone::Attention, "warning"),
            State::Failure => (Tone::Failed, "failure"),
        };
        let found = format!("  {:<width$}  {}", check.name, check.found);
        let line = Line::new(tone, format!("{word:<7}")).with(Tone::Plain, found);
        let hang = width + 11;
        output.line(line.hanging(hang));
        if let Some(remedy) = &check.remedy {
            let remedy = format!("{:hang$}{remedy}", "");
            output.line(Line::new(Tone::Quiet, remedy).hanging(hang));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // shows: AGT-10
    #[test]
    fn the_first_failure_is_the_exit() {
        let fine = Check::ok("a", "x");
        let warned = Check::warning("b", "x", "y");
        let failed = |exit| Check::failure("c", exit, "x", "y");
        assert_eq!(exit_of(&[fine.clone(), warned.clone()]), Exit::Done);
        let checks = [fine, failed(Exit::Unreachable), warned, failed(Exit::State)];
        assert_eq!(exit_of(&checks), Exit::Unreachable);
    }
}
