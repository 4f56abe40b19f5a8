//! The state of a watched session, folded from the events in its log.

use serde::{Deserialize, Serialize};

use crate::guard::checkpoint::CheckpointReason;
use crate::guard::levels::Level;
use crate::limits;
use crate::time::Timestamp;

/// One line of a watched session's log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WatchRecord {
    pub time: Timestamp,
    #[serde(flatten)]
    pub event: WatchEvent,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum WatchEvent {
    /// The use reached a level, and the person was warned.
    Crossed {
        /// The highest level that it reached.
        level: Level,
        /// In percent of the usable window.
        percent: u64,
    },
    /// The use fell: the context was summarised or cleared. Levels are announced again.
    Rearmed {
        level: Level,
    },
    /// A checkpoint is due and waits for a natural boundary.
    Due {
        reason: CheckpointReason,
    },
    /// A batch of tools ended while a checkpoint was due.
    Waited,
    /// The last test run of the session.
    Tested {
        passed: bool,
    },
    /// A checkpoint is being written.
    Writing {
        reason: CheckpointReason,
    },
    Taken(Taken),
    /// A checkpoint could not be written.
    Failed {
        why: String,
    },
    /// The result of the checkpoint was announced.
    #[serde(rename = "told")]
    Announced,
    /// The agent wrote into the document.
    Filled {
        /// The use after that, in tokens; 0 once the person has sent another prompt, which is not in the document.
        #[serde(default)]
        used_tokens: u64,
    },
    /// The person deferred the checkpoint until this use, in percent.
    Deferred {
        until_percent: u8,
    },
    /// The person expects to need this much, in tokens, counted from the use at that time.
    Expected {
        ahead_tokens: u64,
        used_tokens: u64,
    },
    /// A call was refused at L3. Only one is.
    Refused,
    /// The person sent a prompt at L3, so nothing is refused any more.
    Released,
    /// The person was reminded, at the end of a turn, that there is no handoff.
    Reminded,
    /// The status line shows this word for the session's phase; empty for none.
    PhaseNamed {
        word: String,
    },
    /// This session got a document of an earlier session.
    Loaded {
        document: String,
    },
    /// The session has worked since, so no other one gets the document.
    Consumed,
}

