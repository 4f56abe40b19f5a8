//! Exit codes: the one place that maps each way the program ends to its number.
//!
//! The table in `--help` and in `docs/exit-codes.md` is generated from [`TABLE`]. Codes from 65 up are
//! those of `sysexits.h`, so a script that knows them knows ours.

use ekiden_core::ends::{EndClass, Hint};
use ekiden_core::outcome::Outcome;
use ekiden_core::steering::StopRequest;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    Done,
    Unfinished,
    Usage,
    StoppedEarly,
    Blocked,
    Undelivered,
    InvalidInput,
    MissingInput,
    Unreachable,
    Bug,
    State,
    Held,
    NotPermitted,
    Settings,
    Signal(i32),
}

/// Every exit with its code and meaning. One signal represents all of its kind.
#[rustfmt::skip]
pub const TABLE: [(Exit, u8, &str); 15] = [
    (Exit::Done, 0, "done; a run is finished, and verified if it has a verification"),
    (Exit::Unfinished, 1, "ended without finishing, or an unfinished run of another task is in the way"),
    (Exit::Usage, 2, "wrong command line"),
    (Exit::StoppedEarly, 3, "stopped early, or an unfinished run of the same task is here: `ekiden resume`"),
    (Exit::Blocked, 4, "blocked: needs your input: `ekiden answer`"),
    (Exit::Undelivered, 5, "done, but the result is not delivered: the last line is the command that brings it"),
    (Exit::InvalidInput, 65, "the task is empty or not text, or a plan is invalid"),
    (Exit::MissingInput, 66, "the task, the issue, the work dir or the run does not exist"),
    (Exit::Unreachable, 69, "the agent is missing, not logged in, or its service refuses it; a tracker, a fleet or the machine of the run does not answer; or `ekiden dash` cannot have its port"),
    (Exit::Bug, 70, "a bug in ekiden"),
    (Exit::State, 74, "state or output cannot be read or written"),
    (Exit::Held, 75, "another run works in this directory"),
    (Exit::NotPermitted, 77, "not permitted: the agent lacks a permission that it needs, a tracker's key is missing or lacks one, a file may not be changed, or a session of ekiden asks for what only a person may do"),
    (Exit::Settings, 78, "a setting is wrong, a decision of yours is missing (permissions, approval, trust), the project is not ready, or the context window is full before the work begins"),
    (Exit::Signal(0), 128, "ended by signal n: 130 after ctrl-c twice or `ekiden stop --now`, 143 after SIGTERM"),
];

impl Exit {
    /// The code that the program exits with.
    pub fn code(self) -> u8 {
        let (kind, signal) = if let Self::Signal(signal) = self {
            (Self::Signal(0), u8::try_from(signal).unwrap_or(0))
        } else {
            (self, 0)
        };
        let row = TABLE.iter().find(|(exit, ..)| *exit == kind);
        row.map_or(0, |(_, code, _)| code.saturating_add(signal))
    }

    pub fn of_code(code: u8) -> Self {
        let known = TABLE.iter().find(|(_, known, _)| *known == code);
        known.map_or(Self::Signal(i32::from(code) - 128), |(exit, ..)| *exit)
    }

    /// The exit of a run that ended this way.
    pub fn of(outcome: &Outcome) -> Self {
        match outcome {
            Outcome::Complete { .. } => Self::Done,
            Outcome::Undelivered { .. } => Self::Undelivered,
            Outcome::Blocked { .. } => Self::Blocked,
            Outcome::StagesFailed { .. } if outcome.asks() => Self::Blocked,
            Outcome::SessionLimit
            | Outcome::LimitTooFar { .. }
            | Outcome::Stuck { .. }
            | Outcome::Stalled { .. }
            | Outcome::RateLimited { .. }
            | Outcome::BudgetSpent { .. }
            // The terminal is gone, and with it anybody who would see the code of a signal.
            | Outcome::Stopped {
                request: StopRequest::HANGUP,
            } => Self::StoppedEarly,
            Outcome::WindowTooFull { .. } | Outcome::NoCheck { .. } => Self::Settings,
            Outcome::Stopped {
                request: StopRequest::Gently,
            } => Self::StoppedEarly,
            Outcome::Stopped {
                request: StopRequest::Now { signal },
            } => Self::Signal(*signal),
            Outcome::TooManyCrashes { .. }
            | Outcome::NoWorktree { .. }
            | Outcome::NotMerged { .. }
            | Outcome::Unmerged { .. }
            | Outcome::NotDone { .. }
            | Outcome::StagesFailed { .. } => Self::Unfinished,
            Outcome::Denied { .. } => Self::NotPermitted,
            Outcome::AgentFailed { cause } => match cause.class() {
                EndClass::Stop(Hint::Permit) => Self::NotPermitted,
                EndClass::Stop(Hint::Change) => Self::Settings,
                EndClass::Stop(Hint::LogIn | Hint::Pay | Hint::ChooseModel)
                | EndClass::Fine
                | EndClass::Wait
                | EndClass::Retry
                | EndClass::Left
                | EndClass::TooLate => Self::Unreachable,
            },
        }
    }
}

