//! The relay: a chain of sessions that pursues one stage.
//!
//! ```text
//! Planned ─► Reviewing ─► Running ─► Reviewing ─┬─► Running (next session) ...
//!            survey,       │  ▲      commit,    ├─► Waiting (pause) ─► Running
//!            verification  │  │      survey,    └─► Ended
//!                          ▼  │      verification
//!                        Waiting (usage limit, crash): the same session, a new attempt
//!
//!               Paused: between any two attempts, as long as a person wants it
//! ```
//!
//! One file for each part of a session's life.
//!
//! A gentle stop lets the session hand off and be reviewed, and starts nothing after that; if no session is working,
//! the run ends at once. A stop "now" ends everything that runs. Either way, the phase "ended" records where to
//! continue.
//!
//! Invariants:
//! - a session number has at most one accepted handoff (or rescue), and numbers only rise;
//! - an attempt starts only after the one before has ended;
//! - at most one message to the agent is undelivered;
//! - Core Knowledge only grows, except for corrections, which keep the old line in the archive.

mod admission;
mod agent_budgets;
mod attempt;
mod items;
mod judging;
mod notes;
mod phase;
mod renewing;
mod review;
mod reviewer;
mod shared_limits;
mod spending;
mod start;
#[cfg(test)]
mod tests;
mod view;
mod wishes;

use crate::budget::{AgentSpends, Spend};
use crate::effect::{RelayEffect, StartMode};
use crate::event::{CheckOutcome, Counters, RelayEvent, RunResumed, TaskOutcome, Traces};
use crate::fallback::Candidates;
use crate::ids::RunId;
use crate::knowledge::Knowledge;
use crate::limits;
use crate::manifest::Stage;
use crate::notice::{self, Notice};
use crate::outcome::{Outcome, WaitCause};
use crate::prompt::PromptSection;
use crate::renewal::LastSession;
use crate::settings::{LimitsChanged, RunStarted, Settings};
use crate::steering::StopRequest;
use crate::time::{Millis, Timestamp};

pub use crate::agent::Purpose;
pub use attempt::Session;
pub use items::{ITEMS_FILE, ItemList, ItemState, ListItem, goal_of_list, list_task};
pub use judging::Seen;
pub(crate) use notes::check_facts;
pub use phase::{Consumed, Next, NextAttempt, Phase, ReviewStep, Reviewed, SessionEnd};
use reviewer::Claim;
pub use shared_limits::{Member, SharedLimits};
pub use start::{HANDOFF_DIR, Prompt};
pub use wishes::Wishes;
pub(crate) use wishes::make_room;

/// One stage's chain of sessions. Whoever holds it by reference may read it; only the [`crate::run::Run`]
/// that owns it changes it.
#[derive(Debug, Clone, PartialEq)]
pub struct Relay {
    run: RunId,
    pub stage: Stage,
    pub settings: Settings,
    /// The work tree is surveyed: git can report on it, or sessions are judged by it.
    surveys: bool,
    commits: bool,
    pub phase: Phase,
    pub(crate) candidates: Candidates,
    session_limit: SessionLimit,
    crashes_in_a_row: u32,
    pub knowledge: Knowledge,
    pub last: Option<LastSession>,
    /// The list that it works through, if it does.
    pub items: Option<ItemList>,
    sections: Vec<PromptSection>,
    /// What earlier attempts at the current session left.
    traces: Traces,
    pub seen: Seen,
    pub wishes: Wishes,
    pub totals: Totals,
    /// What each agent has spent in attempts that are over.
    pub(crate) spent_by: AgentSpends,
    /// The most that a handoff cost, from its order to the end.
    handoff_spend: Spend,
    /// The same, as the previous run learned it. It counts until this relay has handed off.
    handoff_spend_before: Spend,
    /// A claim of completion that a reviewer looks at.
    claim: Option<Box<Claim>>,
    /// How often in a row reviewers found faults.
    review_rounds: u32,
    /// The user's last answer to a question.
    answer: Option<String>,
    /// What the user, and people whom the user trusts, told sessions about this task, oldest first. Reviewers are told
    /// it, too.
    told: Vec<String>,
    /// Its place in a plan, if it belongs to one.
    member: Option<Member>,
    /// How the plan's other relays affect it.
    pub(crate) shared: SharedLimits,
}

