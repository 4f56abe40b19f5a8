//! Why an attempt is over: the one table.
//!
//! Success is never read from `subtype`, and no text decides: `is_error`, `terminal_reason`, the
//! HTTP status, the kind of the last API error, rate-limit events and the exit decide, together with
//! what we did ourselves. A turn that was under way when the process went has no result, whatever
//! the result before it said.

use ekiden_core::ends::{EndCause, LimitKind};
use ekiden_core::time::{Millis, Timestamp};

use crate::excerpt;
use crate::limits;
use crate::stream::{
    ApiError, ApiErrorKind, ClientEvent, RateLimitInfo, RateLimitStatus, TerminalReason, TurnResult,
};

/// How the process went.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    /// By itself, with this code.
    Code(i32),
    /// By this signal.
    Signal(i32),
    /// The keeper ended it because the engine was gone.
    EngineLost,
}

/// Why we ended the process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EndedByUs {
    /// It was no longer needed: its input was closed, and it was killed if it did not go.
    Done,
    /// The operator wanted it to stop.
    Operator,
    /// It was silent for too long.
    Silent,
}

/// What was seen of an attempt, folded over its events.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Observed {
    last_result: Option<Box<TurnResult>>,
    rate_limit: Option<RateLimitInfo>,
    api_error: Option<ApiError>,
    open_callbacks: Vec<String>,
    started: bool,
    turn_open: bool,
    unanswered: bool,
    interrupt_sent: bool,
    interrupted: bool,
    ended_by_us: Option<EndedByUs>,
    exit: Option<Exit>,
    stderr: String,
}

impl Observed {
    /// Takes the next event of the stream.
    pub fn observe(&mut self, event: &ClientEvent) {
        match event {
            ClientEvent::Init { .. } => {
                self.started = true;
                self.turn_open = true;
                self.api_error = None;
            }
            // What a subagent in the background says or asks belongs to no turn of the main thread.
            ClientEvent::Assistant(response) if response.main_thread => {
                self.turn_open = true;
                self.api_error = response.error;
            }
            ClientEvent::Result(result) => self.turn_ended(result),
            ClientEvent::RateLimit(info) => self.rate_limit = Some(info.clone()),
            ClientEvent::HookCallback { request_id, call, .. } if call.agent_id.is_none() => {
                self.callback_opened(request_id);
            }
            ClientEvent::Assistant(_)
            | ClientEvent::HookCallback { .. }
            | ClientEvent::ToolResults(_)
            | ClientEvent::Lifecycle { .. }
            | ClientEvent::ApiRetry { .. }
            | ClientEvent::Compacting
            | ClientEvent::CompactBoundary { .. }
            | ClientEvent::ModelFallback
            | ClientEvent::ModelRefused
            | ClientEvent::PermissionDenied { .. }
            | ClientEvent::TaskStarted { .. }
            | ClientEvent::TaskFinished { .. }
            | ClientEvent::HookFinished { .. }
            | ClientEvent::ConversationReset
            | ClientEvent::CanUseTool { .. }
            | ClientEvent::UnknownRequest { .. }
            | ClientEvent::ControlResponse { .. }
            | ClientEvent::ControlCancel { .. }
            | ClientEvent::Ignored
            | ClientEvent::Malformed
            | ClientEvent::Oversized { .. } => {}
        }
    }

    /// We answered a callback.
    pub fn callback_answered(&mut self, request_id: &str) {
        self.open_callbacks.retain(|open| open != request_id);
    }

    /// We asked for the turn to be interrupted: the next result answers that.
    pub fn interrupt_sent(&mut self) {
        self.interrupt_sent = true;
    }

    /// We ended the process. The first reason stands.
    pub fn ended_by_us(&mut self, reason: EndedByUs) {
        self.ended_by_us.get_or_insert(reason);
    }

