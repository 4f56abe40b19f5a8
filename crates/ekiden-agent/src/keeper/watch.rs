//! The watch over an agent: from its start until nothing that descends from it is alive.
//!
//! ```text
//!              order, engine dead,            deadline, or
//!              partner dead, agent ended      order to kill
//!   Watching ───────────────────────► Asked ───────────────► Killing ──► over
//!      └────────────────────────────────┴── no children left ─────────────┘
//! ```

use std::io::{ErrorKind, Read};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags};
use rustix::process::{Pid, Signal, getpid, kill_process_group};

use crate::ending::Killing;
use crate::keeper::report::{Control, Heard, Order, Report};
use crate::keeper::terminal::Terminal;
use crate::platform;
use crate::unix::{ChildExits, Deadline, Reaped, ask_to_go, poll_until, reap};

/// How long tools may take to go after SIGTERM once their agent is gone: nobody waits for their
/// output any more, and the next session waits for their end.
const TOOLS_GRACE: Duration = Duration::from_millis(500);

/// The most ends that are taken before looking at anything else: an agent that starts processes
/// without end must not keep its keeper from hearing the engine.
const ENDS_MAX: usize = 256;

/// What is known of the keeper's children, which on Linux include all orphans below it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Children {
    None,
    Running,
    /// There are more ends to be taken.
    MoreEnded,
}

/// How far the end has come.
enum Phase {
    /// The agent works.
    Watching,
    /// Whoever lives was asked to go; at the deadline the rest is killed.
    Asked { kill_at: Deadline },
    /// SIGKILL, round after round.
    Killing(Killing),
}

/// One keeper's watch.
pub(super) struct Watch<'a> {
    /// None: the engine is dead.
    control: Option<&'a Control>,
    /// Ends with the outer keeper; none in the outer keeper itself.
    link: Option<UnixStream>,
    exits: ChildExits,
    /// The agent, also after its end, when its number still names the process group.
    agent: Option<Pid>,
    agent_ended: bool,
    /// The agent's end, not told yet: mostly nothing else is left, and each telling wakes the engine.
    untold: Option<Report>,
    /// The terminal that the agent is on, to be put in order after it.
    terminal: Option<Terminal>,
    /// A signal ended the agent, or nobody knows: it put nothing in order itself.
    agent_killed: bool,
    /// What the agent left was asked to go.
    tools_asked: bool,
    grace: Duration,
    phase: Phase,
}

impl<'a> Watch<'a> {
    /// The inner keeper's, which has just started `agent`.
    pub(super) fn of_inner(
        control: &'a Control,
        link: UnixStream,
        exits: ChildExits,
        agent: Pid,
        grace: Duration,
    ) -> Self {
        Self {
            control: Some(control),
            link: Some(link),
            exits,
            agent: Some(agent),
            agent_ended: false,
            untold: None,
            terminal: None,
            agent_killed: true,
            tools_asked: false,
            grace,
            phase: Phase::Watching,
        }
    }

    /// The outer keeper's, which has inherited everything and ends it. The inner one may have died
    /// after its agent, so all are asked, not only the agent.
    pub(super) fn of_outer(
        control: &'a Control,
        exits: ChildExits,
        agent: Option<Pid>,
        grace: Duration,
    ) -> Self {
        let phase = Phase::Asked { kill_at: Deadline::after(grace) };
        let control = Some(control);
        let watch = Self {
            control,
            link: None,
            exits,
            agent,
            agent_ended: false,
            untold: None,
            terminal: None,
            agent_killed: true,
            tools_asked: true,
            grace,
            phase,
        };
        watch.ask_family();
        watch
    }

    /// The same watch over an agent on this terminal.
    pub(super) fn over(self, terminal: Option<Terminal>) -> Self {
        Self { terminal, ..self }
    }

    /// Returns when nothing is left, or nothing that can be ended.
    pub(super) fn run(mut self) {
        loop {
            self.exits.clear();
            let children = self.take_ends();
            if children == Children::None && platform::childless_is_done(self.agent) {
                break;
            }
            self.tell_end();
            self.advance();
            if self.gave_up() {
                break;
            }
            self.listen(children);
        }
        if let Some(terminal) = self.terminal.take() {
            self.tell_end();
            terminal.restore(self.agent_killed, self.control.is_some());
        }
        let left = Report::Left(self.left());
        let last: Vec<_> = self.untold.take().into_iter().chain([left]).collect();
        self.tell(&last);
    }

    fn tell_end(&mut self) {
        let end = self.untold.take();
        self.tell(end.as_slice());
    }

