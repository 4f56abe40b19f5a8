//! The engine's handle on a child process that runs under a keeper.
//!
//! [`spawn`] starts the keeper, which starts the program. [`Child::wait`] returns how the program ended, once nothing
//! that it started is alive. The three streams are plain pipes to the program itself: the keeper neither reads
//! nor writes them.

mod launch;
mod spec;

use std::io::ErrorKind;
use std::process;

use tokio::net::UnixStream;
use tokio::net::unix::pipe;

use crate::keeper::{KeeperReport, Reports, TERMINATE};
use crate::orphans::{self, Keeper};

pub use crate::keeper::ChildEnd;
pub use crate::outer_env::{OUTER_AGENT_ENV, OUTER_GIT_ENV};
pub(crate) use launch::{OurEnds, Streams, launch};
pub use spec::{ChildSpec, SpawnError, StdinKind, find_on_path, find_program};

/// A child process and everything that descends from it.
///
/// - *If it is dropped*, the keeper treats that as the engine's death: SIGTERM, the grace time,
///   SIGKILL, until nothing is left. Nobody waits for that; the lock in [`ChildSpec::lock`] is free
///   when it is done.
/// - *If the task that holds it dies*, it is dropped.
/// - *If [`wait`](Self::wait) is never called*, the child runs on to its end; nobody looks for orphans of
///   killed keepers.
/// - *If the streams are not read*, the child blocks once a pipe is full. Dropped streams
///   give the child a broken pipe.
#[derive(Debug)]
pub struct Child {
    /// Writes to the child's standard input; none if that is [`StdinKind::Null`]. The caller takes it.
    /// Dropping it is the end of file.
    pub stdin: Option<pipe::Sender>,
    /// Reads the child's standard output. The caller takes it.
    pub stdout: Option<pipe::Receiver>,
    /// Reads the child's standard error. The caller takes it. None if both streams are one.
    pub stderr: Option<pipe::Receiver>,
    control: UnixStream,
    reports: Reports,
    agent: Option<u32>,
    end: Option<ChildEnd>,
    /// The keepers said that nothing is left.
    is_over: bool,
    state: State,
}

#[derive(Debug)]
enum State {
    /// The keepers have not said everything yet.
    Kept(process::Child),
    /// Both keepers are gone, and what they left has not been ended yet.
    Orphaned,
    Over,
}

/// Starts a program under a keeper, within a runtime. Returns when the keeper runs; [`Child::started`] and
/// [`Child::wait`] say whether the program does. It is an error if the program or the directory does not exist, or the
/// system refused a pipe or a process; then nothing runs.
pub fn spawn(spec: ChildSpec) -> Result<Child, SpawnError> {
    Child::new(launch(spec, Streams::Apart)?)
}

impl Child {
    pub(crate) fn new((keeper, ends): (Keeper, OurEnds)) -> Result<Self, SpawnError> {
        let Keeper { process, control } = keeper;
        let connected = || -> std::io::Result<_> {
            control.set_nonblocking(true)?;
            let receiver = |fd: Option<_>| fd.map(pipe::Receiver::from_owned_fd).transpose();
            let stdin = ends.stdin.map(pipe::Sender::from_owned_fd).transpose()?;
            let (stdout, stderr) = (receiver(ends.stdout)?, receiver(ends.stderr)?);
            Ok((UnixStream::from_std(control)?, stdin, stdout, stderr))
        };
        let (control, stdin, stdout, stderr) = match connected() {
            Ok(streams) => streams,
            Err(source) => {
                orphans::drop_keeper(process);
                return Err(SpawnError::Pipe(source));
            }
        };
        Ok(Self {
            stdin,
            stdout,
            stderr,
            control,
            reports: Reports::default(),
            agent: None,
            end: None,
            is_over: false,
            state: State::Kept(process),
        })
    }

    /// Waits until the program runs, and returns its pid. None if it never will;
    /// [`wait`](Self::wait) says why. May be cancelled and called again.
    pub async fn started(&mut self) -> Option<u32> {
        while self.agent.is_none() && self.end.is_none() && self.hear().await {}
        self.agent
    }

    /// Waits until the program and everything that it started are dead, and returns how the program ended.
    /// Its output is in the pipes by then. May be cancelled and called again; after the end it
    /// returns the same at once.
    pub async fn wait(&mut self) -> ChildEnd {
        while self.hear().await {}
        self.settle().await;
        self.end.clone().unwrap_or(ChildEnd::KeeperLost)
    }

    /// Ends the program and all its descendants: SIGTERM, and SIGKILL after the grace time.
    /// Returns at once; [`wait`](Self::wait) returns the end. May be called again.
    pub fn terminate(&mut self) {
        // An error means that the keepers are dead, or that they have not read thousands of commands.
        let _ = self.control.try_write(&[TERMINATE]);
    }

    /// Reads what the keepers say next. Returns whether there may be more. Cancel safe.
    async fn hear(&mut self) -> bool {
        if !matches!(self.state, State::Kept(_)) || self.control.readable().await.is_err() {
            return false;
        }
        let mut bytes = [0; 512];
        match self.control.try_read(&mut bytes) {
            Ok(count @ 1..) => self.reports.push(&bytes[..count]),
            Err(error)
                if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {}
            // A reset is an end too: a keeper died with a command unread.
            Ok(0) | Err(_) => return false,
        }
        while let Some(report) = self.reports.next() {
            match report {
                KeeperReport::Started(pid) => self.agent = Some(pid),
                KeeperReport::Over => self.is_over = true,
                // Whatever comes after the loss of a keeper results from that loss.
                KeeperReport::Ended(end) => _ = self.end.get_or_insert(end),
            }
        }
        true
    }

    /// Both keepers are gone. Unless they ended normally, something may be left. Cancel safe.
    async fn settle(&mut self) {
        if let State::Kept(keeper) = &mut self.state {
            let went_well = orphans::end_of_keeper(keeper).is_none_or(|status| status.success());
            self.state = match self.is_over && went_well {
                true => State::Over,
                false => State::Orphaned,
            };
        }
        if let State::Orphaned = self.state {
            orphans::end_orphans(self.agent).await;
            self.state = State::Over;
        }
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        if let State::Kept(keeper) = std::mem::replace(&mut self.state, State::Over) {
            orphans::drop_keeper(keeper);
        }
    }
}
