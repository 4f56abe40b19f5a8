//! What is said of a session that is over, beside its end: warnings that follow from the log.

use ekiden_core::judge::{Repeat, Warning, WeakenedTest, Weakening};

use super::line::{Line, Tone, one_line};
use super::phrase;

/// Weakened tests that are named; `--json` names them all.
const TESTS_TOLD_MAX: usize = 8;

/// The lines of a warning.
#[must_use]
pub fn lines(warning: &Warning) -> Vec<Line> {
    match warning {
        Warning::Repeated { session, repeat: Repeat { of, percent, in_a_row }, repeats_max } => {
            let repeats = format!("session {session}'s handoff repeats session {of}'s");
            vec![match in_a_row {
                0 => Line::new(Tone::Quiet, format!("  {repeats} ({percent}% alike), but the work moves")),
                _ => Line::attention(format!(
                    "{repeats} ({percent}% alike, nothing else changed): {in_a_row} of {repeats_max}"
                )),
            }]
        }
        Warning::Idle { session, in_a_row, sessions_max } => vec![Line::attention(format!(
            "session {session} changed neither tree nor verification nor open items: {in_a_row} of {sessions_max}"
        ))],
        Warning::ItemsVanished { session, items, count } => vec![vanished(session.get(), items, *count)],
        Warning::TestsWeakened { tests, .. } => weakened(tests),
        Warning::KnowledgeCut { left_out, facts } => {
            let facts = phrase::count(*facts as u64, "fact");
            vec![Line::attention(format!(
                "{left_out} of {facts} have no room in a prompt; `ekiden knowledge edit` makes room"
            ))]
        }
    }
}

/// The session that a warning is about, if it is about one.
#[must_use]
pub fn session(warning: &Warning) -> Option<u32> {
    match warning {
        Warning::Repeated { session, .. }
        | Warning::Idle { session, .. }
        | Warning::ItemsVanished { session, .. }
        | Warning::TestsWeakened { session, .. } => Some(session.get()),
        Warning::KnowledgeCut { .. } => None,
    }
}

fn vanished(session: u32, items: &[String], count: usize) -> Line {
    let named: Vec<String> = items.iter().map(|item| one_line(item)).collect();
    let more =
        if count > items.len() { format!("; and {} more", count - items.len()) } else { String::new() };
    let items = phrase::count(count as u64, "item");
    Line::attention(format!("{items} gone without a tick in session {session}: {}{more}", named.join("; ")))
}

fn weakened(tests: &[WeakenedTest]) -> Vec<Line> {
    let head = "the verification passes, but tests say less than before the run:";
    let mut lines = vec![Line::attention(head)];
    lines.extend(tests.iter().take(TESTS_TOLD_MAX).map(|test| {
        Line::new(Tone::Plain, format!("    {}", one_line(&test.path)))
            .with(Tone::Attention, format!("  {}", how(test.how)))
    }));
    let more = tests.len().saturating_sub(TESTS_TOLD_MAX);
    if more > 0 {
        lines.push(Line::new(Tone::Quiet, format!("    and {more} more")));
    }
    lines
}

fn how(how: Weakening) -> String {
    match how {
        Weakening::Deleted => "deleted".to_owned(),
        Weakening::Skipped { marks } => {
            format!("{} to skip or narrow tests", phrase::count(marks.into(), "mark"))
        }
        Weakening::FewerTests { by } => format!("{} fewer", phrase::count(by.into(), "test")),
        Weakening::FewerAssertions { by } => format!("{} fewer", phrase::count(by.into(), "assertion")),
        Weakening::FewerRuns { by } => format!("{} fewer", phrase::count(by.into(), "test run")),
    }
}
