//! The relay: a chain of sessions that pursues one stage.
//!
//! ```text
//! Planned ─► Preparing ─► Running ─► Reviewing ─┬─► Running (next session) ...
//!            survey,       │  ▲      commit,    ├─► Waiting (pause) ─► Running
//!            verification  │  │      survey,    └─► Ended
//!                          ▼  │
//!                        Waiting (usage limit, crash): the same session, a new attempt
//!
//!               Paused: between any two attempts, as long as a person wants it
//! ```
//!
//! One file for each part of a session's life: `start` orders attempts and writes their prompts,
//! `talk` is the conversation while the agent works, `review` is what follows its end, `judging` what
//! is said of it, `pausing` is the pause that a person wants, `guiding` what they add meanwhile,
//! `renewing` another task, or a beginning from another run's session.
//!
//! A gentle stop lets the session hand over and be reviewed, and starts nothing after that; where no
//! session is at work, the run ends at once. A stop "now" ends whatever runs. Either way the phase
//! "ended" knows where to go on, so nothing that was done is done again.
//!
//! Invariants:
//! - a session number has at most one accepted handoff (or rescue), and numbers only rise;
//! - an attempt is started only when the one before has ended;
//! - at most one message to the agent is undelivered;
//! - Core Knowledge only grows, but for corrections, which keep the old line in the archive.

mod admission;
mod company;
mod guiding;
mod judging;
mod pausing;
mod phase;
mod renewing;
mod review;
mod spending;
mod start;
mod talk;
#[cfg(test)]
mod tests;
mod view;

use crate::budget::{Prices, Spend};
use crate::effect::RelayEffect;
use crate::event::{
    Check, CheckOutcome, Counters, LimitsChanged, RelayEvent, RunResumed, StopRequest, Survey,
};
use crate::handoff::OpenItems;
use crate::ids::{RunId, SessionNumber};
use crate::knowledge::Knowledge;
use crate::limits;
use crate::manifest::Stage;
use crate::notice;
use crate::outcome::Outcome;
use crate::prompt::{Notes, Slot, StageContext};
use crate::settings::{RunStarted, Settings};
use crate::time::{Millis, Timestamp};
use serde::{Deserialize, Serialize};

use judging::Bench;

pub use company::Company;
pub use phase::{Looking, Next, NextAttempt, Phase, Session, SessionEnd, Used, WaitCause};
pub use spending::Share;
pub use start::{HANDOFF_DIR, Prompt};
pub use talk::Talk;

/// One stage's chain of sessions.
#[derive(Debug, Clone, PartialEq)]
pub struct Relay {
    run: RunId,
    stage: Stage,
    settings: Settings,
    /// The tree is looked at. A log that is older than the judging of sessions looks only through git.
    surveys: bool,
    /// Sessions are committed.
    commits: bool,
    phase: Phase,
    quota: Quota,
    knowledge: Knowledge,
    baseline: Baseline,
    survey: Option<Survey>,
    check: Option<Check>,
    last: Option<LastSession>,
    /// The last valid `NEXT_PROMPT.md`: rescues in a row must not lose it.
    next_prompt: Option<String>,
    slots: Vec<Slot>,
    bench: Option<Bench>,
    crashes_in_a_row: u32,
    stop: Option<StopRequest>,
    /// A person wants nothing to begin.
    paused: bool,
    /// The user has edited the task, and no session has begun since.
    task_edited: bool,
    /// What a person said for the session that begins next.
    words: Vec<String>,
    tally: Tally,
    prices: Prices,
    /// Local time's offset from UTC, as last recorded.
    utc_offset_secs: i32,
    company: Company,
    /// What it is shown of the project, if it belongs to a plan.
    context: Option<StageContext>,
    /// What every session is told until the stage is tried again or merged.
    standing: Vec<Slot>,
    /// What the stage was last given to put right, which a further try of it still is.
    clash: Option<Slot>,
}

/// What the next session goes on from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
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
    /// Not looked at yet, or it came to no result: it took too long, say, since all had to be built
    /// first. A later pass alone proves nothing then.
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
    /// Time spent waiting, with the whole of a wait that has begun.
    pub waiting: Millis,
    /// Calls of tools.
    pub tool_calls: u64,
    /// What the sessions used of a budget of tokens.
    pub tokens: u64,
    /// Part of the cost is estimated.
    pub estimated: bool,
    /// Part of the cost is what others would pay: the account has a subscription.
    pub subscription: bool,
}

