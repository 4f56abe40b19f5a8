//! The settings of a run. All of them are frozen into the log's first record, so that a resumed run does not
//! read a file that somebody may have changed.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::agent::{AgentSpec, PermissionsChange, Purpose};
use crate::bounds::{Bounds, BoundsChange};
use crate::budget::{Prices, Spend};
use crate::fallback::Fallback;
use crate::guard::{Levels, Window};
use crate::handoff::Marker;
use crate::ids::{RunId, SessionNumber, StageId};
use crate::issue::IssueRef;
use crate::knowledge::Knowledge;
use crate::limits;
use crate::manifest::Manifest;
use crate::memory::MemoryUse;
use crate::renewal::StartingPoint;
use crate::time::{Millis, Timestamp};

/// The first record of every log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunStarted {
    pub run: RunId,
    /// The version of the program that started it.
    pub ekiden: String,
    pub place: Place,
    pub manifest: Manifest,
    pub settings: Settings,
    /// Its starting point, if that is another run's session.
    pub from: Option<Box<StartingPoint>>,
    /// What it imports from another program. Such a run waits for a resume before its first session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub imported: Option<Imported>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub issue: Option<IssueRef>,
    /// The issue's comments up to this time are in the task. If missing, those from before the run are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub issue_read: Option<Timestamp>,
    /// Each stage is a sub-issue of it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub sub_issues: bool,
    /// The branch for which a pull request is kept, and where; its id is the branch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pull_request: Option<IssueRef>,
    /// The fleet that runs it, if it is not this machine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fleet: Option<FleetPlace>,
    /// The results of stages that other machines ran before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<Box<Before>>,
    /// A session of ekiden started it, so sessions may also resume it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub in_session: bool,
    /// Prices of models, as earlier runs here have learned them.
    pub prices: Prices,
    /// The highest cost of a handoff by this agent in the run before; zero if that is unknown.
    #[serde(default, skip_serializing_if = "Spend::is_nothing")]
    pub handoff_spend: Spend,
}

impl RunStarted {
    pub fn is_plan(&self) -> bool {
        self.manifest.plan.is_some()
    }

    /// Every agent that may get a session.
    pub fn agents(&self) -> impl Iterator<Item = &AgentSpec> {
        self.settings.agents().chain(self.manifest.agents())
    }

    pub fn has_agent(&self, name: &str) -> bool {
        self.agents().any(|agent| agent.name == name)
    }

    /// The knowledge before anything has begun.
    pub fn knowledge(&self) -> Knowledge {
        let before = self.before.as_ref();
        before.map_or_else(Knowledge::default, |before| {
            Knowledge::parse(&before.knowledge)
        })
    }
}

/// What a run of a single stage knows about the stages that it builds on.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Before {
    /// Nearest first.
    pub results: Vec<Earlier>,
    /// Their knowledge, as published.
    pub knowledge: String,
    /// Why the worktree's setup failed, if it did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_set_up: Option<String>,
    /// Why the stage's own result was not merged, if it is done again for that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_merged: Option<String>,
}

/// The result of a stage that another one builds on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Earlier {
    pub stage: StageId,
    pub name: String,
    /// In Markdown, as [`crate::run::StageResult::text`].
    pub text: String,
}

/// The places of a fleet's plan, besides its Temporal server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FleetPlace {
    /// The git repository that all workers reach.
    pub remote: String,
    /// The task queue of the plan.
    pub queue: String,
    /// How long a worker may be silent before another continues its stage, in seconds.
    pub lease_secs: u64,
    /// A key signs the plan. Messages on Temporal are not signed.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub signed: bool,
}

impl FleetPlace {
    /// The ref with all finished work, in a clone that follows the run.
    pub fn merged(run: &RunId) -> String {
        format!("refs/ekiden/fleet/{run}-merged")
    }
}

/// The origin of an imported run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Imported {
    /// The other program's directory, for people.
    pub from: String,
    /// SHA-256 of the imported data, by which a second import recognises it.
    pub hash: String,
    /// Sessions of the other program whose texts are in the run's archive, oldest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sessions: Vec<SessionNumber>,
    /// The usage of stages that the other program finished, as it measured it.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub stages: BTreeMap<StageId, StageUsage>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StageUsage {
    pub tokens: u64,
    pub time: Millis,
}

/// Where a run works, and where the agent's files are.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Place {
    /// The work dir at the start, absolute. It is only shown: a project may move.
    pub work_dir: String,
    /// The linked worktree's name, or none in the main one. It distinguishes runs of one project.
    pub worktree: Option<String>,
    /// The work dir is in a git repository.
    pub git: bool,
    /// The branch that the run works on, if the user named one.
    pub branch: Option<String>,
}

