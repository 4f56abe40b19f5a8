//! What went wrong in a run, in a line or two at its end: how often, and in which sessions.
//!
//! Folded from the news, so it says nothing that was not told when it happened. What ekiden is there for
//! is no trouble: a handoff, a verification that fails before the work is done, the pause that a user
//! wants.

use std::fmt::Write as _;

use ekiden_core::ends::{EndCause, EndClass};
use ekiden_core::event::Commit;
use ekiden_core::judge::Warning;
use ekiden_core::relay::WaitCause;
use ekiden_core::time::{Millis, Timestamp};
use serde::Serialize;

use super::line::{Line, Tone};
use super::news::{AttemptNews, Left, News};
use super::phrase;

/// Sessions named of each kind of trouble; `--json` names them all.
const SESSIONS_TOLD_MAX: usize = 8;

/// What went wrong so far. Each list holds a session as often as it happened in it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Trouble {
    /// Attempts that the agent did not survive, or that came to nothing.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub crashes: Vec<u32>,
    /// Attempts that ended because ekiden itself was killed.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub lost: Vec<u32>,
    /// Handoffs that ekiden wrote, since there was none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub rescues: Vec<u32>,
    /// Claims to be done that the verification did not bear out.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub vetoes: Vec<u32>,
    /// Sessions that moved nothing.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub idle: Vec<u32>,
    /// Sessions in which open items vanished without a tick.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub items_vanished: Vec<u32>,
    /// Sessions after which tests said less than before.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tests_weakened: Vec<u32>,
    /// Sessions whose notes look as if somebody wanted to steer an agent.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub cautions: Vec<u32>,
    /// Sessions that could not be committed.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub uncommitted: Vec<u32>,
    /// Waits for usage limits.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub limits: Vec<u32>,
    /// How long they were.
    #[serde(rename = "limits_ms", skip_serializing_if = "is_zero")]
    pub limited: Millis,
    /// Conversations that the agent summarised: the handoff came too late.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub compactions: Vec<u32>,
    /// Failures of the service that were waited out.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub outages: Vec<u32>,
    /// Until when a limit is waited for.
    #[serde(skip)]
    until: Option<Timestamp>,
}

impl Trouble {
    /// Takes in what is told next.
    pub fn take(&mut self, at: Timestamp, news: &News) {
        match news {
            News::AttemptEnded(attempt) => self.attempt_ended(attempt),
            News::Compacted { session, .. } => self.compactions.push(*session),
            News::Rescue { session, .. } => self.rescues.push(*session),
            News::Check { session, veto: true, .. } => self.vetoes.push(*session),
            News::Commit { session, result: Commit::Failed { .. } } => self.uncommitted.push(*session),
            News::Judged(warning) => self.judged(warning),
            News::Waiting { until, why: WaitCause::UsageLimit, session, .. }
                if self.until != Some(*until) =>
            {
                self.limits.push(*session);
                self.limited.0 = self.limited.0.saturating_add(until.since(at).0);
                self.until = Some(*until);
            }
            News::Waiting { why: WaitCause::Failure, cause: Some(cause), session, .. }
                if cause.class() == EndClass::Wait =>
            {
                self.outages.push(*session);
            }
            News::RunEnded(_) => *self = self.clone().at_end(at),
            News::Stage(_)
            | News::Delivered(_)
            | News::RunStarted(_)
            | News::RunResumed { .. }
            | News::RunContinued { .. }
            | News::TaskChanged { .. }
            | News::LogicChanged { .. }
            | News::StopRequested { .. }
            | News::PauseRequested { .. }
            | News::Paused { .. }
            | News::Unpaused
            | News::Instructed { .. }
            | News::LimitsChanged { .. }
            | News::FirstCheck { .. }
            | News::SessionStarted { .. }
            | News::Window(_)
            | News::Level { .. }
            | News::WindowFull(_)
            | News::Spend(_)
            | News::Handoff(_)
            | News::Check { .. }
            | News::Commit { .. }
            | News::SurveyFailed { .. }
            | News::Waiting { .. }
            | News::KnowledgeEdited { .. }
            | News::Warning { .. } => {}
        }
    }

    /// The same where the run ends now: the rest of a wait that is broken off is not waited.
    #[must_use]
    pub fn at_end(mut self, at: Timestamp) -> Self {
        let rest = self.until.take().map_or(Millis(0), |until| until.since(at));
        self.limited.0 = self.limited.0.saturating_sub(rest.0);
        self
    }

    /// Nothing went wrong.
    #[must_use]
    pub fn is_none(&self) -> bool {
        self.parts().is_empty()
    }

    /// The line, if there is something to say.
    #[must_use]
    pub fn line(&self) -> Option<Line> {
        let parts = self.parts().join(", ");
        let line = Line::new(Tone::Quiet, "trouble    ").with(Tone::Plain, parts).hanging(11);
        (!self.is_none()).then_some(line)
    }

    fn attempt_ended(&mut self, attempt: &AttemptNews) {
        if !attempt.cautions.is_empty() {
            self.cautions.push(attempt.session);
        }
        match (attempt.left, &attempt.cause) {
            (Left::Nothing, EndCause::EngineLost) => self.lost.push(attempt.session),
            (Left::Nothing, cause) if cause.class() == EndClass::Retry => self.crashes.push(attempt.session),
            (Left::Nothing | Left::Handoff | Left::Completion | Left::Question, _) => {}
        }
    }

