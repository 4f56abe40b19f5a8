//! What the guard does at each moment of a watched session, as a pure function.
//!
//! ```text
//!             70 %         85 % or earlier, by what lies ahead       95 %
//!  L0 ─────────┬────────────────┬───────────────────────────────────┬──────────────
//!            told        told, then Due ──► Writing ──► Done      Writing at once,
//!                              │  boundary, 3 batches,            calls refused until the
//!                              └─ 60 s, 90 %                      handoff is written
//! ```
//!
//! - A level is told once, the highest that a moment finds, and again only after the use has fallen.
//! - A checkpoint that is due waits for a natural boundary, but not for long ([`limits::BOUNDARY_WAIT`],
//!   [`limits::BOUNDARY_BATCHES`]), and for failing tests only below
//!   [`limits::CHECKPOINT_LATEST_PERCENT`].
//! - At L3 calls are refused until the agent has written into the document, or until three were refused:
//!   then the turn is ended. A person who sends another prompt after that goes on knowingly.
//!
//! [`decide`] does nothing itself: it names the events to record and what to answer. Asked twice about
//! the same moment, it answers the second time by what the first one recorded.

use super::moment::{Batch, Moment, Source};
use super::state::{Phase, Watch, WatchEvent, WatchRecord};
use crate::guard::checkpoint::CheckpointReason;
use crate::guard::estimate::Estimate;
use crate::guard::{Level, Levels, Reading};
use crate::limits;
use crate::time::Timestamp;

/// How a person wants to be watched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WatchSettings {
    /// Where the levels begin.
    pub levels: Levels,
    /// To be reminded at the end of a turn that there is no handoff.
    pub reminder: bool,
}

/// What to do at a moment.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Decision {
    /// To be recorded before anything else is done.
    pub events: Vec<WatchEvent>,
    /// To be told to the person and the agent.
    pub alerts: Vec<Alert>,
    /// The call is refused.
    pub refuse: Option<Refusal>,
    /// What the checkpoint is for that begins now. Whoever compacts waits for it.
    pub begin: Option<CheckpointReason>,
    /// A handoff is looked for and given to the session.
    pub load: bool,
}

/// What is told at a moment. The words are in [`crate::guard::alert`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Alert {
    /// A level was reached, or the time of the handoff has come.
    Level {
        /// The use, in percent of the usable window.
        percent: u64,
        /// When the handoff comes.
        handoff: HandoffTime,
    },
    /// The document of a checkpoint is there; it lies at this path within the project.
    Written(String),
    /// The checkpoint could not be written.
    Failed,
    /// The person asks for something that may not fit into what is left.
    Large(Estimate),
    /// The turn ends with much context used and no handoff.
    NoHandoff {
        /// The use, in percent of the usable window.
        percent: u64,
    },
}

/// When the handoff comes after a level was reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HandoffTime {
    /// Not yet.
    Later,
    /// After the work at hand.
    Soon,
    /// Not before this use, in percent: the person put it off, or little is left to do.
    Waits(u8),
    /// At once.
    Now,
}

/// How a call is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    /// It is refused; the turn goes on.
    Call,
    /// It is refused and the turn ends, since refusals are not heard.
    Turn,
}

/// Decides. `reading` is what the last response shows, if there is one.
#[must_use]
pub fn decide(
    watch: &Watch,
    settings: WatchSettings,
    moment: &Moment,
    reading: Option<&Reading>,
    now: Timestamp,
) -> Decision {
    let mut judge = Judge { watch: watch.clone(), settings, reading, now, decision: Decision::default() };
    judge.moment(moment);
    judge.decision
}

struct Judge<'a> {
    watch: Watch,
    settings: WatchSettings,
    reading: Option<&'a Reading>,
    now: Timestamp,
    decision: Decision,
}