impl Relay {
    /// A relay for one stage of a run.
    #[must_use]
    pub fn new(header: &RunStarted, settings: Settings, stage: Stage) -> Self {
        let bench = settings.judging.map(|rules| Bench::new(rules, &stage.task));
        let mut relay = Self {
            run: header.run.clone(),
            quota: Quota { max: stage.sessions_max, from: 0, over: 0 },
            stage,
            surveys: header.place.git || settings.judging.is_some(),
            commits: header.place.git && settings.commit.is_some(),
            phase: Phase::Planned,
            knowledge: Knowledge::default(),
            baseline: Baseline::Unknown,
            survey: None,
            check: None,
            last: None,
            next_prompt: None,
            slots: Vec::new(),
            bench,
            crashes_in_a_row: 0,
            stop: None,
            paused: false,
            task_edited: false,
            words: Vec::new(),
            tally: Tally::default(),
            prices: header.prices.clone(),
            utc_offset_secs: settings.bounds.utc_offset_secs,
            settings,
            company: Company::default(),
            context: None,
            standing: Vec::new(),
            clash: None,
        };
        if let Some(from) = &header.from {
            relay.begin_from(from);
        }
        relay
    }

    /// Begins, or goes on where it ended.
    pub fn begin(&mut self, at: Timestamp) -> Vec<RelayEffect> {
        match std::mem::replace(&mut self.phase, Phase::Planned) {
            Phase::Planned => self.prepare(at),
            Phase::Ended { next, .. } => self.go_on(at, next),
            other @ (Phase::Preparing(_)
            | Phase::Running(_)
            | Phase::Reviewing { .. }
            | Phase::Waiting { .. }
            | Phase::Paused { .. }) => {
                self.phase = other;
                Vec::new()
            }
        }
    }

    /// Takes the settings of a resume; what has ended begins when the plan says so. Sessions count anew
    /// from an end, and from any resume that names a number.
    pub fn resume(&mut self, at: Timestamp, resumed: &RunResumed) {
        if self.outcome().is_some_and(Outcome::is_complete) {
            return;
        }
        self.stop = None;
        match &mut self.phase {
            Phase::Running(session) => session.stop_by = None,
            // The time in which nobody worked on the run is no pause.
            Phase::Paused { since, .. } => *since = at,
            Phase::Planned
            | Phase::Preparing(_)
            | Phase::Reviewing { .. }
            | Phase::Waiting { .. }
            | Phase::Ended { .. } => {}
        }
        let ended = matches!(self.phase, Phase::Ended { .. });
        self.change_limits(&resumed.limits, ended);
        if let Some(task) = &resumed.task {
            self.edit_task(task);
        }
        self.paused &= !ended;
    }

    /// Takes new limits. Sessions count anew if somebody says how many, or if it is a new beginning.
    fn change_limits(&mut self, limits: &LimitsChanged, anew: bool) {
        let sessions_max = limits.sessions_max;
        self.settings.change(limits);
        if let Some(bench) = &mut self.bench {
            bench.resume(limits, anew);
        }
        if anew || sessions_max.is_some() {
            self.quota.from = self.quota.over;
            self.quota.max = sessions_max.unwrap_or(self.quota.max);
            self.crashes_in_a_row = 0;
        }
    }

    /// Somebody wants the run to stop. Who asks again in the same way changes nothing.
    pub fn request_stop(&mut self, at: Timestamp, request: StopRequest) -> Vec<RelayEffect> {
        if self.outcome().is_some() || self.stop.is_some_and(|before| !request.outweighs(before)) {
            return Vec::new();
        }
        self.stop = Some(request);
        match &mut self.phase {
            Phase::Running(_) => self.stop_session(at, request),
            Phase::Preparing(_) | Phase::Reviewing { .. } => vec![RelayEffect::CancelTasks],
            Phase::Planned => self.stopped(request, Next::Prepare),
            Phase::Waiting { until, next, .. } => {
                let (rest, next) = (until.since(at), Next::Attempt(next.clone()));
                self.tally.waiting.0 = self.tally.waiting.0.saturating_sub(rest.0);
                self.stopped(request, next)
            }
            Phase::Paused { next, .. } => {
                let next = Next::Attempt(next.clone());
                self.leave_pause(at);
                self.stopped(request, next)
            }
            Phase::Ended { .. } => Vec::new(),
        }
    }

    /// Decides what follows from an event.
    pub fn step(&mut self, at: Timestamp, event: &RelayEvent) -> Vec<RelayEffect> {
        match event {
            RelayEvent::Surveyed { survey, .. } => self.surveyed(at, survey),
            RelayEvent::Committed { commit, .. } => self.committed(at, commit),
            RelayEvent::Verified { check, .. } => self.verified(at, check),
            RelayEvent::Archived { .. } | RelayEvent::Published { .. } => Vec::new(),
            RelayEvent::AttemptEnded(ended) => self.attempt_ended(at, ended),
            RelayEvent::Woke => self.woke(at),
            RelayEvent::KnowledgeEdited { text } => self.knowledge_edited(text),
            RelayEvent::AttemptStarted { attempt, .. }
            | RelayEvent::WindowChanged { attempt, .. }
            | RelayEvent::LevelCrossed { attempt, .. }
            | RelayEvent::BaselineMeasured { attempt, .. }
            | RelayEvent::SpendCrossed { attempt, .. }
            | RelayEvent::Compacted { attempt, .. }
            | RelayEvent::MessageDelivered { attempt }
            | RelayEvent::StopAsked { attempt, .. }
            | RelayEvent::TurnEnded { attempt, .. }
            | RelayEvent::RefusalsSpent { attempt } => self.talked(at, *attempt, event),
        }
    }

