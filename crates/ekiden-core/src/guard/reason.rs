//! Why a checkpoint of a watched session is taken.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Why a checkpoint is taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CheckpointReason {
    /// The use reached L2.
    #[serde(rename = "L2")]
    L2,
    /// The use reached L3.
    #[serde(rename = "L3")]
    L3,
    /// More lies ahead than the window still holds, so it comes before L2.
    Trajectory,
    /// The client is about to summarise the conversation.
    Compaction,
    /// The session ended with a checkpoint due.
    SessionEnd,
    /// Somebody asked for it.
    Manual,
}

impl CheckpointReason {
    /// The word in files and settings.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::L2 => "L2",
            Self::L3 => "L3",
            Self::Trajectory => "trajectory",
            Self::Compaction => "compaction",
            Self::SessionEnd => "session_end",
            Self::Manual => "manual",
        }
    }
}

impl fmt::Display for CheckpointReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
