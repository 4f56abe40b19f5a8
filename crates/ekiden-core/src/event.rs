//! What can happen to a run.
//!
//! An event holds all that a decision needs: [`crate::run::Run`] gives the state from the log's events alone.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

mod commit;
mod traces;
mod worktree;

use crate::budget::{Crossing, Prices, Spend, TokenCounts};
use crate::ends::EndCause;
use crate::guard::{Level, Window};
use crate::handoff::{HandoffFiles, Inspection, OpenItems};
use crate::ids::{AttemptId, EffectId, StageId};
use crate::judge::weakened::WeakenedTest;
use crate::limits;
use crate::outcome::Outcome;
use crate::renewal::NewTask;
use crate::settings::{CommitPlan, LimitsChanged, RunStarted};
use crate::steering::{Steered, StopRequest};
use crate::text::one_line;
use crate::time::Millis;

pub use commit::Commit;
pub use traces::Traces;
pub use worktree::{Delivery, Merge, PreparedWorktree, WorktreeEvent};

/// What happened to a run, as the log holds it: only facts that decide something.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Event {
    RunStarted(Box<RunStarted>),
    /// An engine resumed the run, after a crash or after an end.
    RunResumed(RunResumed),
    Continued(Continued),
    /// The log was written by other decision logic; its recorded effects win.
    LogicChanged {
        /// The first record where this program would have decided otherwise.
        seq: u64,
    },
    /// A person accepts the log as it is, although it is not the one that was written.
    LogAccepted {
        /// The first record that was changed or is missing.
        seq: u64,
    },
    /// Local time has a new offset from UTC. Recorded only if hours of the day matter.
    UtcOffsetChanged {
        /// The offset, in seconds.
        utc_offset_secs: i32,
    },
    /// Stages may begin again: the time of the wait is over.
    Woke,
    /// Something happened to the worktree of a stage.
    Worktree {
        stage: StageId,
        /// The effect that asked for it.
        effect: EffectId,
        event: WorktreeEvent,
    },
    /// The user has the work of all stages, or knows where it is.
    Delivered {
        /// The effect that asked for it.
        effect: EffectId,
        delivery: Delivery,
    },
    /// Somebody asked the run to stop, by a signal.
    StopRequested(StopRequest),
    /// Somebody steered the run by a message.
    Steered(Steered),
    Stage {
        stage: StageId,
        event: RelayEvent,
    },
    /// News about a stage that another machine runs.
    Elsewhere {
        stage: StageId,
        event: Elsewhere,
    },
}

/// News about a stage that another machine runs, as a separate run. Its own events come as [`Event::Stage`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Elsewhere {
    /// A record of its run that is not about one stage.
    Recorded {
        event: Box<Event>,
        /// The stage's round, from 1; some rounds have no log.
        round: u32,
    },
    /// It is over, and the plan knows how.
    Ended { outcome: Outcome },
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunResumed {
    pub ekiden: String,
    #[serde(flatten)]
    pub limits: LimitsChanged,
    /// The task as the user has edited it.
    pub task: Option<NewTask>,
    pub answer: Option<Answer>,
    /// It continues on another machine, where no agent has the earlier conversations.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub elsewhere: bool,
}

/// A user's answer to the question with which a stage ended as blocked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Answer {
    pub stage: StageId,
    /// The agent gets at most [`limits::OPERATOR_CHARS_MAX`] characters of it.
    pub words: String,
}

/// A complete run continues with follow-up work.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Continued {
    pub ekiden: String,
    pub task: NewTask,
    /// The files that have changes now, if the run commits: a person's, since the run's own work is committed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub commit: Option<CommitPlan>,
    #[serde(flatten)]
    pub limits: LimitsChanged,
}

/// Something that happened to a relay, whichever stage it pursues.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum RelayEvent {
    /// A task that an effect ordered has ended.
    Task {
        effect: EffectId,
        outcome: TaskOutcome,
    },
    Attempt {
        attempt: AttemptId,
        event: AttemptEvent,
    },
    /// The time that the relay waited for has come.
    Woke,
    /// A person changed the published knowledge while no session ran.
    KnowledgeEdited { text: String },
    /// A person changed the list of items while no session ran.
    ListEdited { items: OpenItems },
}

/// The result of a task that an effect ordered. It is an event however the task ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
#[expect(
    clippy::large_enum_variant,
    reason = "surveys are few, and their size does not matter"
)]
pub enum TaskOutcome {
    Surveyed {
        /// What is in the work tree, or why it could not be read.
        survey: Result<Survey, String>,
    },
    Committed {
        commit: Commit,
    },
    Verified {
        check: Check,
    },
    /// The published files match the state, durably.
    Published,
    Archived,
}

