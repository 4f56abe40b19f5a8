//! What the settings mean for a run: the values that are frozen into its log.

use std::path::{Path, PathBuf};

use ekiden_core::bounds::{Bounds, BoundsChange};
use ekiden_core::budget::Budget;
use ekiden_core::manifest::Verification;
use ekiden_core::settings::{
    AgentKind, AgentSpec, CommitPlan, Interface, Judging, Permissions, PermissionsChange, Settings,
};

use super::agents::{self, Agent};
use super::given::Given;
use super::table;
use crate::exit::Exit;
use crate::failure::Failure;

/// The client's name for the mode in which only its rules decide.
const DEFAULT_MODE: &str = "default";

/// The settings of a run that begins.
///
/// # Errors
///
/// If they do not fit together.
pub fn settings(given: &Given, here: &Path) -> Result<Settings, Failure> {
    let cap = given.need(&table::CAP_TOKENS)?;
    Ok(Settings {
        marker: given.need(&table::COMPLETION_MARKER)?,
        levels: given.need(&table::LEVELS)?,
        cap_tokens: (cap > 0).then_some(cap),
        pause: given.need(&table::PAUSE)?,
        wait_max: given.need(&table::MAX_WAIT)?,
        judging: Some(Judging {
            stall_sessions: given.need(&table::STALL_SESSIONS)?,
            research: given.need(&table::RESEARCH)?,
        }),
        agent: agent(given, here)?,
        // What stays out of the commits is noted when the run begins.
        commit: given.need(&table::GIT_COMMIT)?.then(CommitPlan::default),
        notify: given.need(&table::NOTIFY)?,
        subagents: given.need(&table::SUBAGENTS)?,
        guided: given.need(&table::GUIDED)?,
        bounds: bounds(given)?,
    })
}

/// What a run may use. The hour of the day is the caller's to tell.
fn bounds(given: &Given) -> Result<Bounds, Failure> {
    let mut bounds = Bounds::default();
    bounds.change(&BoundsChange {
        run: Budget { micro_usd: given.get(&table::RUN_BUDGET)?, tokens: given.get(&table::RUN_TOKENS)? },
        session: Budget {
            micro_usd: given.get(&table::SESSION_BUDGET)?,
            tokens: given.get(&table::SESSION_TOKENS)?,
        },
        session_timeout: given.get(&table::SESSION_TIMEOUT)?,
        turns_max: given.get(&table::MAX_TURNS)?,
        quiet_hours: given.get(&table::QUIET_HOURS)?,
        on_rate_limit: given.get(&table::ON_RATE_LIMIT)?,
    });
    Ok(bounds)
}

/// The bounds that were typed for a resumption.
///
/// # Errors
///
/// As [`Given::get`].
pub fn bounds_typed(given: &Given) -> Result<BoundsChange, Failure> {
    Ok(BoundsChange {
        run: Budget { micro_usd: given.typed(&table::RUN_BUDGET)?, tokens: given.typed(&table::RUN_TOKENS)? },
        session: Budget {
            micro_usd: given.typed(&table::SESSION_BUDGET)?,
            tokens: given.typed(&table::SESSION_TOKENS)?,
        },
        session_timeout: given.typed(&table::SESSION_TIMEOUT)?,
        turns_max: given.typed(&table::MAX_TURNS)?,
        quiet_hours: given.typed(&table::QUIET_HOURS)?,
        on_rate_limit: given.typed(&table::ON_RATE_LIMIT)?,
    })
}

/// What of the agent's permissions was typed, for a run that goes on.
///
/// # Errors
///
/// As [`Given::get`], and in a mode in which no session could hand off.
pub fn permissions_typed(given: &Given) -> Result<PermissionsChange, Failure> {
    let allowed_tools = given.typed(&table::ALLOWED_TOOL)?.unwrap_or_default();
    if given.typed(&table::SAFE_MODE)? == Some(true) {
        let mode = Some(DEFAULT_MODE.to_owned());
        return Ok(PermissionsChange { mode, skip: Some(false), allowed_tools });
    }
    let mode = given.typed(&table::PERMISSION_MODE)?;
    refuse_plan_mode(mode.as_deref())?;
    Ok(PermissionsChange { mode, skip: given.typed(&table::SKIP_PERMISSIONS)?, allowed_tools })
}

/// The verification of a run that begins, if there is one.
///
/// # Errors
///
/// As [`Given::get`].
pub fn verification(given: &Given) -> Result<Option<Verification>, Failure> {
    let timeout = given.need(&table::VERIFY_TIMEOUT)?;
    Ok(given.get(&table::VERIFY)?.map(|command| Verification::by_command(command, timeout)))
}

