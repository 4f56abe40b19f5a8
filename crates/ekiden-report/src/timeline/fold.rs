//! The fold: one record after the other.

use std::collections::BTreeSet;

use ekiden_core::effect::{Effect, RelayEffect};
use ekiden_core::ends::{EndCause, EndClass};
use ekiden_core::event::{
    CheckOutcome, Elsewhere, Event, RelayEvent, Survey, TaskOutcome, WorktreeEvent,
};
use ekiden_core::handoff::Status;
use ekiden_core::ids::{AttemptId, StageId};
use ekiden_core::outcome::{Outcome, WaitCause};
use ekiden_core::prompt::Author;
use ekiden_core::record::Record;
use ekiden_core::relay::{Phase, Purpose, Relay};
use ekiden_core::run::Run;
use ekiden_core::settings::LimitsChanged;
use ekiden_core::steering::{Steering, StopRequest};
use ekiden_core::text::short;
use ekiden_core::time::Timestamp;

use super::problem::{of_commit, of_merge, of_warning};
use super::{
    Asked, Attempt, Kind, Problem, SURVEY_LINES_MAX, Session, TASK_CHARS_MAX, Timeline,
    WORDS_CHARS_MAX, Wait, Words,
};

/// A relay's state before a record. Only this shows which session a survey came after.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Before {
    /// It surveyed the tree before its first session.
    Preparing,
    /// It surveyed what a session left.
    Reviewing {
        session: u32,
        /// The session had claimed that all is done.
        claimed: bool,
    },
    #[default]
    Otherwise,
}

impl Before {
    fn of(relay: &Relay) -> Self {
        // Surveys around a reviewer check whether it wrote anything.
        let (Phase::Reviewing { after, .. }, Purpose::Work) = (&relay.phase, relay.purpose())
        else {
            return Self::Otherwise;
        };
        after
            .as_ref()
            .map_or(Self::Preparing, |end| Self::Reviewing {
                session: end.attempt.session.get(),
                claimed: matches!(&end.handoff, Ok(handoff) if handoff.status == Status::Complete),
            })
    }
}

impl Timeline {
    /// Folds the next record; `run` is the state after it.
    pub fn take(&mut self, record: &Record, run: &Run) {
        self.before.append(&mut self.after);
        self.pass_time(record, run);
        self.of_event(&record.event, run);
        for effect in &record.effects {
            self.of_effect(effect, run);
        }
        for stage in touched(record, run) {
            if let (Some(place), Some(relay)) = (self.place(&stage), run.relay(&stage)) {
                self.look_at(place, &stage, relay, run);
            }
        }
    }

    /// Time in which nobody worked on the run does not count. In a fleet, whose machines' clocks differ, what its
    /// server tells counts: a plan goes on while nobody follows it, and its result may be brought days later.
    fn pass_time(&mut self, record: &Record, run: &Run) {
        self.last = record.time;
        let is_of_fleet = run.header().fleet.is_some();
        let is_idle = match &record.event {
            Event::Stage { .. } if is_of_fleet => return,
            Event::Elsewhere {
                event: Elsewhere::Recorded { .. },
                ..
            } => return,
            Event::RunStarted(_) | Event::Continued(_) => true,
            Event::RunResumed(_) => !is_of_fleet,
            Event::Delivered { .. } => is_of_fleet,
            Event::Stage { event, .. } => matches!(
                event,
                RelayEvent::KnowledgeEdited { .. } | RelayEvent::ListEdited { .. }
            ),
            Event::LogicChanged { .. }
            | Event::LogAccepted { .. }
            | Event::UtcOffsetChanged { .. }
            | Event::Woke
            | Event::Worktree { .. }
            | Event::StopRequested(_)
            | Event::Steered(_)
            | Event::Elsewhere { .. } => false,
        };
        if self.ended.is_none() {
            let mut until = record.time;
            if is_idle {
                // If ekiden was killed, a wait went on without it.
                let open = self.waits.iter().filter(|wait| wait.over.is_none());
                let awaited = open.map(|wait| wait.until).max();
                let awaited = awaited.filter(|_| self.waits_now);
                until = until.min(awaited.unwrap_or(self.worked_until));
                let is_resumed = matches!(record.event, Event::RunResumed(_));
                self.killed = is_resumed.then_some(self.worked_until);
            }
            let passed = until.since(self.worked_until).0;
            self.worked.0 += passed;
            if self.waits_now {
                self.waited.0 += passed;
            }
        }
        self.worked_until = record.time;
        let waits =
            |relay: &Relay| matches!(relay.phase, Phase::Waiting { .. } | Phase::Paused { .. });
        let mut live = run.live().map(|(_, relay)| waits(relay)).peekable();
        self.waits_now = live.peek().is_some() && live.all(|waits| waits);
    }

