//! Steers a run from another process: finds the engine that works on it, sends a message, sees what became of it.
//!
//! The engine answers on its socket when the message is in its log. Its lock shows whether it still works.

use std::io::{self, Read as _, Write as _};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::thread;
use std::time::Duration;

use ekiden_agent::address::Address;
use ekiden_agent::lineage;
use ekiden_core::ids::RunId;
use ekiden_core::steering::Steered;
use ekiden_core::time::Millis;
use ekiden_store::lock::{Holder, WorkDirLock};

use crate::error::EngineError;
use crate::history::{self, RunSummary};
use crate::leftovers;
pub use crate::steering_socket::Refusal;
use crate::steering_socket::Reply;
use crate::workspace::Workspace;

/// How often to check whether an engine still works. A check takes the run's lock for an instant.
const LOOK: Duration = Duration::from_millis(100);
/// How long to wait for the socket of an engine that has just taken its lock.
const CONNECT_PATIENCE: Duration = Duration::from_secs(2);

/// A run on which an engine works.
#[derive(Debug)]
pub struct RunningRun {
    /// Its state when it was found.
    pub summary: RunSummary,
    holder: Holder,
    lock: PathBuf,
    sender: Sender,
    /// How many processes left behind by an earlier run have now been ended.
    pub ended: usize,
}

/// Sends messages to a run when the caller knows that an engine works on it.
#[derive(Debug)]
pub struct Sender {
    run: RunId,
    socket: PathBuf,
    /// Its engine's pid. A session can replace the engine's socket with its own.
    engine: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Waited {
    Done,
    NotYet,
    /// The engine ended before it answered, and the message is not in its log.
    EngineGone,
}

impl Sender {
    /// To the run that this process itself works on.
    pub fn to(workspace: &Workspace, run: &RunId) -> Self {
        Self::to_engine(workspace, run, std::process::id())
    }

    fn to_engine(workspace: &Workspace, run: &RunId, engine: u32) -> Self {
        Self {
            engine,
            run: run.clone(),
            socket: workspace.layout().run(run).socket(),
        }
    }

    /// Sends a message and waits for the answer. After [`Waited::Done`] it is in the log. The engine refuses a caller
    /// that descends from one of its sessions.
    pub fn send(&self, message: &Steered, patience: Millis) -> Result<Waited, EngineError> {
        let unreachable = |source| EngineError::Unreachable {
            run: self.run.clone(),
            engine: self.engine,
            source,
        };
        let mut engine = self.connect().map_err(unreachable)?;
        if lineage::peer(&engine) != i32::try_from(self.engine).ok() {
            let text = "another process listens on its socket";
            return Err(unreachable(io::Error::other(text)));
        }
        match ask(&mut engine, message, patience.into()) {
            Ok(Some(Reply::Recorded)) => Ok(Waited::Done),
            Ok(Some(Reply::Refused { why })) => {
                let run = self.run.clone();
                Err(EngineError::Refused { run, why })
            }
            Ok(Some(Reply::Unknown { why })) => {
                let run = self.run.clone();
                Err(EngineError::NotUnderstood { run, why })
            }
            Ok(None) => Ok(Waited::EngineGone),
            Err(error) if is_timeout(&error) => Ok(Waited::NotYet),
            Err(error) if is_gone(&error) => Ok(Waited::EngineGone),
            Err(error) => Err(unreachable(error)),
        }
    }