/// Where the command works.
///
/// # Errors
///
/// As [`Given::get`].
pub fn work_dir(given: &Given) -> Result<PathBuf, Failure> {
    given.need(&table::WORK_DIR).map(PathBuf::from)
}

/// Where state is kept, if the user says so.
///
/// # Errors
///
/// As [`Given::get`].
pub fn state_dir(given: &Given, here: &Path) -> Result<Option<PathBuf>, Failure> {
    Ok(given.get(&table::STATE_DIR)?.map(|dir| here.join(dir)))
}

fn agent(given: &Given, here: &Path) -> Result<AgentSpec, Failure> {
    let Agent { name, kind, command } = named(given)?;
    Ok(AgentSpec {
        name,
        kind,
        command: from_here(command, here),
        model: given.get(&table::MODEL)?,
        permissions: permissions(given, kind)?,
        interface: interface(given, kind)?,
    })
}

/// Another agent than the run's, for one stage. It may do what the run's agent may.
///
/// # Errors
///
/// If there is none of this name.
pub fn agent_named(given: &Given, name: &str, of_run: &AgentSpec) -> Result<AgentSpec, Failure> {
    let Agent { name, kind, command } = agents::find(given.agents(), name)?;
    let model = of_run.model.clone().filter(|_| kind == of_run.kind);
    Ok(AgentSpec { name, kind, command, model, ..of_run.clone() })
}

/// Only Claude Code has an interface that hooks can lead.
fn interface(given: &Given, kind: AgentKind) -> Result<Interface, Failure> {
    match (given.need(&table::TUI)?, kind) {
        (false, _) => Ok(Interface::Headless),
        (true, AgentKind::Claude) => Ok(Interface::Terminal),
        (true, AgentKind::Rehearsal | AgentKind::Exec) => {
            let text = format!("cannot start a session: agents of kind `{}` have no interface", kind.name());
            Err(Failure::new(Exit::Settings, text).hint("leave out `--tui`"))
        }
    }
}

fn permissions(given: &Given, kind: AgentKind) -> Result<Permissions, Failure> {
    let (mode, skip) = if given.need(&table::SAFE_MODE)? {
        (Some(DEFAULT_MODE.to_owned()), false)
    } else {
        (permission_mode(given, kind)?, given.need(&table::SKIP_PERMISSIONS)?)
    };
    let allowed_tools = given.get(&table::ALLOWED_TOOL)?.unwrap_or_default();
    Ok(Permissions { mode, skip, allowed_tools, isolated: given.need(&table::ISOLATED)? })
}

fn permission_mode(given: &Given, kind: AgentKind) -> Result<Option<String>, Failure> {
    let mode = given.get(&table::PERMISSION_MODE)?;
    if kind == AgentKind::Claude {
        refuse_plan_mode(mode.as_deref())?;
    }
    Ok(mode)
}

/// In plan mode Claude Code writes nothing, whatever a hook allows, so no session could hand off.
fn refuse_plan_mode(mode: Option<&str>) -> Result<(), Failure> {
    if mode != Some("plan") {
        return Ok(());
    }
    let text =
        "cannot start a session: in permission mode `plan` the agent writes no file, its handoff neither";
    let hint = "choose another mode, such as `--permission-mode acceptEdits`";
    Err(Failure::new(Exit::Settings, text).hint(hint))
}

/// The agent by name, with its command replaced if one was given beside the name. A command for
/// which nobody named an agent, at the same place or above, is an agent of its own.
fn named(given: &Given) -> Result<Agent, Failure> {
    let name = given.need(&table::AGENT)?;
    let Some(command) = given.get(&table::AGENT_COMMAND)? else { return agents::find(given.agents(), &name) };
    if given.origin(&table::AGENT.row).rank() < given.origin(&table::AGENT_COMMAND.row).rank() {
        let program = Path::new(&command[0]).file_name().unwrap_or_default();
        return Ok(Agent { name: program.to_string_lossy().into_owned(), kind: AgentKind::Exec, command });
    }
    Ok(Agent { command, ..agents::find(given.agents(), &name)? })
}

/// The agent runs in the work dir; a program named by a path is meant from where the person stands.
fn from_here(mut command: Vec<String>, here: &Path) -> Vec<String> {
    if let Some(program) = command.first_mut().filter(|program| program.contains('/')) {
        *program = here.join(&*program).to_string_lossy().into_owned();
    }
    command
}

#[cfg(test)]
mod tests {
    use super::super::environment::Environment;
    use super::super::given::Flags;
    use super::*;