/// What the verification said before session 1.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Baseline {
    /// It has not run yet, or came to no result: for example, it took too long because everything
    /// had to be built first. Then a later pass alone proves nothing.
    #[default]
    Unknown,
    /// It fails, so a later pass proves something.
    Fails,
    /// It passes already, so a pass alone proves nothing.
    Passes,
}

/// How many sessions may still begin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct SessionLimit {
    /// Sessions that may be used from `from` on.
    max: u32,
    /// Sessions that were over when counting began.
    from: u32,
    over: u32,
}

/// Sums over the relay, for people.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Totals {
    pub sessions: u32,
    pub spend: Spend,
    pub running: Millis,
    /// Time spent waiting, including all of a wait that has begun.
    pub waiting: Millis,
    pub tool_calls: u64,
    /// Part of the cost is the API price, which nobody pays: the account has a subscription.
    pub subscription: bool,
}

impl Totals {
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self {
            sessions: self.sessions + other.sessions,
            spend: self.spend.plus(other.spend),
            running: Millis(self.running.0 + other.running.0),
            waiting: Millis(self.waiting.0 + other.waiting.0),
            tool_calls: self.tool_calls + other.tool_calls,
            subscription: self.subscription || other.subscription,
        }
    }
}

impl Relay {
    /// A relay for one stage of a run.
    pub fn new(
        header: &RunStarted,
        settings: Settings,
        stage: Stage,
        member: Option<Member>,
    ) -> Self {
        let mut relay = Self {
            run: header.run.clone(),
            session_limit: SessionLimit {
                max: stage.sessions_max,
                from: 0,
                over: 0,
            },
            surveys: header.place.git
                || settings.judging.is_some()
                || settings.reviewer.is_some()
                || stage.part.items,
            commits: header.place.git && settings.commit.is_some(),
            phase: Phase::Planned,
            candidates: Candidates::new(&settings.agent, &settings.fallback),
            knowledge: Knowledge::default(),
            last: None,
            items: stage.part.items.then(ItemList::default),
            sections: Vec::new(),
            traces: Traces::default(),
            crashes_in_a_row: 0,
            seen: Seen::new(settings.judging, &stage.task),
            wishes: Wishes::default(),
            totals: Totals::default(),
            spent_by: AgentSpends::default(),
            handoff_spend: Spend::default(),
            handoff_spend_before: match settings.agent.is_same(&header.settings.agent) {
                true => header.handoff_spend,
                false => Spend::default(),
            },
            claim: None,
            review_rounds: 0,
            answer: None,
            told: Vec::new(),
            stage,
            settings,
            member,
            shared: SharedLimits::default(),
        };
        if let Some(from) = &header.from {
            relay.begin_from(from);
        }
        relay
    }

    /// Begins, or continues where it ended.
    pub fn begin(&mut self, at: Timestamp) -> Vec<RelayEffect> {
        match &self.phase {
            Phase::Planned => self.prepare(at),
            Phase::Ended { next, .. } => match next.clone() {
                Next::Review(after) => self.review(at, after, ReviewStep::Commit),
                // Tree and check may be others by now.
                Next::Attempt(next) if next.is_new() => self.prepare(at),
                Next::Attempt(mut next) => {
                    (next.waited, next.consumed) = (Millis(0), Consumed::default());
                    next.failures = 0;
                    self.admit(at, next)
                }
            },
            Phase::Running(_)
            | Phase::Reviewing { .. }
            | Phase::Waiting { .. }
            | Phase::Paused { .. } => Vec::new(),
        }
    }

    /// Looks at the tree and the verification before the first session of a task, or the next one after an end.
    fn prepare(&mut self, at: Timestamp) -> Vec<RelayEffect> {
        self.review(at, None, ReviewStep::Survey)
    }

