//! `ekiden start`: asks questions with defaults and makes a command line from the answers.
//!
//! The wizard decides nothing that a flag could not say: its result is a command line, which is parsed and
//! run as if it had been typed. Before the last answer, nothing is written except by a session that asks
//! about the task.

mod asked;
mod checks;
mod question;

use std::path::{Path, PathBuf};

use clap::Args;
use ekiden_core::agent::{AgentKind, AgentSpec};
use ekiden_engine::workspace::Workspace;
use ekiden_store::disk::{Disk as _, Reach};

use self::asked::{extended, in_the_way, issue};
use self::question::{Stop, choose, line};
use super::draft::Draft;
use super::run::find_agent;
use super::task::Task;
use super::{CommandLine, Invocation, offer};
use crate::client::permission::{self, Choice};
use crate::client::settings::ClientSettings;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::Output;
use crate::settings::chosen;
use crate::settings::flags::{self, Executing, Resuming, Starting, Takers as _, Typed};
use crate::settings::form;
use crate::settings::given::Flags;
use crate::settings::table::{self, Row};

/// Answer questions about what to do and how, then start the run
///
/// Asks for the folder, the task, a relay or a plan, the verification, limits, permissions and the mode. If you want, the
/// agent first asks up to five questions about the task, and your answers become part of it. Enter accepts the default of
/// each question. At the end it shows the equivalent command line, and runs or prints it.
///
/// Esc and ctrl-c quit at any question (130) and leave nothing behind, with two exceptions. If you let the agent ask, its
/// session stays in the state directory until the next one. If you wrote a task in your editor, ekiden keeps it and says
/// where.
#[derive(Args)]
pub struct StartArgs {
    #[command(flatten)]
    typed: Typed<Starting>,
}

pub fn start(
    args: &StartArgs,
    command_line: CommandLine,
    output: &mut Output,
) -> Result<Exit, Failure> {
    begin(args.typed.flags(), command_line, output)
}

/// Asks for everything that these flags do not say.
pub(super) fn begin(
    flags: Flags,
    command_line: CommandLine,
    output: &mut Output,
) -> Result<Exit, Failure> {
    if !Invocation::new(flags.clone())?.can_ask()? || is_dumb() {
        let failure = Failure::new(
            Exit::Usage,
            "cannot ask questions without a terminal, with `--json` or in a session of ekiden",
        );
        return Err(failure
            .hint("`ekiden run task.md` starts a run without questions")
            .hint("`ekiden init` writes a template of a task"));
    }
    let mut draft = Draft::default();
    match ask(flags, &mut draft, output) {
        Ok(words) => {
            draft.remove();
            words.map_or(Ok(Exit::Done), |words| (command_line.run)(&words, output))
        }
        Err(Stop::Failed(failure)) => Err(draft.kept().into_iter().fold(failure, Failure::hint)),
        Err(Stop::Left) => {
            output.message("nothing was started\n");
            let kept = draft.kept().into_iter();
            kept.for_each(|kept| output.message(&format!("{kept}\n")));
            Ok(Exit::Signal(SIGINT))
        }
    }
}

const SIGINT: i32 = 2;

/// The terminal cannot move its cursor.
fn is_dumb() -> bool {
    std::env::var_os("TERM").is_none_or(|term| term == "dumb")
}

