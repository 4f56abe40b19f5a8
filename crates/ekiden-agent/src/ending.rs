//! SIGKILL for a family of processes, in rounds, until none is left.
//!
//! One round is not enough: while it goes through a list of processes, those on it may fork. So
//! each round kills whole process groups too, which the kernel does in one step that no fork can
//! slip through, and rounds follow one another until no process is left. A process that
//! waits in the kernel (for a dead disk) or belongs to somebody else (started with sudo) cannot be ended;
//! after some time without a new process the rounds give up.

use std::collections::BTreeSet;
use std::time::Duration;

use rustix::process::{Pid, Signal, getpgrp, kill_process, kill_process_group};

use crate::unix::Deadline;

/// How long after the last process newly seen the rounds give up. All that we may kill are dead
/// within milliseconds.
const GIVE_UP: Duration = Duration::from_secs(2);
/// The pause before the second round, unless a child's end comes first; doubled each time.
const PAUSE_FIRST: Duration = Duration::from_millis(5);
/// The longest pause between two rounds.
const PAUSE_MAX: Duration = Duration::from_millis(200);

/// A process, as a listing of the system shows it.
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
    seen: BTreeSet<i32>,
    pause: Duration,
    pub(crate) next_round: Deadline,
    give_up: Deadline,
}

impl Killing {
    pub(crate) fn new() -> Self {
        Self {
            seen: BTreeSet::new(),
            pause: PAUSE_FIRST,
            next_round: Deadline::after(Duration::ZERO),
            give_up: Deadline::after(GIVE_UP),
        }
    }

    /// Kills every living process of `family`, which was listed just now.
    pub(crate) fn round(&mut self, family: &[Process]) {
        let living = || family.iter().filter(|process| !process.zombie);
        living().for_each(kill);
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

/// Kills a process and its group. A group that a descendant of the agent is in holds nothing but
/// such descendants, since the agent's session is its own; our own group is never meant.
fn kill(process: &Process) {
    if let Some(group) = process
        .group
        .filter(|group| !group.is_init() && *group != getpgrp())
    {
        // Errors say that it is gone or that we may not: the next round shows which.
        let _ = kill_process_group(group, Signal::KILL);
    }
    let _ = kill_process(process.pid, Signal::KILL);
}

#[cfg(test)]
mod tests {
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
        let mut killing = Killing::new();
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
        let mut killing = Killing::new();
        killing.round(&[Process {
            zombie: true,
            ..unreachable(1)
        }]);
        assert!(killing.seen.is_empty());
    }
}
