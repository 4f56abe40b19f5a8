//! `ekiden run`: runs a task as a relay of fresh sessions.

use std::path::{Path, PathBuf};

use clap::Args;
use ekiden_agent::child::find_on_path;
use ekiden_core::agent::{AgentKind, AgentSpec, Permissions};
use ekiden_core::ids::{SessionNumber, StageId};
use ekiden_core::manifest::{Manifest, Part, Stage};
use ekiden_core::settings::{RunStarted, Settings};
use ekiden_core::text::shell_word;
use ekiden_engine::workspace::Workspace;

use super::issue::OfIssue;
use super::offer::{self, Offered};
use super::task::Task;
use super::{
    CommandLine, Invocation, check_command, doctor, going_back, guide, launch, repository, start,
};
use crate::client::guard::look;
use crate::client::permission::{self, Ask, Remembered};
use crate::client::settings::ClientSettings;
use crate::client::window;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::guard::{Compaction, WINDOW_UNKNOWN};
use crate::output::{Output, phrase};
use crate::settings::approval::{Approvals, WITHDRAW};
use crate::settings::file;
use crate::settings::flags::{Starting, Typed};
use crate::settings::given::Flags;
use crate::settings::{chosen, table};
use crate::specs::large_spec;

/// Run a task as a relay of fresh sessions, and watch it
///
/// The agent works in fresh sessions, one after the other. Before a session's context window fills up, ekiden asks
/// it to write a handoff, and the next session continues from it. The run ends when the agent says that all is done and
/// the verification passes, or when the sessions are used up.
///
/// The first ctrl-c asks the current session to hand off, then stops; the second stops at once.
/// `ekiden resume` continues the run, however it ended.
#[derive(Args)]
pub struct RunArgs {
    /// A file, `-` for standard input, or the task itself in quotes [default: ekiden asks]
    #[arg(value_name = "TASK")]
    pub task: Option<String>,
    /// Start a new run even if one is unfinished here; ekiden keeps the old one
    #[arg(long)]
    new: bool,
    /// Continue from what session N of the newest run left, in a new run; the old one stays as it is
    #[arg(short, long, value_name = "N")]
    resume_from: Option<SessionNumber>,
    /// Work on this issue: ANV-123, owner/name#12, #12, its address, or the name of a file in .issues/; TASK then says
    /// what you want of it [default: all of it]
    #[arg(long, value_name = "ISSUE")]
    issue: Option<String>,
    /// When the run ends verified, push its new branch and open a pull request on GitHub with its report; follow-up work
    /// updates it
    #[arg(long)]
    pull_request: bool,
    /// Run in the background: print the run's id and return once it works
    #[arg(long)]
    detach: bool,
    #[command(flatten)]
    typed: Typed<Starting>,
}

impl RunArgs {
    pub fn flags(&self) -> Flags {
        self.typed.flags()
    }

    fn is_more_than_settings(&self) -> bool {
        self.new || self.detach || self.pull_request || self.resume_from.is_some()
    }
}

pub fn run(
    args: &RunArgs,
    command_line: CommandLine,
    output: &mut Output,
) -> Result<Exit, Failure> {
    let invocation = Invocation::new(args.flags())?;
    let workspace = invocation.workspace_here()?;
    let issue = args.issue.as_deref();
    let issue = issue
        .map(|issue| OfIssue::read(&invocation, &workspace, issue, args.task.as_deref(), output));
    let issue = issue.transpose()?;
    let task = match (&args.task, &issue) {
        (_, Some(issue)) => issue.task.clone(),
        (Some(task), None) => Task::of_run(task, &workspace.dir, output)?,
        (None, None) => {
            match offer::task(&invocation, &workspace, command_line.definition, output)? {
                Offered::Task(task) => task,
                Offered::Questions if args.is_more_than_settings() => {
                    let text = "the questions do not cover `--new`, `--detach`, `--pull-request` and `--resume-from`";
                    let hint = "name the task: `ekiden run task.md` takes them";
                    return Err(Failure::new(Exit::Usage, text).hint(hint));
                }
                Offered::Questions => return start::begin(args.flags(), command_line, output),
                Offered::Help => return Ok(Exit::Done),
            }
        }
    };
    let header = header(&invocation, &workspace, task)?;
    if header.settings.agent.kind == AgentKind::Claude {
        suggest_shards(args.task.as_deref(), &invocation, &workspace, output);
    }
    let begin = Begin {
        issue,
        resume_from: args.resume_from,
        new: args.new,
        detach: args.detach,
        pull_request: args.pull_request,
    };
    go(&invocation, workspace, header, begin, output)
}

