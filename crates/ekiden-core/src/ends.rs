//! How an attempt can end: every way has a name, and the name's class says what follows.
//!
//! How an end looks in an agent's format is a table in the crate that knows the format. This module has only
//! what the relay decides on. "Unknown" has its own names ([`EndCause::Protocol`], [`EndCause::Crashed`]), so
//! that nothing ends as a silent success.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::limits;
use crate::time::{Millis, Timestamp};

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EndCause {
    /// The agent ended its last turn by itself. Its files say whether it did its work.
    Completed,
    /// A hook ended the turn or refused the prompt.
    HookStopped,
    Interrupted,
    /// We ended the process on purpose.
    Stopped,
    /// The account's limit is reached.
    RateLimited {
        /// When the limit is lifted, if the service said so.
        resets_at: Option<Timestamp>,
        kind: LimitKind,
    },
    /// No process was started: another run of this account hit a limit that is not lifted yet.
    LimitKnown {
        resets_at: Timestamp,
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
    /// The model does not exist or is not available to this account.
    ModelNotFound,
    /// The service does not accept what the agent sent.
    InvalidRequest,
    /// The service failed or could not be reached.
    ServerError,
    /// The model was cut off at the longest answer it may give.
    OutputLimit,
    Refused,
    /// The model's calls repeatedly could not be read.
    UnreadableCalls,
    /// The context window is full: the handoff came too late.
    ContextFull,
    /// The agent's own limit of turns is reached.
    TurnLimit,
    /// The session's budget, or the agent's own, is spent.
    BudgetSpent,
    TimeUp,
    /// The agent's safety check cannot judge actions here, so it gave up.
    AutoModeBlocked,
    /// Nothing came from the agent for too long, so we ended it.
    Silent,
    /// A callback of the agent was not answered in time; in that case the agent does nothing and reports
    /// success.
    UnansweredCallback,
    /// The agent ended before its first turn; with its message.
    NeverStarted(String),
    /// The agent does not accept its start options; with its message.
    NotTaken(String),
    /// The agent exited with a failure and did not say why.
    Crashed {
        exit: i32,
    },
    /// The person at the agent's own interface left it.
    PersonLeft,
    /// The agent ended at once without an error, and had done nothing.
    NothingDone,
    /// Somebody else ended the process.
    Killed {
        signal: i32,
    },
    /// ekiden itself died, and the keeper ended the agent.
    EngineLost,
    /// The agent ended in a way that its format does not define; with what was seen.
    Protocol(String),
}

/// Which limit of an account is reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LimitKind {
    FiveHour,
    SevenDay,
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
    /// A person ended the session. Without a handoff the run stops, and can be resumed.
    Left,
    /// The session used up what it had (window, turns, budget, time). ekiden can no longer ask it for a
    /// handoff, but it did not crash.
    TooLate,
}

/// What a person can do about an end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Hint {
    /// Log in, or set a key.
    LogIn,
    /// Pay, or use another account.
    Pay,
    ChooseModel,
    /// Allow the actions, or choose another permission mode.
    Permit,
    /// Change the agent's command or mode.
    Change,
}

impl EndCause {
    /// The account's limit is reached.
    pub fn is_limit(&self) -> bool {
        matches!(self, Self::RateLimited { .. } | Self::LimitKnown { .. })
    }

    /// When the limit that ended the attempt is lifted, if the service said so.
    pub fn resets_at(&self) -> Option<Timestamp> {
        if let Self::LimitKnown { resets_at, .. } = self {
            return Some(*resets_at);
        }
        let Self::RateLimited { resets_at, .. } = self else {
            return None;
        };
        *resets_at
    }

    /// How long to wait before asking the service again; `waited` is the time waited in vain so far.
    ///
    /// A reset that is past by our clock still means a wait: otherwise a service whose clock is behind would
    /// be asked again and again without a pause. There, and after an outage, the service is asked sooner at first,
    /// then less and less often.
    pub fn wait(&self, at: Timestamp, waited: Millis) -> Millis {
        match self.resets_at() {
            Some(reset) if reset <= at => waited.clamp(limits::RESET_BUFFER, limits::RESET_UNKNOWN),
            Some(reset) => Millis(reset.since(at).0.saturating_add(limits::RESET_BUFFER.0)),
            None if *self == Self::ServerError => {
                waited.clamp(limits::CRASH_BACKOFF, limits::RESET_UNKNOWN)
            }
            None => limits::RESET_UNKNOWN,
        }
    }

    /// The service or the model rejects the conversation itself. The same input would end in the same way, so
    /// the next attempt begins a new conversation.
    pub fn spoils_conversation(&self) -> bool {
        matches!(
            self,
            Self::InvalidRequest | Self::Refused | Self::UnreadableCalls
        )
    }

    pub fn class(&self) -> EndClass {
        self.row().0
    }

