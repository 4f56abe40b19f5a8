//! Messages to a person who is elsewhere: short, plain, and in ekiden's own words.
//!
//! A notice contains no text of an agent, a tool or a service, unless the user wants questions in it. Desktops
//! interpret markup in a notice, the programs that show it interpret options, and lock screens show it to everybody.
//! ekiden shows an agent's question where it runs, and keeps it in the log.

use serde::{Deserialize, Serialize};

use crate::effect::RelayEffect;
use crate::ids::SessionNumber;
use crate::judge::Warning;
use crate::markdown::without_bullet;
use crate::names::names;
use crate::outcome::{Outcome, WaitCause};
use crate::text;
use crate::time::Millis;

/// How much of a question a notice contains, in characters.
const QUESTION_CHARS_MAX: usize = 200;

/// The subject of a notice. People choose by it what reaches them, and where.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(rename_all = "snake_case")]
pub enum NoticeKind {
    /// Nothing continues until a person decides something.
    #[default]
    NeedsYou,
    /// A usage limit, a budget, or the last session that was allowed.
    Limit,
    /// The agent repeats itself, or nothing changes any more.
    Loop,
    Done,
    /// It cannot go on.
    Failed,
}

impl NoticeKind {
    fn of_end(outcome: &Outcome) -> Self {
        match outcome {
            Outcome::Complete { .. } => Self::Done,
            Outcome::StagesFailed { .. } if outcome.asks() => Self::NeedsYou,
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

names!(NoticeKind {
    NeedsYou: "needs_you",
    Limit: "limit",
    Loop: "loop",
    Done: "done",
    Failed: "failed",
});

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

/// The notice of a run's end. None if somebody stopped it: they know. `with_question` includes the question.
pub(crate) fn of_end(outcome: &Outcome, sessions: u32, with_question: bool) -> Option<Notice> {
    let about = NoticeKind::of_end(outcome);
    let is_asked = matches!(outcome, Outcome::Stopped { .. });
    (!is_asked).then(|| Notice {
        about,
        text: text_of_end(outcome, sessions, with_question),
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
        let words: Vec<&str> = without_bullet(question).split_whitespace().collect();
        let question = text::clean(&words.join(" ")).text;
        let question = text::short(&question, QUESTION_CHARS_MAX);
        return format!("blocked: {question}");
    }
    let (failed, why) = outcome.brief();
    let how = match failed {
        true => "failed",
        false if outcome.asks() => "blocked",
        false => "stopped",
    };
    format!("{how}: {why}")
}

/// The notice of a wait that a person may want to know of.
pub(crate) fn of_wait(cause: WaitCause, length: Millis, session: SessionNumber) -> Option<Notice> {
    (cause == WaitCause::UsageLimit).then(|| Notice {
        about: NoticeKind::Limit,
        text: format!("usage limit reached: session {session} continues in {length}"),
    })
}

/// The notice of the first repeat. The next repeats follow at once, and the run's end has its own notice.
pub(crate) fn of_warning(warning: &Warning) -> Option<Notice> {
    let Warning::Repeated {
        session, repeat, ..
    } = warning
    else {
        return None;
    };
    (repeat.in_a_row == 1).then(|| Notice {
        about: NoticeKind::Loop,
        text: format!(
            "session {session} repeated the handoff of session {} and nothing changed",
            repeat.of
        ),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::StageId;
    use crate::outcome::StageFailed;

    // shows: UIX-10
    #[test]
    fn a_plan_that_only_waits_for_answers_needs_you() {
        let ended = |outcome| {
            let failed = vec![StageFailed {
                stage: StageId::only(),
                outcome: Box::new(outcome),
            }];
            let notice = of_end(&Outcome::StagesFailed { failed, blocked: 0 }, 2, true);
            notice.map(|notice| (notice.about, notice.text)).unwrap()
        };
        let question = "Which?".to_owned();
        let (about, text) = ended(Outcome::Blocked { question });
        assert_eq!(about, NoticeKind::NeedsYou);
        assert_eq!(text, "blocked: stages need your input");
        assert_eq!(ended(Outcome::SessionLimit).0, NoticeKind::Failed);
    }

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
