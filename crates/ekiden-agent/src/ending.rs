//! Sends SIGKILL to a family of processes, in rounds, until none is left.
//!
//! One round is not enough: while it goes through a list of processes, those on the list may fork. So each
//! round also kills whole process groups, which the kernel does in one step that no fork can escape, and rounds
//! repeat until no process is left. A process that waits in the kernel (for a dead disk) or belongs to another
//! user (started with sudo) cannot be ended. The rounds give up after some time without a new process.

use std::collections::BTreeSet;
use std::time::Duration;

use rustix::process::{Pid, Signal, getpgrp, kill_process, kill_process_group};

use crate::unix::Deadline;

/// How long after the last newly seen process the rounds give up. Every process that we may kill is
/// dead within milliseconds.
const GIVE_UP: Duration = Duration::from_secs(2);
/// The pause before the second round, unless a child's end comes first; doubled each time.
const PAUSE_FIRST: Duration = Duration::from_millis(5);
/// The longest pause between two rounds.
const PAUSE_MAX: Duration = Duration::from_millis(200);

/// A process, as a system listing shows it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Process {
    pub(crate) pid: Pid,
    /// Its process group, unless that is outside our pid namespace.
    pub(crate) group: Option<Pid>,
    /// It is dead, and its parent has not waited for it yet.
    pub(crate) zombie: bool,
}

/// The state between two rounds.
#[derive(Debug)]
pub(crate) struct Killing {
    /// A group that other processes are in as well: only the family in it is killed, one by one.
    shared: Option<Pid>,
    seen: BTreeSet<i32>,
    pause: Duration,
    pub(crate) next_round: Deadline,
    give_up: Deadline,
}

impl Killing {
    pub(crate) fn new(shared: Option<Pid>) -> Self {
        Self {
            shared,
            seen: BTreeSet::new(),
            pause: PAUSE_FIRST,
            next_round: Deadline::after(Duration::ZERO),
            give_up: Deadline::after(GIVE_UP),
        }
    }

    /// Kills every living process of `family`, which was listed just now.
    pub(crate) fn round(&mut self, family: &[Process]) {
        let living = || family.iter().filter(|process| !process.zombie);
        living().for_each(|process| kill(process, self.shared));
        if living()
            .filter(|process| self.seen.insert(process.pid.as_raw_nonzero().get()))
            .count()
            > 0
        {
            self.pause = PAUSE_FIRST;
            self.give_up = Deadline::after(GIVE_UP);
        }
        self.next_round = Deadline::after(self.pause);
        self.pause = PAUSE_MAX.min(self.pause * 2);
    }

    /// Whether what is left cannot be ended.
    pub(crate) fn gave_up(&self) -> bool {
        self.give_up.passed()
    }
}

/// Kills a process and its group. A group with a descendant of the agent in it contains only such descendants,
/// since the agent has its own session. Two groups are exceptions: our own, and the one that an agent on a
/// terminal shares with the engine and with whatever the person started beside it.
fn kill(process: &Process, shared: Option<Pid>) {
    let is_theirs = |group: &Pid| !group.is_init() && *group != getpgrp() && Some(*group) != shared;
    if let Some(group) = process.group.filter(is_theirs) {
        // An error means that it is gone or that we may not kill it: the next round shows which.
        let _ = kill_process_group(group, Signal::KILL);
    }
    let _ = kill_process(process.pid, Signal::KILL);
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::{CommandExt, ExitStatusExt};
    use std::process::{Child, Command};

    use super::*;

    /// A process that no signal reaches: the highest pid there can be is four million.
    fn unreachable(number: i32) -> Process {
        Process {
            pid: Pid::from_raw(1_000_000_000 + number).expect("positive"),
            group: None,
            zombie: false,
        }
    }

    #[test]
    fn pauses_grow_until_a_new_process_is_seen() {
        let mut killing = Killing::new(None);
        for _ in 0..10 {
            killing.round(&[unreachable(1)]);
        }
        assert_eq!(killing.pause, PAUSE_MAX);
        killing.round(&[unreachable(1), unreachable(2)]);
        assert_eq!(killing.pause, PAUSE_FIRST * 2);
        assert!(!killing.gave_up());
    }

    #[test]
    fn the_dead_do_not_count() {
        let mut killing = Killing::new(None);
        killing.round(&[Process {
            zombie: true,
            ..unreachable(1)
        }]);
        assert!(killing.seen.is_empty());
    }

    // shows: AGT-02, RUN-10
    #[test]
    #[expect(
        clippy::disallowed_methods,
        reason = "a test kills what it starts itself"
    )]
    fn of_a_shared_group_only_the_family_is_killed() {
        let start = |group| {
            let mut sleep = Command::new("sleep");
            let child = sleep.arg("60").process_group(group).spawn();
            child.expect("there is a `sleep`")
        };
        let pid = |child: &Child| Pid::from_raw(child.id().cast_signed());
        let mut other = start(0);
        let group = pid(&other);
        let mut agent = start(other.id().cast_signed());
        let process = Process {
            pid: pid(&agent).expect("positive"),
            group,
            zombie: false,
        };
        Killing::new(group).round(&[process]);
        assert_eq!(agent.wait().expect("its end").signal(), Some(9));
        assert_eq!(other.try_wait().expect("its state"), None);
        Killing::new(None).round(&[process]);
        assert_eq!(other.wait().expect("its end").signal(), Some(9));
    }
}