/// How a run begins.
#[derive(Default)]
pub(super) struct Begin {
    pub(super) issue: Option<OfIssue>,
    pub(super) resume_from: Option<SessionNumber>,
    /// An unfinished run here is kept as it is.
    pub(super) new: bool,
    pub(super) detach: bool,
    pub(super) pull_request: bool,
}

/// Checks what the run needs, starts it, and shows it until it ends.
pub(super) fn go(
    invocation: &Invocation,
    mut workspace: Workspace,
    mut header: RunStarted,
    begin: Begin,
    output: &mut Output,
) -> Result<Exit, Failure> {
    if begin.detach {
        let settings = &header.settings;
        launch::check_detached(settings.agent.interface, settings.guided)?;
    }
    check_agents(header.settings.agents(), invocation, &workspace.dir)?;
    launch::check_terminal(&header.settings.agent, invocation.json()?)?;
    if header.settings.guided {
        guide::check(invocation, header.settings.agent.interface)?;
    }
    if let Some(session) = begin.resume_from {
        let from = going_back::from(
            invocation,
            &mut workspace,
            session,
            &header.manifest,
            output,
        )?;
        header.from = Some(Box::new(from));
    }
    let isolated = header.settings.agent.permissions.isolated;
    let client = ClientSettings::read(&invocation.environment, &workspace.dir, isolated);
    window::lower(&mut header.settings, &client);
    settle_all_permissions(invocation, &client, &mut header.settings, None, output)?;
    let mut notes = repository::fit(&mut header, invocation, &workspace)?;
    if let Some(issue) = begin.issue {
        issue.settle(&mut header, invocation, &workspace)?;
    }
    if begin.pull_request {
        repository::fit_pull_request(&mut header, invocation, &workspace)?;
    }
    notes.extend(repository::risk(&header, &workspace));
    notes.extend(verification_note(&header, &workspace)?);
    notes.extend(invocation.given.held_back_told());
    let set_aside = begin.new || begin.resume_from.is_some();
    launch::begin(
        invocation,
        &workspace,
        header,
        set_aside,
        begin.detach,
        &notes,
        output,
    )
}

/// The parts of a document that is large for a window of Claude Code's.
fn suggest_shards(
    task: Option<&str>,
    invocation: &Invocation,
    workspace: &Workspace,
    output: &mut Output,
) {
    let window = Compaction::here(&invocation.environment, &workspace.dir).window(WINDOW_UNKNOWN);
    let large = task.and_then(|name| large_spec(&invocation.here, name, &window, false));
    large.iter().for_each(|large| {
        let text = "The run works through it all the same, session by session.";
        output.message(&format!("{}\n{text}\n", large.suggestion()));
    });
}

fn verification_note(
    header: &RunStarted,
    workspace: &Workspace,
) -> Result<Option<String>, Failure> {
    let mut stages = header.manifest.stages.iter();
    let verification = stages.find_map(|stage| stage.verification.as_ref());
    verification.map_or(Ok(None), |verification| {
        check_command::parse(verification)?;
        check_command::check(verification, &workspace.dir)
    })
}

pub(super) fn header(
    invocation: &Invocation,
    workspace: &Workspace,
    task: Task,
) -> Result<RunStarted, Failure> {
    let given = &invocation.given;
    let stage = Stage {
        id: StageId::only(),
        task: task.text,
        task_name: task.name,
        verification: chosen::verification(given)?,
        claim_needed: false,
        sessions_max: given.need(&table::MAX_SESSIONS)?,
        part: Part::default(),
    };
    let settings = chosen::settings(given, &invocation.here)?;
    Ok(launch::header(workspace, Manifest::single(stage), settings))
}

