//! What is known of a watched session: folded from the events in its log.

use serde::{Deserialize, Serialize};

use crate::guard::Level;
use crate::guard::checkpoint::CheckpointReason;
use crate::time::Timestamp;

/// One line of a watched session's log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WatchRecord {
    /// When it happened.
    pub time: Timestamp,
    /// What happened.
    #[serde(flatten)]
    pub event: WatchEvent,
}

impl WatchRecord {
    /// The record as a line, without its end.
    ///
    /// # Panics
    ///
    /// Never: a record has nothing that JSON cannot say.
    #[must_use]
    pub fn to_line(&self) -> String {
        serde_json::to_string(self).expect("a record is plain data")
    }
}

/// What happened to a watched session. Each is told once; none is taken back.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum WatchEvent {
    /// The watch began.
    Begun {
        /// How the client says that the session began.
        source: String,
    },
    /// The use reached a level, and was told.
    Crossed {
        /// The highest that it reached.
        level: Level,
        /// In percent of the usable window.
        percent: u64,
        /// In tokens.
        used_tokens: u64,
    },
    /// The use fell: the context was summarised or cleared. Levels are told again.
    Rearmed {
        /// Where it fell to.
        level: Level,
    },
    /// A checkpoint is due and waits for a natural boundary.
    Due {
        /// Why.
        reason: CheckpointReason,
    },
    /// A batch of tools ended while a checkpoint was due.
    Waited,
    /// The last test run of the session ended so.
    Tested {
        /// It passed.
        passed: bool,
    },
    /// A checkpoint is being written.
    Writing {
        /// Why.
        reason: CheckpointReason,
        /// The use, in tokens.
        used_tokens: u64,
    },
    /// A checkpoint is written.
    Taken(Taken),
    /// A checkpoint could not be written.
    Failed {
        /// Why not.
        why: String,
    },
    /// It was told what became of the checkpoint.
    Told,
    /// The agent wrote into the document.
    Filled,
    /// The person put the checkpoint off.
    Deferred {
        /// Until the use is this, in percent.
        until_percent: u8,
    },
    /// The person expects to need this much for what is ahead.
    Expected {
        /// In tokens, from the use as it was then.
        ahead_tokens: u64,
        /// The use then, in tokens.
        used_tokens: u64,
    },
    /// A call was refused at L3.
    Refused,
    /// The person went on after the handoff: calls are not refused any more.
    Released,
    /// The person was reminded, at the end of a turn, that there is no handoff.
    Reminded,
    /// A handoff of an earlier session was given to this one.
    Loaded {
        /// Which: a path within the project.
        document: String,
    },
    /// The session is over.
    Ended,
    /// Something that a newer version knows.
    #[serde(other)]
    Unknown,
}

/// A checkpoint that was written.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Taken {
    /// Why.
    pub reason: CheckpointReason,
    /// The document, as a path within the project.
    pub document: String,
    /// What holds the work tree as it was, if something does.
    pub commit: Option<String>,
    /// Files that differ from the last commit.
    #[serde(default)]
    pub modified_files: Vec<String>,
    /// The issue that the work belongs to.
    pub issue: Option<String>,
}

/// Where the checkpoint is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Phase {
    /// None is due.
    #[default]
    Ready,
    /// It waits for a natural boundary.
    Due {
        /// Why it is due.
        reason: CheckpointReason,
        /// Since when.
        since: Timestamp,
        /// The batches that ended since.
        batches: u32,
    },
    /// It is being written.
    Writing {
        /// Why.
        reason: CheckpointReason,
        /// Since when.
        since: Timestamp,
    },
    /// It is written, and nothing of this level is due any more.
    Done,
    /// It could not be written.
    Failed {
        /// The person knows.
        told: bool,
    },
}

/// The last checkpoint of a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LastCheckpoint {
    /// When it was written.
    pub at: Timestamp,
    /// Why.
    pub reason: CheckpointReason,
    /// Its document, as a path within the project.
    pub document: String,
    /// The use when it began, in tokens.
    pub used_tokens: u64,
    /// The agent was told of it.
    pub told: bool,
    /// The agent wrote into it.
    pub filled: bool,
}

/// A watched session.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Watch {
    /// When the watch began.
    pub since: Option<Timestamp>,
    /// The highest level that was told.
    pub level: Level,
    /// The use when it was told, in percent of the usable window.
    pub told_percent: u64,
    /// Where the checkpoint is.
    pub phase: Phase,
    /// One was due since the levels are armed, whatever became of it.
    pub answered: bool,
    /// The last one that was written.
    pub last: Option<LastCheckpoint>,
    /// The last test run failed.
    pub tests_failing: bool,
    /// The person put the checkpoint off until this use, in percent.
    pub deferred: Option<u8>,
    /// What lies ahead, in tokens, and the use when that was said.
    pub expected: Option<(u64, u64)>,
    /// Calls refused at L3 since it was reached.
    pub refusals: u32,
    /// The person went on after the handoff.
    pub released: bool,
    /// The person was reminded at the end of a turn.
    pub reminded: bool,
    /// The issue that the work belongs to.
    pub issue: Option<String>,
    /// Files that differed from the last commit at the last checkpoint.
    pub modified_files: Vec<String>,
    writing_tokens: u64,
}

