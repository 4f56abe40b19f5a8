//! The built-in agent: it works through a task's checklist without a model, so that you can try everything for
//! free.
//!
//! It is a separate process that speaks Claude Code's wire from the agent's side. It behaves as the real client was
//! observed to behave: lines and their order, hooks, messages into the running turn, interrupts, the end. What it
//! *does* is simple: for each item (`- [ ] text`) of the task it runs the `sh` blocks below the item, and ticks the
//! item if they exit with 0.
//!
//! ```text
//! stdin ──► host ──► turn ──► mind ──► next move     work     items, ticks, handoff
//!            ▲        │        ▲ │                   planner  an idea's items become stages
//!            └────────┴─ tool ─┘ └──► handoff files  prompt   what the prompt says
//!                                                    window   tokens, made up
//! ```
//!
//! What keeps it honest:
//! - A session knows what its prompt says, and nothing else. Between sessions only the files of its handoff remain.
//! - Commands come from the user's task alone. From notes it takes ticks and the names of items that failed; no other
//!   text makes it run anything.
//!
//! | variable | sets |
//! |---|---|
//! | `EKIDEN_REHEARSAL_SCENARIO` | the file of a scenario, which says what goes wrong |
//! | `EKIDEN_REHEARSAL_WINDOW` | the size of its window, in tokens |
//! | `EKIDEN_REHEARSAL_STEP_MS` | the pause before each response |
//! | `EKIDEN_REHEARSAL_PRICE` | the price it reports per million fresh tokens, in whole US dollars; else 0 |

mod checklist;
mod handoff;
mod host;
mod planner;
mod prompt;
mod scenario;
mod tool;
mod turn;
mod window;
mod work;

use std::ffi::{OsStr, OsString};
use std::io::{self, Read, Write};
use std::path::PathBuf;
use std::time::Duration;

use ekiden_core::budget::Price;
use ekiden_wire::agent_side::AgentWriter;

use host::{Halt, Host};
use planner::Planner;
use scenario::Acts;
use turn::{Agent, Mind};
use window::Window;
use work::{Protocol, Work};

/// The first argument that makes ekiden the rehearsal agent.
pub(crate) const ROLE: &str = "__rehearsal";
const MODEL: &str = "rehearsal";
/// In tokens.
const WINDOW_VAR: &str = "EKIDEN_REHEARSAL_WINDOW";
/// The pause before each response.
const STEP_VAR: &str = "EKIDEN_REHEARSAL_STEP_MS";
/// The file of a scenario, from the work dir.
const SCENARIO_VAR: &str = "EKIDEN_REHEARSAL_SCENARIO";
/// The argument with the attempt's number, such as `2.1`: scenarios choose by it.
pub(crate) const ATTEMPT_ARG: &str = "--attempt";
const PRICE_VAR: &str = "EKIDEN_REHEARSAL_PRICE";

/// The default pause: slow enough to follow, short enough to wait for.
const STEP_DEFAULT: Duration = Duration::from_millis(100);

/// If the command line says so, becomes the rehearsal agent and never returns; else does nothing.
///
/// Call it early in `main`, right after the keeper's.
pub fn run_if_asked() {
    let mut args = std::env::args_os().skip(1);
    if args.next().as_deref() == Some(OsStr::new(ROLE)) {
        let ended =
            Setup::from_args(args).and_then(|setup| run(setup, io::stdin(), io::stdout().lock()));
        std::process::exit(ended.map_or_else(|error| complain(&error), |()| 0));
    }
}

fn complain(error: &Error) -> i32 {
    // Without standard error there is no other place for it.
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
    #[error("hand off: the protocol text does not say {0}")]
    Protocol(&'static str),
    #[error("continue: the host wrote a line that is not a message")]
    Malformed,
    #[error("write to the host: {0}")]
    Write(io::Error),
    #[error("start: {0}")]
    Runtime(io::Error),
    #[error("play {path}: {source}")]
    Scenario {
        path: PathBuf,
        source: toml::de::Error,
    },
}

impl From<Halt> for Error {
    fn from(halt: Halt) -> Self {
        match halt {
            Halt::Fatal(error) => error,
            // An interrupt or a failure ends a turn, not the agent: they never get here.
            Halt::Interrupted | Halt::Failed { .. } => Self::Malformed,
        }
    }
}

/// What the agent is started with.
struct Setup {
    session_id: String,
    dir: PathBuf,
    /// The fixed instructions; a planning session has none.
    protocol: Option<String>,
    window_tokens: u64,
    /// The pause before each response.
    step: Duration,
    acts: Acts,
    price: Price,
}

impl Setup {
    /// Reads a client's arguments, as far as they mean something here, and the environment.
    fn from_args(args: impl Iterator<Item = OsString>) -> Result<Self, Error> {
        let (mut session_id, mut protocol, mut attempt) = (None, None, None);
        let mut args = args.map(|arg| arg.to_string_lossy().into_owned());
        while let Some(arg) = args.next() {
            match arg.as_str() {
                "--session-id" => session_id = args.next(),
                ATTEMPT_ARG => attempt = args.next(),
                "--append-system-prompt-file" => protocol = args.next().map(PathBuf::from),
                _ => {}
            }
        }
        let protocol = protocol.map(|path| {
            std::fs::read_to_string(&path).map_err(|source| Error::Read { path, source })
        });
        let dir = std::env::current_dir().map_err(|source| Error::Read {
            path: ".".into(),
            source,
        })?;
        Ok(Self {
            session_id: session_id.ok_or(Error::Missing("session id"))?,
            dir,
            protocol: protocol.transpose()?,
            window_tokens: number(WINDOW_VAR).unwrap_or(window::WINDOW_TOKENS_DEFAULT),
            price: Price::usual(number(PRICE_VAR).unwrap_or(0).saturating_mul(1_000)),
            step: number(STEP_VAR).map_or(STEP_DEFAULT, Duration::from_millis),
            acts: acts(attempt.as_deref().unwrap_or_default())?,
        })
    }
}

fn acts(attempt: &str) -> Result<Acts, Error> {
    let Some(path) = std::env::var_os(SCENARIO_VAR).map(PathBuf::from) else {
        return Ok(Acts::default());
    };
    let text = std::fs::read_to_string(&path).map_err(|source| Error::Read {
        path: path.clone(),
        source,
    })?;
    let (session, attempt) = attempt.split_once('.').unwrap_or_default();
    let number = |text: &str| text.parse().unwrap_or(1);
    Acts::parse(&text, number(session), number(attempt))
        .map_err(|source| Error::Scenario { path, source })
}

fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok()?.parse().ok()
}

/// Runs the agent from its host's first line to the last.
fn run(setup: Setup, input: impl Read + Send + 'static, output: impl Write) -> Result<(), Error> {
    let writer = AgentWriter {
        session_id: setup.session_id.clone(),
        model: MODEL.to_owned(),
        cwd: setup.dir.to_string_lossy().into_owned(),
    };
    let mut window = Window::new(setup.window_tokens);
    let mind: Box<dyn Mind> = match &setup.protocol {
        Some(protocol) => {
            window.add_text(protocol);
            Box::new(Work::new(Protocol::parse(protocol)?, setup.dir.clone()))
        }
        None => Box::new(Planner::new(setup.dir.clone())),
    };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(Error::Runtime)?;
    Ok(runtime.block_on(async {
        let host = Host::new(input, output, writer, window);
        Agent::new(host, mind, setup).run().await
    })?)
}

#[cfg(test)]
mod tests;