/// An agent's report that decides something, with the measurements and the handoff files at that time.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum AttemptEvent {
    Started {
        pid: u32,
    },
    /// The agent reported the size of its window, or it changed with the model.
    WindowChanged {
        window: Window,
        /// The model, if the agent named it.
        model: Option<String>,
    },
    /// Context use reached a level for the first time in this attempt.
    LevelCrossed {
        level: Level,
        usage_tokens: u64,
        spend: Spend,
        /// A valid handoff claims that the task is complete.
        is_done: bool,
    },
    /// A session's first response already reached L1.
    BaselineMeasured {
        level: Level,
        /// The context of that response.
        usage_tokens: u64,
        /// What fills it, in tokens, largest first.
        filled_by: Vec<(String, u64)>,
    },
    /// An attempt's spend reached a mark for the first time.
    SpendCrossed {
        crossing: Crossing,
    },
    /// The agent summarised its own conversation: the handoff came too late.
    Compacted {
        /// The context before, in tokens; 0 if the agent did not say.
        usage_tokens: u64,
    },
    /// The message that was sent into the running turn is now part of a request.
    MessageDelivered,
    /// The agent wants to end its turn and asks first (agents with hooks).
    StopAsked {
        /// The question's id, for the answer.
        callback: String,
        /// Background work still runs, so the handoff is not due yet.
        background: bool,
        handoff: Inspection,
        tool_calls: u32,
    },
    /// The answer of a reviewer's turn, bounded.
    Answered {
        answer: String,
    },
    /// The agent's turn is over; its process waits for the next message.
    TurnEnded {
        handoff: Inspection,
        tool_calls: u32,
        /// The turn ended in an error of the agent, so asking again is useless.
        failed: bool,
    },
    /// The agent was refused so often at L3 that it will not recover by itself.
    RefusalsSpent,
    /// The agent's process and everything that it started are gone.
    Ended(Box<AttemptEnded>),
}

impl Event {
    /// A record of a stage's round on another machine, as our run records it.
    pub fn elsewhere(self, stage: &StageId, round: u32) -> Self {
        if matches!(self, Self::Stage { .. }) {
            return self;
        }
        let event = Box::new(self);
        Self::Elsewhere {
            stage: stage.clone(),
            event: Elsewhere::Recorded { event, round },
        }
    }
}

