//! What the log says of each session: the story's news sorted by session, with what lies behind them.
//!
//! A fold without IO, for `sessions`, `show` and `diff`. It holds every handoff of the run, which the log
//! has anyway; so these commands tell of a session even where its archive is gone.

use ekiden_core::effect::{Effect, RelayEffect};
use ekiden_core::ends::EndCause;
use ekiden_core::event::{Event, RelayEvent, Survey, Traces};
use ekiden_core::handoff::HandoffFiles;
use ekiden_core::ids::{AttemptNumber, SessionNumber, StageId};
use ekiden_core::prompt::Notes;
use ekiden_core::record::Record;
use ekiden_core::run::Run;
use ekiden_core::time::{Millis, Timestamp};

use super::news::{AttemptNews, CheckNews, HandoffNews, News};
use super::story::Story;
use super::trouble::Trouble;

/// The sessions of a run so far.
#[derive(Debug, Default)]
pub struct Account {
    story: Story,
    /// The stage that is told of; any in a run of a single relay.
    stage: Option<StageId>,
    sessions: Vec<Session>,
    /// The work tree before session 1.
    first_survey: Option<Survey>,
}

/// One session.
#[derive(Debug)]
pub struct Session {
    /// Its number.
    pub number: SessionNumber,
    /// What there is to tell of it, in order.
    pub told: Vec<(Timestamp, News)>,
    /// Its attempts.
    pub attempts: Vec<Attempt>,
    /// The handoff as the next session reads it, or the rescue in its place.
    pub notes: Option<Notes>,
    /// The end of what the verification wrote.
    pub check_tail: String,
    /// The work tree when it was over.
    pub survey: Option<Survey>,
}

/// One attempt at a session.
#[derive(Debug)]
pub struct Attempt {
    /// Its number.
    pub number: AttemptNumber,
    /// SHA-256 of its prompt.
    pub prompt: String,
    /// What it left, once it was over.
    pub left: Option<Leavings>,
}

/// What an attempt left.
#[derive(Debug)]
pub struct Leavings {
    /// The handoff directory.
    pub files: HandoffFiles,
    /// The last things seen.
    pub traces: Traces,
}

impl Account {
    /// An account of one stage of a plan.
    #[must_use]
    pub fn of(stage: Option<StageId>) -> Self {
        Self { stage, ..Self::default() }
    }

    fn tells_of(&self, stage: &StageId) -> bool {
        self.stage.as_ref().is_none_or(|known| known == stage)
    }

    /// Takes in the next record; `run` stands as it is after it.
    pub fn take(&mut self, record: &Record, run: &Run) {
        let told = self.story.tell(record, run);
        for effect in &record.effects {
            if let Effect::Stage { stage, effect: RelayEffect::StartAttempt(start) } = effect
                && self.tells_of(stage)
            {
                let (number, prompt) = (start.attempt.attempt, start.prompt.clone());
                self.at(start.attempt.session).attempts.push(Attempt { number, prompt, left: None });
            }
        }
        if let Event::Stage { stage, event } = &record.event
            && self.tells_of(stage)
        {
            self.of_relay(event);
        }
        for told in told {
            if let Some(session) = told.news.session().and_then(|number| SessionNumber::try_from(number).ok())
                && told.stage.as_ref().is_none_or(|stage| self.tells_of(stage))
            {
                self.at(session).told.push((record.time, told.news));
            }
        }
        let stage = self.stage.clone();
        for (_, relay) in run.relays().filter(|(id, _)| stage.as_ref().is_none_or(|stage| stage == *id)) {
            if let Some(last) = relay.last()
                && let Some(session) =
                    self.sessions.iter_mut().rfind(|session| session.number == last.session)
                && session.notes.is_none()
            {
                session.notes = Some(last.notes.clone());
            }
        }
    }

    /// What went wrong so far.
    #[must_use]
    pub fn trouble(&self) -> &Trouble {
        self.story.trouble()
    }

    /// All sessions that began, in order.
    #[must_use]
    pub fn sessions(&self) -> &[Session] {
        &self.sessions
    }

    /// One session.
    #[must_use]
    pub fn session(&self, number: u32) -> Option<&Session> {
        self.sessions.iter().find(|session| session.number.get() == number)
    }