/// The same as [`settle_permissions`], for all agents that work on a run.
pub(super) fn settle_all_permissions(
    invocation: &Invocation,
    client: &ClientSettings,
    settings: &mut Settings,
    plan: Option<&Manifest>,
    output: &mut Output,
) -> Result<(), Failure> {
    let own = settings.workers().skip(plan.map_or(0, Manifest::unused));
    let workers = own.chain(plan.into_iter().flat_map(Manifest::agents));
    let workers: Vec<AgentSpec> = workers.cloned().collect();
    let permissions = &mut settings.agent.permissions;
    settle_permissions(invocation, client, &workers, permissions, output)
}

/// Somebody must have chosen what the agents that work may do without asking: a person at a terminal is asked once.
pub(super) fn settle_permissions(
    invocation: &Invocation,
    client: &ClientSettings,
    workers: &[AgentSpec],
    permissions: &mut Permissions,
    output: &mut Output,
) -> Result<(), Failure> {
    let is_claude = |agent: &AgentSpec| agent.kind == AgentKind::Claude;
    if workers.iter().any(is_claude) && !permissions.isolated {
        warn_of_ignored(invocation, output)?;
    }
    let file = invocation.environment.user_file();
    let can_ask = invocation.can_ask()?;
    let approvals = Approvals::read(&invocation.environment)?;
    let project = invocation.workspace_here()?.dir;
    let remembered = Remembered {
        settings: file.as_deref(),
        of_project: approvals.path.as_deref(),
        everything: approvals.has_everything(&project),
    };
    let mut choice = None;
    for worker in workers {
        // All of them get the run's permissions.
        let mut agent = AgentSpec {
            permissions: permissions.clone(),
            ..worker.clone()
        };
        let mut ask = |question: &str| output.ask(question);
        let asker: Option<Ask<'_>> = can_ask.then_some(&mut ask);
        choice = choice.or(permission::settle(&mut agent, client, remembered, asker)?);
        permission::check_mode(&agent, client, &invocation.environment)?;
        *permissions = agent.permissions;
    }
    let (Some(choice), Some(file)) = (choice, file) else {
        return Ok(());
    };
    let (what, saved) = match choice.mode() {
        None => {
            let place = approvals
                .path
                .as_deref()
                .map(phrase::path)
                .unwrap_or_default();
            let what = format!("everything, for this project only, in {place}");
            (what, approvals.allow_everything(&project))
        }
        Some(mode) => {
            let what = format!("`{}` in {}", choice.setting(), phrase::path(&file));
            let saved = file::set(&file, &table::PERMISSION_MODE.row, &format!("\"{mode}\""));
            (what, saved)
        }
    };
    match saved {
        Ok(()) if choice.mode().is_none() => {
            output.message(&format!(
                "remembered: {what}; to withdraw it: `{WITHDRAW}`\n"
            ));
        }
        Ok(()) => output.message(&format!("remembered: {what}\n")),
        Err(failure) => output.warn(&format!("not remembered: {what}: {}", failure.error())),
    }
    Ok(())
}

/// Warns of settings files that the client ignores, with the rules in them that deny: it does not say so itself when a
/// program drives it.
fn warn_of_ignored(invocation: &Invocation, output: &mut Output) -> Result<(), Failure> {
    let (_, ignored) = look(&invocation.environment, &invocation.workspace_here()?.dir);
    for file in ignored {
        output.warn(&format!(
            "Claude Code ignores all of {}, its permission rules and hooks too: not plain JSON at {} (it \
             accepts no comments or trailing commas)",
            phrase::path(&file.path),
            file.at
        ));
    }
    Ok(())
}

