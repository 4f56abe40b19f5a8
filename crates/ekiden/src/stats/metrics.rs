//! How well sessions end and start again: the success metrics of context checkpoints, each with its target.
//!
//! "Reduced" and "increased" need something to compare with: sessions from before `ekiden setup`.

use std::collections::BTreeSet;

use ekiden_core::guard::checkpoint::CheckpointReason;
use ekiden_core::guard::watch::{WatchEvent, WatchRecord};
use ekiden_core::outcome::Outcome;
use ekiden_core::time::Timestamp;
use ekiden_report::Timeline;
use ekiden_report::timeline::{Kind, Left, Problem, Session};
use ekiden_wire::requests::Requests;
use serde::Serialize;

/// Some of all.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Fraction {
    pub part: u64,
    pub of: u64,
}

/// Sessions of the client, by their transcripts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct ClientSessions {
    pub sessions: u64,
    /// Sessions that were compacted although nobody asked for it.
    pub compacted: u64,
    /// What their compactions dropped.
    pub lost_tokens: u64,
    /// Items that they ticked, and how many of them kept a list.
    pub items: Fraction,
}

/// What runs and watched sessions show.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Metrics {
    pub before_setup: ClientSessions,
    pub since_setup: ClientSessions,
    /// Checkpoints of watched sessions that a person asked for.
    pub asked_checkpoints: Fraction,
    /// All runs, and watched sessions that were given a handoff.
    #[serde(flatten)]
    pub runs: RunMetrics,
    /// Runs through a list, as `ekiden ralph run` starts them.
    pub ralph: RunMetrics,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct RunMetrics {
    /// Sessions that began from a handoff, and how many of them reached a handoff or an end.
    pub resumes: Fraction,
    /// Items that sessions ticked, and how many sessions list items.
    pub items: Fraction,
    /// Runs that are over and complete.
    pub complete: Fraction,
    /// Sessions that were compacted.
    pub compacted: Fraction,
}

impl Fraction {
    pub(super) fn count(&mut self, is_part: bool) {
        self.of += 1;
        self.part += u64::from(is_part);
    }

    /// `None` if there is nothing to take a share of.
    pub fn percent(self) -> Option<u64> {
        (self.part * 100).checked_div(self.of)
    }
}

impl ClientSessions {
    /// How much an average session loses to compactions.
    pub fn lost_by_session(self) -> Option<u64> {
        self.lost_tokens.checked_div(self.sessions)
    }

    fn take(&mut self, requests: &Requests) {
        let compactions = requests.compactions.iter();
        let automatic: Vec<_> = compactions.filter(|one| one.automatic).collect();
        self.sessions += 1;
        self.compacted += u64::from(!automatic.is_empty());
        let lost = automatic
            .iter()
            .map(|one| one.before_tokens.saturating_sub(one.after_tokens));
        self.lost_tokens += lost.sum::<u64>();
        if let Some(done) = requests.items_done {
            self.items.part += done;
            self.items.of += 1;
        }
    }
}

impl Metrics {
    /// Takes in a session of the client. Without `setup` there is nothing before it.
    pub fn of_client(&mut self, requests: &Requests, setup: Option<Timestamp>) {
        let Some(last) = requests.all.last() else {
            return;
        };
        match setup.is_some_and(|setup| last.at < setup) {
            true => self.before_setup.take(requests),
            false => self.since_setup.take(requests),
        }
    }

    /// Takes in the log of a watched session.
    pub fn of_watched(&mut self, records: &[WatchRecord]) {
        let mut loaded = false;
        let mut consumed = false;
        for record in records {
            match &record.event {
                WatchEvent::Taken(taken) => self
                    .asked_checkpoints
                    .count(taken.reason == CheckpointReason::Manual),
                WatchEvent::Loaded { .. } => loaded = true,
                WatchEvent::Consumed => consumed = true,
                WatchEvent::Crossed { .. }
                | WatchEvent::Rearmed { .. }
                | WatchEvent::Due { .. }
                | WatchEvent::Waited
                | WatchEvent::Tested { .. }
                | WatchEvent::Writing { .. }
                | WatchEvent::Failed { .. }
                | WatchEvent::Announced
                | WatchEvent::Filled { .. }
                | WatchEvent::Deferred { .. }
                | WatchEvent::Expected { .. }
                | WatchEvent::Refused
                | WatchEvent::Released
                | WatchEvent::Reminded
                | WatchEvent::PhaseNamed { .. } => {}
            }
        }
        if loaded {
            self.runs.resumes.count(consumed);
        }
    }

    /// Takes in a run as far as it went. If it worked through a list, `list` has the done items and the number of its
    /// sessions.
    pub fn of_run(
        &mut self,
        timeline: &Timeline,
        outcome: Option<&Outcome>,
        list: Option<Fraction>,
    ) {
        self.runs.take(timeline, outcome, list);
        if list.is_some() {
            self.ralph.take(timeline, outcome, list);
        }
    }
}

