//! The one table of causes: the first row whose sign is there names the cause.
//!
//! `docs/agents.md` shows the same rows, so what the manual says of an end is what decides it. What
//! follows from a cause, [`EndCause::class`] says.

use ekiden_core::ends::{EndCause, LimitKind};
use ekiden_core::time::{Millis, Timestamp};

use super::{EndedByUs, Exit, Observed};
use crate::excerpt;
use crate::limits;
use crate::stream::{
    ApiError, ApiErrorKind as Kind, RateLimitInfo, RateLimitStatus, TerminalReason as Reason, TurnResult,
};

/// One way in which an attempt can end.
pub struct Row {
    /// What is seen of it, for the manual.
    pub sign: &'static str,
    seen: fn(&End<'_>) -> bool,
    cause: fn(&End<'_>) -> EndCause,
}

/// Why the attempt is over.
#[must_use]
pub fn cause(seen: &Observed) -> EndCause {
    let end = End::of(seen);
    let row = TABLE.iter().find(|row| (row.seen)(&end));
    row.map_or_else(|| odd("it ended in no known way"), |row| (row.cause)(&end))
}

/// Why a turn failed that a client in its own interface gave up. It tells no status; a limit and its
/// reset stand in its transcript.
#[must_use]
pub fn of_failure(kind: Kind, limit: Option<&RateLimitInfo>) -> EndCause {
    let reason = Some(Reason::ApiError);
    let failed =
        TurnResult { is_error: true, num_turns: 1, terminal_reason: reason, ..TurnResult::default() };
    cause(&Observed {
        last_result: Some(Box::new(failed)),
        api_error: Some(ApiError { kind, status: None }),
        rate_limit: limit.cloned(),
        ..Observed::default()
    })
}

impl Row {
    /// The cause without the particulars of a case.
    #[must_use]
    pub fn example(&self) -> EndCause {
        (self.cause)(&End::of(&Observed::default()))
    }
}

/// What decides, looked up once.
struct End<'a> {
    seen: &'a Observed,
    /// The last turn's result; none if the process went during a turn.
    result: Option<&'a TurnResult>,
    reason: Option<&'a Reason>,
    error: ApiError,
    /// The HTTP status, where the kind says nothing finer (the client calls a 529 a server error).
    status: Option<u16>,
}

impl<'a> End<'a> {
    fn of(seen: &'a Observed) -> Self {
        let result = seen.last_result();
        let reason = result.and_then(|result| result.terminal_reason.as_ref());
        let error = seen.api_error.unwrap_or_default();
        let coarse = matches!(error.kind, Kind::ServerError | Kind::Unknown);
        let status = result.and_then(|result| result.api_error_status).or(error.status).filter(|_| coarse);
        Self { seen, result, reason, error, status }
    }

    fn failed(&self) -> bool {
        self.result.is_some_and(|result| result.is_error)
    }

    fn failed_by(&self, reason: &Reason) -> bool {
        self.failed() && self.reason == Some(reason)
    }

    fn failed_with(&self, kinds: &[Kind], statuses: &[u16]) -> bool {
        self.failed_by(&Reason::ApiError)
            && (kinds.contains(&self.error.kind) || self.status.is_some_and(|code| statuses.contains(&code)))
    }

    fn no_turns(&self) -> bool {
        self.result.is_some_and(|result| result.num_turns == 0)
    }

    /// The exit, unless we ended the process: then it says nothing of the agent.
    fn own_exit(&self) -> Option<Exit> {
        self.seen.exit.filter(|_| self.seen.ended_by_us.is_none())
    }

    /// The client catches SIGHUP, SIGINT and SIGTERM and exits with 128 and their number.
    fn signal(&self) -> Option<i32> {
        match self.own_exit()? {
            Exit::Signal(signal) => Some(signal),
            Exit::Code(code @ 129..=159) => Some(code - 128),
            Exit::Code(_) | Exit::EngineLost => None,
        }
    }

