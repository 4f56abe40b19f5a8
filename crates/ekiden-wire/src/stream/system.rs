//! The client's `system` and `rate_limit_event` lines.

use ekiden_core::ends::LimitKind;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{ClientEvent, assistant};
use crate::json;

/// The limits of an account with a subscription.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RateLimitInfo {
    pub status: RateLimitStatus,
    /// When the limit is lifted, in seconds since 1970.
    pub resets_at: Option<u64>,
    pub kind: LimitKind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RateLimitStatus {
    Allowed,
    /// Requests pass; the limit is near.
    AllowedWarning,
    Rejected,
    #[default]
    #[serde(other)]
    Unknown,
}

/// The client's names for limits. For limits of single models the first is written.
pub(crate) const LIMIT_NAMES: [(&str, LimitKind); 6] = [
    ("five_hour", LimitKind::FiveHour),
    ("seven_day", LimitKind::SevenDay),
    ("seven_day_opus", LimitKind::SevenDayModel),
    ("seven_day_sonnet", LimitKind::SevenDayModel),
    ("seven_day_overage_included", LimitKind::SevenDayModel),
    ("overage", LimitKind::Overage),
];

/// A `system` line.
pub(super) fn parse(line: &Value) -> ClientEvent {
    let text = |name: &str| json::text(&line[name]);
    match line["subtype"].as_str().unwrap_or_default() {
        "init" => ClientEvent::Init,
        "compact_boundary" => {
            // A transcript uses the other names.
            let stream = &line["compact_metadata"]["pre_tokens"];
            let transcript = &line["compactMetadata"]["preTokens"];
            ClientEvent::CompactBoundary {
                pre_tokens: stream.as_u64().or(transcript.as_u64()).unwrap_or_default(),
            }
        }
        "api_retry" => ClientEvent::ApiRetry {
            attempt: json::field(&line["attempt"]),
            error: assistant::api_error(&line["error"], &line["error_status"]),
        },
        "permission_denied" => ClientEvent::PermissionDenied {
            tool_use_id: text("tool_use_id"),
            tool: text("tool_name"),
        },
        "model_fallback" => ClientEvent::ModelFallback {
            to: text("fallback_model"),
        },
        _ => ClientEvent::Ignored,
    }
}

pub(super) fn rate_limit(line: &Value) -> Option<RateLimitInfo> {
    let info = line["rate_limit_info"].as_object()?;
    let get = |name: &str| info.get(name).unwrap_or(&Value::Null);
    let named = get("rateLimitType").as_str();
    let known = LIMIT_NAMES.iter().find(|(name, _)| Some(*name) == named);
    Some(RateLimitInfo {
        status: json::field(get("status")),
        resets_at: json::field(get("resetsAt")),
        kind: known.map_or(LimitKind::Unknown, |(_, kind)| *kind),
    })
}