    /// An attempt is over. If ekiden was killed meanwhile, the attempt worked on after the last record.
    pub(super) fn count_unseen(&mut self, began: Timestamp, until: Timestamp) {
        if let Some(killed) = self.killed.filter(|killed| began <= *killed) {
            self.worked.0 += until.since(killed).0;
            self.killed = Some(killed.max(until));
        }
    }

    fn of_event(&mut self, event: &Event, run: &Run) {
        match event {
            Event::RunResumed(resumed) => {
                self.ended = None;
                self.ask("resumed", "");
                if let Some(answer) = &resumed.answer {
                    self.ask("answered", &answer.words);
                }
                if let Some(task) = &resumed.task {
                    self.reword(&task.text);
                }
            }
            Event::Continued(continued) => {
                self.ended = None;
                self.ask("continued with follow-up work", "");
                self.reword(&continued.task.text);
            }
            Event::LogAccepted { seq } => {
                let why = format!("you accepted the log, which was changed from record {seq} on");
                self.note(None, None, Kind::Log, why);
            }
            Event::LogicChanged { seq } => {
                let why = format!("ekiden decides otherwise than before from record {seq} on");
                self.note(None, None, Kind::Log, why);
            }
            // An imported run stops by itself until somebody resumes it.
            Event::StopRequested(_) if run.header().imported.is_some() && self.asked.is_empty() => {
            }
            Event::StopRequested(request) => self.ask(stop(*request), ""),
            Event::Steered(steered) => self.steered(&steered.steering),
            Event::Delivered { delivery, .. } => self.delivery = Some(delivery.clone()),
            Event::Worktree { stage, event, .. } => self.of_worktree(stage, event),
            Event::Stage { stage, event } => {
                if let (Some(place), Some(relay)) = (self.place(stage), run.relay(stage)) {
                    self.of_relay(place, stage, relay, event);
                }
            }
            Event::RunStarted(_)
            | Event::UtcOffsetChanged { .. }
            | Event::Woke
            | Event::Elsewhere { .. } => {}
        }
    }

    fn steered(&mut self, steering: &Steering) {
        match steering {
            Steering::Stop { .. } => self.ask(steering.stop().map_or("stop", stop), ""),
            Steering::HandOff => self.ask("asked for the handoff", ""),
            Steering::Pause => self.ask("paused", ""),
            Steering::Unpause => self.ask("unpaused", ""),
            Steering::Instruct { words } => self.ask("told the next session", words),
            Steering::Answer { words, .. } => self.ask("answered", words),
            Steering::ChangeLimits(limits) => {
                let LimitsChanged { sessions_max, .. } = **limits;
                let sessions = sessions_max.map(|max| format!("sessions: {max}"));
                self.ask("changed limits", &sessions.unwrap_or_default());
            }
        }
    }

    fn of_worktree(&mut self, stage: &StageId, event: &WorktreeEvent) {
        let Some(place) = self.place(stage) else {
            return;
        };
        match event {
            WorktreeEvent::Prepared { worktree: Err(why) } => {
                let why = format!("it has no place to work: {why}");
                self.note(Some(place), None, Kind::Merge, why);
            }
            WorktreeEvent::Merged { merge } => {
                if let Some(why) = of_merge(merge) {
                    self.note(Some(place), None, Kind::Merge, why);
                }
                self.stages[place].merges.push((self.last, merge.clone()));
            }
            WorktreeEvent::Prepared { worktree: Ok(_) } | WorktreeEvent::Confirmed { .. } => {}
        }
    }

    fn of_relay(&mut self, place: usize, stage: &StageId, relay: &Relay, event: &RelayEvent) {
        match event {
            RelayEvent::Attempt { attempt, event } => {
                self.of_attempt(place, relay, *attempt, event);
            }
            RelayEvent::Task { outcome, .. } => {
                self.of_task(place, self.before(stage), relay, outcome);
            }
            RelayEvent::KnowledgeEdited { .. } => self.ask("edited the knowledge", ""),
            RelayEvent::ListEdited { .. } => self.ask("edited the list", ""),
            RelayEvent::Woke => {}
        }
    }

