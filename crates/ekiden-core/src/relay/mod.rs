//! The relay: a chain of sessions that pursues one stage.
//!
//! ```text
//! Planned ─► Preparing ─► Running ─► Reviewing ─┬─► Running (next session) ...
//!            survey,       │  ▲      survey,    ├─► Waiting (pause) ─► Running
//!            verification  │  │      verify     └─► Ended
//!                          ▼  │
//!                        Waiting (usage limit, crash): the same session, a new attempt
//! ```
//!
//! One file for each part of a session's life: `start` orders attempts and writes their prompts,
//! `talk` is the conversation while the agent works, `review` is what follows its end.
//!
//! Invariants:
//! - a session number has at most one accepted handoff (or rescue), and numbers only rise;
//! - an attempt is started only when the one before has ended;
//! - at most one message to the agent is undelivered;
//! - Core Knowledge only grows, but for corrections, which keep the old line in the archive.

mod review;
mod start;
mod talk;

use serde::{Deserialize, Serialize};

use crate::effect::{RelayEffect, StartMode};
use crate::ends::EndCause;
use crate::event::{Check, Counters, RelayEvent, RunResumed, StopRequest, Survey, Traces};
use crate::guard::Level;
use crate::handoff::{Handoff, HandoffFiles, Inspection, OpenItems, inspect_after};
use crate::ids::{AttemptId, ConversationId, RunId, SessionNumber};
use crate::knowledge::Knowledge;
use crate::limits;
use crate::outcome::Outcome;
use crate::prompt::{Notes, Slot};
use crate::settings::{RunStarted, Settings, Stage};
use crate::time::{Millis, Timestamp};

pub use start::{HANDOFF_DIR, Prompt};
pub use talk::Talk;

/// One stage's chain of sessions.
#[derive(Debug, Clone, PartialEq)]
pub struct Relay {
    run: RunId,
    stage: Stage,
    settings: Settings,
    git: bool,
    phase: Phase,
    quota: Quota,
    knowledge: Knowledge,
    baseline: Baseline,
    survey: Option<Survey>,
    check: Option<Check>,
    last: Option<LastSession>,
    slots: Vec<Slot>,
    crashes_in_a_row: u32,
    stop: Option<StopRequest>,
    tally: Tally,
}

/// Where a relay is in its life.
#[derive(Debug, Clone, PartialEq)]
pub enum Phase {
    /// Not begun.
    Planned,
    /// Before session 1: what is in the tree, and does the verification pass already?
    Preparing(Looking),
    /// An attempt is ordered or at work.
    Running(Box<Session>),
    /// A session is over; its result is looked at.
    Reviewing {
        /// What it left.
        end: Box<SessionEnd>,
        /// What is being looked at.
        looking: Looking,
    },
    /// Nothing happens until a time.
    Waiting {
        /// Until when.
        until: Timestamp,
        /// Why.
        cause: WaitCause,
        /// What comes then.
        next: NextAttempt,
    },
    /// Over, until somebody resumes it.
    Ended {
        /// How.
        outcome: Outcome,
        /// Where a resume goes on.
        next: Next,
    },
}

/// What is being looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Looking {
    /// The work tree.
    Survey,
    /// The verification.
    Verification,
}

/// Why a relay waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WaitCause {
    /// A usage limit; the time is its reset and a buffer.
    UsageLimit,
    /// The service or the agent failed; trying at once would likely fail again.
    Failure,
    /// The pause between sessions that the user wants.
    Pause,
}

/// Where a resume goes on.
#[derive(Debug, Clone, PartialEq)]
pub enum Next {
    /// At the beginning.
    Prepare,
    /// At the look at a session that is over.
    Review(Box<SessionEnd>),
    /// At an attempt.
    Attempt(NextAttempt),
}

/// The attempt that comes next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NextAttempt {
    /// Its number.
    pub id: AttemptId,
    /// Its conversation.
    pub conversation: ConversationId,
    /// Whether the conversation is new.
    pub mode: StartMode,
    /// Attempts at this session that the agent lost by its own fault.
    pub failures: u32,
}

