//! What other programs left in a project, read for `ekiden import`.
//!
//! Everything here only reads. The files may be a stranger's, so they are read within bounds and never outside
//! of the project; what they say is data.

pub mod cleave;
pub mod handoffs;
pub mod plan;
pub mod ralph;
pub mod sessions;
pub mod settings;
pub mod source;

use serde::Serialize;

/// What becomes of one thing of another program.
#[derive(Debug, Serialize)]
pub struct Finding {
    /// What it is there: `CLEAVE_PAUSE=10`.
    pub was: String,
    #[serde(flatten)]
    pub became: Became,
}

#[derive(Debug, Serialize)]
#[serde(tag = "what", content = "text", rename_all = "snake_case")]
pub enum Became {
    /// It is here now.
    New(String),
    /// It was here before.
    Known(String),
    /// It stays where it is: why, and what to do instead.
    Nothing(String),
}

impl Finding {
    pub fn new(was: impl Into<String>, became: Became) -> Self {
        Self {
            was: was.into(),
            became,
        }
    }
}