    fn of_task(&mut self, place: usize, before: Before, relay: &Relay, outcome: &TaskOutcome) {
        let (number, claimed) = match before {
            Before::Reviewing { session, claimed } => (Some(session), claimed),
            Before::Preparing | Before::Otherwise => (None, false),
        };
        match outcome {
            TaskOutcome::Surveyed { survey: Err(error) } => {
                // A stop cancels it.
                if !matches!(relay.outcome(), Some(Outcome::Stopped { .. })) {
                    self.note(Some(place), number, Kind::Survey, error.clone());
                }
            }
            TaskOutcome::Surveyed { survey: Ok(survey) } => {
                // Once a reviewer has come after it, the tree holds what that one left, too.
                let last = self.stages[place].sessions.last_mut();
                if let Some(last) = last.filter(|last| Some(last.number) == number) {
                    last.surveyed(survey);
                }
            }
            TaskOutcome::Committed { commit } => {
                let number = number.unwrap_or(relay.session().get());
                if let Some(why) = of_commit(commit) {
                    self.note(Some(place), Some(number), Kind::Uncommitted, why);
                }
                if let Some(session) = self.session(place, Some(number)) {
                    session.commit = Some(commit.clone());
                }
            }
            TaskOutcome::Verified { check } if check.outcome == CheckOutcome::Cancelled => {}
            TaskOutcome::Verified { check } => {
                if claimed && !check.passed() {
                    let why = format!("it said that all is done, but the verification {check}");
                    self.note(Some(place), number, Kind::Veto, why);
                }
                match (before, self.session(place, number)) {
                    (_, Some(session)) => session.check = Some(check.clone()),
                    (Before::Preparing, None) => {
                        let stage = &mut self.stages[place];
                        stage.baseline.get_or_insert_with(|| check.clone());
                    }
                    (Before::Reviewing { .. } | Before::Otherwise, None) => {}
                }
            }
            TaskOutcome::Published | TaskOutcome::Archived => {}
        }
    }

    fn of_effect(&mut self, effect: &Effect, run: &Run) {
        match effect {
            Effect::Stage { stage, effect } => {
                let Some(place) = self.place(stage) else {
                    return;
                };
                if let RelayEffect::StartAttempt(start) = effect {
                    self.started(place, start, run.relay(stage));
                } else if let RelayEffect::Warn { warning } = effect
                    && !warning.is_harmless()
                {
                    let (kind, session, why) = of_warning(warning);
                    self.note(Some(place), session, kind, why);
                }
            }
            Effect::EndRun { .. } => {
                let at = self.last;
                self.ended = Some(at);
                let open = self
                    .waits
                    .iter_mut()
                    .rev()
                    .take_while(|wait| wait.over.is_none());
                open.for_each(|wait| wait.over = Some(at));
            }
            Effect::Worktree { .. } | Effect::Deliver => {}
        }
    }

    /// Records what a relay's current state shows.
    fn look_at(&mut self, place: usize, stage: &StageId, relay: &Relay, run: &Run) {
        let at = self.last;
        self.after.insert(stage.clone(), Before::of(relay));
        if let Phase::Running(session) = &relay.phase
            && session.is_handing_off()
            && let Some((id, _)) = relay.attempt()
            && let Some(attempt) = self.attempt(place, id)
        {
            attempt.ordered.get_or_insert(at);
        }
        self.stages[place].known = ever_known(relay);
        self.look_at_wait(place, relay);
        // What ekiden writes for follow-up work is not a session's words.
        if let Some(last) = &relay.last
            && last.notes.by != Author::FollowUp
            && let Some(session) = self.session(place, Some(last.session.get()))
            && session
                .words
                .as_ref()
                .is_none_or(|words| words.by != last.notes.by)
        {
            session.words = Some(Words::of(&last.notes));
        }
        let tries = run.tries(stage);
        // A resume counts the tries anew.
        if tries > std::mem::replace(&mut self.stages[place].tries, tries) {
            let why = run.last_failure(stage).unwrap_or("it failed").to_owned();
            self.note(Some(place), None, Kind::Retry, why);
        }
    }

