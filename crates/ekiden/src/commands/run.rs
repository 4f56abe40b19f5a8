//! `ekiden run`: starts a relay and watches it to its end.

use std::ffi::OsStr;
use std::io::{self, IsTerminal};
use std::path::Path;

use clap::Args;
use ekiden_agent::child::find_program;
use ekiden_core::ids::{RunId, SessionNumber, StageId};
use ekiden_core::manifest::{Manifest, Part, Stage};
use ekiden_core::settings::{AgentKind, AgentSpec, Interface, RunStarted};
use ekiden_engine::clock::{self, Clock, SystemClock};
use ekiden_engine::history;
use ekiden_engine::observer::Observer as _;
use ekiden_engine::runner::{self, Unfinished};
use ekiden_engine::workspace::Workspace;

use super::task::Task;
use super::{Scene, going_back, guide, repository};
use crate::client::permission::{self, Asker};
use crate::client::settings::ClientSettings;
use crate::client::window;
use crate::exit::Exit;
use crate::failure::{Failure, chain};
use crate::output::{Output, phrase};
use crate::settings::flags::{Starting, Typed};
use crate::settings::given::Flags;
use crate::settings::remember::remember;
use crate::settings::{chosen, table};

const EXAMPLES: &str = "\
Examples:
  ekiden run task.md
  ekiden run task.md --verify 'make test' -m 20
  ekiden run task.md -g --branch migrate
  ekiden run 'Port the parser to Rust, with its tests' --model opus
  ekiden run task.md --agent rehearsal
  ekiden run task.md -r 3          from what session 3 of the newest run left
  ekiden run - < task.md
";

/// Start a relay on a task, and watch it to its end
///
/// The agent works in fresh sessions, one after the other. Before its context fills up, each session
/// is told to hand off in writing, and the next one goes on from there, until the agent says that
/// all is done and the verification agrees, or the sessions are used up.
///
/// The first ctrl-c asks the session at work to hand off and stops; the second stops at once.
/// `ekiden resume` carries on after any end.
#[derive(Args)]
#[command(before_help = EXAMPLES)]
pub struct RunArgs {
    /// A file, `-` for standard input, or the task itself in quotes
    #[arg(value_name = "TASK", required = true)]
    task: Option<String>,
    /// Start anew though a run here is unfinished; that one is kept
    #[arg(long)]
    new: bool,
    /// Go on from what session N of the newest run left; that run is kept as it is
    #[arg(short, long, value_name = "N")]
    resume_from: Option<SessionNumber>,
    #[command(flatten)]
    typed: Typed<Starting>,
}

impl RunArgs {
    /// The task as it was named.
    #[must_use]
    pub fn task(&self) -> &str {
        self.task.as_deref().unwrap_or_default()
    }

    /// The settings that were typed.
    #[must_use]
    pub fn flags(&self) -> Flags {
        self.typed.flags()
    }
}

/// Runs the command.
///
/// # Errors
///
/// If something is missing or wrong, before anything is created; or if the run cannot go on.
pub fn run(args: &RunArgs, output: &mut Output) -> Result<Exit, Failure> {
    let scene = Scene::set(args.flags())?;
    let json = scene.json()?;
    let workspace = scene.workspace()?;
    let mut header = header(&scene, &workspace, Task::read(args.task(), output)?)?;
    check_agent(&header.settings.agent)?;
    check_terminal(&header.settings.agent, json)?;
    if header.settings.guided {
        guide::check(&scene, header.settings.agent.interface)?;
    }
    if let Some(session) = args.resume_from {
        header.from = Some(Box::new(going_back::from(&workspace, session, &header.manifest)?));
    }
    let isolated = header.settings.agent.permissions.isolated;
    let client = ClientSettings::read(&scene.environment, &workspace.dir, isolated);
    window::lower(&mut header.settings, &client);
    settle_permissions(&scene, &client, &mut header.settings.agent, output)?;
    let notes = repository::fit(&mut header, &scene, &workspace)?;
    let unfinished =
        if args.new || header.from.is_some() { Unfinished::SetAside } else { Unfinished::Refuse };
    let mut live = scene.live(output, &workspace)?;
    notes.iter().for_each(|note| live.warn(note));
    if header.settings.guided {
        live.guide(guide::listen(&workspace, &header.run));
    }
    let outcome = runner::start(&workspace, header, unfinished, &mut live)?;
    Ok(Exit::of(&outcome))
}

