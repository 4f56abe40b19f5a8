//! Effects and phases in few words.

use crate::effect::{AttemptEffect, Effect, RelayEffect, StartMode};
use crate::handoff::Marker;
use crate::judge::{Repeat, Warning};
use crate::outcome::Outcome;
use crate::prompt::{self, OrderReason};
use crate::relay::{HANDOFF_DIR, Next, NextAttempt, Phase, Relay, ReviewStep};
use crate::time::Timestamp;

/// What followed from a word.
pub(super) fn line(word: &str, effects: &[Effect]) -> String {
    let effects: Vec<String> = effects.iter().map(effect).collect();
    let effects = if effects.is_empty() {
        "-".to_owned()
    } else {
        effects.join(", ")
    };
    format!("{word}: {effects}")
        .trim_start_matches(": ")
        .to_owned()
}

fn effect(effect: &Effect) -> String {
    match effect {
        Effect::Stage { effect, .. } => relay_effect(effect),
        Effect::Worktree { stage, effect } => format!("{effect:?} {stage}").to_lowercase(),
        Effect::Deliver => "deliver".to_owned(),
        Effect::EndRun { .. } => "end".to_owned(),
    }
}

fn relay_effect(effect: &RelayEffect) -> String {
    match effect {
        RelayEffect::Survey => "survey".to_owned(),
        RelayEffect::Commit { session } => format!("commit {session}"),
        RelayEffect::Verify => "verify".to_owned(),
        RelayEffect::CancelTasks => "cancel".to_owned(),
        RelayEffect::StartAttempt(start) => match start.mode {
            StartMode::Fresh => format!("start {}", start.attempt),
            StartMode::Resume => format!("start {} in the same conversation", start.attempt),
        },
        RelayEffect::Attempt { effect, .. } => attempt_effect(effect),
        RelayEffect::Publish => "publish".to_owned(),
        RelayEffect::Warn { warning } => format!("warn {}", self::warning(warning)),
        RelayEffect::PublishDurably => "publish durably".to_owned(),
        RelayEffect::Notify { text, .. } => format!("notify ({text})"),
        RelayEffect::Archive { attempt } => format!("archive {attempt}"),
    }
}

fn attempt_effect(effect: &AttemptEffect) -> String {
    match effect {
        AttemptEffect::Say { text } => format!("say {}", message(text)),
        AttemptEffect::AnswerStop { hold: None, .. } => "let end".to_owned(),
        AttemptEffect::AnswerStop {
            hold: Some(text), ..
        } => format!("hold: {}", message(text)),
        AttemptEffect::Interrupt => "interrupt".to_owned(),
        AttemptEffect::Close => "close".to_owned(),
        AttemptEffect::Terminate => "terminate".to_owned(),
    }
}

/// A warning in few words.
pub(super) fn warning(warning: &Warning) -> String {
    match warning {
        Warning::Repeated {
            session,
            repeat,
            repeats_max,
        } => {
            let Repeat {
                of,
                percent,
                in_a_row,
            } = repeat;
            format!("{session} repeats {of} ({percent}%, {in_a_row} of {repeats_max})")
        }
        Warning::Idle {
            session,
            in_a_row,
            sessions_max,
        } => {
            format!("{session} idle ({in_a_row} of {sessions_max})")
        }
        Warning::ItemsVanished { session, count, .. } => format!("{session} lost {count} items"),
        Warning::ItemSetAside { session, item, .. } => format!("{session} sets aside {item}"),
        Warning::TestsWeakened { session, tests } => format!("{session} weakened {}", tests.len()),
        Warning::TestsUnread { session, why } => format!("{session} unread: {why}"),
        Warning::CommitsDropped { session, count, .. } => {
            format!("{session} drops {count} commits")
        }
        Warning::Stashed { session, count } => format!("{session} stashed {count}"),
        Warning::KnowledgeCut { left_out, facts } => {
            format!("{left_out} of {facts} facts left out")
        }
    }
}