    /// Takes the settings of a resume; a relay that has ended begins when the plan says so. The count
    /// of sessions starts again after an end, and after any resume that names a number. New limits also count for a
    /// wait that a crash cut off.
    pub fn resume(&mut self, at: Timestamp, resumed: &RunResumed) -> Vec<RelayEffect> {
        self.wishes.stop = None;
        let ended = self.outcome().is_some();
        // Its merge may still send it back to work.
        if self.outcome().is_some_and(Outcome::is_complete) {
            self.change_limits(&resumed.limits, false);
            return Vec::new();
        }
        if let Phase::Running(session) = &mut self.phase {
            session.stop_by = None;
        }
        // The time in which nobody worked on the run does not count as a pause.
        if let Phase::Paused { since, .. } = &mut self.phase {
            *since = at;
        }
        if resumed.elsewhere {
            self.leave_conversation();
        }
        let pause = self.settings.pause;
        self.change_limits(&resumed.limits, ended);
        if let Some(task) = &resumed.task {
            self.edit_task(task);
        }
        let answer = resumed.answer.as_ref();
        if let Some(answer) = answer.filter(|answer| answer.stage == self.stage.id) {
            self.take_answer(&answer.words);
        }
        if let Some(list) = self.items.as_mut().filter(|_| ended) {
            list.forgive();
        }
        self.wishes.paused &= !ended;
        match self.waits_for(WaitCause::Guided) {
            Some(_) => Vec::new(),
            None => self.wait_by_new_limits(at, &resumed.limits, pause),
        }
    }

    /// The conversation is on another machine: the next attempt begins a new one. One that was only to hand off is
    /// still requested: if it is gone, its session is rescued and not started again.
    fn leave_conversation(&mut self) {
        let next = match &mut self.phase {
            Phase::Running(session) => {
                session.is_elsewhere = true;
                return;
            }
            Phase::Waiting { next, .. }
            | Phase::Paused { next, .. }
            | Phase::Ended {
                next: Next::Attempt(next),
                ..
            } => next,
            Phase::Planned | Phase::Reviewing { .. } | Phase::Ended { .. } => return,
        };
        if next.mode == StartMode::Resume && !next.hand_off {
            *next = next.afresh(next.id.conversation(&self.run, &self.stage.id));
        }
    }

    /// Takes new limits. The count of sessions starts again if somebody gives their number, or if `anew`.
    fn change_limits(&mut self, limits: &LimitsChanged, anew: bool) {
        let sessions_max = limits.sessions_max;
        self.settings.change(limits);
        self.stage.part.lower(&mut self.settings.bounds);
        self.seen.change_rules(limits, anew);
        if anew || sessions_max.is_some() {
            self.session_limit.from = self.session_limit.over;
            self.session_limit.max = sessions_max.unwrap_or(self.session_limit.max);
            self.crashes_in_a_row = 0;
        }
        if anew {
            self.review_rounds = 0;
        }
    }

    /// Somebody wants the run to stop. Asking again in the same way changes nothing.
    pub fn request_stop(&mut self, at: Timestamp, request: StopRequest) -> Vec<RelayEffect> {
        let before = self.wishes.stop;
        if self.outcome().is_some() || before.is_some_and(|before| !request.outweighs(before)) {
            return Vec::new();
        }
        self.wishes.stop = Some(request);
        let next = match &mut self.phase {
            Phase::Running(session) => {
                let effect = session.stop(at, request, &self.settings);
                return session.tell(effect);
            }
            Phase::Reviewing { .. } => return vec![RelayEffect::CancelTasks],
            Phase::Planned => Next::Review(None),
            Phase::Waiting { next, .. } | Phase::Paused { next, .. } => Next::Attempt(*next),
            Phase::Ended { .. } => return Vec::new(),
        };
        self.count_waiting(at);
        self.stopped(request, next)
    }

    /// Decides what follows from an event.
    pub fn step(&mut self, at: Timestamp, event: &RelayEvent) -> Vec<RelayEffect> {
        match event {
            RelayEvent::Task { outcome, .. } => self.task_over(at, outcome),
            RelayEvent::Attempt { attempt, event } => self.attempt_event(at, *attempt, event),
            RelayEvent::Woke => self.woke(at),
            RelayEvent::KnowledgeEdited { text } => self.knowledge_edited(text),
            RelayEvent::ListEdited { items } => {
                if let Some(list) = &mut self.items {
                    list.edit(items);
                    if let Some(last) = &mut self.last {
                        last.open_items = Some(list.counted());
                    }
                }
                Vec::new()
            }
        }
    }