    /// The session before one.
    #[must_use]
    pub fn before(&self, session: &Session) -> Option<&Session> {
        self.sessions.iter().rfind(|other| other.number < session.number)
    }

    /// The work tree when a session began, if it was looked at.
    #[must_use]
    pub fn survey_before(&self, session: &Session) -> Option<&Survey> {
        match self.before(session) {
            Some(before) => before.survey.as_ref(),
            None => self.first_survey.as_ref(),
        }
    }

    fn of_relay(&mut self, event: &RelayEvent) {
        match (event, self.sessions.last_mut()) {
            (RelayEvent::Surveyed { survey: Ok(survey), .. }, None) => {
                self.first_survey = Some(survey.clone());
            }
            (RelayEvent::Surveyed { survey: Ok(survey), .. }, Some(session)) => {
                session.survey = Some(survey.clone());
            }
            (RelayEvent::Verified { check, .. }, Some(session)) => session.check_tail.clone_from(&check.tail),
            (RelayEvent::AttemptEnded(ended), Some(session)) => {
                if let Some(attempt) = session.attempts.last_mut() {
                    let (files, traces) = (ended.files.clone(), ended.traces.clone());
                    attempt.left = Some(Leavings { files, traces });
                }
            }
            (_, _) => {}
        }
    }

    fn at(&mut self, number: SessionNumber) -> &mut Session {
        let place = self.sessions.iter().rposition(|session| session.number == number);
        let place = place.unwrap_or_else(|| {
            self.sessions.push(Session::new(number));
            self.sessions.len() - 1
        });
        &mut self.sessions[place]
    }
}

impl Session {
    fn new(number: SessionNumber) -> Self {
        let (told, attempts) = (Vec::new(), Vec::new());
        Self { number, told, attempts, notes: None, check_tail: String::new(), survey: None }
    }

    /// When its first attempt was ordered.
    #[must_use]
    pub fn began(&self) -> Timestamp {
        self.told.first().map_or_else(Timestamp::default, |(at, _)| *at)
    }

    /// Its last attempt has not ended, as far as the log knows.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.attempts.last().is_none_or(|attempt| attempt.left.is_none())
    }

    /// How its attempts ended, in order.
    pub fn ends(&self) -> impl DoubleEndedIterator<Item = &AttemptNews> {
        self.told
            .iter()
            .filter_map(|(_, news)| if let News::AttemptEnded(end) = news { Some(end) } else { None })
    }

    /// How its last attempt ended.
    #[must_use]
    pub fn end(&self) -> Option<&AttemptNews> {
        self.ends().next_back().filter(|_| !self.is_open())
    }

    /// How long its attempts ran in all.
    #[must_use]
    pub fn duration(&self) -> Millis {
        Millis(self.ends().map(|end| end.duration.0).sum())
    }

    /// What its attempts cost in all, in millionths of a US dollar.
    #[must_use]
    pub fn cost_micro_usd(&self) -> u64 {
        self.ends().map(|end| end.cost_micro_usd).sum()
    }

    /// Part of that cost is an estimate.
    #[must_use]
    pub fn is_cost_estimated(&self) -> bool {
        self.ends().any(|end| end.estimated)
    }

    /// The calls of its attempts, if the agent tells of them.
    #[must_use]
    pub fn tool_calls(&self) -> Option<u32> {
        self.ends().map(|end| end.tool_calls).sum()
    }

    /// Its last handoff.
    #[must_use]
    pub fn handoff(&self) -> Option<&HandoffNews> {
        self.told
            .iter()
            .rev()
            .find_map(|(_, news)| if let News::Handoff(handoff) = news { Some(handoff) } else { None })
    }

    /// Why a rescue stands in place of its handoff, if one does.
    #[must_use]
    pub fn rescue(&self) -> Option<&EndCause> {
        self.told
            .iter()
            .rev()
            .find_map(|(_, news)| if let News::Rescue { cause, .. } = news { Some(cause) } else { None })
    }

    /// The last verification after it, and whether that vetoed its claim.
    #[must_use]
    pub fn check(&self) -> Option<(&CheckNews, bool)> {
        self.told.iter().rev().find_map(|(_, news)| {
            if let News::Check { check, veto, .. } = news { Some((check, *veto)) } else { None }
        })
    }
}
