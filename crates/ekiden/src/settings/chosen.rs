//! What the settings mean for a run: the values that are frozen into its log.

use std::path::{Component, Path, PathBuf};

use ekiden_core::agent::{AgentKind, AgentSpec, Interface, Permissions, PermissionsChange};
use ekiden_core::bounds::{Bounds, BoundsChange};
use ekiden_core::budget::Budget;
use ekiden_core::manifest::Verification;
use ekiden_core::memory::MemoryUse;
use ekiden_core::settings::{CommitPlan, Judging, LimitsChanged, Settings};
use ekiden_engine::clock::{self, Clock as _, SystemClock};
use ekiden_engine::notify::{Endpoint, Way};
use ekiden_engine::runner::Driving;
use ekiden_engine::workspace::{has_runs, ran_before_git};
use ekiden_otel::{Endpoints, Fault};
use ekiden_store::place::ProjectPlace;
use ekiden_wire::consent::MODES;

use super::agents::{self, Agent};
use super::environment::Environment;
use super::fallback::fallback;
use super::given::{Flags, Given, Origin};
use super::table::{self, Setting, Takes};
use crate::exit::Exit;
use crate::failure::{Failure, current_dir};
use crate::plan::isolation::resolved;

/// The settings of a run that begins.
pub fn settings(given: &Given, here: &Path) -> Result<Settings, Failure> {
    let cap = given.need(&table::CAP_TOKENS)?;
    let agent = agent(given, here)?;
    check_permissions(&agent)?;
    let mut limits = Bounds {
        agents: agents::budgets(&given.agents),
        ..Bounds::default()
    };
    let bounds = bounds(given)?;
    agents::check_budgets(given, &bounds.agents, |name| name == agent.name)?;
    limits.change(&bounds);
    limits.utc_offset_secs = clock::utc_offset_secs(SystemClock.now());
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
        reviewer: reviewer(given, &agent)?,
        no_review: false,
        fallback: fallback(given, &agent)?,
        agent,
        // The paths that stay out of the commits are added when the run starts.
        commit: given.need(&table::GIT_COMMIT)?.then(CommitPlan::default),
        notify: given.need(&table::NOTIFY)?,
        notify_text: given.need(&table::NOTIFY_TEXT)?,
        subagents: given.need(&table::SUBAGENTS)?,
        guided: given.need(&table::GUIDED)?,
        bounds: limits,
        // Looked up when the run starts.
        memory: MemoryUse::default(),
    })
}

/// Refuses settings that the agent could not keep, before anything begins.
fn check_permissions(agent: &AgentSpec) -> Result<(), Failure> {
    let refused = agent.cannot_hold(&agent.permissions);
    if let Some(why) = refused.filter(|_| agent.kind != AgentKind::Exec) {
        let text = format!("cannot use agent `{}` like this: {why}", agent.name);
        return Err(Failure::new(Exit::Settings, text)
            .hint("leave out `isolated`, or choose another agent"));
    }
    let mode = agent.permissions.mode.as_deref();
    match mode.filter(|mode| agent.kind == AgentKind::Codex && !MODES.contains(mode)) {
        None => Ok(()),
        Some(mode) => {
            let text = format!("`{mode}` is no permission mode that ekiden knows for Codex");
            let hint = format!("choose one of {}", MODES.join(", "));
            Err(Failure::new(Exit::Settings, text).hint(hint))
        }
    }
}

/// How the process drives a run.
pub fn driving(given: &Given, here: &Path) -> Result<Driving, Failure> {
    Ok(Driving {
        on_hangup: given.need(&table::ON_HANGUP)?,
        endpoints: match given.need(&table::NOTIFY)? {
            true => endpoints(given, here)?,
            false => Vec::new(),
        },
        commit_subject: given.need(&table::COMMIT_SUBJECT)?,
        issues_dir: given.need(&table::TRACKER_LOCAL_DIR)?,
        messages: Vec::new(),
    })
}