impl Judge<'_> {
    fn moment(&mut self, moment: &Moment) {
        match moment {
            Moment::Begins(source) => self.begins(*source),
            Moment::Prompt => self.prompt(),
            Moment::Refuses => self.refuses(),
            Moment::AfterBatch(batch) => self.after_batch(*batch),
            Moment::Stops { background } => self.stops(*background),
            Moment::Compacts => self.compacts(),
            Moment::Ends => self.ends(),
        }
    }

    fn begins(&mut self, source: Source) {
        match source {
            Source::Startup | Source::Clear | Source::Compact => self.decision.load = true,
            Source::Resume => {}
        }
        if source == Source::Compact && self.watch.level > Level::L0 {
            self.record(WatchEvent::Rearmed { level: Level::L0 });
        }
    }

    fn prompt(&mut self) {
        self.follow_usage();
        if self.watch.level == Level::L3 && !self.watch.released && self.handed_over() {
            self.record(WatchEvent::Released);
        }
        self.tell_of_document();
    }

    fn refuses(&mut self) {
        self.record(WatchEvent::Refused);
        let last = self.watch.refusals >= limits::REFUSALS_MAX;
        self.decision.refuse = Some(if last { Refusal::Turn } else { Refusal::Call });
    }

    fn after_batch(&mut self, batch: Batch) {
        if let Some(passed) = batch.tests
            && passed == self.watch.tests_failing
        {
            self.record(WatchEvent::Tested { passed });
        }
        if batch.filled && self.watch.last.as_ref().is_some_and(|last| !last.filled) {
            self.record(WatchEvent::Filled);
        }
        let was_due = matches!(self.watch.phase, Phase::Due { .. });
        self.follow_usage();
        if was_due {
            self.record(WatchEvent::Waited);
        }
        self.begin_due(batch.is_boundary());
        self.tell_of_document();
    }

    fn stops(&mut self, background: bool) {
        self.follow_usage();
        self.begin_due(true);
        if let Some(reading) = self.reading
            && !background
            && self.settings.reminder
            && !self.watch.reminded
            && self.watch.last.is_none()
            && matches!(self.watch.phase, Phase::Ready)
            && reading.percent() > limits::STOP_REMINDER_PERCENT
        {
            self.record(WatchEvent::Reminded);
            self.decision.alerts.push(Alert::NoHandoff { percent: reading.percent() });
        }
    }

    fn compacts(&mut self) {
        if self.is_fresh() {
            return;
        }
        self.begin(CheckpointReason::Compaction);
    }

    fn ends(&mut self) {
        if let Phase::Due { reason, .. } = self.watch.phase {
            self.begin(reason);
        }
        self.record(WatchEvent::Ended);
    }

    /// Levels that were crossed, in either direction, and what becomes due by it.
    fn follow_usage(&mut self) {
        let Some(reading) = self.reading else { return };
        let level = reading.level(self.settings.levels);
        let percent = reading.percent();
        let fell = percent * 100 < self.watch.told_percent.saturating_mul(limits::REARM_PERCENT);
        if fell && level < self.watch.level {
            self.record(WatchEvent::Rearmed { level });
        }
        let crossed = level > self.watch.level;
        if crossed {
            self.record(WatchEvent::Crossed { level, percent, used_tokens: reading.used_tokens });
        }
        let handoff = self.become_due(reading, crossed && level == Level::L3);
        if crossed || self.newly_due() {
            self.decision.alerts.push(Alert::Level { percent, handoff });
        }
    }

    /// Makes the checkpoint due whose time has come.
    fn become_due(&mut self, reading: &Reading, forced: bool) -> HandoffTime {
        if forced {
            if !self.is_fresh() {
                self.begin(CheckpointReason::Level3);
            }
            return HandoffTime::Now;
        }
        self.outlive_writer();
        let (percent, reason) = self.handoff_percent(reading);
        if reading.percent() >= u64::from(percent) {
            if !self.watch.answered {
                self.record(WatchEvent::Due { reason });
            }
            return HandoffTime::Soon;
        }
        match reading.level(self.settings.levels) {
            Level::L0 | Level::L1 => HandoffTime::Later,
            Level::L2 | Level::L3 => HandoffTime::Waits(percent),
        }
    }

    /// A checkpoint whose process died is due again.
    fn outlive_writer(&mut self) {
        if let Phase::Writing { since, .. } = self.watch.phase
            && self.now.since(since) > limits::CHECKPOINT_PATIENCE
        {
            let why = "its process ended without a word".to_owned();
            self.record(WatchEvent::Failed { why });
        }
    }

    /// The use in percent at which the handoff begins, and why there: L2 unless the person put it off
    /// or what lies ahead says otherwise.
    fn handoff_percent(&self, reading: &Reading) -> (u8, CheckpointReason) {
        let levels = self.settings.levels;
        let (two, latest) = (levels.percent(Level::L2), self.latest_percent());
        if let Some(until) = self.watch.deferred {
            return (until.clamp(two, latest), CheckpointReason::Level2);
        }
        let Some(ahead) = self.watch.ahead_tokens(reading.used_tokens) else {
            return (two, CheckpointReason::Level2);
        };
        let (percent, left) = (reading.percent(), reading.remaining_tokens());
        let early = limits::TRAJECTORY_EARLY_PERCENT.min(two);
        if ahead > left && percent >= u64::from(limits::TRAJECTORY_FROM_PERCENT) {
            (early, CheckpointReason::Trajectory)
        } else if ahead <= left && percent >= u64::from(limits::TRAJECTORY_LATE_PERCENT) {
            (latest, CheckpointReason::Level2)
        } else {
            (two, CheckpointReason::Level2)
        }
    }

    /// At this use a checkpoint waits for nothing: 90 %, unless the levels lie otherwise.
    fn latest_percent(&self) -> u8 {
        let levels = self.settings.levels;
        limits::CHECKPOINT_LATEST_PERCENT.clamp(levels.percent(Level::L2), levels.percent(Level::L3))
    }

    /// Begins the checkpoint that is due, at a boundary or when it has waited long enough.
    fn begin_due(&mut self, boundary: bool) {
        let Phase::Due { reason, since, batches } = self.watch.phase else { return };
        let percent = self.reading.map_or(0, Reading::percent);
        let waited = batches >= limits::BOUNDARY_BATCHES || self.now.since(since) >= limits::BOUNDARY_WAIT;
        let at_once = percent >= u64::from(self.latest_percent());
        if at_once || boundary || (waited && !self.watch.tests_failing) {
            self.begin(reason);
        }
    }

    fn begin(&mut self, reason: CheckpointReason) {
        let used_tokens = self.reading.map_or(0, |reading| reading.used_tokens);
        self.record(WatchEvent::Writing { reason, used_tokens });
        self.decision.begin = Some(reason);
    }

    /// A checkpoint of this very state is written, or being written.
    fn is_fresh(&self) -> bool {
        let used = self.reading.map_or(0, |reading| reading.used_tokens);
        match self.watch.phase {
            Phase::Writing { since, .. } => self.now.since(since) <= limits::CHECKPOINT_PATIENCE,
            Phase::Done => self.watch.last.as_ref().is_some_and(|last| last.used_tokens == used),
            Phase::Ready | Phase::Due { .. } | Phase::Failed { .. } => false,
        }
    }

    fn handed_over(&self) -> bool {
        let filled = self.watch.last.as_ref().is_some_and(|last| last.filled);
        filled || self.watch.refusals >= limits::REFUSALS_MAX
    }

    fn newly_due(&self) -> bool {
        self.decision.events.iter().any(|event| matches!(event, WatchEvent::Due { .. }))
    }

    fn tell_of_document(&mut self) {
        if self.watch.phase == (Phase::Failed { told: false }) {
            self.record(WatchEvent::Told);
            self.decision.alerts.push(Alert::Failed);
            return;
        }
        let untold = self.watch.last.as_ref().filter(|last| !last.told);
        if let Some(document) = untold.map(|last| last.document.clone()) {
            self.record(WatchEvent::Told);
            self.decision.alerts.push(Alert::Written(document));
        }
    }

    fn record(&mut self, event: WatchEvent) {
        self.watch.apply(&WatchRecord { time: self.now, event: event.clone() });
        self.decision.events.push(event);
    }
}