    /// An engine takes its lock a moment before it listens.
    fn connect(&self) -> io::Result<UnixStream> {
        let mut waited = Duration::ZERO;
        loop {
            match Address::of(&self.socket).and_then(|at| UnixStream::connect(&at.path)) {
                Err(error) if !is_absent(&error) || waited >= CONNECT_PATIENCE => {
                    return Err(error);
                }
                Err(_) => thread::sleep(LOOK),
                Ok(engine) => return Ok(engine),
            }
            waited += LOOK;
        }
    }
}

/// The answer to a message; none if the engine closed the socket without one.
fn ask(
    engine: &mut UnixStream,
    message: &Steered,
    patience: Duration,
) -> io::Result<Option<Reply>> {
    engine.set_read_timeout(Some(patience))?;
    engine.set_write_timeout(Some(patience))?;
    engine.write_all(&serde_json::to_vec(message)?)?;
    engine.shutdown(Shutdown::Write)?;
    let mut text = String::new();
    engine.read_to_string(&mut text)?;
    match text.is_empty() {
        true => Ok(None),
        false => Ok(Some(serde_json::from_str(&text)?)),
    }
}

fn is_timeout(error: &io::Error) -> bool {
    use io::ErrorKind::{TimedOut, WouldBlock};
    matches!(error.kind(), TimedOut | WouldBlock)
}

fn is_gone(error: &io::Error) -> bool {
    use io::ErrorKind::{BrokenPipe, ConnectionReset, NotConnected};
    matches!(error.kind(), BrokenPipe | ConnectionReset | NotConnected)
}

fn is_absent(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionRefused, NotFound};
    matches!(error.kind(), ConnectionRefused | NotFound)
}

impl RunningRun {
    /// Finds the run whose id begins with the prefix, or the one that works in this work dir.
    pub fn find(workspace: &Workspace, prefix: Option<&str>) -> Result<Self, EngineError> {
        let ended = leftovers::end_here(workspace);
        let here = history::holder(workspace).and_then(|holder| holder.run);
        let prefix = prefix.or(here.as_ref().map(RunId::as_str));
        let (run, _) = history::find(workspace, prefix)?;
        let summary = history::read(workspace, &run, |_, _| {})?;
        let layout = workspace.layout();
        let lock = layout.lock(summary.run.header().place.worktree.as_deref());
        let holder = WorkDirLock::holder_of(&lock);
        let Some(holder) = holder.filter(|holder| holder.run.as_ref() == Some(summary.id())) else {
            let (run, outcome) = (
                summary.id().clone(),
                summary.run.outcome().cloned().map(Box::new),
            );
            return Err(EngineError::NotRunning {
                run,
                outcome,
                ended,
            });
        };
        if holder.host != host() {
            let (run, host) = (summary.id().clone(), holder.host);
            return Err(EngineError::WorksElsewhere { run, host });
        }
        let sender = Sender::to_engine(workspace, summary.id(), holder.pid);
        Ok(Self {
            summary,
            holder,
            lock,
            sender,
            ended,
        })
    }

    /// Sends a message and waits until the run has it in its log.
    pub fn send(
        &self,
        workspace: &Workspace,
        message: &Steered,
        patience: Millis,
    ) -> Result<Waited, EngineError> {
        let sent = match self.sender.send(message, patience) {
            Err(EngineError::Unreachable { .. }) if !self.works() => Waited::EngineGone,
            sent => sent?,
        };
        if sent != Waited::EngineGone {
            return Ok(sent);
        }
        let now = history::read(workspace, self.summary.id(), |_, _| {})?;
        Ok(match now.run.has_heard(&message.message) {
            true => Waited::Done,
            false => Waited::EngineGone,
        })
    }

    pub fn wait_until_ended(&self, patience: Millis) -> Waited {
        let mut left = Duration::from(patience);
        while self.works() {
            if left.is_zero() {
                return Waited::NotYet;
            }
            let pause = left.min(LOOK);
            thread::sleep(pause);
            left -= pause;
        }
        Waited::Done
    }

    fn works(&self) -> bool {
        WorkDirLock::holder_of(&self.lock).is_some_and(|now| {
            (now.pid, &now.host, now.started)
                == (self.holder.pid, &self.holder.host, self.holder.started)
        })
    }
}

pub fn host() -> String {
    rustix::system::uname()
        .nodename()
        .to_string_lossy()
        .into_owned()
}
