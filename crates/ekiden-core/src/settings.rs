//! What a run is started with. All of it is frozen into the log's first record, so that a resumed
//! run reads no file again that somebody may have changed.

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
use crate::time::Millis;

/// The first record of every log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunStarted {
    pub run: RunId,
    /// The version of the program that started it.
    pub ekiden: String,
    pub place: Place,
    pub manifest: Manifest,
    pub settings: Settings,
    /// Where it begins, if that is another run's session.
    pub from: Option<Box<StartingPoint>>,
    /// What it takes over from another program. Such a run waits for a resume before its first session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub imported: Option<Imported>,
    /// The issue that it works on, if it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub issue: Option<IssueRef>,
    /// Each stage is a sub-issue of it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub sub_issues: bool,
    /// The branch for which a pull request is kept, and where; its id is the branch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pull_request: Option<IssueRef>,
    /// The fleet that carries it out, if it is not this machine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fleet: Option<FleetPlace>,
    /// What stages left that other machines carried out before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<Box<Before>>,
    /// A session of ekiden started it, so sessions may go on with it, too.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub in_session: bool,
    /// What models cost, as far as earlier runs here have learned it.
    pub prices: Prices,
    /// The most that a handoff of this agent cost in the run before; nothing if that is not known.
    #[serde(default, skip_serializing_if = "Spend::is_nothing")]
    pub handoff_spend: Spend,
}

impl RunStarted {
    /// An agent of this name may work in it.
    pub fn has_agent(&self, name: &str) -> bool {
        let settings = &self.settings;
        let stages = self.manifest.stages.iter();
        std::iter::once(&settings.agent)
            .chain(settings.reviewer.as_deref())
            .chain(&settings.fallback.agents)
            .chain(stages.filter_map(|stage| stage.part.agent.as_deref()))
            .any(|agent| agent.name == name)
    }

    /// What is known before anything has begun.
    pub fn knowledge(&self) -> Knowledge {
        let before = self.before.as_ref();
        before.map_or_else(Knowledge::default, |before| {
            Knowledge::parse(&before.knowledge)
        })
    }
}

/// What a run of a single stage knows of the stages that it builds on.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Before {
    /// Nearest first.
    pub results: Vec<Earlier>,
    /// What they learned, as it is published.
    pub knowledge: String,
    /// Why the worktree's setup failed, if it did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_set_up: Option<String>,
}

/// What a stage left that another one builds on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Earlier {
    pub stage: StageId,
    pub name: String,
    /// In Markdown, as [`crate::run::StageResult::text`].
    pub text: String,
}

/// Where a fleet's plan is, besides on its Temporal server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FleetPlace {
    /// The git repository that all workers reach.
    pub remote: String,
    /// The task queue of the plan.
    pub queue: String,
    /// For how long a worker may be silent before its stage goes on elsewhere, in seconds.
    pub lease_secs: u64,
    /// A key signs the plan. What is said on Temporal is not signed.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub signed: bool,
}

/// Where an imported run comes from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Imported {
    /// The other program's directory, for people.
    pub from: String,
    /// SHA-256 of what was taken over, by which a second import knows it.
    pub hash: String,
    /// Sessions of the other program whose texts are in the run's archive, oldest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sessions: Vec<SessionNumber>,
    /// What stages took that the other program finished, as it measured it.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub stages: BTreeMap<StageId, Took>,
}

/// What a stage took.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Took {
    pub tokens: u64,
    pub time: Millis,
}

