//! What a person who is elsewhere is told: short, plain, and in ekiden's own words.
//!
//! No word of an agent, a tool or a service stands in a notice, unless the user wants questions there. Desktops read markup in them, programs
//! that show them read options, and lock screens show them to everybody. What an agent asks is told
//! where ekiden runs, and kept in the log.

use crate::ids::SessionNumber;
use crate::outcome::{Outcome, WaitCause};
use crate::text;
use crate::time::Millis;

/// Characters of a question that a notice holds.
const QUESTION_CHARS_MAX: usize = 200;

/// The notice of a run's end. Nothing if somebody stopped it: they know. `with_question` shows what is asked.
pub(crate) fn of_end(outcome: &Outcome, sessions: u32, with_question: bool) -> Option<String> {
    let plural = if sessions == 1 { "" } else { "s" };
    if let Outcome::Complete { verified } | Outcome::Undelivered { verified, .. } = outcome {
        let how = if *verified {
            "verified complete"
        } else {
            "complete (not verified)"
        };
        let rest = match outcome.is_delivered() {
            true => "",
            false => ", not delivered",
        };
        return Some(format!("{how} after {sessions} session{plural}{rest}"));
    }
    if let Outcome::Blocked { question } = outcome
        && with_question
    {
        let words: Vec<&str> = question.split_whitespace().collect();
        let question = text::clean(&words.join(" ")).text;
        let question = text::short(&question, QUESTION_CHARS_MAX);
        return Some(format!("blocked: {question}"));
    }
    let (failed, why) = outcome.brief();
    let is_asked = matches!(outcome, Outcome::Stopped { .. });
    let how = match failed {
        true => "failed",
        false if matches!(outcome, Outcome::Blocked { .. }) => "blocked",
        false => "stopped",
    };
    (!is_asked).then(|| format!("{how}: {why}"))
}

/// The notice of a wait that a person may want to know of.
pub(crate) fn of_wait(cause: WaitCause, length: Millis, session: SessionNumber) -> Option<String> {
    match cause {
        WaitCause::UsageLimit => Some(format!(
            "usage limit reached: session {session} continues in {length}"
        )),
        WaitCause::Failure
        | WaitCause::Pause
        | WaitCause::QuietHours
        | WaitCause::Guided
        | WaitCause::Budget => None,
    }
}
