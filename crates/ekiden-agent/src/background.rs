//! A program that runs in the background, without the terminal that it was started from.
//!
//! ```text
//! ekiden run --detach ── fork ──► the run: a session of its own, no terminal
//!        │                             │ works: one byte; or ends
//!        ◄─────────────────────────────┘
//!   prints the run's id, exits
//! ```
//!
//! The process is split after everything that a person can be asked, so the run has what it was given. Until it
//! works its messages go to the terminal, and its exit code is that of the command.

use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::os::fd::{AsFd, OwnedFd};

use rustix::process::{WaitOptions, setsid, waitpid};
use rustix::stdio::{dup2_stderr, dup2_stdin, dup2_stdout};

use crate::unix::{Forked, fork};

/// Which of the two processes this is, and for the first one what became of the other.
#[derive(Debug)]
pub enum Background {
    /// The one in the background.
    Here(Begun),
    Works,
    /// It ended before it worked, with this exit code.
    Ended(u8),
}

/// Reports that the process in the background works.
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

/// Splits the process. It must have no other thread.
pub fn begin() -> io::Result<Background> {
    let (heard, report) = io::pipe()?;
    let null = File::options().read(true).write(true).open("/dev/null")?;
    let child = match fork()? {
        Forked::Parent(child) => child,
        Forked::Child => {
            drop(heard);
            setsid()?;
            dup2_stdin(&null)?;
            dup2_stdout(&null)?;
            return Ok(Background::Here(Begun {
                report: File::from(OwnedFd::from(report)),
                null: null.into(),
            }));
        }
    };
    drop(report);
    let mut heard = File::from(OwnedFd::from(heard));
    if matches!(heard.read(&mut [0; 1])?, 1..) {
        return Ok(Background::Works);
    }
    let end = rustix::io::retry_on_intr(|| waitpid(Some(child), WaitOptions::empty()))?;
    let code = end.and_then(|(_, status)| status.exit_status());
    let code = code.and_then(|code| u8::try_from(code).ok());
    // A signal ended it, which happens to no program that works.
    Ok(Background::Ended(code.unwrap_or(70)))
}
