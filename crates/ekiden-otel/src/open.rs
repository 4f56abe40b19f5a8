//! The spans that have begun and are not over, and how spans are made.

use std::borrow::Cow;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use ekiden_core::agent::AgentKind;
use ekiden_core::budget::{Spend, TokenCounts};
use ekiden_core::ids::{AttemptId, ConversationId};
use ekiden_core::outcome::Outcome;
use ekiden_core::secrets::mask;
use ekiden_core::text::one_line;
use ekiden_core::time::Timestamp;
use ekiden_report::timeline::Left;
use opentelemetry::trace::{
    SpanContext, SpanId, SpanKind, Status, TraceFlags, TraceId, TraceState,
};
use opentelemetry::{InstrumentationScope, KeyValue, Value};
use opentelemetry_sdk::trace::{SpanData, SpanEvents, SpanLinks};
use serde::Serialize;

/// The conventions for generative AI that the names follow. They are still in development; our own names
/// are under `ekiden.`.
pub(crate) const SCHEMA_URL: &str = "https://opentelemetry.io/schemas/gen-ai-dev/1.42.0-dev";
/// How much of a name from outside is kept, in characters.
const NAME_CHARS_MAX: usize = 120;

/// A stretch of work on the run by one process.
#[derive(Debug)]
pub(crate) struct Part {
    pub(crate) open: Open,
    pub(crate) seq: u64,
    pub(crate) spend: Spend,
    /// The run is over; agents may still be at work.
    pub(crate) ended: Option<(Timestamp, Outcome)>,
}

#[derive(Debug)]
pub(crate) struct OpenStage {
    pub(crate) open: Open,
    pub(crate) session: Option<OpenSession>,
}

#[derive(Debug)]
pub(crate) struct OpenSession {
    pub(crate) open: Open,
    /// When its last attempt ended.
    pub(crate) ended: Timestamp,
    pub(crate) number: u32,
    pub(crate) conversation: ConversationId,
    pub(crate) agent: String,
    pub(crate) kind: AgentKind,
    pub(crate) model: Option<String>,
    pub(crate) spend: Spend,
    pub(crate) kinds: Option<TokenCounts>,
    pub(crate) tool_calls: u32,
    pub(crate) context: Option<(u64, Option<u64>)>,
    pub(crate) left: Option<Left>,
    /// ekiden was killed while the attempt worked.
    pub(crate) lost: bool,
    pub(crate) attempt: Option<OpenAttempt>,
}

#[derive(Debug)]
pub(crate) struct OpenAttempt {
    pub(crate) id: AttemptId,
    pub(crate) open: Open,
    pub(crate) checkpoint: Checkpoint,
}

/// Whether an attempt was told to hand off.
#[derive(Debug, Default)]
pub(crate) enum Checkpoint {
    #[default]
    No,
    /// It began to hand off without an order.
    ByItself,
    Ordered {
        at: Timestamp,
        reason: &'static str,
        level: String,
        percent: Option<u64>,
    },
}

/// A span that has begun.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Open {
    pub(crate) span: SpanId,
    pub(crate) parent: SpanId,
    pub(crate) from: Timestamp,
}

impl Open {
    /// The span once it is over. `error` says in a word what went wrong.
    pub(crate) fn close(
        self,
        trace: TraceId,
        name: impl Into<Cow<'static, str>>,
        until: Timestamp,
        mut attributes: Vec<KeyValue>,
        error: Option<String>,
    ) -> SpanData {
        attributes.extend(error.as_ref().map(|error| self::name("error.type", error)));
        let flags = TraceFlags::SAMPLED;
        SpanData {
            span_context: SpanContext::new(trace, self.span, flags, false, TraceState::default()),
            parent_span_id: self.parent,
            parent_span_is_remote: false,
            span_kind: SpanKind::Internal,
            name: name.into(),
            start_time: system_time(self.from),
            end_time: system_time(until.max(self.from)),
            attributes,
            dropped_attributes_count: 0,
            events: SpanEvents::default(),
            links: SpanLinks::default(),
            status: error.map_or(Status::Unset, Status::error),
            instrumentation_scope: scope(),
        }
    }
}

