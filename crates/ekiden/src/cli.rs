//! The command line: what can be typed, and which command it means.
//!
//! Each command's own file holds its arguments and its manual page. `ekiden TASK` is `ekiden run
//! TASK`: the top level takes the arguments of `run` too, hidden from its help.
//!
//! [`definition`] is the one source of help, completions, manual pages and `docs/commands/`. Every help
//! begins with examples, since most people want to type something like them; they are in `cli/examples.txt`.

pub mod mistakes;
mod work_dir;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::sync::LazyLock;

use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};

use ekiden_core::secrets;
use ekiden_store::format;

use crate::commands::CommandLine;
use crate::commands::{
    answer, attach, build, checkpoint, completions, config, continue_run, dash, diff, dispatch,
    doctor, estimate, execute, fleet, handoff, hook, import, init, issue, knowledge, log, man, mcp,
    memory, orient, plan, ralph, report, resume, run, sessions, setup, shard, show, split, start,
    stats, status, steer, tracker,
};
use crate::exit::{self, Exit};
use crate::failure::Failure;
use crate::output::{Output, json};

/// The examples of each command, found by how it is called.
static EXAMPLES: LazyLock<BTreeMap<&str, String>> = LazyLock::new(|| {
    let sections = include_str!("cli/examples.txt").split("\n\n");
    let sections = sections.filter_map(|section| section.strip_prefix('[')?.split_once("]\n"));
    sections
        .map(|(name, lines)| (name, format!("Examples:\n{}\n", lines.trim_end())))
        .collect()
});

/// The commit that it is built from, and the versions of what it reads and writes.
static LONG_VERSION: LazyLock<String> = LazyLock::new(|| {
    let files = [format::LOG, format::STATE, format::STATUS, format::RECEIPT];
    let files = files.map(|format| format!("{} {}", format.name, format.version));
    format!(
        "{} ({})\nformats: {}, manifest {}, JSON output {}",
        env!("CARGO_PKG_VERSION"),
        env!("EKIDEN_COMMIT"),
        files.join(", "),
        ekiden_manifest::VERSION,
        json::VERSION,
    )
});

/// Examples first, then what it does, then every argument.
const TEMPLATE: &str =
    "{before-help}{about-with-newline}\n{usage-heading} {usage}\n\n{all-args}{after-help}\n";

/// Runs long tasks on coding agents as a relay of fresh sessions.
#[derive(Parser)]
#[command(name = "ekiden", version, long_version = LONG_VERSION.as_str())]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
#[command(arg_required_else_help = true)]
#[command(override_usage = "ekiden [COMMAND] [OPTIONS]\n       ekiden TASK [OPTIONS]")]
struct Cli {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    run: run::RunArgs,
}

/// The commands, in the order of the help, each with the function that runs it, which may want the whole command
/// line. Its own file says what it does.
macro_rules! commands {
    ($($name:ident($args:ty) $run:path $(, $definition:ident)?;)+) => {
        #[derive(Subcommand)]
        enum Command {
            $($name($args)),+
        }

        fn dispatch(cli: Cli, output: &mut Output) -> Result<Exit, Failure> {
            match cli.command {
                None => run::run(&cli.run, COMMAND_LINE, output),
                $(Some(Command::$name(args)) => $run(&args, $($definition,)? output),)+
            }
        }
    };
}

