//! How full a session's context is.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::limits;
use crate::names::names;

/// How full the usable window is.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, Default,
)]
pub enum Level {
    #[default]
    L0,
    L1,
    /// Critical: the session gets the order to hand off.
    L2,
    /// Emergency: only the handoff can still be written.
    L3,
}

names!(Level {
    L0: "L0",
    L1: "L1",
    L2: "L2",
    L3: "L3",
});

/// Where L1, L2 and L3 begin, in percent of the usable window.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "[u8; 3]", into = "[u8; 3]")]
pub struct Levels {
    percent: [u8; 3],
}

/// Three numbers that are not levels.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("levels must be three rising percentages from 1 to 99, such as 50,60,70")]
pub struct LevelsError;

impl TryFrom<[u8; 3]> for Levels {
    type Error = LevelsError;

    fn try_from(percent: [u8; 3]) -> Result<Self, LevelsError> {
        let [one, two, three] = percent;
        if 0 < one && one < two && two < three && three < 100 {
            Ok(Self { percent })
        } else {
            Err(LevelsError)
        }
    }
}

impl Levels {
    /// Where a level begins, in percent of the usable window.
    pub const fn percent(self, level: Level) -> u8 {
        match level {
            Level::L0 => 0,
            Level::L1 => self.percent[0],
            Level::L2 => self.percent[1],
            Level::L3 => self.percent[2],
        }
    }

    /// From this use on a checkpoint of a watched session waits for nothing, in percent: 90, unless other levels
    /// are set.
    pub fn latest_percent(self) -> u8 {
        let (two, three) = (self.percent(Level::L2), self.percent(Level::L3));
        limits::CHECKPOINT_LATEST_PERCENT.clamp(two, three)
    }

    /// The largest part of a window that may be used so that the order to hand off comes at this use, in
    /// tokens.
    pub fn cap_for_handoff(self, usage_tokens: u64) -> u64 {
        usage_tokens.saturating_mul(100) / u64::from(self.percent(Level::L2))
    }
}

impl From<Levels> for [u8; 3] {
    fn from(levels: Levels) -> Self {
        levels.percent
    }
}

impl FromStr for Levels {
    type Err = LevelsError;

    fn from_str(text: &str) -> Result<Self, LevelsError> {
        let numbers: Vec<u8> = text
            .split(',')
            .map(|part| part.trim().parse())
            .collect::<Result<_, _>>()
            .map_err(|_| LevelsError)?;
        <[u8; 3]>::try_from(numbers)
            .map_err(|_| LevelsError)?
            .try_into()
    }
}

impl fmt::Display for Levels {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [one, two, three] = self.percent;
        write!(f, "{one},{two},{three}")
    }
}

/// Whose session is watched: that decides the levels unless the user sets them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Profile {
    /// A session that a person started.
    Watch,
    /// A session of a relay, where a handoff costs little.
    Relay,
    /// A session that judges others' work.
    Review,
}

impl Profile {
    pub fn levels(self) -> Levels {
        match self {
            Self::Watch => Levels {
                percent: [70, 85, 95],
            },
            Self::Relay | Self::Review => Levels {
                percent: [50, 60, 70],
            },
        }
    }
}

/// A context window and the part of it that may be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Window {
    /// The model's window, in tokens.
    pub model_tokens: u64,
    /// The client's lower compaction window, if one is set.
    pub compaction_tokens: Option<u64>,
    /// What the client keeps free for compaction.
    pub reserve_tokens: u64,
    /// The most that the user wants to use.
    pub cap_tokens: Option<u64>,
}

impl Window {
    /// The usable window: all percentages are shares of it. At least one token, so that a share of it is
    /// always defined.
    pub fn usable_tokens(&self) -> u64 {
        let window = self
            .compaction_tokens
            .map_or(self.model_tokens, |c| c.min(self.model_tokens));
        let free = window.saturating_sub(self.reserve_tokens);
        self.cap_tokens.map_or(free, |cap| cap.min(free)).max(1)
    }