/// The table's rows for people: the code, or `128+n`, and what it means.
pub fn rows() -> impl Iterator<Item = (String, &'static str)> {
    TABLE.iter().map(|(exit, code, meaning)| {
        let of_signal = if *exit == Exit::Signal(0) { "+n" } else { "" };
        (format!("{code}{of_signal}"), *meaning)
    })
}

pub fn help_table() -> String {
    let rows = rows().map(|(code, meaning)| format!("\n  {code:<5}  {meaning}"));
    std::iter::once("Exit codes:".to_owned())
        .chain(rows)
        .collect()
}

#[cfg(test)]
mod tests {
    use ekiden_core::budget::{Budget, Spend};
    use ekiden_core::ends::EndCause;
    use ekiden_core::ids::StageId;
    use ekiden_core::outcome::StageFailed;
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
        assert_eq!(
            code(Outcome::TooManyCrashes {
                cause: EndCause::Silent
            }),
            1
        );
        assert_eq!(
            code(Outcome::Denied {
                rules: vec!["Edit".to_owned()]
            }),
            77
        );
        assert_eq!(code(Outcome::SessionLimit), 3);
        assert_eq!(
            code(Outcome::LimitTooFar {
                until: Timestamp(0)
            }),
            3
        );
        assert_eq!(
            code(Outcome::Stuck {
                repeats: 3,
                percent: Some(91)
            }),
            3
        );
        assert_eq!(code(Outcome::Stalled { sessions: 3 }), 3);
        assert_eq!(
            code(Outcome::RateLimited {
                until: Timestamp(0)
            }),
            3
        );
        let (spent, budget) = (Spend::default(), Budget::default());
        assert_eq!(
            code(Outcome::BudgetSpent {
                spent,
                budget,
                agents: Vec::new()
            }),
            3
        );
        assert_eq!(
            code(Outcome::WindowTooFull {
                usage_tokens: 9,
                filled_by: Vec::new()
            }),
            78
        );
        assert_eq!(stopped(StopRequest::Gently), 3);
        assert_eq!(stopped(StopRequest::Now { signal: 2 }), 130);
        assert_eq!(stopped(StopRequest::Now { signal: 15 }), 143);
        assert_eq!(
            code(Outcome::Blocked {
                question: "Which?".to_owned()
            }),
            4
        );
        assert_eq!(failed(EndCause::AuthenticationFailed), 69);
        assert_eq!(failed(EndCause::BillingFailed), 69);
        assert_eq!(failed(EndCause::ModelNotFound), 69);
        assert_eq!(failed(EndCause::AutoModeBlocked), 77);
    }

    // shows: RUN-06
    #[test]
    fn a_plan_that_only_waits_for_answers_is_blocked() {
        let stage = |id: &str, outcome| StageFailed {
            stage: StageId::try_from(id.to_owned()).unwrap(),
            outcome: Box::new(outcome),
        };
        let asks = || Outcome::Blocked {
            question: "Which?".to_owned(),
        };
        let code = |failed| Exit::of(&Outcome::StagesFailed { failed, blocked: 1 }).code();
        assert_eq!(code(vec![stage("a", asks()), stage("b", asks())]), 4);
        let mixed = vec![stage("a", asks()), stage("b", Outcome::SessionLimit)];
        assert_eq!(code(mixed), 1);
    }

    // shows: RUN-06
    #[test]
    fn codes_are_distinct_and_rise() {
        let codes: Vec<u8> = TABLE.iter().map(|(exit, ..)| exit.code()).collect();
        assert!(codes.is_sorted_by(|one, two| one < two), "{codes:?}");
    }
}