    fn judged(&mut self, warning: &Warning) {
        match warning {
            Warning::Idle { session, .. } => self.idle.push(session.get()),
            Warning::ItemsVanished { session, .. } => self.items_vanished.push(session.get()),
            Warning::TestsWeakened { session, .. } => self.tests_weakened.push(session.get()),
            Warning::Repeated { .. } | Warning::KnowledgeCut { .. } => {}
        }
    }

    fn parts(&self) -> Vec<String> {
        let kinds: [Kind<'_>; 11] = [
            (&self.crashes, |of| counted(of, "crash", "crashes")),
            (&self.lost, |of| counted(of, "kill of ekiden", "kills of ekiden")),
            (&self.rescues, |of| counted(of, "rescue", "rescues")),
            (&self.vetoes, |of| counted(of, "veto", "vetoes")),
            (&self.idle, |of| counted(of, "session without progress", "sessions without progress")),
            (&self.items_vanished, |of| format!("items gone without a tick {}", named(of))),
            (&self.tests_weakened, |of| format!("tests that say less {}", named(of))),
            (&self.cautions, |of| format!("notes to look at {}", named(of))),
            (&self.uncommitted, |of| counted(of, "session not committed", "sessions not committed")),
            (&self.compactions, |of| counted(of, "compaction", "compactions")),
            (&self.outages, |of| counted(of, "outage of the service", "outages of the service")),
        ];
        let of_kinds = kinds.into_iter().filter(|(of, _)| !of.is_empty()).map(|(of, text)| text(of));
        let times = phrase::count(self.limits.len() as u64, "time");
        let waited = format!("waited {} for limits ({times})", phrase::duration(self.limited));
        let mut parts: Vec<String> = of_kinds.chain((!self.limits.is_empty()).then_some(waited)).collect();
        // What the numbers are is said once.
        for part in parts.iter_mut().skip(1) {
            *part = part.replacen("(sessions ", "(", 1).replacen("(session ", "(", 1);
        }
        parts
    }
}

/// A kind of trouble: the sessions that had it, and the words for them.
type Kind<'a> = (&'a [u32], fn(&[u32]) -> String);

/// As serde asks it.
#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands a reference")]
fn is_zero(length: &Millis) -> bool {
    *length == Millis(0)
}

fn counted(of: &[u32], one: &str, more: &str) -> String {
    let what = if of.len() == 1 { one } else { more };
    format!("{} {what} {}", of.len(), named(of))
}

/// `(session 5)`, `(sessions 4, 9)`
fn named(of: &[u32]) -> String {
    let mut sessions = of.to_vec();
    sessions.dedup();
    let shown: Vec<String> = sessions.iter().take(SESSIONS_TOLD_MAX).map(u32::to_string).collect();
    let mut text = format!("(session{} {}", if sessions.len() == 1 { "" } else { "s" }, shown.join(", "));
    if let more @ 1.. = sessions.len().saturating_sub(SESSIONS_TOLD_MAX) {
        // Writing into a string cannot fail.
        let _ = write!(text, " and {more} more");
    }
    text + ")"
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(news: &[(u64, News)]) -> (String, String) {
        let mut trouble = Trouble::default();
        news.iter().for_each(|(at, news)| trouble.take(Timestamp(at * 1000), news));
        let line = trouble.line().map(|line| line.plain()).unwrap_or_default();
        (line, serde_json::to_string(&trouble).unwrap())
    }

    fn waiting(until: u64, why: WaitCause, session: u32) -> News {
        let until = Timestamp(until * 1000);
        News::Waiting { until, why, cause: Some(EndCause::ServerError), session, attempt: 2 }
    }

    // shows: UIX-04
    #[test]
    fn trouble_is_summed_up_with_its_sessions() {
        let rescue = |session| News::Rescue { session, cause: EndCause::Completed };
        let (line, json) = told(&[
            (0, rescue(4)),
            (0, rescue(9)),
            (0, waiting(3600, WaitCause::UsageLimit, 5)),
            (10, waiting(3600, WaitCause::UsageLimit, 5)),
            (4000, waiting(4720, WaitCause::UsageLimit, 8)),
            (5000, waiting(5010, WaitCause::Failure, 8)),
        ]);
        expect_test::expect![[r#"
            trouble    2 rescues (sessions 4, 9), 1 outage of the service (8), waited 1h 12m for limits (2 times)
            {"rescues":[4,9],"limits":[5,8],"limits_ms":4320000,"outages":[8]}
        "#]].assert_eq(&format!("{line}\n{json}\n"));
    }

    // shows: UIX-04
    #[test]
    fn a_run_without_trouble_says_nothing() {
        let pause = waiting(10, WaitCause::Pause, 2);
        assert_eq!(told(&[(0, pause), (10, News::Unpaused)]), (String::new(), "{}".to_owned()));
    }

    // shows: UIX-04
    #[test]
    fn many_sessions_are_named_in_part() {
        let news: Vec<(u64, News)> =
            (1..=12).map(|session| (0, News::Rescue { session, cause: EndCause::Completed })).collect();
        let (line, _) = told(&news);
        assert_eq!(line, "trouble    12 rescues (sessions 1, 2, 3, 4, 5, 6, 7, 8 and 4 more)");
    }
}
