//! The command line: what can be typed, and which command it means.
//!
//! Each command's own file holds its arguments and its manual page. `ekiden TASK` is `ekiden run
//! TASK`: the top level takes the arguments of `run` too, hidden from its help.
//!
//! [`definition`] is the one source of help, completions, manual pages and `docs/commands/`. Every help
//! begins with examples, since most people want to type something like them and go on.

use clap::{Args, CommandFactory, FromArgMatches, Parser, Subcommand};

use crate::commands::build::BuildArgs;
use crate::commands::checkpoint::CheckpointArgs;
use crate::commands::completions::CompletionsArgs;
use crate::commands::config::ConfigArgs;
use crate::commands::continue_run::ContinueArgs;
use crate::commands::diff::DiffArgs;
use crate::commands::doctor::DoctorArgs;
use crate::commands::execute::ExecuteArgs;
use crate::commands::handoff::HandoffArgs;
use crate::commands::hook::{HookArgs, StatuslineArgs};
use crate::commands::init::InitArgs;
use crate::commands::knowledge::KnowledgeArgs;
use crate::commands::limits::LimitsArgs;
use crate::commands::log::LogArgs;
use crate::commands::man::ManArgs;
use crate::commands::orient::OrientArgs;
use crate::commands::pause::PauseArgs;
use crate::commands::plan::PlanArgs;
use crate::commands::resume::ResumeArgs;
use crate::commands::run::RunArgs;
use crate::commands::sessions::SessionsArgs;
use crate::commands::setup::SetupArgs;
use crate::commands::show::ShowArgs;
use crate::commands::split::SplitArgs;
use crate::commands::status::StatusArgs;
use crate::commands::stop::StopArgs;
use crate::commands::unpause::UnpauseArgs;
use crate::commands::{
    build, checkpoint, completions, config, continue_run, diff, doctor, execute, handoff, hook, init,
    knowledge, limits, log, man, orient, pause, plan, resume, run, sessions, setup, show, split, status,
    stop, unpause,
};
use crate::exit::{self, Exit};
use crate::failure::Failure;
use crate::output::Output;

const EXAMPLES: &str = "\
Examples:
  ekiden run task.md --agent rehearsal        try it for free, without a model
  ekiden task.md --verify 'make test'         the same as `ekiden run task.md ...`
  ekiden run 'Port the parser to Rust' -m 5   the task itself, at most 5 sessions
  ekiden status                               what runs here, and how far it is
  ekiden resume                               carry on after any end
";

/// Examples first, then what it is, then every word of it.
const TEMPLATE: &str =
    "{before-help}{about-with-newline}\n{usage-heading} {usage}\n\n{all-args}{after-help}\n";

/// Runs long tasks on coding agents as a relay of fresh sessions.
#[derive(Parser)]
#[command(name = "ekiden", version, before_help = EXAMPLES)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
#[command(arg_required_else_help = true)]
#[command(override_usage = "ekiden [COMMAND] [OPTIONS]\n       ekiden TASK [OPTIONS]")]
struct Cli {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    run: RunArgs,
}

/// The commands, each with what the list of them says.
#[derive(Subcommand)]
enum Command {
    /// Start a relay on a task, and watch it to its end
    Run(Later<RunArgs>),
    /// Plan: make an architecture document and a manifest of an idea
    Plan(Later<PlanArgs>),
    /// Split an architecture document into the stages of a manifest
    Split(Later<SplitArgs>),
    /// Carry out a plan, and watch it to its end
    Execute(Later<ExecuteArgs>),
    /// Plan an idea, have the plan approved, and carry it out
    Build(Later<BuildArgs>),
    /// Carry an unfinished run on, after any end
    Resume(Later<ResumeArgs>),
    /// Give a complete run follow-up work
    Continue(Later<ContinueArgs>),
    /// Stop a running run, from another terminal
    Stop(Later<StopArgs>),
    /// Change the limits of a running run
    Limits(Later<LimitsArgs>),
    /// Pause a running run after the session at work
    Pause(Later<PauseArgs>),
    /// Let a paused run go on
    Unpause(Later<UnpauseArgs>),
    /// Show what runs here, and how far it is
    Status(Later<StatusArgs>),
    /// Tell the story of a run, word for word as `ekiden run` told it
    Log(Later<LogArgs>),
    /// List the sessions of a run: when, how long, how full, what it cost, how it ended
    Sessions(Later<SessionsArgs>),
    /// Show what a session saw, said and left
    Show(Later<ShowArgs>),
    /// Show what a session changed: commits, files, and the handoff against the one before
    Diff(Later<DiffArgs>),
    /// Show this session's handoff document and what to fill in
    Handoff(Later<HandoffArgs>),
    /// Show where the last session stopped, and what comes next
    Orient(Later<OrientArgs>),
    /// Write a task to fill in: what is wanted, where things are, how to work, what done means
    Init(Later<InitArgs>),
    /// Read, edit or measure what later sessions will know
    Knowledge(Later<KnowledgeArgs>),
    /// Checkpoint a session that you started yourself
    Checkpoint(Later<CheckpointArgs>),
    /// What Claude Code calls at each moment of a session
    Hook(Later<HookArgs>),
    /// The line that Claude Code shows below its prompt
    Statusline(Later<StatuslineArgs>),
    /// Show settings and where they come from, approve a project's own
    Config(Later<ConfigArgs>),
    /// Install the guard into Claude Code: hooks, status line, skills
    Setup(Later<SetupArgs>),
    /// Check whether a run could work here, and say what to do
    Doctor(Later<DoctorArgs>),
    /// Print what a shell needs to complete commands and flags
    Completions(Later<CompletionsArgs>),
    /// Print a page of the manual
    Man(Later<ManArgs>),
}

