//! What a person who is elsewhere is told: short, plain, and in ekiden's own words.
//!
//! No word of an agent, a tool or a service stands in a notice, unless the user wants questions there. Desktops read markup in them, programs
//! that show them read options, and lock screens show them to everybody. What an agent asks is told
//! where ekiden runs, and kept in the log.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::effect::RelayEffect;
use crate::ids::SessionNumber;
use crate::judge::Warning;
use crate::outcome::{Outcome, WaitCause};
use crate::text;
use crate::time::Millis;

/// Characters of a question that a notice holds.
const QUESTION_CHARS_MAX: usize = 200;

/// What a notice is about, by which people choose what reaches them and where.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(rename_all = "snake_case")]
pub enum NoticeKind {
    /// Nothing goes on until a person decides something.
    #[default]
    NeedsYou,
    /// A usage limit, a budget, or the last session that was allowed.
    Limit,
    /// The agent repeats itself, or nothing changes any more.
    Loop,
    /// All is done.
    Done,
    /// It cannot go on.
    Failed,
}

impl NoticeKind {
    pub const ALL: [Self; 5] = [
        Self::NeedsYou,
        Self::Limit,
        Self::Loop,
        Self::Done,
        Self::Failed,
    ];

    pub fn name(self) -> &'static str {
        match self {
            Self::NeedsYou => "needs_you",
            Self::Limit => "limit",
            Self::Loop => "loop",
            Self::Done => "done",
            Self::Failed => "failed",
        }
    }

    fn of_end(outcome: &Outcome) -> Self {
        match outcome {
            Outcome::Complete { .. } => Self::Done,
            Outcome::Undelivered { .. }
            | Outcome::Blocked { .. }
            | Outcome::Denied { .. }
            | Outcome::Stopped { .. } => Self::NeedsYou,
            Outcome::SessionLimit
            | Outcome::LimitTooFar { .. }
            | Outcome::RateLimited { .. }
            | Outcome::BudgetSpent { .. } => Self::Limit,
            Outcome::Stuck { .. } | Outcome::Stalled { .. } => Self::Loop,
            Outcome::WindowTooFull { .. }
            | Outcome::NoCheck { .. }
            | Outcome::AgentFailed { .. }
            | Outcome::TooManyCrashes { .. }
            | Outcome::NoWorktree { .. }
            | Outcome::NotMerged { .. }
            | Outcome::Unmerged { .. }
            | Outcome::NotDone { .. }
            | Outcome::StagesFailed { .. } => Self::Failed,
        }
    }
}

impl fmt::Display for NoticeKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for NoticeKind {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let named = Self::ALL.into_iter().find(|kind| kind.name() == text);
        named.ok_or(())
    }
}

/// What is told, and what it is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Notice {
    about: NoticeKind,
    text: String,
}

impl Notice {
    pub(crate) fn effect(self) -> RelayEffect {
        let Self { about, text } = self;
        RelayEffect::Notify { about, text }
    }
}

/// The notice of a run's end. Nothing if somebody stopped it: they know. `with_question` shows what is asked.
pub(crate) fn of_end(outcome: &Outcome, sessions: u32, with_question: bool) -> Option<Notice> {
    let about = NoticeKind::of_end(outcome);
    let is_asked = matches!(outcome, Outcome::Stopped { .. });
    let text = || text_of_end(outcome, sessions, with_question);
    (!is_asked).then(|| Notice {
        about,
        text: text(),
    })
}

fn text_of_end(outcome: &Outcome, sessions: u32, with_question: bool) -> String {
    let plural = if sessions == 1 { "" } else { "s" };
    if let Outcome::Complete { verified } | Outcome::Undelivered { verified, .. } = outcome {
        let how = if *verified {
            "verified complete"
        } else {
            "complete (not verified)"
        };
        let rest = match outcome.is_delivered() {
            true => "",
            false => ", not delivered",
        };
        return format!("{how} after {sessions} session{plural}{rest}");
    }
    if let Outcome::Blocked { question } = outcome
        && with_question
    {
        let words: Vec<&str> = question.split_whitespace().collect();
        let question = text::clean(&words.join(" ")).text;
        let question = text::short(&question, QUESTION_CHARS_MAX);
        return format!("blocked: {question}");
    }
    let (failed, why) = outcome.brief();
    let how = match failed {
        true => "failed",
        false if matches!(outcome, Outcome::Blocked { .. }) => "blocked",
        false => "stopped",
    };
    format!("{how}: {why}")
}

/// The notice of a wait that a person may want to know of.
pub(crate) fn of_wait(cause: WaitCause, length: Millis, session: SessionNumber) -> Option<Notice> {
    match cause {
        WaitCause::UsageLimit => Some(Notice {
            about: NoticeKind::Limit,
            text: format!("usage limit reached: session {session} continues in {length}"),
        }),
        WaitCause::Failure
        | WaitCause::Pause
        | WaitCause::QuietHours
        | WaitCause::Guided
        | WaitCause::Budget => None,
    }
}

/// The notice of the first repeat. The next ones follow at once, and then the run ends, which is told.
pub(crate) fn of_warning(warning: &Warning) -> Option<Notice> {
    match warning {
        Warning::Repeated {
            session, repeat, ..
        } if repeat.in_a_row == 1 => Some(Notice {
            about: NoticeKind::Loop,
            text: format!(
                "session {session} repeated the handoff of session {} and nothing changed",
                repeat.of
            ),
        }),
        Warning::Repeated { .. }
        | Warning::Idle { .. }
        | Warning::ItemsVanished { .. }
        | Warning::ItemSetAside { .. }
        | Warning::TestsWeakened { .. }
        | Warning::KnowledgeCut { .. } => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // shows: UIX-10
    #[test]
    fn a_kind_is_called_the_same_everywhere() {
        for kind in NoticeKind::ALL {
            assert_eq!(kind.name().parse(), Ok(kind));
            assert_eq!(serde_json::to_value(kind).unwrap(), kind.name());
        }
        assert!("all".parse::<NoticeKind>().is_err());
    }
}