    fn failure_code(&self) -> Option<i32> {
        match self.own_exit()? {
            Exit::Code(code) => Some(code).filter(|code| *code != 0),
            Exit::Signal(_) | Exit::EngineLost => None,
        }
    }
}

/// All ways, in the order in which they are looked for.
pub static TABLE: [Row; 37] = [
    Row {
        sign: "ekiden itself died; its keeper ended the agent",
        seen: |end| end.seen.exit == Some(Exit::EngineLost),
        cause: |_| EndCause::EngineLost,
    },
    Row {
        sign: "nothing was written for 25 minutes; ekiden ended it",
        seen: |end| end.seen.ended_by_us == Some(EndedByUs::Silent),
        cause: |_| EndCause::Silent,
    },
    Row {
        sign: "ekiden ended it because the run stops",
        seen: |end| end.seen.ended_by_us == Some(EndedByUs::Operator),
        cause: |_| EndCause::Stopped,
    },
    Row {
        sign: "`is_error`, no `terminal_reason`, `num_turns` 0 (an unknown id for `--resume`)",
        seen: |end| end.failed() && end.reason.is_none() && end.no_turns(),
        cause: |end| {
            EndCause::NeverStarted(
                end.result.and_then(|result| result.errors.first().cloned()).unwrap_or_default(),
            )
        },
    },
    Row {
        sign: "`is_error`, no `terminal_reason`",
        seen: |end| end.failed() && end.reason.is_none(),
        cause: |_| odd("an error without a reason"),
    },
    Row {
        sign: "`api_error`, `stop_reason: refusal`",
        seen: |end| {
            let stop = end.result.and_then(|result| result.stop_reason.as_deref());
            end.failed_by(&Reason::ApiError) && stop == Some("refusal")
        },
        cause: |_| EndCause::Refused,
    },
    Row {
        sign: "`api_error`: `authentication_failed`, `oauth_org_not_allowed`, `cloud_credential_error`; 401, 403; not logged in",
        seen: |end| end.failed_with(&[Kind::AuthenticationFailed], &[401, 403]),
        cause: |_| EndCause::AuthenticationFailed,
    },
    Row {
        sign: "`api_error`: `billing_error`; 402",
        seen: |end| end.failed_with(&[Kind::BillingError], &[402]),
        cause: |_| EndCause::BillingFailed,
    },
    Row {
        sign: "`api_error`: `account_on_hold`, `verification_required`",
        seen: |end| end.failed_with(&[Kind::AccountOnHold], &[]),
        cause: |_| EndCause::AccountOnHold,
    },
    Row {
        sign: "`api_error`: `model_not_found`; 404",
        seen: |end| end.failed_with(&[Kind::ModelNotFound], &[404]),
        cause: |_| EndCause::ModelNotFound,
    },
    Row {
        sign: "`api_error`: `rate_limit`; 429. The limit and its reset come from a `rate_limit_event` that says `rejected`",
        seen: |end| end.failed_with(&[Kind::RateLimit], &[429]),
        cause: rate_limited,
    },
    Row {
        sign: "`api_error`: `overloaded`; 529",
        seen: |end| end.failed_with(&[Kind::Overloaded], &[529]),
        cause: |_| EndCause::Overloaded,
    },
    Row {
        sign: "`api_error`: `max_output_tokens` (after three continuations)",
        seen: |end| end.failed_with(&[Kind::MaxOutputTokens], &[]),
        cause: |_| EndCause::OutputLimit,
    },
    Row {
        sign: "`api_error`: `invalid_request`; any other 4xx",
        seen: |end| {
            end.failed_with(&[Kind::InvalidRequest], &[])
                || end.failed_by(&Reason::ApiError) && matches!(end.status, Some(400..=499))
        },
        cause: |_| EndCause::InvalidRequest,
    },
    Row {
        sign: "`api_error` with anything else: 500, 503, a connection that was dropped, refused or cut",
        seen: |end| end.failed_by(&Reason::ApiError),
        cause: |_| EndCause::ServerError,
    },
    Row {
        sign: "`model_error`",
        seen: |end| end.failed_by(&Reason::ModelError),
        cause: |_| EndCause::ServerError,
    },
    Row {
        sign: "`image_error` (413: more than 32 MB)",
        seen: |end| end.failed_by(&Reason::ImageError),
        cause: |_| EndCause::InvalidRequest,
    },
    Row {
        sign: "`malformed_tool_use_exhausted`",
        seen: |end| end.failed_by(&Reason::MalformedToolUseExhausted),
        cause: |_| EndCause::UnreadableCalls,
    },
    Row { sign: "`max_turns`", seen: |end| end.failed_by(&Reason::MaxTurns), cause: |_| EndCause::TurnLimit },
    Row {
        sign: "`budget_exhausted`",
        seen: |end| end.failed_by(&Reason::BudgetExhausted),
        cause: |_| EndCause::BudgetSpent,
    },
    Row {
        sign: "`prompt_too_long`, `blocking_limit`, `rapid_refill_breaker`",
        seen: |end| {
            [Reason::PromptTooLong, Reason::BlockingLimit, Reason::RapidRefillBreaker]
                .iter()
                .any(|reason| end.failed_by(reason))
        },
        cause: |_| EndCause::ContextFull,
    },
    Row {
        // An interrupt and a client that gives up look the same. An interrupt is ours, or a signal of
        // somebody else, after which the client exits with 0; giving up exits with 1.
        sign: "`aborted_streaming`, `aborted_tools`, after an interrupt of ours or with exit code 0",
        seen: |end| {
            let asked = end.seen.interrupted || end.seen.ended_by_us.is_some();
            aborted(end) && (asked || end.seen.exit == Some(Exit::Code(0)))
        },
        cause: |_| EndCause::Interrupted,
    },
    Row {
        sign: "`aborted_streaming`, `aborted_tools` otherwise: ten refusals for want of a safety check",
        seen: aborted,
        cause: |_| EndCause::AutoModeBlocked,
    },
    Row {
        sign: "`is_error` and `hook_stopped`, `stop_hook_prevented`",
        seen: |end| end.failed() && stopped_by_hook(end),
        cause: |_| EndCause::HookStopped,
    },
    Row {
        sign: "`is_error` and `completed`",
        seen: |end| end.failed_by(&Reason::Completed),
        cause: |_| odd("a completed turn that failed"),
    },
    Row {
        sign: "`is_error` and any other reason",
        seen: |end| end.failed(),
        cause: |end| match end.reason {
            Some(Reason::Other(reason)) => odd(&format!("unknown reason `{reason}`")),
            Some(_) | None => odd("unknown reason"),
        },
    },
    Row {
        sign: "a good result, though a callback of ours stood open",
        seen: |end| end.result.is_some() && end.seen.unanswered,
        cause: |_| EndCause::UnansweredCallback,
    },
    Row {
        sign: "killed by a signal, or exit code 128 and its number: 129, 143, 137",
        seen: |end| end.signal().is_some(),
        cause: |end| EndCause::Killed { signal: end.signal().unwrap_or_default() },
    },
    Row {
        sign: "a good result, and then another exit code than 0",
        seen: |end| end.result.is_some() && end.failure_code().is_some(),
        cause: crashed,
    },
    Row {
        // A prompt that a hook refused: no reason is given and nothing was asked of the model.
        sign: "`hook_stopped`, `stop_hook_prevented`; no reason and `num_turns` 0",
        seen: |end| end.result.is_some() && (stopped_by_hook(end) || end.reason.is_none() && end.no_turns()),
        cause: |_| EndCause::HookStopped,
    },
    Row { sign: "any other good result", seen: |end| end.result.is_some(), cause: |_| EndCause::Completed },
    Row {
        sign: "no result, and ekiden had closed its input",
        seen: |end| end.seen.ended_by_us.is_some(),
        cause: |_| EndCause::Stopped,
    },
    Row {
        sign: "no `init` and an exit code, with what it said on standard error: a flag that it does not know",
        seen: |end| end.failure_code().is_some() && !end.seen.started,
        cause: |end| EndCause::NeverStarted(end.seen.stderr.clone()),
    },
    Row { sign: "no result and an exit code", seen: |end| end.failure_code().is_some(), cause: crashed },
    Row {
        sign: "no result, exit code 0, a callback of ours open",
        seen: |end| end.seen.exit.is_some() && !end.seen.open_callbacks.is_empty(),
        cause: |_| EndCause::UnansweredCallback,
    },
    Row {
        sign: "no result, exit code 0",
        seen: |end| end.seen.exit.is_some(),
        cause: |_| odd("it exited without a result"),
    },
    Row { sign: "its output ended", seen: |_| true, cause: |_| odd("its output ended without a result") },
];

fn aborted(end: &End<'_>) -> bool {
    end.failed_by(&Reason::AbortedStreaming) || end.failed_by(&Reason::AbortedTools)
}

fn stopped_by_hook(end: &End<'_>) -> bool {
    matches!(end.reason, Some(Reason::HookStopped | Reason::StopHookPrevented))
}

fn crashed(end: &End<'_>) -> EndCause {
    EndCause::Crashed { exit: end.failure_code().unwrap_or_default() }
}

/// Only an event that rejects names the limit: one that allows names a reset that is not ours.
fn rate_limited(end: &End<'_>) -> EndCause {
    let rejected = end.seen.rate_limit.as_ref().filter(|info| info.status == RateLimitStatus::Rejected);
    EndCause::RateLimited {
        resets_at: rejected.and_then(|info| info.resets_at).map(timestamp),
        kind: rejected.map_or(LimitKind::Unknown, |info| info.kind),
    }
}

pub(super) fn timestamp(secs: u64) -> Timestamp {
    Timestamp::default() + Millis(secs.saturating_mul(1000))
}

fn odd(what: &str) -> EndCause {
    EndCause::Protocol(excerpt::of_text(what, limits::ERROR))
}
