//! What the guard does at each moment of a watched session, as a pure function.
//!
//! ```text
//!             70%         85% or earlier, by what lies ahead       95%
//!  L0 ─────────┬────────────────┬───────────────────────────────────┬──────────────
//!          alert           alert, then Due ──► Writing ──► Done   Writing at once,
//!                              │  boundary, 3 batches,            one call is refused
//!                              └─ 60 s, 90%                      unless a prompt came
//! ```
//!
//! - The guard announces only the highest level that it finds at a moment, once, and again only after use has
//!   fallen.
//! - A checkpoint that is due waits for a natural boundary, but not for long ([`limits::BOUNDARY_WAIT`],
//!   [`limits::BOUNDARY_BATCHES`]), and it waits for failing tests only below
//!   [`limits::CHECKPOINT_LATEST_PERCENT`]. If a document was written shortly before, no checkpoint is due.
//! - At L3 the guard refuses one call. After a prompt of a person it refuses none: `docs/design/guard.md` says why.
//!
//! [`decide`] does nothing itself: it returns the events to record and the answer. Called again for the same
//! moment, it answers by what the first call recorded.

use super::batch::Batch;
use super::state::{LastCheckpoint, Phase, Watch, WatchEvent, WatchRecord};
use crate::guard::checkpoint::CheckpointReason;
use crate::guard::estimate::Estimate;
use crate::guard::levels::{Level, Levels};
use crate::guard::reading::Reading;
use crate::limits;
use crate::shard::LargeSpec;
use crate::time::Timestamp;

/// What happens in the session right now. The guard watches only the main thread.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Trigger {
    /// A conversation begins or continues.
    Begins(Source),
    /// A person's prompt begins a turn.
    Prompt,
    /// A call is about to run, and the use is known exactly.
    BeforeTool,
    /// A call is about to run that the ruling refuses at L3.
    Refuses,
    /// The turn is about to end, and can be held.
    Holds,
    /// Nothing runs, and a prompt can be sent.
    Idles,
    /// All tools of a response have run.
    AfterBatch(Batch),
    /// The turn is about to end.
    Stops {
        background: bool,
    },
    /// The client is about to summarise the conversation.
    Compacts,
    Ends,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    Startup,
    Clear,
    Compact,
    /// At the same place, or as a copy: it has everything it needs.
    Resume,
}

/// How a person wants to be watched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WatchSettings {
    pub levels: Levels,
    /// Remind at the end of a turn that there is no handoff.
    pub reminder: bool,
    /// One call is refused at L3.
    pub refuse: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Decision {
    /// To be recorded before anything else happens.
    pub events: Vec<WatchEvent>,
    pub alerts: Vec<Alert>,
    pub refuse: bool,
    /// The checkpoint that begins now. A compaction waits for it.
    pub begin: Option<CheckpointReason>,
    /// Look for a handoff and load it into the session.
    pub load: bool,
    /// No other session gets this document.
    pub consume: Option<String>,
}

/// What the person and the agent read. The texts are in [`crate::guard::alert`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Alert {
    /// A level was reached, or the time of the handoff has come.
    Level {
        /// The use, in percent of the usable window.
        percent: u64,
        handoff: HandoffTime,
    },
    Written {
        reason: CheckpointReason,
        /// A path within the project.
        document: String,
    },
    /// The checkpoint could not be written.
    Failed,
    /// The person asks for something that may not fit into the rest of the window.
    Large(Estimate),
    /// The person names a document that is better sharded first.
    Shard(LargeSpec),
    Refused,
    /// The end of the turn was held, once.
    Held,
    /// The turn ends with this use in percent and no handoff.
    NoHandoff {
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
    /// Not before this use, in percent: the person deferred it, or little work is left.
    Waits(u8),
    Now,
    /// Its document was written a moment ago.
    Written,
}

