//! Exit codes: the one place that says which end of the program has which number.
//!
//! The table in `--help` and in `docs/exit-codes.md` is made from [`Exit::TABLE`]. Codes from 65 up
//! are those of `sysexits.h`, so that a script that knows them knows ours.

use std::fmt::Write as _;

use ekiden_core::ends::{EndClass, Hint};
use ekiden_core::event::StopRequest;
use ekiden_core::outcome::Outcome;

/// How the program ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    /// What was asked for is done; a run is finished, and verified if it has a verification.
    Done,
    /// The run ended without finishing, or could not begin.
    Unfinished,
    /// The command line cannot be understood.
    Usage,
    /// The run stopped early; `ekiden resume` carries on.
    StoppedEarly,
    /// The run needs a person; `ekiden resume` carries on after that.
    Blocked,
    /// What was given as input says nothing usable.
    InvalidInput,
    /// What was given as input is not there or cannot be read.
    MissingInput,
    /// The agent or its service cannot be reached or used.
    Unreachable,
    /// A fault in ekiden itself.
    Bug,
    /// State or output cannot be read or written.
    State,
    /// Another run holds this work dir.
    Held,
    /// The agent is not permitted to do what it needs.
    NotPermitted,
    /// A setting is wrong.
    Settings,
    /// A signal ended it.
    Signal(i32),
}

impl Exit {
    /// Every row of the table. A signal stands for all of its kind.
    pub const TABLE: [Self; 14] = [
        Self::Done,
        Self::Unfinished,
        Self::Usage,
        Self::StoppedEarly,
        Self::Blocked,
        Self::InvalidInput,
        Self::MissingInput,
        Self::Unreachable,
        Self::Bug,
        Self::State,
        Self::Held,
        Self::NotPermitted,
        Self::Settings,
        Self::Signal(0),
    ];

    /// The code that the program exits with.
    #[must_use]
    pub fn code(self) -> u8 {
        match self {
            Self::Done => 0,
            Self::Unfinished => 1,
            Self::Usage => 2,
            Self::StoppedEarly => 3,
            Self::Blocked => 4,
            Self::InvalidInput => 65,
            Self::MissingInput => 66,
            Self::Unreachable => 69,
            Self::Bug => 70,
            Self::State => 74,
            Self::Held => 75,
            Self::NotPermitted => 77,
            Self::Settings => 78,
            Self::Signal(signal) => u8::try_from(signal).unwrap_or(0).saturating_add(128),
        }
    }

    /// What the code means, for the table.
    #[must_use]
    pub fn meaning(self) -> &'static str {
        match self {
            Self::Done => "done; a run is finished, and verified if it has a verification",
            Self::Unfinished => "ended without finishing, or an unfinished run of another task is in the way",
            Self::Usage => "wrong command line",
            Self::StoppedEarly => {
                "stopped early, or an unfinished run of the same task is here: `ekiden resume`"
            }
            Self::Blocked => "blocked: a person is needed, then `ekiden resume`",
            Self::InvalidInput => "the task is empty or not text, or a plan has faults",
            Self::MissingInput => "the task, the work dir or the run is not there",
            Self::Unreachable => "the agent is missing, not logged in, or its service refuses it",
            Self::Bug => "a fault in ekiden",
            Self::State => "state or output cannot be read or written",
            Self::Held => "another run works in this directory",
            Self::NotPermitted => "the agent may not do what it needs",
            Self::Settings => "a setting is wrong, or the context window is full before the work begins",
            Self::Signal(_) => "ended by signal n: 130 after ctrl-c twice, 143 after SIGTERM",
        }
    }

    /// The exit of a run that ended like this.
    #[must_use]
    pub fn of(outcome: &Outcome) -> Self {
        match outcome {
            Outcome::Complete { .. } => Self::Done,
            Outcome::Blocked { .. } => Self::Blocked,
            // Nothing went wrong: each of them waits for a person.
            Outcome::StagesFailed { failed, .. }
                if failed.iter().all(|one| matches!(*one.outcome, Outcome::Blocked { .. })) =>
            {
                Self::Blocked
            }
            Outcome::SessionLimit
            | Outcome::LimitTooFar { .. }
            | Outcome::Stuck { .. }
            | Outcome::Stalled { .. }
            | Outcome::RateLimited { .. }
            | Outcome::BudgetSpent { .. } => Self::StoppedEarly,
            Outcome::WindowTooFull { .. } => Self::Settings,
            Outcome::Stopped { request: StopRequest::Gently } => Self::StoppedEarly,
            Outcome::Stopped { request: StopRequest::Now { signal } } => Self::Signal(*signal),
            Outcome::TooManyCrashes { .. }
            | Outcome::NoGround { .. }
            | Outcome::NotMerged { .. }
            | Outcome::Unmerged { .. }
            | Outcome::NotDone { .. }
            | Outcome::StagesFailed { .. } => Self::Unfinished,
            Outcome::Denied { .. } => Self::NotPermitted,
            Outcome::AgentFailed { cause } => match cause.class() {
                EndClass::Stop(Hint::Permit) => Self::NotPermitted,
                EndClass::Stop(Hint::LogIn | Hint::Pay | Hint::ChooseModel)
                | EndClass::Fine
                | EndClass::Wait
                | EndClass::Retry
                | EndClass::Left
                | EndClass::TooLate => Self::Unreachable,
            },
        }
    }

    /// The column of codes: a number, or `128+n`.
    #[must_use]
    pub fn label(self) -> String {
        if self == Self::Signal(0) { "128+n".to_owned() } else { self.code().to_string() }
    }
}