/// Where spans and metrics go, if anywhere.
pub fn telemetry(
    given: &Given,
    environment: &Environment,
) -> Result<Result<Option<Endpoints>, Fault>, Failure> {
    let variable = |name: &str| environment.variable(name).map(str::to_owned);
    let setting = given.get(&table::OTEL_ENDPOINT)?;
    Ok(Endpoints::of(setting, variable))
}

/// Where notices go.
pub fn endpoints(given: &Given, here: &Path) -> Result<Vec<Endpoint>, Failure> {
    let desktop = given.need(&table::NOTIFY_DESKTOP)?;
    let mut command = given.get(&table::NOTIFY_COMMAND)?;
    // It runs in the work dir, where another program may have that name.
    if let Some(program) = command.iter_mut().flatten().next() {
        absolute(program, here);
    }
    let webhook = given.get(&table::NOTIFY_WEBHOOK)?;
    let ntfy = given.get(&table::NOTIFY_NTFY)?;
    let ways = [
        (
            desktop.then_some(Way::Desktop),
            &table::NOTIFY_DESKTOP_KINDS,
        ),
        (command.map(Way::Command), &table::NOTIFY_COMMAND_KINDS),
        (webhook.map(Way::Webhook), &table::NOTIFY_WEBHOOK_KINDS),
        (ntfy.map(Way::Ntfy), &table::NOTIFY_NTFY_KINDS),
    ];
    let of_all = given.need(&table::NOTIFY_KINDS)?;
    let mut endpoints = Vec::new();
    for (way, kinds) in ways {
        let kinds = given.get(kinds)?.unwrap_or_else(|| of_all.clone());
        endpoints.extend(way.map(|way| Endpoint { way, kinds }));
    }
    Ok(endpoints)
}

/// A program's relative path is relative to the current directory, no matter where it runs.
fn absolute(program: &mut String, here: &Path) {
    if program.contains('/') {
        *program = here.join(&*program).to_string_lossy().into_owned();
    }
}

/// The configured bounds: from all sources for a new run, and from [`Given::typed`] for one that continues.
fn bounds(given: &Given) -> Result<BoundsChange, Failure> {
    Ok(BoundsChange {
        run: Budget {
            micro_usd: given.get(&table::RUN_BUDGET)?,
            tokens: given.get(&table::RUN_TOKENS)?,
        },
        session: Budget {
            micro_usd: given.get(&table::SESSION_BUDGET)?,
            tokens: given.get(&table::SESSION_TOKENS)?,
        },
        agents: agents::budgets_set(given)?,
        session_timeout: given.get(&table::SESSION_TIMEOUT)?,
        turns_max: given.get(&table::MAX_TURNS)?,
        quiet_hours: given.get(&table::QUIET_HOURS)?,
        on_rate_limit: given.get(&table::ON_RATE_LIMIT)?,
    })
}

/// The configured permissions, from all sources or only from flags.
fn permissions(given: &Given) -> Result<PermissionsChange, Failure> {
    let mode = given.get(&table::PERMISSION_MODE)?;
    let skip = given.get(&table::SKIP_PERMISSIONS)?;
    let from = |row, is_set: bool| is_set.then(|| given.origin(row));
    let of_mode = from(&table::PERMISSION_MODE.row, mode.is_some());
    let of_skip = from(&table::SKIP_PERMISSIONS.row, skip == Some(true));
    let is_safe = given.get(&table::SAFE_MODE)? == Some(true);
    let of_safe = from(&table::SAFE_MODE.row, is_safe);
    // What a person says here overrides what a file says for all; of what is as near, the narrowest counts.
    let (mode, skip) = match is_safe && of_safe >= of_mode.max(of_skip) {
        // The client's name for the mode in which only its rules decide.
        true => (Some("default".to_owned()), Some(false)),
        false if of_mode.is_some() && of_mode >= of_skip => (mode, Some(false)),
        false => (mode, skip),
    };
    Ok(PermissionsChange {
        mode,
        skip,
        allowed_tools: given.get(&table::ALLOWED_TOOL)?.unwrap_or_default(),
    })
}