commands! {
    Run(run::RunArgs) run::run, COMMAND_LINE;
    Start(start::StartArgs) start::start, COMMAND_LINE;
    Plan(plan::PlanArgs) plan::plan;
    Split(split::SplitArgs) split::split;
    Shard(shard::ShardArgs) shard::shard;
    Estimate(estimate::EstimateArgs) estimate::estimate;
    Execute(execute::ExecuteArgs) execute::execute;
    Build(build::BuildArgs) build::build;
    Worker(fleet::WorkerArgs) fleet::worker;
    Fleet(fleet::FleetArgs) fleet::fleet;
    Ralph(ralph::RalphArgs) ralph::ralph;
    Resume(resume::ResumeArgs) resume::resume;
    Answer(answer::AnswerArgs) answer::answer;
    Continue(continue_run::ContinueArgs) continue_run::continue_run;
    Stop(steer::StopArgs) steer::stop;
    Next(steer::NextArgs) steer::next;
    Limits(steer::LimitsArgs) steer::limits;
    Pause(steer::PauseArgs) steer::pause;
    Unpause(steer::UnpauseArgs) steer::unpause;
    Status(status::StatusArgs) status::status;
    Attach(attach::AttachArgs) attach::attach;
    Dash(dash::DashArgs) dash::dash;
    Log(log::LogArgs) log::log;
    Sessions(sessions::SessionsArgs) sessions::sessions;
    Show(show::ShowArgs) show::show;
    Diff(diff::DiffArgs) diff::diff;
    Report(report::ReportArgs) report::report;
    Stats(stats::StatsArgs) stats::stats;
    Handoff(handoff::HandoffArgs) handoff::handoff;
    Orient(orient::OrientArgs) orient::orient;
    Init(init::InitArgs) init::init;
    Dispatch(dispatch::DispatchArgs) dispatch::dispatch;
    Import(import::ImportArgs) import::import;
    Issue(issue::IssueArgs) issue::issue;
    Tracker(tracker::TrackerArgs) tracker::tracker;
    Knowledge(knowledge::KnowledgeArgs) knowledge::knowledge;
    Memory(memory::MemoryArgs) memory::memory;
    Mcp(mcp::McpArgs) mcp::mcp;
    Checkpoint(checkpoint::CheckpointArgs) checkpoint::checkpoint;
    Hook(hook::HookArgs) hook::hook;
    Statusline(hook::StatuslineArgs) hook::statusline;
    Config(config::ConfigArgs) config::config;
    Setup(setup::SetupArgs) setup::setup;
    Doctor(doctor::DoctorArgs) doctor::doctor;
    Completions(completions::CompletionsArgs) completions::completions;
    Man(man::ManArgs) man::man, definition;
}

pub fn main() -> Exit {
    completions::answer(definition);
    let words: Vec<OsString> = std::env::args_os().collect();
    let mut output = Output::of_process();
    output.name_work_dir(work_dir::typed_work_dir(&words), work_dir::name_in);
    let words = mistakes::as_flags(words);
    let done = match parse(words.iter().cloned()) {
        Ok(cli) => dispatch(cli, &mut output),
        Err(error) => match mistakes::explained(&error, &words) {
            Some(failure) => Err(failure),
            None => Ok(explain(&error, &mut output)),
        },
    };
    let exit = done.unwrap_or_else(|failure| {
        output.failure(&failure);
        failure.exit()
    });
    output.finish(exit)
}

const COMMAND_LINE: CommandLine = CommandLine {
    definition,
    run: |words, output| match parse(words.iter().map(OsString::from)) {
        Ok(cli) => dispatch(cli, output),
        Err(error) => Ok(explain(&error, output)),
    },
};

/// Every command's name.
pub fn names() -> Vec<String> {
    let commands = Cli::command();
    let names = commands.get_subcommands().map(clap::Command::get_name);
    names.map(str::to_owned).collect()
}

/// The whole command line.
pub fn definition() -> clap::Command {
    let is_own = |arg: &clap::Arg| matches!(arg.get_id().as_str(), "help" | "version");
    shaped(Cli::command(), "ekiden", "")
        .mut_args(|arg| if is_own(&arg) { arg } else { arg.hide(true) })
        .after_help(exit::help_table())
}

/// The same layout for a command and all its subcommands. One that has no examples has those of the command above it.
fn shaped(command: clap::Command, name: &str, above: &'static str) -> clap::Command {
    let examples = EXAMPLES.get(name).map_or(above, String::as_str);
    command
        .before_help(examples)
        .help_template(TEMPLATE)
        .disable_help_subcommand(true)
        .mut_subcommands(|below| {
            let name = format!("{name} {}", below.get_name());
            shaped(below, &name, examples)
        })
}

fn parse(args: impl IntoIterator<Item = OsString>) -> Result<Cli, clap::Error> {
    Cli::from_arg_matches(&definition().try_get_matches_from(args)?)
}

