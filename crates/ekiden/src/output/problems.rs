//! What went wrong in a run, in a line at its end: how often, and in which sessions.
//!
//! What ekiden is there for is no problem: a handoff, a verification that fails before the work is done,
//! the pause that a user wants.

use std::collections::BTreeMap;

use ekiden_core::time::{Millis, Timestamp};
use serde::Serialize;

use super::json::{Fields, fields};
use super::line::{Line, Tone};
use super::phrase;

/// Sessions named of each kind; `--json` names them all.
const SESSIONS_SHOWN_MAX: usize = 8;

/// The kinds, in the order in which they are shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Problem {
    /// The agent did not survive an attempt, or it came to nothing.
    Crashes,
    /// An attempt ended because ekiden itself was killed.
    Lost,
    /// ekiden wrote the handoff, since there was none.
    Rescues,
    /// The verification did not bear out that all was done.
    Vetoes,
    Idle,
    /// Open items vanished without a tick.
    ItemsVanished,
    /// Tests said less than before.
    TestsWeakened,
    /// Notes look as if somebody wanted to steer an agent.
    Cautions,
    /// The session could not be committed.
    Uncommitted,
    /// The agent summarised its conversation: the handoff came too late.
    Compactions,
    /// A failure of the service was waited out.
    Outages,
    /// A usage limit was waited for.
    Limits,
}

/// The problems so far, each with its sessions: a session as often as it happened in it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Problems {
    #[serde(flatten)]
    sessions: BTreeMap<Problem, Vec<u32>>,
    /// How long limits were waited for.
    #[serde(rename = "limits_ms", skip_serializing_if = "Option::is_none")]
    limited: Option<Millis>,
    /// Until when a limit is waited for.
    #[serde(skip)]
    until: Option<Timestamp>,
}

impl Problems {
    pub fn add(&mut self, problem: Problem, session: u32) {
        self.sessions.entry(problem).or_default().push(session);
    }

    /// A limit is waited for. The same wait may be reported again, after a resume.
    pub fn wait_for_limit(&mut self, at: Timestamp, until: Timestamp, session: u32) {
        if self.until != Some(until) {
            self.add(Problem::Limits, session);
            let before = self.limited.unwrap_or_default().0;
            self.limited = Some(Millis(before.saturating_add(until.since(at).0)));
            self.until = Some(until);
        }
    }

    /// The run ends: what is left of a wait is not waited.
    pub fn end(&mut self, at: Timestamp) {
        if let (Some(limited), Some(until)) = (&mut self.limited, self.until.take()) {
            limited.0 = limited.0.saturating_sub(until.since(at).0);
        }
    }

    /// The field for programs; none where there is nothing to say.
    pub fn json(&self) -> Option<Fields> {
        (!self.sessions.is_empty()).then(|| fields! { "trouble": self })
    }

    /// The line, if there is something to say.
    pub fn line(&self) -> Option<Line> {
        let all = self.sessions.iter();
        let mut parts: Vec<String> = all
            .map(|(problem, sessions)| self.in_words(*problem, sessions))
            .collect();
        if parts.is_empty() {
            return None;
        }
        // What the numbers are is said once.
        for part in parts.iter_mut().skip(1) {
            *part = part
                .replacen("(sessions ", "(", 1)
                .replacen("(session ", "(", 1);
        }
        let line = Line::new(Tone::Quiet, "trouble    ").with(Tone::Plain, parts.join(", "));
        Some(line.hanging(11))
    }

    fn in_words(&self, problem: Problem, sessions: &[u32]) -> String {
        let (one, more) = match problem {
            Problem::Crashes => ("crash", "crashes"),
            Problem::Lost => ("kill of ekiden", "kills of ekiden"),
            Problem::Rescues => ("rescue", "rescues"),
            Problem::Vetoes => ("veto", "vetoes"),
            Problem::Idle => ("session without progress", "sessions without progress"),
            Problem::Uncommitted => ("session not committed", "sessions not committed"),
            Problem::Compactions => ("compaction", "compactions"),
            Problem::Outages => ("outage of the service", "outages of the service"),
            Problem::ItemsVanished => return format!("items removed unticked {}", named(sessions)),
            Problem::TestsWeakened => return format!("weakened tests {}", named(sessions)),
            Problem::Cautions => return format!("suspicious notes {}", named(sessions)),
            Problem::Limits => {
                let waited = phrase::duration(self.limited.unwrap_or_default());
                let times = phrase::count(sessions.len() as u64, "time");
                return format!("waited {waited} for limits ({times})");
            }
        };
        let what = if sessions.len() == 1 { one } else { more };
        format!("{} {what} {}", sessions.len(), named(sessions))
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
    fn problems_are_summed_up_with_their_sessions() {
        let mut problems = Problems::default();
        let at = |secs: u64| Timestamp(secs * 1000);
        problems.add(Problem::Rescues, 4);
        problems.add(Problem::Rescues, 9);
        problems.wait_for_limit(at(0), at(3600), 5);
        problems.wait_for_limit(at(10), at(3600), 5);
        problems.wait_for_limit(at(4000), at(4720), 8);
        problems.add(Problem::Outages, 8);
        let line = problems.line().unwrap().plain();
        let json = serde_json::to_string(&problems).unwrap();
        expect_test::expect![[r#"
            trouble    2 rescues (sessions 4, 9), 1 outage of the service (8), waited 1h 12m for limits (2 times)
            {"rescues":[4,9],"outages":[8],"limits":[5,8],"limits_ms":4320000}
        "#]].assert_eq(&format!("{line}\n{json}\n"));
        problems.end(at(4120));
        assert!(problems.line().unwrap().plain().contains("waited 1h 2m"));
    }

    // shows: UIX-04
    #[test]
    fn a_run_without_problems_says_nothing() {
        assert_eq!(Problems::default().line(), None);
    }

    // shows: UIX-04
    #[test]
    fn many_sessions_are_named_in_part() {
        let mut problems = Problems::default();
        (1..=12).for_each(|session| problems.add(Problem::Rescues, session));
        assert_eq!(
            problems.line().unwrap().plain(),
            "trouble    12 rescues (sessions 1, 2, 3, 4, 5, 6, 7, 8 and 4 more)"
        );
    }
}