/// A session at work.
#[derive(Debug, Clone, PartialEq)]
pub struct Session {
    /// The attempt at work.
    pub attempt: NextAttempt,
    /// The agent's process, once it runs.
    pub pid: Option<u32>,
    /// The conversation with it.
    pub talk: Talk,
    /// The process is told to end at this time: the grace after a gentle stop.
    pub stop_by: Option<Timestamp>,
}

/// What a session left when it was over.
#[derive(Debug, Clone, PartialEq)]
pub struct SessionEnd {
    /// Its last attempt.
    pub attempt: AttemptId,
    /// Its handoff, if it left a valid one.
    pub handoff: Option<Handoff>,
    /// Why the last attempt ended.
    pub cause: EndCause,
    /// What a program saw of it.
    pub traces: Traces,
}

/// What the next session goes on from.
#[derive(Debug, Clone, PartialEq)]
pub struct LastSession {
    /// Which session left it.
    pub session: SessionNumber,
    /// The notes.
    pub notes: Notes,
    /// Its open items.
    pub open_items: Option<OpenItems>,
    /// Items of the session before that are gone without a tick.
    pub vanished: Vec<String>,
}

/// What the verification said before session 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Baseline {
    /// Not looked at yet, or there is no verification.
    Unknown,
    /// It fails, so a later pass proves something.
    Fails,
    /// It passes already, so a pass alone proves nothing.
    Passes,
}

/// How many sessions may still begin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Quota {
    /// Sessions that may be used from `from` on.
    max: u32,
    /// Sessions that were over when counting began.
    from: u32,
    /// Sessions that are over.
    over: u32,
}

/// Sums over the relay, for people.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Tally {
    /// Sessions that are over.
    pub sessions: u32,
    /// What the agents told of their cost, in millionths of a US dollar.
    pub cost_micro_usd: u64,
    /// Time that agents ran.
    pub running: Millis,
    /// Time spent waiting.
    pub waiting: Millis,
    /// Calls of tools.
    pub tool_calls: u64,
}

impl Relay {
    /// A relay for one stage of a run.
    #[must_use]
    pub fn new(header: &RunStarted, stage: Stage) -> Self {
        Self {
            run: header.run.clone(),
            quota: Quota { max: stage.sessions_max, from: 0, over: 0 },
            stage,
            settings: header.settings.clone(),
            git: header.place.git,
            phase: Phase::Planned,
            knowledge: Knowledge::default(),
            baseline: Baseline::Unknown,
            survey: None,
            check: None,
            last: None,
            slots: Vec::new(),
            crashes_in_a_row: 0,
            stop: None,
            tally: Tally::default(),
        }
    }

    /// Begins, or goes on where it ended.
    pub fn begin(&mut self, at: Timestamp) -> Vec<RelayEffect> {
        match std::mem::replace(&mut self.phase, Phase::Planned) {
            Phase::Planned => self.prepare(at),
            Phase::Ended { next, .. } => self.go_on(at, next),
            other @ (Phase::Preparing(_)
            | Phase::Running(_)
            | Phase::Reviewing { .. }
            | Phase::Waiting { .. }) => {
                self.phase = other;
                Vec::new()
            }
        }
    }

    /// Takes the settings of a resume. Sessions count anew from an end, and from any resume that
    /// names a number.
    pub fn resume(&mut self, at: Timestamp, resumed: &RunResumed) -> Vec<RelayEffect> {
        if matches!(self.phase, Phase::Ended { outcome: Outcome::Complete { .. }, .. }) {
            return Vec::new();
        }
        self.stop = None;
        if let Some(wait_max) = resumed.wait_max {
            self.settings.wait_max = wait_max;
        }
        let ended = matches!(self.phase, Phase::Ended { .. });
        if ended || resumed.sessions_max.is_some() {
            self.quota.from = self.quota.over;
            self.quota.max = resumed.sessions_max.unwrap_or(self.quota.max);
            self.crashes_in_a_row = 0;
        }
        if ended { self.begin(at) } else { Vec::new() }
    }