/// Help and version are answers; anything else is a wrong command line.
fn explain(error: &clap::Error, output: &mut Output) -> Exit {
    let text = error.render().ansi().to_string();
    if error.use_stderr() {
        // A colour directly before a secret would keep it from being found.
        let plain = error.render().to_string();
        let is_clean = secrets::mask(&plain) == plain;
        let text = if is_clean { text } else { plain };
        output.message(&text);
        Exit::Usage
    } else {
        output.help(&text);
        Exit::Done
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use clap::error::ErrorKind;
    use expect_test::expect;

    use crate::settings::table::TABLE;

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
        assert_eq!(bare.run.task.as_deref(), Some("task.md"));
        let Some(Command::Run(run)) = parsed("ekiden run task.md -m 3 --new").unwrap().command
        else {
            panic!()
        };
        assert_eq!((&run.task, run.flags()), (&bare.run.task, bare.run.flags()));
    }

    #[test]
    fn commands_win_over_tasks_and_are_needed() {
        assert!(matches!(
            parsed("ekiden status").unwrap().command,
            Some(Command::Status(_))
        ));
        assert_eq!(
            parsed("ekiden").err(),
            Some(ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand)
        );
        assert_eq!(
            parsed("ekiden run a b").err(),
            Some(ErrorKind::UnknownArgument)
        );
    }

    // shows: RUN-06
    #[test]
    fn help_begins_with_examples_and_ends_with_the_exit_codes() {
        for line in ["ekiden --help", "ekiden -h"] {
            let Err(error) = parse(line.split(' ').map(std::ffi::OsString::from)) else {
                panic!()
            };
            let help = error.render().to_string();
            assert!(help.starts_with("Examples:\n"), "{help}");
            assert!(
                help.contains("\n  75     another run works in this directory\n"),
                "{help}"
            );
            assert!(!help.contains("--verify-timeout"), "{help}");
        }
    }

    #[test]
    fn every_section_of_the_examples_is_of_a_command_and_every_command_has_one() {
        let mut definition = definition();
        definition.build();
        let name = |command: &clap::Command| command.get_bin_name().unwrap_or("ekiden").to_owned();
        let names: BTreeSet<String> = all_below(&definition).iter().map(name).collect();
        let lines = include_str!("cli/examples.txt").lines();
        let headings: Vec<&str> = lines.filter(|line| line.starts_with('[')).collect();
        for heading in &headings {
            let name = heading.trim_start_matches('[').trim_end_matches(']');
            assert!(names.contains(name), "no command is called {heading}");
        }
        assert_eq!(headings.len(), EXAMPLES.len(), "a section that is not read");
        // A subcommand may share those of the command above it.
        for name in definition.get_subcommands().map(name) {
            assert!(EXAMPLES.contains_key(&*name), "`{name}` has no examples");
        }
    }

    /// What has neither a variable nor a key is about one call: which run, which stages, what is planned, and where to.
    // shows: RUN-03
    #[test]
    fn a_flag_that_is_no_setting_is_about_one_call() {
        let mut definition = definition();
        definition.build();
        let settings: BTreeSet<String> = TABLE.iter().filter_map(|row| row.long()).collect();
        let is_setting = |long: &str| {
            let positive = long.strip_prefix("no-").unwrap_or(long);
            settings.contains(long) || settings.contains(positive)
        };
        let mut others = String::new();
        for name in [
            "run", "resume", "continue", "plan", "split", "execute", "build",
        ] {
            let command = definition.find_subcommand(name).unwrap();
            let flags = command.get_arguments().filter_map(clap::Arg::get_long);
            let flags: BTreeSet<&str> = flags.filter(|long| !is_setting(long)).collect();
            let flags: Vec<&str> = flags.into_iter().collect();
            others.push_str(&format!("{name}: {}\n", flags.join(" ")));
        }
        expect![[r#"
            run: detach help issue new pull-request resume-from
            resume: accept-log detach help resume-from task
            continue: detach file from-pr help run
            plan: force help output planning-model
            split: force help output planning-model
            execute: detach dry-run from help issue jobs lease new on only pull-request queue remote skip sub-issues yes
            build: dry-run force help issue jobs new output planning-model pull-request sub-issues yes
        "#]]
        .assert_eq(&others);
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
                let examples = help
                    .strip_prefix("Examples:\n")
                    .and_then(|rest| rest.split_once("\n\n"));
                let Some((examples, _)) = examples else {
                    panic!("`{name} --help` begins otherwise:\n{help}")
                };
                let called = |line: &str| line.trim_start().starts_with(&name);
                assert!(
                    examples.lines().any(called),
                    "no example of `{name}` calls it:\n{examples}"
                );
            }
        }
    }
}
