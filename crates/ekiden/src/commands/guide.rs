//! What a person types while a run is under way: lines with `--guided`, otherwise keys in the live view.
//!
//! A thread reads standard input and sends each request to the run's socket, as a command in another
//! terminal would. So every request is in the log and counts after a crash. The thread decides nothing, and
//! nothing waits for it: it ends with the process.

use ekiden_core::text::in_full;
use std::io::{self, BufRead as _, IsTerminal as _};
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver};
use std::thread;

use clap::{Command, FromArgMatches as _};
use ekiden_core::agent::Interface;
use ekiden_core::ids::{AttemptNumber, RunId};
use ekiden_core::limits;
use ekiden_core::settings::LimitsChanged;
use ekiden_core::steering::{Steered, Steering};
use ekiden_engine::error::EngineError;
use ekiden_engine::history::{self, RunSummary};
use ekiden_engine::observer::Observer as _;
use ekiden_engine::session_archive::{Part, SessionArchive};
use ekiden_engine::steering::{RunningRun, Sender, Waited};
use ekiden_engine::workspace::Workspace;
use uuid::Uuid;

use super::{Invocation, fleet, pager};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::full::Open;
use crate::output::live::Live;
use crate::output::phrase;
use crate::output::prompting::Wanted;
use crate::output::view_thread::{Controls, Leave};
use crate::settings::environment::Environment;
use crate::settings::flags::{Changing, Typed};
use crate::settings::given::Given;
use crate::settings::{agents, chosen, form};

/// How often what is typed may end. If the terminal is gone, every read ends.
const ENDS_MAX: usize = 1_000;

/// Somebody must be able to see the countdown and to type.
pub fn check(invocation: &Invocation, interface: Interface) -> Result<(), Failure> {
    let (what, hint) = if invocation.json()? {
        let hint = "leave out `--json`; or leave out `--guided`, or set `guided` to false";
        ("and print JSON lines", hint)
    } else if interface == Interface::Terminal {
        let hint = "leave out `--guided`: with `--tui` you type to the agent itself";
        ("in the agent's own interface", hint)
    } else if !io::stdin().is_terminal() || !io::stdout().is_terminal() {
        let hint = "leave out `--guided`, or set `guided` to false; `ekiden pause` and `ekiden limits` work from any other terminal";
        ("without a terminal", hint)
    } else {
        return Ok(());
    };
    Err(Failure::new(Exit::Settings, format!("cannot be guided {what}")).hint(hint))
}

/// Whether a run that goes on is guided: as before, unless somebody says otherwise. A guided run that has
/// no terminal now continues unguided.
pub fn goes_on(
    invocation: &Invocation,
    summary: &RunSummary,
    limits: &mut LimitsChanged,
    live: &mut Live<'_>,
) -> Result<bool, Failure> {
    let was = summary.run.relays().any(|(_, relay)| relay.settings.guided);
    let interface = summary.run.header().settings.agent.interface;
    match limits.guided {
        Some(true) => check(invocation, interface).map(|()| true),
        Some(false) => Ok(false),
        None if was && check(invocation, interface).is_err() => {
            limits.guided = Some(false);
            live.warn("the run was guided; without a terminal it continues by itself");
            Ok(false)
        }
        None => Ok(was),
    }
}

/// Listens to what is typed for a run. A request that cannot be carried out comes back as text.
pub fn listen(workspace: &Workspace, run: &RunId) -> Receiver<String> {
    let sender = Sender::to(workspace, run);
    let is_of_run = agents_of(workspace, run);
    let (errors, heard) = mpsc::channel();
    thread::spawn(move || {
        let lines = || io::stdin().lock().split(b'\n').map_while(Result::ok);
        // ctrl-d ends a read, not the terminal.
        for line in (0..ENDS_MAX).flat_map(|_| lines()) {
            let meant = meaning(&String::from_utf8_lossy(&line), &is_of_run);
            let taken = meant.and_then(|steering| send(&sender, steering));
            if taken.is_err_and(|error| errors.send(error).is_err()) {
                break;
            }
        }
    });
    heard
}

/// The controls of a person who steers a run by keys; none if there is nobody. `is_here`: this process works on the
/// run.
pub fn controls(
    invocation: &Invocation,
    workspace: &Workspace,
    run: &RunId,
    leave: Leave,
    is_here: bool,
) -> Option<Controls> {
    let (here, elsewhere) = (Sender::to(workspace, run), sending_to(workspace, run));
    let send = move |steering| match is_here {
        true => send(&here, steering),
        false => elsewhere(steering),
    };
    let open = streams(workspace, run);
    let is_of_run = agents_of(workspace, run);
    let act = move |wanted| match wanted {
        Wanted::Steer(steering) => send(steering),
        Wanted::Limits(flags) => send(limits_of(&flags, &is_of_run)?),
        // The view handles these itself.
        Wanted::Full | Wanted::Read | Wanted::Leave => Ok(()),
    };
    let read = |handoff: &str| pager::show(handoff).map_err(|failure| failure.error().to_owned());
    let has_terminal = invocation.can_ask().unwrap_or(false);
    has_terminal.then(|| Controls::take(leave, Arc::new(act), open, read))?
}

/// Whether an agent of a name may work in a run.
fn agents_of(workspace: &Workspace, run: &RunId) -> impl Fn(&str) -> bool + Send + Sync + 'static {
    let (workspace, run) = (workspace.clone(), run.clone());
    move |name| {
        let summary = history::read(&workspace, &run, |_, _| {});
        summary.is_ok_and(|summary| summary.run.header().has_agent(name))
    }
}

