//! What a person who is elsewhere is told: short, plain, and in ekiden's own words.
//!
//! No word of an agent, a tool or a service stands in a notice. Desktops read markup in them, programs
//! that show them read options, and lock screens show them to everybody. What an agent asks is told
//! where ekiden runs, and kept in the log.

use crate::ids::SessionNumber;
use crate::outcome::Outcome;
use crate::relay::WaitCause;
use crate::time::Millis;

/// The notice of a run's end. Nothing if somebody stopped it: they know.
#[must_use]
pub(crate) fn of_end(outcome: &Outcome, sessions: u32) -> Option<String> {
    let plural = if sessions == 1 { "" } else { "s" };
    Some(match outcome {
        Outcome::Complete { verified: true } => format!("verified complete after {sessions} session{plural}"),
        Outcome::Complete { verified: false } => {
            format!("complete, as the agent says, after {sessions} session{plural}")
        }
        Outcome::Blocked { .. } => "blocked: a person is needed".to_owned(),
        Outcome::SessionLimit => format!("stopped: all sessions are used, {sessions} in all"),
        Outcome::LimitTooFar { .. } => "stopped: the usage limit resets too late to wait for it".to_owned(),
        Outcome::RateLimited { .. } => "stopped: a usage limit is reached".to_owned(),
        Outcome::BudgetSpent { .. } => "stopped: the budget is spent".to_owned(),
        Outcome::WindowTooFull { .. } => "failed: the context is full before the work begins".to_owned(),
        Outcome::AgentFailed { .. } => "failed: the agent cannot work".to_owned(),
        Outcome::Denied { .. } => "failed: the agent may not do what it needs".to_owned(),
        Outcome::Stuck { .. } => "stopped: the handoffs repeat and nothing changes".to_owned(),
        Outcome::Stalled { .. } => "stopped: no progress".to_owned(),
        Outcome::NoGround { .. } => "failed: a stage has no place to work".to_owned(),
        Outcome::Unmerged { .. } | Outcome::NotMerged { .. } => "failed: a stage does not merge".to_owned(),
        Outcome::NotDone { .. } => "failed: a stage is not done, though it was taken for done".to_owned(),
        Outcome::StagesFailed { failed, .. } => format!("stopped: {} of the stages failed", failed.len()),
        Outcome::TooManyCrashes { .. } => "failed: too many sessions in a row crashed".to_owned(),
        Outcome::Stopped { .. } => return None,
    })
}

/// The notice of a wait that a person may want to know of.
#[must_use]
pub(crate) fn of_wait(cause: WaitCause, length: Millis, session: SessionNumber) -> Option<String> {
    match cause {
        WaitCause::UsageLimit => Some(format!("usage limit reached: session {session} goes on in {length}")),
        WaitCause::Failure | WaitCause::Pause | WaitCause::QuietHours | WaitCause::Guided => None,
    }
}