    /// The next time at which something is to be done though nothing happens. After a crash timers
    /// follow from state, so they are never recorded.
    #[must_use]
    pub fn wakes_at(&self) -> Option<Timestamp> {
        match &self.phase {
            Phase::Waiting { until, .. } => Some(*until),
            Phase::Running(session) => session.wakes_at(),
            Phase::Planned
            | Phase::Preparing(_)
            | Phase::Reviewing { .. }
            | Phase::Paused { .. }
            | Phase::Ended { .. } => None,
        }
    }

    fn woke(&mut self, at: Timestamp) -> Vec<RelayEffect> {
        match &mut self.phase {
            Phase::Waiting { until, next, .. } if *until <= at => {
                let next = next.clone();
                self.admit(at, next)
            }
            Phase::Running(_) => self.session_due(at),
            Phase::Waiting { .. }
            | Phase::Planned
            | Phase::Preparing(_)
            | Phase::Reviewing { .. }
            | Phase::Paused { .. }
            | Phase::Ended { .. } => Vec::new(),
        }
    }

    fn go_on(&mut self, at: Timestamp, next: Next) -> Vec<RelayEffect> {
        match next {
            Next::Prepare => self.prepare(at),
            Next::Review(end) => self.review(at, end),
            Next::Attempt(attempt) => {
                let used = Used::default();
                self.admit(at, NextAttempt { waited: Millis(0), used, ..attempt })
            }
        }
    }

    /// A person's edit stands, but what was corrected stays in the archive. While a session runs the
    /// edit cannot be told from the agent's doing, and the prompt that is in use must not change.
    fn knowledge_edited(&mut self, text: &str) -> Vec<RelayEffect> {
        if !matches!(self.phase, Phase::Running(_)) {
            let archived = std::mem::take(&mut self.knowledge.archived);
            self.knowledge = Knowledge { archived, ..Knowledge::parse(text) };
        }
        Vec::new()
    }

    fn stopped(&mut self, request: StopRequest, next: Next) -> Vec<RelayEffect> {
        self.end(Outcome::Stopped { request }, next)
    }

    fn end(&mut self, outcome: Outcome, next: Next) -> Vec<RelayEffect> {
        // A plan tells of its own end.
        let alone = self.context.is_none();
        let notice = notice::of_end(&outcome, self.tally.sessions).filter(|_| alone);
        self.phase = Phase::Ended { outcome, next };
        self.publish_and_notify(notice)
    }

    fn wait(
        &mut self,
        at: Timestamp,
        length: Millis,
        cause: WaitCause,
        next: NextAttempt,
    ) -> Vec<RelayEffect> {
        self.tally.waiting.0 = self.tally.waiting.0.saturating_add(length.0);
        // A limit without a reset time is tried again and again, but told once.
        let first = next.waited <= length;
        let notice = notice::of_wait(cause, length, next.id.session).filter(|_| first);
        self.phase = Phase::Waiting { until: at + length, cause, next };
        self.publish_and_notify(notice)
    }

    fn publish_and_notify(&self, notice: Option<String>) -> Vec<RelayEffect> {
        let notice = notice.filter(|_| self.settings.notify).map(|text| RelayEffect::Notify { text });
        std::iter::once(RelayEffect::PublishDurably).chain(notice).collect()
    }
}

impl Tally {
    /// What was spent, for a comparison with a budget.
    #[must_use]
    pub fn spend(&self) -> Spend {
        Spend { micro_usd: self.cost_micro_usd, tokens: self.tokens, estimated: self.estimated }
    }

    fn add(&mut self, counters: &Counters) {
        let spend = self.spend().plus(counters.spend());
        self.cost_micro_usd = spend.micro_usd;
        self.tokens = spend.tokens;
        self.estimated = spend.estimated;
        self.subscription |= counters.subscription;
        self.running.0 = self.running.0.saturating_add(counters.duration.0);
        self.tool_calls = self.tool_calls.saturating_add(counters.tool_calls.into());
    }
}

impl Baseline {
    fn of(check: &CheckOutcome) -> Self {
        match check {
            CheckOutcome::Passed => Self::Passes,
            CheckOutcome::Failed { .. } => Self::Fails,
            CheckOutcome::TimedOut | CheckOutcome::NotRun { .. } | CheckOutcome::Cancelled => Self::Unknown,
        }
    }
}

/// The pause after this many crashes in a row.
fn backoff(crashes: u32) -> Millis {
    let doubled = limits::CRASH_BACKOFF.0.saturating_mul(1 << crashes.saturating_sub(1).min(16));
    Millis(doubled.min(limits::CRASH_BACKOFF_MAX.0))
}