/// The arguments of a command, made ready when it is the one that is meant: most of what clap needs for all
/// of them together is never looked at.
struct Later<T>(T);

impl<T: Args> Args for Later<T> {
    fn augment_args(command: clap::Command) -> clap::Command {
        command.defer(|command| T::augment_args(command).mut_subcommands(shaped))
    }

    fn augment_args_for_update(command: clap::Command) -> clap::Command {
        Self::augment_args(command)
    }
}

impl<T: FromArgMatches> FromArgMatches for Later<T> {
    fn from_arg_matches(matches: &clap::ArgMatches) -> Result<Self, clap::Error> {
        T::from_arg_matches(matches).map(Self)
    }

    fn update_from_arg_matches(&mut self, matches: &clap::ArgMatches) -> Result<(), clap::Error> {
        self.0.update_from_arg_matches(matches)
    }
}

/// Does what the arguments of the process say.
#[must_use]
pub fn main() -> Exit {
    let mut output = Output::of_process();
    let done = match parse(std::env::args_os()) {
        Ok(cli) => dispatch(cli, &mut output),
        Err(error) => Ok(explain(&error, &mut output)),
    };
    let exit = done.unwrap_or_else(|failure| {
        output.failure(&failure);
        failure.exit()
    });
    output.finish(exit)
}

/// The names of all commands.
pub fn command_names() -> impl Iterator<Item = String> {
    let names: Vec<String> = Cli::command().get_subcommands().map(|c| c.get_name().to_owned()).collect();
    names.into_iter()
}

/// All that can be typed, as clap knows it.
#[must_use]
pub fn definition() -> clap::Command {
    let is_own = |arg: &clap::Arg| matches!(arg.get_id().as_str(), "help" | "version");
    shaped(Cli::command())
        .mut_args(|arg| if is_own(&arg) { arg } else { arg.hide(true) })
        .after_help(exit::help_table())
}

/// The same form for a command and everything below it.
fn shaped(command: clap::Command) -> clap::Command {
    command.help_template(TEMPLATE).disable_help_subcommand(true).mut_subcommands(shaped)
}

fn parse(args: impl IntoIterator<Item = std::ffi::OsString>) -> Result<Cli, clap::Error> {
    Cli::from_arg_matches(&definition().try_get_matches_from(args)?)
}

fn dispatch(cli: Cli, output: &mut Output) -> Result<Exit, Failure> {
    match cli.command {
        None => run::run(&cli.run, output),
        Some(Command::Run(Later(args))) => run::run(&args, output),
        Some(Command::Plan(Later(args))) => plan::plan(&args, output),
        Some(Command::Split(Later(args))) => split::split(&args, output),
        Some(Command::Execute(Later(args))) => execute::execute(&args, output),
        Some(Command::Build(Later(args))) => build::build(&args, output),
        Some(Command::Resume(Later(args))) => resume::resume(&args, output),
        Some(Command::Continue(Later(args))) => continue_run::continue_run(&args, output),
        Some(Command::Stop(Later(args))) => stop::stop(&args, output),
        Some(Command::Limits(Later(args))) => limits::limits(&args, output),
        Some(Command::Pause(Later(args))) => pause::pause(&args, output),
        Some(Command::Unpause(Later(args))) => unpause::unpause(&args, output),
        Some(Command::Status(Later(args))) => status::status(&args, output),
        Some(Command::Log(Later(args))) => log::log(&args, output),
        Some(Command::Sessions(Later(args))) => sessions::sessions(&args, output),
        Some(Command::Show(Later(args))) => show::show(&args, output),
        Some(Command::Diff(Later(args))) => diff::diff(&args, output),
        Some(Command::Handoff(Later(args))) => handoff::handoff(&args, output),
        Some(Command::Orient(Later(args))) => orient::orient(&args, output),
        Some(Command::Init(Later(args))) => init::init(&args, output),
        Some(Command::Knowledge(Later(args))) => knowledge::knowledge(&args, output),
        Some(Command::Checkpoint(Later(args))) => checkpoint::checkpoint(&args, output),
        Some(Command::Hook(Later(args))) => Ok(hook::hook(&args)),
        Some(Command::Statusline(Later(args))) => Ok(hook::statusline(&args)),
        Some(Command::Config(Later(args))) => config::config(&args, output),
        Some(Command::Setup(Later(args))) => setup::setup(&args, output),
        Some(Command::Doctor(Later(args))) => doctor::doctor(&args, output),
        Some(Command::Completions(Later(args))) => Ok(completions::completions(&args, output)),
        Some(Command::Man(Later(args))) => man::man(&args, output),
    }
}

