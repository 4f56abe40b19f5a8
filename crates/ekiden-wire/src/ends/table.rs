//! The one table of causes: the first row whose sign is present names the cause.
//!
//! `docs/agents.md` shows the same rows, so the manual shows what decides. [`EndCause::class`] says what
//! follows from a cause.

use ekiden_core::ends::{EndCause, LimitKind};
use ekiden_core::time::{Millis, Timestamp};

use super::{EndedByUs, Exit, Observed};
use crate::excerpt;
use crate::limits;
use crate::stream::{
    ApiError, ApiErrorKind as Kind, RateLimitInfo, RateLimitStatus, TerminalReason as Reason,
    TurnResult,
};

/// The client's name for the result of a turn that spent the budget.
const SUBTYPE_BUDGET: &str = "error_max_budget_usd";

/// One way in which an attempt can end.
pub struct Row {
    /// What we see of it, for the manual.
    pub sign: &'static str,
    seen: fn(&End<'_>) -> bool,
    cause: fn(&End<'_>) -> EndCause,
}

pub fn cause(seen: &Observed) -> EndCause {
    let end = End::of(seen);
    let row = TABLE.iter().find(|row| (row.seen)(&end));
    row.map_or_else(|| odd("it ended in no known way"), |row| (row.cause)(&end))
}

/// Why a turn failed on which a client in its own interface gave up. It has no status; a limit and its
/// reset are in its transcript.
pub fn of_failure(kind: Kind, limit: Option<&RateLimitInfo>) -> EndCause {
    let reason = Some(Reason::ApiError);
    let failed = TurnResult {
        is_error: true,
        num_turns: 1,
        terminal_reason: reason,
        ..TurnResult::default()
    };
    cause(&Observed {
        last_result: Some(Box::new(failed)),
        api_error: Some(ApiError { kind, status: None }),
        rate_limit: limit.cloned(),
        ..Observed::default()
    })
}

impl Row {
    /// The cause without the details of a case.
    pub fn example(&self) -> EndCause {
        (self.cause)(&End::of(&Observed::default()))
    }
}

/// What decides, looked up once.
struct End<'a> {
    seen: &'a Observed,
    /// The last turn's result; none if the process ended during a turn.
    result: Option<&'a TurnResult>,
    reason: Option<&'a Reason>,
    error: ApiError,
    /// The HTTP status, if the kind is no more specific (the client calls a 529 a server error).
    status: Option<u16>,
}

impl<'a> End<'a> {
    fn of(seen: &'a Observed) -> Self {
        let result = seen.last_result();
        let reason = result.and_then(|result| result.terminal_reason.as_ref());
        // Older clients (2.1.197) report `completed` for a turn that the service failed.
        let is_apis = reason == Some(&Reason::Completed)
            && result.is_some_and(|result| {
                result.is_error && (seen.api_error.is_some() || result.api_error_status.is_some())
            });
        // They also give no reason when the budget is spent.
        let is_budget =
            reason.is_none() && result.is_some_and(|result| result.subtype == SUBTYPE_BUDGET);
        let reason = match reason {
            _ if is_apis => Some(&Reason::ApiError),
            _ if is_budget => Some(&Reason::BudgetExhausted),
            reason => reason,
        };
        let error = seen.api_error.unwrap_or_default();
        let coarse = matches!(error.kind, Kind::ServerError | Kind::Unknown);
        let status = result
            .and_then(|result| result.api_error_status)
            .or(error.status)
            .filter(|_| coarse);
        Self {
            seen,
            result,
            reason,
            error,
            status,
        }
    }

    fn failed(&self) -> bool {
        self.result.is_some_and(|result| result.is_error)
    }

    fn failed_by(&self, reason: &Reason) -> bool {
        self.failed() && self.reason == Some(reason)
    }

    fn failed_with(&self, kinds: &[Kind], statuses: &[u16]) -> bool {
        self.failed_by(&Reason::ApiError)
            && (kinds.contains(&self.error.kind)
                || self.status.is_some_and(|code| statuses.contains(&code)))
    }

    fn first_error(&self) -> String {
        let first = self.result.and_then(|result| result.errors.first());
        first.cloned().unwrap_or_default()
    }

    fn stop_reason(&self) -> Option<&str> {
        self.result.and_then(|result| result.stop_reason.as_deref())
    }