/// How a run works: resolved from flags, environment and files before it starts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Settings {
    /// The word that claims completion.
    pub marker: Marker,
    pub levels: Levels,
    /// How much of a large window may be used, in tokens.
    pub cap_tokens: Option<u64>,
    /// The pause between two sessions.
    pub pause: Millis,
    /// The longest wait for a usage limit.
    pub wait_max: Millis,
    pub agent: AgentSpec,
    /// The agent that judges a claim of completion before it counts, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reviewer: Option<Box<AgentSpec>>,
    /// A person who resumed the run wants no more reviews. A review in progress is finished.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub no_review: bool,
    /// The agents that replace it when it is out.
    #[serde(default, skip_serializing_if = "Fallback::is_empty")]
    pub fallback: Fallback,
    /// The limits of money, tokens, time and turns.
    pub bounds: Bounds,
    /// The rules by which sessions are judged, if they are.
    pub judging: Option<Judging>,
    /// Commits after each session, if the user wants them.
    pub commit: Option<CommitPlan>,
    /// A notification when the run ends or waits.
    pub notify: bool,
    /// The notification of a question includes its text, which a lock screen may show to anybody.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub notify_text: bool,
    /// Sessions are asked to give bulky work to subagents.
    pub subagents: bool,
    /// A person is there who may say something before each session.
    pub guided: bool,
    #[serde(default)]
    pub memory: MemoryUse,
}

impl Settings {
    /// The assumed window until the agent reports its own.
    pub fn window(&self) -> Window {
        Window {
            model_tokens: limits::WINDOW_TOKENS_DEFAULT,
            compaction_tokens: None,
            reserve_tokens: self.agent.kind.reserve_tokens(),
            cap_tokens: self.cap_tokens,
        }
    }

    pub fn agent_for(&self, purpose: Purpose) -> &AgentSpec {
        match (purpose, &self.reviewer) {
            (Purpose::Review, Some(reviewer)) => reviewer,
            (Purpose::Review, None) | (Purpose::Work, _) => &self.agent,
        }
    }

    /// Every agent that may get a session, if a stage names no other.
    pub fn agents(&self) -> impl Iterator<Item = &AgentSpec> {
        self.workers().chain(self.reviewer.as_deref())
    }

    /// Those of them that work, the run's own first.
    pub fn workers(&self) -> impl Iterator<Item = &AgentSpec> {
        std::iter::once(&self.agent).chain(&self.fallback.agents)
    }

    /// Applies changed limits, except for those that are counted.
    pub fn change(&mut self, limits: &LimitsChanged) {
        self.guided = limits.guided.unwrap_or(self.guided);
        self.bounds.change(&limits.bounds);
        self.agent.permissions.change(&limits.permissions);
        self.wait_max = limits.wait_max.unwrap_or(self.wait_max);
        self.pause = limits.pause.unwrap_or(self.pause);
        self.no_review |= limits.no_review;
    }
}

/// Limits that change during a run, when a person resumes or steers it; none means no change. Each is counted
/// from the event that holds it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct LimitsChanged {
    pub sessions_max: Option<u32>,
    pub wait_max: Option<Millis>,
    /// A new pause between two sessions.
    pub pause: Option<Millis>,
    /// A new limit of sessions without progress.
    pub stall_sessions: Option<u32>,
    /// Whether the task is research after all.
    pub research: Option<bool>,
    /// Whether a person is there to guide it.
    pub guided: Option<bool>,
    /// No reviewer judges claims any more.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub no_review: bool,
    /// Other bounds of money, tokens, time and turns.
    pub bounds: BoundsChange,
    /// What the agent may do without asking, from the next attempt on.
    #[serde(skip_serializing_if = "PermissionsChange::is_empty")]
    pub permissions: PermissionsChange,
}

/// The rules by which sessions are judged: see [`crate::judge`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Judging {
    /// Sessions in a row without progress after which the run ends; 0 for any number.
    pub stall_sessions: u32,
    /// The task is to find something out: an unchanged tree does not count as a stall.
    pub research: bool,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CommitPlan {
    /// Files of the work dir with changes at the start: a person's, not the agent's.
    pub dirty: Vec<DirtyFile>,
    /// The branch that was checked out at the start; none on a detached head, and for a stage with its own worktree.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub branch: Option<String>,
}

/// A file with uncommitted changes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DirtyFile {
    /// Its path from the repository's root.
    pub path: String,
    /// Its object in the commit that was checked out; none if the commit does not have it.
    pub committed: Option<String>,
    /// Its object in the work tree, or the target of a link (`-> target`); none if it was deleted, or is neither.
    pub content: Option<String>,
}
