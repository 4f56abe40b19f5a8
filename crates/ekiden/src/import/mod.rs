//! What other programs left in a project, read for `ekiden import`.
//!
//! This module only reads. The files may come from a stranger, so it reads them within bounds and never
//! outside the project; their content is data.

pub mod cleave;
pub mod handoffs;
pub mod plan;
pub mod ralph;
pub mod sessions;
pub mod settings;
pub mod source;

use serde::Serialize;

/// One thing that another program left, and what becomes of it.
#[derive(Debug, Serialize)]
pub struct Conversion {
    /// Its name there: `CLEAVE_PAUSE=10`.
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
    /// ekiden does this by default, so nothing is set.
    #[serde(rename = "known")]
    Default(String),
    /// It is not imported: why, and what to do instead.
    Nothing(String),
}

impl Conversion {
    pub fn new(was: impl Into<String>, became: Became) -> Self {
        Self {
            was: was.into(),
            became,
        }
    }
}
