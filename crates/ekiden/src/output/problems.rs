//! The line at the end of a run that says what went wrong, how often, and in which sessions.
//!
//! What ekiden is made for is not a problem: a handoff, a verification that fails before the work is done,
//! a pause that the user wants.

use ekiden_core::ids::StageId;
use ekiden_core::outcome::WaitCause;
use ekiden_core::time::{Millis, Timestamp};
use ekiden_report::Timeline;
use ekiden_report::timeline::Kind;

use super::json::{Fields, fields};
use super::line::{Line, Tone};
use super::phrase;

/// How many sessions are named of each kind; `--json` names them all.
const SESSIONS_SHOWN_MAX: usize = 8;

/// The kinds that are shown, in order, with their names for programs. The others are in the report.
const SHOWN: [(Kind, &str); 15] = [
    (Kind::Failed, "crashes"),
    (Kind::Lost, "lost"),
    (Kind::Rescue, "rescues"),
    (Kind::Veto, "vetoes"),
    (Kind::Idle, "idle"),
    (Kind::ItemsVanished, "items_vanished"),
    (Kind::SetAside, "set_aside"),
    (Kind::TestsWeakened, "tests_weakened"),
    (Kind::TestsUnread, "tests_unread"),
    (Kind::CommitsDropped, "commits_dropped"),
    (Kind::Stashed, "stashed"),
    (Kind::Caution, "cautions"),
    (Kind::Uncommitted, "uncommitted"),
    (Kind::Compaction, "compactions"),
    (Kind::Outage, "outages"),
];

/// The field for programs: a session appears as often as it had the problem. `None` if there is nothing to
/// report. `of` is the stage whose problems are wanted; without it, those of all stages are.
pub fn json(timeline: &Timeline, of: Option<&StageId>) -> Option<Fields> {
    let found = problems_by_kind(timeline, of);
    let mut problems = Fields::default();
    for (_, name, sessions) in &found {
        let sessions: Vec<u32> = sessions.iter().map(|(_, session)| *session).collect();
        problems = problems.with(name, sessions);
    }
    let limits = Limits::of(timeline, of);
    if !limits.sessions.is_empty() {
        problems = problems
            .with("limits", &limits.sessions)
            .with("limits_ms", limits.waited);
    }
    (!found.is_empty() || !limits.sessions.is_empty()).then(|| fields! { "problems": problems })
}

/// The line, if there is something to report.
pub fn line(timeline: &Timeline, of: Option<&StageId>) -> Option<Line> {
    let has_numbers_of_stages = of.is_none() && timeline.stages.len() > 1;
    let name = |(stage, session): &(Option<usize>, u32)| {
        let stage = stage.and_then(|at| timeline.stages.get(at));
        match stage.filter(|_| has_numbers_of_stages) {
            Some(stage) => format!("{session} of {}", stage.id),
            None => session.to_string(),
        }
    };
    let found = problems_by_kind(timeline, of);
    let found = found.iter().map(|(kind, _, sessions)| {
        let names = sessions.iter().map(name).collect();
        format!("{} {}", kind.count(sessions.len()), named(names))
    });
    let mut parts: Vec<String> = found.collect();
    // The meaning of the numbers is given once.
    for part in parts.iter_mut().skip(1) {
        *part = part
            .replacen("(sessions ", "(", 1)
            .replacen("(session ", "(", 1);
    }
    let limits = Limits::of(timeline, of);
    if !limits.sessions.is_empty() {
        let waited = phrase::duration(limits.waited);
        let times = phrase::count(limits.times, "time");
        parts.push(format!("limits for {waited} ({times})"));
    }
    if parts.is_empty() {
        return None;
    }
    let line = Line::new(Tone::Quiet, "problems   ").with(Tone::Plain, parts.join(", "));
    Some(line.hanging(11))
}

/// A kind, its name for programs, and the sessions that had it, each with the place of its stage.
type OfKind = (Kind, &'static str, Vec<(Option<usize>, u32)>);

/// The sessions that had each kind of problem, with the places of their stages.
fn problems_by_kind(timeline: &Timeline, of: Option<&StageId>) -> Vec<OfKind> {
    let of_kind = |(kind, name)| {
        let all = timeline.problems.iter().filter(|one| one.kind == kind);
        let all = all.filter(|one| is_of(timeline, of, one.stage));
        let sessions: Vec<_> = all
            .filter_map(|one| Some((one.stage, one.session?)))
            .collect();
        (!sessions.is_empty()).then_some((kind, name, sessions))
    };
    SHOWN.into_iter().filter_map(of_kind).collect()
}

fn is_of(timeline: &Timeline, of: Option<&StageId>, place: Option<usize>) -> bool {
    let stage = place.and_then(|at| timeline.stages.get(at));
    of.is_none_or(|of| stage.is_some_and(|stage| stage.id == *of))
}

/// The usage limits that the run waited for.
struct Limits {
    sessions: Vec<u32>,
    waited: Millis,
    times: u64,
}

impl Limits {
    fn of(timeline: &Timeline, of: Option<&StageId>) -> Self {
        let waits = timeline.waits.iter();
        let waits = waits.filter(|wait| wait.cause == WaitCause::UsageLimit);
        let waits = waits.filter(|wait| is_of(timeline, of, Some(wait.stage)));
        let spans = waits
            .clone()
            .map(|wait| (wait.from, wait.over.unwrap_or(timeline.last)));
        let (waited, times) = together(spans);
        Self {
            sessions: waits.map(|wait| wait.session).collect(),
            waited,
            times,
        }
    }
}

/// How long these spans are and how many, by when they begin. Spans that overlap count as one: several stages waited for
/// the same limit.
fn together(spans: impl Iterator<Item = (Timestamp, Timestamp)>) -> (Millis, u64) {
    let (mut length, mut count, mut covered) = (0, 0, None);
    for (from, until) in spans {
        let begins = covered.map_or(from, |covered| from.max(covered));
        count += u64::from(covered.is_none_or(|covered| from > covered));
        length += until.since(begins).0;
        covered = covered.max(Some(until));
    }
    (Millis(length), count)
}

/// `(session 5)`, `(sessions 4, 9)`, `(session 2 of S03)`
fn named(mut sessions: Vec<String>) -> String {
    sessions.dedup();
    let plural = if sessions.len() == 1 { "" } else { "s" };
    let shown = &sessions[..sessions.len().min(SESSIONS_SHOWN_MAX)];
    let shown = shown.join(", ");
    match sessions.len().saturating_sub(SESSIONS_SHOWN_MAX) {
        0 => format!("(session{plural} {shown})"),
        more => format!("(session{plural} {shown} and {more} more)"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // shows: UIX-04
    #[test]
    fn many_sessions_are_named_in_part_and_each_once() {
        let named = |sessions: &[u32]| named(sessions.iter().map(u32::to_string).collect());
        assert_eq!(named(&[4]), "(session 4)");
        assert_eq!(named(&[4, 4]), "(session 4)");
        let many: Vec<u32> = (1..=12).collect();
        assert_eq!(named(&many), "(sessions 1, 2, 3, 4, 5, 6, 7, 8 and 4 more)");
    }

    // shows: UIX-04
    #[test]
    fn stages_that_wait_for_one_limit_wait_once() {
        let span = |from, until| (Timestamp(from), Timestamp(until));
        let spans = [span(10, 50), span(20, 40), span(30, 60), span(70, 80)];
        assert_eq!(together(spans.into_iter()), (Millis(60), 2));
        assert_eq!(together([].into_iter()), (Millis(0), 0));
    }
}