/// The table for `--help`.
#[must_use]
pub fn help_table() -> String {
    Exit::TABLE.iter().fold("Exit codes:".to_owned(), |mut text, exit| {
        // Writing into a string cannot fail.
        let _ = write!(text, "\n  {:<5}  {}", exit.label(), exit.meaning());
        text
    })
}

#[cfg(test)]
mod tests {
    use ekiden_core::budget::{Budget, Spend};
    use ekiden_core::ends::EndCause;
    use ekiden_core::time::Timestamp;

    use super::*;

    // shows: RUN-06
    #[test]
    fn every_outcome_has_its_code() {
        let code = |outcome: Outcome| Exit::of(&outcome).code();
        let stopped = |request| code(Outcome::Stopped { request });
        let failed = |cause| code(Outcome::AgentFailed { cause });
        assert_eq!(code(Outcome::Complete { verified: true }), 0);
        assert_eq!(code(Outcome::Complete { verified: false }), 0);
        assert_eq!(code(Outcome::TooManyCrashes { cause: EndCause::Silent }), 1);
        assert_eq!(code(Outcome::Denied { rules: vec!["Edit".to_owned()] }), 77);
        assert_eq!(code(Outcome::SessionLimit), 3);
        assert_eq!(code(Outcome::LimitTooFar { until: Timestamp(0) }), 3);
        assert_eq!(code(Outcome::Stuck { repeats: 3, percent: 91 }), 3);
        assert_eq!(code(Outcome::Stalled { sessions: 3 }), 3);
        assert_eq!(code(Outcome::RateLimited { until: Timestamp(0) }), 3);
        let (spent, budget) = (Spend::default(), Budget::default());
        assert_eq!(code(Outcome::BudgetSpent { spent, budget }), 3);
        assert_eq!(code(Outcome::WindowTooFull { usage_tokens: 9, filled_by: Vec::new() }), 78);
        assert_eq!(stopped(StopRequest::Gently), 3);
        assert_eq!(stopped(StopRequest::Now { signal: 2 }), 130);
        assert_eq!(stopped(StopRequest::Now { signal: 15 }), 143);
        assert_eq!(code(Outcome::Blocked { question: "Which?".to_owned() }), 4);
        assert_eq!(failed(EndCause::AuthenticationFailed), 69);
        assert_eq!(failed(EndCause::BillingFailed), 69);
        assert_eq!(failed(EndCause::ModelNotFound), 69);
        assert_eq!(failed(EndCause::AutoModeBlocked), 77);
    }

    // shows: RUN-06
    #[test]
    fn codes_are_distinct_and_rise() {
        let codes: Vec<u8> = Exit::TABLE.iter().map(|exit| exit.code()).collect();
        assert!(codes.is_sorted_by(|one, two| one < two), "{codes:?}");
    }
}
