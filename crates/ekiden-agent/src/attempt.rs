//! One attempt at a session, as the engine sees it: commands go in, reports come out.
//!
//! Each agent has a driver, which runs as a task of the engine's runtime and owns the child process. A driver
//! knows nothing of the relay.
//!
//! ```text
//!  engine ──AgentCommand──► driver ──wire──► agent (under its keeper)
//!  engine ◄────Report────── driver ◄─wire──
//! ```
//!
//! The last report of every attempt is [`Report::Ended`], whatever happens. When it comes, neither the agent nor
//! anything that it started is alive.

use std::ffi::OsString;
use std::fs::File;
use std::io::Write;
use std::path::PathBuf;

use ekiden_core::agent::AgentSpec;
use ekiden_core::budget::{Prices, Spend};
use ekiden_core::effect::StartMode;
use ekiden_core::ends::EndCause;
use ekiden_core::event::AttemptEnded;
use ekiden_core::guard::HookInput;
use ekiden_core::ids::{AttemptId, ConversationId};
use ekiden_core::relay::Prompt;
use ekiden_core::time::Millis;
pub use ekiden_wire::hook_output::HookAnswer;
use tokio::sync::mpsc;
use tokio::time::Instant;

use crate::child::{ChildSpec, StdinKind};

/// What a driver gets to start an attempt.
pub struct AttemptSpec {
    /// The executable that has the hidden roles of keeper and rehearsal agent: our own.
    pub ekiden: PathBuf,
    pub agent: AgentSpec,
    pub attempt: AttemptId,
    pub conversation: ConversationId,
    pub mode: StartMode,
    pub dir: PathBuf,
    /// The fixed instructions; empty for a conversation outside of a relay.
    pub protocol: String,
    /// The same text in a file, for agents that read it from there.
    pub protocol_file: PathBuf,
    pub message: Prompt,
    /// The same message in the session's archive, for an agent that reads its prompt from a file.
    pub prompt_file: PathBuf,
    /// Where the stream of this session's attempts is kept. An agent that names its conversations itself gave
    /// the name there.
    pub events_file: PathBuf,
    /// The JSON Schema that the answer of every turn must match, for agents that can do this. Then
    /// [`Report::Answered`] comes before the end of a turn.
    pub schema: Option<String>,
    /// What models cost, as far as it is known.
    pub prices: Prices,
    /// The child's environment variables (RUN-05).
    pub env: Vec<(String, String)>,
    /// The attempt's lock, already taken: the keeper holds it while anything lives.
    pub lock: Option<File>,
    /// Where the raw event stream is kept. A failure to write is reported once and then ignored.
    pub raw: Box<dyn Write + Send>,
}

/// Where the raw event stream is kept, until that fails. A full disk must not end a session.
pub(crate) struct RawStream(Option<Box<dyn Write + Send>>);

impl RawStream {
    pub(crate) fn new(raw: Box<dyn Write + Send>) -> Self {
        Self(Some(raw))
    }

    /// Keeps bytes. Returns what to tell the user at the first failure.
    pub(crate) fn keep(&mut self, bytes: &[u8]) -> Option<String> {
        let error = self.0.as_mut()?.write_all(bytes).err()?;
        self.0 = None;
        Some(format!("the event stream is no longer saved: {error}"))
    }
}

/// What a driver reports to the engine: the same from every agent, and everything, including samples and things
/// to show.
#[derive(Debug, Clone, PartialEq)]
pub enum Report {
    Started {
        pid: u32,
    },
    /// The size of the window, when it is first known and whenever it changes.
    Window {
        /// The model's window, in tokens.
        model_tokens: u64,
        /// The client's lower compaction window, if one is set.
        compaction_tokens: Option<u64>,
        model: Option<String>,
        /// What fills the window at that time, in tokens, largest first.
        filled_by: Vec<(String, u64)>,
    },
    /// The context use of the newest response on the main thread, in tokens.
    Usage {
        /// How much of the window is used.
        context_tokens: u64,
    },
    /// What the attempt has spent by now.
    Spend {
        spend: Spend,
        /// Responses of the model on the main thread.
        turns: u32,
        /// The account pays by subscription, so the cost is the API price.
        subscription: bool,
    },
    /// Something to show while it happens; nothing depends on it.
    Activity(Activity),
    /// The agent asks through a hook and waits for [`AgentCommand::Answer`].
    Hook {
        callback: String,
        /// The question. Paths are absolute but may contain symbolic links.
        input: HookInput,
    },
    /// The agent compacted its context.
    Compacted {
        /// What it held before, in tokens; 0 if the agent did not say.
        context_tokens: u64,
    },
    /// The last message sent is now part of a request.
    Delivered,
    /// The answer of a turn, if a schema was asked for.
    Answered(Answer),
    /// A turn is over; the process waits for the next message.
    TurnEnded {
        /// It ended in an error, so another message is useless.
        failed: bool,
    },
    /// Everything is over and dead. The engine adds what the attempt left in files.
    Ended(Box<AttemptEnded>),
}