/// Sends to whoever works on a run, found as commands find it.
fn sending_to(
    workspace: &Workspace,
    run: &RunId,
) -> impl Fn(Steering) -> Result<(), String> + Send + Sync + 'static {
    let (workspace, run) = (workspace.clone(), run.clone());
    move |steering| {
        let message = Steered::new(Uuid::new_v4(), steering);
        let cannot = |error: EngineError| format!("cannot {}", in_full(&error));
        let running = RunningRun::find(&workspace, Some(run.as_str())).map_err(cannot)?;
        fleet::takes(&running.summary.run, &message.steering)
            .map_err(|failure| failure.error().to_owned())?;
        let sent = running.send(&workspace, &message, limits::STEER_PATIENCE);
        sent.map_err(cannot).and_then(heard)
    }
}

/// The event streams of a run's sessions.
fn streams(workspace: &Workspace, run: &RunId) -> Open {
    let (workspace, run) = (workspace.clone(), run.clone());
    Arc::new(move |place, from| {
        let archive = SessionArchive::of(&workspace, &run, place.stage.as_ref(), place.session);
        let first = AttemptNumber::FIRST;
        let name = archive.name(Part::Events, first);
        let (_, bytes) = archive
            .files()
            .ok()?
            .into_iter()
            .find(|(file, _)| *file == name)?;
        let stream = archive.reader(Part::Events, first, from).ok()??;
        Some((stream, bytes))
    })
}

fn send(sender: &Sender, steering: Steering) -> Result<(), String> {
    let message = Steered::new(Uuid::new_v4(), steering);
    let sent = sender.send(&message, limits::STEER_PATIENCE);
    sent.map_err(|error| format!("cannot {}", in_full(&error)))
        .and_then(heard)
}

/// Why a run does not have what was sent to it.
fn heard(waited: Waited) -> Result<(), String> {
    match waited {
        Waited::Done => Ok(()),
        Waited::NotYet => Err(format!(
            "the run has not answered within {}: it may be suspended, or its fleet away",
            phrase::duration(limits::STEER_PATIENCE)
        )),
        Waited::EngineGone => Err("the run ended before it got this".to_owned()),
    }
}

/// What a typed line asks for.
fn meaning(line: &str, is_of_run: impl Fn(&str) -> bool) -> Result<Steering, String> {
    match line.trim() {
        "" => Ok(Steering::Pause),
        "go" => Ok(Steering::Unpause),
        "quit" | "q" => Ok(Steering::Stop { now: false }),
        flags if flags.starts_with('-') && !flags.starts_with("- ") => limits_of(flags, is_of_run),
        words if words.chars().count() > limits::OPERATOR_CHARS_MAX => Err(format!(
            "not taken: more than {} characters",
            limits::OPERATOR_CHARS_MAX
        )),
        words => Ok(Steering::Instruct {
            words: words.to_owned(),
        }),
    }
}

/// The limits that flags name, as `ekiden limits` takes them.
fn limits_of(flags: &str, is_of_run: impl Fn(&str) -> bool) -> Result<Steering, String> {
    let refused = |why: &str| format!("not taken: {why}");
    let words = form::command(flags).map_err(|_| refused("a quotation mark is open"))?;
    let command = Command::new("limits")
        .no_binary_name(true)
        .disable_help_flag(true);
    let matches =
        <Typed<Changing> as clap::Args>::augment_args(command).try_get_matches_from(words);
    let typed = matches.and_then(|matches| Typed::<Changing>::from_arg_matches(&matches));
    let typed = typed.map_err(|error| {
        let text = error.to_string();
        refused(
            text.lines()
                .next()
                .unwrap_or_default()
                .trim_start_matches("error: "),
        )
    })?;
    let given = Given::gather(None, typed.flags(), &Environment::of_process());
    let limits = given.and_then(|given| {
        let limits = chosen::limits_typed(&given)?;
        agents::check_budgets(&given, &limits.bounds.agents, is_of_run)?;
        Ok(limits)
    });
    match limits.map_err(|failure| refused(failure.error()))? {
        nothing if nothing == LimitsChanged::default() => Err(refused("no limit is named")),
        limits => Ok(Steering::ChangeLimits(Box::new(limits))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn meaning(line: &str) -> Result<Steering, String> {
        super::meaning(line, |name| name == "frozen")
    }

    // shows: REL-25
    #[test]
    fn each_line_has_one_meaning() {
        assert_eq!(meaning("  "), Ok(Steering::Pause));
        assert_eq!(meaning("go"), Ok(Steering::Unpause));
        assert_eq!(meaning(" quit "), Ok(Steering::Stop { now: false }));
        for words in ["go on with the - second - part", "- as in a list"] {
            let words = words.to_owned();
            assert_eq!(meaning(&words), Ok(Steering::Instruct { words }));
        }
        let Ok(Steering::ChangeLimits(limits)) = meaning("-m 7 --run-budget 5") else {
            panic!()
        };
        assert_eq!(
            (limits.sessions_max, limits.bounds.run.micro_usd),
            (Some(7), Some(5_000_000))
        );
        assert!(meaning("--agent-budget frozen=5,claude=2").is_ok());
    }

    // shows: REL-25
    #[test]
    fn what_cannot_be_taken_says_why() {
        let told = [
            "-m many",
            "-m",
            "--verify true",
            "-m '7",
            "-d elsewhere",
            "--agent-budget codx=5",
            &"x".repeat(5_000),
        ]
        .map(|line| meaning(line).unwrap_err() + "\n");
        expect_test::expect![[r#"
            not taken: `--max-sessions` must be a whole number from 1 to 10000, not `many`
            not taken: a value is required for '--max-sessions <N>' but none was supplied
            not taken: unexpected argument '--verify' found
            not taken: a quotation mark is open
            not taken: no limit is named
            not taken: there is no agent `codx`
            not taken: more than 4000 characters
        "#]]
        .assert_eq(&told.concat());
    }
}
