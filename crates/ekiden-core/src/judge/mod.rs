//! Judges sessions: does the relay make progress, or does it only repeat itself?
//!
//! Three rules end a run that makes no progress; a person can resume it:
//!
//! | rule | what is compared | ends as |
//! |---|---|---|
//! | loop | the notes of a session with those of the last session that left any | stuck |
//! | no handoff | tree, verification and open items, after a session that left none that is valid | stuck |
//! | stall | tree, verification and open items with what they were before | stalled |
//!
//! ```text
//! a session is over ──► Motion: did anything move?  ──┬─► idle sessions in a row  ──► stalled
//!                  └──► Likeness: are the notes new? ─┴─► repeats in a row        ──► stuck
//! ```
//!
//! `docs/design/0006-judging-sessions.md` says when something **moved** and when notes **repeat**, and why. A session
//! that could not be observed is ignored: it counts neither as progress nor as a lack of it.
//!
//! In a list of items, a run sets an item aside that nobody finishes, and goes on with the next. So there these rules
//! wait for as many sessions as two items get: if two in a row lead nowhere, the items are not the reason.
//!
//! Invariants:
//! - A session's notes are compared with those of an earlier session, never with a copy of themselves. A
//!   rescue in between is skipped.
//! - These rules never end a run whose tree is always new.

mod likeness;
mod times;
mod warning;
pub mod weakened;

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::event::CheckOutcome;
use crate::ids::SessionNumber;
use crate::limits;
use crate::outcome::Outcome;
use crate::settings::Judging;

pub use likeness::{Likeness, Lines};
pub use times::without_times;
pub use warning::Warning;
pub use weakened::{WeakenedTest, Weakening, is_test_file, may_hold_tests, weakened_tests};

/// What is known about a finished session.
#[derive(Debug, Clone, Copy)]
pub struct Observed<'a> {
    pub session: SessionNumber,
    /// The tree's fingerprint, if it could be taken.
    pub tree: Option<&'a str>,
    pub commits: bool,
    /// The verification's result, if there is one.
    pub check: Option<&'a CheckOutcome>,
    pub open_items: Option<usize>,
    pub new_facts: usize,
    /// Its `PROGRESS.md` and `NEXT_PROMPT.md`, if it left them.
    pub pages: Option<(&'a str, &'a str)>,
    /// It left no valid handoff, though it did not crash.
    pub rescued: bool,
    /// No rule ends the run after fewer sessions.
    pub sessions_min: u32,
}

/// What follows from a session.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Judgement {
    pub warnings: Vec<Warning>,
    /// Notes in a row that repeated while nothing moved.
    pub repeats: u32,
    /// How the run ends, if it gets nowhere.
    pub standstill: Option<Outcome>,
}

/// Notes that are almost the same as earlier ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Repeat {
    /// The session whose notes these are like.
    pub of: SessionNumber,
    /// How much of them is the same.
    pub percent: u8,
    /// Comparisons in a row that came out so while nothing moved; 0 if something did.
    pub in_a_row: u32,
}

/// The judge, with everything that it has seen so far.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Judge {
    pub rules: Judging,
    /// Lines of the prompt that an agent may have copied: they are not its own.
    given: Lines,
    /// Every tree that was seen, and the last one.
    trees: BTreeSet<String>,
    tree: Option<String>,
    /// Results and numbers of open items that were seen on the last tree.
    checks: BTreeSet<String>,
    opens: BTreeSet<usize>,
    open_items: Option<usize>,
    /// A session was judged, so there is something to compare with.
    begun: bool,
    idle: u32,
    last: Option<Left>,
    repeats: u32,
    /// Sessions in a row that were rescued and moved nothing.
    rescues: u32,
}

/// What the last session with a handoff left.
#[derive(Debug, Clone, PartialEq)]
struct Left {
    session: SessionNumber,
    progress: Lines,
    next_prompt: Lines,
    since: Motion,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Motion {
    None,
    Unknown,
    Some,
}

impl Judge {
    /// A judge for a relay. Text from the task does not count as an agent's own.
    pub fn new(rules: Judging, task: &str, tree: Option<&str>) -> Self {
        let mut judge = Self {
            rules,
            given: Lines::of(task),
            ..Self::default()
        };
        judge.take_tree(tree, false);
        judge
    }

    /// Somebody resumes the run after an end: what was counted is forgiven.
    pub fn forgive(&mut self) {
        self.idle = 0;
        self.repeats = 0;
        self.rescues = 0;
    }

    /// The tree is known, and it is the one that was seen last.
    pub fn is_unchanged(&self, tree: Option<&str>) -> bool {
        tree.is_some() && self.tree.as_deref() == tree
    }