impl RelayEvent {
    /// The attempt that ended with this event.
    pub fn ended(&self) -> Option<(AttemptId, &AttemptEnded)> {
        let Self::Attempt {
            attempt,
            event: AttemptEvent::Ended(ended),
        } = self
        else {
            return None;
        };
        Some((*attempt, ended))
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AttemptEnded {
    pub cause: EndCause,
    /// The handoff directory as it was left.
    pub files: HandoffFiles,
    /// Published files that changed while the session ran: the agent changed them, and they are not merged.
    pub touched: Vec<String>,
    /// Handoff files that were found among the published files and accepted from there.
    pub misplaced: Vec<String>,
    /// The agent keeps a transcript by which the conversation can be resumed.
    pub resumable: bool,
    pub counters: Counters,
    /// What a program saw of it, for a rescue.
    pub traces: Traces,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counters {
    /// How long the process ran.
    pub duration: Millis,
    pub tool_calls: u32,
    /// Context use at the end, in tokens.
    pub usage_tokens: u64,
    pub spend: Spend,
    /// Responses of the model on the main thread.
    pub turns: u32,
    /// Lines of the event stream that could not be read.
    pub malformed_lines: u32,
    /// The account pays by subscription, so its cost is the API price that others would pay.
    pub subscription: bool,
    /// The prices that it learned from the agent's own figures; in older logs all that it knew.
    pub prices: Prices,
    /// Each model's part of the spend, as far as the agent reports it; older logs do not have it.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub models: BTreeMap<String, Spend>,
    /// The spent tokens by kind, and the cache reads, if the agent reports them; older logs do not have them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kinds: Option<TokenCounts>,
}

impl Counters {
    /// Each model's spend. Spend without a model counts for the one that led the session, if that is known.
    pub fn spend_by_model<'a>(&'a self, main: Option<&'a str>) -> BTreeMap<Option<&'a str>, Spend> {
        let told = self.models.values().copied();
        let rest = self.spend.since(told.fold(Spend::default(), Spend::plus));
        let told = self.models.iter();
        let told = told.map(|(model, spend)| (Some(&**model), *spend));
        let mut models: BTreeMap<Option<&str>, Spend> = told.collect();
        if rest.micro_usd > 0 || rest.tokens > 0 {
            let sum = models.entry(main).or_default();
            *sum = sum.plus(rest);
        }
        models
    }
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
    /// Changed and untracked files, as in `git status --short`.
    pub status: Vec<String>,
    /// Files that those commits changed, with git's letter.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub committed: Vec<String>,
    /// The size of the changes by file: since the survey before, or in a stage since it began.
    pub diff_stat: Vec<String>,
    /// The fingerprint without parts that only tell the time; none if it is the same.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub substance: Option<String>,
    /// Tests that are weaker than at the run's first commit.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub weakened: Vec<WeakenedTest>,
    /// How many commits that the previous survey found are not in what is checked out now; none if all are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dropped: Option<u32>,
    /// The entries of git's stash, which all worktrees of a repository share.
    #[serde(default, skip_serializing_if = "crate::is_zero")]
    pub stashes: u32,
    /// Why the weakened tests are not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tests_unread: Option<String>,
    /// The items of the list that the relay works through, if it does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub items: Option<OpenItems>,
    /// The sizes of the files that an open item names, in bytes, by the item.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub item_files: BTreeMap<String, Vec<u64>>,
    /// The names of all files that changed since the relay began, and how, bounded, if a reviewer is to read them.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub diff: String,
}

/// One run of the verification.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Check {
    pub outcome: CheckOutcome,
    /// The tree that it ran on, if git could tell.
    pub tree: Option<String>,
    pub duration: Millis,
    /// The end of its output.
    pub tail: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum CheckOutcome {
    /// Exit code 0.
    Passed,
    Failed {
        /// The exit code; 128+n for signal n, as in a shell.
        code: i32,
    },
    /// It exceeded its time limit.
    TimedOut,
    /// It could not be started.
    NotRun { error: String },
    /// The shell found no such program, and it is not one of the project's own.
    NoProgram { program: String },
    /// The run was stopped meanwhile.
    Cancelled,
}

impl AttemptEnded {
    /// The end of an attempt without any facts, such as one whose process never ran.
    pub fn bare(cause: EndCause) -> Self {
        Self {
            cause,
            files: HandoffFiles::default(),
            touched: Vec::new(),
            misplaced: Vec::new(),
            resumable: false,
            counters: Counters::default(),
            traces: Traces::default(),
        }
    }

    /// It was too short for anybody to have done much.
    pub fn was_short(&self) -> bool {
        self.counters.duration < limits::EMPTY_SESSION_MAX
    }
}

impl Survey {
    /// Files that were changed since the survey before, committed or not.
    pub fn changed(&self) -> Vec<String> {
        let path = |line: &str| {
            line.trim_start()
                .split_once(' ')
                .map(|(_, path)| path.to_owned())
        };
        let known: Vec<_> = self.committed.iter().map(|line| path(line)).collect();
        let open = self.status.iter();
        let open = open.filter(|line| !known.contains(&path(line)));
        self.committed.iter().chain(open).cloned().collect()
    }

    /// Adds what the look before saw of the same session.
    pub fn add(&mut self, before: Self) {
        self.commits.extend(before.commits);
        let known = |line: &String| !self.committed.contains(line);
        let committed: Vec<_> = before.committed.into_iter().filter(known).collect();
        self.committed.extend(committed);
        self.dropped = self.dropped.or(before.dropped);
    }

    /// The fingerprint that progress is judged by.
    pub fn substance(&self) -> &str {
        self.substance.as_deref().unwrap_or(&self.tree)
    }
}

impl Check {
    pub fn passed(&self) -> bool {
        self.outcome == CheckOutcome::Passed
    }

    /// How it went and, in the same line, this part of its output.
    pub fn with_output(&self, output: &str) -> String {
        match one_line(output, limits::COMMIT_SAID_CHARS) {
            none if none.is_empty() => self.to_string(),
            line => format!("{self}: {line}"),
        }
    }
}

/// The text in a sentence: `failed in 41s (exit code 1)`.
impl fmt::Display for Check {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let time = self.duration;
        match &self.outcome {
            CheckOutcome::Passed => write!(f, "passed in {time}"),
            CheckOutcome::Failed { code } => write!(f, "failed in {time} (exit code {code})"),
            CheckOutcome::TimedOut => write!(f, "took longer than {time}"),
            CheckOutcome::NotRun { error } => write!(f, "could not be run: {error}"),
            CheckOutcome::NoProgram { program } => {
                write!(f, "could not be run: there is no program `{program}`")
            }
            CheckOutcome::Cancelled => f.write_str("was cancelled"),
        }
    }
}
