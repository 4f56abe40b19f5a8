//! What our plugin in opencode reports during a turn and the protocol does not.

use ekiden_core::ends::LimitKind;
use serde_json::{Value, json};

use super::Acp;
use crate::json;
use crate::stream::{
    ApiError, ApiErrorKind, ClientEvent, RateLimitInfo, RateLimitStatus, TerminalReason,
};

/// opencode waits longer before it retries a call only if the service names the time, as at a usage limit.
const RETRY_WAIT_MS_MAX: u64 = 60_000;

impl Acp {
    /// What our plugin in opencode reports.
    pub(super) fn plugin_told(&mut self, method: &str, told: &Value) {
        match method {
            "_ekiden/context" => self.told(told["used"].as_u64(), json::field(&told["size"])),
            "_ekiden/retry" => {
                let waits_ms: u64 = json::field(&told["waitsMs"]);
                if waits_ms > RETRY_WAIT_MS_MAX {
                    self.limited(told);
                }
            }
            _ => {}
        }
    }

    /// Ends the turn, which the service refuses until then: the agent would wait silently.
    fn limited(&mut self, told: &Value) {
        if std::mem::replace(&mut self.is_given_up, true) {
            return;
        }
        self.flush_words();
        self.turn_over();
        self.out.see(ClientEvent::RateLimit(RateLimitInfo {
            status: RateLimitStatus::Rejected,
            resets_at: json::field(&told["resetsAt"]),
            kind: LimitKind::Unknown,
        }));
        let error = ApiError {
            kind: ApiErrorKind::RateLimit,
            status: None,
        };
        let result = self.result(&Value::Null, true, TerminalReason::ApiError);
        self.out
            .failed(error, result, &json::text(&told["message"]));
        let params = json!({"sessionId": self.session});
        self.out.notify("session/cancel", &params);
    }
}
