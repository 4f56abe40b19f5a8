//! The user's terminal while an agent's own interface has it.
//!
//! A client that exits normally restores the terminal as it found it. One that is killed cannot: it leaves the
//! alternate screen, a hidden cursor, mouse reports and raw modes. So the keeper, which always outlives the
//! client, remembers the terminal as it was before and restores it.
//!
//! While the engine lives and has the terminal, the keeper also restores modes and foreground. Once the engine is
//! dead or suspended, the shell has the terminal again and has set both as it likes.
//!
//! Nobody may be reading what the keeper writes there: a connection hangs, or a person pressed ctrl-s. So the
//! keeper opens the terminal anew for itself, so that no write blocks, and gives up after a while.

use std::io;
use std::os::fd::OwnedFd;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags};
use rustix::fs::{Mode, OFlags, open};
use rustix::io::Errno;
use rustix::process::{Pid, test_kill_process_group};
use rustix::termios::{
    OptionalActions, Termios, tcgetattr, tcgetpgrp, tcsetattr, tcsetpgrp, ttyname,
};

use crate::unix::{Deadline, poll_until};

/// Back to the main screen; no mouse reports, no focus reports, no bracketed paste, no keyboard
/// protocol; the cursor visible, and plain colours.
const RESET: &[u8] = b"\x1b[?1049l\x1b[?1000l\x1b[?1002l\x1b[?1003l\x1b[?1006l\x1b[?1004l\x1b[?2004l\x1b[<u\x1b[>4m\x1b[?25h\x1b[0m\r\n";

/// How long a terminal may accept nothing before it is left as it is.
const PATIENCE: Duration = Duration::from_millis(500);

/// A terminal and its earlier state.
#[derive(Debug)]
pub(super) struct Terminal {
    tty: OwnedFd,
    modes: Termios,
    /// The process group that had it.
    group: Pid,
}

impl Terminal {
    /// The terminal behind a file, held by `group`.
    pub(super) fn of(file: &OwnedFd, group: Pid) -> io::Result<Self> {
        let flags = OFlags::RDWR | OFlags::NOCTTY | OFlags::NONBLOCK | OFlags::CLOEXEC;
        // A terminal from outside a container has no name inside it.
        let named = ttyname(file, Vec::new()).and_then(|name| open(&name, flags, Mode::empty()));
        let tty = named.or_else(|_| open("/dev/tty", flags, Mode::empty()))?;
        Ok(Self {
            modes: tcgetattr(file)?,
            tty,
            group,
        })
    }

    /// The process group that had it.
    pub(super) fn group(&self) -> Pid {
        self.group
    }

    /// Restores it. What fails is left as it is: a terminal that was closed needs nothing.
    pub(super) fn restore(&self, agent_was_killed: bool, engine_lives: bool) {
        if engine_lives && self.is_ours() {
            let _ = tcsetpgrp(&self.tty, self.group);
            let _ = tcsetattr(&self.tty, OptionalActions::Now, &self.modes);
        }
        if agent_was_killed {
            self.write(RESET);
        }
    }

    /// While the engine is suspended, the shell or a program started from it has the terminal. A group that is
    /// gone was the agent's.
    fn is_ours(&self) -> bool {
        let is_gone = |group| test_kill_process_group(group) == Err(Errno::SRCH);
        tcgetpgrp(&self.tty).is_ok_and(|group| group == self.group || is_gone(group))
    }

    fn write(&self, mut bytes: &[u8]) {
        let until = Deadline::after(PATIENCE);
        while !bytes.is_empty() && !until.passed() {
            match rustix::io::write(&self.tty, bytes) {
                Ok(written) => bytes = &bytes[written..],
                Err(Errno::AGAIN | Errno::INTR) => {
                    let _ = poll_until(&mut [PollFd::new(&self.tty, PollFlags::OUT)], Some(until));
                }
                Err(_) => break,
            }
        }
    }
}
