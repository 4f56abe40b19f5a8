//! How an attempt can end: every way has a name, and each name has a class that says what follows.
//!
//! An agent's format says how its ends look; that table is in the crate that knows the format. Here
//! is only what the relay decides on. "Unknown" has names of its own ([`EndCause::Protocol`],
//! [`EndCause::Crashed`]), so that nothing ends as a silent success.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::limits;
use crate::time::{Millis, Timestamp};

/// Why an attempt is over.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EndCause {
    /// The agent ended its last turn by itself. Whether it did its work, its files say.
    Completed,
    /// A hook ended the turn or refused the prompt.
    HookStopped,
    /// The turn was interrupted.
    Interrupted,
    /// We ended the process on purpose.
    Stopped,
    /// The account's limit is reached.
    RateLimited {
        /// When the limit is lifted, if the service said so.
        resets_at: Option<Timestamp>,
        /// Which limit it is.
        kind: LimitKind,
    },
    /// The service has no capacity, and the agent's own retries are used up.
    Overloaded,
    /// The login or key is not accepted.
    AuthenticationFailed,
    /// The account cannot pay.
    BillingFailed,
    /// The account is on hold or has to be verified first.
    AccountOnHold,
    /// The model does not exist or is not open to this account.
    ModelNotFound,
    /// The service does not accept what the agent sent.
    InvalidRequest,
    /// The service failed or could not be reached.
    ServerError,
    /// The model was cut off at the longest answer it may give.
    OutputLimit,
    /// The model refused.
    Refused,
    /// The model's calls could not be read, again and again.
    UnreadableCalls,
    /// The context window is full: the handoff came too late.
    ContextFull,
    /// The agent's own limit of turns is reached.
    TurnLimit,
    /// The session's budget, or the agent's own, is spent.
    BudgetSpent,
    /// The session's time is up.
    TimeUp,
    /// The agent's safety check cannot judge actions here, so it gave up.
    AutoModeBlocked,
    /// Nothing came from the agent for too long, so we ended it.
    Silent,
    /// A callback of the agent was not answered in time; the agent then does nothing and says
    /// that all is well.
    UnansweredCallback,
    /// The agent ended before its first turn; with what it said.
    NeverStarted(String),
    /// The agent exited with a failure and did not say why.
    Crashed {
        /// Its exit code.
        exit: i32,
    },
    /// The person at the agent's own interface left it.
    PersonLeft,
    /// The agent ended in good order and at once, and had done nothing.
    NothingDone,
    /// Somebody else ended the process.
    Killed {
        /// By this signal.
        signal: i32,
    },
    /// ekiden itself died, and the keeper ended the agent.
    EngineLost,
    /// The agent ended in a way that its format does not have; with what was seen.
    Protocol(String),
}

/// Which limit of an account is reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LimitKind {
    /// The limit of five hours.
    FiveHour,
    /// The weekly limit.
    SevenDay,
    /// The weekly limit of one model.
    SevenDayModel,
    /// The limit of paid extra use.
    Overage,
    /// The service did not say.
    Unknown,
}

/// What follows from an end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EndClass {
    /// An orderly end: the files decide.
    Fine,
    /// The same session runs again after a wait; not a crash.
    Wait,
    /// The same session runs again at once or after a short pause; counts as a crash.
    Retry,
    /// Trying again cannot help: a person is needed.
    Stop(Hint),
    /// A person ended the session. Without a handoff the run stops, to be carried on.
    Left,
    /// The session used up what it had (window, turns, budget, time). It cannot be asked for a handoff
    /// any more; a crash it was not.
    TooLate,
}

/// What a person can do about an end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Hint {
    /// Log in, or set a key.
    LogIn,
    /// Pay, or take another account.
    Pay,
    /// Name another model.
    ChooseModel,
    /// Allow the actions, or choose another permission mode.
    Permit,
}

impl EndCause {
    /// When the limit that ended the attempt is lifted, if the service said so.
    #[must_use]
    pub fn resets_at(&self) -> Option<Timestamp> {
        if let Self::RateLimited { resets_at, .. } = self { *resets_at } else { None }
    }

    /// How long to wait before the service is asked again, `waited` having been waited in vain.
    ///
    /// A reset that is past by our clock is waited for as well: else a service whose clock is behind would be
    /// asked again and again without a pause. An outage is asked after sooner, and ever more seldom.
    #[must_use]
    pub fn wait(&self, at: Timestamp, waited: Millis) -> Millis {
        match self.resets_at() {
            Some(reset) => Millis(reset.since(at).0.saturating_add(limits::RESET_BUFFER.0)),
            None if *self == Self::ServerError => {
                Millis(waited.0.clamp(limits::CRASH_BACKOFF.0, limits::RESET_UNKNOWN.0))
            }
            None => limits::RESET_UNKNOWN,
        }
    }

    /// The conversation itself is what the service or the model does not take: the same again would
    /// end in the same way, so the next attempt begins a fresh one.
    #[must_use]
    pub fn spoils_conversation(&self) -> bool {
        matches!(self, Self::InvalidRequest | Self::Refused | Self::UnreadableCalls)
    }