    /// What follows from this end, and its text; `Display` adds details of single ends.
    fn row(&self) -> (EndClass, &'static str) {
        use EndClass::{Fine, Left, Retry, Stop, TooLate, Wait};
        match self {
            Self::Completed => (Fine, "the turn ended"),
            Self::HookStopped => (Fine, "a hook ended the turn"),
            Self::Interrupted => (Fine, "the turn was interrupted"),
            Self::Stopped => (Fine, "stopped by ekiden"),
            Self::RateLimited { .. } => (Wait, "is reached"),
            Self::LimitKnown { .. } => (Wait, "is reached (another run met it)"),
            Self::Overloaded => (Wait, "the service is overloaded"),
            Self::ServerError => (Wait, "the service failed"),
            Self::AuthenticationFailed => (Stop(Hint::LogIn), "the login is not accepted"),
            Self::BillingFailed => (Stop(Hint::Pay), "the account cannot pay"),
            Self::AccountOnHold => (
                Stop(Hint::Pay),
                "the account is on hold, or has to be verified",
            ),
            Self::ModelNotFound => (Stop(Hint::ChooseModel), "the model is not available"),
            Self::AutoModeBlocked => (
                Stop(Hint::Permit),
                "the agent cannot check its actions here",
            ),
            Self::NotTaken(_) => (
                Stop(Hint::Change),
                "the agent rejects the arguments that it was started with",
            ),
            Self::PersonLeft => (Left, "the agent's interface was left"),
            Self::ContextFull => (TooLate, "the context is full: the handoff came too late"),
            Self::TurnLimit => (TooLate, "the limit of turns is reached"),
            Self::BudgetSpent => (TooLate, "the session's budget is spent"),
            Self::TimeUp => (TooLate, "the session's time is up"),
            Self::InvalidRequest => (Retry, "the service does not accept the request"),
            Self::OutputLimit => (Retry, "the answer was cut off at its maximum length"),
            Self::Refused => (Retry, "the model refused"),
            Self::UnreadableCalls => (Retry, "the model's calls could not be read"),
            Self::Silent => (Retry, "the agent fell silent"),
            Self::UnansweredCallback => (Retry, "a callback was not answered in time"),
            Self::NeverStarted(_) => (Retry, "the agent did not start"),
            Self::Crashed { .. } => (Retry, "the agent crashed"),
            Self::NothingDone => (Retry, "the agent ended at once and had done nothing"),
            Self::Killed { .. } => (Retry, "the agent was killed"),
            Self::EngineLost => (Retry, "ekiden itself was killed"),
            Self::Protocol(_) => (Retry, "the agent ended unexpectedly"),
        }
    }

    /// The agent's own message about the end. It comes last in the text of the cause.
    pub fn said(&self) -> Option<&str> {
        if let Self::NeverStarted(said) | Self::NotTaken(said) | Self::Protocol(said) = self {
            Some(said.as_str()).filter(|said| !said.is_empty())
        } else {
            None
        }
    }
}

impl fmt::Display for EndCause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Self::RateLimited { kind, .. } | Self::LimitKnown { kind, .. } = self {
            write!(f, "{kind} ")?;
        }
        f.write_str(self.row().1)?;
        if let Self::Crashed { exit } = self {
            write!(f, " (exit code {exit})")?;
        }
        if let Self::Killed { signal } = self {
            write!(f, " (signal {signal})")?;
        }
        match self.said() {
            Some(said) => write!(f, ": {said}"),
            None => Ok(()),
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
            Self::ChooseModel => {
                "a run keeps its model; `ekiden run TASK --new --model NAME` begins one with another"
            }
            Self::Permit => {
                "allow the actions in the agent's settings, or choose another permission mode"
            }
            Self::Change => {
                "`ekiden resume --permission-mode MODE` changes the mode; another agent command needs a new run"
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limited(resets_at: Option<Timestamp>) -> EndCause {
        EndCause::RateLimited {
            resets_at,
            kind: LimitKind::SevenDay,
        }
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
        assert_eq!(
            EndCause::AuthenticationFailed.class(),
            EndClass::Stop(Hint::LogIn)
        );
        assert_eq!(
            EndCause::AutoModeBlocked.class(),
            EndClass::Stop(Hint::Permit)
        );
        assert_eq!(
            EndCause::NotTaken(String::new()).class(),
            EndClass::Stop(Hint::Change)
        );
    }

    #[test]
    fn a_cause_reads_as_a_phrase_and_survives_the_log() {
        let cause = limited(Some(Timestamp(1_795_332_926_000)));
        assert_eq!(cause.to_string(), "the weekly limit is reached");
        let text = serde_json::to_string(&cause).unwrap();
        assert_eq!(
            text,
            r#"{"rate_limited":{"resets_at":1795332926000,"kind":"seven_day"}}"#
        );
        assert_eq!(serde_json::from_str::<EndCause>(&text).unwrap(), cause);
        assert_eq!(
            serde_json::to_string(&EndCause::Completed).unwrap(),
            r#""completed""#
        );
    }
}
