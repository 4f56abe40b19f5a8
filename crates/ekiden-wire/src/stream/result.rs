//! The end of a turn.
//!
//! A result must not be lost because one of its fields is odd. So each field is read separately, and an odd one
//! counts as missing.

use std::collections::BTreeMap;

use ekiden_core::budget::TokenCounts;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::tools::Call;
use crate::{excerpt, json, limits};

/// What the client charges for a web search beside its tokens, in billionths of a US dollar.
const WEB_SEARCH_NANO_USD: u64 = 10_000_000;

/// How a turn ended, in the client's words. Only [`crate::ends`] decides what it means.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct TurnResult {
    /// Only for people: the client also writes `success` when every request failed.
    pub subtype: String,
    pub is_error: bool,
    pub terminal_reason: Option<TerminalReason>,
    pub stop_reason: Option<String>,
    /// The HTTP status of the request that failed.
    pub api_error_status: Option<u16>,
    /// Which result of the process this is, from 0.
    pub result_index: u32,
    /// How often the model answered in this turn.
    pub num_turns: u32,
    /// What the conversation has cost since its beginning, in US dollars.
    pub total_cost_usd: f64,
    pub model_usage: BTreeMap<String, ModelUsage>,
    /// By model, since the previous result in this process, if the client reports it.
    pub usage_since_last: Option<BTreeMap<String, ModelUsage>>,
    /// The calls that the client refused.
    pub denials: Vec<Call>,
    /// Messages for people, cut if long.
    pub errors: Vec<String>,
    /// The answer to a schema, as JSON text. The client leaves it out if the model gave none.
    pub structured: Option<String>,
    /// The last words of the turn, whole: what we read if an answer is not structured.
    pub words: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[expect(missing_docs, reason = "the client's own words")]
pub enum TerminalReason {
    Completed,
    StopHookPrevented,
    HookStopped,
    MaxTurns,
    BudgetExhausted,
    ApiError,
    PromptTooLong,
    BlockingLimit,
    RapidRefillBreaker,
    AbortedStreaming,
    AbortedTools,
    ImageError,
    ModelError,
    MalformedToolUseExhausted,
    /// Codex's.
    TooManyDenials,
    /// A word that we do not know.
    #[serde(untagged)]
    Other(String),
}

/// What a model used since the beginning of the conversation, subagents included.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ModelUsage {
    pub input_tokens: u64,
    pub output_tokens: u64,
    pub cache_read_input_tokens: u64,
    pub cache_creation_input_tokens: u64,
    pub web_search_requests: u64,
    /// What it cost, in US dollars, including the fees of its searches.
    #[serde(rename = "costUSD")]
    pub cost_usd: f64,
    /// The model's window in tokens; zero if unknown.
    pub context_window: u64,
}

impl ModelUsage {
    pub fn counts(&self) -> TokenCounts {
        TokenCounts {
            input: self.input_tokens,
            cache_write: self.cache_creation_input_tokens,
            cache_read: self.cache_read_input_tokens,
            output: self.output_tokens,
        }
    }

    /// The part of its cost that no token has, in billionths of a US dollar.
    pub fn fees_nano_usd(&self) -> u64 {
        self.web_search_requests.saturating_mul(WEB_SEARCH_NANO_USD)
    }
}

pub(super) fn parse(line: &Value) -> TurnResult {
    let denials = json::elements(&line["permission_denials"]);
    let errors = json::elements(&line["errors"]);
    let structured = &line["structured_output"];
    TurnResult {
        subtype: json::text(&line["subtype"]),
        // A result that does not say whether it failed counts as failed.
        is_error: line["is_error"].as_bool().unwrap_or(true),
        terminal_reason: json::field(&line["terminal_reason"]),
        stop_reason: json::field(&line["stop_reason"]),
        api_error_status: json::field(&line["api_error_status"]),
        result_index: json::field(&line["result_index"]),
        num_turns: json::field(&line["num_turns"]),
        total_cost_usd: json::field(&line["total_cost_usd"]),
        model_usage: json::field(&line["modelUsage"]),
        usage_since_last: json::field(&line["model_usage_since_last_result"]),
        denials: denials
            .iter()
            .take(limits::DENIALS_KEPT)
            .map(|denial| {
                let text = |name: &str| json::text(&denial[name]);
                Call::new(
                    text("tool_use_id"),
                    text("tool_name"),
                    &denial["tool_input"],
                )
            })
            .collect(),
        errors: errors
            .iter()
            .take(limits::ERRORS_KEPT)
            .map(|error| excerpt::of_json(error, limits::ERROR))
            .collect(),
        structured: (!structured.is_null()).then(|| structured.to_string()),
        words: json::field(&line["result"]),
    }
}
