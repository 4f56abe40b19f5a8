//! The entries for a person's requests to a run that is under way.

use std::collections::BTreeMap;

use ekiden_core::agent::Purpose;
use ekiden_core::bounds::OnRateLimit;
use ekiden_core::budget::Budget;
use ekiden_core::ids::StageId;
use ekiden_core::limits;
use ekiden_core::quiet::QuietHours;
use ekiden_core::relay::{Phase, Relay};
use ekiden_core::run::Run;
use ekiden_core::settings::LimitsChanged;
use ekiden_core::steering::{Steered, Steering, StopRequest};
use ekiden_core::text;

use super::entry::Entry;
use super::json::fields;
use super::line::{Line, Tone, one_line};
use super::phrase;
use super::shown_work_dir::ShownWorkDir;

/// Why nothing can hand off.
pub const NONE_AT_WORK: &str = "no session is running that could hand off";

const ASKED: &str = "is asked to hand off";

/// What a message to the run changed: nothing for a late stop or a second pause.
pub fn steered(
    steered: &Steered,
    run: &Run,
    was_paused: bool,
    clock: &str,
    there: &ShownWorkDir,
) -> Option<Entry> {
    match &steered.steering {
        Steering::Stop { .. } => {
            let request = steered.steering.stop()?;
            let sooner = format!("`ekiden stop --now{}`", there.flag());
            Some(stop_requested(request, &sooner, run))
        }
        Steering::HandOff => Some(handoff_requested(run)),
        Steering::Pause if was_paused || run.relays().any(|(_, relay)| is_held(relay)) => None,
        Steering::Pause => Some(pause_requested(run, there)),
        Steering::Unpause if !was_paused => None,
        Steering::Unpause => {
            let line = Line::new(Tone::Plain, format!("unpaused · {clock}"));
            Some(Entry::new("unpaused").line(line))
        }
        Steering::Instruct { words } => Some(instructed(words, run)),
        Steering::Answer { stage, words } => {
            let relay = run.relay(stage).filter(|_| run.header().fleet.is_none());
            let taken = relay.is_none_or(|relay| relay.has_taken(words));
            Some(answered(stage, words, taken, run))
        }
        Steering::ChangeLimits(limits) => Some(limits_changed(limits, run)),
    }
}

/// A person answered a question.
pub fn answered(stage: &StageId, words: &str, taken: bool, run: &Run) -> Entry {
    let words = one_line(words);
    let of = match run.header().is_plan() {
        true => format!("{stage}  "),
        false => String::new(),
    };
    let line = match taken {
        true => Line::new(Tone::Plain, format!("{of}answered: {words}")),
        false => Line::attention(format!("{of}had its answer already; not used: {words}")),
    };
    let fields = fields! { "stage": stage, "words": words, "taken": taken };
    Entry::new("answered").fields(fields).line(line)
}

pub fn is_held(relay: &Relay) -> bool {
    matches!(relay.phase, Phase::Paused { .. })
}

/// Somebody wants the run to stop. `sooner` is what would stop it at once.
pub fn stop_requested(request: StopRequest, sooner: &str, run: &Run) -> Entry {
    // A fleet ends its sessions at once.
    let relay = working(run).next().filter(|_| run.header().fleet.is_none());
    let session = relay.map(|relay| relay.session().get());
    let text = match (request, relay) {
        (StopRequest::Gently, Some(relay)) => {
            let grace = phrase::duration(limits::STOP_GRACE);
            let (who, asked) = match working(run).count() {
                1 => (session_of(relay, run), asked(relay)),
                several => (format!("each of the {several} sessions"), ASKED),
            };
            let what = match relay.agent().kind.takes_messages() {
                true => format!("{asked} within {grace}"),
                false => format!("may finish within {grace}; then it is ended"),
            };
            format!("{who} {what}; {sooner} stops at once")
        }
        (StopRequest::Gently, None) => "stopping".to_owned(),
        (StopRequest::Now { .. }, _) => "stopping at once".to_owned(),
    };
    let entry = Entry::new("stop_requested")
        .fields(fields! { "request": request, "session": session })
        .line(Line::attention(text));
    in_session(entry, run)
}