    fn task_over(&mut self, at: Timestamp, outcome: &TaskOutcome) -> Vec<RelayEffect> {
        match outcome {
            TaskOutcome::Surveyed { survey } => self.surveyed(at, survey),
            TaskOutcome::Committed { commit } => self.committed(at, commit),
            TaskOutcome::Verified { check } => self.verified(at, check),
            TaskOutcome::Archived | TaskOutcome::Published => Vec::new(),
        }
    }

    /// The next time at which something is due even if nothing happens. Timers follow from state,
    /// also after a crash, so they are never recorded.
    pub fn wakes_at(&self) -> Option<Timestamp> {
        let session = self.at_work().and_then(Session::wakes_at);
        session.or(self.waits_until())
    }

    /// Whether something is due now. A pause of a given length is also over if the clock was set back to before it began;
    /// otherwise it would become longer. Usage limits and quiet hours end at a time of day.
    pub(crate) fn is_due(&self, at: Timestamp) -> bool {
        let is_set_back = matches!(
            self.phase,
            Phase::Waiting {
                since,
                cause: WaitCause::Failure | WaitCause::Pause | WaitCause::Guided,
                ..
            } if at < since
        );
        is_set_back || self.wakes_at().is_some_and(|wakes| wakes <= at)
    }

    fn woke(&mut self, at: Timestamp) -> Vec<RelayEffect> {
        let is_due = self.is_due(at);
        match &mut self.phase {
            Phase::Waiting { next, .. } if is_due => {
                let next = *next;
                self.admit(at, next)
            }
            Phase::Running(session) => {
                let effect = session.due(at, &self.settings);
                session.tell(effect)
            }
            Phase::Planned
            | Phase::Reviewing { .. }
            | Phase::Waiting { .. }
            | Phase::Paused { .. }
            | Phase::Ended { .. } => Vec::new(),
        }
    }

    /// A person's edit counts, but what was corrected stays in the archive. While a session runs, an edit cannot be
    /// told from the agent's own changes, and the prompt that is in use must not change.
    fn knowledge_edited(&mut self, text: &str) -> Vec<RelayEffect> {
        if !matches!(self.phase, Phase::Running(_)) {
            let archived = std::mem::take(&mut self.knowledge.archived);
            self.knowledge = Knowledge {
                archived,
                ..Knowledge::parse(text)
            };
        }
        Vec::new()
    }

    fn stopped(&mut self, request: StopRequest, next: Next) -> Vec<RelayEffect> {
        self.end(Outcome::Stopped { request }, next)
    }

    fn end(&mut self, outcome: Outcome, next: Next) -> Vec<RelayEffect> {
        // A plan notifies of its own end.
        let alone = self.member.is_none();
        let notice = notice::of_end(&outcome, self.totals.sessions, self.settings.notify_text);
        let notice = notice.filter(|_| alone);
        let next = self.without_reviewer(next);
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
        self.totals.waiting.0 = self.totals.waiting.0.saturating_add(length.0);
        // A limit without a reset time is retried again and again, but announced once.
        let first = next.waited <= length;
        let notice = notice::of_wait(cause, length, next.id.session).filter(|_| first);
        self.phase = Phase::Waiting {
            since: at,
            until: at + length,
            cause,
            next,
        };
        self.publish_and_notify(notice)
    }

    fn publish_and_notify(&self, notice: Option<Notice>) -> Vec<RelayEffect> {
        std::iter::once(RelayEffect::PublishDurably)
            .chain(self.notify(notice))
            .collect()
    }

    fn notify(&self, notice: Option<Notice>) -> Option<RelayEffect> {
        notice.filter(|_| self.settings.notify).map(Notice::effect)
    }
}

impl Totals {
    fn add(&mut self, counters: &Counters) {
        self.spend = self.spend.plus(counters.spend);
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
            CheckOutcome::TimedOut
            | CheckOutcome::NotRun { .. }
            | CheckOutcome::NoProgram { .. }
            | CheckOutcome::Cancelled => Self::Unknown,
        }
    }
}

/// The pause after this many crashes in a row.
fn backoff(crashes: u32) -> Millis {
    let doubled = limits::CRASH_BACKOFF
        .0
        .saturating_mul(1 << crashes.saturating_sub(1).min(16));
    Millis(doubled.min(limits::CRASH_BACKOFF_MAX.0))
}