    /// Somebody wants the run to stop.
    pub fn request_stop(&mut self, at: Timestamp, request: StopRequest) -> Vec<RelayEffect> {
        self.stop = Some(request);
        match &mut self.phase {
            Phase::Running(_) => self.stop_session(at, request),
            Phase::Preparing(_) | Phase::Reviewing { .. } => vec![RelayEffect::CancelTasks],
            Phase::Planned => self.end(Outcome::Stopped { request }, Next::Prepare),
            Phase::Waiting { next, .. } => {
                let next = Next::Attempt(next.clone());
                self.end(Outcome::Stopped { request }, next)
            }
            Phase::Ended { .. } => Vec::new(),
        }
    }

    /// Decides what follows from an event.
    pub fn step(&mut self, at: Timestamp, event: &RelayEvent) -> Vec<RelayEffect> {
        match event {
            RelayEvent::Surveyed { survey, .. } => self.surveyed(at, survey),
            RelayEvent::Verified { check, .. } => self.verified(at, check),
            RelayEvent::Archived { .. } | RelayEvent::Published { .. } => Vec::new(),
            RelayEvent::AttemptEnded(ended) => self.attempt_ended(at, ended),
            RelayEvent::Woke => self.woke(at),
            RelayEvent::KnowledgeEdited { text } => {
                self.knowledge = Knowledge {
                    archived: std::mem::take(&mut self.knowledge.archived),
                    ..Knowledge::parse(text)
                };
                Vec::new()
            }
            RelayEvent::AttemptStarted { attempt, .. }
            | RelayEvent::WindowChanged { attempt, .. }
            | RelayEvent::LevelCrossed { attempt, .. }
            | RelayEvent::MessageDelivered { attempt }
            | RelayEvent::StopAsked { attempt, .. }
            | RelayEvent::TurnEnded { attempt, .. }
            | RelayEvent::RefusalsSpent { attempt } => self.talked(*attempt, event),
        }
    }

    /// The next time at which something is to be done though nothing happens. After a crash timers
    /// follow from state, so they are never recorded.
    #[must_use]
    pub fn wakes_at(&self) -> Option<Timestamp> {
        match &self.phase {
            Phase::Waiting { until, .. } => Some(*until),
            Phase::Running(session) => session.stop_by,
            Phase::Planned | Phase::Preparing(_) | Phase::Reviewing { .. } | Phase::Ended { .. } => None,
        }
    }

    fn woke(&mut self, at: Timestamp) -> Vec<RelayEffect> {
        match &mut self.phase {
            Phase::Waiting { until, next, .. } if *until <= at => {
                let next = next.clone();
                self.start(next)
            }
            Phase::Running(session) if session.stop_by.is_some_and(|by| by <= at) => {
                session.stop_by = None;
                vec![RelayEffect::Terminate { attempt: session.attempt.id }]
            }
            Phase::Waiting { .. }
            | Phase::Running(_)
            | Phase::Planned
            | Phase::Preparing(_)
            | Phase::Reviewing { .. }
            | Phase::Ended { .. } => Vec::new(),
        }
    }

    fn go_on(&mut self, at: Timestamp, next: Next) -> Vec<RelayEffect> {
        match next {
            Next::Prepare => self.prepare(at),
            Next::Review(end) => self.review(at, end),
            Next::Attempt(attempt) => self.start(attempt),
        }
    }

    fn end(&mut self, outcome: Outcome, next: Next) -> Vec<RelayEffect> {
        self.phase = Phase::Ended { outcome, next };
        vec![RelayEffect::PublishDurably]
    }

    fn wait(
        &mut self,
        at: Timestamp,
        length: Millis,
        cause: WaitCause,
        next: NextAttempt,
    ) -> Vec<RelayEffect> {
        self.tally.waiting.0 += length.0;
        self.phase = Phase::Waiting { until: at + length, cause, next };
        vec![RelayEffect::PublishDurably]
    }
}

/// What can be asked of a relay.
impl Relay {
    /// Where it is.
    #[must_use]
    pub fn phase(&self) -> &Phase {
        &self.phase
    }

