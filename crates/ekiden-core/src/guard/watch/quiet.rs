//! The range of use in which a watched session crosses nothing, so nobody needs to look at it.
//!
//! A caller that sees every figure of a session (a function inside the client) asks [`decide`](super::decide) only
//! outside this range. Inside it, the caller starts no process.

use serde::Serialize;

use super::decide::WatchSettings;
use super::state::{Phase, Watch};
use crate::guard::levels::{Level, Window};
use crate::limits;

/// A range of use in which no decision is possible.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct QuietRange {
    /// In tokens; below it a decision is possible, since the use has fallen.
    pub from_tokens: u64,
    /// In tokens; none if nothing is above.
    pub to_tokens: Option<u64>,
    /// Every batch of tools matters, whatever the use.
    pub every_batch: bool,
}

impl QuietRange {
    /// The range after everything was decided for this use.
    pub fn around(
        watch: &Watch,
        settings: WatchSettings,
        window: &Window,
        used_tokens: u64,
    ) -> Self {
        let mut from_tokens = 0;
        let mut to_tokens = None;
        for at in borders(watch, settings, window) {
            if at <= used_tokens {
                from_tokens = from_tokens.max(at);
            } else {
                to_tokens = Some(to_tokens.map_or(at, |to: u64| to.min(at)));
            }
        }
        Self {
            from_tokens,
            to_tokens,
            every_batch: is_open(watch),
        }
    }
}

/// Every use at which a decision may change, in tokens.
fn borders(watch: &Watch, settings: WatchSettings, window: &Window) -> Vec<u64> {
    let levels = settings.levels;
    let two = levels.percent(Level::L2);
    let percents = [
        levels.percent(Level::L1),
        two,
        levels.percent(Level::L3),
        limits::TRAJECTORY_FROM_PERCENT,
        limits::TRAJECTORY_EARLY_PERCENT.min(two),
        limits::TRAJECTORY_LATE_PERCENT,
        levels.latest_percent(),
    ];
    let percents = percents.into_iter().chain(watch.armed.deferred);
    let mut borders: Vec<u64> = percents.map(|percent| window.tokens_at(percent)).collect();
    let usable = window.usable_tokens();
    // Below this the levels are armed again.
    let fallen = watch.armed.told_percent * limits::REARM_PERCENT;
    borders.push((usable * fallen.div_ceil(100)).div_ceil(100));
    if let Some((ahead, then)) = watch.armed.expected {
        borders.extend([then, then + ahead, (usable + 1).saturating_sub(ahead)]);
    }
    if let Some(last) = &watch.last {
        let covered = usable * limits::DOCUMENT_COVERS_PERCENT / 100;
        borders.push(last.taken.used_tokens + covered + 1);
    }
    borders
}

/// Something waits for the end of a batch: a checkpoint, its document, or an earlier session's.
fn is_open(watch: &Watch) -> bool {
    let waits = match watch.phase {
        Phase::Due { .. } | Phase::Writing { .. } => true,
        Phase::Failed { told } => !told,
        Phase::Ready | Phase::Done => false,
    };
    let unfilled = watch
        .last
        .as_ref()
        .is_some_and(|last| last.filled.is_none());
    waits || unfilled || watch.loaded.is_some()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::guard::checkpoint::CheckpointReason;
    use crate::guard::watch::{Batch, Taken, Trigger, WatchEvent, WatchRecord, decide};
    use crate::guard::{Levels, Profile, Reading};
    use crate::time::Timestamp;

    fn taken(used_tokens: u64) -> WatchEvent {
        WatchEvent::Taken(Taken {
            reason: CheckpointReason::Level2,
            document: "d.md".to_owned(),
            used_tokens,
            commit: None,
            modified_files: Vec::new(),
            issue: None,
        })
    }

    fn events() -> impl Strategy<Value = WatchEvent> {
        prop_oneof![
            (0_u64..120_000).prop_map(taken),
            Just(WatchEvent::Announced),
            (0_u64..120_000).prop_map(|used_tokens| WatchEvent::Filled { used_tokens }),
            (0_u8..100).prop_map(|until_percent| WatchEvent::Deferred { until_percent }),
            (0_u64..120_000, 0_u64..120_000).prop_map(|(ahead_tokens, used_tokens)| {
                WatchEvent::Expected {
                    ahead_tokens,
                    used_tokens,
                }
            }),
            Just(WatchEvent::Released),
            Just(WatchEvent::Consumed),
        ]
    }

    proptest! {
        /// Whatever happened before: at a use within the borders a batch decides nothing.
        // shows: AGT-18
        #[test]
        fn nothing_is_decided_between_the_borders(
            steps in prop::collection::vec((prop::option::of(events()), 0_u64..120_000), 1..8),
            levels in prop::sample::select(vec![[70, 85, 95], [10, 20, 30], [50, 60, 99]]),
            within in 0_u64..10_000,
        ) {
            let settings = WatchSettings {
                levels: Levels::try_from(levels).unwrap_or(Profile::Watch.levels()),
                reminder: true,
                refuse: true,
            };
            let window = Window {
                model_tokens: 133_333,
                compaction_tokens: None,
                reserve_tokens: 33_000,
                cap_tokens: None,
            };
            let mut watch = Watch::default();
            let mut used = 0;
            let time = Timestamp(0);
            let batch = Trigger::AfterBatch(Batch::default());
            let reading = |used_tokens| Reading { used_tokens, window, samples: Vec::new() };
            for (event, use_) in steps {
                used = use_;
                event.into_iter().for_each(|event| watch.apply(&WatchRecord { time, event }));
                let decision = decide(&watch, settings, &batch, Some(&reading(used)), time);
                for event in decision.events {
                    watch.apply(&WatchRecord { time, event });
                }
            }
            let quiet = QuietRange::around(&watch, settings, &window, used);
            prop_assert!(quiet.from_tokens <= used);
            prop_assert!(quiet.to_tokens.is_none_or(|to| used < to));
            if !quiet.every_batch {
                let to = quiet.to_tokens.unwrap_or(quiet.from_tokens + 50_000);
                let span = to - quiet.from_tokens;
                for at in [quiet.from_tokens, to - 1, quiet.from_tokens + span * within / 10_000] {
                    let decision = decide(&watch, settings, &batch, Some(&reading(at)), time);
                    prop_assert_eq!(decision.events, Vec::new(), "at {}: {:?}", at, watch);
                }
            }
        }
    }

    // shows: AGT-18
    #[test]
    fn a_fresh_session_is_quiet_up_to_the_first_border() {
        let settings = WatchSettings {
            levels: Profile::Watch.levels(),
            reminder: true,
            refuse: true,
        };
        let window = Window {
            model_tokens: 233_000,
            compaction_tokens: None,
            reserve_tokens: 33_000,
            cap_tokens: None,
        };
        let quiet = |watch: &Watch, used| QuietRange::around(watch, settings, &window, used);
        let fresh = Watch::default();
        let expected = QuietRange {
            from_tokens: 0,
            to_tokens: Some(120_000),
            every_batch: false,
        };
        assert_eq!(quiet(&fresh, 10_000), expected);
        assert_eq!(quiet(&fresh, 195_000).to_tokens, None);

        // What was expected to fit no longer does once more than 150,000 are in use.
        let mut expecting = fresh;
        let time = Timestamp(0);
        let event = WatchEvent::Expected {
            ahead_tokens: 50_000,
            used_tokens: 160_000,
        };
        expecting.apply(&WatchRecord { time, event });
        assert_eq!(quiet(&expecting, 145_000).to_tokens, Some(150_001));
    }
}
