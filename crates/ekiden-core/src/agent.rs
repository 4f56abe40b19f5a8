//! An agent as the settings name it: its program, how ekiden drives it, and what it may do without asking.

use serde::{Deserialize, Serialize};

use crate::budget::Price;
use crate::limits;
use crate::names::names;

/// An agent, described by the ways in which agents differ.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AgentSpec {
    /// The user's name for it.
    pub name: String,
    pub kind: AgentKind,
    /// The program and its first arguments.
    pub command: Vec<String>,
    /// The model, if the user chose one.
    pub model: Option<String>,
    /// The directory in which the agent keeps the account's login and settings, in place of its usual one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub account: Option<String>,
    /// What it may do without asking.
    pub permissions: Permissions,
    pub interface: Interface,
}

impl AgentSpec {
    pub fn read_only(self) -> Self {
        Self {
            permissions: Permissions {
                isolated: self.permissions.isolated,
                read_only: true,
                ..Permissions::default()
            },
            interface: Interface::Headless,
            ..self
        }
    }

    /// Both have the same program, model and account; permissions may differ.
    pub fn is_same(&self, other: &Self) -> bool {
        self.shares_login(other) && self.model == other.model
    }

    /// Both have the same program and account.
    pub fn shares_login(&self, other: &Self) -> bool {
        (self.kind, &self.command, &self.account) == (other.kind, &other.command, &other.account)
    }

    /// The provider whose account pays, if the model's name says it, as in `anthropic/claude-x`.
    pub fn provider(&self) -> Option<&str> {
        let model = self
            .model
            .as_deref()
            .filter(|_| self.kind == AgentKind::Acp);
        model?.split_once('/').map(|(provider, _)| provider)
    }

    /// Why it cannot keep to these permissions, if it cannot.
    pub fn cannot_hold(&self, permissions: &Permissions) -> Option<&'static str> {
        match self.kind {
            AgentKind::Exec if !permissions.skip => {
                Some("an agent of kind `exec` asks nobody, so it cannot be held to permissions")
            }
            AgentKind::Acp | AgentKind::Codex if permissions.isolated => {
                Some("it cannot leave out your own settings of it (`isolated`)")
            }
            AgentKind::Claude
            | AgentKind::Rehearsal
            | AgentKind::Acp
            | AgentKind::Codex
            | AgentKind::Exec => None,
        }
    }

    /// The environment variable with its account's directory.
    pub fn account_variable(&self) -> Option<(&'static str, &str)> {
        let variable = match self.kind {
            AgentKind::Claude => "CLAUDE_CONFIG_DIR",
            AgentKind::Codex => "CODEX_HOME",
            AgentKind::Rehearsal | AgentKind::Acp | AgentKind::Exec => return None,
        };
        Some((variable, self.account.as_deref()?))
    }

    /// Its name for people: `claude:haiku`.
    pub fn label(&self) -> String {
        match &self.model {
            Some(model) => format!("{}:{model}", self.name),
            None => self.name.clone(),
        }
    }
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Purpose {
    #[default]
    Work,
    /// To judge the claim of the sessions before it.
    Review,
}

impl Purpose {
    pub fn is_work(&self) -> bool {
        *self == Self::Work
    }
}

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
    pub mode: Option<String>,
    /// Every question is answered with yes.
    pub skip: bool,
    /// Rules for tools that may run, in the agent's own form.
    pub allowed_tools: Vec<String>,
    /// The user's own settings, hooks and servers of the agent are left out.
    pub isolated: bool,
    /// It has ekiden's MCP server, whose tools run without asking.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub mcp: bool,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub read_only: bool,
}

/// Changes of permissions at a resume; what is not named stays.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct PermissionsChange {
    pub mode: Option<String>,
    /// Whether every question is answered with yes.
    pub skip: Option<bool>,
    /// Rules in addition to the existing ones.
    pub allowed_tools: Vec<String>,
}

impl Permissions {
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
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// Which adapter drives an agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AgentKind {
    Claude,
    /// The built-in agent without a model, over the same wire.
    Rehearsal,
    /// Any agent that speaks the Agent Client Protocol.
    Acp,
    /// Codex, by its `app-server`.
    Codex,
    /// Any command: prompt on standard input, handoff by files alone.
    Exec,
}

names!(AgentKind {
    Claude: "claude",
    Rehearsal: "rehearsal",
    Acp: "acp",
    Codex: "codex",
    Exec: "exec",
});

impl AgentKind {
    /// How much of its window the agent keeps free for its own compaction, in tokens.
    pub fn reserve_tokens(self) -> u64 {
        match self {
            Self::Claude => limits::RESERVE_TOKENS_CLAUDE,
            Self::Rehearsal | Self::Acp | Self::Codex | Self::Exec => 0,
        }
    }

    /// The assumed cost of a model that never reported one.
    pub fn price_unknown(self) -> Price {
        match self {
            Self::Claude | Self::Acp | Self::Codex => Price::usual(limits::PRICE_UNKNOWN_NANO_USD),
            Self::Rehearsal | Self::Exec => Price::usual(0),
        }
    }

    /// ekiden can talk to it. It accepts messages in a running turn, so ekiden can order a handoff and ask
    /// for one; and it reports its tool calls and its use of context.
    pub fn takes_messages(self) -> bool {
        match self {
            Self::Claude | Self::Rehearsal | Self::Acp | Self::Codex => true,
            Self::Exec => false,
        }
    }
}