/// Each agent's program must exist and be able to work, before anything is created.
pub(super) fn check_agents<'a>(
    agents: impl IntoIterator<Item = &'a AgentSpec>,
    invocation: &Invocation,
    dir: &Path,
) -> Result<(), Failure> {
    let mut checked: Vec<&AgentSpec> = Vec::new();
    for agent in agents {
        if checked.iter().any(|before| before.shares_login(agent)) {
            continue;
        }
        let is_there = check_agent(agent);
        let can_work = is_there.and_then(|()| doctor::refusal(agent, &invocation.environment, dir));
        can_work.map_err(|failure| match checked.is_empty() {
            true => failure,
            false => failure.hint("or take it out of `fallback`, `review` or the manifest"),
        })?;
        checked.push(agent);
    }
    Ok(())
}

fn check_agent(agent: &AgentSpec) -> Result<(), Failure> {
    let Err((absent, remedy)) = find_agent(agent) else {
        return Ok(());
    };
    let text = format!("cannot start a session: agent `{}`: {absent}", agent.name);
    Err(Failure::new(Exit::Unreachable, text).hint(remedy))
}

/// Where the agent's program is, if it is not built in; or why it cannot be run, and what to do.
pub(super) fn find_agent(agent: &AgentSpec) -> Result<Option<PathBuf>, (String, String)> {
    let Some(program) = agent.command.first() else {
        return Ok(None);
    };
    if let Some(found) = find_on_path(program) {
        return Ok(Some(found));
    }
    let remedy = match agent.kind {
        AgentKind::Claude => {
            "install it (npm install -g @anthropic-ai/claude-code), name another with `--agent` (codex, opencode and others), or try for free with `--agent rehearsal`"
        }
        AgentKind::Acp | AgentKind::Codex => "install it, or name another with `--agent`",
        AgentKind::Rehearsal | AgentKind::Exec => {
            "correct its command (spaces separate words), or name another with `--agent`"
        }
    };
    let path = Path::new(program);
    let (place, remedy) = match program.contains('/') {
        true if path.is_dir() => ("is a directory", remedy.to_owned()),
        true if path.exists() => (
            "is not executable",
            format!("`chmod +x {}`", shell_word(program)),
        ),
        true => ("is not there", remedy.to_owned()),
        false => ("is not on PATH", remedy.to_owned()),
    };
    Err((format!("`{program}` {place}"), remedy))
}

#[cfg(test)]
mod tests {
    use ekiden_core::agent::Permissions;

    use ekiden_core::agent::Interface;

    use super::*;

    fn agent(program: &str, kind: AgentKind) -> AgentSpec {
        AgentSpec {
            name: "mine".to_owned(),
            kind,
            command: vec![program.to_owned()],
            model: None,
            account: None,
            permissions: Permissions::default(),
            interface: Interface::Headless,
        }
    }

    // shows: AGT-02
    #[test]
    fn only_claude_code_has_an_interface() {
        let agent = AgentSpec {
            interface: Interface::Terminal,
            ..agent("sh", AgentKind::Exec)
        };
        expect_test::expect![[r"
            error: cannot start a session: agents of kind `exec` have no interface
            hint: leave out `--tui`, or set `tui` to false"]]
        .assert_eq(
            &launch::check_terminal(&agent, false)
                .unwrap_err()
                .to_string(),
        );
    }

    // shows: RUN-07
    #[test]
    fn an_absent_agent_is_told_with_a_way_out() {
        let failure = check_agent(&agent("no-such-program", AgentKind::Claude)).unwrap_err();
        assert_eq!(failure.exit(), Exit::Unreachable);
        expect_test::expect![[r"
            error: cannot start a session: agent `mine`: `no-such-program` is not on PATH
            hint: install it (npm install -g @anthropic-ai/claude-code), name another with `--agent` (codex, opencode and others), or try for free with `--agent rehearsal`"]]
        .assert_eq(&failure.to_string());
        let failure = check_agent(&agent("/no/such/program", AgentKind::Exec)).unwrap_err();
        assert!(
            failure.error().ends_with("`/no/such/program` is not there"),
            "{failure}"
        );
        assert!(check_agent(&agent("sh", AgentKind::Exec)).is_ok());
    }
}
