//! What a person said to a run while it was under way.

use ekiden_core::event::LimitsChanged;
use ekiden_core::run::Run;
use ekiden_core::{bounds::OnRateLimit, text};

use super::bounds;
use super::line::{Line, Tone, one_line};
use super::news::News;
use super::phrase;

/// Words for the next session.
#[must_use]
pub fn instructed(words: &str, run: &Run) -> News {
    let clean = text::clean(words).text;
    let taken = run.relays().any(|(_, relay)| relay.words().last().is_some_and(|last| last == clean.trim()));
    News::Instructed { words: clean.trim().to_owned(), taken }
}

/// Other limits.
#[must_use]
pub fn limits_changed(limits: &LimitsChanged, run: &Run) -> News {
    let session_max = run.relays().map(|(_, relay)| relay.session_max()).sum();
    let now = run.relays().map(|(_, relay)| relay.bounds()).next().cloned().unwrap_or_default();
    let (run_budget, session_budget) = (now.run, now.session);
    News::LimitsChanged { session_max, run_budget, session_budget, changed: changed(limits, session_max) }
}

/// The line of words for the next session.
#[must_use]
pub fn instructed_line(words: &str, taken: bool) -> Line {
    let words = one_line(words);
    if taken {
        return Line::labelled("told", Tone::Quiet, "the next session will read: ").with(Tone::Plain, words);
    }
    Line::attention(format!("no room for more words to the next session: {words}"))
}

/// The line of other limits.
#[must_use]
pub fn limits_line(changed: &[String]) -> Line {
    Line::labelled("limits", Tone::Quiet, "from now on ").with(Tone::Plain, changed.join(", "))
}

fn changed(limits: &LimitsChanged, session_max: u32) -> Vec<String> {
    let LimitsChanged {
        sessions_max,
        wait_max,
        pause,
        stall_sessions,
        research,
        guided,
        bounds,
        permissions,
    } = limits;
    let stall = |sessions: &u32| format!("{} without progress", phrase::count((*sessions).into(), "session"));
    [
        sessions_max.map(|_| format!("up to session {session_max}")),
        bounds::budget(bounds.run).map(|budget| format!("at most {budget} in all")),
        bounds::budget(bounds.session).map(|budget| format!("at most {budget} a session")),
        bounds.session_timeout.map(|time| match time.as_secs() {
            0 => "no limit of a session's time".to_owned(),
            _ => format!("{} a session", phrase::duration(time)),
        }),
        bounds.turns_max.map(|turns| match turns {
            0 => "no limit of turns".to_owned(),
            turns => format!("{} a session", phrase::count(turns.into(), "turn")),
        }),
        wait_max.map(|wait| format!("waits up to {}", phrase::duration(wait))),
        pause.map(|pause| format!("pauses of {}", phrase::duration(pause))),
        bounds.quiet_hours.as_ref().map(|_| "other quiet hours".to_owned()),
        bounds.on_rate_limit.map(|on| match on {
            OnRateLimit::Wait => "usage limits are waited for".to_owned(),
            OnRateLimit::Stop => "a usage limit ends the run".to_owned(),
        }),
        stall_sessions.as_ref().map(stall),
        research.map(|yes| if yes { "it is research" } else { "it is no research" }.to_owned()),
        guided.map(|yes| if yes { "guided" } else { "not guided" }.to_owned()),
        permissions.mode.as_ref().map(|mode| format!("permission mode {}", one_line(mode))),
        permissions
            .skip
            .map(|yes| if yes { "every call is allowed" } else { "calls are asked about" }.to_owned()),
        (!permissions.allowed_tools.is_empty())
            .then(|| format!("allowed: {}", one_line(&permissions.allowed_tools.join(", ")))),
    ]
    .into_iter()
    .flatten()
    .collect()
}