    /// What follows from this end.
    #[must_use]
    pub fn class(&self) -> EndClass {
        match self {
            Self::Completed | Self::HookStopped | Self::Interrupted | Self::Stopped => EndClass::Fine,
            Self::RateLimited { .. } | Self::Overloaded | Self::ServerError => EndClass::Wait,
            Self::AuthenticationFailed => EndClass::Stop(Hint::LogIn),
            Self::BillingFailed | Self::AccountOnHold => EndClass::Stop(Hint::Pay),
            Self::ModelNotFound => EndClass::Stop(Hint::ChooseModel),
            Self::AutoModeBlocked => EndClass::Stop(Hint::Permit),
            Self::PersonLeft => EndClass::Left,
            Self::ContextFull | Self::TurnLimit | Self::BudgetSpent | Self::TimeUp => EndClass::TooLate,
            Self::InvalidRequest
            | Self::OutputLimit
            | Self::Refused
            | Self::UnreadableCalls
            | Self::Silent
            | Self::UnansweredCallback
            | Self::NeverStarted(_)
            | Self::Crashed { .. }
            | Self::NothingDone
            | Self::Killed { .. }
            | Self::EngineLost
            | Self::Protocol(_) => EndClass::Retry,
        }
    }
}

impl fmt::Display for EndCause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Completed => f.write_str("the turn ended"),
            Self::HookStopped => f.write_str("a hook ended the turn"),
            Self::Interrupted => f.write_str("the turn was interrupted"),
            Self::Stopped => f.write_str("stopped by ekiden"),
            Self::RateLimited { kind, .. } => write!(f, "{kind} is reached"),
            Self::Overloaded => f.write_str("the service is overloaded"),
            Self::AuthenticationFailed => f.write_str("the login is not accepted"),
            Self::BillingFailed => f.write_str("the account cannot pay"),
            Self::AccountOnHold => f.write_str("the account is on hold, or has to be verified"),
            Self::ModelNotFound => f.write_str("the model is not available"),
            Self::InvalidRequest => f.write_str("the service does not accept the request"),
            Self::ServerError => f.write_str("the service failed"),
            Self::OutputLimit => f.write_str("the answer was cut off at its longest"),
            Self::Refused => f.write_str("the model refused"),
            Self::UnreadableCalls => f.write_str("the model's calls could not be read"),
            Self::ContextFull => f.write_str("the context is full: the handoff came too late"),
            Self::TurnLimit => f.write_str("the limit of turns is reached"),
            Self::BudgetSpent => f.write_str("the budget is spent"),
            Self::TimeUp => f.write_str("the session's time is up"),
            Self::AutoModeBlocked => f.write_str("the agent cannot check its actions here"),
            Self::Silent => f.write_str("the agent fell silent"),
            Self::UnansweredCallback => f.write_str("a callback was not answered in time"),
            Self::NeverStarted(text) if text.is_empty() => f.write_str("the agent did not start"),
            Self::NeverStarted(text) => write!(f, "the agent did not start: {text}"),
            Self::Crashed { exit } => write!(f, "the agent crashed (exit code {exit})"),
            Self::PersonLeft => f.write_str("the agent's interface was left"),
            Self::NothingDone => f.write_str("the agent ended at once and had done nothing"),
            Self::Killed { signal } => write!(f, "the agent was killed (signal {signal})"),
            Self::EngineLost => f.write_str("ekiden itself was killed"),
            Self::Protocol(text) => write!(f, "the agent ended out of order: {text}"),
        }
    }
}

impl fmt::Display for LimitKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::FiveHour => "the 5-hour limit",
            Self::SevenDay => "the weekly limit",
            Self::SevenDayModel => "the model's weekly limit",
            Self::Overage => "the limit of extra use",
            Self::Unknown => "a rate limit",
        })
    }
}

impl fmt::Display for Hint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::LogIn => "log in with the agent, or set its key",
            Self::Pay => "settle the account, or use another",
            Self::ChooseModel => "name a model that the account may use",
            Self::Permit => "allow the actions in the agent's settings, or choose another permission mode",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limited(resets_at: Option<Timestamp>) -> EndCause {
        EndCause::RateLimited { resets_at, kind: LimitKind::SevenDay }
    }

    // shows: REL-15
    #[test]
    fn limits_and_full_windows_are_not_crashes() {
        assert_eq!(limited(None).class(), EndClass::Wait);
        assert_eq!(EndCause::Overloaded.class(), EndClass::Wait);
        assert_eq!(EndCause::ServerError.class(), EndClass::Wait);
        assert_eq!(EndCause::ContextFull.class(), EndClass::TooLate);
        assert_eq!(EndCause::Stopped.class(), EndClass::Fine);
        assert_eq!(EndCause::Crashed { exit: 1 }.class(), EndClass::Retry);
    }

    #[test]
    fn what_only_a_person_can_mend_stops_the_run() {
        assert_eq!(EndCause::AuthenticationFailed.class(), EndClass::Stop(Hint::LogIn));
        assert_eq!(EndCause::AutoModeBlocked.class(), EndClass::Stop(Hint::Permit));
    }

    #[test]
    fn a_cause_reads_as_a_phrase_and_survives_the_log() {
        let cause = limited(Some(Timestamp(1_795_332_926_000)));
        assert_eq!(cause.to_string(), "the weekly limit is reached");
        let text = serde_json::to_string(&cause).unwrap();
        assert_eq!(text, r#"{"rate_limited":{"resets_at":1795332926000,"kind":"seven_day"}}"#);
        assert_eq!(serde_json::from_str::<EndCause>(&text).unwrap(), cause);
        assert_eq!(serde_json::to_string(&EndCause::Completed).unwrap(), r#""completed""#);
    }
}
