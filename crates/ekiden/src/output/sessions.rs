//! The sessions of a run as its log has them, for `sessions`, `show` and `diff`.
//!
//! A fold over the records, without IO. It holds every handoff of the run, which the log has anyway; so
//! these commands know of a session even where its archive is gone.

use ekiden_core::budget::Spend;
use ekiden_core::effect::{Effect, RelayEffect, StartAttempt};
use ekiden_core::ends::EndCause;
use ekiden_core::event::{
    AttemptEnded, Check, CheckOutcome, Event, RelayEvent, Survey, TaskOutcome,
};
use ekiden_core::ids::{AttemptId, RunId, StageId};
use ekiden_core::prompt::Notes;
use ekiden_core::record::Record;
use ekiden_core::relay::Relay;
use ekiden_core::run::Run;
use ekiden_core::time::{Millis, Timestamp};
use ekiden_report::timeline::Before;
use jiff::tz::TimeZone;

use super::entry::Entry;
use super::reporter::Reporter;
use super::session::{AttemptEnd, Left};

pub struct Sessions {
    pub reporter: Reporter,
    /// The stage that is asked for; any in a run of a single relay.
    stage: Option<StageId>,
    /// All sessions that began, in order.
    pub all: Vec<Session>,
    /// The last look at the work tree.
    survey: Option<Survey>,
}

/// A session, with the sums of its attempts.
#[derive(Default)]
pub struct Session {
    pub number: u32,
    /// When its first attempt was ordered.
    pub began: Timestamp,
    /// Its entries, in order.
    pub entries: Vec<(Timestamp, Entry)>,
    pub attempts: Vec<Attempt>,
    pub duration: Millis,
    pub tool_calls: u32,
    pub spend: Spend,
    /// Context use at the end of the last attempt that ended.
    pub usage_tokens: u64,
    pub percent: Option<u64>,
    /// What its last attempt left and why it ended, once that is over.
    pub end: Option<(Left, EndCause)>,
    /// It left no handoff, so ekiden wrote one.
    pub is_rescued: bool,
    /// The handoff as the next session reads it, or the rescue in its place.
    pub notes: Option<Notes>,
    /// Items of its handoff that are done and open, if it lists them.
    pub items: Option<(usize, usize)>,
    /// The last verification after it that came to an end.
    pub check: Option<Check>,
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
            all: Vec::new(),
            survey: None,
        }
    }

    /// Takes in the next record; `run` stands as it is after it.
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
                self.started(record.time, start);
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

    pub fn get(&self, number: u32) -> Option<&Session> {
        let mut all = self.all.iter();
        all.find(|session| session.number == number)
    }

    pub fn before(&self, session: &Session) -> Option<&Session> {
        let mut all = self.all.iter();
        all.rfind(|other| other.number < session.number)
    }

    fn is_asked(&self, stage: &StageId) -> bool {
        self.stage.as_ref().is_none_or(|asked| asked == stage)
    }

    fn at(&mut self, number: u32) -> Option<&mut Session> {
        let mut all = self.all.iter_mut();
        all.rfind(|session| session.number == number)
    }

    fn started(&mut self, at: Timestamp, start: &StartAttempt) {
        let number = start.attempt.session.get();
        let session = match self.all.iter().position(|one| one.number == number) {
            Some(known) => &mut self.all[known],
            None => self.all.push_mut(Session {
                number,
                began: at,
                survey_before: self.survey.clone(),
                ..Session::default()
            }),
        };
        session.end = None;
        session.attempts.push(Attempt {
            id: start.attempt,
            prompt: start.prompt.clone(),
            ended: None,
        });
    }

    /// `before` is how the relay stood before the event: only that shows whether something was looked at
    /// before a session or after it, and after which.
    fn of_relay(&mut self, before: Before, relay: &Relay, event: &RelayEvent) {
        let reviewed = match before {
            Before::Reviewing { session, .. } => self.at(session),
            Before::Preparing | Before::Otherwise => None,
        };
        if let RelayEvent::Task { outcome, .. } = event {
            if let TaskOutcome::Surveyed { survey: Ok(_) } = outcome {
                let survey = relay.seen.survey.clone();
                if let Some(session) = reviewed {
                    session.survey.clone_from(&survey);
                }
                self.survey = survey;
            } else if let TaskOutcome::Verified { check } = outcome
                // Cancelled when the run was stopped: it says nothing, and a resume runs it again.
                && check.outcome != CheckOutcome::Cancelled
                && let Some(session) = reviewed
            {
                session.check = Some(check.clone());
            }
        }
        if let Some((attempt, ended)) = event.ended() {
            self.attempt_ended(relay, attempt, ended);
        }
        if let Some(last) = relay.last.as_ref()
            && let Some(session) = self.at(last.session.get())
            && session.notes.is_none()
        {
            session.notes = Some(last.notes.clone());
        }
    }

    fn attempt_ended(&mut self, relay: &Relay, id: AttemptId, ended: &AttemptEnded) {
        let (end, counters) = (AttemptEnd::of(relay, id.session, ended), &ended.counters);
        let stage = &relay.stage.id;
        let percent = self.reporter.percent(stage, counters.usage_tokens);
        let Some(session) = self.at(id.session.get()) else {
            return;
        };
        session.is_rescued |= end.is_rescued;
        let (Ok(left) | Err(left)) = end.handoff.as_ref().map_err(|left| &**left);
        let items = left.open_items.as_ref();
        session.items = items.map(|items| (items.done.len(), items.open.len()));
        session.end = Some((end.left, ended.cause.clone()));
        session.duration.0 += counters.duration.0;
        session.tool_calls += counters.tool_calls;
        session.spend = session.spend.plus(counters.spend);
        session.usage_tokens = counters.usage_tokens;
        session.percent = percent;
        let mut attempts = session.attempts.iter_mut();
        if let Some(attempt) = attempts.rfind(|attempt| attempt.id == id) {
            attempt.ended = Some(Box::new(ended.clone()));
        }
    }
}

impl Session {
    /// It had said that all is done, and the verification does not pass.
    pub fn is_vetoed(&self) -> bool {
        matches!(self.end, Some((Left::Completion, _)))
            && self.check.as_ref().is_some_and(|check| !check.passed())
    }
}