impl RunMetrics {
    fn take(&mut self, timeline: &Timeline, outcome: Option<&Outcome>, list: Option<Fraction>) {
        for stage in &timeline.stages {
            let before = list.is_none().then_some(timeline.items_before);
            self.of_sessions(&stage.sessions, before);
        }
        if let Some(Fraction { part, of }) = list {
            self.items.part += part;
            self.items.of += of;
        }
        self.compacted.part += compacted(&timeline.problems);
        self.compacted.of += timeline.sessions().count() as u64;
        // An imported run is over before it begins.
        if let Some(outcome) = outcome.filter(|_| timeline.begun() > 0) {
            let is_done = matches!(outcome, Outcome::Undelivered { .. }) || outcome.is_complete();
            self.complete.count(is_done);
        }
    }

    /// Takes in the sessions of a relay that are over. If their lists count, `done` is how many items were
    /// done before the first. A reviewer ticks none, and a session that lists no items leaves them
    /// unchanged.
    fn of_sessions(&mut self, sessions: &[Session], mut done: Option<usize>) {
        let ended = sessions.iter().filter(|session| session.end().is_some());
        for (place, session) in ended.enumerate() {
            if place > 0 && !session.is_review {
                let is_left = session.left.is_some_and(|left| left != Left::Nothing);
                self.resumes.count(is_left && !session.is_rescued);
            }
            let items = session.items.filter(|counts| *counts != (0, 0));
            if let (Some((now, _)), Some(before), false) = (items, done, session.is_review) {
                self.items.part += now.saturating_sub(before) as u64;
                self.items.of += 1;
                done = Some(now);
            }
        }
    }
}

/// The sessions that were compacted, each once.
fn compacted(problems: &[Problem]) -> u64 {
    let compactions = problems.iter().filter(|one| one.kind == Kind::Compaction);
    let sessions: BTreeSet<_> = compactions.map(|one| (one.stage, one.session)).collect();
    sessions.len() as u64
}

#[cfg(test)]
mod tests {
    use ekiden_core::ends::EndCause;
    use ekiden_core::event::Counters;
    use ekiden_report::timeline::{Attempt, End};
    use ekiden_wire::requests::{Compaction, Request};

    use super::*;

    // shows: UIX-09
    #[test]
    fn what_ended_before_setup_is_what_later_sessions_are_compared_with() {
        let session = |last, lost: u64, items_done| Requests {
            all: vec![Request {
                at: Timestamp(last),
                ..Request::default()
            }],
            compactions: vec![
                Compaction {
                    at: Timestamp(last),
                    automatic: true,
                    before_tokens: 1_000 + lost,
                    after_tokens: 1_000,
                },
                Compaction {
                    at: Timestamp(last),
                    automatic: false,
                    before_tokens: 90_000,
                    after_tokens: 1,
                },
            ],
            items_done,
            ..Requests::default()
        };
        let mut metrics = Metrics::default();
        let setup = Some(Timestamp(100));
        metrics.of_client(&session(99, 40_000, Some(3)), setup);
        metrics.of_client(&session(98, 20_000, None), setup);
        metrics.of_client(&session(100, 6_000, Some(5)), setup);
        metrics.of_client(&Requests::default(), setup);
        let before = metrics.before_setup;
        assert_eq!((before.sessions, before.compacted), (2, 2));
        assert_eq!(before.lost_by_session(), Some(30_000));
        assert_eq!(before.items, Fraction { part: 3, of: 1 });
        assert_eq!(metrics.since_setup.lost_by_session(), Some(6_000));
        assert_eq!(metrics.since_setup.items, Fraction { part: 5, of: 1 });
        let mut never = Metrics::default();
        never.of_client(&session(99, 40_000, None), None);
        assert_eq!(never.before_setup, ClientSessions::default());
    }

    // shows: UIX-09
    #[test]
    fn a_session_that_was_compacted_twice_is_one_session() {
        let problem = |stage, session, kind| Problem {
            at: Timestamp(0),
            stage: Some(stage),
            session: Some(session),
            kind,
            why: String::new(),
        };
        let all = [
            problem(0, 1, Kind::Compaction),
            problem(0, 1, Kind::Compaction),
            problem(1, 1, Kind::Compaction),
            problem(1, 2, Kind::Rescue),
        ];
        assert_eq!(compacted(&all), 2);
    }

    /// An attempt that has ended.
    fn over() -> Attempt {
        let end = End {
            at: Timestamp(0),
            cause: EndCause::Completed,
            counters: Counters::default(),
        };
        Attempt {
            number: 1,
            is_heard: true,
            end: Some(end),
            ..Attempt::default()
        }
    }

    // shows: UIX-09
    #[test]
    fn an_item_counts_for_the_session_that_ticked_it() {
        let session = |items, is_review| Session {
            items,
            is_review,
            attempts: vec![over()],
            ..Session::default()
        };
        let sessions = [
            session(Some((3, 7)), false),
            session(None, false),
            session(Some((0, 0)), false),
            session(Some((0, 0)), true),
            session(Some((5, 5)), false),
        ];
        let mut runs = RunMetrics::default();
        runs.of_sessions(&sessions, Some(2));
        assert_eq!(runs.items, Fraction { part: 3, of: 2 });
        let mut ralph = RunMetrics::default();
        ralph.of_sessions(&sessions, None);
        assert_eq!(ralph.items, Fraction::default());
        assert_eq!(ralph.resumes.of, 3);
    }
}
