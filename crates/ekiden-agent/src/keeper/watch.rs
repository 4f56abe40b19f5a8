//! The watch over an agent: from its start until nothing that descends from it is alive.
//!
//! ```text
//!              command, engine dead,
//!              partner dead, agent ended         deadline
//!   Watching ───────────────────────► Asked ───────────────► Killing ──► over
//!      └────────────────────────────────┴── no children left ─────────────┘
//! ```

use std::io::{ErrorKind, Read};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags};
use rustix::process::{Pid, Signal, getpid, kill_process_group};

use crate::ending::Killing;
use crate::keeper::report::{ChildEnd, Control, Heard, KeeperReport};
use crate::keeper::terminal::Terminal;
use crate::platform;
use crate::unix::{ChildExits, Deadline, Reaped, ask_to_go, poll_until, reap};

/// How long tools may take to end after SIGTERM once their agent is gone: nothing waits for their
/// output any more, and the next session waits for their end.
const TOOLS_GRACE: Duration = Duration::from_millis(500);

/// How many children are reaped before the keeper looks at anything else: an agent that starts processes
/// without end must not keep its keeper from hearing the engine.
const REAPED_MAX: usize = 256;

/// The keeper's children, which on Linux include all orphans below it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Children {
    None,
    Running,
    MoreEnded,
}

/// How far the end has come.
enum Phase {
    Watching,
    /// Those that live were asked to end; at the deadline the rest is killed.
    Asked {
        kill_at: Deadline,
    },
    Killing(Killing),
}

enum Agent {
    /// The inner keeper died before it could report the agent's pid.
    Unknown,
    Running(Pid),
    Ended {
        /// Still names the process group.
        pid: Pid,
        /// By a signal, so it restored nothing itself.
        killed: bool,
        /// Its end, not reported yet: usually nothing else is left, and each report wakes the engine.
        unreported: Option<KeeperReport>,
    },
}

impl Agent {
    fn pid(&self) -> Option<Pid> {
        match self {
            Self::Unknown => None,
            Self::Running(pid) | Self::Ended { pid, .. } => Some(*pid),
        }
    }

    fn take_unreported(&mut self) -> Option<KeeperReport> {
        match self {
            Self::Unknown | Self::Running(_) => None,
            Self::Ended { unreported, .. } => unreported.take(),
        }
    }
}

pub(super) struct Watch<'a> {
    /// None: the engine is dead.
    control: Option<&'a Control>,
    /// Ends with the outer keeper; none in the outer keeper itself.
    link: Option<UnixStream>,
    exits: ChildExits,
    agent: Agent,
    /// The agent's terminal, which is restored after it.
    terminal: Option<Terminal>,
    /// The processes that the agent left were asked to end.
    tools_asked: bool,
    grace: Duration,
    phase: Phase,
}

impl<'a> Watch<'a> {
    /// The outer keeper, which has no `link`, has inherited everything and ends it. The inner one may have
    /// died after its agent, so all processes are asked to end, not only the agent.
    pub(super) fn new(
        control: &'a Control,
        link: Option<UnixStream>,
        exits: ChildExits,
        agent: Option<Pid>,
        terminal: Option<Terminal>,
        grace: Duration,
    ) -> Self {
        let is_outer = link.is_none();
        let kill_at = Deadline::after(grace);
        let watch = Self {
            control: Some(control),
            link,
            exits,
            agent: agent.map_or(Agent::Unknown, Agent::Running),
            terminal,
            tools_asked: is_outer,
            grace,
            phase: match is_outer {
                true => Phase::Asked { kill_at },
                false => Phase::Watching,
            },
        };
        if is_outer {
            watch.ask_family();
        }
        watch
    }

    /// Returns when nothing is left, or only what cannot be ended.
    pub(super) fn run(mut self) {
        loop {
            self.exits.clear();
            let children = self.reap_children();
            if children == Children::None && platform::childless_is_done(self.agent.pid()) {
                break;
            }
            self.report_end();
            self.advance();
            if self.gave_up() {
                break;
            }
            self.listen(children);
        }
        if let Some(terminal) = self.terminal.take() {
            self.report_end();
            let agent_was_killed = !matches!(self.agent, Agent::Ended { killed: false, .. });
            terminal.restore(agent_was_killed, self.control.is_some());
        }
        let end = self.agent.take_unreported();
        self.tell(
            &end.into_iter()
                .chain([KeeperReport::Over])
                .collect::<Vec<_>>(),
        );
    }

