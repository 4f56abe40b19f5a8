//! What a run is started with. All of it is frozen into the log's first record, so that a resumed
//! run reads no file again that somebody may have changed.

use serde::{Deserialize, Serialize};

use crate::bounds::Bounds;
use crate::budget::{Price, Prices};
use crate::event::LimitsChanged;
use crate::guard::Levels;
use crate::handoff::Marker;
use crate::ids::RunId;
use crate::limits;
use crate::manifest::Manifest;
use crate::renewal::StartingPoint;
use crate::time::Millis;

/// The first record of every log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunStarted {
    /// The run's id.
    pub run: RunId,
    /// The version of the program that started it.
    pub ekiden: String,
    /// Where it works.
    pub place: Place,
    /// What it does.
    pub manifest: Manifest,
    /// How it does it.
    pub settings: Settings,
    /// Where it begins, if that is another run's session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<Box<StartingPoint>>,
    /// What models cost, as far as earlier runs here have learned it.
    #[serde(default)]
    pub prices: Prices,
}

/// Where a run works, and where it keeps what the agent sees.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Place {
    /// The work dir as it was at the start, absolute. Shown only: a project may move.
    pub work_dir: String,
    /// The linked worktree's name, or nothing in the main one. Runs of one project are told apart
    /// by this.
    pub worktree: Option<String>,
    /// The work dir lies in a git repository.
    pub git: bool,
    /// The branch that the run works on, if the user named one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub branch: Option<String>,
}

/// How a run works: resolved from flags, environment and files before it starts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Settings {
    /// The word that claims completion.
    pub marker: Marker,
    /// Where the levels begin.
    pub levels: Levels,
    /// The most of a large window that is used, in tokens.
    pub cap_tokens: Option<u64>,
    /// The pause between two sessions.
    pub pause: Millis,
    /// The longest wait for a usage limit.
    pub wait_max: Millis,
    /// The agent that works.
    pub agent: AgentSpec,
    /// What it may use of money, tokens, time and turns.
    #[serde(default)]
    pub bounds: Bounds,
    /// By which rules sessions are judged; none in logs from before there were any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub judging: Option<Judging>,
    /// Commits after each session, if the user wants them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub commit: Option<CommitPlan>,
    /// A person is told by the desktop when the run ends or waits.
    #[serde(default)]
    pub notify: bool,
    /// Sessions are asked to give bulky work to subagents.
    #[serde(default)]
    pub subagents: bool,
    /// Somebody sits there who may say something before each session.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub guided: bool,
}

impl Settings {
    /// Takes over limits that somebody changes, but for those that are counted.
    pub fn change(&mut self, limits: &LimitsChanged) {
        self.guided = limits.guided.unwrap_or(self.guided);
        self.bounds.change(&limits.bounds);
        self.agent.permissions.change(&limits.permissions);
        self.wait_max = limits.wait_max.unwrap_or(self.wait_max);
        self.pause = limits.pause.unwrap_or(self.pause);
    }
}

/// By which rules sessions are judged: see [`crate::judge`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Judging {
    /// Sessions in a row without progress after which the run ends; 0 for any number.
    pub stall_sessions: u32,
    /// The task is to find something out: an unchanged tree is no stall.
    pub research: bool,
}

/// What commits leave out.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CommitPlan {
    /// Files of the work dir with changes at the start: a person's, not the agent's.
    pub dirty: Vec<DirtyFile>,
}

/// A file with changes that nobody had committed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DirtyFile {
    /// Its path from the repository's root.
    pub path: String,
    /// Its object in the commit that was checked out; nothing if it was not in it.
    pub committed: Option<String>,
    /// Its object as it lay in the work tree; nothing if it was deleted, or is no file.
    pub content: Option<String>,
}

/// An agent, as a row of differences.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AgentSpec {
    /// What the user calls it.
    pub name: String,
    /// Which adapter drives it.
    pub kind: AgentKind,
    /// The program and its first arguments.
    pub command: Vec<String>,
    /// The model, if the user chose one.
    pub model: Option<String>,
    /// What it may do without asking.
    pub permissions: Permissions,
    /// How it is driven.
    #[serde(default)]
    pub interface: Interface,
}

/// How an agent is driven.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Interface {
    /// By its stream, without a terminal.
    #[default]
    Headless,
    /// In its own interface on the user's terminal, where the user can type at any time.
    Terminal,
}

/// The user's choice of what the agent may do without asking. Nothing chosen: the agent's own rules.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Permissions {
    /// The agent's permission mode, by its own name.
    pub mode: Option<String>,
    /// Every question is answered with yes.
    pub skip: bool,
    /// Rules for tools that may run, in the agent's own form.
    pub allowed_tools: Vec<String>,
    /// The user's own settings, hooks and servers of the agent are left out.
    #[serde(default)]
    pub isolated: bool,
}

/// Permissions that whoever carries a run on wants changed; nothing where one stays.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct PermissionsChange {
    /// Another permission mode.
    pub mode: Option<String>,
    /// Whether every question is answered with yes.
    pub skip: Option<bool>,
    /// Rules beside those that there are.
    pub allowed_tools: Vec<String>,
}

impl Permissions {
    /// Takes the changes over.
    pub fn change(&mut self, change: &PermissionsChange) {
        self.mode = change.mode.clone().or(self.mode.take());
        self.skip = change.skip.unwrap_or(self.skip);
        for rule in &change.allowed_tools {
            if !self.allowed_tools.contains(rule) {
                self.allowed_tools.push(rule.clone());
            }
        }
    }
}

impl PermissionsChange {
    /// Nothing is changed.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// Which adapter drives an agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AgentKind {
    /// Claude Code, headless.
    Claude,
    /// The built-in agent without a model, over the same wire.
    Rehearsal,
    /// Any command: prompt on standard input, handoff by files alone.
    Exec,
}

impl AgentKind {
    /// What the agent keeps free of its window for its own compaction, in tokens.
    #[must_use]
    pub fn reserve_tokens(self) -> u64 {
        match self {
            Self::Claude => limits::RESERVE_TOKENS_CLAUDE,
            Self::Rehearsal | Self::Exec => 0,
        }
    }

    /// What a model costs that never told it.
    #[must_use]
    pub fn price_unknown(self) -> Price {
        match self {
            Self::Claude => Price::usual(limits::PRICE_UNKNOWN_NANO_USD),
            Self::Rehearsal | Self::Exec => Price::usual(0),
        }
    }

    /// Messages can be sent into a running turn, so a handoff can be ordered and asked for.
    #[must_use]
    pub fn takes_messages(self) -> bool {
        match self {
            Self::Claude | Self::Rehearsal => true,
            Self::Exec => false,
        }
    }

    /// The agent tells its calls of tools and its use of context.
    #[must_use]
    pub fn tells_figures(self) -> bool {
        match self {
            Self::Claude | Self::Rehearsal => true,
            Self::Exec => false,
        }
    }

    /// The name in settings files.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Claude => "claude",
            Self::Rehearsal => "rehearsal",
            Self::Exec => "exec",
        }
    }
}