fn handoff_requested(run: &Run) -> Entry {
    let hears = |relay: &&Relay| relay.agent().kind.takes_messages();
    let relays: Vec<&Relay> = working(run).filter(hears).collect();
    let goes_on = |relay: &&Relay| relay.session().get() < relay.session_max();
    let [next, nexts] = match relays.iter().any(goes_on) {
        true => ["the next one continues", "the next ones continue"],
        false => [
            "it is the last one allowed",
            "they are the last ones allowed",
        ],
    };
    let text = match relays.as_slice() {
        [] if working(run).next().is_none() => NONE_AT_WORK.to_owned(),
        [] => "this agent cannot be asked to hand off; it does when it ends".to_owned(),
        [relay] => {
            let asked = format!("{} {}", session_of(relay, run), asked(relay));
            match relay.purpose() {
                Purpose::Work => format!("{asked}; {next}"),
                Purpose::Review => asked,
            }
        }
        several => format!("{} sessions are asked to hand off; {nexts}", several.len()),
    };
    let sessions: Vec<u32> = relays.iter().map(|relay| relay.session().get()).collect();
    let entry = Entry::new("handoff_requested")
        .fields(fields! { "sessions": sessions })
        .line(Line::attention(text));
    in_session(entry, run)
}

/// The entry belongs to the session at work; in a plan there may be several.
fn in_session(mut entry: Entry, run: &Run) -> Entry {
    let is_plan = run.header().is_plan();
    entry.session = working_session(run).filter(|_| !is_plan);
    entry
}

pub fn pause_requested(run: &Run, there: &ShownWorkDir) -> Entry {
    let begins = match working(run).next() {
        Some(_) if working(run).count() > 1 => "nothing begins after these sessions".to_owned(),
        Some(relay) => format!("nothing begins after {}", session_of(relay, run)),
        None => "nothing begins any more".to_owned(),
    };
    let line = Line::attention(format!(
        "{begins}; `ekiden unpause{}` takes that back",
        there.flag()
    ));
    Entry::new("pause_requested")
        .fields(fields! { "session": working_session(run) })
        .line(line)
}

/// Nothing starts until the run is unpaused; a person who guides it can type meanwhile.
pub fn paused(session: u32, guided: bool, there: &ShownWorkDir) -> Entry {
    let there = there.flag();
    if !guided {
        let text = format!("paused before session {session}; `ekiden unpause{there}` continues");
        return Entry::new("paused").line(Line::attention(text));
    }
    let quiet = |text: &str| Line::new(Tone::Quiet, format!("    {text}")).hanging(4);
    Entry::new("paused").lines([
        Line::attention(format!(
            "held before session {session}: type what it should know, one line each"
        )),
        quiet("-m 20, --run-budget 5 and the like change limits (see `ekiden limits --help`)"),
        quiet(&format!(
            "go begins the session; quit stops, and `ekiden resume{there}` continues"
        )),
    ])
}

/// Text for the next session.
fn instructed(words: &str, run: &Run) -> Entry {
    let clean = text::clean(words).text;
    let words = clean.trim();
    let is_last = |relay: &Relay| relay.wishes.words.last().is_some_and(|last| last == words);
    let is_plan = run.header().is_plan();
    let full = run.live().filter(|(_, relay)| !is_last(relay));
    let full: Vec<&str> = full.map(|(stage, _)| stage.as_str()).collect();
    // A fleet's stages take it elsewhere.
    let taken = match is_plan {
        true => full.is_empty() || run.header().fleet.is_some(),
        false => run.relays().any(|(_, relay)| is_last(relay)),
    };
    let shown = one_line(words);
    let line = if taken {
        let whose = match is_plan {
            true => "the next session of each stage",
            false => "the next session",
        };
        Line::labelled("message", Tone::Quiet, format!("{whose} will read: "))
            .with(Tone::Plain, shown)
    } else {
        let whose = match is_plan {
            true => format!("the next session of {}", full.join(", ")),
            false => "the next session".to_owned(),
        };
        Line::attention(format!("no room for another message to {whose}: {shown}"))
    };
    Entry::new("instructed")
        .fields(fields! { "words": words, "taken": taken })
        .line(line)
}

fn limits_changed(limits: &LimitsChanged, run: &Run) -> Entry {
    let is_plan = run.header().is_plan();
    let session_max = (!is_plan).then(|| run.session_max());
    let mut relays = run.relays();
    let now = relays
        .next()
        .map(|(_, relay)| relay.settings.bounds.clone());
    let now = now.unwrap_or_default();
    let changed = changed(limits, session_max);
    let line = Line::labelled("limits", Tone::Quiet, "from now on ");
    Entry::new("limits_changed")
        .fields(fields! {
            "session_max": session_max,
            "run_budget": now.run,
            "session_budget": now.session,
            "changed": changed,
        })
        .line(line.with(Tone::Plain, changed.join(", ")))
}