    fn no_turns(&self) -> bool {
        self.result.is_some_and(|result| result.num_turns == 0)
    }

    /// The exit, unless we ended the process: then it says nothing about the agent.
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

    /// What it said on standard error, or else its exit code.
    fn last_words(&self) -> String {
        match self.failure_code() {
            Some(code) if self.seen.stderr.is_empty() => format!("exit code {code}"),
            Some(_) | None => self.seen.stderr.clone(),
        }
    }
}

/// What we see of each end, and its cause. The first row whose condition holds decides.
macro_rules! rows {
    ($end:ident: $($sign:literal: $seen:expr => $cause:expr;)*) => {
        &[$(Row {
            sign: $sign,
            seen: |$end| {
                let _ = $end;
                $seen
            },
            cause: |$end| {
                let _ = $end;
                $cause
            },
        }),*]
    };
}

/// All the ways, in the order in which they are checked.
pub static TABLE: &[Row] = rows! { end:
    "ekiden itself died; its keeper ended the agent":
        end.seen.exit == Some(Exit::EngineLost) => EndCause::EngineLost;
    "nothing was written for 25 minutes; ekiden ended it":
        end.seen.ended_by_us == Some(EndedByUs::Silent) => EndCause::Silent;
    "ekiden ended it because the run stops":
        end.seen.ended_by_us == Some(EndedByUs::Operator) => EndCause::Stopped;
    "`is_error`, no `terminal_reason`, `num_turns` 0 (an unknown id for `--resume`)":
        end.failed() && end.reason.is_none() && end.no_turns()
            => EndCause::NeverStarted(end.first_error());
    "`is_error`, no `terminal_reason`":
        end.failed() && end.reason.is_none() => odd("an error without a reason");
    "`api_error`, `stop_reason: refusal`":
        end.failed_by(&Reason::ApiError) && end.stop_reason() == Some("refusal")
            => EndCause::Refused;
    "`api_error`: `authentication_failed`, `oauth_org_not_allowed`, `cloud_credential_error`; 401, 403; not logged in":
        end.failed_with(&[Kind::AuthenticationFailed], &[401, 403])
            => EndCause::AuthenticationFailed;
    "`api_error`: `billing_error`; 402":
        end.failed_with(&[Kind::BillingError], &[402]) => EndCause::BillingFailed;
    "`api_error`: `account_on_hold`, `verification_required`":
        end.failed_with(&[Kind::AccountOnHold], &[]) => EndCause::AccountOnHold;
    "`api_error`: `model_not_found`; 404":
        end.failed_with(&[Kind::ModelNotFound], &[404]) => EndCause::ModelNotFound;
    "`api_error`: `rate_limit`; 429. The limit and its reset come from a `rate_limit_event` that says `rejected`, or from `api_error_params`":
        end.failed_with(&[Kind::RateLimit], &[429]) => rate_limited(end);
    "`api_error`: `overloaded`; 529":
        end.failed_with(&[Kind::Overloaded], &[529]) => EndCause::Overloaded;
    "`prompt_too_long`, `blocking_limit`, `rapid_refill_breaker`; `api_error`: `max_output_tokens` with `cut: context_window`":
        [Reason::PromptTooLong, Reason::BlockingLimit, Reason::RapidRefillBreaker]
            .iter().any(|reason| end.failed_by(reason))
            || end.failed_with(&[Kind::ContextFull], &[])
            => EndCause::ContextFull;
    "`api_error`: `max_output_tokens` (after three continuations)":
        end.failed_with(&[Kind::MaxOutputTokens], &[]) => EndCause::OutputLimit;
    "`api_error`: `invalid_request`; any other 4xx":
        end.failed_with(&[Kind::InvalidRequest], &[])
            || end.failed_by(&Reason::ApiError) && matches!(end.status, Some(400..=499))
            => EndCause::InvalidRequest;
    "`api_error` with anything else: 500, 503, a connection that was dropped, refused or cut":
        end.failed_by(&Reason::ApiError) => EndCause::ServerError;
    "`model_error`":
        end.failed_by(&Reason::ModelError) => EndCause::ServerError;
    "`image_error` (413: more than 32 MB)":
        end.failed_by(&Reason::ImageError) => EndCause::InvalidRequest;
    "`malformed_tool_use_exhausted`":
        end.failed_by(&Reason::MalformedToolUseExhausted) => EndCause::UnreadableCalls;
    "`max_turns`":
        end.failed_by(&Reason::MaxTurns) => EndCause::TurnLimit;
    "`budget_exhausted`; of older clients `error_max_budget_usd` without a `terminal_reason`":
        end.failed_by(&Reason::BudgetExhausted) => EndCause::BudgetSpent;
    // An interrupt and a client that gives up look the same. An interrupt is ours, or a signal from
    // somebody else, after which the client exits with 0; giving up exits with 1.
    "`aborted_streaming`, `aborted_tools`, after an interrupt of ours or with exit code 0":
        aborted(end) && (end.seen.interrupted
            || end.seen.ended_by_us.is_some()
            || end.seen.exit == Some(Exit::Code(0)))
            => EndCause::Interrupted;
    "`aborted_streaming`, `aborted_tools` otherwise: ten refusals for want of a safety check; of Codex `tooManyDenials`":
        aborted(end) || end.failed_by(&Reason::TooManyDenials) => EndCause::AutoModeBlocked;
    "`is_error` and `hook_stopped`, `stop_hook_prevented`":
        end.failed() && stopped_by_hook(end) => EndCause::HookStopped;
    "`is_error` and `completed`; with an API error (older clients) it is as `api_error`":
        end.failed_by(&Reason::Completed) => odd("a completed turn that failed");
    "`is_error` and any other reason":
        end.failed() => odd(&match end.reason {
            Some(Reason::Other(reason)) => format!("unknown reason `{reason}`"),
            Some(_) | None => "unknown reason".to_owned(),
        });
    "a good result, though a callback of ours stood open":
        end.result.is_some() && end.seen.unanswered => EndCause::UnansweredCallback;
    "killed by a signal, or exit code 128 and its number: 129, 143, 137":
        end.signal().is_some()
            => EndCause::Killed { signal: end.signal().unwrap_or_default() };
    "a good result, and then another exit code than 0":
        end.result.is_some() && end.failure_code().is_some() => crashed(end);
    // A prompt that a hook refused: there is no reason, and the model was asked nothing.
    "`hook_stopped`, `stop_hook_prevented`; no reason and `num_turns` 0":
        end.result.is_some() && (stopped_by_hook(end) || end.reason.is_none() && end.no_turns())
            => EndCause::HookStopped;
    "any other good result":
        end.result.is_some() => EndCause::Completed;
    "no result, and ekiden had closed its input":
        end.seen.ended_by_us.is_some() => EndCause::Stopped;
    "no `init` and an exit code, and on standard error that it does not take a flag, its value, or root with it":
        end.failure_code().is_some() && !end.seen.started && is_refused_start(&end.seen.stderr)
            => EndCause::NotTaken(end.seen.stderr.clone());
    "no `init` and an exit code, with what it said on standard error, or else the code":
        end.failure_code().is_some() && !end.seen.started
            => EndCause::NeverStarted(end.last_words());
    "no result and an exit code":
        end.failure_code().is_some() => crashed(end);
    "no result, exit code 0, a callback of ours open":
        end.seen.exit.is_some() && !end.seen.open_callbacks.is_empty()
            => EndCause::UnansweredCallback;
    "no result, exit code 0":
        end.seen.exit.is_some() => odd("it exited without a result");
    "its output ended":
        true => odd("its output ended without a result");
};

/// The wording of 2.1.197 and newer. Started again in the same way, the client would say the same.
fn is_refused_start(stderr: &str) -> bool {
    stderr.starts_with("error: unknown option '")
        || stderr.starts_with("error: option '")
        || stderr.contains("cannot be used with root/sudo privileges")
}

fn aborted(end: &End<'_>) -> bool {
    end.failed_by(&Reason::AbortedStreaming) || end.failed_by(&Reason::AbortedTools)
}

fn stopped_by_hook(end: &End<'_>) -> bool {
    matches!(
        end.reason,
        Some(Reason::HookStopped | Reason::StopHookPrevented)
    )
}

fn crashed(end: &End<'_>) -> EndCause {
    EndCause::Crashed {
        exit: end.failure_code().unwrap_or_default(),
    }
}

/// Only an event that rejects names the limit: one that allows names a reset that does not concern us.
fn rate_limited(end: &End<'_>) -> EndCause {
    let rejected = end
        .seen
        .rate_limit
        .as_ref()
        .filter(|info| info.status == RateLimitStatus::Rejected);
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
