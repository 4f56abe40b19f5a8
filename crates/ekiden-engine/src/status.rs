//! The content of `status.json` for a run. The store defines its format.

use ekiden_core::outcome::{Outcome, WaitCause};
use ekiden_core::relay::{Phase, Purpose, Relay};
use ekiden_core::run::Run;
use ekiden_core::secrets::mask;
use ekiden_core::time::Timestamp;
use ekiden_store::status::{Status, StatusWord};

/// The content of `status.json` for the current state of a run.
pub fn status(run: &Run, at: Timestamp) -> Status {
    let header = run.header();
    let relay = run
        .live()
        .chain(run.relays())
        .map(|(_, relay)| relay)
        .next();
    let (status, message) = match (&header.manifest.plan, relay) {
        (None, Some(relay)) => words(relay),
        (None, None) => (StatusWord::Running, "Starting".to_owned()),
        (Some(_), relay) => of_plan(run, relay),
    };
    Status {
        tool: "ekiden".to_owned(),
        version: header.ekiden.clone(),
        session: run.session(),
        max_sessions: run.session_max(),
        status,
        message: mask(&message).into_owned(),
        updated_at: at,
        work_dir: header.place.work_dir.clone().into(),
        completion_marker: header.settings.marker.to_string(),
        run: header.run.clone(),
    }
}

/// A plan in one line: how many stages are over, and what one of the others is doing.
fn of_plan(run: &Run, relay: Option<&Relay>) -> (StatusWord, String) {
    if let Some(outcome) = run.outcome() {
        return ended(outcome);
    }
    let so_far = format!(
        "{} of {} stages over",
        run.plan().over(),
        run.plan().stages()
    );
    match relay.filter(|relay| relay.outcome().is_none()) {
        Some(relay) => {
            let (word, message) = words(relay);
            (word, format!("{so_far}; {}: {message}", relay.stage.id))
        }
        None => (StatusWord::Running, so_far),
    }
}

fn words(relay: &Relay) -> (StatusWord, String) {
    let session = relay.session();
    match &relay.phase {
        Phase::Planned => (StatusWord::Running, "Starting".to_owned()),
        Phase::Reviewing { after: None, .. } => {
            (StatusWord::Running, "Looking at the project".to_owned())
        }
        Phase::Running(_) if relay.wishes.paused => (
            StatusWord::Running,
            format!("Session #{session} active; paused after it"),
        ),
        Phase::Running(_) if relay.purpose() == Purpose::Review => (
            StatusWord::Running,
            format!("Session #{session} reviews the work"),
        ),
        Phase::Running(_) => (StatusWord::Running, format!("Session #{session} active")),
        Phase::Reviewing { .. } => (
            StatusWord::Running,
            format!("Session #{session} is being checked"),
        ),
        Phase::Waiting { cause, .. } => (StatusWord::Paused, waiting(*cause).to_owned()),
        Phase::Paused { .. } => (
            StatusWord::Paused,
            "Paused; `ekiden unpause` continues".to_owned(),
        ),
        Phase::Ended { outcome, .. } => ended(outcome),
    }
}

fn waiting(cause: WaitCause) -> &'static str {
    match cause {
        WaitCause::UsageLimit => "Waiting for a usage limit",
        WaitCause::Failure => "Waiting after a failure",
        WaitCause::QuietHours => "Quiet hours",
        WaitCause::Budget => "Waiting for budget",
        WaitCause::Pause | WaitCause::Guided => "Between sessions",
    }
}

fn ended(outcome: &Outcome) -> (StatusWord, String) {
    let word = match outcome {
        Outcome::Complete { verified: true } | Outcome::Undelivered { verified: true, .. } => {
            StatusWord::VerifiedComplete
        }
        Outcome::Complete { verified: false } | Outcome::Undelivered { .. } => StatusWord::Complete,
        Outcome::Stuck { .. } | Outcome::Stalled { .. } => StatusWord::Stuck,
        Outcome::SessionLimit => StatusWord::MaxSessions,
        Outcome::StagesFailed { .. } if outcome.asks() => StatusWord::Paused,
        Outcome::Blocked { .. }
        | Outcome::Stopped { .. }
        | Outcome::LimitTooFar { .. }
        | Outcome::RateLimited { .. }
        | Outcome::BudgetSpent { .. } => StatusWord::Paused,
        Outcome::WindowTooFull { .. }
        | Outcome::NoCheck { .. }
        | Outcome::AgentFailed { .. }
        | Outcome::Denied { .. }
        | Outcome::NoWorktree { .. }
        | Outcome::NotMerged { .. }
        | Outcome::Unmerged { .. }
        | Outcome::NotDone { .. }
        | Outcome::StagesFailed { .. }
        | Outcome::TooManyCrashes { .. } => StatusWord::Error,
    };
    let message = if let Outcome::Blocked { question } = outcome {
        let words: Vec<&str> = question.split_whitespace().collect();
        format!("{outcome}: {}", words.join(" "))
    } else if let Outcome::Denied { rules } = outcome {
        format!("{outcome}: {}", rules.join(", "))
    } else if let Outcome::Stuck { repeats, .. } = outcome {
        format!("{outcome}, {repeats} times in a row")
    } else {
        outcome.to_string()
    };
    let mut letters = message.chars();
    let first = letters.next().map(|first| first.to_ascii_uppercase());
    (word, first.into_iter().chain(letters).collect())
}
