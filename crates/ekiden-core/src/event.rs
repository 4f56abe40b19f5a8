//! What can happen to a run.
//!
//! An event holds everything that decides: replaying the log's events through [`crate::run::Run`]
//! gives the state, without a look at any file.

use std::fmt;

use serde::{Deserialize, Serialize};

mod ground;

use crate::bounds::BoundsChange;
use crate::budget::{Crossing, Prices, Spend};
use crate::ends::EndCause;
use crate::guard::{Level, Window};
use crate::handoff::{HandoffFiles, Inspection};
use crate::ids::{AttemptId, EffectId, StageId};
use crate::judge::WeakenedTest;
use crate::limits;
use crate::prompt::FailedCommand;
use crate::renewal::{Continued, NewTask};
use crate::settings::{PermissionsChange, RunStarted};
use crate::steering::Steered;
use crate::time::Millis;

pub use ground::{Delivery, GroundEvent, Grounded, Merge};

/// Something that happened.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Event {
    /// The run began.
    RunStarted(Box<RunStarted>),
    /// An engine took the run up again, after a crash or after an end.
    RunResumed(RunResumed),
    /// The run was complete, and goes on with follow-up work.
    Continued(Continued),
    /// The log was written by other decision logic; its recorded effects win.
    LogicChanged {
        /// The first record where this program would have decided otherwise.
        seq: u64,
    },
    /// Local time has another offset from UTC than was known. Recorded only where hours of the day matter.
    UtcOffsetChanged {
        /// The offset, in seconds.
        utc_offset_secs: i32,
    },
    /// The time has come at which stages may begin again.
    Woke,
    /// Something happened to the ground of a stage.
    Ground {
        /// The stage.
        stage: StageId,
        /// What happened.
        event: GroundEvent,
    },
    /// The user has what all stages made, or knows where it lies.
    Delivered {
        /// The effect that asked for it.
        effect: EffectId,
        /// What came of it.
        delivery: Delivery,
    },
    /// Somebody wants the run to stop: by a signal.
    StopRequested(StopRequest),
    /// Somebody steered the run by a message.
    Steered(Steered),
    /// Something happened to one stage.
    Stage {
        /// The stage.
        stage: StageId,
        /// What happened.
        event: RelayEvent,
    },
}

/// An engine carries on.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunResumed {
    /// The program's version.
    pub ekiden: String,
    /// The limits that whoever resumes it wants changed.
    #[serde(flatten)]
    pub limits: LimitsChanged,
    /// The task as the user has edited it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task: Option<NewTask>,
}

/// Limits that change while a run is under way, by whoever carries it on or steers it; nothing where one
/// stays.
/// Each is counted from the event that holds it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct LimitsChanged {
    /// A new limit of sessions.
    pub sessions_max: Option<u32>,
    /// A new longest wait.
    pub wait_max: Option<Millis>,
    /// A new pause between two sessions.
    pub pause: Option<Millis>,
    /// A new limit of sessions without progress.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stall_sessions: Option<u32>,
    /// Whether the task is research after all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub research: Option<bool>,
    /// Whether somebody sits there to guide it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub guided: Option<bool>,
    /// Other bounds of money, tokens, time and turns.
    pub bounds: BoundsChange,
    /// What the agent may do without asking, from the next attempt on.
    #[serde(skip_serializing_if = "PermissionsChange::is_empty")]
    pub permissions: PermissionsChange,
}

/// How to stop.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "how", rename_all = "snake_case")]
pub enum StopRequest {
    /// Hand over first, within [`crate::limits::STOP_GRACE`]; then stop resumably.
    Gently,
    /// Stop the child now.
    Now {
        /// The signal that asked for it.
        signal: i32,
    },
}

impl StopRequest {
    /// What a second ctrl-c asks for; so does `ekiden stop --now`.
    pub const AS_BY_CTRL_C_TWICE: Self = Self::Now { signal: 2 };

    /// After `before` this request changes something: whoever asked gently may insist, and nobody
    /// takes an insistence back.
    #[must_use]
    pub fn outweighs(self, before: Self) -> bool {
        matches!((before, self), (Self::Gently, Self::Now { .. }))
    }
}