/// A checkpoint that was written.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Taken {
    pub reason: CheckpointReason,
    /// The document, as a path within the project.
    pub document: String,
    /// The use when it began, in tokens.
    pub used_tokens: u64,
    /// The commit that holds the uncommitted work.
    pub commit: Option<String>,
    /// Files that differ from the last commit.
    pub modified_files: Vec<String>,
    /// The issue that the work belongs to.
    pub issue: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Phase {
    /// None is due.
    #[default]
    Ready,
    /// It waits for a natural boundary.
    Due {
        reason: CheckpointReason,
        since: Timestamp,
        /// The batches that ended since.
        batches: u32,
    },
    Writing {
        since: Timestamp,
        /// The use has fallen since.
        outdated: bool,
    },
    /// It is written, and nothing else of this level is due.
    Done,
    Failed {
        told: bool,
    },
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LastCheckpoint {
    pub at: Timestamp,
    pub taken: Taken,
    pub told: bool,
    /// Tokens in use when the agent last wrote into its document.
    pub filled: Option<u64>,
    /// The use has fallen since: the document describes an earlier state, and ends no turn.
    pub outdated: bool,
}

/// What happened since the levels were armed: at the start, and after the use has fallen.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Armed {
    /// The highest level that was announced.
    pub level: Level,
    /// The use then, in percent of the usable window.
    pub told_percent: u64,
    /// A checkpoint was due, whatever happened to it.
    pub answered: bool,
    /// The person deferred the checkpoint until this use, in percent.
    pub deferred: Option<u8>,
    /// The expected need, in tokens, and the use when the person stated it.
    pub expected: Option<(u64, u64)>,
    /// The one refusal of L3 was made, or the person continued without it.
    pub released: bool,
    /// The person was reminded at the end of a turn.
    pub reminded: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Watch {
    pub since: Option<Timestamp>,
    pub armed: Armed,
    pub phase: Phase,
    pub last: Option<LastCheckpoint>,
    /// The last test run failed.
    pub tests_failing: bool,
    pub phase_word: String,
    /// The document that this session got, until it has worked.
    pub loaded: Option<String>,
}

impl Watch {
    pub fn fold<'a>(records: impl IntoIterator<Item = &'a WatchRecord>) -> Self {
        let mut watch = Self::default();
        records.into_iter().for_each(|record| watch.apply(record));
        watch
    }

    pub fn apply(&mut self, record: &WatchRecord) {
        let since = record.time;
        self.since.get_or_insert(since);
        let armed = &mut self.armed;
        match &record.event {
            WatchEvent::Crossed { level, percent } => {
                (armed.level, armed.told_percent) = (*level, *percent);
            }
            WatchEvent::Rearmed { level } => {
                let level = *level;
                self.armed = Armed {
                    level,
                    ..Armed::default()
                };
                self.outdate();
            }
            WatchEvent::Due { reason } => {
                armed.answered = true;
                let (reason, batches) = (*reason, 0);
                self.phase = Phase::Due {
                    reason,
                    since,
                    batches,
                };
            }
            WatchEvent::Waited => {
                if let Phase::Due { batches, .. } = &mut self.phase {
                    *batches += 1;
                }
            }
            WatchEvent::Tested { passed } => self.tests_failing = !passed,
            WatchEvent::Writing { .. } => {
                armed.answered |= armed.level >= Level::L2;
                let outdated = false;
                self.phase = Phase::Writing { since, outdated };
            }
            WatchEvent::Taken(taken) => self.taken(taken.clone(), since),
            WatchEvent::Failed { .. } => self.phase = Phase::Failed { told: false },
            WatchEvent::Announced => self.announced(),
            WatchEvent::Filled { used_tokens } => {
                let filled = Some(*used_tokens);
                self.last.iter_mut().for_each(|last| last.filled = filled);
            }
            WatchEvent::Deferred { until_percent } => {
                armed.deferred = Some(*until_percent);
                if let Phase::Due { .. } = self.phase {
                    self.phase = Phase::Ready;
                    armed.answered = false;
                }
            }
            WatchEvent::Expected {
                ahead_tokens,
                used_tokens,
            } => {
                armed.expected = Some((*ahead_tokens, *used_tokens));
            }
            WatchEvent::Refused | WatchEvent::Released => armed.released = true,
            WatchEvent::Reminded => armed.reminded = true,
            WatchEvent::PhaseNamed { word } => self.phase_word.clone_from(word),
            WatchEvent::Loaded { document } => self.loaded = Some(document.clone()),
            WatchEvent::Consumed => self.loaded = None,
        }
    }

    /// The document of a full context is written, and the agent has filled it in or had time to do so.
    pub fn is_handed_off(&self, now: Timestamp) -> bool {
        let is_full = |reason| {
            use CheckpointReason::{Level2, Level3, Trajectory};
            matches!(reason, Level2 | Level3 | Trajectory)
        };
        let last = self.last.as_ref().filter(|_| self.phase == Phase::Done);
        last.is_some_and(|last| {
            let is_late = now.since(last.at) >= limits::BOUNDARY_WAIT;
            let is_over =
                last.filled.is_some() || is_late || last.told && self.armed.level == Level::L3;
            is_full(last.taken.reason) && !last.outdated && is_over
        })
    }

    /// The checkpoint's state, in one word for the status line and the file.
    pub fn word(&self) -> &'static str {
        match self.phase {
            Phase::Ready if self.armed.deferred.is_some() => "Deferred",
            Phase::Ready => "Ready",
            Phase::Due { .. } => "Due",
            Phase::Writing { .. } => "Writing",
            Phase::Done => "Done",
            Phase::Failed { .. } => "Failed",
        }
    }

    fn taken(&mut self, taken: Taken, at: Timestamp) {
        let outdated = matches!(self.phase, Phase::Writing { outdated: true, .. });
        self.phase = if outdated { Phase::Ready } else { Phase::Done };
        self.last = Some(LastCheckpoint {
            at,
            taken,
            told: false,
            filled: None,
            outdated,
        });
    }

    /// A document that ended turns is announced again, as one that does not.
    fn outdate(&mut self) {
        if self.phase == Phase::Done
            && let Some(last) = &mut self.last
        {
            (last.outdated, last.told) = (true, false);
        }
        self.phase = match self.phase {
            Phase::Writing { since, .. } => Phase::Writing {
                since,
                outdated: true,
            },
            Phase::Ready | Phase::Due { .. } | Phase::Done | Phase::Failed { .. } => Phase::Ready,
        };
    }

    fn announced(&mut self) {
        if let Phase::Failed { told } = &mut self.phase {
            *told = true;
        } else {
            self.last.iter_mut().for_each(|last| last.told = true);
        }
    }
}
