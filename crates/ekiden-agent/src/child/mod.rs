//! The engine's handle on a child process that runs under a keeper.
//!
//! [`spawn`] starts the keeper, which starts the program; [`Child::wait`] tells the program's end
//! once nothing that it started is alive. The three streams are plain pipes to the program itself:
//! the keeper neither reads nor writes them.

mod launch;
mod spec;

use std::io::ErrorKind;
use std::process;

use serde::{Deserialize, Serialize};
use tokio::net::UnixStream;
use tokio::net::unix::pipe;

use crate::keeper::{Order, Report, Reports};
use crate::orphans::{self, Keeper};

pub use crate::outer_env::{OUTER_AGENT_ENV, OUTER_GIT_ENV};
pub(crate) use launch::{Launched, Streams, check, launch};
pub use spec::{ChildSpec, SpawnError, StdinKind, find_program};

/// How a child ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum ChildEnd {
    /// It exited with this code.
    Exited(i32),
    /// It was ended by this signal.
    Signaled(i32),
    /// It never ran, for this reason.
    NotStarted(String),
    /// Its keeper was killed by somebody, and it was ended because of that.
    KeeperLost,
}

/// A child process and everything that descends from it.
///
/// - *If it is dropped*, the keeper takes that for the engine's death: SIGTERM, the grace time,
///   SIGKILL, until nothing is left. Nobody waits for that; the lock in [`ChildSpec::lock`] is free
///   when it is done.
/// - *If the task that holds it dies*, it is dropped.
/// - *If [`wait`](Self::wait) is never called*, the child runs on to its end; orphans of keepers that
///   were killed are not looked for.
/// - *If the streams are not read*, the child blocks once a pipe is full. Streams that are dropped
///   give the child a broken pipe.
#[derive(Debug)]
pub struct Child {
    /// Writes to the child's standard input; none if that is [`StdinKind::Null`]. To be taken.
    /// Dropping it is the end of file.
    pub stdin: Option<pipe::Sender>,
    /// Reads the child's standard output. To be taken.
    pub stdout: Option<pipe::Receiver>,
    /// Reads the child's standard error. To be taken. None where both streams are one.
    pub stderr: Option<pipe::Receiver>,
    control: UnixStream,
    reports: Reports,
    keeper: Option<process::Child>,
    keeper_pid: u32,
    inner_keeper_pid: Option<u32>,
    agent_pid: Option<u32>,
    end: Option<ChildEnd>,
    left: Option<u32>,
    /// Both keepers are gone, and what they left is not ended yet.
    orphaned: bool,
}

/// Starts a program under a keeper. Returns when the keeper runs; whether the program does is told
/// by [`Child::started`] and [`Child::wait`]. To be called within a runtime.
///
/// # Errors
///
/// The program or the directory does not exist, in which case nothing was started, or the system
/// refused a pipe or a process. Nothing runs after an error.
pub fn spawn(spec: ChildSpec) -> Result<Child, SpawnError> {
    Child::new(launch(spec, Streams::Apart)?)
}

impl Child {
    pub(crate) fn new(launched: Launched) -> Result<Self, SpawnError> {
        let Launched { keeper: Keeper { process: keeper, control }, stdin, stdout, stderr } = launched;
        let keeper_pid = keeper.id();
        let connected = || -> std::io::Result<_> {
            control.set_nonblocking(true)?;
            let stdin = stdin.map(pipe::Sender::from_owned_fd).transpose()?;
            let stdout = stdout.map(pipe::Receiver::from_owned_fd).transpose()?;
            let stderr = stderr.map(pipe::Receiver::from_owned_fd).transpose()?;
            Ok((UnixStream::from_std(control)?, stdin, stdout, stderr))
        };
        let (control, stdin, stdout, stderr) = match connected() {
            Ok(streams) => streams,
            Err(source) => {
                orphans::drop_keeper(keeper);
                return Err(SpawnError::Pipe(source));
            }
        };
        Ok(Self {
            stdin,
            stdout,
            stderr,
            control,
            reports: Reports::default(),
            keeper: Some(keeper),
            keeper_pid,
            inner_keeper_pid: None,
            agent_pid: None,
            end: None,
            left: None,
            orphaned: false,
        })
    }