    /// The rest of the window, ignoring the user's cap.
    pub fn left_tokens(&self, usage_tokens: u64) -> u64 {
        let uncapped = Self {
            cap_tokens: None,
            ..*self
        };
        uncapped.usable_tokens().saturating_sub(usage_tokens)
    }

    /// The use in percent of the usable window, rounded down; above 100 when it is overfull.
    pub fn percent(&self, usage_tokens: u64) -> u64 {
        usage_tokens.saturating_mul(100) / self.usable_tokens()
    }

    pub fn level(&self, levels: Levels, usage_tokens: u64) -> Level {
        let reached = |percent: u8| usage_tokens >= self.tokens_at(percent);
        match levels.percent.map(reached) {
            [_, _, true] => Level::L3,
            [_, true, false] => Level::L2,
            [true, false, false] => Level::L1,
            [false, false, false] => Level::L0,
        }
    }

    /// The use at which a session gets the order to hand off, in tokens.
    pub fn handoff_tokens(&self, levels: Levels) -> u64 {
        self.tokens_of(levels, Level::L2)
    }

    /// The use at which a level begins, in tokens.
    pub fn tokens_of(&self, levels: Levels, level: Level) -> u64 {
        self.tokens_at(levels.percent(level))
    }

    pub(super) fn tokens_at(&self, percent: u8) -> u64 {
        (self.usable_tokens().saturating_mul(u64::from(percent))).div_ceil(100)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn window(model_tokens: u64) -> Window {
        Window {
            model_tokens,
            compaction_tokens: None,
            reserve_tokens: 33_000,
            cap_tokens: None,
        }
    }

    // shows: MON-06
    #[test]
    fn every_level_lies_before_compaction() {
        for model_tokens in [200_000, 1_000_000] {
            for (profile, cap_tokens) in [
                (Profile::Watch, None),
                (Profile::Relay, Some(crate::limits::RELAY_CAP_TOKENS)),
            ] {
                let window = Window {
                    cap_tokens,
                    ..window(model_tokens)
                };
                let compaction = model_tokens - 33_000;
                assert_eq!(window.level(profile.levels(), compaction), Level::L3);
                assert!(window.tokens_at(profile.levels().percent[2]) < compaction);
            }
        }
    }

    // shows: MON-06
    #[test]
    fn usable_is_the_smallest_of_window_compaction_and_cap() {
        assert_eq!(window(200_000).usable_tokens(), 167_000);
        let lower = Window {
            compaction_tokens: Some(150_000),
            ..window(1_000_000)
        };
        assert_eq!(lower.usable_tokens(), 117_000);
        let capped = Window {
            cap_tokens: Some(200_000),
            ..window(1_000_000)
        };
        assert_eq!(capped.usable_tokens(), 200_000);
        let tiny = window(10);
        assert_eq!(tiny.usable_tokens(), 1);
    }

    // shows: MON-07
    #[test]
    fn a_bad_order_of_levels_is_refused() {
        assert_eq!("50,60,70".parse::<Levels>(), Ok(Profile::Relay.levels()));
        for bad in [
            "",
            "50",
            "60,50,70",
            "50,50,70",
            "0,50,70",
            "50,60,100",
            "50,60,70,80",
            "a,b,c",
            "300,1,2",
        ] {
            assert_eq!(bad.parse::<Levels>(), Err(LevelsError), "{bad}");
        }
    }

    // shows: MON-07
    #[test]
    fn levels_begin_where_the_profile_says() {
        let window = Window {
            cap_tokens: Some(100_000),
            ..window(1_000_000)
        };
        let at = |usage| window.level(Profile::Relay.levels(), usage);
        assert_eq!(at(49_999), Level::L0);
        assert_eq!(at(50_000), Level::L1);
        assert_eq!(at(60_000), Level::L2);
        assert_eq!(at(70_000), Level::L3);
    }
}
