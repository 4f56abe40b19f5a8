//! The measure of an attempt's context and spend: samples in, crossings out.
//!
//! Samples are many and decide nothing by themselves, so they stay out of the log. What reaches
//! `core` is the first time that a level or a mark of spend is reached in an attempt, and a first response
//! that fills the window before any work.

use ekiden_core::budget::{Crossing, Gauge, Spend};
use ekiden_core::effect::StartMode;
use ekiden_core::guard::{Level, Levels, Window};
use ekiden_core::limits;
use ekiden_core::relay::Share;
use ekiden_core::settings::Settings;

/// Measures one attempt.
#[derive(Debug, Clone)]
pub(crate) struct Meter {
    levels: Levels,
    window: Window,
    usage_tokens: u64,
    level: Level,
    gauge: Gauge,
    baseline: Baseline,
}

/// What is known of the window before the work begins.
#[derive(Debug, Clone, PartialEq)]
enum Baseline {
    /// No response came yet; what fills the window without it.
    Unknown(Vec<(String, u64)>),
    /// The first response was measured, or the conversation is an old one.
    Measured,
}

/// A first response that reached a level.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Filled {
    /// The level.
    pub(crate) level: Level,
    /// What fills the window, in tokens, largest first.
    pub(crate) by: Vec<(String, u64)>,
}

/// What the first message and the agent's own start take, which nothing else accounts for.
const REST: &str = "Messages";

impl Meter {
    /// A meter that has seen nothing. Until the agent tells its window, the usual one is assumed.
    #[must_use]
    pub(crate) fn new(settings: &Settings, share: Share, mode: StartMode) -> Self {
        let window = Window {
            model_tokens: limits::WINDOW_TOKENS_DEFAULT,
            compaction_tokens: None,
            reserve_tokens: settings.agent.kind.reserve_tokens(),
            cap_tokens: settings.cap_tokens,
        };
        let baseline = match mode {
            StartMode::Fresh => Baseline::Unknown(Vec::new()),
            StartMode::Resume => Baseline::Measured,
        };
        let gauge = Gauge::new(share.budget, share.turns);
        Self { levels: settings.levels, window, usage_tokens: 0, level: Level::L0, gauge, baseline }
    }

    /// What fills the window, as the agent told it.
    pub(crate) fn set_filled(&mut self, by: Vec<(String, u64)>) {
        if let Baseline::Unknown(known) = &mut self.baseline {
            *known = by;
        }
    }

    /// The first response of a new conversation, if it reaches a level before any work.
    pub(crate) fn filled(&mut self) -> Option<Filled> {
        let Baseline::Unknown(by) = std::mem::replace(&mut self.baseline, Baseline::Measured) else {
            return None;
        };
        let level = self.window.level(self.levels, self.usage_tokens);
        (level >= Level::L1).then(|| Filled { level, by: filled_by(by, self.usage_tokens) })
    }

    /// A new measure of spend: the mark that it reaches for the first time.
    pub(crate) fn spend(&mut self, spend: Spend, turns: u32) -> Option<Crossing> {
        self.gauge.take(spend, turns)
    }

    /// The attempt may spend another share.
    pub(crate) fn set_share(&mut self, share: Share) {
        self.gauge.set_share(share.budget, share.turns);
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

/// What was told before the first response, and the rest, largest first.
fn filled_by(mut by: Vec<(String, u64)>, usage_tokens: u64) -> Vec<(String, u64)> {
    by.retain(|(name, _)| name != REST);
    let known: u64 = by.iter().map(|(_, tokens)| *tokens).fold(0, u64::saturating_add);
    by.push((REST.to_owned(), usage_tokens.saturating_sub(known)));
    by.retain(|(_, tokens)| *tokens > 0);
    by.sort_by_key(|(_, tokens)| std::cmp::Reverse(*tokens));
    by.truncate(limits::FILLED_BY_MAX);
    by
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
            gauge: Gauge::default(),
            baseline: Baseline::Unknown(Vec::new()),
        }
    }

    // shows: REL-31
    #[test]
    fn a_first_response_above_a_level_tells_what_fills_the_window() {
        let mut meter = meter(1000);
        meter.set_filled(vec![("Tools".to_owned(), 300), (REST.to_owned(), 1), ("Skills".to_owned(), 0)]);
        meter.note(520);
        let by = vec![("Tools".to_owned(), 300), (REST.to_owned(), 220)];
        assert_eq!(meter.filled(), Some(Filled { level: Level::L1, by }));
        meter.note(990);
        assert_eq!(meter.filled(), None, "only the first response is a baseline");
    }

    // shows: REL-31
    #[test]
    fn a_first_response_below_l1_is_nothing_to_tell() {
        let mut meter = meter(1000);
        meter.note(499);
        assert_eq!(meter.filled(), None);
        meter.note(700);
        assert_eq!(meter.filled(), None);
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
