//! How a relay, and so a run, can end.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::budget::{AgentBudget, Budget, Spend};
use crate::ends::EndCause;
use crate::ids::StageId;
use crate::steering::StopRequest;
use crate::time::Timestamp;

/// How a run ended. `ekiden resume` can continue a run unless the outcome is [final](Outcome::is_final).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Outcome {
    Complete {
        /// The verification confirms it.
        verified: bool,
    },
    /// Everything is done, and the user's own branch was left as it is.
    Undelivered {
        verified: bool,
        /// The command that gets the result.
        command: String,
    },
    Blocked {
        /// What is needed, in the agent's words.
        question: String,
    },
    SessionLimit,
    Stopped {
        request: StopRequest,
    },
    /// A usage limit resets later than the user wants to wait.
    LimitTooFar {
        until: Timestamp,
    },
    /// A usage limit is reached, and the user does not want to wait for any.
    RateLimited {
        /// When it resets, with a buffer.
        until: Timestamp,
    },
    /// The run's budget is spent, or too little of it is left for a session.
    BudgetSpent {
        spent: Spend,
        budget: Budget,
        /// Not the run's budget is spent, but that of each agent that could continue.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        agents: Vec<AgentBudget>,
    },
    /// The first response of a session already filled its window beyond L2: sessions would hand off
    /// forever without doing anything.
    WindowTooFull {
        /// The context of that response, in tokens.
        usage_tokens: u64,
        /// What filled it, in tokens, largest first.
        filled_by: Vec<(String, u64)>,
    },
    /// The verification names a program that does not exist. Nothing began, so there is nothing to resume.
    NoCheck {
        program: String,
    },
    /// The agent cannot work, and trying again would not help.
    AgentFailed {
        cause: EndCause,
    },
    /// The agent leaves the same handoff again and again, and nothing moves.
    Stuck {
        /// Comparisons in a row with this result.
        repeats: u32,
        /// How much of the last notes is the same; none if there was no usable handoff at all.
        percent: Option<u8>,
    },
    /// Nothing moved: neither tree, verification nor open items.
    Stalled {
        sessions: u32,
    },
    /// A session's permissions refused what it needed, and it changed nothing.
    Denied {
        /// The rules that would have allowed the work, in the agent's own form.
        rules: Vec<String>,
    },
    /// Too many sessions in a row failed: the agent crashed, fell silent, was refused or did nothing.
    TooManyCrashes {
        cause: EndCause,
    },
    /// A stage has no place to work.
    NoWorktree {
        why: String,
        /// The place is with a fleet's worker, which cannot go on there.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        on_worker: bool,
    },
    /// Git refuses to merge a stage's work.
    NotMerged {
        why: String,
    },
    /// A stage's work is incompatible with that of others.
    Unmerged {
        /// The files that are in conflict; none if only the validation fails.
        files: Vec<String>,
    },
    /// A stage that the user assumes to be done is not.
    NotDone {
        why: String,
    },
    /// Stages of a plan failed; stages that do not need them are done.
    StagesFailed {
        /// The failed stages and their ends, in the order of the manifest.
        failed: Vec<StageFailed>,
        /// How many others need them.
        blocked: u32,
    },
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StageFailed {
    pub stage: StageId,
    /// How its last attempt ended.
    pub outcome: Box<Outcome>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WaitCause {
    /// A usage limit; the time is its reset and a buffer.
    UsageLimit,
    /// The service or the agent failed; an immediate retry would likely fail again.
    Failure,
    /// The pause between sessions that the user wants.
    Pause,
    /// Hours in which no session starts.
    QuietHours,
    /// The countdown before a session of a guided relay.
    Guided,
    /// Other stages have reserved the rest of the run's budget.
    Budget,
}

impl Outcome {
    /// The goal is reached: there is nothing to resume.
    pub fn is_complete(&self) -> bool {
        matches!(self, Self::Complete { .. } | Self::Undelivered { .. })
    }

    /// Whether it failed rather than stopped, and why, in ekiden's own words: no text of an agent, a tool or
    /// a service.
    pub(crate) fn brief(&self) -> (bool, &'static str) {
        match self {
            Self::Complete { verified: true } => (false, "verification passed"),
            Self::Complete { verified: false } => (false, "all done"),
            Self::Undelivered { .. } => (false, "all done, not delivered"),
            Self::Blocked { .. } => (false, "it needs your input"),
            Self::SessionLimit => (false, "all its sessions are used"),
            Self::Stopped { .. } => (false, "it was stopped"),
            Self::LimitTooFar { .. } | Self::RateLimited { .. } => {
                (false, "a usage limit was reached")
            }
            Self::BudgetSpent { .. } => (false, "the budget has no room for another session"),
            Self::WindowTooFull { .. } => (true, "the window was full before the work began"),
            Self::NoCheck { .. } => (true, "the verification cannot run"),
            Self::AgentFailed { .. } => (true, "the agent cannot work"),
            Self::Stuck { percent: None, .. } => {
                (false, "it left no usable handoff and nothing changed")
            }
            Self::Stuck { .. } => (false, "its handoffs repeated and nothing changed"),
            Self::Stalled { .. } => (false, "nothing changed"),
            Self::Denied { .. } => (true, "the agent may not do what it needs"),
            Self::TooManyCrashes { .. } => (true, "too many sessions in a row failed"),
            Self::NoWorktree { on_worker, .. } if *on_worker => {
                (true, "its worker could not carry it out")
            }
            Self::NoWorktree { .. } => (true, "it has no place to work"),
            Self::NotMerged { .. } => (true, "it cannot be merged"),
            Self::Unmerged { files } if files.is_empty() => {
                (true, "its validation fails on the merge")
            }
            Self::Unmerged { .. } => (true, "it does not merge with other stages"),
            Self::NotDone { .. } => (true, "it was marked as done and is not"),
            Self::StagesFailed { .. } if self.asks() => (false, "stages need your input"),
            Self::StagesFailed { .. } => (false, "stages failed"),
        }
    }

    /// It failed, rather than being stopped or waiting for something.
    pub fn is_failure(&self) -> bool {
        self.brief().0
    }

    /// Nothing went wrong: it waits for a person's answers.
    pub fn asks(&self) -> bool {
        matches!(self, Self::Blocked { .. })
            || matches!(self, Self::StagesFailed { failed, .. }
                if !failed.is_empty() && failed.iter().all(|one| one.outcome.asks()))
    }

    pub fn is_delivered(&self) -> bool {
        !matches!(self, Self::Undelivered { .. })
    }

    /// Its agent is out: other stages of the same account would end in the same way.
    pub(crate) fn is_of_agent(&self) -> bool {
        matches!(self, Self::LimitTooFar { .. } | Self::AgentFailed { .. })
    }

    /// A stage is done, and could not be merged.
    pub(crate) fn is_of_merge(&self) -> bool {
        matches!(self, Self::Unmerged { .. } | Self::NotMerged { .. })
    }

    /// There is nothing to resume.
    pub fn is_final(&self) -> bool {
        self.is_complete() || matches!(self, Self::NoCheck { .. })
    }
}

/// A fragment in ekiden's own words, for a run or a stage. It does not contain an agent's question.
impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.brief().1)?;
        match self {
            Self::Stalled { sessions } => write!(f, " in {sessions} sessions in a row"),
            Self::TooManyCrashes { cause } => write!(f, ", most recently: {cause}"),
            Self::AgentFailed { cause } => write!(f, ": {cause}"),
            Self::NoWorktree { why, .. } | Self::NotMerged { why } | Self::NotDone { why } => {
                write!(f, ": {why}")
            }
            Self::NoCheck { program } => write!(f, ": there is no program `{program}`"),
            Self::Unmerged { files } if !files.is_empty() => write!(f, ": {}", files.join(", ")),
            Self::StagesFailed { failed, .. } => {
                let stages: Vec<&str> = failed.iter().map(|one| one.stage.as_str()).collect();
                write!(f, ": {}", stages.join(", "))
            }
            Self::Complete { .. }
            | Self::Undelivered { .. }
            | Self::Blocked { .. }
            | Self::SessionLimit
            | Self::Stopped { .. }
            | Self::LimitTooFar { .. }
            | Self::RateLimited { .. }
            | Self::BudgetSpent { .. }
            | Self::WindowTooFull { .. }
            | Self::Stuck { .. }
            | Self::Denied { .. }
            | Self::Unmerged { .. } => Ok(()),
        }
    }
}
