//! How full the context is.
//!
//! The context is the input side of the *last* response of the main thread. A result's own usage is the sum
//! over a turn's requests and says nothing about the context. Subagents have their own contexts. Synthetic
//! messages (errors that the client words as the model's) carry zeros.

use ekiden_core::budget::TokenCounts;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::stream::ClientEvent;

/// More than any response has, and so few that the sums of all transcripts do not overflow.
const RESPONSE_TOKENS_MAX: u64 = 1 << 40;

/// The tokens of one response.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Usage {
    #[serde(rename = "input_tokens", deserialize_with = "or_zero")]
    pub input: u64,
    #[serde(rename = "cache_read_input_tokens", deserialize_with = "or_zero")]
    pub cache_read: u64,
    #[serde(rename = "cache_creation_input_tokens", deserialize_with = "or_zero")]
    pub cache_creation: u64,
    /// What the model wrote; in the stream not yet the final figure.
    #[serde(rename = "output_tokens", deserialize_with = "or_zero")]
    pub output: u64,
}

impl Usage {
    /// The usage of a response; none if it is missing or odd.
    pub(crate) fn of(usage: &Value) -> Option<Self> {
        // An array would be read as the fields in their order.
        usage
            .as_object()
            .and_then(|_| Self::deserialize(usage).ok())
    }

    pub fn counts(&self) -> TokenCounts {
        TokenCounts {
            input: self.input,
            cache_write: self.cache_creation,
            cache_read: self.cache_read,
            output: self.output,
        }
    }

    /// The context that the response was made from, in tokens.
    pub fn context_tokens(&self) -> u64 {
        self.input
            .saturating_add(self.cache_read)
            .saturating_add(self.cache_creation)
    }
}

fn or_zero<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<u64, D::Error> {
    let tokens = Option::deserialize(deserializer)?;
    Ok(tokens.map_or(0, |tokens: u64| tokens.min(RESPONSE_TOKENS_MAX)))
}

/// The context of the main thread, folded over the stream.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ContextMeter {
    message_id: String,
    /// Zero before the first response.
    pub context_tokens: u64,
    /// How many responses the main thread has had.
    pub responses: u64,
}

impl ContextMeter {
    /// Handles the next event. Returns the context in tokens when a new response brought it.
    pub fn observe(&mut self, event: &ClientEvent) -> Option<u64> {
        if *event == ClientEvent::ConversationReset {
            *self = Self::default();
            return None;
        }
        if let ClientEvent::Context { tokens, .. } = event {
            self.context_tokens = *tokens;
            return Some(*tokens);
        }
        let ClientEvent::Assistant(response) = event else {
            return None;
        };
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests as fixtures;

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
        assert_eq!(meter("tools.jsonl").context_tokens, 53_000);
        assert_eq!(meter("subagent.jsonl").context_tokens, 54_000);
        assert_eq!(meter("two-results.jsonl").context_tokens, 55_000);
    }

    // shows: UIX-09
    #[test]
    fn a_count_that_no_response_has_is_bounded() {
        let usage = Usage::of(&serde_json::json!({ "input_tokens": u64::MAX }));
        assert_eq!(usage.unwrap().input, RESPONSE_TOKENS_MAX);
    }

    #[test]
    fn lines_of_one_response_count_once() {
        assert_eq!(meter("partial.jsonl").responses, 2);
        assert_eq!(meter("subagent.jsonl").responses, 2);
    }

    #[test]
    fn synthetic_messages_change_nothing() {
        assert_eq!(meter("api-errors.jsonl"), ContextMeter::default());
    }
}