impl OpenSession {
    pub(crate) fn provider(&self) -> &'static str {
        match self.kind {
            AgentKind::Claude => "anthropic",
            AgentKind::Rehearsal => "ekiden",
            AgentKind::Codex => "openai",
            AgentKind::Acp => "acp",
            AgentKind::Exec => "exec",
        }
    }
}

pub(crate) fn scope() -> InstrumentationScope {
    InstrumentationScope::builder("ekiden")
        .with_version(env!("CARGO_PKG_VERSION"))
        .with_schema_url(SCHEMA_URL)
        .build()
}

/// One of ekiden's own words.
pub(crate) fn word(key: &'static str, value: impl Into<Value>) -> KeyValue {
    KeyValue::new(key, value)
}

/// A name from outside: masked, in one line, cut.
pub(crate) fn name(key: &'static str, value: &str) -> KeyValue {
    KeyValue::new(key, cleaned(value))
}

pub(crate) fn count(key: &'static str, value: impl Into<u64>) -> KeyValue {
    KeyValue::new(key, i64::try_from(value.into()).unwrap_or(i64::MAX))
}

/// A name from outside, as part of a span's name.
pub(crate) fn cleaned(name: &str) -> String {
    one_line(&mask(name), NAME_CHARS_MAX)
}

/// Money and tokens.
pub(crate) fn spent(spend: Spend) -> [KeyValue; 2] {
    [
        KeyValue::new("ekiden.cost.usd", dollars(spend.micro_usd)),
        count("ekiden.usage.tokens", spend.tokens),
    ]
}

/// Tokens by kind, as the conventions want them: cache tokens are part of the input too.
pub(crate) fn usage(kinds: TokenCounts) -> [KeyValue; 4] {
    let TokenCounts {
        input,
        cache_write,
        cache_read,
        output,
    } = kinds;
    let all = input.saturating_add(cache_write).saturating_add(cache_read);
    [
        count("gen_ai.usage.input_tokens", all),
        count("gen_ai.usage.cache_read.input_tokens", cache_read),
        count("gen_ai.usage.cache_creation.input_tokens", cache_write),
        count("gen_ai.usage.output_tokens", output),
    ]
}

#[expect(clippy::cast_precision_loss, reason = "nobody spends 2^53 millionths")]
pub(crate) fn dollars(micro_usd: u64) -> f64 {
    micro_usd as f64 / 1e6
}

/// The variant of one of our enums as the log writes it, without its contents, which may be an agent's
/// text.
pub(crate) fn variant(value: &impl Serialize) -> String {
    let json = serde_json::to_value(value).unwrap_or_default();
    let kind = json.get("kind").and_then(serde_json::Value::as_str);
    let text = kind.or_else(|| json.as_str()).map(str::to_owned);
    let key = || Some(json.as_object()?.keys().next()?.clone());
    text.or_else(key).unwrap_or_default()
}

fn system_time(at: Timestamp) -> SystemTime {
    UNIX_EPOCH + Duration::from_millis(at.0)
}

#[cfg(test)]
mod tests {
    use ekiden_core::ends::EndCause;

    use super::*;

    // shows: UIX-08, MEM-12
    #[test]
    fn names_are_masked_and_variants_hold_no_words() {
        let secret = format!("ghp_{}", "a1B2c3D4e5F6".repeat(3));
        let masked = name(
            "gen_ai.request.model",
            &format!("{secret}\n{}", "x".repeat(500)),
        );
        let text = masked.value.to_string();
        assert!(text.starts_with("[masked: github token]"), "{text}");
        assert!(text.chars().count() <= NAME_CHARS_MAX, "{text}");
        let cause = EndCause::Protocol("what an agent said".to_owned());
        assert_eq!(variant(&cause), "protocol");
        assert_eq!(variant(&EndCause::Completed), "completed");
        let outcome = Outcome::Blocked {
            question: "may I?".to_owned(),
        };
        assert_eq!(variant(&outcome), "blocked");
    }
}