    fn report_end(&mut self) {
        let end = self.agent.take_unreported();
        self.tell(end.as_slice());
    }

    fn reap_children(&mut self) -> Children {
        for _ in 0..REAPED_MAX {
            match reap() {
                Reaped::NoChildren => return Children::None,
                Reaped::AllRunning => return Children::Running,
                Reaped::One(pid, status) if matches!(self.agent, Agent::Running(agent) if agent == pid) =>
                {
                    self.agent = Agent::Ended {
                        pid,
                        killed: status.signaled(),
                        unreported: Some(KeeperReport::Ended(ChildEnd::of(status))),
                    };
                }
                Reaped::One(..) => {}
            }
        }
        Children::MoreEnded
    }

    fn advance(&mut self) {
        if matches!(self.agent, Agent::Ended { .. }) && !self.tools_asked {
            self.tools_asked = true;
            self.ask_family();
            self.ask(TOOLS_GRACE);
        }
        if matches!(self.phase, Phase::Asked { kill_at } if kill_at.passed()) {
            let shared = self.terminal.as_ref().map(Terminal::group);
            self.phase = Phase::Killing(Killing::new(shared));
        }
        if let Phase::Killing(killing) = &mut self.phase {
            killing.round(&platform::family(getpid(), self.agent.pid()));
        }
    }

    fn ask_family(&self) {
        for process in platform::family(getpid(), self.agent.pid()) {
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

    /// Asks only the agent's own group, or the agent alone if it is in another's group: an agent ends its tools
    /// itself, in its own order, and sees their ends.
    fn ask_agent(&self) {
        if let Agent::Running(agent) = self.agent {
            match &self.terminal {
                Some(_) => ask_to_go(agent),
                None => {
                    let _ = kill_process_group(agent, Signal::TERM);
                    let _ = kill_process_group(agent, Signal::CONT);
                }
            }
        }
    }

    fn gave_up(&self) -> bool {
        matches!(&self.phase, Phase::Killing(killing) if killing.gave_up())
    }

    /// Waits for an event or the next deadline, and does what engine and partner say.
    fn listen(&mut self, children: Children) {
        let until = match children {
            Children::MoreEnded => Some(Deadline::after(Duration::ZERO)),
            Children::None | Children::Running => self.next_deadline(),
        };
        let mut fds = vec![PollFd::new(&self.exits, PollFlags::IN)];
        fds.extend(
            self.control
                .map(|control| PollFd::new(control, PollFlags::IN)),
        );
        fds.extend(
            self.link
                .as_ref()
                .map(|link| PollFd::new(link, PollFlags::IN)),
        );
        // Without a working poll we can only check again.
        let _ = poll_until(&mut fds, until);
        drop(fds);
        self.hear_engine();
        self.hear_partner();
    }

    fn next_deadline(&self) -> Option<Deadline> {
        match &self.phase {
            Phase::Watching => None,
            Phase::Asked { kill_at } => Some(*kill_at),
            Phase::Killing(killing) => Some(killing.next_round),
        }
    }

    fn hear_engine(&mut self) {
        match self.control.map_or(Heard::Nothing, Control::hear) {
            Heard::Nothing => {}
            Heard::Terminate => self.ask(self.grace),
            Heard::Gone => {
                self.control = None;
                self.ask(self.grace);
            }
        }
    }

    /// The outer keeper never writes, so the link shows only its death.
    fn hear_partner(&mut self) {
        let Some(link) = &mut self.link else { return };
        match link.read(&mut [0]) {
            Err(error)
                if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {}
            Ok(_) | Err(_) => {
                self.link = None;
                self.tell(&[KeeperReport::Ended(ChildEnd::KeeperLost)]);
                self.ask(self.grace);
            }
        }
    }

    fn tell(&self, reports: &[KeeperReport]) {
        if let Some(control) = self.control {
            control.tell(reports);
        }
    }
}
