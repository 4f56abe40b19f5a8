//! The built-in agent: it works off the checklist of a task without a model, for trying everything
//! out for free.
//!
//! It is a process of its own that speaks Claude Code's wire from the agent's end, and behaves on it
//! as the real client was measured to: lines and their order, hooks, messages into the running turn,
//! interrupts, the end. What it *does* is simple: for each item (`- [ ] text`) of the task it runs
//! the `sh` blocks below the item and ticks it when they exit with 0.
//!
//! ```text
//! stdin ──► talk ──► turn ──► work ──► next move        protocol   where and how to hand over
//!            ▲        │        ▲ │                      prompt     task, ticks, veto
//!            └────────┴─ tools ┘ └──► handoff files     checklist  items and their commands
//!          (command)                                    window     tokens, made up
//! ```
//!
//! In a conversation without a standing text it plans (`planner`): it copies an idea's items into a
//! document, and a document's items into stages.
//!
//! What keeps it honest:
//! - It knows of a session what its prompt says, and nothing else. Directory, file names, headings
//!   and words of a handoff are read from the protocol text.
//! - It keeps nothing between sessions but the files that it hands over.
//! - Commands come from the user's task alone. From notes it takes ticks and the names of items that
//!   failed; no other text makes it run anything.
//!
//! What it does wrong stands in a scenario (`scenario`, `misdeed`), if there is one: its mind is
//! told nothing of it.
//!
//! `EKIDEN_REHEARSAL_SCENARIO` names the file of a scenario, `EKIDEN_REHEARSAL_WINDOW` sets the size of its
//! window in tokens, `EKIDEN_REHEARSAL_STEP_MS` how long it pauses before each response,
//! `EKIDEN_REHEARSAL_PRICE` what it says that a million fresh tokens cost, in whole US dollars; it is free
//! otherwise.

mod checklist;
mod command;
mod handoff;
mod lines;
mod mind;
mod misdeed;
mod planner;
mod prompt;
mod protocol;
mod scenario;
mod talk;
mod turn;
mod window;
mod work;

use std::ffi::{OsStr, OsString};
use std::io::{self, Read, Write};
use std::path::PathBuf;
use std::time::Duration;

use ekiden_core::budget::Price;
use ekiden_wire::agent_side::AgentWriter;
use ekiden_wire::stream::TurnResult;

use mind::Mind;
use planner::Planner;
use protocol::{Protocol, ProtocolError};
use scenario::Acts;
use talk::{Halt, Talk};
use turn::Agent;
use window::Window;
use work::Work;

/// The first argument that makes ekiden the rehearsal agent.
pub const ROLE: &str = "__rehearsal";
/// The model that it says it is.
pub const MODEL: &str = "rehearsal";
/// The environment variable for the size of the window, in tokens.
pub const WINDOW_VAR: &str = "EKIDEN_REHEARSAL_WINDOW";
/// The environment variable for the pause before each response, in milliseconds.
pub const STEP_VAR: &str = "EKIDEN_REHEARSAL_STEP_MS";

/// The environment variable for the file of a scenario, from the work dir.
pub const SCENARIO_VAR: &str = "EKIDEN_REHEARSAL_SCENARIO";
/// The argument that tells which attempt this is, such as `2.1`: scenarios are told apart by it.
pub(crate) const ATTEMPT_ARG: &str = "--attempt";
/// The environment variable for its price.
pub const PRICE_VAR: &str = "EKIDEN_REHEARSAL_PRICE";

/// The pause unless it is set otherwise: a person can follow, and nobody waits long.
const STEP_DEFAULT: Duration = Duration::from_millis(100);

/// Becomes the rehearsal agent and never returns, if the command line says so; else does nothing.
///
/// To be called early in `main`, right after the keeper's.
pub fn run_if_asked() {
    let mut args = std::env::args_os().skip(1);
    if args.next().as_deref() == Some(OsStr::new(ROLE)) {
        let ended = Setup::from_args(args).and_then(|setup| run(setup, io::stdin(), io::stdout().lock()));
        std::process::exit(ended.map_or_else(|error| complain(&error), |()| 0));
    }
}

fn complain(error: &Error) -> i32 {
    if let Error::Left(code) = error {
        return *code;
    }
    // Without standard error there is nobody left to tell.
    let _ = writeln!(io::stderr(), "rehearsal: cannot {error}");
    1
}