/// Decides. `reading` comes from the last response, if there is one.
pub fn decide(
    watch: &Watch,
    settings: WatchSettings,
    trigger: &Trigger,
    reading: Option<&Reading>,
    now: Timestamp,
) -> Decision {
    let mut judge = Judge {
        watch: watch.clone(),
        settings,
        reading,
        now,
        decision: Decision::default(),
    };
    match trigger {
        Trigger::Begins(source) => judge.begins(*source),
        Trigger::Prompt => judge.prompt(),
        Trigger::BeforeTool => judge.follow_usage(),
        Trigger::Refuses => judge.refuse(Alert::Refused),
        Trigger::Holds => judge.refuse(Alert::Held),
        Trigger::Idles => judge.idles(),
        Trigger::AfterBatch(batch) => judge.after_batch(*batch),
        Trigger::Stops { background } => judge.stops(*background),
        Trigger::Compacts => {
            if !judge.is_covered(0) {
                judge.begin(CheckpointReason::Compaction);
            }
        }
        Trigger::Ends => judge.ends(),
    }
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
    fn begins(&mut self, source: Source) {
        self.decision.load = source != Source::Resume;
        let last = self.watch.last.as_ref();
        let is_outdated = self.watch.armed.level > Level::L0
            || matches!(self.watch.phase, Phase::Writing { .. })
            || last.is_some_and(|last| !last.outdated);
        if source == Source::Compact && is_outdated {
            self.record(WatchEvent::Rearmed { level: Level::L0 });
        }
    }

    fn prompt(&mut self) {
        self.follow_usage();
        if self.watch.armed.level == Level::L3 && !self.watch.armed.released {
            self.record(WatchEvent::Released);
        }
        let last = self.watch.last.as_ref();
        if last.is_some_and(|last| last.filled.is_some_and(|used| used > 0)) {
            self.record(WatchEvent::Filled { used_tokens: 0 });
        }
        self.announce_document();
    }

    fn refuse(&mut self, alert: Alert) {
        if self.watch.refuses(self.settings) {
            self.record(WatchEvent::Refused);
            self.decision.refuse = true;
            self.decision.alerts.push(alert);
        }
    }

    /// No turn runs, perhaps since the person interrupted it: what is due begins, and a full context's document that came
    /// after the end of the turn still gets filled in.
    fn idles(&mut self) {
        self.begin_due(true);
        if self.settings.refuse && self.watch.armed.level >= Level::L2 {
            self.announce_document();
        }
    }

    fn after_batch(&mut self, batch: Batch) {
        // A session that is discarded before it has worked leaves the document to the next one.
        self.decision.consume.clone_from(&self.watch.loaded);
        if self.watch.loaded.is_some() {
            self.record(WatchEvent::Consumed);
        }
        if let Some(tested) = self.watch.tested(batch) {
            self.record(tested);
        }
        if batch.filled && self.watch.last.is_some() {
            let used_tokens = self.reading.map_or(0, |reading| reading.used_tokens);
            self.record(WatchEvent::Filled { used_tokens });
        }
        let was_due = matches!(self.watch.phase, Phase::Due { .. });
        self.follow_usage();
        if was_due {
            self.record(WatchEvent::Waited);
        }
        self.begin_due(batch.is_boundary() && !self.watch.tests_failing);
        self.announce_document();
    }

    fn stops(&mut self, background: bool) {
        self.follow_usage();
        self.begin_due(true);
        let is_open = self.watch.phase == Phase::Ready && self.watch.last.is_none();
        let percent = self.reading.map_or(0, Reading::percent);
        if self.settings.reminder
            && is_open
            && !background
            && !self.watch.armed.reminded
            && percent > limits::STOP_REMINDER_PERCENT
        {
            self.record(WatchEvent::Reminded);
            self.decision.alerts.push(Alert::NoHandoff { percent });
        }
    }

    fn ends(&mut self) {
        if let Phase::Due { reason, .. } = self.watch.phase {
            self.begin(reason);
        }
    }

    /// Handles levels that were crossed, in either direction, and what becomes due.
    fn follow_usage(&mut self) {
        let Some(reading) = self.reading else { return };
        let (level, percent) = (reading.level(self.settings.levels), reading.percent());
        let told = self.watch.armed.told_percent;
        let fell = percent * 100 < told.saturating_mul(limits::REARM_PERCENT);
        if fell && level < self.watch.armed.level {
            self.record(WatchEvent::Rearmed { level });
        }
        let crossed = level > self.watch.armed.level;
        if crossed {
            self.record(WatchEvent::Crossed { level, percent });
        }
        let handoff = self.become_due(reading, crossed && level == Level::L3);
        let is_due = |event: &WatchEvent| matches!(event, WatchEvent::Due { .. });
        if crossed || self.decision.events.iter().any(is_due) {
            self.decision.alerts.push(Alert::Level { percent, handoff });
        }
    }

    /// Makes the checkpoint due once its time has come.
    fn become_due(&mut self, reading: &Reading, forced: bool) -> HandoffTime {
        if forced {
            if !self.is_covered(0) {
                self.begin(CheckpointReason::Level3);
            }
            return HandoffTime::Now;
        }
        self.outlive_writer();
        let (percent, reason) = self.handoff_percent(reading);
        if reading.percent() < u64::from(percent) {
            return match reading.level(self.settings.levels) {
                Level::L0 | Level::L1 => HandoffTime::Later,
                Level::L2 | Level::L3 => HandoffTime::Waits(percent),
            };
        }
        let is_covered = self.is_covered(limits::DOCUMENT_COVERS_PERCENT);
        if is_covered && self.watch.phase == Phase::Done {
            return HandoffTime::Written;
        }
        if !is_covered && !self.watch.armed.answered {
            self.record(WatchEvent::Due { reason });
        }
        HandoffTime::Soon
    }

    /// A checkpoint whose process died becomes due again.
    fn outlive_writer(&mut self) {
        if let Phase::Writing { since, .. } = self.watch.phase
            && self.now.since(since) > limits::CHECKPOINT_PATIENCE
        {
            let why = "its process ended without an answer".to_owned();
            self.record(WatchEvent::Failed { why });
        }
    }

    /// The use in percent at which the handoff begins, and why: L2, unless the person deferred it or the work
    /// ahead requires another.
    fn handoff_percent(&self, reading: &Reading) -> (u8, CheckpointReason) {
        let levels = self.settings.levels;
        let (two, latest) = (levels.percent(Level::L2), levels.latest_percent());
        if let Some(until) = self.watch.armed.deferred {
            return (until.clamp(two, latest), CheckpointReason::Level2);
        }
        let expected = self.watch.armed.expected;
        let ahead = expected
            .and_then(|(ahead, then)| ahead.checked_sub(reading.used_tokens.saturating_sub(then)));
        // An estimate that was used up says nothing of what is left.
        let Some(ahead) = ahead.filter(|ahead| *ahead > 0) else {
            return (two, CheckpointReason::Level2);
        };
        let (percent, fits) = (reading.percent(), ahead <= reading.remaining_tokens());
        if !fits && percent >= u64::from(limits::TRAJECTORY_FROM_PERCENT) {
            let early = limits::TRAJECTORY_EARLY_PERCENT.min(two);
            (early, CheckpointReason::Trajectory)
        } else if fits && percent >= u64::from(limits::TRAJECTORY_LATE_PERCENT) {
            (latest, CheckpointReason::Level2)
        } else {
            (two, CheckpointReason::Level2)
        }
    }

    /// Begins the checkpoint that is due, at a boundary or when it has waited long enough.
    fn begin_due(&mut self, boundary: bool) {
        let Phase::Due {
            reason,
            since,
            batches,
        } = self.watch.phase
        else {
            return;
        };
        let percent = self.reading.map_or(0, Reading::percent);
        let waited =
            batches >= limits::BOUNDARY_BATCHES || self.now.since(since) >= limits::BOUNDARY_WAIT;
        let at_once = percent >= u64::from(self.settings.levels.latest_percent());
        if at_once || boundary || (waited && !self.watch.tests_failing) {
            self.begin(reason);
        }
    }

    fn begin(&mut self, reason: CheckpointReason) {
        self.record(WatchEvent::Writing { reason });
        self.decision.begin = Some(reason);
    }

    /// A document is being written, or one was written within the last `percent` of the usable window.
    fn is_covered(&self, percent: u64) -> bool {
        let covered = |reading: &Reading, used_tokens: u64| {
            let more = reading.window.usable_tokens() * percent / 100;
            reading.used_tokens <= used_tokens + more
        };
        match (self.watch.phase, &self.watch.last) {
            (Phase::Writing { since, .. }, _) => {
                self.now.since(since) <= limits::CHECKPOINT_PATIENCE
            }
            (Phase::Done, Some(last)) => self
                .reading
                .is_none_or(|reading| covered(reading, last.taken.used_tokens)),
            (Phase::Ready | Phase::Due { .. } | Phase::Done | Phase::Failed { .. }, _) => false,
        }
    }

    fn announce_document(&mut self) {
        if self.watch.phase == (Phase::Failed { told: false }) {
            self.record(WatchEvent::Announced);
            self.decision.alerts.push(Alert::Failed);
            return;
        }
        let last = self.watch.last.as_ref();
        if let Some(last) = last.filter(|last| !last.told && last.filled.is_none()) {
            let document = last.taken.document.clone();
            let is_full = self.watch.armed.level >= Level::L2 && self.watch.phase == Phase::Done;
            let reason = match (last.outdated, last.taken.reason) {
                (true, _) => CheckpointReason::Compaction,
                // The compaction was cancelled, and the context is full: the document is a handoff.
                (_, CheckpointReason::Compaction) if is_full => CheckpointReason::Level2,
                (_, CheckpointReason::Compaction) => return,
                (_, reason) => reason,
            };
            self.record(WatchEvent::Announced);
            self.decision
                .alerts
                .push(Alert::Written { reason, document });
        }
    }

    fn record(&mut self, event: WatchEvent) {
        self.watch.apply(&WatchRecord {
            time: self.now,
            event: event.clone(),
        });
        self.decision.events.push(event);
    }
}

