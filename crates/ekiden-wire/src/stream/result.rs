//! The end of a turn.
//!
//! A result must not be lost because one field of it is odd, so each field is read on its own: what
//! is not what it should be counts as missing.

use std::collections::BTreeMap;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::{ClientEvent, typed};
use crate::excerpt;
use crate::limits;

/// How a turn ended, in the client's words. What it means is decided in [`crate::ends`] alone.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct TurnResult {
    /// For people only: `success` is also written when every request failed.
    pub subtype: String,
    /// The turn failed.
    pub is_error: bool,
    /// Why the turn is over.
    pub terminal_reason: Option<TerminalReason>,
    /// Why the model stopped.
    pub stop_reason: Option<String>,
    /// The HTTP status of the request that failed.
    pub api_error_status: Option<u16>,
    /// Which result of the process this is, from 0.
    pub result_index: u32,
    /// Rounds of the model in this turn.
    pub num_turns: u32,
    /// What the conversation has cost since its beginning, in US dollars.
    pub total_cost_usd: f64,
    /// Per model.
    pub model_usage: BTreeMap<String, ModelUsage>,
    /// Per model since the result before in this process, if the client tells it.
    pub usage_since_last: Option<BTreeMap<String, ModelUsage>>,
    /// The calls that the client refused.
    pub denials: Denials,
    /// Messages for people, cut if long.
    pub errors: Vec<String>,
    /// The answer to a schema, as JSON text. The client leaves it out where the model gave none.
    pub structured: Option<String>,
    /// The last words of the turn, whole: what is read where an answer is not structured.
    pub words: Option<String>,
}

/// Why a turn is over.
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
    /// A word that we do not know.
    #[serde(untagged)]
    Other(String),
}

/// What a model used since the beginning of the conversation, subagents included.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ModelUsage {
    /// Read afresh.
    pub input_tokens: u64,
    /// Written.
    pub output_tokens: u64,
    /// Read from the cache.
    pub cache_read_input_tokens: u64,
    /// Written to the cache.
    pub cache_creation_input_tokens: u64,
    /// What it cost, in US dollars.
    #[serde(rename = "costUSD")]
    pub cost_usd: f64,
    /// The model's window in tokens; zero if not told.
    pub context_window: u64,
}

/// The calls that the client refused in a turn.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Denials {
    /// How many.
    pub count: u32,
    /// The first of them, at most [`limits::DENIED_IDS_KEPT`].
    pub ids: Vec<String>,
}

#[derive(Deserialize)]
struct ResultLine<'a> {
    #[serde(borrow, default, rename = "type")]
    kind: Option<&'a RawValue>,
    #[serde(borrow, default)]
    subtype: Option<&'a RawValue>,
    #[serde(borrow, default)]
    is_error: Option<&'a RawValue>,
    #[serde(borrow, default)]
    terminal_reason: Option<&'a RawValue>,
    #[serde(borrow, default)]
    stop_reason: Option<&'a RawValue>,
    #[serde(borrow, default)]
    api_error_status: Option<&'a RawValue>,
    #[serde(borrow, default)]
    result_index: Option<&'a RawValue>,
    #[serde(borrow, default)]
    num_turns: Option<&'a RawValue>,
    #[serde(borrow, default)]
    total_cost_usd: Option<&'a RawValue>,
    #[serde(borrow, default, rename = "modelUsage")]
    model_usage: Option<&'a RawValue>,
    #[serde(borrow, default)]
    model_usage_since_last_result: Option<&'a RawValue>,
    #[serde(borrow, default)]
    permission_denials: Option<&'a RawValue>,
    #[serde(borrow, default)]
    errors: Option<&'a RawValue>,
    #[serde(borrow, default)]
    structured_output: Option<&'a RawValue>,
    #[serde(borrow, default)]
    result: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct Denial {
    #[serde(default)]
    tool_use_id: String,
}

/// A line whose type may come late: a result, or any other line after all.
pub(super) fn parse_late(line: &[u8]) -> Option<ClientEvent> {
    let fields: ResultLine<'_> = serde_json::from_slice(line).ok()?;
    let kind = fields.kind.and_then(excerpt::whole)?;
    if kind == "result" {
        return Some(ClientEvent::Result(Box::new(turn_result(&fields))));
    }
    let subtype = fields.subtype.and_then(excerpt::whole);
    Some(typed(kind.as_bytes(), subtype.as_deref().map(str::as_bytes), line))
}

fn turn_result(line: &ResultLine<'_>) -> TurnResult {
    TurnResult {
        subtype: field(line.subtype),
        // A result that does not say whether it failed has failed.
        is_error: field::<Option<bool>>(line.is_error).unwrap_or(true),
        terminal_reason: field(line.terminal_reason),
        stop_reason: field(line.stop_reason),
        api_error_status: field(line.api_error_status),
        result_index: field(line.result_index),
        num_turns: field(line.num_turns),
        total_cost_usd: field(line.total_cost_usd),
        model_usage: field(line.model_usage),
        usage_since_last: field(line.model_usage_since_last_result),
        denials: denials(field(line.permission_denials)),
        errors: errors(line.errors),
        structured: line.structured_output.map(|raw| raw.get().to_owned()),
        words: field(line.result),
    }
}

fn field<T: DeserializeOwned + Default>(raw: Option<&RawValue>) -> T {
    raw.and_then(|raw| serde_json::from_str(raw.get()).ok()).unwrap_or_default()
}

fn denials(all: Vec<Denial>) -> Denials {
    Denials {
        count: u32::try_from(all.len()).unwrap_or(u32::MAX),
        ids: all.into_iter().take(limits::DENIED_IDS_KEPT).map(|denial| denial.tool_use_id).collect(),
    }
}

fn errors(raw: Option<&RawValue>) -> Vec<String> {
    let all: Vec<&RawValue> = raw.and_then(|raw| serde_json::from_str(raw.get()).ok()).unwrap_or_default();
    all.into_iter().take(limits::ERRORS_KEPT).map(|error| excerpt::of_json(error, limits::ERROR)).collect()
}
