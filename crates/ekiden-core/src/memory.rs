//! What the sessions of a run get of the memory.

use serde::{Deserialize, Serialize};

/// What sessions get of the memory.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemoryUse {
    /// Whose tools a session is to ask that continues the work of others; nobody's where it has none.
    pub tools: Option<MemoryTools>,
    /// Lines of what was left in the project before the run, the newest first, for its first session.
    pub recent: String,
}

/// A program whose tools find what earlier sessions left.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MemoryTools {
    Own,
    ClaudeMem,
}

impl MemoryTools {
    /// What its tools' names begin with.
    pub fn prefix(self) -> &'static str {
        match self {
            Self::Own => "mcp__ekiden__",
            Self::ClaudeMem => "mcp__claude-mem-search__",
        }
    }
}