fn header(scene: &Scene, workspace: &Workspace, task: Task) -> Result<RunStarted, Failure> {
    let mut settings = chosen::settings(&scene.given, &scene.here)?;
    settings.bounds.utc_offset_secs = clock::utc_offset_secs(SystemClock.now());
    let stage = Stage {
        id: StageId::only(),
        task: task.text,
        task_name: task.name,
        verification: chosen::verification(&scene.given)?,
        claim_needed: false,
        sessions_max: scene.given.need(&table::MAX_SESSIONS)?,
        part: Part::default(),
    };
    Ok(RunStarted {
        run: new_id(),
        ekiden: env!("CARGO_PKG_VERSION").to_owned(),
        place: workspace.place(),
        manifest: Manifest::single(stage),
        settings,
        from: None,
        prices: history::prices(workspace),
    })
}

/// Somebody has to have chosen what the agent may do: a person at a terminal is asked once.
pub(super) fn settle_permissions(
    scene: &Scene,
    client: &ClientSettings,
    agent: &mut AgentSpec,
    output: &mut Output,
) -> Result<(), Failure> {
    let file = scene.environment.user_file();
    let can_ask = !scene.json()? && std::io::stdin().is_terminal() && std::io::stderr().is_terminal();
    let mut person = Person { output };
    let asker: Option<&mut dyn Asker> = if can_ask { Some(&mut person) } else { None };
    let choice = permission::settle(agent, client, file.as_deref(), asker)?;
    let (Some(choice), Some(file)) = (choice, file) else { return Ok(()) };
    let what = format!("`{}` in {}", choice.setting(), phrase::path(&file));
    match remember(&file, choice.setting()) {
        Ok(()) => output.talk(&format!("remembered: {what}\n")),
        Err(error) => output.warn(&format!("not remembered: {what}: {}", chain(&error))),
    }
    Ok(())
}

/// Whoever sits at the terminal.
struct Person<'a> {
    output: &'a mut Output,
}

impl Asker for Person<'_> {
    fn ask(&mut self, question: &str) -> Option<String> {
        self.output.talk(question);
        let mut line = String::new();
        let read = std::io::stdin().read_line(&mut line).ok()?;
        (read > 0).then_some(line)
    }
}

/// The id of a new run.
#[must_use]
pub fn new_id() -> RunId {
    let (bits, _, _, _) = uuid::Uuid::new_v4().as_fields();
    RunId::from_bits(bits)
}

/// The agent's program must be there before anything is created.
pub(super) fn check_agent(agent: &AgentSpec) -> Result<(), Failure> {
    let Some(program) = agent.command.first() else { return Ok(()) };
    let path = std::env::var_os("PATH").unwrap_or_default();
    if find_program(OsStr::new(program), &path).is_some() {
        return Ok(());
    }
    let place = if Path::new(program).components().count() > 1 { "there" } else { "on PATH" };
    let text = format!("cannot start a session: agent `{}`: `{program}` is not {place}", agent.name);
    let failure = Failure::new(Exit::Unreachable, text);
    Err(match agent.kind {
        AgentKind::Claude => failure.hint(
            "install it (npm install -g @anthropic-ai/claude-code), or try for free with `--agent rehearsal`",
        ),
        AgentKind::Rehearsal | AgentKind::Exec => failure.hint("name another with `--agent`"),
    })
}

/// The agent's own interface needs a terminal to itself.
fn check_terminal(agent: &AgentSpec, json: bool) -> Result<(), Failure> {
    if agent.interface == Interface::Headless {
        return Ok(());
    }
    let refuse = |text: &str, hint: &str| Err(Failure::new(Exit::Settings, text.to_owned()).hint(hint));
    if json {
        return refuse(
            "cannot show the agent's interface and print JSON lines",
            "leave out `--tui` or `--json`",
        );
    }
    if !io::stdin().is_terminal() || !io::stdout().is_terminal() {
        return refuse("cannot show the agent's interface without a terminal", "leave out `--tui`");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use ekiden_core::settings::Permissions;

    use super::*;

    fn agent(program: &str, kind: AgentKind) -> AgentSpec {
        AgentSpec {
            name: "mine".to_owned(),
            kind,
            command: vec![program.to_owned()],
            model: None,
            permissions: Permissions::default(),
            interface: Interface::Headless,
        }
    }

    // shows: RUN-07
    #[test]
    fn an_absent_agent_is_told_with_a_way_out() {
        let failure = check_agent(&agent("no-such-program", AgentKind::Claude)).unwrap_err();
        assert_eq!(failure.exit(), Exit::Unreachable);
        expect_test::expect![[r"
            error: cannot start a session: agent `mine`: `no-such-program` is not on PATH
            hint: install it (npm install -g @anthropic-ai/claude-code), or try for free with `--agent rehearsal`"]]
        .assert_eq(&failure.to_string());
        let failure = check_agent(&agent("/no/such/program", AgentKind::Exec)).unwrap_err();
        assert!(failure.error().ends_with("`/no/such/program` is not there"), "{failure}");
        assert!(check_agent(&agent("sh", AgentKind::Exec)).is_ok());
    }

    #[test]
    fn two_runs_have_two_ids() {
        assert_ne!(new_id(), new_id());
    }
}
