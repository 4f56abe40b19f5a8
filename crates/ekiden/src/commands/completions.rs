//! `ekiden completions`: prints the completion script for a shell, and answers that script's questions.
//!
//! The script calls ekiden at each completion, so it offers the runs, stages and agents that exist right
//! now.

use clap::{Arg, Args, Command, ValueHint};
use clap_complete::engine::{ArgValueCandidates, CompletionCandidate};
use clap_complete::env::Shells;
use clap_complete::{CompleteEnv, Shell};
use ekiden_engine::history;
use ekiden_engine::workspace::Workspace;
use jiff::tz::TimeZone;

use super::{Invocation, run_ids};
use crate::exit::Exit;
use crate::failure::{Failure, OrFail as _};
use crate::output::line::one_line;
use crate::output::{Output, phrase};
use crate::settings::agents;
use crate::settings::given::Flags;
use crate::settings::table::{self, TABLE};

/// The variable by which the script asks.
const VARIABLE: &str = "EKIDEN_COMPLETE";

/// Print a completion script for a shell
///
/// It completes commands, options, files, ids of runs, stages, agents and keys of settings. Start a new shell afterwards. Print the
/// script again after an update of ekiden.
#[derive(Args)]
pub struct CompletionsArgs {
    /// The shell
    #[arg(value_name = "SHELL")]
    shell: Shell,
}

pub fn completions(args: &CompletionsArgs, output: &mut Output) -> Result<Exit, Failure> {
    let mut script = Vec::new();
    if let Some(shell) = Shells::builtins().completer(&args.shell.to_string()) {
        let written = shell.write_registration(VARIABLE, "ekiden", "ekiden", "ekiden", &mut script);
        written.or_fail(Exit::Bug, "cannot write the completion script")?;
    }
    // Or else bash does not quote a name with spaces.
    let script = String::from_utf8_lossy(&script);
    output.answer(&script.replace("complete -o nospace", "complete -o filenames -o nospace"));
    Ok(Exit::Done)
}

/// Answers a shell that asks for completions. Does nothing if none asks.
pub fn answer(definition: fn() -> Command) {
    if std::env::var_os(VARIABLE).is_some() {
        CompleteEnv::with_factory(|| complete(definition()))
            .var(VARIABLE)
            .complete();
    }
}

fn complete(mut command: Command) -> Command {
    // Only after this do subcommands have their arguments.
    command.build();
    with_candidates(command)
}

fn with_candidates(command: Command) -> Command {
    let of_arg = |arg: Arg| {
        let value = arg.get_value_names().and_then(|names| names.first());
        let value = value.map_or("", |name| name.as_str());
        match (arg.get_id().as_str(), value) {
            ("stage", _) => arg.add(ArgValueCandidates::new(|| stages().unwrap_or_default())),
            ("agent", _) => arg.add(ArgValueCandidates::new(|| agents().unwrap_or_default())),
            (_, "KEY") => arg.add(ArgValueCandidates::new(keys)),
            (_, "RUN" | "[RUN] TEXT") => {
                arg.add(ArgValueCandidates::new(|| runs().unwrap_or_default()))
            }
            (_, "DIR") => arg.value_hint(ValueHint::DirPath),
            (_, "FILE" | "PATH" | "TASK" | "IDEA" | "SPEC" | "TASK|PLAN|ISSUE") => {
                arg.value_hint(ValueHint::AnyPath)
            }
            _ => arg,
        }
    };
    command.mut_args(of_arg).mut_subcommands(with_candidates)
}

// A person who presses a key does not wait for an explanation: if anything fails, nothing is offered.

fn workspace() -> Option<Workspace> {
    Invocation::of_runs(Flags::new()).ok()?.workspace().ok()
}