/// `at most $5.00 for claude`, for each agent that is named.
fn of_agents(budgets: &BTreeMap<String, Budget>) -> Option<String> {
    let each = budgets.iter().filter_map(|(agent, budget)| {
        let budget = phrase::budget(*budget)?;
        Some(format!("at most {budget} for {}", one_line(agent)))
    });
    let each: Vec<String> = each.collect();
    (!each.is_empty()).then(|| each.join(", "))
}

/// `session_max` is the last session that may begin; a plan counts those of each stage.
fn changed(limits: &LimitsChanged, session_max: Option<u32>) -> Vec<String> {
    let LimitsChanged {
        sessions_max,
        wait_max,
        pause,
        stall_sessions,
        research,
        guided,
        no_review,
        bounds,
        permissions,
    } = limits;
    let either = |choice: Option<bool>, yes: &str, no: &str| {
        choice.map(|choice| if choice { yes } else { no }.to_owned())
    };
    let quiet_hours = bounds.quiet_hours.as_ref();
    let mode = permissions.mode.as_ref();
    let rules = &permissions.allowed_tools;
    [
        sessions_max.map(|more| match session_max {
            Some(session_max) => format!("up to session {session_max}"),
            None => format!(
                "up to {} for each try of a stage",
                phrase::count(more.into(), "session")
            ),
        }),
        phrase::budget(bounds.run).map(|budget| format!("at most {budget} in all")),
        phrase::budget(bounds.session).map(|budget| format!("at most {budget} a session")),
        of_agents(&bounds.agents),
        bounds.session_timeout.map(|time| match time.as_secs() {
            0 => "no time limit for a session".to_owned(),
            _ => format!("{} a session", phrase::duration(time)),
        }),
        bounds.turns_max.map(|turns| match turns {
            0 => "no limit of turns".to_owned(),
            turns => format!("{} a session", phrase::count(turns.into(), "turn")),
        }),
        wait_max.map(|wait| format!("waits up to {}", phrase::duration(wait))),
        pause.map(|pause| format!("pauses of {}", phrase::duration(pause))),
        either(
            quiet_hours.map(QuietHours::is_empty),
            "no quiet hours",
            "other quiet hours",
        ),
        bounds.on_rate_limit.map(|on| match on {
            OnRateLimit::Wait => "usage limits are waited for".to_owned(),
            OnRateLimit::Stop => "a usage limit ends the run".to_owned(),
        }),
        stall_sessions.map(|max| match max {
            0 => "no limit of sessions without progress".to_owned(),
            max => format!("{} without progress", phrase::count(max.into(), "session")),
        }),
        either(*research, "it is research", "it is not research"),
        either(*guided, "guided", "not guided"),
        no_review.then(|| "no review".to_owned()),
        mode.map(|mode| format!("permission mode {}", one_line(mode))),
        either(
            permissions.skip,
            "every call is allowed",
            "calls are asked about",
        ),
        (!rules.is_empty()).then(|| format!("allowed: {}", one_line(&rules.join(", ")))),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// What a session hears that should come to its end.
pub fn asked(relay: &Relay) -> &'static str {
    match relay.purpose() {
        Purpose::Work => ASKED,
        Purpose::Review => "is asked for its verdict",
    }
}

/// How a sentence names the session of a relay.
fn session_of(relay: &Relay, run: &Run) -> String {
    let of = match run.header().is_plan() {
        true => format!(" of stage {}", relay.stage.id),
        false => String::new(),
    };
    format!("session {}{of}", relay.session())
}

fn working_session(run: &Run) -> Option<u32> {
    working(run).next().map(|relay| relay.session().get())
}

pub fn working(run: &Run) -> impl Iterator<Item = &Relay> {
    run.relays()
        .map(|(_, relay)| relay)
        .filter(|relay| matches!(relay.phase, Phase::Running(_)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_of_sessions_is_told_as_it_counts() {
        let limits = LimitsChanged {
            sessions_max: Some(3),
            ..LimitsChanged::default()
        };
        assert_eq!(changed(&limits, Some(7)), ["up to session 7"]);
        assert_eq!(
            changed(&limits, None),
            ["up to 3 sessions for each try of a stage"]
        );
    }

    #[test]
    fn a_limit_that_is_taken_away_is_told_as_none() {
        let mut limits = LimitsChanged {
            stall_sessions: Some(0),
            ..LimitsChanged::default()
        };
        limits.bounds.quiet_hours = Some(QuietHours::default());
        assert_eq!(
            changed(&limits, None),
            ["no quiet hours", "no limit of sessions without progress"]
        );
    }
}