impl Watch {
    /// The last document can replace this conversation: the agent filled it in, and since then it did little and the person
    /// said nothing.
    pub fn document_stands(&self, reading: Option<&Reading>) -> bool {
        let last = self.last.as_ref().filter(|last| !last.outdated);
        let filled = last.and_then(|last| last.filled);
        filled.zip(reading).is_some_and(|(filled, reading)| {
            let more = reading.window.usable_tokens() * limits::DOCUMENT_STANDS_PERCENT / 100;
            reading.used_tokens <= filled + more.min(limits::DOCUMENT_STANDS_TOKENS)
        })
    }

    /// The batch's test run, if its result differs from that of the run before.
    pub fn tested(&self, batch: Batch) -> Option<WatchEvent> {
        let passed = batch.tests.filter(|passed| *passed == self.tests_failing)?;
        Some(WatchEvent::Tested { passed })
    }

    /// Between two turns something is to be done, without anything else happening.
    pub fn waits_for_idleness(&self, settings: WatchSettings) -> bool {
        let is_untold = |last: &LastCheckpoint| !last.told && last.filled.is_none();
        let is_untold = self.phase == Phase::Done && self.last.as_ref().is_some_and(is_untold);
        let is_full = settings.refuse && self.armed.level >= Level::L2;
        matches!(self.phase, Phase::Due { .. }) || is_full && is_untold
    }

    /// The next call that does not belong to the handoff is refused.
    pub fn refuses(&self, settings: WatchSettings) -> bool {
        let filled = self.last.as_ref().is_some_and(|last| last.filled.is_some());
        settings.refuse && self.armed.level == Level::L3 && !self.armed.released && !filled
    }
}