/// Something that happened to a relay.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum RelayEvent {
    /// The work tree was looked at.
    Surveyed {
        /// The effect that asked for it.
        effect: EffectId,
        /// What was there, or why nothing could be seen.
        survey: Result<Survey, String>,
    },
    /// What a session did was committed, or was not.
    Committed {
        /// The effect that asked for it.
        effect: EffectId,
        /// What came of it.
        commit: Commit,
    },
    /// The verification ran.
    Verified {
        /// The effect that asked for it.
        effect: EffectId,
        /// How it went.
        check: Check,
    },
    /// The published files say what state says, durably.
    Published {
        /// The effect that asked for it.
        effect: EffectId,
    },
    /// A session's texts are in the archive.
    Archived {
        /// The effect that asked for it.
        effect: EffectId,
    },
    /// The agent's process runs.
    AttemptStarted {
        /// Which attempt.
        attempt: AttemptId,
        /// The agent's process id.
        pid: u32,
    },
    /// The agent told the size of its window, or it changed with the model.
    WindowChanged {
        /// Which attempt.
        attempt: AttemptId,
        /// The window.
        window: Window,
        /// The model, if the agent named it.
        model: Option<String>,
    },
    /// Context use reached a level for the first time in this attempt.
    LevelCrossed {
        /// Which attempt.
        attempt: AttemptId,
        /// The highest level reached.
        level: Level,
        /// The use, in tokens.
        usage_tokens: u64,
    },
    /// A session's first response reached L1 already.
    BaselineMeasured {
        /// Which attempt.
        attempt: AttemptId,
        /// The level.
        level: Level,
        /// The context of that response, in tokens.
        usage_tokens: u64,
        /// What fills it, in tokens, largest first.
        filled_by: Vec<(String, u64)>,
    },
    /// An attempt's spend reached a mark for the first time.
    SpendCrossed {
        /// Which attempt.
        attempt: AttemptId,
        /// The mark, and what was spent.
        crossing: Crossing,
    },
    /// The agent made a summary of its own conversation: the handoff came too late.
    Compacted {
        /// Which attempt.
        attempt: AttemptId,
        /// The context that it had before, in tokens; 0 if it did not say.
        usage_tokens: u64,
    },
    /// The message that was sent into the running turn is part of a request now.
    MessageDelivered {
        /// Which attempt.
        attempt: AttemptId,
    },
    /// The agent wants to end its turn and asks first (agents with hooks).
    StopAsked {
        /// Which attempt.
        attempt: AttemptId,
        /// The question's id, for the answer.
        callback: String,
        /// Background work still runs, so the handoff is not due yet.
        background: bool,
        /// The handoff as it stands.
        handoff: Inspection,
        /// Tool calls of the attempt so far.
        tool_calls: u32,
    },
    /// The agent's turn is over; its process waits for the next message.
    TurnEnded {
        /// Which attempt.
        attempt: AttemptId,
        /// The handoff as it stands.
        handoff: Inspection,
        /// Tool calls of the attempt so far.
        tool_calls: u32,
        /// The turn ended in an error of the agent, so that asking again is useless.
        failed: bool,
    },
    /// The agent was refused so often at L3 that it will not find the way out by itself.
    RefusalsSpent {
        /// Which attempt.
        attempt: AttemptId,
    },
    /// The agent's process and all that it started are gone.
    AttemptEnded(Box<AttemptEnded>),
    /// The time that the relay waited for has come.
    Woke,
    /// A person changed the published knowledge while no session ran.
    KnowledgeEdited {
        /// The whole file.
        text: String,
    },
}

/// What remains of an attempt.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AttemptEnded {
    /// Which attempt.
    pub attempt: AttemptId,
    /// Why it ended.
    pub cause: EndCause,
    /// The handoff directory as it was left.
    pub files: HandoffFiles,
    /// Published files that were changed while the session ran: the agent's doing, not merged.
    pub touched: Vec<String>,
    /// Files of the handoff that were found among the published ones and taken over from there.
    #[serde(default)]
    pub misplaced: Vec<String>,
    /// The agent keeps a transcript by which the conversation can be resumed.
    pub resumable: bool,
    /// What it cost and did.
    pub counters: Counters,
    /// What a program saw of it, for a rescue.
    pub traces: Traces,
}

/// What an attempt cost and did.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counters {
    /// How long the process ran.
    pub duration: Millis,
    /// Calls of tools.
    pub tool_calls: u32,
    /// Context use at the end, in tokens.
    pub usage_tokens: u64,
    /// Cost in millionths of a US dollar, as the agent tells it.
    pub cost_micro_usd: u64,
    /// Lines of the event stream that could not be read.
    pub malformed_lines: u32,
    /// What it used of a budget of tokens.
    #[serde(default)]
    pub tokens: u64,
    /// Responses of the model on the main thread.
    #[serde(default)]
    pub turns: u32,
    /// Part of the cost is estimated: the agent did not live to tell it.
    #[serde(default)]
    pub estimated: bool,
    /// The account pays by subscription, so that its cost is what others would pay.
    #[serde(default)]
    pub subscription: bool,
    /// What models cost, by the agent's own figures.
    #[serde(default)]
    pub prices: Prices,
}

