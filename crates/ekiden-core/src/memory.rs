//! What a run's sessions get from the memory.

use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemoryUse {
    /// Whose tools a session queries before it continues earlier work; `None` if it has no such tools.
    pub tools: Option<MemoryTools>,
    /// Lines about earlier work in the project, the newest first, for the run's first session.
    pub recent: String,
}

/// A program whose tools find what earlier sessions left.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MemoryTools {
    Own,
    /// The same, by Claude Code's plugin.
    Plugin,
    ClaudeMem,
}

impl MemoryTools {
    pub fn prefix(self) -> &'static str {
        match self {
            Self::Own => "mcp__ekiden__",
            Self::Plugin => "mcp__plugin_ekiden_ekiden__",
            Self::ClaudeMem => "mcp__claude-mem-search__",
        }
    }
}
