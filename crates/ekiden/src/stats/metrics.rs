//! How well sessions end and begin again: the success metrics of context checkpoints, each beside its target.
//!
//! "Reduced" and "increased" need something to compare with: sessions from before `ekiden setup`.

use std::collections::BTreeSet;

use ekiden_core::effect::{Effect, RelayEffect};
use ekiden_core::event::{AttemptEvent, Event, RelayEvent};
use ekiden_core::guard::checkpoint::CheckpointReason;
use ekiden_core::guard::watch::{WatchEvent, WatchRecord};
use ekiden_core::ids::{SessionNumber, StageId};
use ekiden_core::record::Record;
use ekiden_core::time::Timestamp;
use ekiden_wire::requests::Requests;
use serde::Serialize;

use crate::output::sessions::{Session, Sessions};

/// Some of all.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Share {
    pub part: u64,
    pub of: u64,
}

/// Sessions of the client, by their transcripts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct ClientSessions {
    pub sessions: u64,
    /// Sessions that were compacted though nobody asked for it.
    pub compacted: u64,
    /// What their compactions dropped.
    pub lost_tokens: u64,
}

/// The sessions of a run, each counted once however many attempts it took.
#[derive(Debug, Default)]
pub struct RunSessions {
    begun: BTreeSet<(StageId, SessionNumber)>,
    compacted: BTreeSet<(StageId, SessionNumber)>,
}

/// What runs and watched sessions show.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Metrics {
    pub before_setup: ClientSessions,
    pub since_setup: ClientSessions,
    /// Sessions that began from a handoff, and those of them that came to a handoff or an end of their own.
    pub resumes: Share,
    /// Items that sessions of runs ticked, of how many sessions that list items.
    pub items: Share,
    /// Checkpoints of watched sessions that a person asked for.
    pub asked_checkpoints: Share,
    /// Runs that are over and complete.
    pub complete: Share,
    /// Sessions of runs that were compacted.
    pub compacted: Share,
}

impl Share {
    fn count(&mut self, is_part: bool) {
        self.of += 1;
        self.part += u64::from(is_part);
    }

    /// Nothing where there is nothing to take a share of.
    pub fn percent(self) -> Option<u64> {
        (self.part * 100).checked_div(self.of)
    }
}

impl ClientSessions {
    /// What is lost to compactions by an average session.
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
                | WatchEvent::Told
                | WatchEvent::Filled
                | WatchEvent::Deferred { .. }
                | WatchEvent::Expected { .. }
                | WatchEvent::Refused
                | WatchEvent::Released
                | WatchEvent::Reminded
                | WatchEvent::PhaseNamed { .. } => {}
            }
        }
        if loaded {
            self.resumes.count(consumed);
        }
    }

    /// Takes in the sessions of a relay that are over.
    pub fn of_relay(&mut self, sessions: &Sessions) {
        let ended = sessions.all.iter().filter(|session| session.end.is_some());
        let mut before: Option<&Session> = None;
        for session in ended {
            if before.is_some_and(|before| before.notes.is_some()) {
                self.resumes
                    .count(!session.is_rescued && session.notes.is_some());
            }
            if let Some((done, _)) = session.items {
                let known = before.and_then(|before| before.items);
                let done_before = known.map_or(0, |(done, _)| done);
                self.items.part += done.saturating_sub(done_before) as u64;
                self.items.of += 1;
            }
            before = Some(session);
        }
    }

    /// Takes in all sessions of a run.
    pub fn of_sessions(&mut self, sessions: &RunSessions) {
        self.compacted.part += sessions.compacted.len() as u64;
        self.compacted.of += sessions.begun.len() as u64;
    }

    /// Takes in a run that is over.
    pub fn of_run(&mut self, is_complete: bool) {
        self.complete.count(is_complete);
    }
}

impl RunSessions {
    /// Takes in the next record of the run.
    pub fn take(&mut self, record: &Record) {
        if let Event::Stage {
            stage,
            event: RelayEvent::Attempt { attempt, event },
        } = &record.event
            && matches!(event, AttemptEvent::Compacted { .. })
        {
            self.compacted.insert((stage.clone(), attempt.session));
        }
        for effect in &record.effects {
            if let Effect::Stage { stage, effect } = effect
                && let RelayEffect::StartAttempt(start) = effect
            {
                self.begun.insert((stage.clone(), start.attempt.session));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use ekiden_core::ids::AttemptId;
    use ekiden_core::record::LOGIC;

    use super::*;

    // shows: UIX-09
    #[test]
    fn a_session_that_was_compacted_twice_is_one_session() {
        let (stage, attempt) = (StageId::only(), AttemptId::first(SessionNumber::FIRST));
        let compacted = Record {
            seq: 1,
            time: Timestamp(0),
            logic: LOGIC,
            event: Event::Stage {
                stage,
                event: RelayEvent::Attempt {
                    attempt,
                    event: AttemptEvent::Compacted { usage_tokens: 0 },
                },
            },
            effects: Vec::new(),
        };
        let mut sessions = RunSessions::default();
        sessions.take(&compacted);
        sessions.take(&compacted);
        let mut metrics = Metrics::default();
        metrics.of_sessions(&sessions);
        assert_eq!(metrics.compacted.part, 1);
    }
}