impl Counters {
    /// What the attempt spent.
    #[must_use]
    pub fn spend(&self) -> Spend {
        Spend { micro_usd: self.cost_micro_usd, tokens: self.tokens, estimated: self.estimated }
    }

    /// The same with what the attempt has spent at least.
    #[must_use]
    pub fn at_least(self, spend: Spend) -> Self {
        let spend = self.spend().at_least(spend);
        Self { cost_micro_usd: spend.micro_usd, tokens: spend.tokens, estimated: spend.estimated, ..self }
    }
}

/// The last things seen of an attempt. Bounded where they are gathered.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Traces {
    /// The last file written, with the tool.
    pub last_edit: Option<String>,
    /// The last call of a tool.
    pub last_call: Option<String>,
    /// The agent's last words.
    pub last_words: Option<String>,
    /// The last commands that succeeded.
    pub succeeded: Vec<String>,
    /// The last commands that failed, with how it showed.
    pub failed: Vec<FailedCommand>,
    /// Rules that would have let the calls run that the agent's own permissions refused.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub denied: Vec<String>,
}

/// What is in the work tree.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Survey {
    /// The commit that is checked out.
    pub head: Option<String>,
    /// A fingerprint of all files that git does not ignore.
    pub tree: String,
    /// Commits since the survey before, newest first, one line each.
    pub commits: Vec<String>,
    /// Changed and untracked files, as `git status --short` tells them.
    pub status: Vec<String>,
    /// The size of the changes by file.
    pub diff_stat: Vec<String>,
    /// The fingerprint without what only tells the time; nothing where that is the same.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub substance: Option<String>,
    /// Tests that say less than at the run's first commit.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub weakened: Vec<WeakenedTest>,
}

/// What came of a commit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Commit {
    /// There is a new commit.
    Made {
        /// Its id.
        id: String,
        /// How many files it changes.
        files: u32,
        /// Files that stay out because they had changes at the start, and were changed since.
        left_out: Vec<String>,
    },
    /// There was nothing to commit.
    Nothing {
        /// As above.
        left_out: Vec<String>,
    },
    /// Git made none.
    Failed {
        /// Why.
        error: String,
        /// The end of what git and the repository's hooks said.
        tail: String,
    },
    /// The run was stopped meanwhile, and there is none.
    Cancelled,
}

/// One run of the verification.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Check {
    /// How it ended.
    pub outcome: CheckOutcome,
    /// The tree that it ran on, if git could tell.
    pub tree: Option<String>,
    /// How long it took.
    pub duration: Millis,
    /// The end of its output.
    pub tail: String,
}

/// How a verification ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum CheckOutcome {
    /// Exit code 0.
    Passed,
    /// Another exit code.
    Failed {
        /// The exit code; 128+n for signal n, as a shell tells it.
        code: i32,
    },
    /// It took longer than it may.
    TimedOut,
    /// It could not be started.
    NotRun {
        /// Why.
        error: String,
    },
    /// The run was stopped meanwhile.
    Cancelled,
}

impl AttemptEnded {
    /// It was over before anybody could have done much.
    #[must_use]
    pub fn was_short(&self) -> bool {
        self.counters.duration < limits::EMPTY_SESSION_MAX
    }
}

impl Survey {
    /// The fingerprint by which progress is judged.
    #[must_use]
    pub fn substance(&self) -> &str {
        self.substance.as_deref().unwrap_or(&self.tree)
    }
}

impl Check {
    /// The verification passed.
    #[must_use]
    pub fn passed(&self) -> bool {
        self.outcome == CheckOutcome::Passed
    }
}

/// As it reads in a sentence: `failed in 41s (exit code 1)`.
impl fmt::Display for Check {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let time = self.duration;
        match &self.outcome {
            CheckOutcome::Passed => write!(f, "passed in {time}"),
            CheckOutcome::Failed { code } => write!(f, "failed in {time} (exit code {code})"),
            CheckOutcome::TimedOut => write!(f, "took longer than {time}"),
            CheckOutcome::NotRun { error } => write!(f, "could not be run: {error}"),
            CheckOutcome::Cancelled => f.write_str("was cancelled"),
        }
    }
}
