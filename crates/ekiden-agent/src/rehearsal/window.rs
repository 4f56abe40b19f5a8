//! The simulated context window.
//!
//! There is no model, so tokens are made up. A conversation begins with what a client's own prompt and tools
//! would take. Every text counts at the rate of [`ekiden_core::limits::BYTES_PER_TOKEN`]. A fixed amount before
//! every command represents the reading and thinking that lead to it.
//!
//! The sizes fit together: with a prompt of 1,100 to 3,600 tokens, a session with the default window
//! makes its first call below 50%, passes 60% with its third, and has handed off before 70%.

use ekiden_core::prompt::budget::tokens;
use ekiden_wire::usage::Usage;

/// In tokens. Small, so that a short task takes more than one session.
pub(super) const WINDOW_TOKENS_DEFAULT: u64 = 40_000;
/// What a client's own prompt and tools would take.
const BASE_TOKENS: u64 = 13_000;
/// What the reading and thinking before one command would take.
pub(super) const STEP_TOKENS: u64 = 3_300;
/// What a response reads afresh, whatever the cache holds.
const UNCACHED_TOKENS: u64 = 5;
const OUTPUT_TOKENS: u64 = 50;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Window {
    /// In tokens.
    pub(super) size: u64,
    pub(super) used: u64,
    /// How much of it the last response had seen.
    seen: u64,
}

impl Window {
    pub(super) fn new(size: u64) -> Self {
        Self {
            size,
            used: BASE_TOKENS,
            seen: 0,
        }
    }

    pub(super) fn add_text(&mut self, text: &str) {
        self.used += tokens(text) as u64;
    }

    pub(super) fn fill(&mut self, tokens: u64) {
        self.used = self.used.saturating_add(tokens);
    }

    /// The figures of the next response: what an earlier one had seen comes from the cache.
    pub(super) fn respond(&mut self) -> Usage {
        let fresh = self.used - self.seen;
        let input = fresh.min(UNCACHED_TOKENS);
        let usage = Usage {
            input,
            cache_read: self.seen,
            cache_creation: fresh - input,
            output: OUTPUT_TOKENS,
        };
        self.seen = self.used;
        usage
    }
}

#[cfg(test)]
mod tests {
    use ekiden_core::guard::{Level, Profile};

    use super::*;

    #[test]
    fn a_response_has_seen_all_that_is_in_the_window() {
        let mut window = Window::new(WINDOW_TOKENS_DEFAULT);
        window.add_text("abcdef");
        let first = window.respond();
        assert_eq!(
            (first.context_tokens(), first.cache_read),
            (BASE_TOKENS + 2, 0)
        );
        window.fill(STEP_TOKENS);
        let second = window.respond();
        assert_eq!(
            (second.context_tokens(), second.cache_read),
            (BASE_TOKENS + 2 + STEP_TOKENS, BASE_TOKENS + 2)
        );
        assert_eq!(window.used, second.context_tokens());
    }

    /// The level at the first call, the items that are done when the order is read, and the level
    /// after the handoff.
    fn session(prompt_tokens: usize) -> (Level, u32, Level) {
        let size = ekiden_core::guard::Window {
            model_tokens: WINDOW_TOKENS_DEFAULT,
            compaction_tokens: None,
            reserve_tokens: 0,
            cap_tokens: None,
        };
        let level = |window: &Window| size.level(Profile::Relay.levels(), window.used);
        let mut window = Window::new(WINDOW_TOKENS_DEFAULT);
        window.add_text(&"x".repeat(prompt_tokens * 3));
        let (mut first, mut items) = (None, 0);
        while level(&window) < Level::L2 {
            window.fill(STEP_TOKENS);
            first = first.or(Some(level(&window)));
            items += 1;
        }
        window.add_text(&"x".repeat(3_000));
        (first.unwrap(), items, level(&window))
    }

    // shows: AGT-05
    #[test]
    fn three_items_fit_into_a_session() {
        for prompt_tokens in [1_100, 2_000, 3_000, 3_600] {
            assert_eq!(
                session(prompt_tokens),
                (Level::L0, 3, Level::L2),
                "{prompt_tokens}"
            );
        }
        assert_eq!(session(6_000), (Level::L1, 2, Level::L2));
    }
}
