//! What the guard knows about a session's context at one moment, and how fast the context grows.
//!
//! The figures come from the client's own responses: a status line's input or the transcript's tail. Nothing
//! is guessed: without a response there is no reading.

use serde::{Deserialize, Serialize};

use super::levels::{Level, Levels, Window};
use crate::limits;
use crate::time::{Millis, Timestamp};

/// One response of the main thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sample {
    pub at: Timestamp,
    /// The context that it was made from, in tokens.
    pub used_tokens: u64,
}

/// A session's context as the last response shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reading {
    /// The context in use, in tokens.
    pub used_tokens: u64,
    pub window: Window,
    /// The last responses, oldest first.
    pub samples: Vec<Sample>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Direction {
    Increasing,
    /// It changes by at most one percent of itself a minute.
    Stable,
    /// It fell: the context was summarised, cleared or rewound.
    Decreasing,
    /// There are fewer than two responses to compare.
    Unknown,
}

/// How the use grew over the last responses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Trend {
    pub direction: Direction,
    /// Tokens per minute of work; negative after a fall.
    pub tokens_per_minute: Option<i64>,
}

impl Reading {
    /// The use in percent of the usable window, rounded down.
    pub fn percent(&self) -> u64 {
        self.window.percent(self.used_tokens)
    }

    pub fn level(&self, levels: Levels) -> Level {
        self.window.level(levels, self.used_tokens)
    }

    /// What is left of the usable window, in tokens.
    pub fn remaining_tokens(&self) -> u64 {
        self.window.usable_tokens().saturating_sub(self.used_tokens)
    }

    /// The recent growth of the use. Idle gaps are left out, since a session that waits for its person does
    /// not grow.
    pub fn trend(&self) -> Trend {
        let (mut grown, mut millis) = (0_i64, 0_u64);
        for pair in self.samples.windows(2) {
            let gap = pair[1].at.since(pair[0].at);
            if gap <= limits::IDLE_GAP {
                grown += signed(pair[1].used_tokens) - signed(pair[0].used_tokens);
                millis += gap.0;
            }
        }
        if millis == 0 {
            return Trend {
                direction: Direction::Unknown,
                tokens_per_minute: None,
            };
        }
        let per_minute = grown.saturating_mul(60_000) / signed(millis);
        let still = signed(self.used_tokens / 100).max(1);
        let direction = match per_minute {
            rate if rate >= still => Direction::Increasing,
            rate if rate <= -still => Direction::Decreasing,
            _ => Direction::Stable,
        };
        Trend {
            direction,
            tokens_per_minute: Some(per_minute),
        }
    }

    /// The time to a level at the present rate. None if the level is reached, or while nothing grows.
    pub fn time_to(&self, levels: Levels, level: Level) -> Option<Millis> {
        let missing = self
            .window
            .tokens_of(levels, level)
            .checked_sub(self.used_tokens)?;
        let rate = u64::try_from(self.trend().tokens_per_minute?)
            .ok()
            .filter(|rate| *rate > 0)?;
        (missing > 0).then(|| Millis(missing.saturating_mul(60_000) / rate))
    }

    /// The next level, and the time to it at the present rate.
    pub fn next_level(&self, levels: Levels) -> Option<(Level, Millis)> {
        let above = [Level::L1, Level::L2, Level::L3].into_iter();
        above
            .filter_map(|level| Some((level, self.time_to(levels, level)?)))
            .next()
    }
}

fn signed(tokens: u64) -> i64 {
    i64::try_from(tokens).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::guard::Profile;

    fn reading(samples: &[(u64, u64)]) -> Reading {
        let samples: Vec<Sample> = samples
            .iter()
            .map(|(secs, used_tokens)| Sample {
                at: Timestamp(secs * 1000),
                used_tokens: *used_tokens,
            })
            .collect();
        let window = Window {
            model_tokens: 200_000,
            compaction_tokens: None,
            reserve_tokens: 33_000,
            cap_tokens: None,
        };
        Reading {
            used_tokens: samples.last().map_or(0, |last| last.used_tokens),
            window,
            samples,
        }
    }

    // shows: MON-002, MON-003
    #[test]
    fn growth_is_measured_at_work() {
        let at_work = reading(&[(0, 60_000), (60, 62_000), (120, 64_000)]);
        assert_eq!(
            at_work.trend(),
            Trend {
                direction: Direction::Increasing,
                tokens_per_minute: Some(2_000)
            }
        );
        let levels = Profile::Watch.levels();
        let to_l1 = (167_000 * 70 / 100 - 64_000) * 60_000 / 2_000;
        assert_eq!(at_work.time_to(levels, Level::L1), Some(Millis(to_l1)));
        assert_eq!(at_work.next_level(levels), Some((Level::L1, Millis(to_l1))));
        let past = reading(&[(0, 118_000), (60, 120_000)]);
        let next = past.next_level(levels).map(|(level, _)| level);
        assert_eq!(next, Some(Level::L2));
    }

    // shows: MON-002
    #[test]
    fn an_hour_at_lunch_is_no_work() {
        let lunch = reading(&[(0, 60_000), (60, 62_000), (3_660, 62_500), (3_720, 64_500)]);
        assert_eq!(lunch.trend().tokens_per_minute, Some(2_000));
    }

    // shows: MON-003
    #[test]
    fn what_does_not_grow_reaches_nothing() {
        let levels = Profile::Watch.levels();
        assert_eq!(
            reading(&[(0, 60_000)]).trend().direction,
            Direction::Unknown
        );
        let still = reading(&[(0, 60_000), (60, 60_100)]);
        assert_eq!(still.trend().direction, Direction::Stable);
        let fell = reading(&[(0, 150_000), (60, 20_000)]);
        assert_eq!(
            (fell.trend().direction, fell.time_to(levels, Level::L1)),
            (Direction::Decreasing, None)
        );
        let full = reading(&[(0, 158_000), (60, 160_000)]);
        assert_eq!(full.time_to(levels, Level::L3), None, "it is reached");
    }
}