    /// Takes the ends of children that have ended.
    fn take_ends(&mut self) -> Children {
        for _ in 0..ENDS_MAX {
            match reap() {
                Reaped::NoChildren => return Children::None,
                Reaped::AllRunning => return Children::Running,
                Reaped::One(pid, status) if Some(pid) == self.agent && !self.agent_ended => {
                    self.agent_ended = true;
                    self.agent_killed = status.signaled();
                    self.untold = Some(Report::of_end(status));
                }
                Reaped::One(..) => {}
            }
        }
        Children::MoreEnded
    }

    /// Does what is due.
    fn advance(&mut self) {
        if self.agent_ended && !self.tools_asked {
            self.tools_asked = true;
            self.ask_family();
            self.ask(TOOLS_GRACE);
        }
        if matches!(self.phase, Phase::Asked { kill_at } if kill_at.passed()) {
            self.kill();
        }
        if let Phase::Killing(killing) = &mut self.phase {
            killing.round(&platform::family(getpid(), self.agent));
        }
    }

    fn ask_family(&self) {
        for process in platform::family(getpid(), self.agent) {
            ask_to_go(process.pid);
        }
    }

    /// Begins the end, or brings it forward: SIGTERM for the agent, and a deadline for all.
    fn ask(&mut self, grace: Duration) {
        let kill_at = Deadline::after(grace);
        match &mut self.phase {
            Phase::Watching => {
                self.ask_agent();
                self.phase = Phase::Asked { kill_at };
            }
            Phase::Asked { kill_at: planned } => *planned = kill_at.min(*planned),
            Phase::Killing(_) => {}
        }
    }

    /// Only the agent's own group, or the agent alone if it is in another's: an agent ends its tools
    /// itself, in its own order, and sees their ends.
    fn ask_agent(&self) {
        if let Some(agent) = self.agent.filter(|_| !self.agent_ended) {
            match &self.terminal {
                Some(_) => ask_to_go(agent),
                None => {
                    let _ = kill_process_group(agent, Signal::TERM);
                    let _ = kill_process_group(agent, Signal::CONT);
                }
            }
        }
    }

    fn kill(&mut self) {
        if !matches!(self.phase, Phase::Killing(_)) {
            self.phase = Phase::Killing(Killing::new());
        }
    }

    fn gave_up(&self) -> bool {
        matches!(&self.phase, Phase::Killing(killing) if killing.gave_up())
    }

    fn left(&self) -> u32 {
        match &self.phase {
            Phase::Killing(killing) if killing.gave_up() => {
                u32::try_from(killing.living()).unwrap_or(u32::MAX)
            }
            Phase::Watching | Phase::Asked { .. } | Phase::Killing(_) => 0,
        }
    }

    /// Waits for news or the next deadline, and heeds what engine and partner say.
    fn listen(&mut self, children: Children) {
        let until = match children {
            Children::MoreEnded => Some(Deadline::after(Duration::ZERO)),
            Children::None | Children::Running => self.next_deadline(),
        };
        let mut fds = vec![PollFd::new(&self.exits, PollFlags::IN)];
        fds.extend(self.control.map(|control| PollFd::new(control, PollFlags::IN)));
        fds.extend(self.link.as_ref().map(|link| PollFd::new(link, PollFlags::IN)));
        // Without a working poll there is nothing better than to look again.
        let _ = poll_until(&mut fds, until);
        drop(fds);
        self.heed_engine();
        self.heed_partner();
    }

    fn next_deadline(&self) -> Option<Deadline> {
        match &self.phase {
            Phase::Watching => None,
            Phase::Asked { kill_at } => Some(*kill_at),
            Phase::Killing(killing) => Some(killing.next_round()),
        }
    }

    fn heed_engine(&mut self) {
        match self.control.map_or(Heard::Nothing, Control::hear) {
            Heard::Nothing => {}
            Heard::Order(Order::Terminate) => self.ask(self.grace),
            Heard::Order(Order::Kill) => self.kill(),
            Heard::Gone => {
                self.control = None;
                self.ask(self.grace);
            }
        }
    }

    /// The outer keeper never writes, so the link tells its death and nothing else.
    fn heed_partner(&mut self) {
        let Some(link) = &mut self.link else { return };
        match link.read(&mut [0]) {
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {}
            Ok(_) | Err(_) => {
                self.link = None;
                self.tell(&[Report::KeeperDied]);
                self.ask(self.grace);
            }
        }
    }

    fn tell(&self, reports: &[Report]) {
        if let Some(control) = self.control {
            control.tell(reports);
        }
    }
}
