//! Plans on Temporal: the companion program of `ekiden` that works in a fleet and submits plans to one.
//!
//! ```text
//! ekiden execute --on fleet ─► submit ─► Temporal ◄─► workflow (core's Plan) ─┬─► stage, merge
//! ekiden worker ─────────────► worker ◄─────┤                                 │
//!                                └─► attempt │ `ekiden-fleet __stage`, an engine ◄┘
//! ekiden fleet follow ───────► follow ◄──────┘─► the run's log here
//! ```
//!
//! `ekiden` parses, asks and approves; this program takes the result as JSON. Both have the same version.

mod approved;
mod at_work;
mod attempt;
mod deliver;
mod earlier;
mod fault;
mod follow;
mod git;
mod history;
mod limits;
#[cfg(test)]
#[path = "tests/load.rs"]
mod load;
mod matching;
mod merge;
mod messages;
mod order;
mod outline;
mod setup;
mod shares;
mod stage;
mod submit;
mod worker;
mod worker_context;
mod workflow;

use std::io::Write as _;
use std::process::ExitCode;

use ekiden_core::ids::RunId;
use ekiden_core::secrets::mask;
use ekiden_core::text::in_full;
use ekiden_engine::EngineError;
use serde::de::DeserializeOwned;
use tokio::sync::oneshot;
use tonic::Code;

/// Exit codes, as in `ekiden`.
const UNFINISHED: u8 = 1;
const USAGE: u8 = 2;
const MISSING: u8 = 66;
const UNREACHABLE: u8 = 69;
const BUG: u8 = 70;
const STATE: u8 = 74;
const HELD: u8 = 75;
const SETTINGS: u8 = 78;

/// Why it failed.
#[derive(Debug)]
pub(crate) struct Failure {
    code: u8,
    text: String,
    hint: &'static str,
}

impl Failure {
    pub(crate) fn settings(text: String) -> Self {
        let (code, hint) = (SETTINGS, "docs/fleet.md says what a fleet needs");
        Self { code, text, hint }
    }

    pub(crate) fn bug(text: String) -> Self {
        let (code, hint) = (BUG, "this is a bug in ekiden");
        Self { code, text, hint }
    }

    /// The server cannot be reached, or does not accept our credentials.
    pub(crate) fn unreachable(error: impl std::error::Error + 'static) -> Self {
        let (code, said) = fault::of_server(&error);
        match code {
            Some(Code::NotFound | Code::Unauthenticated | Code::PermissionDenied) => Self {
                code: SETTINGS,
                text: format!("the Temporal server refuses it: {said}"),
                hint: "TEMPORAL_NAMESPACE, TEMPORAL_API_KEY or a profile says who you are there",
            },
            _ => Self {
                code: UNREACHABLE,
                text: format!("the Temporal server does not answer: {said}"),
                hint: "TEMPORAL_ADDRESS names it; `ekiden fleet dev` starts one to try",
            },
        }
    }

    pub(crate) fn missing(text: String) -> Self {
        let (code, hint) = (MISSING, "`ekiden status` shows what ran here");
        Self { code, text, hint }
    }

    /// What the engine reports about this work dir.
    pub(crate) fn state(error: &EngineError) -> Self {
        let (code, hint) = if let EngineError::Unfinished { .. } = error {
            let hint =
                "`ekiden status` shows it; meanwhile another clone of the project can follow a run";
            (UNFINISHED, hint)
        } else if matches!(
            error,
            EngineError::Held { .. } | EngineError::Overlaps { .. }
        ) {
            (HELD, "`ekiden status` shows it")
        } else {
            (STATE, "`ekiden doctor` looks at this work dir")
        };
        let text = format!("cannot {}", in_full(error));
        Self { code, text, hint }
    }

    pub(crate) fn no_worker(text: String) -> Self {
        Self {
            code: UNREACHABLE,
            text,
            hint: "`ekiden worker --label NAME` gives a worker a label, `--agents NAME` an agent that it does not find itself",
        }
    }

    pub(crate) fn unreachable_remote(text: String) -> Self {
        let (code, hint) = (
            UNREACHABLE,
            "`--remote` names a repository that all workers reach",
        );
        Self { code, text, hint }
    }
}

fn main() -> ExitCode {
    // The same executable is the keeper and the rehearsal agent; those roles never return.
    ekiden_agent::keeper::run_if_asked();
    ekiden_agent::terminal::hook::run_if_asked();
    ekiden_agent::rehearsal::run_if_asked();
    let mut words = std::env::args().skip(1);
    let code = match (words.next().as_deref(), words.next()) {
        (Some(stage::ROLE), _) => u8::try_from(stage::run()).unwrap_or(BUG),
        (Some("submit"), None) => ended(read().and_then(submit::submit)),
        (Some("follow"), None) => ended(read().and_then(submit::follow)),
        (Some("worker"), Some(wanted)) => ended(working(&wanted)),
        (Some("--version"), None) => {
            let _ = writeln!(
                std::io::stdout(),
                "ekiden-fleet {}",
                env!("CARGO_PKG_VERSION")
            );
            0
        }
        _ => {
            say("`ekiden worker` and `ekiden execute --on fleet` start this program");
            USAGE
        }
    };
    ExitCode::from(code)
}

fn working(wanted: &str) -> Result<u8, Failure> {
    let wanted = serde_json::from_str(wanted).map_err(|error| Failure::bug(in_full(&error)))?;
    runtime()?.block_on(worker::work(wanted)).map(|()| 0)
}

/// Input from `ekiden`. Standard input stays open as long as `ekiden` lives.
fn read<T: DeserializeOwned>() -> Result<T, Failure> {
    let mut read = serde_json::Deserializer::from_reader(std::io::stdin().lock());
    T::deserialize(&mut read).map_err(|error| Failure::bug(in_full(&error)))
}

/// Runs the work. If `ekiden` shows the result, stops once `ekiden` is gone.
pub(crate) async fn unless_alone(
    is_shown: bool,
    work: impl Future<Output = Result<u8, Failure>>,
) -> Result<u8, Failure> {
    tokio::select! {
        done = work => done,
        () = alone(), if is_shown => Ok(0),
    }
}

async fn alone() {
    let (gone, is_gone) = oneshot::channel();
    let wait = move || {
        let _ = std::io::copy(&mut std::io::stdin().lock(), &mut std::io::sink());
        let _ = gone.send(());
    };
    match std::thread::Builder::new().spawn(wait) {
        Ok(_) => drop(is_gone.await),
        // Then a person has to stop us.
        Err(_) => std::future::pending().await,
    }
}

pub(crate) fn runtime() -> Result<tokio::runtime::Runtime, Failure> {
    let made = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build();
    made.map_err(|error| Failure::bug(in_full(&error)))
}

fn ended(ended: Result<u8, Failure>) -> u8 {
    ended.unwrap_or_else(|failure| {
        say(&format!("error: {}", failure.text));
        say(&format!("hint: {}", failure.hint));
        failure.code
    })
}

/// Tells `ekiden`, which shows the run, that its log exists.
pub(crate) fn can_be_read(run: &RunId) {
    let _ = writeln!(std::io::stdout(), "{run}");
}

/// Prints a message for the person who started the program.
pub(crate) fn say(text: &str) {
    // In one write, since workers may share a terminal.
    let _ = std::io::stderr().write_all(format!("{}\n", mask(text)).as_bytes());
}