/// Help and version are answers; anything else is a wrong command line.
fn explain(error: &clap::Error, output: &mut Output) -> Exit {
    let text = error.render().ansi().to_string();
    if error.use_stderr() {
        output.talk(&text);
        Exit::Usage
    } else {
        output.answer(&text);
        Exit::Done
    }
}

#[cfg(test)]
mod tests {
    use clap::error::ErrorKind;

    use super::*;

    fn parsed(line: &str) -> Result<Cli, ErrorKind> {
        parse(line.split(' ').map(std::ffi::OsString::from)).map_err(|error| error.kind())
    }

    #[test]
    fn the_command_line_is_sound() {
        Cli::command().debug_assert();
    }

    // shows: RUN-01
    #[test]
    fn a_task_alone_means_run() {
        let bare = parsed("ekiden task.md -m 3 --new").unwrap();
        assert!(bare.command.is_none());
        assert_eq!(bare.run.task(), "task.md");
        let Some(Command::Run(Later(run))) = parsed("ekiden run task.md -m 3 --new").unwrap().command else {
            panic!()
        };
        assert_eq!((run.task(), run.flags()), (bare.run.task(), bare.run.flags()));
    }

    #[test]
    fn commands_win_over_tasks_and_are_needed() {
        assert!(matches!(parsed("ekiden status").unwrap().command, Some(Command::Status(Later(_)))));
        assert_eq!(parsed("ekiden").err(), Some(ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand));
        assert_eq!(parsed("ekiden run").err(), Some(ErrorKind::MissingRequiredArgument));
        assert_eq!(parsed("ekiden run a b").err(), Some(ErrorKind::UnknownArgument));
    }

    #[test]
    fn the_list_of_commands_says_of_each_what_its_own_help_says() {
        let (mut definition, listed) = (definition(), definition());
        definition.build();
        for command in listed.get_subcommands() {
            let whole = definition.find_subcommand(command.get_name()).unwrap();
            let about = |command: &clap::Command| command.get_about().map(ToString::to_string);
            assert!(about(command).is_some_and(|said| Some(said) == about(whole)), "{}", command.get_name());
        }
    }

    // shows: RUN-06
    #[test]
    fn help_begins_with_examples_and_ends_with_the_exit_codes() {
        for line in ["ekiden --help", "ekiden -h"] {
            let Err(error) = parse(line.split(' ').map(std::ffi::OsString::from)) else { panic!() };
            let help = error.render().to_string();
            assert!(help.starts_with("Examples:\n"), "{help}");
            assert!(help.contains("\n  75     another run works in this directory\n"), "{help}");
            assert!(!help.contains("--verify-timeout"), "{help}");
        }
    }

    fn all_below(command: &clap::Command) -> Vec<clap::Command> {
        let below = command.get_subcommands().flat_map(all_below);
        std::iter::once(command.clone()).chain(below).collect()
    }

    // shows: UIX-07
    #[test]
    fn the_help_of_every_command_begins_with_examples_that_name_it() {
        let mut definition = definition();
        definition.build();
        for mut command in all_below(&definition) {
            let name = command.get_bin_name().unwrap_or("ekiden").to_owned();
            for help in [command.render_help(), command.render_long_help()] {
                let help = help.to_string();
                let examples = help.strip_prefix("Examples:\n").and_then(|rest| rest.split_once("\n\n"));
                let Some((examples, _)) = examples else {
                    panic!("`{name} --help` begins otherwise:\n{help}")
                };
                let called = |line: &str| line.trim_start().starts_with(&name);
                assert!(examples.lines().any(called), "no example of `{name}` calls it:\n{examples}");
            }
        }
    }
}