/// What is to be done.
enum Goal {
    /// A file, or the words themselves: what a command line says.
    Named(String),
    /// A text that becomes this file once all is answered.
    New { path: PathBuf, text: String },
    /// All that this issue wants.
    Issue(String),
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum RunKind {
    Relay,
    Plan,
}

/// The words of the command line to run; nothing where it was only printed.
fn ask(flags: Flags, draft: &mut Draft, output: &mut Output) -> Result<Option<Vec<String>>, Stop> {
    let invocation = Invocation::new(flags.clone())?;
    let mut answers = Answers { invocation, flags };
    answers.folder()?;
    let workspace = answers.invocation.workspace_here()?;
    let in_the_way = in_the_way(&workspace)?;
    if let Some((run, Some(command))) = &in_the_way {
        let mut words = vec!["ekiden".to_owned(), (*command).to_owned(), run.to_string()];
        // For the rest it keeps the settings that it was started with.
        let takes = |row: &Row| Resuming::GROUPS.contains(&row.group);
        answers
            .flags
            .retain(|name, _| table::find(name).is_some_and(takes));
        words.extend(flags::words(&answers.flags));
        return Ok(Some(words));
    }
    let settings = chosen::settings(&answers.invocation.given, &answers.invocation.here)?;
    if let Err((absent, remedy)) = find_agent(&settings.agent) {
        let agent = &settings.agent.name;
        output.warn(&format!("agent `{agent}`: {absent}: {remedy}"));
    }
    let goal = goal(&answers, &workspace, draft, output)?;
    let issue = match &goal {
        Goal::Issue(name) => Some(name.clone()),
        Goal::Named(_) | Goal::New { .. } => None,
    };
    // A plan does not take these: its stages have validations and worktrees of their own.
    let is_typed = |name: &&str| answers.flags.contains_key(name);
    let kind = match Executing::HIDDEN.iter().any(is_typed) {
        true => RunKind::Relay,
        false => run_kind()?,
    };
    if kind == RunKind::Relay {
        answers.verification(&workspace)?;
    }
    answers.limits(kind)?;
    answers.permission(&settings.agent, &workspace)?;
    let mode = match kind {
        RunKind::Relay => answers.mode(settings.agent.kind)?,
        RunKind::Plan => mode_of_plan()?,
    };
    let goal = match answers.asked(&settings.agent, &goal, &workspace, output)? {
        Some(section) => extended(goal, &section, &workspace, output)?,
        None => goal,
    };
    let mut words = words(&answers.flags, kind, mode);
    words.extend(in_the_way.map(|_| "--new".to_owned()));
    words.extend(
        issue
            .into_iter()
            .flat_map(|name| ["--issue".to_owned(), name]),
    );
    words.extend(task_words(&goal, &answers.invocation.here));
    finish(words, goal, &workspace, output)
}

/// How a plan is carried out: the flag that says so.
fn mode_of_plan() -> Result<Option<&'static str>, Stop> {
    let modes = [
        ("see the plan first, and be asked", None),
        (
            "only have it planned; `ekiden execute` carries it out",
            Some("--dry-run"),
        ),
        ("carry it out without asking", Some("--yes")),
    ];
    choose("How do you want to follow it?", modes)
}

/// The command line, which the person runs or only keeps. The new file of a task is there in both cases.
fn finish(
    words: Vec<String>,
    goal: Goal,
    workspace: &Workspace,
    output: &mut Output,
) -> Result<Option<Vec<String>>, Stop> {
    let shown = shlex::try_join(words.iter().map(String::as_str));
    let shown = shown.unwrap_or_else(|_| words.join(" "));
    output.message(&format!("\n  {shown}\n\n"));
    let answers = [("run it", true), ("only print it", false)];
    let runs = choose("And now?", answers)?;
    if let Goal::New { path, text } = goal {
        let disk = workspace.disk();
        disk.create_file(&path, text.as_bytes(), Reach::Disk)
            .map_err(Failure::from)?;
    }
    if !runs {
        output.answer(&format!("{shown}\n"));
    }
    Ok(runs.then_some(words))
}

fn words(flags: &Flags, kind: RunKind, mode: Option<&str>) -> Vec<String> {
    let command = match kind {
        RunKind::Relay => "run",
        RunKind::Plan => "build",
    };
    let mut words = vec!["ekiden".to_owned(), command.to_owned()];
    words.extend(flags::words(flags));
    words.extend(mode.map(str::to_owned));
    words
}

fn task_words(goal: &Goal, here: &Path) -> impl Iterator<Item = String> {
    let task = match goal {
        Goal::Named(task) => Some(task.clone()),
        Goal::New { path, .. } => {
            let path = path.strip_prefix(here).unwrap_or(path);
            Some(path.to_string_lossy().into_owned())
        }
        Goal::Issue(_) => None,
    };
    let is_flag = task.as_ref().is_some_and(|task| task.starts_with('-'));
    is_flag.then(|| "--".to_owned()).into_iter().chain(task)
}

#[derive(Clone)]
enum Source {
    Named(String),
    Typed,
    File,
    Editor,
    Issue,
}

