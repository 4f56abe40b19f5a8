//! The outer keeper: it waits, and steps in when the inner one is gone.

use std::io::{self, Read};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags};
use rustix::process::{Pid, Signal, kill_process};

use crate::keeper::report::{ChildEnd, Control, KeeperReport};
use crate::keeper::terminal::Terminal;
use crate::keeper::watch::Watch;
use crate::unix::{ChildExits, Deadline, Reaped, pid_of, poll_until, reap};

/// How much longer than the grace time the inner keeper may take once the engine is dead. After that it
/// is stuck (stopped by a person, say), and everything must be over within 5 s (RUN-10).
const INNER_GRACE: Duration = Duration::from_secs(1);
/// How much of the 5 s is left for the agent when the inner keeper has used up its time.
const LATE_GRACE: Duration = Duration::from_millis(300);

pub(super) struct Outer<'a> {
    control: &'a Control,
    link: UnixStream,
    exits: ChildExits,
    inner: Pid,
    grace: Duration,
}

impl<'a> Outer<'a> {
    /// The keeper of the keeper `inner`.
    pub(super) fn new(
        control: &'a Control,
        link: UnixStream,
        inner: Pid,
        grace: Duration,
    ) -> io::Result<Self> {
        link.set_nonblocking(true)?;
        Ok(Self {
            control,
            link,
            exits: ChildExits::new()?,
            inner,
            grace,
        })
    }

    /// Returns when nothing is left, or only what cannot be ended.
    pub(super) fn run(mut self, terminal: Option<Terminal>) {
        if self.outlives_inner() {
            self.control
                .tell(&[KeeperReport::Ended(ChildEnd::KeeperLost)]);
            let agent = self.agent_told();
            Watch::new(self.control, None, self.exits, agent, terminal, self.grace).run();
        }
    }

    /// Waits for the inner keeper's end. Returns whether it was killed with its work undone.
    fn outlives_inner(&mut self) -> bool {
        let mut kill_at = None;
        loop {
            self.exits.clear();
            match reap() {
                Reaped::One(pid, status) if pid == self.inner => {
                    return status.exit_status() != Some(0);
                }
                Reaped::One(..) => continue,
                Reaped::NoChildren => return true,
                Reaped::AllRunning => {}
            }
            let due = kill_at.is_some_and(Deadline::passed);
            if due {
                let _ = kill_process(self.inner, Signal::KILL);
                self.grace = LATE_GRACE.min(self.grace);
            }
            if self.engine_ended(kill_at.is_some(), kill_at.filter(|_| !due)) {
                kill_at = Some(Deadline::after(self.grace + INNER_GRACE));
            }
        }
    }

    /// Waits until something happens. Returns true if the engine has died and that was not known.
    fn engine_ended(&self, is_known: bool, until: Option<Deadline>) -> bool {
        let watched = if is_known { 1 } else { 2 };
        let mut fds = [
            PollFd::new(&self.exits, PollFlags::IN),
            // Commands are for the inner keeper: this asks only for the end of the socket.
            PollFd::new(self.control, PollFlags::empty()),
        ];
        // Without a working poll we can only check again.
        let _ = poll_until(&mut fds[..watched], until);
        fds[1].revents().intersects(PollFlags::HUP | PollFlags::ERR)
    }

    /// The agent's pid, if the inner keeper lived long enough to send it.
    fn agent_told(&mut self) -> Option<Pid> {
        let mut raw = [0; 4];
        self.link.read_exact(&mut raw).ok()?;
        pid_of(i32::from_ne_bytes(raw))
    }
}
