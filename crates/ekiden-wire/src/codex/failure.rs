//! What a failed turn means, by its structured field alone.

use serde_json::Value;

use crate::rpc::of_status;
use crate::stream::{ApiError, ApiErrorKind as Kind, TerminalReason as Reason};

pub(super) fn of(info: &Value) -> (ApiError, Reason) {
    let word = info.as_str().unwrap_or_default();
    let kind = match word {
        "usageLimitExceeded" | "rateLimitExceeded" => Kind::RateLimit,
        "unauthorized" => Kind::AuthenticationFailed,
        "serverOverloaded" | "flexUnavailable" | "policyCapacityUnavailable" => Kind::Overloaded,
        "modelNotFound" => Kind::ModelNotFound,
        "badRequest"
        | "cyberPolicy"
        | "bioPolicy"
        | "misalignmentPolicyViolation"
        | "inferenceHookDenied" => Kind::InvalidRequest,
        "contextWindowExceeded" => return (ApiError::default(), Reason::PromptTooLong),
        "sessionBudgetExceeded" => return (ApiError::default(), Reason::BudgetExhausted),
        // The service is well, so waiting for it is no help.
        "tooManyDenials" => return (ApiError::default(), Reason::TooManyDenials),
        "sandboxError" | "threadRollbackFailed" => {
            return (ApiError::default(), Reason::Other(word.to_owned()));
        }
        _ => Kind::Unknown,
    };
    // The other kinds are objects, which may hold the status of the answer.
    let inner = info.as_object().and_then(|info| info.values().next());
    let status = inner.and_then(|inner| inner["httpStatusCode"].as_u64());
    let found = of_status(status.and_then(|status| u16::try_from(status).ok()));
    (ApiError { kind, ..found }, Reason::ApiError)
}
