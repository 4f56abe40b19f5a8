//! A session of planning or a debrief that did not finish: its cause, its exit code, what to do.

use ekiden_core::ends::{EndCause, EndClass, Hint};
use jiff::tz::TimeZone;

use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::line::one_line;
use crate::output::phrase;

/// The failure of such a session that ended like this.
pub fn stopped(cause: &EndCause) -> Failure {
    if matches!(cause, EndCause::ContextFull) {
        return Failure::new(exit(cause), "the session stopped: the context is full").hint(
            "name a model with a larger window with `--planning-model`, or plan a part of it",
        );
    }
    let text = format!("the session stopped: {}", one_line(&cause.to_string()));
    let failure = Failure::new(exit(cause), text);
    match cause.class() {
        // A run could be resumed, but there is none.
        EndClass::Stop(Hint::ChooseModel) => {
            failure.hint("name another model with `--planning-model` or `--model`")
        }
        EndClass::Stop(Hint::Change) => failure.hint(
            "correct the agent's command or `--permission-mode`, then run the same command again",
        ),
        EndClass::Stop(hint) => failure.hint(hint.to_string()),
        EndClass::Wait => match cause.resets_at() {
            Some(at) => {
                let at = phrase::day_and_time(at, &TimeZone::system());
                failure.hint(format!("run the same command again; the limit is lifted {at}"))
            }
            None => failure.hint("run the same command again, later"),
        },
        EndClass::TooLate => failure.hint(
            "`--session-budget`, `--session-tokens`, `--session-timeout` and `--max-turns` say what it may use",
        ),
        EndClass::Fine | EndClass::Retry | EndClass::Left => failure.hint("run the same command again"),
    }
}

/// The exit code that a run would have.
fn exit(cause: &EndCause) -> Exit {
    match cause.class() {
        EndClass::Stop(Hint::Permit) => Exit::NotPermitted,
        EndClass::Stop(Hint::Change) => Exit::Settings,
        EndClass::Stop(Hint::LogIn | Hint::Pay | Hint::ChooseModel) => Exit::Unreachable,
        EndClass::Wait if !cause.is_limit() => Exit::Unreachable,
        EndClass::Wait | EndClass::TooLate => Exit::StoppedEarly,
        EndClass::Retry if matches!(cause, EndCause::NeverStarted(_)) => Exit::Unreachable,
        EndClass::Fine | EndClass::Retry | EndClass::Left => Exit::Unfinished,
    }
}

#[cfg(test)]
mod tests {
    use ekiden_core::ends::LimitKind;
    use ekiden_core::time::Timestamp;

    use super::*;

    // shows: PLN-01
    #[test]
    fn every_end_has_its_cause_and_its_code() {
        let limit = EndCause::RateLimited {
            resets_at: Some(Timestamp(0)),
            kind: LimitKind::FiveHour,
        };
        let code = |cause: &EndCause| stopped(cause).exit().code();
        assert_eq!(code(&limit), 3);
        assert_eq!(code(&EndCause::Overloaded), 69);
        assert_eq!(code(&EndCause::BudgetSpent), 3);
        assert_eq!(code(&EndCause::TimeUp), 3);
        let full = stopped(&EndCause::ContextFull);
        assert_eq!(full.exit().code(), 3);
        assert_eq!(full.error(), "the session stopped: the context is full");
        assert_eq!(code(&EndCause::AuthenticationFailed), 69);
        assert_eq!(code(&EndCause::NeverStarted("no such file".to_owned())), 69);
        assert_eq!(code(&EndCause::AutoModeBlocked), 77);
        assert_eq!(code(&EndCause::NotTaken("--x".to_owned())), 78);
        assert_eq!(code(&EndCause::Crashed { exit: 1 }), 1);
        let failure = stopped(&EndCause::AuthenticationFailed);
        assert_eq!(
            failure.error(),
            "the session stopped: the login is not accepted"
        );
        assert_eq!(failure.hints(), ["log in with the agent, or set its key"]);
        for cause in [
            EndCause::ModelNotFound,
            EndCause::NotTaken("--x".to_owned()),
        ] {
            let failure = stopped(&cause);
            let of_runs = |hint: &String| hint.contains("`ekiden r");
            assert!(!failure.hints().iter().any(of_runs), "{failure}");
        }
    }
}
