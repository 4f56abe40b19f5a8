//! What our plugin in opencode reports during a turn and the protocol does not.

use ekiden_core::ends::LimitKind;
use serde_json::{Value, json};

use super::Acp;
use crate::json;
use crate::limits::RETRIES_MAX;
use crate::stream::{
    ApiError, ApiErrorKind, ClientEvent, RateLimitInfo, RateLimitStatus, TerminalReason,
};

/// opencode waits longer before it retries a call only if the service names the time, as at a usage limit.
const RETRY_WAIT_MS_MAX: u64 = 60_000;

impl Acp {
    pub(super) fn plugin_told(&mut self, method: &str, told: &Value) {
        match method {
            "_ekiden/context" => self.told(told["used"].as_u64(), json::field(&told["size"])),
            "_ekiden/retry" => {
                let waits_ms: u64 = json::field(&told["waitsMs"]);
                let attempt: u32 = json::field(&told["attempt"]);
                if waits_ms > RETRY_WAIT_MS_MAX {
                    self.give_up(told, ApiErrorKind::RateLimit);
                } else if attempt >= RETRIES_MAX {
                    self.give_up(told, ApiErrorKind::ServerError);
                } else {
                    let kind = ApiErrorKind::ServerError;
                    let error = ApiError { kind, status: None };
                    self.out.see(ClientEvent::ApiRetry { attempt, error });
                }
            }
            _ => {}
        }
    }

    /// Ends the turn, which the service refuses: the agent would go on trying, or wait silently until the reset.
    fn give_up(&mut self, told: &Value, kind: ApiErrorKind) {
        if std::mem::replace(&mut self.is_given_up, true) {
            return;
        }
        self.flush_words();
        self.turn_over();
        if kind == ApiErrorKind::RateLimit {
            self.out.see(ClientEvent::RateLimit(RateLimitInfo {
                status: RateLimitStatus::Rejected,
                resets_at: json::field(&told["resetsAt"]),
                kind: LimitKind::Unknown,
            }));
        }
        let error = ApiError { kind, status: None };
        let result = self.result(&Value::Null, true, TerminalReason::ApiError);
        self.out
            .failed(error, result, &json::text(&told["message"]));
        let params = json!({"sessionId": self.session});
        self.out.notify("session/cancel", &params);
    }
}