    fn given(flags: &[(&'static str, &str)], env: &[(&str, &str)]) -> Given {
        let flags: Flags = flags.iter().map(|(name, text)| (*name, (*text).to_owned())).collect();
        let vars = env.iter().copied().chain([("EKIDEN_WORK_DIR", "/no/such/project")]);
        Given::gather(flags, &Environment::of(vars)).unwrap()
    }

    fn chosen(flags: &[(&'static str, &str)], env: &[(&str, &str)]) -> Result<Settings, Failure> {
        settings(&given(flags, env), Path::new("/here"))
    }

    fn agent_of(flags: &[(&'static str, &str)], env: &[(&str, &str)]) -> (String, AgentKind, Vec<String>) {
        let agent = chosen(flags, env).unwrap().agent;
        (agent.name, agent.kind, agent.command)
    }

    #[test]
    fn a_command_alone_is_an_agent_of_its_own() {
        let command = ("agent_command", "./bin/my-agent --fast");
        let words = vec!["/here/./bin/my-agent".to_owned(), "--fast".to_owned()];
        assert_eq!(agent_of(&[command], &[]), ("my-agent".to_owned(), AgentKind::Exec, words.clone()));
        let env = [("EKIDEN_AGENT", "claude")];
        assert_eq!(agent_of(&[command], &env).1, AgentKind::Exec);
        let both = [command, ("agent", "claude")];
        assert_eq!(agent_of(&both, &[]), ("claude".to_owned(), AgentKind::Claude, words));
    }

    #[test]
    fn no_cap_is_no_cap() {
        assert_eq!(chosen(&[], &[]).unwrap().cap_tokens, Some(200_000));
        assert_eq!(chosen(&[("context.cap_tokens", "0")], &[]).unwrap().cap_tokens, None);
    }

    #[test]
    fn permissions_are_the_users_choice_or_none() {
        let permissions = chosen(&[], &[]).unwrap().agent.permissions;
        assert_eq!(permissions, Permissions::default());
        let flags = [("allowed_tool", "Read\nBash(git:*)"), ("permission_mode", "acceptEdits")];
        let permissions = chosen(&flags, &[]).unwrap().agent.permissions;
        assert_eq!(permissions.allowed_tools, ["Read", "Bash(git:*)"]);
        assert_eq!(permissions.mode.as_deref(), Some("acceptEdits"));
    }

    // shows: AGT-13
    #[test]
    fn what_is_typed_changes_the_permissions_of_a_run_that_goes_on() {
        let typed = |flags: &[(&'static str, &str)]| permissions_typed(&given(flags, &[]));
        assert!(typed(&[]).unwrap().is_empty());
        let change = typed(&[("allowed_tool", "Edit\nBash(make:*)"), ("skip_permissions", "true")]).unwrap();
        let mut permissions =
            Permissions { allowed_tools: vec!["Edit".to_owned()], ..Permissions::default() };
        permissions.change(&change);
        assert_eq!(permissions.allowed_tools, ["Edit", "Bash(make:*)"]);
        assert!(permissions.skip);
        permissions.change(&typed(&[("safe_mode", "true")]).unwrap());
        assert_eq!((permissions.mode.as_deref(), permissions.skip), (Some("default"), false));
        assert_eq!(typed(&[("permission_mode", "plan")]).unwrap_err().exit(), Exit::Settings);
    }

    // shows: AGT-02
    #[test]
    fn only_claude_code_has_an_interface() {
        assert_eq!(chosen(&[("tui", "true")], &[]).unwrap().agent.interface, Interface::Terminal);
        let failure = chosen(&[("tui", "true"), ("agent", "rehearsal")], &[]).unwrap_err();
        assert_eq!(failure.exit(), Exit::Settings);
    }

    // shows: RUN-02
    #[test]
    fn safe_mode_goes_over_any_skipping() {
        let env = [("EKIDEN_SKIP_PERMISSIONS", "true"), ("EKIDEN_PERMISSION_MODE", "bypassPermissions")];
        let permissions = chosen(&[("safe_mode", "true")], &env).unwrap().agent.permissions;
        assert_eq!((permissions.mode.as_deref(), permissions.skip), (Some("default"), false));
        assert!(chosen(&[], &env).unwrap().agent.permissions.skip);
    }

    // shows: AGT-13
    #[test]
    fn a_mode_in_which_no_handoff_can_be_written_is_refused() {
        let plan = ("permission_mode", "plan");
        assert_eq!(chosen(&[plan], &[]).unwrap_err().exit(), Exit::Settings);
        chosen(&[plan, ("agent", "rehearsal")], &[]).unwrap();
    }
}