fn goal(
    answers: &Answers,
    workspace: &Workspace,
    draft: &mut Draft,
    output: &mut Output,
) -> Result<Goal, Stop> {
    let mut sources = Vec::new();
    let here = workspace.dir.strip_prefix(&answers.invocation.here);
    let task = here.unwrap_or(&workspace.dir).join("task.md");
    if task.is_file() {
        let task = task.to_string_lossy().into_owned();
        sources.push((format!("the file {task}"), Source::Named(task)));
    }
    let new = offer::new_name(workspace);
    sources.push((format!("write it in your editor: {new}"), Source::Editor));
    sources.push(("type it in a line".to_owned(), Source::Typed));
    sources.push(("another file".to_owned(), Source::File));
    sources.push(("an issue".to_owned(), Source::Issue));
    match choose("What is to be done?", sources)? {
        Source::Named(task) => Ok(Goal::Named(task)),
        Source::Typed => Ok(Goal::Named(typed()?)),
        Source::File => Ok(Goal::Named(file(output)?)),
        Source::Editor => {
            let text = draft.write(workspace, &new, output)?;
            let path = workspace.dir.join(new);
            Ok(Goal::New { path, text })
        }
        Source::Issue => issue(&answers.invocation, workspace, output),
    }
}

fn typed() -> Result<String, Stop> {
    let is_task = |text: &str| match text.contains(char::is_whitespace) && !Path::new(text).exists()
    {
        true => Ok(()),
        false => Err("more than one word, as you would tell a colleague".to_owned()),
    };
    line(
        "The task:",
        None,
        "what to do, and what done looks like; for a long text: esc, and the editor",
        is_task,
    )
}

fn file(output: &mut Output) -> Result<String, Stop> {
    let is_file = |text: &str| match Path::new(text).is_file() {
        true => Ok(()),
        false => Err("a file that exists".to_owned()),
    };
    let name = line("Which file?", None, "a text that says what to do", is_file)?;
    Task::read(&name, output)?;
    Ok(name)
}

fn run_kind() -> Result<RunKind, Stop> {
    let kinds = [
        ("one task: a relay of fresh sessions", RunKind::Relay),
        (
            "a large one: plan it in stages first, then run them",
            RunKind::Plan,
        ),
    ];
    choose("How large is it?", kinds)
}

/// What was answered so far.
struct Answers {
    invocation: Invocation,
    flags: Flags,
}

impl Answers {
    fn is_given(&self, row: &Row) -> bool {
        self.flags.contains_key(row.name)
    }

    /// What holds if nobody says otherwise.
    fn value(&self, row: &Row) -> Option<String> {
        let value = self.invocation.given.value(row);
        value.map(|value| value.text.clone())
    }

    /// Takes an answer, unless it is the default anyway.
    fn take(&mut self, row: &'static Row, text: String) {
        if self.value(row).as_ref() != Some(&text) {
            self.flags.insert(row.name, text);
        }
    }

    fn folder(&mut self) -> Result<(), Stop> {
        let row = &table::WORK_DIR.row;
        if self.is_given(row) {
            return Ok(());
        }
        let is_dir = |text: &str| match Path::new(text).is_dir() {
            true => Ok(()),
            false => Err("a directory that exists".to_owned()),
        };
        let default = self.value(row);
        let question = "Where does the agent work?";
        let dir = line(question, default.as_deref(), "a directory", is_dir)?;
        self.take(row, dir);
        self.invocation = Invocation::new(self.flags.clone())?;
        Ok(())
    }

    /// The command that decides whether a relay is done.
    fn verification(&mut self, workspace: &Workspace) -> Result<(), Stop> {
        let row = &table::VERIFY.row;
        if self.is_given(row) {
            return Ok(());
        }
        let mut commands: Vec<String> = self.value(row).into_iter().collect();
        let is_set = !commands.is_empty();
        for command in checks::suggested(&workspace.dir) {
            if !commands.contains(&command) {
                commands.push(command);
            }
        }
        let named = commands.into_iter();
        let mut answers: Vec<_> = named
            .map(|command| (command.clone(), Some(command)))
            .collect();
        if !is_set {
            answers.push(("nothing: the agent says when it is done".to_owned(), None));
        }
        answers.push(("another command".to_owned(), Some(String::new())));
        let chosen = choose("Which command exits with 0 when it is done?", answers)?;
        let command = match chosen {
            Some(command) if command.is_empty() => {
                let check = |text: &str| form::text(text).map(|_| ());
                line(
                    "The command:",
                    None,
                    "it runs in a shell, after each session",
                    check,
                )?
            }
            Some(command) => command,
            None => return Ok(()),
        };
        self.take(row, command);
        Ok(())
    }

