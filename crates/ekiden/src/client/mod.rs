//! What the user has set up for Claude Code: its settings files, and what they mean for a run.
//!
//! This module only reads them; `ekiden setup` writes them. A file that is missing or unreadable counts as
//! empty: the client reports such a file itself.

mod denial;
pub mod guard;
pub mod permission;
pub mod settings;
pub mod transcript;
pub mod window;