    /// The process is gone, and this was the end of its standard error.
    pub fn exited(&mut self, exit: Exit, stderr: &str) {
        self.exit = Some(exit);
        self.stderr = excerpt::of_text(stderr.trim(), limits::ERROR);
    }

    /// The result of the last turn, if that turn is over.
    #[must_use]
    pub fn last_result(&self) -> Option<&TurnResult> {
        self.last_result.as_deref().filter(|_| !self.turn_open)
    }

    fn turn_ended(&mut self, result: &TurnResult) {
        self.turn_open = false;
        // The client goes on without an answer only by giving the call up.
        self.unanswered = !self.open_callbacks.is_empty();
        self.open_callbacks.clear();
        self.interrupted = std::mem::take(&mut self.interrupt_sent);
        self.last_result = Some(Box::new(result.clone()));
    }

    fn callback_opened(&mut self, request_id: &str) {
        if self.open_callbacks.len() == limits::OPEN_CALLBACKS_MAX {
            self.open_callbacks.remove(0);
        }
        self.open_callbacks.push(request_id.to_owned());
    }
}

/// Why the attempt is over.
#[must_use]
pub fn cause(seen: &Observed) -> EndCause {
    if seen.exit == Some(Exit::EngineLost) {
        return EndCause::EngineLost;
    }
    match seen.ended_by_us {
        Some(EndedByUs::Silent) => return EndCause::Silent,
        Some(EndedByUs::Operator) => return EndCause::Stopped,
        Some(EndedByUs::Done) | None => {}
    }
    match seen.last_result() {
        Some(result) if result.is_error => failed(seen, result),
        Some(result) => ended_well(seen, result),
        None => without_result(seen),
    }
}

/// The turn's result says that it did not fail; the exit may still say otherwise.
fn ended_well(seen: &Observed, result: &TurnResult) -> EndCause {
    if seen.unanswered {
        return EndCause::UnansweredCallback;
    }
    if seen.ended_by_us.is_none() {
        match seen.exit {
            Some(Exit::Signal(signal)) => return EndCause::Killed { signal },
            Some(Exit::Code(code)) if code != 0 => return bad_exit(code),
            Some(Exit::Code(_) | Exit::EngineLost) | None => {}
        }
    }
    match &result.terminal_reason {
        Some(TerminalReason::HookStopped | TerminalReason::StopHookPrevented) => EndCause::HookStopped,
        // A prompt that a hook refused: no reason is given and nothing was asked of the model.
        None if result.num_turns == 0 => EndCause::HookStopped,
        Some(_) | None => EndCause::Completed,
    }
}

/// The turn's result says that it failed.
fn failed(seen: &Observed, result: &TurnResult) -> EndCause {
    let Some(reason) = &result.terminal_reason else {
        return if result.num_turns == 0 {
            EndCause::NeverStarted(result.errors.first().cloned().unwrap_or_default())
        } else {
            EndCause::Protocol("an error without a reason".to_owned())
        };
    };
    match reason {
        TerminalReason::ApiError => api_failure(seen, result),
        TerminalReason::MaxTurns => EndCause::TurnLimit,
        TerminalReason::BudgetExhausted => EndCause::BudgetSpent,
        TerminalReason::PromptTooLong
        | TerminalReason::BlockingLimit
        | TerminalReason::RapidRefillBreaker => EndCause::ContextFull,
        TerminalReason::AbortedStreaming | TerminalReason::AbortedTools => aborted(seen),
        TerminalReason::HookStopped | TerminalReason::StopHookPrevented => EndCause::HookStopped,
        TerminalReason::Completed => EndCause::Protocol("a completed turn that failed".to_owned()),
        TerminalReason::Other(reason) => {
            EndCause::Protocol(excerpt::of_text(&format!("unknown reason `{reason}`"), limits::ERROR))
        }
    }
}