    /// The outer keeper's pid. Also the number of its process group.
    #[must_use]
    pub fn keeper_pid(&self) -> u32 {
        self.keeper_pid
    }

    /// The inner keeper's pid, known once [`started`](Self::started) has returned.
    #[must_use]
    pub fn inner_keeper_pid(&self) -> Option<u32> {
        self.inner_keeper_pid
    }

    /// The program's pid, known once [`started`](Self::started) has returned. Also the number of its
    /// process group and session.
    #[must_use]
    pub fn agent_pid(&self) -> Option<u32> {
        self.agent_pid
    }

    /// Waits until the program runs, and tells its pid. None: it never will, and
    /// [`wait`](Self::wait) tells why. May be cancelled and called again.
    pub async fn started(&mut self) -> Option<u32> {
        while self.agent_pid.is_none() && self.end.is_none() && self.hear().await {}
        self.agent_pid
    }

    /// Waits until the program and all that it started are dead, and tells how the program ended.
    /// What it wrote is in the pipes by then. May be cancelled and called again; after the end it
    /// answers the same at once.
    pub async fn wait(&mut self) -> ChildEnd {
        while self.hear().await {}
        self.settle().await;
        self.end.clone().unwrap_or(ChildEnd::KeeperLost)
    }

    /// How many descendants of the program are alive after [`wait`](Self::wait) because they could
    /// not be ended: they belong to another user, or hang in the kernel. Mostly 0.
    #[must_use]
    pub fn left_behind(&self) -> u32 {
        self.left.unwrap_or(0)
    }

    /// Asks the program to go: SIGTERM, and SIGKILL after the grace time, for all its descendants.
    /// Returns at once; [`wait`](Self::wait) tells the end. Twice is as good as once.
    pub fn terminate(&mut self) {
        self.order(Order::Terminate);
    }

    /// Kills the program and all its descendants. Returns at once.
    pub fn kill(&mut self) {
        self.order(Order::Kill);
    }

    fn order(&mut self, order: Order) {
        // An error says that the keepers are dead, or that they have not read thousands of orders.
        let _ = self.control.try_write(&[order.byte()]);
    }

    /// Takes in what the keepers say next; whether there may be more. Cancel safe.
    async fn hear(&mut self) -> bool {
        if self.keeper.is_none() || self.control.readable().await.is_err() {
            return false;
        }
        let mut bytes = [0; 512];
        match self.control.try_read(&mut bytes) {
            Ok(count @ 1..) => self.reports.push(&bytes[..count]),
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {}
            // A reset is an end too: a keeper died with an order unread.
            Ok(0) | Err(_) => return false,
        }
        while let Some(report) = self.reports.next() {
            self.note(report);
        }
        true
    }

    fn note(&mut self, report: Report) {
        let end = match report {
            Report::Started { agent, inner } => {
                self.agent_pid = Some(agent);
                self.inner_keeper_pid = Some(inner);
                return;
            }
            Report::Left(count) => return self.left = Some(count),
            Report::NotStarted(why) => ChildEnd::NotStarted(why),
            Report::Exited(code) => ChildEnd::Exited(code),
            Report::Signaled(signal) => ChildEnd::Signaled(signal),
            Report::KeeperDied => ChildEnd::KeeperLost,
        };
        // What comes after the loss of a keeper is the loss's doing.
        self.end.get_or_insert(end);
    }

    /// Both keepers are gone. Unless they went in good order, something may be left. Cancel safe.
    async fn settle(&mut self) {
        if let Some(keeper) = self.keeper.take() {
            let went_well = orphans::end_of_keeper(keeper).is_none_or(|status| status.success());
            self.orphaned = self.left.is_none() || !went_well;
        }
        if self.orphaned {
            let left = orphans::end_orphans(self.agent_pid).await;
            self.left = Some(u32::try_from(left).unwrap_or(u32::MAX));
            self.orphaned = false;
        }
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        if let Some(keeper) = self.keeper.take() {
            orphans::drop_keeper(keeper);
        }
    }
}