/// The runs of this place, newest first, by their short ids.
fn runs() -> Option<Vec<CompletionCandidate>> {
    let workspace = workspace()?;
    let ids = run_ids(&workspace).ok()?;
    let zone = TimeZone::system();
    let runs = history::list(&workspace).ok()?.into_iter().rev();
    let candidate = |listed: history::Listed| {
        let started = listed.started.map(|at| phrase::day_and_time(at, &zone));
        CompletionCandidate::new(phrase::short_id(&listed.run, &ids)).help(started.map(Into::into))
    };
    Some(runs.map(candidate).collect())
}

/// The stages of the newest run.
fn stages() -> Option<Vec<CompletionCandidate>> {
    let workspace = workspace()?;
    let (newest, _) = history::find(&workspace, None).ok()?;
    let run = history::read(&workspace, &newest, |_, _| {}).ok()?.run;
    let stages = run.header().manifest.stages.iter();
    let candidate = |stage: &ekiden_core::manifest::Stage| {
        CompletionCandidate::new(stage.id.as_str()).help(Some(one_line(&stage.task_name).into()))
    };
    Some(stages.map(candidate).collect())
}

fn agents() -> Option<Vec<CompletionCandidate>> {
    let given = Invocation::new(Flags::new()).ok()?.given;
    let names = agents::names(&given.agents);
    Some(names.into_iter().map(CompletionCandidate::new).collect())
}

fn keys() -> Vec<CompletionCandidate> {
    let in_files = TABLE.iter().filter(|row| row.in_files);
    let candidate =
        |row: &&table::Row| CompletionCandidate::new(row.name).help(Some(row.doc.into()));
    in_files.map(candidate).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli;

    fn offered(words: &[&str]) -> Vec<String> {
        let mut command = complete(cli::definition());
        let args = words.iter().map(Into::into).collect();
        let here = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
        let last = words.len() - 1;
        let offered = clap_complete::engine::complete(&mut command, args, last, Some(here));
        let offered = offered.unwrap().into_iter();
        offered
            .map(|one| one.get_value().to_string_lossy().into_owned())
            .collect()
    }

    // shows: UIX-07
    #[test]
    fn every_command_is_offered() {
        let offered = offered(&["ekiden", ""]);
        for name in cli::names() {
            assert!(offered.contains(&name), "`{name}` is not offered");
        }
    }

    // shows: UIX-07
    #[test]
    fn files_and_keys_are_offered_where_one_is_named() {
        for words in [
            &["ekiden", "run", "Carg"][..],
            &["ekiden", "Carg"],
            &["ekiden", "estimate", "Carg"],
            &["ekiden", "continue", "--file", "Carg"],
            &["ekiden", "execute", "Carg"],
        ] {
            assert_eq!(offered(words), ["Cargo.toml"], "{words:?}");
        }
        assert_eq!(offered(&["ekiden", "status", "-d", "sr"]), ["src/"]);
        let keys = offered(&["ekiden", "config", "set", "max_s"]);
        assert_eq!(keys, ["max_sessions"]);
    }

    /// No test has runs at hand, so it looks at what would offer them.
    // shows: UIX-07
    #[test]
    fn runs_are_offered_wherever_one_is_named() {
        let command = complete(cli::definition());
        for command in command.get_subcommands() {
            for arg in command.get_positionals() {
                let names = arg.get_value_names().unwrap_or_default();
                let names_run = names.iter().any(|name| {
                    name.split(' ')
                        .any(|word| word.trim_matches(['[', ']']) == "RUN")
                });
                assert!(
                    !names_run || arg.get::<ArgValueCandidates>().is_some(),
                    "{} {names:?}",
                    command.get_name()
                );
            }
        }
    }

    // shows: UIX-07
    #[test]
    fn every_shell_gets_a_script_that_asks_ekiden() {
        use clap::ValueEnum;
        for shell in Shell::value_variants() {
            let shells = Shells::builtins();
            let shell = shells.completer(&shell.to_string()).unwrap();
            let mut script = Vec::new();
            shell
                .write_registration(VARIABLE, "ekiden", "ekiden", "ekiden", &mut script)
                .unwrap();
            assert!(String::from_utf8(script).unwrap().contains(VARIABLE));
        }
    }
}
