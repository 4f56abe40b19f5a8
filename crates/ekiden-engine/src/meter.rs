//! The measure of an attempt's context: samples in, crossings out.
//!
//! Samples are many and decide nothing by themselves, so they stay out of the log. What reaches
//! `core` is the first time that a level is reached in an attempt.

use ekiden_core::guard::{Level, Levels, Window};
use ekiden_core::limits;
use ekiden_core::settings::Settings;

/// Measures one attempt.
#[derive(Debug, Clone)]
pub(crate) struct Meter {
    levels: Levels,
    window: Window,
    usage_tokens: u64,
    level: Level,
}

impl Meter {
    /// A meter that has seen nothing. Until the agent tells its window, the usual one is assumed.
    #[must_use]
    pub(crate) fn new(settings: &Settings) -> Self {
        let window = Window {
            model_tokens: limits::WINDOW_TOKENS_DEFAULT,
            compaction_tokens: None,
            reserve_tokens: settings.agent.kind.reserve_tokens(),
            cap_tokens: settings.cap_tokens,
        };
        Self { levels: settings.levels, window, usage_tokens: 0, level: Level::L0 }
    }

    /// The agent told its window.
    pub(crate) fn set_window(&mut self, model_tokens: u64, compaction_tokens: Option<u64>) -> Window {
        self.window = Window { model_tokens, compaction_tokens, ..self.window };
        self.window
    }

    /// A new measure of use, in tokens.
    pub(crate) fn note(&mut self, usage_tokens: u64) {
        self.usage_tokens = usage_tokens;
    }

    /// The level, if the last measure reaches it for the first time in this attempt.
    pub(crate) fn crossed(&mut self) -> Option<Level> {
        let level = self.window.level(self.levels, self.usage_tokens);
        if level > self.level {
            self.level = level;
            return Some(level);
        }
        None
    }

    /// The highest level reached.
    #[must_use]
    pub(crate) fn level(&self) -> Level {
        self.level
    }

    /// The last measure, in tokens.
    #[must_use]
    pub(crate) fn usage_tokens(&self) -> u64 {
        self.usage_tokens
    }

    /// The window that shares are taken of.
    #[must_use]
    pub(crate) fn window(&self) -> Window {
        self.window
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ekiden_core::guard::Profile;

    fn meter(model_tokens: u64) -> Meter {
        Meter {
            levels: Profile::Relay.levels(),
            window: Window { model_tokens, compaction_tokens: None, reserve_tokens: 0, cap_tokens: None },
            usage_tokens: 0,
            level: Level::L0,
        }
    }

    // shows: MON-06
    #[test]
    fn each_level_is_told_once_and_the_highest_of_several() {
        let mut meter = meter(1000);
        let mut sample = |tokens| {
            meter.note(tokens);
            meter.crossed()
        };
        assert_eq!(sample(499), None);
        assert_eq!(sample(500), Some(Level::L1));
        assert_eq!(sample(510), None);
        assert_eq!(sample(720), Some(Level::L3));
        assert_eq!(sample(100), None);
    }

    // shows: MON-06
    #[test]
    fn a_smaller_window_can_cross_a_level_by_itself() {
        let mut meter = meter(1000);
        meter.note(400);
        assert_eq!(meter.crossed(), None);
        meter.set_window(500, None);
        assert_eq!(meter.crossed(), Some(Level::L3));
    }
}