    /// Judges a session. Each session once, in the order of their numbers.
    pub fn judge(&mut self, seen: &Observed<'_>) -> Judgement {
        let motion = self.motion(seen);
        match motion {
            Motion::None => self.idle += 1,
            Motion::Some => self.idle = 0,
            Motion::Unknown => {}
        }
        self.rescues = match seen.rescued && motion == Motion::None && !self.rules.research {
            true => self.rescues + 1,
            false => 0,
        };
        let repeat = self.compare(seen, motion);
        let repeats = repeat.map_or(0, |repeat| repeat.in_a_row);
        let is_on = self.rules.stall_sessions > 0;
        let sessions_max = self.rules.stall_sessions.max(seen.sessions_min);
        let repeats_max = limits::REPEATS_MAX.max(seen.sessions_min);
        let counts = is_on && !self.rules.research && self.idle > 0;
        let (session, in_a_row) = (seen.session, self.idle);
        let repeated = repeat.map(|repeat| Warning::Repeated {
            session,
            repeat,
            repeats_max,
        });
        // Notes that repeat are warning enough, if they end the run first.
        let stalls_first = repeats == 0 || sessions_max + repeats < repeats_max + in_a_row;
        let idle = (counts && stalls_first).then_some(Warning::Idle {
            session,
            in_a_row,
            sessions_max,
        });
        let stuck = repeat.filter(|_| repeats >= repeats_max);
        let rescues_max = limits::RESCUES_IDLE_MAX.max(seen.sessions_min);
        let rescues = self.rescues >= rescues_max && is_on;
        let standstill = match stuck {
            Some(Repeat { percent, .. }) => Some(Outcome::Stuck {
                repeats,
                percent: Some(percent),
            }),
            None if rescues => Some(Outcome::Stuck {
                repeats: self.rescues,
                percent: None,
            }),
            None => (counts && in_a_row >= sessions_max)
                .then_some(Outcome::Stalled { sessions: in_a_row }),
        };
        Judgement {
            warnings: repeated.into_iter().chain(idle).collect(),
            repeats,
            standstill,
        }
    }

    /// Whether anything moved since the session before. The first session is what later ones are
    /// compared with: to get to know the project is work, too.
    fn motion(&mut self, seen: &Observed<'_>) -> Motion {
        let known = self.tree.is_some() && seen.tree.is_some();
        let moved = [
            self.take_tree(seen.tree, seen.commits),
            seen.check
                .is_some_and(|check| self.checks.insert(key(check))),
            self.take_open_items(seen.open_items),
        ];
        match std::mem::replace(&mut self.begun, true) {
            false => Motion::Some,
            true if moved.contains(&true) => Motion::Some,
            true if known => Motion::None,
            true => Motion::Unknown,
        }
    }

    /// Whether the tree moved. What was seen on another tree is forgotten with it.
    fn take_tree(&mut self, tree: Option<&str>, commits: bool) -> bool {
        let Some(tree) = tree else { return false };
        let changed = self.tree.as_deref().is_some_and(|last| last != tree);
        let moved = self.trees.insert(tree.to_owned()) || commits;
        self.tree = Some(tree.to_owned());
        if changed && moved {
            self.checks.clear();
            self.opens.clear();
        }
        changed && moved
    }

    /// Whether the list got shorter than it ever was on this tree. A session without a list leaves it
    /// as it was.
    fn take_open_items(&mut self, open: Option<usize>) -> bool {
        let Some(open) = open else { return false };
        let before = self.open_items.replace(open);
        self.opens.insert(open) && before.is_some_and(|before| open < before)
    }

    fn compare(&mut self, seen: &Observed<'_>, motion: Motion) -> Option<Repeat> {
        let before = self.last.take();
        let Some((progress, next_prompt)) = seen.pages else {
            self.last = before.map(|left| Left {
                since: left.since.max(motion),
                ..left
            });
            return None;
        };
        let own = |text| Lines::of(text).without(&self.given);
        let now = Left {
            session: seen.session,
            progress: own(progress),
            next_prompt: own(next_prompt),
            since: Motion::None,
        };
        let compared = before.filter(|before| before.session < seen.session);
        let repeat = compared.and_then(|before| self.repeat(&before, &now, motion, seen.new_facts));
        self.last = Some(now);
        repeat
    }

    fn repeat(
        &mut self,
        before: &Left,
        now: &Left,
        motion: Motion,
        new_facts: usize,
    ) -> Option<Repeat> {
        let likeness = Likeness::of(&before.next_prompt, &now.next_prompt);
        let found = self.rules.research && (new_facts > 0 || found_more(before, now));
        let moved = if found {
            Motion::Some
        } else {
            before.since.max(motion)
        };
        let in_a_row = match (likeness.is_alike(), moved) {
            (true, Motion::None) => {
                self.repeats += 1;
                self.repeats
            }
            (true, Motion::Unknown) => 0,
            (true, Motion::Some) | (false, _) => {
                self.repeats = 0;
                0
            }
        };
        likeness.is_alike().then_some(Repeat {
            of: before.session,
            percent: likeness.percent(),
            in_a_row,
        })
    }
}

/// In research, what a session found shows in its words alone.
fn found_more(before: &Left, now: &Left) -> bool {
    let told = Likeness::of(&before.progress, &now.progress);
    !told.is_alike()
        || now.progress.grew(&before.progress)
        || now.next_prompt.grew(&before.next_prompt)
}

/// Results that say the same.
fn key(check: &CheckOutcome) -> String {
    match check {
        CheckOutcome::Passed => "passed".to_owned(),
        CheckOutcome::Failed { code } => format!("failed {code}"),
        CheckOutcome::TimedOut => "timed out".to_owned(),
        CheckOutcome::NotRun { .. } | CheckOutcome::NoProgram { .. } => "not run".to_owned(),
        CheckOutcome::Cancelled => "cancelled".to_owned(),
    }
}