    /// The session that is at work, waits or was last over; the first before there is one.
    #[must_use]
    pub fn session(&self) -> SessionNumber {
        match &self.phase {
            Phase::Running(session) => session.attempt.id.session,
            Phase::Waiting { next, .. } => next.id.session,
            Phase::Reviewing { end, .. } => end.attempt.session,
            Phase::Planned | Phase::Preparing(_) | Phase::Ended { .. } => {
                self.last.as_ref().map_or(SessionNumber::FIRST, |last| last.session)
            }
        }
    }

    /// The number of the last session that may begin.
    #[must_use]
    pub fn session_max(&self) -> u32 {
        self.quota.from + self.quota.max
    }

    /// How it ended, if it did.
    #[must_use]
    pub fn outcome(&self) -> Option<&Outcome> {
        match &self.phase {
            Phase::Ended { outcome, .. } => Some(outcome),
            Phase::Planned
            | Phase::Preparing(_)
            | Phase::Running(_)
            | Phase::Reviewing { .. }
            | Phase::Waiting { .. } => None,
        }
    }

    /// The stage that it pursues.
    #[must_use]
    pub fn stage(&self) -> &Stage {
        &self.stage
    }

    /// What every later session should know.
    #[must_use]
    pub fn knowledge(&self) -> &Knowledge {
        &self.knowledge
    }

    /// What the next session goes on from.
    #[must_use]
    pub fn last(&self) -> Option<&LastSession> {
        self.last.as_ref()
    }

    /// What the verification said before session 1.
    #[must_use]
    pub fn baseline(&self) -> Baseline {
        self.baseline
    }

    /// The verification's last result.
    #[must_use]
    pub fn check(&self) -> Option<&Check> {
        self.check.as_ref()
    }

    /// The last look at the work tree.
    #[must_use]
    pub fn survey(&self) -> Option<&Survey> {
        self.survey.as_ref()
    }

    /// Sums for people.
    #[must_use]
    pub fn tally(&self) -> Tally {
        self.tally
    }

    /// Reads the handoff as it stands, beside the one before it.
    #[must_use]
    pub fn inspect(&self, files: &HandoffFiles) -> Inspection {
        let previous = self.last.as_ref().and_then(|last| last.notes.next_prompt());
        inspect_after(files, &self.settings.marker, previous)
    }

    /// Until when it waits, if it does.
    #[must_use]
    pub fn waits_until(&self) -> Option<Timestamp> {
        match &self.phase {
            Phase::Waiting { until, .. } => Some(*until),
            Phase::Planned
            | Phase::Preparing(_)
            | Phase::Running(_)
            | Phase::Reviewing { .. }
            | Phase::Ended { .. } => None,
        }
    }

    /// The attempt at work and its conversation.
    #[must_use]
    pub fn attempt(&self) -> Option<(AttemptId, ConversationId)> {
        match &self.phase {
            Phase::Running(session) => Some((session.attempt.id, session.attempt.conversation)),
            Phase::Planned
            | Phase::Preparing(_)
            | Phase::Reviewing { .. }
            | Phase::Waiting { .. }
            | Phase::Ended { .. } => None,
        }
    }

    /// The attempt's process is known to have run, so its handoff directory had been emptied.
    #[must_use]
    pub fn has_started(&self) -> bool {
        matches!(&self.phase, Phase::Running(session) if session.pid.is_some())
    }

    /// How full the working session's context is.
    #[must_use]
    pub fn level(&self) -> Level {
        match &self.phase {
            Phase::Running(session) => session.talk.level,
            Phase::Planned
            | Phase::Preparing(_)
            | Phase::Reviewing { .. }
            | Phase::Waiting { .. }
            | Phase::Ended { .. } => Level::L0,
        }
    }
}

impl Tally {
    fn add(&mut self, counters: &Counters) {
        self.cost_micro_usd += counters.cost_micro_usd;
        self.running.0 += counters.duration.0;
        self.tool_calls += u64::from(counters.tool_calls);
    }
}

/// The pause after this many crashes in a row.
fn backoff(crashes: u32) -> Millis {
    let doubled = limits::CRASH_BACKOFF.0.saturating_mul(1 << crashes.saturating_sub(1).min(16));
    Millis(doubled.min(limits::CRASH_BACKOFF_MAX.0))
}
