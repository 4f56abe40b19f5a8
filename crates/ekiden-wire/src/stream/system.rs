//! What the client says of itself.

use ekiden_core::ends::LimitKind;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::{ClientEvent, limit_kind, skipped};
use crate::excerpt;

/// The account's limits, as a subscription has them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RateLimitInfo {
    /// Whether requests pass.
    pub status: RateLimitStatus,
    /// When the limit is lifted, in seconds since 1970.
    pub resets_at: Option<u64>,
    /// Which limit it is.
    pub kind: LimitKind,
    /// Extra use is being paid for.
    pub overage: bool,
}

/// Whether requests pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RateLimitStatus {
    /// They pass.
    Allowed,
    /// They pass; the limit is near.
    AllowedWarning,
    /// They are refused.
    Rejected,
    /// The client said something else.
    #[default]
    #[serde(other)]
    Unknown,
}

/// The fields of all subtypes that we look at; each is small.
#[derive(Deserialize)]
struct SystemLine<'a> {
    #[serde(default)]
    session_id: Option<String>,
    #[serde(default)]
    model: Option<String>,
    #[serde(default)]
    claude_code_version: Option<String>,
    #[serde(default, rename = "permissionMode")]
    permission_mode: Option<String>,
    #[serde(default)]
    status: Option<String>,
    #[serde(default, alias = "compactMetadata")]
    compact_metadata: CompactMetadata,
    #[serde(default)]
    attempt: u32,
    #[serde(default)]
    max_retries: u32,
    #[serde(borrow, default)]
    retry_delay_ms: Option<&'a RawValue>,
    #[serde(borrow, default)]
    error: Option<&'a RawValue>,
    #[serde(borrow, default)]
    error_status: Option<&'a RawValue>,
    #[serde(default)]
    tool_use_id: Option<String>,
    #[serde(default)]
    tool_name: Option<String>,
    #[serde(default)]
    task_id: Option<String>,
    #[serde(default)]
    task_type: Option<String>,
    #[serde(default)]
    hook_event: Option<String>,
    #[serde(default)]
    fallback_model: Option<String>,
    #[serde(default)]
    outcome: Option<String>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct CompactMetadata {
    trigger: String,
    // A transcript has the other name.
    #[serde(alias = "preTokens")]
    pre_tokens: u64,
}

#[derive(Deserialize)]
struct RateLimitLine<'a> {
    #[serde(borrow)]
    rate_limit_info: RawRateLimit<'a>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct RawRateLimit<'a> {
    status: RateLimitStatus,
    #[serde(borrow, rename = "resetsAt")]
    resets_at: Option<&'a RawValue>,
    #[serde(rename = "rateLimitType")]
    kind: Option<String>,
    #[serde(rename = "isUsingOverage")]
    overage: Option<bool>,
}

/// A `system` line. Only the subtypes that are used are parsed.
pub(super) fn parse(subtype: Option<&[u8]>, line: &[u8]) -> Option<ClientEvent> {
    let event: fn(&SystemLine<'_>) -> ClientEvent = match subtype {
        Some(b"init") => init,
        Some(b"status") => status,
        Some(b"compact_boundary") => compact_boundary,
        Some(b"api_retry") => api_retry,
        Some(b"permission_denied") => permission_denied,
        Some(b"task_started") => task_started,
        Some(b"task_notification") => task_finished,
        Some(b"hook_response") => hook_finished,
        Some(b"model_fallback") => {
            |line| ClientEvent::ModelFallback { to: line.fallback_model.clone().unwrap_or_default() }
        }
        Some(b"model_refusal_no_fallback") => |_| ClientEvent::ModelRefused,
        Some(_) | None => return skipped(line),
    };
    serde_json::from_slice(line).ok().as_ref().map(event)
}

pub(super) fn parse_rate_limit(line: &[u8]) -> Option<ClientEvent> {
    let RateLimitLine { rate_limit_info: info } = serde_json::from_slice(line).ok()?;
    Some(ClientEvent::RateLimit(RateLimitInfo {
        status: info.status,
        resets_at: info.resets_at.and_then(|raw| serde_json::from_str(raw.get()).ok()),
        kind: info.kind.as_deref().map_or(LimitKind::Unknown, limit_kind),
        overage: info.overage.unwrap_or(false),
    }))
}

fn init(line: &SystemLine<'_>) -> ClientEvent {
    ClientEvent::Init {
        session_id: line.session_id.clone().unwrap_or_default(),
        model: line.model.clone().unwrap_or_default(),
        version: line.claude_code_version.clone().unwrap_or_default(),
        permission_mode: line.permission_mode.clone().unwrap_or_default(),
    }
}

fn status(line: &SystemLine<'_>) -> ClientEvent {
    match line.status.as_deref() {
        Some("compacting") => ClientEvent::Compacting,
        Some(_) | None => ClientEvent::Ignored,
    }
}

fn compact_boundary(line: &SystemLine<'_>) -> ClientEvent {
    ClientEvent::CompactBoundary {
        auto: line.compact_metadata.trigger == "auto",
        pre_tokens: line.compact_metadata.pre_tokens,
    }
}

fn api_retry(line: &SystemLine<'_>) -> ClientEvent {
    let delay_ms = line.retry_delay_ms.and_then(|raw| serde_json::from_str::<f64>(raw.get()).ok());
    ClientEvent::ApiRetry {
        attempt: line.attempt,
        max: line.max_retries,
        // Backoff has fractions in some versions; a cast of a float saturates.
        delay_ms: delay_ms.unwrap_or_default() as u64,
        error: super::assistant::api_error(line.error, line.error_status),
    }
}

fn permission_denied(line: &SystemLine<'_>) -> ClientEvent {
    ClientEvent::PermissionDenied {
        tool_use_id: line.tool_use_id.clone().unwrap_or_default(),
        tool: line.tool_name.clone().unwrap_or_default(),
    }
}

fn task_started(line: &SystemLine<'_>) -> ClientEvent {
    ClientEvent::TaskStarted {
        task_id: line.task_id.clone().unwrap_or_default(),
        subagent: line.task_type.as_deref() == Some("local_agent"),
    }
}

fn task_finished(line: &SystemLine<'_>) -> ClientEvent {
    ClientEvent::TaskFinished { task_id: line.task_id.clone().unwrap_or_default() }
}

fn hook_finished(line: &SystemLine<'_>) -> ClientEvent {
    ClientEvent::HookFinished {
        event: line.hook_event.clone().unwrap_or_default(),
        ok: line.outcome.as_deref().is_none_or(|outcome| outcome == "success"),
    }
}

/// The text of a JSON string that may be missing or odd.
pub(super) fn text(raw: Option<&RawValue>) -> String {
    raw.and_then(excerpt::whole).unwrap_or_default()
}
