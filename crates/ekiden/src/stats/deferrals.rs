//! What people do when a watched session should hand off, and whether the alert is early enough.

use ekiden_core::guard::Levels;
use ekiden_core::guard::checkpoint::CheckpointReason;
use ekiden_core::guard::watch::{WatchEvent, WatchRecord};
use serde::Serialize;

use super::metrics::Fraction;

/// How many deferrals there must be before they are reported.
const DEFERRALS_MIN: u64 = 5;
/// If more than this percentage of deferrals ends in a compaction, that is too often.
const COMPACTED_PERCENT_MAX: u64 = 20;
/// How much earlier a reminder is then suggested, in percentage points.
const EARLIER: u8 = 10;

/// Watched sessions that should hand off.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Deferrals {
    /// Reminders that were deferred, of all reminders.
    pub deferred: Fraction,
    /// Compactions before a handoff, of the deferred reminders.
    pub compacted: Fraction,
    /// The same for the other reminders.
    pub compacted_at_once: Fraction,
}

impl Deferrals {
    /// Takes in the log of a watched session. A reminder is over when the use drops or the log ends.
    pub fn take(&mut self, records: &[WatchRecord]) {
        let is_over = |record: &WatchRecord| matches!(record.event, WatchEvent::Rearmed { .. });
        for part in records.split(is_over) {
            let has =
                |wanted: fn(&WatchEvent) -> bool| part.iter().any(|record| wanted(&record.event));
            let is_deferred = has(|event| matches!(event, WatchEvent::Deferred { .. }));
            let is_due =
                has(|event| matches!(event, WatchEvent::Due { .. } | WatchEvent::Writing { .. }));
            if !is_deferred && !is_due {
                continue;
            }
            let compaction = CheckpointReason::Compaction;
            let is_written = |event: &WatchEvent| matches!(event, WatchEvent::Writing { .. });
            let mut events = part.iter().map(|record| &record.event);
            let is_compacted = events.find(|event| is_written(event))
                == Some(&WatchEvent::Writing { reason: compaction });
            self.deferred.count(is_deferred);
            match is_deferred {
                true => self.compacted.count(is_compacted),
                false => self.compacted_at_once.count(is_compacted),
            }
        }
    }

    /// Earlier levels, if deferrals end in compactions too often. For a person to accept.
    pub fn suggestion(&self, levels: Levels) -> Option<[u8; 3]> {
        let is_often = self.compacted.percent()? >= COMPACTED_PERCENT_MAX;
        let [warn, handoff, force] = levels.into();
        let is_enough = self.compacted.of >= DEFERRALS_MIN && warn > EARLIER;
        (is_often && is_enough).then(|| [warn - EARLIER, handoff - EARLIER, force])
    }
}

#[cfg(test)]
mod tests {
    use ekiden_core::guard::{Level, Profile};
    use ekiden_core::time::Timestamp;

    use super::*;

    fn log(events: &[WatchEvent]) -> Vec<WatchRecord> {
        let record = |event: &WatchEvent| WatchRecord {
            time: Timestamp(0),
            event: event.clone(),
        };
        events.iter().map(record).collect()
    }

    // shows: EST-05
    #[test]
    fn deferrals_that_end_in_compactions_suggest_an_earlier_reminder() {
        let due = WatchEvent::Due {
            reason: CheckpointReason::Level2,
        };
        let deferred = WatchEvent::Deferred { until_percent: 90 };
        let writing = |reason| WatchEvent::Writing { reason };
        let fell = WatchEvent::Rearmed { level: Level::L0 };
        let by_compaction = writing(CheckpointReason::Compaction);
        let by_level = writing(CheckpointReason::Level2);
        let mut seen = Deferrals::default();
        let levels = Profile::Watch.levels();
        for _ in 0..4 {
            seen.take(&log(&[
                due.clone(),
                deferred.clone(),
                by_level.clone(),
                fell.clone(),
            ]));
        }
        assert_eq!(
            seen.suggestion(levels),
            None,
            "too few, and none was compacted"
        );
        seen.take(&log(&[
            due.clone(),
            deferred,
            by_compaction,
            fell,
            due,
            by_level,
        ]));
        seen.take(&log(&[WatchEvent::Announced]));
        assert_eq!(seen.deferred, Fraction { part: 5, of: 6 });
        assert_eq!(seen.compacted, Fraction { part: 1, of: 5 });
        assert_eq!(seen.compacted_at_once, Fraction { part: 0, of: 1 });
        assert_eq!(seen.suggestion(levels), Some([60, 75, 95]));
    }
}