/// The limits that were typed for a run that continues.
pub fn limits_typed(given: &Given) -> Result<LimitsChanged, Failure> {
    let typed = given.typed();
    let permissions = permissions(&typed)?;
    refuse_plan_mode(permissions.mode.as_deref())?;
    Ok(LimitsChanged {
        sessions_max: typed.get(&table::MAX_SESSIONS)?,
        wait_max: typed.get(&table::MAX_WAIT)?,
        pause: typed.get(&table::PAUSE)?,
        stall_sessions: typed.get(&table::STALL_SESSIONS)?,
        research: typed.get(&table::RESEARCH)?,
        guided: typed.get(&table::GUIDED)?,
        no_review: false,
        bounds: bounds(&typed)?,
        permissions,
    })
}

/// The verification of a run that begins, if there is one.
pub fn verification(given: &Given) -> Result<Option<Verification>, Failure> {
    let timeout = given.need(&table::VERIFY_TIMEOUT)?;
    let command = given.get(&table::VERIFY)?;
    Ok(command.map(|command| Verification::by_command(command, timeout)))
}

pub fn state_dir(given: &Given, here: &Path) -> Result<Option<PathBuf>, Failure> {
    let dir = given.get(&table::STATE_DIR)?.map(|dir| here.join(dir));
    let climbs = |dir: &PathBuf| dir.components().any(|part| part == Component::ParentDir);
    // Missing directories are created from the outermost inwards, and `..` cannot be created.
    Ok(dir.map(|dir| if climbs(&dir) { resolved(&dir) } else { dir }))
}

/// The nearest directory from here upwards in which there are runs; none if a work dir is named.
pub fn dir_of_runs(flags: &Flags, environment: &Environment) -> Result<Option<PathBuf>, Failure> {
    let (here, given) = (
        current_dir()?,
        Given::without_files(flags.clone(), environment)?,
    );
    if given.origin(&table::WORK_DIR.row) != Origin::Default {
        return Ok(None);
    }
    let state_dir = state_dir(&given, &here)?;
    let ran_there = |dir: &&Path| {
        let place = ProjectPlace::find(dir, state_dir.as_deref());
        place.is_some_and(|place| has_runs(&place.state_dir))
            || state_dir.is_none() && ran_before_git(dir)
    };
    Ok(here.ancestors().find(ran_there).map(Path::to_owned))
}

fn agent(given: &Given, here: &Path) -> Result<AgentSpec, Failure> {
    let Agent {
        name,
        kind,
        mut command,
        account,
    } = named(given)?;
    let permissions = permissions(given)?;
    if let Some(program) = command.first_mut() {
        absolute(program, here);
    }
    Ok(AgentSpec {
        name,
        kind,
        command,
        model: model(given, &table::MODELS_WORK)?,
        account,
        permissions: Permissions {
            mode: permissions.mode,
            skip: permissions.skip.unwrap_or(false),
            allowed_tools: permissions.allowed_tools,
            isolated: given.need(&table::ISOLATED)?,
            mcp: kind == AgentKind::Claude && given.need(&table::MCP)?,
            read_only: false,
        },
        interface: match given.need(&table::TUI)? {
            true => Interface::Terminal,
            false => Interface::Headless,
        },
    })
}

/// The model for one kind of work. `--model` and the like apply to it if they are closer to the user.
pub fn model(given: &Given, kind: &Setting<String>) -> Result<Option<String>, Failure> {
    let of_kind = model_alone(given, kind)?;
    of_kind.map_or_else(|| given.get(&table::MODEL), |model| Ok(Some(model)))
}