/// An interrupt and a client that gives up look the same. An interrupt is ours, or a signal of
/// somebody else, after which the client exits with 0; giving up exits with 1.
fn aborted(seen: &Observed) -> EndCause {
    if seen.interrupted || seen.ended_by_us.is_some() || seen.exit == Some(Exit::Code(0)) {
        EndCause::Interrupted
    } else {
        EndCause::AutoModeBlocked
    }
}

fn api_failure(seen: &Observed, result: &TurnResult) -> EndCause {
    if result.stop_reason.as_deref() == Some("refusal") {
        return EndCause::Refused;
    }
    let error = seen.api_error.unwrap_or_default();
    by_kind(seen, error.kind, result.api_error_status.or(error.status))
}

/// Why a turn failed that a client in its own interface gave up. It tells no status and no reset.
#[must_use]
pub fn of_failure(kind: ApiErrorKind) -> EndCause {
    by_kind(&Observed::default(), kind, None)
}

fn by_kind(seen: &Observed, kind: ApiErrorKind, status: Option<u16>) -> EndCause {
    match kind {
        ApiErrorKind::AuthenticationFailed => EndCause::AuthenticationFailed,
        ApiErrorKind::RateLimit => rate_limited(seen),
        ApiErrorKind::Overloaded => EndCause::Overloaded,
        ApiErrorKind::BillingError => EndCause::BillingFailed,
        ApiErrorKind::ModelNotFound => EndCause::ModelNotFound,
        ApiErrorKind::InvalidRequest => EndCause::InvalidRequest,
        ApiErrorKind::MaxOutputTokens => EndCause::OutputLimit,
        ApiErrorKind::ServerError | ApiErrorKind::Unknown => by_status(seen, status),
    }
}

/// The HTTP status, where the kind says nothing finer (the client calls a 529 a server error).
fn by_status(seen: &Observed, status: Option<u16>) -> EndCause {
    match status {
        Some(401 | 403) => EndCause::AuthenticationFailed,
        Some(402) => EndCause::BillingFailed,
        Some(404) => EndCause::ModelNotFound,
        Some(429) => rate_limited(seen),
        Some(529) => EndCause::Overloaded,
        Some(400..=499) => EndCause::InvalidRequest,
        Some(_) | None => EndCause::ServerError,
    }
}

/// Only an event that rejects names the limit: one that allows names a reset that is not ours.
fn rate_limited(seen: &Observed) -> EndCause {
    let rejected = seen.rate_limit.as_ref().filter(|info| info.status == RateLimitStatus::Rejected);
    EndCause::RateLimited {
        resets_at: rejected.and_then(|info| info.resets_at).map(timestamp),
        kind: rejected.map_or(LimitKind::Unknown, |info| info.kind),
    }
}

fn timestamp(secs: u64) -> Timestamp {
    Timestamp::default() + Millis(secs.saturating_mul(1000))
}

/// The process went without a result of its last turn: the exit is all there is.
fn without_result(seen: &Observed) -> EndCause {
    if seen.ended_by_us.is_some() {
        return EndCause::Stopped;
    }
    match seen.exit {
        Some(Exit::Signal(signal)) => EndCause::Killed { signal },
        Some(Exit::Code(code)) if code != 0 && !seen.started => EndCause::NeverStarted(seen.stderr.clone()),
        Some(Exit::Code(code)) if code != 0 => bad_exit(code),
        Some(Exit::Code(_)) if !seen.open_callbacks.is_empty() => EndCause::UnansweredCallback,
        Some(Exit::EngineLost) => EndCause::EngineLost,
        Some(Exit::Code(_)) => EndCause::Protocol("it exited without a result".to_owned()),
        None => EndCause::Protocol("its output ended without a result".to_owned()),
    }
}

/// The client catches SIGHUP, SIGINT and SIGTERM and exits with 128 and their number.
fn bad_exit(code: i32) -> EndCause {
    match code {
        129..=159 => EndCause::Killed { signal: code - 128 },
        _ => EndCause::Crashed { exit: code },
    }
}

#[cfg(test)]
mod tests;