impl AttemptSpec {
    /// The child, with these arguments after those of the agent's own command, and with more variables.
    pub(crate) fn child(
        &mut self,
        args: impl IntoIterator<Item = String>,
        env: &[(&str, &str)],
        stdin: StdinKind,
    ) -> ChildSpec {
        let mut command = self.agent.command.iter().cloned().chain(args);
        let own = self
            .env
            .iter()
            .map(|(name, value)| (name.as_str(), value.as_str()));
        let account = self.agent.account_variable();
        let env = own.chain(env.iter().copied()).chain(account);
        ChildSpec {
            program: command.next().unwrap_or_default().into(),
            args: command.map(OsString::from).collect(),
            env_set: env
                .map(|(name, value)| (name.into(), value.into()))
                .collect(),
            lock: self.lock.take(),
            stdin,
            ..ChildSpec::new(&self.ekiden, "", &self.dir)
        }
    }
}

/// The answer of a turn if a schema was asked for. All of it comes from the model.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Answer {
    /// What the agent itself matched to the schema, as JSON text; none if the model did not answer like that.
    pub structured: Option<String>,
    /// The last words of the turn.
    pub words: String,
}

/// What happens in a session, for people.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Activity {
    Tool {
        /// The agent's id of this call.
        call: String,
        name: String,
        /// What it works on, in short.
        target: String,
    },
    /// A call is over. The agent's own interface does not report this.
    ToolEnded {
        call: String,
        is_error: bool,
    },
    Words(String),
    /// The agent retries a request to the service.
    Retry {
        attempt: u32,
        error: String,
    },
    Subagents(usize),
    /// Something that a person should know, such as a stream that cannot be kept.
    Warning(String),
}

/// The end of an attempt whose process never ran.
pub(crate) fn unstarted(why: String) -> AttemptEnded {
    AttemptEnded::bare(EndCause::NeverStarted(why))
}

/// What the engine tells a driver: the effects of `core`, and answers that no log holds. Commands to an attempt
/// that is over are dropped.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AgentCommand {
    /// Send the first message. Comes once the process runs and everything that it may read is in place, which
    /// happens while the process starts.
    Begin,
    /// Send a message into the conversation.
    Say(String),
    Answer {
        callback: String,
        answer: HookAnswer,
    },
    /// End the running turn, keep the process. A message that waits is withdrawn; a handoff that is being written gets
    /// written first.
    Interrupt,
    /// No more messages: the agent may exit, and must within [`ekiden_core::limits::CLOSE_GRACE`].
    Close,
    /// End the process and everything that it started: SIGTERM, grace, SIGKILL.
    Terminate,
}

/// The engine's end of an attempt. Dropping it terminates the agent.
#[derive(Debug)]
pub struct AttemptHandle(mpsc::UnboundedSender<AgentCommand>);

impl AttemptHandle {
    /// Sends the driver a command; does nothing if the attempt is over.
    pub fn tell(&self, command: AgentCommand) {
        // The receiver is gone only after `Report::Ended`, which the engine reads next.
        let _ = self.0.send(command);
    }
}

/// The driver's end of an attempt.
pub(crate) struct Engine {
    /// None: the engine is gone, and that was reported.
    commands: Option<mpsc::UnboundedReceiver<AgentCommand>>,
    reports: mpsc::Sender<Report>,
    is_gone: bool,
    started: Instant,
}

impl Engine {
    pub(crate) fn new(reports: mpsc::Sender<Report>) -> (Self, AttemptHandle) {
        let (sender, commands) = mpsc::unbounded_channel();
        let engine = Self {
            commands: Some(commands),
            reports,
            is_gone: false,
            started: Instant::now(),
        };
        (engine, AttemptHandle(sender))
    }

    /// The next command. If the engine is gone, everything must end. Cancel safe.
    pub(crate) async fn next(&mut self) -> AgentCommand {
        let Some(commands) = &mut self.commands else {
            return std::future::pending().await;
        };
        if !self.is_gone
            && let Some(command) = commands.recv().await
        {
            return command;
        }
        self.commands = None;
        AgentCommand::Terminate
    }

    pub(crate) async fn tell(&mut self, report: Report) {
        self.is_gone |= self.reports.send(report).await.is_err();
    }

    /// How long the attempt has run.
    pub(crate) fn elapsed(&self) -> Millis {
        self.started.elapsed().into()
    }
}