fn message(text: &str) -> String {
    let marker = Marker::default();
    let reasons = [
        OrderReason::Context,
        OrderReason::Asked,
        OrderReason::Operator,
        OrderReason::Budget,
        OrderReason::Time,
    ];
    let ordered = reasons
        .into_iter()
        .find(|reason| text == prompt::order(*reason, HANDOFF_DIR, &marker));
    match ordered {
        Some(reason) => format!("hand off ({reason:?})").to_lowercase(),
        None if text == prompt::go_on(&marker) => "go on".to_owned(),
        None if text == prompt::answer_now() => "answer now".to_owned(),
        None if text == prompt::mend_verdict() => "mend the verdict".to_owned(),
        None => {
            let asked = prompt::ask_again([], HANDOFF_DIR);
            let faults = text
                .strip_prefix(&asked)
                .expect("a text that is in the catalogue");
            format!(
                "mend {}",
                faults.lines().filter(|line| !line.is_empty()).count()
            )
        }
    }
}

pub(super) fn phase(relay: &Relay, now: Timestamp) -> String {
    match &relay.phase {
        Phase::Planned => "planned".to_owned(),
        Phase::Running(session) => format!("at work: {}", session.attempt.id),
        Phase::Reviewing { after: None, step } => format!("before: {}", look(*step)),
        Phase::Reviewing {
            after: Some(end),
            step,
        } => format!("after {}: {}", end.attempt, look(*step)),
        Phase::Waiting {
            until, cause, next, ..
        } => format!(
            "waiting {} ({cause:?}) for {}",
            until.since(now),
            attempt(next)
        )
        .to_lowercase(),
        Phase::Paused { next, .. } => format!("paused before {}", attempt(next)),
        Phase::Ended { outcome, next } => format!("ended: {}; next: {}", end(outcome), then(next)),
    }
}

fn look(step: ReviewStep) -> &'static str {
    match step {
        ReviewStep::Commit => "commit",
        ReviewStep::Survey => "survey",
        ReviewStep::Verification => "verification",
        ReviewStep::BeforeReviewer => "survey before a reviewer",
        ReviewStep::AfterReviewer => "survey after a reviewer",
    }
}

fn attempt(next: &NextAttempt) -> String {
    let mode = match next.mode {
        StartMode::Fresh => "",
        StartMode::Resume => " in the same conversation",
    };
    format!("{}{mode}", next.id)
}

fn then(next: &Next) -> String {
    match next {
        Next::Review(None) => "prepare".to_owned(),
        Next::Review(Some(end)) => format!("review {}", end.attempt),
        Next::Attempt(next) => attempt(next),
    }
}

pub(super) fn end(outcome: &Outcome) -> String {
    match outcome {
        Outcome::Complete { verified: true } => "verified complete".to_owned(),
        Outcome::Complete { verified: false } => "complete".to_owned(),
        Outcome::Undelivered { .. } => "undelivered".to_owned(),
        Outcome::Blocked { .. } => "blocked".to_owned(),
        Outcome::SessionLimit => "session limit".to_owned(),
        Outcome::Stopped { request } => format!("stopped {request:?}").to_lowercase(),
        Outcome::LimitTooFar { .. } => "limit too far".to_owned(),
        Outcome::RateLimited { .. } => "rate limited".to_owned(),
        Outcome::BudgetSpent { .. } => "budget spent".to_owned(),
        Outcome::WindowTooFull { .. } => "window too full".to_owned(),
        Outcome::NoCheck { program } => format!("no check {program}"),
        Outcome::AgentFailed { .. } => "agent failed".to_owned(),
        Outcome::Stuck { .. } => "stuck".to_owned(),
        Outcome::Stalled { .. } => "stalled".to_owned(),
        Outcome::Denied { rules } => format!("denied {}", rules.join(", ")),
        Outcome::TooManyCrashes { .. } => "too many crashes".to_owned(),
        Outcome::NoWorktree { why, .. } => format!("no ground: {why}"),
        Outcome::NotMerged { why } => format!("not merged: {why}"),
        Outcome::Unmerged { files } => format!("unmerged {}", files.join(", ")),
        Outcome::NotDone { why } => format!("not done: {why}"),
        Outcome::StagesFailed { failed, blocked } => {
            let failed: Vec<_> = failed
                .iter()
                .map(|one| format!("{} {}", one.stage, end(&one.outcome)))
                .collect();
            format!("failed: {}; {blocked} blocked", failed.join(", "))
        }
    }
}
