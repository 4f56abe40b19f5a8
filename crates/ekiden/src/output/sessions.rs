//! The sessions of a run, for `sessions`, `show` and `diff`: the timeline, plus the long texts that it
//! leaves out.
//!
//! This module keeps whole handoffs, which the log has anyway; so these commands know about a session even
//! if its archive is gone.

use ekiden_core::effect::{Effect, RelayEffect, StartAttempt};
use ekiden_core::ends::EndCause;
use ekiden_core::event::{AttemptEnded, Event, RelayEvent, Survey, TaskOutcome};
use ekiden_core::ids::{AttemptId, RunId, StageId};
use ekiden_core::prompt::Notes;
use ekiden_core::record::Record;
use ekiden_core::relay::Relay;
use ekiden_core::run::Run;
use ekiden_core::time::Timestamp;
use ekiden_report::timeline::{self, Before};
use jiff::tz::TimeZone;

use super::entry::Entry;
use super::reporter::Reporter;
use super::session::Left;

pub struct Sessions {
    pub reporter: Reporter,
    /// The requested stage; any in a run with a single relay.
    stage: Option<StageId>,
    /// One for each session of the timeline, in the same order.
    kept: Vec<SessionParts>,
    /// The last look at the work tree.
    survey: Option<Survey>,
}

#[derive(Clone, Copy)]
pub struct Session<'a> {
    pub told: &'a timeline::Session,
    pub kept: &'a SessionParts,
}

/// What the timeline leaves out.
#[derive(Default)]
pub struct SessionParts {
    pub number: u32,
    pub entries: Vec<(Timestamp, Entry)>,
    pub attempts: Vec<Attempt>,
    /// Context use at the end of the last attempt that ended, by the window as known then.
    pub percent: Option<u64>,
    /// The handoff as the next session reads it, or the rescue handoff in its place.
    pub notes: Option<Notes>,
    /// The work tree when it began.
    pub survey_before: Option<Survey>,
    /// The work tree when it was over.
    pub survey: Option<Survey>,
}

pub struct Attempt {
    pub id: AttemptId,
    /// SHA-256 of its prompt.
    pub prompt: String,
    pub ended: Option<Box<AttemptEnded>>,
}

impl Sessions {
    pub fn new(ids: Vec<RunId>, stage: Option<StageId>) -> Self {
        Self {
            reporter: Reporter::new(ids, TimeZone::system()),
            stage,
            kept: Vec::new(),
            survey: None,
        }
    }

    /// Takes in the next record; `run` is the state after it.
    pub fn take(&mut self, record: &Record, run: &Run) {
        let entries = self.reporter.entries(record, run);
        if let Event::Stage { stage, event } = &record.event
            && self.is_asked(stage)
            && let Some(relay) = run.relay(stage)
        {
            self.of_relay(self.reporter.before(stage), relay, event);
        }
        for effect in &record.effects {
            if let Effect::Stage { stage, effect } = effect
                && let RelayEffect::StartAttempt(start) = effect
                && self.is_asked(stage)
            {
                self.started(start);
            }
        }
        for entry in entries {
            let stage = entry.stage.as_ref();
            if stage.is_none_or(|stage| self.is_asked(stage))
                && let Some(session) = entry.session.and_then(|number| self.at(number))
            {
                session.entries.push((record.time, entry));
            }
        }
    }

    /// All sessions that began, in order.
    pub fn all(&self) -> impl DoubleEndedIterator<Item = Session<'_>> {
        let stages = self
            .reporter
            .timeline
            .as_ref()
            .map(|told| told.stages.iter());
        let stage = stages.and_then(|mut all| all.find(|stage| self.is_asked(&stage.id)));
        let told = stage.map_or(&[][..], |stage| &stage.sessions).iter();
        told.zip(&self.kept)
            .map(|(told, kept)| Session { told, kept })
    }

    pub fn get(&self, number: u32) -> Option<Session<'_>> {
        self.all().find(|session| session.kept.number == number)
    }

    pub fn before(&self, session: &SessionParts) -> Option<&SessionParts> {
        let mut kept = self.kept.iter();
        kept.rfind(|other| other.number < session.number)
    }

    fn is_asked(&self, stage: &StageId) -> bool {
        self.stage.as_ref().is_none_or(|asked| asked == stage)
    }

    fn at(&mut self, number: u32) -> Option<&mut SessionParts> {
        let mut all = self.kept.iter_mut();
        all.rfind(|session| session.number == number)
    }

    fn started(&mut self, start: &StartAttempt) {
        let number = start.attempt.session.get();
        if self.kept.last().is_none_or(|last| last.number != number) {
            self.kept.push(SessionParts {
                number,
                survey_before: self.survey.clone(),
                ..SessionParts::default()
            });
        }
        if let Some(session) = self.kept.last_mut() {
            session.attempts.push(Attempt {
                id: start.attempt,
                prompt: start.prompt.clone(),
                ended: None,
            });
        }
    }

    /// `before` is the state of the relay before the event: only that shows whether the tree was looked at
    /// before a session or after it, and after which.
    fn of_relay(&mut self, before: Before, relay: &Relay, event: &RelayEvent) {
        if let RelayEvent::Task { outcome, .. } = event
            && let TaskOutcome::Surveyed { survey: Ok(_) } = outcome
        {
            let survey = &relay.seen.survey;
            // Once a reviewer has come after it, the tree holds what that one left, too.
            if let Before::Reviewing { session, .. } = before
                && let Some(last) = self.kept.last_mut()
                && last.number == session
            {
                last.survey.clone_from(survey);
            }
            self.survey.clone_from(survey);
        }
        if let Some((attempt, ended)) = event.ended() {
            self.attempt_ended(&relay.stage.id, attempt, ended);
        }
        if let Some(last) = relay.last.as_ref()
            && let Some(session) = self.at(last.session.get())
            && session.notes.is_none()
        {
            session.notes = Some(last.notes.clone());
        }
    }

    fn attempt_ended(&mut self, stage: &StageId, id: AttemptId, ended: &AttemptEnded) {
        let percent = self.reporter.percent(stage, ended.counters.usage_tokens);
        let Some(session) = self.at(id.session.get()) else {
            return;
        };
        session.percent = percent;
        let mut attempts = session.attempts.iter_mut();
        if let Some(attempt) = attempts.rfind(|attempt| attempt.id == id) {
            attempt.ended = Some(Box::new(ended.clone()));
        }
    }
}

impl Session<'_> {
    /// What its last attempt left and why it ended, once it is over.
    pub fn left(&self) -> Option<(Left, &EndCause)> {
        Some((self.told.left?, &self.told.end()?.cause))
    }

    /// It said that everything is done, but the verification does not pass.
    pub fn is_vetoed(&self) -> bool {
        matches!(self.left(), Some((Left::Completion, _)))
            && self
                .told
                .check
                .as_ref()
                .is_some_and(|check| !check.passed())
    }
}
