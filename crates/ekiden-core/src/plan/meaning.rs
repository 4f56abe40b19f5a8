//! What the end of a relay means for its stage, and for the plan.

use crate::outcome::Outcome;

/// What the end of a relay means for its stage.
pub(super) enum Meaning {
    Done,
    /// The whole run cannot continue.
    Halt,
    Failed,
    /// A retry would fail in the same way.
    FailedForGood,
}

pub(super) fn meaning(outcome: &Outcome) -> Meaning {
    match outcome {
        Outcome::Complete { .. } | Outcome::Undelivered { .. } => Meaning::Done,
        // Every other relay would end in the same way, or every one with the same agent.
        Outcome::Stopped { .. }
        | Outcome::LimitTooFar { .. }
        | Outcome::RateLimited { .. }
        | Outcome::BudgetSpent { .. }
        | Outcome::AgentFailed { .. } => Meaning::Halt,
        Outcome::SessionLimit
        | Outcome::Stuck { .. }
        | Outcome::Stalled { .. }
        | Outcome::TooManyCrashes { .. } => Meaning::Failed,
        Outcome::Blocked { .. }
        | Outcome::WindowTooFull { .. }
        | Outcome::NoCheck { .. }
        | Outcome::Denied { .. }
        | Outcome::NoWorktree { .. }
        | Outcome::NotMerged { .. }
        | Outcome::Unmerged { .. }
        | Outcome::NotDone { .. }
        | Outcome::StagesFailed { .. } => Meaning::FailedForGood,
    }
}