/// The same if only its own setting counts.
pub fn model_alone(given: &Given, kind: &Setting<String>) -> Result<Option<String>, Failure> {
    let is_nearer = given.origin(&kind.row) >= given.origin(&table::MODEL.row);
    Ok(given.get(kind)?.filter(|_| is_nearer))
}

/// An agent for one stage that is not the run's. It has the permissions of the run's agent.
pub fn agent_named(given: &Given, name: &str, of_run: &AgentSpec) -> Result<AgentSpec, Failure> {
    let agent = agents::find(&given.agents, name)?;
    // Programs that share a protocol do not share their models' names.
    let knows_model = agent.kind == of_run.kind
        && (agent.kind != AgentKind::Acp || agent.command == of_run.command);
    Ok(AgentSpec {
        name: agent.name,
        kind: agent.kind,
        command: agent.command,
        account: agent.account,
        model: of_run.model.clone().filter(|_| knows_model),
        ..of_run.clone()
    })
}

/// Who judges claims, if anybody: an agent by its name, otherwise a model of the run's agent.
fn reviewer(given: &Given, of_run: &AgentSpec) -> Result<Option<Box<AgentSpec>>, Failure> {
    let named = given.need(&table::REVIEW)?;
    let reviewer = match &*named {
        "off" => return Ok(None),
        Takes::UNSAID => AgentSpec {
            model: model_alone(given, &table::MODELS_REVIEW)?.or(of_run.model.clone()),
            ..of_run.clone()
        },
        name if agents::names(&given.agents)
            .iter()
            .any(|known| known == name) =>
        {
            agent_named(given, name, of_run)?
        }
        model => AgentSpec {
            model: Some(model.to_owned()),
            ..of_run.clone()
        },
    };
    Ok(Some(Box::new(reviewer.read_only())))
}

/// What to do where the agent cannot be shown in its own interface; the wish may come from a file or a variable.
pub const WITHOUT_INTERFACE: &str = "leave out `--tui`, or set `tui` to false";

/// In plan mode Claude Code writes nothing, no matter what a hook allows, so no session could hand off.
pub fn refuse_plan_mode(mode: Option<&str>) -> Result<(), Failure> {
    if mode != Some("plan") {
        return Ok(());
    }
    let text =
        "cannot start a session: in permission mode `plan` the agent cannot write its handoff";
    Err(Failure::new(Exit::Settings, text)
        .hint("choose another mode, such as `--permission-mode acceptEdits`, or `--safe-mode`"))
}

/// The agent by name, with its command replaced if one was given too. A command is a separate agent if no
/// source of the same rank or a higher one names an agent.
fn named(given: &Given) -> Result<Agent, Failure> {
    let agent = || agents::find(&given.agents, &given.need(&table::AGENT)?);
    let Some(command) = given.get(&table::AGENT_COMMAND)? else {
        return agent();
    };
    if given.origin(&table::AGENT.row) >= given.origin(&table::AGENT_COMMAND.row) {
        let agent = agent()?;
        return Ok(Agent { command, ..agent });
    }
    let program = Path::new(&command[0]).file_name().unwrap_or_default();
    Ok(Agent {
        name: program.to_string_lossy().into_owned(),
        kind: AgentKind::Exec,
        command,
        account: None,
    })
}

#[cfg(test)]
pub(crate) mod tests {
    use super::super::given::Flags;
    use super::*;