/// Where a run works, and where it keeps what the agent sees.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Place {
    /// The work dir as it was at the start, absolute. Shown only: a project may move.
    pub work_dir: String,
    /// The linked worktree's name, or nothing in the main one. Runs of one project are distinguished
    /// by this.
    pub worktree: Option<String>,
    /// The work dir lies in a git repository.
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
    /// The most of a large window that is used, in tokens.
    pub cap_tokens: Option<u64>,
    /// The pause between two sessions.
    pub pause: Millis,
    /// The longest wait for a usage limit.
    pub wait_max: Millis,
    pub agent: AgentSpec,
    /// Who judges a claim of completion before it counts, if anybody does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reviewer: Option<Box<AgentSpec>>,
    /// A person who carried the run on wants no more of it. A review that was under way is made to its end.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub no_review: bool,
    /// Who goes on when it is out.
    #[serde(default, skip_serializing_if = "Fallback::is_empty")]
    pub fallback: Fallback,
    /// What it may use of money, tokens, time and turns.
    pub bounds: Bounds,
    /// By which rules sessions are judged, if they are.
    pub judging: Option<Judging>,
    /// Commits after each session, if the user wants them.
    pub commit: Option<CommitPlan>,
    /// A desktop notification when the run ends or waits.
    pub notify: bool,
    /// The notification of a question holds its text, which a lock screen may show to anybody.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub notify_text: bool,
    /// Sessions are asked to give bulky work to subagents.
    pub subagents: bool,
    /// Somebody sits there who may say something before each session.
    pub guided: bool,
    #[serde(default)]
    pub memory: MemoryUse,
}

impl Settings {
    /// The window that is assumed until the agent reports its own.
    pub fn window(&self) -> Window {
        Window {
            model_tokens: limits::WINDOW_TOKENS_DEFAULT,
            compaction_tokens: None,
            reserve_tokens: self.agent.kind.reserve_tokens(),
            cap_tokens: self.cap_tokens,
        }
    }

    /// Who works in a session of this purpose.
    pub fn agent_for(&self, purpose: Purpose) -> &AgentSpec {
        match (purpose, &self.reviewer) {
            (Purpose::Review, Some(reviewer)) => reviewer,
            (Purpose::Review, None) | (Purpose::Work, _) => &self.agent,
        }
    }

    /// Takes over limits that somebody changes, but for those that are counted.
    pub fn change(&mut self, limits: &LimitsChanged) {
        self.guided = limits.guided.unwrap_or(self.guided);
        self.bounds.change(&limits.bounds);
        self.agent.permissions.change(&limits.permissions);
        self.wait_max = limits.wait_max.unwrap_or(self.wait_max);
        self.pause = limits.pause.unwrap_or(self.pause);
        self.no_review |= limits.no_review;
    }
}

/// Limits that change while a run is under way, by whoever carries it on or steers it; nothing where one
/// stays.
/// Each is counted from the event that holds it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct LimitsChanged {
    /// A new limit of sessions.
    pub sessions_max: Option<u32>,
    pub wait_max: Option<Millis>,
    /// A new pause between two sessions.
    pub pause: Option<Millis>,
    /// A new limit of sessions without progress.
    pub stall_sessions: Option<u32>,
    /// Whether the task is research after all.
    pub research: Option<bool>,
    /// Whether somebody sits there to guide it.
    pub guided: Option<bool>,
    /// Nobody judges claims any more.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub no_review: bool,
    /// Other bounds of money, tokens, time and turns.
    pub bounds: BoundsChange,
    /// What the agent may do without asking, from the next attempt on.
    #[serde(skip_serializing_if = "PermissionsChange::is_empty")]
    pub permissions: PermissionsChange,
}

/// By which rules sessions are judged: see [`crate::judge`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Judging {
    /// Sessions in a row without progress after which the run ends; 0 for any number.
    pub stall_sessions: u32,
    /// The task is to find something out: an unchanged tree is no stall.
    pub research: bool,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CommitPlan {
    /// Files of the work dir with changes at the start: a person's, not the agent's.
    pub dirty: Vec<DirtyFile>,
}

/// A file with uncommitted changes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DirtyFile {
    /// Its path from the repository's root.
    pub path: String,
    /// Its object in the commit that was checked out; nothing if it was not in it.
    pub committed: Option<String>,
    /// Its object as it lay in the work tree, or where it leads if it is a link (`-> target`); nothing if it was deleted,
    /// or is neither.
    pub content: Option<String>,
}
