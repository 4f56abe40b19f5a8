//! What `status.json` says of a run. Its form is the store's.

use ekiden_core::outcome::Outcome;
use ekiden_core::relay::{Phase, Relay, WaitCause};
use ekiden_core::run::Run;
use ekiden_core::time::Timestamp;
use ekiden_store::status::{Status, StatusWord};

/// The content of `status.json` for a run as it stands.
#[must_use]
pub fn status(run: &Run, at: Timestamp) -> Status {
    let header = run.header();
    let relay = run.live().chain(run.relays()).map(|(_, relay)| relay).next();
    let (status, message) = match (&header.manifest.plan, relay) {
        (None, Some(relay)) => words(relay),
        (None, None) => (StatusWord::Running, "Starting".to_owned()),
        (Some(_), relay) => of_plan(run, relay),
    };
    Status {
        tool: "ekiden".to_owned(),
        version: header.ekiden.clone(),
        session: relay.map_or(0, |relay| relay.session().get()),
        max_sessions: relay.map_or(0, Relay::session_max),
        status,
        message,
        updated_at: at,
        work_dir: header.place.work_dir.clone().into(),
        completion_marker: header.settings.marker.to_string(),
        run: header.run.clone(),
    }
}

/// A plan in one line: how many stages are over, and what one of those at work does.
fn of_plan(run: &Run, relay: Option<&Relay>) -> (StatusWord, String) {
    if let Some(outcome) = run.outcome() {
        return ended(outcome);
    }
    let so_far = format!("{} of {} stages over", run.plan().over(), run.plan().stages());
    match relay.filter(|relay| relay.outcome().is_none()) {
        Some(relay) => {
            let (word, message) = words(relay);
            (word, format!("{so_far}; {}: {message}", relay.stage().id))
        }
        None => (StatusWord::Running, so_far),
    }
}

fn words(relay: &Relay) -> (StatusWord, String) {
    let session = relay.session();
    match relay.phase() {
        Phase::Planned => (StatusWord::Running, "Starting".to_owned()),
        Phase::Preparing(_) => (StatusWord::Running, "Looking at the project".to_owned()),
        Phase::Running(_) if relay.is_paused() => {
            (StatusWord::Running, format!("Session #{session} active; paused after it"))
        }
        Phase::Running(_) => (StatusWord::Running, format!("Session #{session} active")),
        Phase::Reviewing { .. } => (StatusWord::Running, format!("Session #{session} is being checked")),
        Phase::Waiting { cause, .. } => (StatusWord::Paused, waiting(*cause).to_owned()),
        Phase::Paused { .. } => (StatusWord::Paused, "Paused; `ekiden unpause` goes on".to_owned()),
        Phase::Ended { outcome, .. } => ended(outcome),
    }
}

fn waiting(cause: WaitCause) -> &'static str {
    match cause {
        WaitCause::UsageLimit => "Waiting for a usage limit",
        WaitCause::Failure => "Waiting after a failure",
        WaitCause::QuietHours => "Quiet hours",
        WaitCause::Pause | WaitCause::Guided => "Between sessions",
    }
}

fn ended(outcome: &Outcome) -> (StatusWord, String) {
    match outcome {
        Outcome::Complete { verified: true } => {
            (StatusWord::VerifiedComplete, "Verification passed".to_owned())
        }
        Outcome::Complete { verified: false } => (StatusWord::Complete, "All done".to_owned()),
        Outcome::Stuck { repeats, .. } => {
            (StatusWord::Stuck, format!("Stuck: the handoff repeated {repeats} times in a row"))
        }
        Outcome::Stalled { sessions } => {
            (StatusWord::Stuck, format!("Stalled: nothing changed in {sessions} sessions in a row"))
        }
        Outcome::SessionLimit => (StatusWord::MaxSessions, "Stopped at session limit".to_owned()),
        Outcome::Blocked { question } => (StatusWord::Paused, format!("A person is needed: {question}")),
        Outcome::Stopped { .. } => (StatusWord::Paused, "Stopped; `ekiden resume` goes on".to_owned()),
        Outcome::LimitTooFar { .. } => {
            (StatusWord::Paused, "A usage limit resets later than --max-wait".to_owned())
        }
        Outcome::RateLimited { .. } => (StatusWord::Paused, "A usage limit is reached".to_owned()),
        Outcome::BudgetSpent { .. } => (StatusWord::Paused, "The budget is spent".to_owned()),
        Outcome::WindowTooFull { .. } => {
            (StatusWord::Error, "The window is full before the work begins".to_owned())
        }
        Outcome::AgentFailed { cause } => (StatusWord::Error, format!("The agent cannot work: {cause}")),
        Outcome::Denied { rules } => (StatusWord::Error, format!("Not permitted: {}", rules.join(", "))),
        Outcome::NoGround { why } => (StatusWord::Error, format!("No place to work: {why}")),
        Outcome::NotMerged { why } => (StatusWord::Error, format!("A stage cannot be merged: {why}")),
        Outcome::Unmerged { .. } => (StatusWord::Error, "A stage does not merge".to_owned()),
        Outcome::NotDone { why } => (StatusWord::Error, format!("Not done: {why}")),
        Outcome::StagesFailed { failed, .. } => {
            let stages: Vec<&str> = failed.iter().map(|one| one.stage.as_str()).collect();
            (StatusWord::Error, format!("Stages failed: {}", stages.join(", ")))
        }
        Outcome::TooManyCrashes { cause } => (StatusWord::Error, format!("Too many crashes: {cause}")),
    }
}
