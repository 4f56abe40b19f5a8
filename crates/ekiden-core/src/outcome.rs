//! How a relay, and so a run, can end.

use serde::{Deserialize, Serialize};

use crate::budget::{Budget, Spend};
use crate::ends::EndCause;
use crate::event::StopRequest;
use crate::ids::StageId;
use crate::time::Timestamp;

/// How a run ended. All but [`Outcome::Complete`] can be carried on by `ekiden resume`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Outcome {
    /// Done.
    Complete {
        /// The verification says so too.
        verified: bool,
    },
    /// A person is needed.
    Blocked {
        /// What for, in the agent's words.
        question: String,
    },
    /// All sessions are used.
    SessionLimit,
    /// Somebody stopped it.
    Stopped {
        /// How.
        request: StopRequest,
    },
    /// A usage limit resets later than the user wants to wait.
    LimitTooFar {
        /// When it resets.
        until: Timestamp,
    },
    /// A usage limit is reached, and the user does not want to wait for any.
    RateLimited {
        /// When it resets, with a buffer.
        until: Timestamp,
    },
    /// The run's budget is spent, or too little of it is left for a session.
    BudgetSpent {
        /// What was spent.
        spent: Spend,
        /// What may be spent.
        budget: Budget,
    },
    /// The first response of a session already filled its window beyond L2: sessions would hand off
    /// for ever without doing anything.
    WindowTooFull {
        /// The context of that response, in tokens.
        usage_tokens: u64,
        /// What filled it, in tokens, largest first.
        filled_by: Vec<(String, u64)>,
    },
    /// The agent cannot work, and trying again would not help.
    AgentFailed {
        /// Why.
        cause: EndCause,
    },
    /// The agent leaves the same handoff again and again, and nothing moves.
    Stuck {
        /// Comparisons in a row that came out so.
        repeats: u32,
        /// How much of the last notes is the same.
        percent: u8,
    },
    /// Nothing moved: neither tree nor verification nor open items.
    Stalled {
        /// In so many sessions in a row.
        sessions: u32,
    },
    /// A session was refused what it needed, and changed nothing.
    Denied {
        /// The rules that would have let it work, in the agent's own form.
        rules: Vec<String>,
    },
    /// Too many sessions in a row crashed.
    TooManyCrashes {
        /// The last cause.
        cause: EndCause,
    },
    /// A stage has no ground to work on.
    NoGround {
        /// Why.
        why: String,
    },
    /// Git refuses to merge what a stage did.
    NotMerged {
        /// Why.
        why: String,
    },
    /// What a stage did does not go together with what others did.
    Unmerged {
        /// The files that are in conflict; none if only the validation fails.
        files: Vec<String>,
    },
    /// A stage that the user takes for done is not.
    NotDone {
        /// What says so.
        why: String,
    },
    /// Stages of a plan failed; what does not need them is done.
    StagesFailed {
        /// Which, and how, in the order of the manifest.
        failed: Vec<StageFailed>,
        /// How many others need them.
        blocked: u32,
    },
}

/// A stage that failed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StageFailed {
    /// Which.
    pub stage: StageId,
    /// How its last try ended.
    pub outcome: Box<Outcome>,
}

impl Outcome {
    /// The goal is reached: there is nothing to resume.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        matches!(self, Self::Complete { .. })
    }
}