impl Watch {
    /// What these records tell, in their order.
    #[must_use]
    pub fn fold<'a>(records: impl IntoIterator<Item = &'a WatchRecord>) -> Self {
        let mut watch = Self::default();
        records.into_iter().for_each(|record| watch.apply(record));
        watch
    }

    /// Takes one record in.
    pub fn apply(&mut self, record: &WatchRecord) {
        self.since.get_or_insert(record.time);
        match &record.event {
            WatchEvent::Crossed { level, percent, .. } => {
                (self.level, self.told_percent) = (*level, *percent);
            }
            WatchEvent::Rearmed { level } => self.rearm(*level),
            WatchEvent::Due { reason } => self.due(*reason, record.time),
            WatchEvent::Waited => self.waited(),
            WatchEvent::Tested { passed } => self.tests_failing = !passed,
            WatchEvent::Writing { reason, used_tokens } => {
                self.phase = Phase::Writing { reason: *reason, since: record.time };
                self.writing_tokens = *used_tokens;
                self.answered |= self.level >= Level::L2;
            }
            WatchEvent::Taken(taken) => self.taken(taken, record.time),
            WatchEvent::Failed { .. } => self.phase = Phase::Failed { told: false },
            WatchEvent::Told => self.told(),
            WatchEvent::Filled => self.mark(|last| last.filled = true),
            WatchEvent::Deferred { until_percent } => self.defer(*until_percent),
            WatchEvent::Expected { ahead_tokens, used_tokens } => {
                self.expected = Some((*ahead_tokens, *used_tokens));
            }
            WatchEvent::Refused => self.refusals += 1,
            WatchEvent::Released => self.released = true,
            WatchEvent::Reminded => self.reminded = true,
            WatchEvent::Begun { .. }
            | WatchEvent::Loaded { .. }
            | WatchEvent::Ended
            | WatchEvent::Unknown => {}
        }
    }

    /// The level by which calls are judged: nothing is refused any more once the person has gone on.
    #[must_use]
    pub fn refusing_level(&self) -> Level {
        if self.released { self.level.min(Level::L2) } else { self.level }
    }

    /// Where the checkpoint is, in one word for status line and file.
    #[must_use]
    pub fn word(&self) -> &'static str {
        match self.phase {
            Phase::Ready if self.deferred.is_some() => "Deferred",
            Phase::Ready => "Ready",
            Phase::Due { .. } => "Due",
            Phase::Writing { .. } => "Writing",
            Phase::Done => "Done",
            Phase::Failed { .. } => "Failed",
        }
    }

    /// What is expected to lie ahead of a session that uses this much now, in tokens.
    #[must_use]
    pub fn ahead_tokens(&self, used_tokens: u64) -> Option<u64> {
        let (ahead, then) = self.expected?;
        Some(ahead.saturating_sub(used_tokens.saturating_sub(then)))
    }

    fn rearm(&mut self, level: Level) {
        self.level = level;
        self.told_percent = 0;
        self.answered = false;
        self.deferred = None;
        self.expected = None;
        self.refusals = 0;
        self.released = false;
        self.reminded = false;
        self.phase = Phase::Ready;
    }

    fn defer(&mut self, until_percent: u8) {
        self.deferred = Some(until_percent);
        if let Phase::Due { .. } = self.phase {
            self.phase = Phase::Ready;
            self.answered = false;
        }
    }

    fn due(&mut self, reason: CheckpointReason, since: Timestamp) {
        self.answered = true;
        match self.phase {
            Phase::Ready | Phase::Done | Phase::Failed { .. } => {
                self.phase = Phase::Due { reason, since, batches: 0 };
            }
            Phase::Due { .. } | Phase::Writing { .. } => {}
        }
    }

    fn waited(&mut self) {
        if let Phase::Due { batches, .. } = &mut self.phase {
            *batches += 1;
        }
    }

    fn taken(&mut self, taken: &Taken, at: Timestamp) {
        self.phase = Phase::Done;
        self.issue.clone_from(&taken.issue);
        self.modified_files.clone_from(&taken.modified_files);
        self.last = Some(LastCheckpoint {
            at,
            reason: taken.reason,
            document: taken.document.clone(),
            used_tokens: self.writing_tokens,
            told: false,
            filled: false,
        });
    }

    fn told(&mut self) {
        if let Phase::Failed { told } = &mut self.phase {
            *told = true;
        } else {
            self.mark(|last| last.told = true);
        }
    }

    fn mark(&mut self, change: impl FnOnce(&mut LastCheckpoint)) {
        if let Some(last) = &mut self.last {
            change(last);
        }
    }
}