    fn look_at_wait(&mut self, place: usize, relay: &Relay) {
        let at = self.last;
        let open = self.waits.iter_mut().rev();
        let open = open
            .take(self.stages.len())
            .find(|wait| wait.stage == place && wait.over.is_none());
        let Phase::Waiting {
            until, cause, next, ..
        } = &relay.phase
        else {
            if let Some(wait) = open {
                // ekiden may have come back long after it.
                wait.over = Some(at.min(wait.until));
            }
            return;
        };
        if let Some(wait) = open {
            if wait.until == *until {
                return;
            }
            wait.over = Some(at);
        }
        let last = self.stages[place].sessions.last();
        let ended = last.and_then(|session| Some(session.end()?.cause.clone()));
        let is_outage = |cause: &EndCause| cause.class() == EndClass::Wait;
        let ended_by = ended.filter(|ended| match cause {
            // Another stage's limit may hold it.
            WaitCause::UsageLimit => is_outage(ended),
            WaitCause::Failure => true,
            WaitCause::Pause | WaitCause::QuietHours | WaitCause::Guided | WaitCause::Budget => {
                false
            }
        });
        if *cause == WaitCause::Failure
            && let Some(outage) = ended_by.as_ref().filter(|cause| is_outage(cause))
        {
            let (session, why) = (next.id.session.get(), outage.to_string());
            self.note(Some(place), Some(session), Kind::Outage, why);
        }
        self.waits.push(Wait {
            stage: place,
            session: next.id.session.get(),
            cause: *cause,
            ended_by,
            from: at,
            until: *until,
            over: None,
        });
    }

    fn ask(&mut self, what: &'static str, words: &str) {
        self.asked.push(Asked {
            at: self.last,
            what,
            words: short(words, WORDS_CHARS_MAX),
        });
    }

    /// The task of a single relay has a new wording.
    fn reword(&mut self, task: &str) {
        let (at, task) = (self.last, short(task, TASK_CHARS_MAX));
        if let Some(stage) = self.stages.first_mut() {
            stage.tasks.push((at, task));
        }
    }

    pub(super) fn note(
        &mut self,
        stage: Option<usize>,
        session: Option<u32>,
        kind: Kind,
        why: String,
    ) {
        self.problems.push(Problem {
            at: self.last,
            stage,
            session,
            kind,
            why,
        });
    }

    fn place(&self, stage: &StageId) -> Option<usize> {
        self.index.get(stage).copied()
    }

    pub(super) fn session(&mut self, place: usize, number: Option<u32>) -> Option<&mut Session> {
        let mut sessions = self.stages[place].sessions.iter_mut();
        sessions.rfind(|session| Some(session.number) == number)
    }

    pub(super) fn attempt(&mut self, place: usize, id: AttemptId) -> Option<&mut Attempt> {
        let session = self.session(place, Some(id.session.get()))?;
        let mut attempts = session.attempts.iter_mut();
        attempts.rfind(|attempt| attempt.number == id.attempt.get())
    }
}

impl Session {
    fn surveyed(&mut self, survey: &Survey) {
        let first = |lines: Vec<String>| lines.into_iter().take(SURVEY_LINES_MAX).collect();
        self.commits = first(survey.commits.clone());
        self.files = first(survey.changed());
    }
}

/// Stages whose state a record may have changed.
fn touched(record: &Record, run: &Run) -> BTreeSet<StageId> {
    let of_event = match &record.event {
        Event::Stage { stage, .. }
        | Event::Worktree { stage, .. }
        | Event::Elsewhere { stage, .. } => Some(stage),
        Event::Woke
        | Event::Delivered { .. }
        | Event::LogicChanged { .. }
        | Event::LogAccepted { .. } => None,
        Event::RunStarted(_)
        | Event::RunResumed(_)
        | Event::Continued(_)
        | Event::UtcOffsetChanged { .. }
        | Event::StopRequested(_)
        | Event::Steered(_) => return run.relays().map(|(stage, _)| stage.clone()).collect(),
    };
    let of_effects = record.effects.iter().filter_map(|effect| match effect {
        Effect::Stage { stage, .. } | Effect::Worktree { stage, .. } => Some(stage),
        Effect::Deliver | Effect::EndRun { .. } => None,
    });
    of_effects.chain(of_event).cloned().collect()
}

/// A relay's facts, including the corrected ones: each fact that a session adds makes it one more.
pub(super) fn ever_known(relay: &Relay) -> usize {
    relay.knowledge.core.len() + relay.knowledge.archived.len()
}

fn stop(request: StopRequest) -> &'static str {
    match request {
        StopRequest::Gently => "asked to stop, with a handoff first",
        StopRequest::AS_BY_CTRL_C_TWICE => "stopped at once",
        StopRequest::HANGUP => "the terminal went away",
        StopRequest::Now { .. } => "stopped at once, by a signal",
    }
}