/// Why the agent ended before its host wanted it to.
#[derive(Debug, thiserror::Error)]
enum Error {
    #[error("begin: the command line names no {0}")]
    Missing(&'static str),
    #[error("read {path}: {source}")]
    Read { path: PathBuf, source: io::Error },
    #[error(transparent)]
    Protocol(#[from] ProtocolError),
    #[error("resume: no conversation found with session ID: {0}")]
    UnknownConversation(String),
    #[error("go on: the host wrote a line that is no message")]
    Malformed,
    #[error("write to the host: {0}")]
    Write(io::Error),
    #[error("play {path}: {source}")]
    Scenario { path: PathBuf, source: toml::de::Error },
    /// A scenario wants it.
    #[error("stay: exit code {0}")]
    Left(i32),
}

impl From<Halt> for Error {
    fn from(halt: Halt) -> Self {
        match halt {
            Halt::Broken(error) => Self::Write(error),
            Halt::Left(code) => Self::Left(code),
            // An interrupt or a failure ends a turn, not the agent: they never get here.
            Halt::Malformed | Halt::Interrupted | Halt::Failed { .. } => Self::Malformed,
        }
    }
}

/// What the agent is started with.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Setup {
    session_id: String,
    /// The conversation is said to exist already.
    resume: bool,
    dir: PathBuf,
    /// The standing text; a planning session has none.
    protocol: Option<String>,
    window_tokens: u64,
    step: Duration,
    acts: Acts,
    price: Price,
}

impl Setup {
    /// Reads the arguments of a client, as far as they mean something here, and the environment.
    fn from_args(args: impl Iterator<Item = OsString>) -> Result<Self, Error> {
        let (mut fresh, mut resumed, mut protocol, mut attempt) = (None, None, None, None);
        let mut args = args.map(|arg| arg.to_string_lossy().into_owned());
        while let Some(arg) = args.next() {
            match arg.as_str() {
                "--session-id" => fresh = args.next(),
                "--resume" => resumed = args.next(),
                ATTEMPT_ARG => attempt = args.next(),
                "--append-system-prompt-file" => protocol = args.next().map(PathBuf::from),
                _ => {}
            }
        }
        let protocol = protocol
            .map(|path| std::fs::read_to_string(&path).map_err(|source| Error::Read { path, source }));
        let dir = std::env::current_dir().map_err(|source| Error::Read { path: ".".into(), source })?;
        Ok(Self {
            resume: resumed.is_some(),
            session_id: resumed.or(fresh).ok_or(Error::Missing("session id"))?,
            dir,
            protocol: protocol.transpose()?,
            window_tokens: number(WINDOW_VAR).unwrap_or(window::WINDOW_TOKENS_DEFAULT),
            price: Price::usual(number(PRICE_VAR).unwrap_or(0).saturating_mul(1_000)),
            step: number(STEP_VAR).map_or(STEP_DEFAULT, Duration::from_millis),
            acts: acts(attempt.as_deref().unwrap_or_default())?,
        })
    }
}

/// What the scenario, if there is one, wants of this attempt.
fn acts(attempt: &str) -> Result<Acts, Error> {
    let Some(path) = std::env::var_os(SCENARIO_VAR).map(PathBuf::from) else { return Ok(Acts::default()) };
    let text = std::fs::read_to_string(&path).map_err(|source| Error::Read { path: path.clone(), source })?;
    let (session, attempt) = attempt.split_once('.').unwrap_or_default();
    let number = |text: &str| text.parse().unwrap_or(1);
    Acts::parse(&text, number(session), number(attempt)).map_err(|source| Error::Scenario { path, source })
}

fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok()?.parse().ok()
}

/// Is the agent from the first line of its host to the last.
fn run(setup: Setup, input: impl Read + Send + 'static, mut output: impl Write) -> Result<(), Error> {
    let writer = AgentWriter {
        session_id: setup.session_id,
        model: MODEL.to_owned(),
        cwd: setup.dir.to_string_lossy().into_owned(),
    };
    if setup.resume {
        return Err(unknown_conversation(&writer, &mut output));
    }
    let mut window = Window::new(setup.window_tokens);
    let mind = match &setup.protocol {
        Some(protocol) => {
            window.add_text(protocol);
            Mind::Relay(Box::new(Work::new(Protocol::parse(protocol)?, setup.dir)))
        }
        None => Mind::Planner(Planner::new(setup.dir)),
    };
    let talk = Talk::new(input, output, writer, window);
    Ok(Agent::new(talk, mind, setup.step, setup.acts, setup.price).run()?)
}

/// No conversation outlives its process here, so none can be resumed.
fn unknown_conversation(writer: &AgentWriter, output: &mut impl Write) -> Error {
    let error = Error::UnknownConversation(writer.session_id.clone());
    let result = TurnResult {
        subtype: "error_during_execution".to_owned(),
        is_error: true,
        errors: vec![error.to_string()],
        ..TurnResult::default()
    };
    match output.write_all(writer.result(&result).as_bytes()) {
        Ok(()) => error,
        Err(source) => Error::Write(source),
    }
}

#[cfg(test)]
mod tests;
