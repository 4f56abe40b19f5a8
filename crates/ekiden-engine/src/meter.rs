//! Measures an attempt's context and spend: samples in, events out.
//!
//! Samples are many and decide nothing by themselves, so they stay out of the log. `core` sees only the first
//! time that an attempt reaches a level or a mark of spend, and a first response that fills the window before any
//! work.

use ekiden_core::budget::{Share, SpendMeter};
use ekiden_core::effect::StartMode;
use ekiden_core::event::AttemptEvent;
use ekiden_core::guard::{Level, Levels, Window};
use ekiden_core::limits;
use ekiden_core::settings::Settings;

#[derive(Debug, Clone)]
pub(crate) struct Meter {
    levels: Levels,
    /// The window that the levels are shares of.
    pub(crate) window: Window,
    usage_tokens: u64,
    /// The highest level that this attempt has reached.
    pub(crate) level: Level,
    pub(crate) spend: SpendMeter,
    baseline: Baseline,
}

/// What is known of the window before the work begins.
#[derive(Debug, Clone, PartialEq)]
enum Baseline {
    /// No response has come yet; holds what fills the window without it.
    Unknown(Vec<(String, u64)>),
    /// The first response was measured, or the conversation is an old one.
    Measured,
}

/// What the first message and the agent's own start take, which no other entry accounts for.
const REST: &str = "Messages";

impl Meter {
    /// A meter that has seen nothing. Until the agent reports its window, the usual one is assumed.
    pub(crate) fn new(settings: &Settings, share: Share, mode: StartMode) -> Self {
        let baseline = match mode {
            StartMode::Fresh => Baseline::Unknown(Vec::new()),
            StartMode::Resume => Baseline::Measured,
        };
        Self {
            levels: settings.levels,
            window: settings.window(),
            usage_tokens: 0,
            level: Level::L0,
            spend: SpendMeter::new(share),
            baseline,
        }
    }

    /// The attempt may spend another share.
    pub(crate) fn set_share(&mut self, share: Share) {
        self.spend.set_share(share);
    }

    /// The agent reported its window, in tokens of the model and until compaction, and what fills it.
    pub(crate) fn window(
        &mut self,
        (model_tokens, compaction_tokens): (u64, Option<u64>),
        model: Option<String>,
        filled_by: Vec<(String, u64)>,
    ) -> Vec<AttemptEvent> {
        if let Baseline::Unknown(known) = &mut self.baseline {
            *known = filled_by;
        }
        self.window = Window {
            model_tokens,
            compaction_tokens,
            ..self.window
        };
        let window = self.window;
        let mut events = vec![AttemptEvent::WindowChanged { window, model }];
        events.extend(self.crossed());
        events
    }

    /// A new measure of the context, in tokens.
    pub(crate) fn usage(&mut self, usage_tokens: u64) -> Vec<AttemptEvent> {
        self.usage_tokens = usage_tokens;
        let baseline = std::mem::replace(&mut self.baseline, Baseline::Measured);
        let level = self.window.level(self.levels, usage_tokens);
        let mut events = Vec::new();
        // The first response of a new conversation, before any work.
        if let Baseline::Unknown(by) = baseline
            && level >= Level::L1
        {
            events.push(AttemptEvent::BaselineMeasured {
                level,
                usage_tokens,
                filled_by: filled_by(by, usage_tokens),
            });
        }
        events.extend(self.crossed());
        events
    }

    /// The level, if the last measure reaches it for the first time in this attempt.
    fn crossed(&mut self) -> Option<AttemptEvent> {
        let level = self.window.level(self.levels, self.usage_tokens);
        let is_new = level > self.level;
        self.level = self.level.max(level);
        is_new.then_some(AttemptEvent::LevelCrossed {
            level,
            usage_tokens: self.usage_tokens,
            spend: self.spend.spend(),
            is_done: false,
        })
    }
}

/// What was reported before the first response, and the rest, largest first.
fn filled_by(mut by: Vec<(String, u64)>, usage_tokens: u64) -> Vec<(String, u64)> {
    by.retain(|(name, _)| name != REST);
    let known: u64 = by
        .iter()
        .map(|(_, tokens)| *tokens)
        .fold(0, u64::saturating_add);
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
            window: Window {
                model_tokens,
                compaction_tokens: None,
                reserve_tokens: 0,
                cap_tokens: None,
            },
            usage_tokens: 0,
            level: Level::L0,
            spend: SpendMeter::default(),
            baseline: Baseline::Unknown(Vec::new()),
        }
    }

    fn baseline(events: Vec<AttemptEvent>) -> Option<(Level, Vec<(String, u64)>)> {
        events.into_iter().find_map(|event| {
            let AttemptEvent::BaselineMeasured {
                level, filled_by, ..
            } = event
            else {
                return None;
            };
            Some((level, filled_by))
        })
    }

    fn crossed(events: &[AttemptEvent]) -> Option<Level> {
        events.iter().find_map(|event| {
            let AttemptEvent::LevelCrossed { level, .. } = event else {
                return None;
            };
            Some(*level)
        })
    }

    // shows: REL-31
    #[test]
    fn a_first_response_above_a_level_reports_what_fills_the_window() {
        let mut meter = meter(1000);
        let filled = vec![
            ("Tools".to_owned(), 300),
            (REST.to_owned(), 1),
            ("Skills".to_owned(), 0),
        ];
        meter.window((1000, None), None, filled);
        let by = vec![("Tools".to_owned(), 300), (REST.to_owned(), 220)];
        assert_eq!(baseline(meter.usage(520)), Some((Level::L1, by)));
        let later = baseline(meter.usage(990));
        assert_eq!(later, None, "only the first response is a baseline");
    }

    // shows: REL-31
    #[test]
    fn a_first_response_below_l1_is_not_reported() {
        let mut meter = meter(1000);
        assert_eq!(baseline(meter.usage(499)), None);
        assert_eq!(baseline(meter.usage(700)), None);
    }

    // shows: MON-06
    #[test]
    fn each_level_is_reported_once_and_the_highest_of_several() {
        let mut meter = meter(1000);
        let mut sample = |tokens| crossed(&meter.usage(tokens));
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
        assert_eq!(crossed(&meter.usage(400)), None);
        let smaller = meter.window((500, None), None, Vec::new());
        assert_eq!(crossed(&smaller), Some(Level::L3));
    }
}