    pub(crate) fn given(flags: &[(&'static str, &str)], env: &[(&str, &str)]) -> Given {
        let flags: Flags = flags
            .iter()
            .map(|(name, text)| (*name, (*text).to_owned()))
            .collect();
        let vars = env
            .iter()
            .copied()
            .chain([("EKIDEN_WORK_DIR", "/no/such/project")]);
        Given::gather(None, flags, &Environment::of(vars)).unwrap()
    }

    fn chosen(flags: &[(&'static str, &str)], env: &[(&str, &str)]) -> Result<Settings, Failure> {
        settings(&given(flags, env), Path::new("/here"))
    }

    fn agent_of(
        flags: &[(&'static str, &str)],
        env: &[(&str, &str)],
    ) -> (String, AgentKind, Vec<String>) {
        let agent = chosen(flags, env).unwrap().agent;
        (agent.name, agent.kind, agent.command)
    }

    #[test]
    fn a_command_alone_is_an_agent_of_its_own() {
        let command = ("agent_command", "./bin/my-agent --fast");
        let words = vec!["/here/./bin/my-agent".to_owned(), "--fast".to_owned()];
        assert_eq!(
            agent_of(&[command], &[]),
            ("my-agent".to_owned(), AgentKind::Exec, words.clone())
        );
        let env = [("EKIDEN_AGENT", "claude")];
        assert_eq!(agent_of(&[command], &env).1, AgentKind::Exec);
        let both = [command, ("agent", "claude")];
        assert_eq!(
            agent_of(&both, &[]),
            ("claude".to_owned(), AgentKind::Claude, words)
        );
    }

    // shows: RUN-03
    #[test]
    fn a_model_for_a_kind_of_work_holds_where_it_is_as_near_as_model() {
        let model = |flags: &[(&'static str, &str)], env: &[(&str, &str)]| {
            let planner = super::model(&given(flags, env), &table::MODELS_PLAN).unwrap();
            (chosen(flags, env).unwrap().agent.model, planner)
        };
        let some = |text: &str| Some(text.to_owned());
        let env = [
            ("EKIDEN_MODELS_WORK", "haiku"),
            ("EKIDEN_MODELS_PLAN", "opus"),
        ];
        assert_eq!(model(&[], &env), (some("haiku"), some("opus")));
        let both = [env[0], ("EKIDEN_MODEL", "sonnet")];
        assert_eq!(model(&[], &both), (some("haiku"), some("sonnet")));
        let typed = [("model", "sonnet")];
        assert_eq!(model(&typed, &env), (some("sonnet"), some("sonnet")));
        assert_eq!(model(&[], &[]), (None, None));
    }

    // shows: RUN-03, REL-38
    #[test]
    fn a_reviewer_has_its_model_where_it_is_the_runs_agent() {
        let reviewer = |review: &str, env: &[(&str, &str)]| {
            let reviewer = chosen(&[("review", review)], env).unwrap().reviewer;
            reviewer.unwrap().model
        };
        let env = [
            ("EKIDEN_MODELS_REVIEW", "haiku"),
            ("EKIDEN_MODELS_WORK", "opus"),
        ];
        assert_eq!(reviewer("own", &env).as_deref(), Some("haiku"));
        assert_eq!(reviewer("sonnet", &env).as_deref(), Some("sonnet"));
        assert_eq!(reviewer("rehearsal", &env), None);
        assert_eq!(reviewer("own", &env[1..]).as_deref(), Some("opus"));
        let env = [("EKIDEN_AGENT", "opencode"), ("EKIDEN_MODEL", "a/big")];
        assert_eq!(reviewer("opencode", &env).as_deref(), Some("a/big"));
        assert_eq!(reviewer("gemini", &env), None);
    }

    #[test]
    fn no_cap_is_no_cap() {
        assert_eq!(chosen(&[], &[]).unwrap().cap_tokens, Some(200_000));
        assert_eq!(
            chosen(&[("context.cap_tokens", "0")], &[])
                .unwrap()
                .cap_tokens,
            None
        );
    }

    #[test]
    fn permissions_are_the_users_choice_or_none() {
        let permissions = chosen(&[], &[]).unwrap().agent.permissions;
        // Only our own server is there without a choice.
        let of_ours = Permissions {
            mcp: true,
            ..Permissions::default()
        };
        assert_eq!(permissions, of_ours);
        let permissions = chosen(&[], &[("EKIDEN_MCP", "false")])
            .unwrap()
            .agent
            .permissions;
        assert_eq!(permissions, Permissions::default());
        let flags = [
            ("allowed_tool", "Read\nBash(git:*)"),
            ("permission_mode", "acceptEdits"),
        ];
        let permissions = chosen(&flags, &[]).unwrap().agent.permissions;
        assert_eq!(permissions.allowed_tools, ["Read", "Bash(git:*)"]);
        assert_eq!(permissions.mode.as_deref(), Some("acceptEdits"));
    }

    // shows: AGT-13
    #[test]
    fn what_is_typed_changes_the_permissions_of_a_run_that_goes_on() {
        let typed = |flags: &[(&'static str, &str)]| {
            limits_typed(&given(flags, &[])).map(|limits| limits.permissions)
        };
        assert!(typed(&[]).unwrap().is_empty());
        let change = typed(&[
            ("allowed_tool", "Edit\nBash(make:*)"),
            ("skip_permissions", "true"),
        ])
        .unwrap();
        let mut permissions = Permissions {
            allowed_tools: vec!["Edit".to_owned()],
            ..Permissions::default()
        };
        permissions.change(&change);
        assert_eq!(permissions.allowed_tools, ["Edit", "Bash(make:*)"]);
        assert!(permissions.skip);
        permissions.change(&typed(&[("safe_mode", "true")]).unwrap());
        assert_eq!(
            (permissions.mode.as_deref(), permissions.skip),
            (Some("default"), false)
        );
        assert_eq!(
            typed(&[("permission_mode", "plan")]).unwrap_err().exit(),
            Exit::Settings
        );
    }

    // shows: RUN-02
    #[test]
    fn safe_mode_goes_over_any_skipping() {
        let env = [
            ("EKIDEN_SKIP_PERMISSIONS", "true"),
            ("EKIDEN_PERMISSION_MODE", "bypassPermissions"),
        ];
        let permissions = chosen(&[("safe_mode", "true")], &env)
            .unwrap()
            .agent
            .permissions;
        assert_eq!(
            (permissions.mode.as_deref(), permissions.skip),
            (Some("default"), false)
        );
        let wide = chosen(&[], &env).unwrap().agent.permissions;
        let wide = (wide.mode.as_deref(), wide.skip);
        assert_eq!(wide, (Some("bypassPermissions"), false));
        let narrow = [
            ("permission_mode", "acceptEdits"),
            ("skip_permissions", "true"),
        ];
        assert!(!chosen(&narrow, &[]).unwrap().agent.permissions.skip);
        let both = [("safe_mode", "true"), ("skip_permissions", "true")];
        assert!(!chosen(&both, &[]).unwrap().agent.permissions.skip);
    }

    // shows: RUN-02, RUN-03
    #[test]
    fn what_is_typed_goes_over_a_safe_mode_that_is_configured() {
        let safe = [("EKIDEN_SAFE_MODE", "true")];
        let typed = |flag| chosen(&[flag], &safe).unwrap().agent.permissions;
        assert!(typed(("skip_permissions", "true")).skip);
        let mode = typed(("permission_mode", "acceptEdits")).mode;
        assert_eq!(mode.as_deref(), Some("acceptEdits"));
        let mode = typed(("skip_permissions", "false")).mode;
        assert_eq!(mode.as_deref(), Some("default"));
    }

    // shows: RUN-20
    #[test]
    fn a_mode_that_is_said_goes_over_a_skipping_that_is_configured() {
        let skip = ("EKIDEN_SKIP_PERMISSIONS", "true");
        let mode = ("permission_mode", "acceptEdits");
        let permissions = chosen(&[mode], &[skip]).unwrap().agent.permissions;
        assert_eq!(
            (permissions.mode.as_deref(), permissions.skip),
            (Some("acceptEdits"), false)
        );
        let mode = ("EKIDEN_PERMISSION_MODE", "acceptEdits");
        let skip = ("skip_permissions", "true");
        assert!(chosen(&[skip], &[mode]).unwrap().agent.permissions.skip);
    }
}
