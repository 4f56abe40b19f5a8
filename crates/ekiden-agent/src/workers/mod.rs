//! Short commands that follow one another, such as git's: run by a worker that stays.
//!
//! A keeper of its own for each of them costs more than most of them do. So one is kept: its agent is
//! ekiden's own executable in a hidden role ([`run_if_asked`]), which runs what it is ordered and answers.
//!
//! ```text
//! engine ──► keepers ──► worker ──► git
//!    └─ orders, answers ──┘
//! ```
//!
//! What a keeper promises holds as before: whatever is killed, the rest is ended, and nothing that a
//! command leaves running outlives its answer. A worker runs one command at a time; whoever
//! finds all of them at work gets a new one.

mod order;
mod serve;

use std::ffi::{OsStr, OsString};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::{Mutex, PoisonError};

use ekiden_core::limits::KILL_GRACE;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::unix::pipe;

use crate::child::{Child, ChildEnd, ChildSpec, SpawnError, StdinKind, check, spawn};
use crate::task::Output;
use order::{Answer, Order};

/// The first argument that makes ekiden a worker.
const ROLE: &str = "__worker";
/// How many wait for orders. More than one, since git is asked two things at a time.
const IDLE_MAX: usize = 2;

/// Becomes a worker and never returns, if the command line says so; else does nothing.
///
/// To be called in `main` behind [`crate::keeper::run_if_asked`], before any thread exists.
pub fn run_if_asked() {
    if std::env::args_os().nth(1).as_deref() == Some(OsStr::new(ROLE)) {
        std::process::exit(serve::serve());
    }
}

/// A short command.
#[derive(Debug, Clone)]
pub struct ShortCommand {
    /// A path, or a name that is looked up on this process's `PATH`.
    pub program: OsString,
    /// Its arguments, without its name.
    pub args: Vec<OsString>,
    /// Where it runs.
    pub dir: PathBuf,
    /// Variables that it gets beside this process's own, of which those that belong to whoever started
    /// ekiden are left out.
    pub env: Vec<(OsString, OsString)>,
}

/// Runs short commands. To be used within one runtime, as the processes that it keeps are tied to it.
/// They end when this is dropped.
#[derive(Debug)]
pub struct Workers {
    keeper: PathBuf,
    idle: Mutex<Vec<Worker>>,
}

impl Workers {
    /// Nobody yet. `keeper` is the executable that has the hidden roles: [`crate::keeper::executable`].
    #[must_use]
    pub fn new(keeper: PathBuf) -> Self {
        Self { keeper, idle: Mutex::default() }
    }

    /// Runs a command with this on its standard input to its end. Once `over` is ready it is told to go, and
    /// its end is waited for. `bytes_max` of each stream are kept. Whatever it leaves running is ended.
    ///
    /// If the future is dropped, the command is ended as in [`Child`]. If its worker is killed, the end is
    /// [`ChildEnd::KeeperLost`], and nobody knows how far the command came.
    ///
    /// # Errors
    ///
    /// As of [`spawn`].
    pub async fn run(
        &self,
        command: ShortCommand,
        input: &[u8],
        over: impl Future<Output = ()>,
        bytes_max: usize,
    ) -> Result<Output, SpawnError> {
        let program = check(&command.dir, &command.program)?;
        let ShortCommand { args, dir, env, .. } = command;
        let order = Order { program, args, dir, env, input_len: input.len(), bytes_max };
        let order = order.message(input);
        tokio::pin!(over);
        let mut timed_out = false;
        let mut worker = self.take()?;
        let mut answer = worker.ask(&order, over.as_mut(), &mut timed_out).await;
        if answer.as_ref().is_err_and(|error| error.kind() == ErrorKind::BrokenPipe) && !timed_out {
            // It was killed while it waited, and has begun nothing.
            worker = self.start()?;
            answer = worker.ask(&order, over, &mut timed_out).await;
        }
        let (answer, stdout, stderr) = match answer {
            Ok(answer) => answer,
            Err(_) => (Answer::lost(worker.child.wait().await), Vec::new(), Vec::new()),
        };
        if answer.leaves || timed_out {
            worker.child.wait().await;
        } else {
            self.keep(worker);
        }
        Ok(Output { end: answer.end, stdout, stderr, cut: answer.cut, timed_out })
    }

    fn take(&self) -> Result<Worker, SpawnError> {
        let idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop();
        idle.map_or_else(|| self.start(), Ok)
    }

    fn keep(&self, worker: Worker) {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        if idle.len() < IDLE_MAX {
            idle.push(worker);
        }
    }

    fn start(&self) -> Result<Worker, SpawnError> {
        let spec = ChildSpec {
            keeper: self.keeper.clone(),
            program: self.keeper.clone().into(),
            args: vec![ROLE.into()],
            // It must not be in the way of somebody who removes a directory.
            dir: Path::new("/").to_owned(),
            env_set: Vec::new(),
            lock: None,
            grace: KILL_GRACE,
            stdin: StdinKind::Piped,
        };
        let mut child = spawn(spec)?;
        let broken = || SpawnError::Pipe(ErrorKind::BrokenPipe.into());
        let (orders, answers) = child.stdin.take().zip(child.stdout.take()).ok_or_else(broken)?;
        Ok(Worker { child, orders, answers: BufReader::new(answers) })
    }
}

#[derive(Debug)]
struct Worker {
    child: Child,
    orders: pipe::Sender,
    answers: BufReader<pipe::Receiver>,
}

/// What a worker says, with the command's two streams.
type Answered = (Answer, Vec<u8>, Vec<u8>);

impl Worker {
    /// Orders something and waits for the answer, and from `over` on for a soon one. A broken pipe says that it
    /// never read the order.
    async fn ask(
        &mut self,
        order: &[u8],
        mut over: Pin<&mut impl Future<Output = ()>>,
        is_over: &mut bool,
    ) -> io::Result<Answered> {
        let Self { child, orders, answers } = self;
        let talking = talk(orders, answers, order);
        tokio::pin!(talking);
        let mut has_ended = false;
        loop {
            tokio::select! {
                answer = &mut talking => return answer,
                // If both its keepers were killed, this ends what they left. What it said last is still read.
                _ = child.wait(), if !has_ended => has_ended = true,
                () = &mut over, if !*is_over => {
                    *is_over = true;
                    child.terminate();
                }
            }
        }
    }
}

async fn talk(
    orders: &mut pipe::Sender,
    answers: &mut BufReader<pipe::Receiver>,
    order: &[u8],
) -> io::Result<Answered> {
    orders.write_all(order).await?;
    let mut line = Vec::new();
    answers.read_until(b'\n', &mut line).await?;
    let answer: Answer = serde_json::from_slice(&line)?;
    let (mut stdout, mut stderr) = (vec![0; answer.stdout_len], vec![0; answer.stderr_len]);
    answers.read_exact(&mut stdout).await?;
    answers.read_exact(&mut stderr).await?;
    Ok((answer, stdout, stderr))
}

impl Answer {
    /// In place of one that did not come.
    fn lost(end: ChildEnd) -> Self {
        let end = match end {
            ChildEnd::Signaled(_) | ChildEnd::NotStarted(_) | ChildEnd::KeeperLost => end,
            // It went without an answer.
            ChildEnd::Exited(_) => ChildEnd::KeeperLost,
        };
        Self { end, cut: false, leaves: true, stdout_len: 0, stderr_len: 0 }
    }
}
