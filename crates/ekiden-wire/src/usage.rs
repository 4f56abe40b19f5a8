//! How full the context is, and what it cost.
//!
//! The context is the input side of the *last* response of the main thread. A result's own usage is
//! the sum over a turn's requests and says nothing about it; subagents have contexts of their own;
//! synthetic messages (errors that the client words as the model's) carry zeros.

use serde::{Deserialize, Serialize};

use crate::stream::{ClientEvent, TurnResult};

/// The tokens of one response.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Usage {
    /// Read afresh.
    #[serde(rename = "input_tokens", deserialize_with = "or_zero")]
    pub input: u64,
    /// Read from the cache.
    #[serde(rename = "cache_read_input_tokens", deserialize_with = "or_zero")]
    pub cache_read: u64,
    /// Written to the cache.
    #[serde(rename = "cache_creation_input_tokens", deserialize_with = "or_zero")]
    pub cache_creation: u64,
    /// Written by the model; in the stream not yet the final figure.
    #[serde(rename = "output_tokens", deserialize_with = "or_zero")]
    pub output: u64,
}

impl Usage {
    /// The context that the response was made from, in tokens.
    #[must_use]
    pub fn context_tokens(&self) -> u64 {
        self.input.saturating_add(self.cache_read).saturating_add(self.cache_creation)
    }
}

fn or_zero<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<u64, D::Error> {
    Option::deserialize(deserializer).map(Option::unwrap_or_default)
}

/// The context of the main thread, folded over the stream.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ContextMeter {
    message_id: String,
    context_tokens: u64,
    responses: u64,
}

impl ContextMeter {
    /// The context in tokens; zero before the first response.
    #[must_use]
    pub fn context_tokens(&self) -> u64 {
        self.context_tokens
    }

    /// How many responses of the main thread there were.
    #[must_use]
    pub fn responses(&self) -> u64 {
        self.responses
    }

    /// Takes the next event. Returns the context in tokens when a new response brought it.
    pub fn observe(&mut self, event: &ClientEvent) -> Option<u64> {
        if *event == ClientEvent::ConversationReset {
            *self = Self::default();
            return None;
        }
        let ClientEvent::Assistant(response) = event else { return None };
        let counts = response.main_thread && !response.synthetic;
        if !counts || response.message_id == self.message_id {
            return None;
        }
        self.message_id.clone_from(&response.message_id);
        self.context_tokens = response.usage.context_tokens();
        self.responses += 1;
        Some(self.context_tokens)
    }
}

/// What an attempt cost. A result's total counts from the beginning of the *conversation*, so the
/// first one after a resume holds what attempts before have cost already. What the client itself says
/// was spent since the result before does not; where it says nothing, differences are taken.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct CostMeter {
    total_usd: f64,
}

impl CostMeter {
    /// A meter for a conversation that has already cost this much, in US dollars.
    #[must_use]
    pub fn from_total(total_usd: f64) -> Self {
        Self { total_usd }
    }

    /// What was spent since the result before, in US dollars. Never negative: a total that falls
    /// belongs to a conversation that began afresh, and counts whole.
    pub fn settle(&mut self, result: &TurnResult) -> f64 {
        let before = self.total_usd;
        self.total_usd = result.total_cost_usd;
        if let Some(spent) = result.spent_usd {
            return spent;
        }
        if result.total_cost_usd < before { result.total_cost_usd } else { result.total_cost_usd - before }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures;

    fn meter(name: &str) -> ContextMeter {
        let mut meter = ContextMeter::default();
        for event in fixtures::events(name) {
            meter.observe(&event);
        }
        meter
    }

    // shows: AGT-01
    #[test]
    fn the_context_is_that_of_the_main_threads_last_response() {
        assert_eq!(meter("tools.jsonl").context_tokens(), 53_000);
        assert_eq!(meter("subagent.jsonl").context_tokens(), 54_000);
        assert_eq!(meter("two-results.jsonl").context_tokens(), 55_000);
    }

    #[test]
    fn lines_of_one_response_count_once() {
        assert_eq!(meter("partial.jsonl").responses(), 2);
        assert_eq!(meter("subagent.jsonl").responses(), 2);
    }

    #[test]
    fn synthetic_messages_change_nothing() {
        assert_eq!(meter("api-errors.jsonl"), ContextMeter::default());
    }

    #[test]
    fn costs_are_differences() {
        let result = |total_cost_usd| TurnResult { total_cost_usd, ..TurnResult::default() };
        let mut meter = CostMeter::from_total(1.0);
        assert_eq!(meter.settle(&result(1.5)), 0.5);
        assert_eq!(meter.settle(&result(1.5)), 0.0);
        assert_eq!(meter.settle(&result(0.25)), 0.25);
    }

    // shows: REL-22
    #[test]
    fn the_first_result_after_a_resume_holds_only_its_own_cost() {
        let line = br#"{"type":"result","is_error":false,"total_cost_usd":1.5,
            "model_usage_since_last_result":{"a":{"costUSD":0.25},"b":{"costUSD":0.125}}}"#;
        let ClientEvent::Result(result) = ClientEvent::parse(line) else { panic!() };
        assert_eq!(CostMeter::default().settle(&result), 0.375);
    }
}
