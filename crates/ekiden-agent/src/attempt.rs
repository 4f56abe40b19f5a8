//! One attempt at a session, as the engine sees it: reports come out, orders go in.
//!
//! Each adapter runs as a task of the engine's runtime and owns its child process. It knows nothing
//! of the relay: it says what it sees, and does what it is told.
//!
//! ```text
//!  engine ──Order──► adapter ──wire──► agent (under its keeper)
//!  engine ◄─Report── adapter ◄─wire──
//! ```
//!
//! The last report of every attempt is [`Report::Ended`], whatever happens: when it comes, neither
//! the agent nor anything that it started is alive.

use std::fs::File;
use std::io::Write;
use std::path::PathBuf;

use ekiden_core::budget::{Prices, Spend};
use ekiden_core::effect::StartMode;
use ekiden_core::ends::EndCause;
use ekiden_core::event::{Counters, Traces};
use ekiden_core::guard::HookInput;
use ekiden_core::ids::{AttemptId, ConversationId};
use ekiden_core::prompt::PromptBlocks;
use ekiden_core::settings::AgentSpec;
use tokio::sync::mpsc;

/// What an adapter is given to start an attempt.
pub struct AttemptSpec {
    /// The executable that has the keeper's and the rehearsal agent's hidden roles: our own.
    pub ekiden: PathBuf,
    /// The agent.
    pub agent: AgentSpec,
    /// Which attempt this is.
    pub attempt: AttemptId,
    /// The conversation's id.
    pub conversation: ConversationId,
    /// Whether it is new.
    pub mode: StartMode,
    /// The work dir.
    pub dir: PathBuf,
    /// The standing text; empty for a conversation outside of a relay.
    pub protocol: String,
    /// The same text in a file, for agents that read it from one.
    pub protocol_file: PathBuf,
    /// The first message.
    pub message: FirstMessage,
    /// The same message in the session's archive, for an agent that is told where to read it.
    pub prompt_file: PathBuf,
    /// The JSON Schema that the answer of every turn is held to, for an agent that can: then
    /// [`Report::Answered`] comes before the end of a turn.
    pub schema: Option<String>,
    /// What models cost, as far as it is known.
    pub prices: Prices,
    /// What the child finds in its environment (RUN-05).
    pub env: Vec<(String, String)>,
    /// The attempt's lock, already taken: the keeper holds it while anything lives.
    pub lock: Option<File>,
    /// Where the raw event stream is kept. A failure to write is reported once and then ignored.
    pub raw: Box<dyn Write + Send>,
}

/// The first message of an attempt.
#[derive(Debug, Clone)]
pub enum FirstMessage {
    /// A new conversation's prompt.
    Prompt(PromptBlocks),
    /// A note to a conversation that goes on.
    Note(String),
}

/// What an adapter tells the engine.
#[derive(Debug, Clone, PartialEq)]
pub enum Report {
    /// The process runs.
    Started {
        /// The agent's process id.
        pid: u32,
    },
    /// The size of the window, when it is first known and whenever it changes.
    Window {
        /// The model's window, in tokens.
        model_tokens: u64,
        /// The client's lower compaction window, if one is set.
        compaction_tokens: Option<u64>,
        /// The model.
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
        /// The sum.
        spend: Spend,
        /// Responses of the model on the main thread.
        turns: u32,
    },
    /// Something to show while it happens; decides nothing.
    Activity(Activity),
    /// The agent asks at a hook and waits for [`Order::Answer`].
    Hook {
        /// The question's id.
        callback: String,
        /// The question. Paths are absolute but may hold symbolic links.
        input: HookInput,
    },
    /// The agent compacted its context.
    Compacted {
        /// What it held before, in tokens; 0 if it did not say.
        context_tokens: u64,
    },
    /// The message that was sent last is part of a request now.
    Delivered,
    /// The answer of a turn, where a schema was asked for.
    Answered(Answer),
    /// A turn is over; the process waits for the next message.
    TurnEnded {
        /// In an error, so that another message is useless.
        failed: bool,
    },
    /// Everything is over and dead.
    Ended(Box<Ended>),
}

impl Report {
    /// The last report of an attempt whose process never ran.
    #[must_use]
    pub fn unstarted(why: String) -> Self {
        let (counters, traces) = (Counters::default(), Traces::default());
        Self::Ended(Box::new(Ended {
            cause: EndCause::NeverStarted(why),
            counters,
            traces,
            resumable: false,
        }))
    }
}

/// The answer of a turn that was asked for a schema. All of it is the model's.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Answer {
    /// What the agent itself held to the schema, as JSON text; nothing if the model did not answer so.
    pub structured: Option<String>,
    /// The last words of the turn.
    pub words: String,
}

/// What happens in a session, for people.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Activity {
    /// A tool is called.
    Tool {
        /// Its name.
        name: String,
        /// What it works on, in short.
        target: String,
    },
    /// The agent said something.
    Words(String),
    /// The service is asked again.
    Retry {
        /// Which try.
        attempt: u32,
        /// What was wrong.
        error: String,
    },
    /// Something that a person should know, such as a stream that cannot be kept.
    Warning(String),
}

/// What is left of an attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ended {
    /// Why.
    pub cause: EndCause,
    /// What it cost and did.
    pub counters: Counters,
    /// The last things seen.
    pub traces: Traces,
    /// The conversation can be resumed: the agent keeps a transcript of it.
    pub resumable: bool,
}

/// What the engine tells an adapter. Orders to an attempt that is over are dropped.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Order {
    /// Send the first message. Comes once the process runs and everything that it may read is in
    /// its place: what that takes goes on while the process starts.
    Begin,
    /// Send a message into the conversation.
    Say(String),
    /// Answer a hook.
    Answer {
        /// The question's id.
        callback: String,
        /// The answer.
        answer: HookAnswer,
    },
    /// End the running turn, keep the process.
    Interrupt,
    /// No more messages: the agent may go, and must within [`ekiden_core::limits::CLOSE_GRACE`].
    Close,
    /// End the process: SIGTERM, grace, SIGKILL, and everything that it started.
    Terminate,
}

/// The answer to a hook, with its text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HookAnswer {
    /// No opinion.
    Pass,
    /// Let the call run without asking anybody.
    Allow,
    /// Refuse the call, for this reason.
    Deny(String),
    /// Do not let it happen: compaction, or the end of a turn, for this reason.
    Block(String),
}

/// The engine's end of an attempt. Dropping it lets the agent be terminated.
#[derive(Debug)]
pub struct AttemptHandle {
    orders: mpsc::UnboundedSender<Order>,
}

impl AttemptHandle {
    /// The handle of an adapter that reads `orders`' other end.
    #[must_use]
    pub fn new(orders: mpsc::UnboundedSender<Order>) -> Self {
        Self { orders }
    }

    /// Tells the adapter something; nothing happens if the attempt is over.
    pub fn tell(&self, order: Order) {
        // The receiver is gone only after `Report::Ended`, which the engine reads next.
        let _ = self.orders.send(order);
    }
}
