//! The user's terminal while an agent's own interface has it.
//!
//! A client that ends in order puts the terminal back as it found it. One that is killed cannot: it
//! leaves the other screen, a hidden cursor, mouse reports and raw modes. So the keeper, which outlives
//! it in every case, remembers the terminal as it was before and restores it.
//!
//! While the engine lives, modes and foreground are put back too. Once it is dead, the shell has the
//! terminal again and has set both as it likes.

use std::io;
use std::os::fd::OwnedFd;

use rustix::process::Pid;
use rustix::termios::{OptionalActions, Termios, tcgetattr, tcsetattr, tcsetpgrp};

/// Back to the main screen; no mouse reports, no focus reports, no bracketed paste, no keyboard
/// protocol; the cursor visible, and plain colours.
const RESET: &[u8] = b"\x1b[?1049l\x1b[?1000l\x1b[?1002l\x1b[?1003l\x1b[?1006l\x1b[?1004l\x1b[?2004l\x1b[<u\x1b[>4m\x1b[?25h\x1b[0m\r\n";

/// A terminal and how it was.
#[derive(Debug)]
pub(super) struct Terminal {
    tty: OwnedFd,
    modes: Termios,
    /// The process group that had it.
    group: Pid,
}

impl Terminal {
    /// The terminal behind a file, in the hands of `group`.
    ///
    /// # Errors
    ///
    /// It is no terminal.
    pub(super) fn of(file: &OwnedFd, group: Pid) -> io::Result<Self> {
        Ok(Self { modes: tcgetattr(file)?, tty: file.try_clone()?, group })
    }

    /// The process group that had it.
    pub(super) fn group(&self) -> Pid {
        self.group
    }

    /// Puts it in order. What fails is left as it is: a terminal that was closed needs nothing.
    pub(super) fn restore(&self, agent_was_killed: bool, engine_lives: bool) {
        if engine_lives {
            let _ = tcsetpgrp(&self.tty, self.group);
            let _ = tcsetattr(&self.tty, OptionalActions::Now, &self.modes);
        }
        if agent_was_killed {
            let _ = rustix::io::write(&self.tty, RESET);
        }
    }
}
