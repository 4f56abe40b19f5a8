//! The line at the end of a run that says what went wrong, how often, and in which sessions.
//!
//! What ekiden is made for is not a problem: a handoff, a verification that fails before the work is done,
//! a pause that the user wants.

use ekiden_core::outcome::WaitCause;
use ekiden_core::time::Millis;
use ekiden_report::Timeline;
use ekiden_report::timeline::Kind;

use super::json::{Fields, fields};
use super::line::{Line, Tone};
use super::phrase;

/// How many sessions are named of each kind; `--json` names them all.
const SESSIONS_SHOWN_MAX: usize = 8;

/// The kinds that are shown, in order, with their names for programs. The others are in the report.
const TOLD: [(Kind, &str); 14] = [
    (Kind::Crash, "crashes"),
    (Kind::Lost, "lost"),
    (Kind::Rescue, "rescues"),
    (Kind::Veto, "vetoes"),
    (Kind::Idle, "idle"),
    (Kind::ItemsVanished, "items_vanished"),
    (Kind::SetAside, "set_aside"),
    (Kind::TestsWeakened, "tests_weakened"),
    (Kind::TestsUnread, "tests_unread"),
    (Kind::CommitsDropped, "commits_dropped"),
    (Kind::Caution, "cautions"),
    (Kind::Uncommitted, "uncommitted"),
    (Kind::Compaction, "compactions"),
    (Kind::Outage, "outages"),
];

/// The field for programs: a session appears as often as it had the problem. `None` if there is nothing to
/// report.
pub fn json(timeline: &Timeline) -> Option<Fields> {
    let told = told(timeline);
    let mut trouble = Fields::default();
    for (_, name, sessions) in &told {
        trouble = trouble.with(name, sessions);
    }
    let limits = Limits::of(timeline);
    if !limits.sessions.is_empty() {
        trouble = trouble
            .with("limits", &limits.sessions)
            .with("limits_ms", limits.waited);
    }
    (!told.is_empty() || !limits.sessions.is_empty()).then(|| fields! { "trouble": trouble })
}

/// The line, if there is something to report.
pub fn line(timeline: &Timeline) -> Option<Line> {
    let told = told(timeline);
    let mut parts: Vec<String> = told
        .iter()
        .map(|(kind, _, sessions)| format!("{} {}", kind.count(sessions.len()), named(sessions)))
        .collect();
    // The meaning of the numbers is given once.
    for part in parts.iter_mut().skip(1) {
        *part = part
            .replacen("(sessions ", "(", 1)
            .replacen("(session ", "(", 1);
    }
    let limits = Limits::of(timeline);
    if !limits.sessions.is_empty() {
        let waited = phrase::duration(limits.waited);
        let times = phrase::count(limits.sessions.len() as u64, "time");
        parts.push(format!("waited {waited} for limits ({times})"));
    }
    if parts.is_empty() {
        return None;
    }
    let line = Line::new(Tone::Quiet, "trouble    ").with(Tone::Plain, parts.join(", "));
    Some(line.hanging(11))
}

fn told(timeline: &Timeline) -> Vec<(Kind, &'static str, Vec<u32>)> {
    let of_kind = |(kind, name)| {
        let all = timeline.problems.iter().filter(|one| one.kind == kind);
        let sessions: Vec<u32> = all.filter_map(|one| one.session).collect();
        (!sessions.is_empty()).then_some((kind, name, sessions))
    };
    TOLD.into_iter().filter_map(of_kind).collect()
}

/// The usage limits that the run waited for.
struct Limits {
    sessions: Vec<u32>,
    waited: Millis,
}

impl Limits {
    fn of(timeline: &Timeline) -> Self {
        let waits = timeline.waits.iter();
        let waits = waits.filter(|wait| wait.cause == WaitCause::UsageLimit);
        let lengths = waits
            .clone()
            .map(|wait| wait.over.unwrap_or(wait.until).since(wait.from).0);
        Self {
            waited: Millis(lengths.sum()),
            sessions: waits.map(|wait| wait.session).collect(),
        }
    }
}

/// `(session 5)`, `(sessions 4, 9)`
fn named(of: &[u32]) -> String {
    let mut sessions = of.to_vec();
    sessions.dedup();
    let plural = if sessions.len() == 1 { "" } else { "s" };
    let shown = sessions.iter().take(SESSIONS_SHOWN_MAX);
    let shown = shown.map(u32::to_string).collect::<Vec<_>>().join(", ");
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
        assert_eq!(named(&[4]), "(session 4)");
        assert_eq!(named(&[4, 4]), "(session 4)");
        let many: Vec<u32> = (1..=12).collect();
        assert_eq!(named(&many), "(sessions 1, 2, 3, 4, 5, 6, 7, 8 and 4 more)");
    }
}
