//! Runs that need no terminal, or can leave theirs.
//!
//! ```text
//! ekiden run --detach ── fork ──► the run: a session of its own, no terminal
//!        │                             │ works: one byte; or ends
//!        ◄─────────────────────────────┘
//!   prints the run's id, exits
//!
//! ekiden run ── fork ──► the run, on the same terminal
//!        │                    │ leaves it: one byte; or ends
//!        ◄────────────────────┘
//!   exits as the run did, or at once
//! ```
//!
//! The process is split after every question that a person may have to answer, so the run has all its input. The
//! waiting process passes on the signals that are sent only to it. If it is killed, the run leaves the terminal
//! by itself.

use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::os::fd::{AsFd, OwnedFd};

use rustix::process::{Pid, Signal, WaitOptions, WaitStatus, getpid, getppid, setsid, waitpid};
use rustix::stdio::{dup2_stderr, dup2_stdin, dup2_stdout};

use crate::unix::{Forked, fork, pass_on, pass_on_requests};

/// Which of the two processes this is, and for the first one what happened to the other.
#[derive(Debug)]
pub enum Background<T> {
    /// The one that works on the run.
    Here(T),
    /// The other one continues without us.
    Works,
    /// It ended, with this exit code.
    Ended(u8),
    /// This signal ended it. Itself it ends with an exit code, whatever it was asked.
    Killed(i32),
}

/// Reports that the background process works.
#[derive(Debug)]
pub struct Begun {
    report: File,
    null: OwnedFd,
}

impl Begun {
    /// Its output is discarded from now on.
    pub fn report(mut self) {
        // If the first process is gone, nothing waits for it.
        let _ = dup2_stderr(self.null.as_fd());
        let _ = self.report.write_all(b"\n");
    }
}

/// A run on a terminal that it can leave.
#[derive(Debug)]
pub struct Detach {
    begun: Begun,
    first: Pid,
}

impl Detach {
    /// The process that should wait for us was killed.
    pub fn is_alone(&self) -> bool {
        getppid() != Some(self.first)
    }

    /// Continues without the terminal. Output from now on is discarded.
    pub fn leave(self) -> io::Result<()> {
        setsid()?;
        dup2_stdin(&self.begun.null)?;
        dup2_stdout(&self.begun.null)?;
        self.begun.report();
        Ok(())
    }
}

/// Splits the process: the new one has no terminal. It must have no other thread.
pub fn begin() -> io::Result<Background<Begun>> {
    split(
        |run| pass_on(&[Signal::INT, Signal::TERM, Signal::HUP], run),
        |begun| {
            setsid()?;
            dup2_stdin(&begun.null)?;
            dup2_stdout(&begun.null)?;
            Ok(begun)
        },
    )
}

/// Splits the process: the new one has the same terminal and can leave it. It must have no other thread.
pub fn begin_on_terminal() -> io::Result<Background<Detach>> {
    let first = getpid();
    split(pass_on_requests, |begun| Ok(Detach { begun, first }))
}

fn split<T>(
    wait: impl FnOnce(Pid),
    here: impl FnOnce(Begun) -> io::Result<T>,
) -> io::Result<Background<T>> {
    let (mut heard, report) = io::pipe()?;
    let null = File::options().read(true).write(true).open("/dev/null")?;
    let child = match fork()? {
        Forked::Parent(child) => child,
        Forked::Child => {
            drop(heard);
            return here(Begun {
                report: File::from(OwnedFd::from(report)),
                null: null.into(),
            })
            .map(Background::Here);
        }
    };
    drop(report);
    wait(child);
    if heard.read_exact(&mut [0; 1]).is_ok() {
        return Ok(Background::Works);
    }
    let end = rustix::io::retry_on_intr(|| waitpid(Some(child), WaitOptions::empty()))?;
    let status = end.map(|(_, status)| status);
    if let Some(signal) = status.and_then(WaitStatus::terminating_signal) {
        return Ok(Background::Killed(signal));
    }
    let code = status.and_then(|status| u8::try_from(status.exit_status()?).ok());
    Ok(Background::Ended(code.unwrap_or(70)))
}