    fn limits(&mut self, kind: RunKind) -> Result<(), Stop> {
        let sessions = &table::MAX_SESSIONS.row;
        if !self.is_given(sessions) {
            let default = self.value(sessions);
            let question = match kind {
                RunKind::Relay => "How many sessions at most?",
                RunKind::Plan => "How many sessions at most for each try of a stage?",
            };
            let help = "`ekiden resume` continues with more";
            let number = line(question, default.as_deref(), help, sessions.check)?;
            self.take(sessions, number);
        }
        let budget = &table::RUN_BUDGET.row;
        if !self.is_given(budget) {
            let own = self.value(budget);
            // No flag lifts the one of a settings file.
            let is_none_set = own.is_none();
            let default = own.unwrap_or_else(|| NO_BUDGET.to_owned());
            let check = |text: &str| match text {
                NO_BUDGET if is_none_set => Ok(()),
                text => (table::RUN_BUDGET.row.check)(text),
            };
            let help = "the run stops when it is spent, and can be resumed";
            let dollars = line("How many US dollars at most?", Some(&default), help, check)?;
            if dollars != NO_BUDGET {
                self.take(budget, dollars);
            }
        }
        Ok(())
    }

    /// Claude Code asks a person for permissions, and in a relay there is none.
    fn permission(&mut self, agent: &AgentSpec, workspace: &Workspace) -> Result<(), Stop> {
        let rows = [
            &table::PERMISSION_MODE.row,
            &table::SKIP_PERMISSIONS.row,
            &table::SAFE_MODE.row,
        ];
        if agent.kind != AgentKind::Claude || rows.iter().any(|row| self.is_given(row)) {
            return Ok(());
        }
        let environment = &self.invocation.environment;
        let isolated = agent.permissions.isolated;
        let client = ClientSettings::read(environment, &workspace.dir, isolated);
        let mut answers = Vec::new();
        if permission::is_chosen(agent) || client.choose_permissions() {
            answers.push(("what your settings say", None));
        }
        answers.extend(Choice::ALL.map(|choice| (choice.explanation(), Some(choice))));
        match choose("What may the agent do without asking?", answers)? {
            None => {}
            Some(choice) => match choice.mode() {
                Some(mode) => self.take(&table::PERMISSION_MODE.row, mode.to_owned()),
                None => self.take(&table::SKIP_PERMISSIONS.row, "true".to_owned()),
            },
        }
        Ok(())
    }

    /// How the run is watched; the flag of one that goes to the background.
    fn mode(&mut self, kind: AgentKind) -> Result<Option<&'static str>, Stop> {
        let (guided, tui) = (&table::GUIDED.row, &table::TUI.row);
        if self.is_given(guided) || self.is_given(tui) {
            return Ok(None);
        }
        let mut modes = vec![
            ("watch it here", Mode::Here),
            (
                "in the background; `ekiden attach` shows it",
                Mode::Background,
            ),
            (
                "guide it: a pause for your words between sessions",
                Mode::Guided,
            ),
        ];
        if kind == AgentKind::Claude {
            let text = "in the agent's own interface, where you can type";
            modes.push((text, Mode::Interface));
        }
        match choose("How do you want to follow it?", modes)? {
            Mode::Here => {}
            Mode::Background => return Ok(Some("--detach")),
            Mode::Guided => self.take(guided, "true".to_owned()),
            Mode::Interface => self.take(tui, "true".to_owned()),
        }
        Ok(None)
    }
}

#[derive(Clone, Copy)]
enum Mode {
    Here,
    Background,
    Guided,
    Interface,
}

/// What a person types for no budget.
const NO_BUDGET: &str = "none";
