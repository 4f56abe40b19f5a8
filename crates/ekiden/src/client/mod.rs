//! What the user has set up for Claude Code: its settings files, and what they mean for a run.
//!
//! They are read here, never written (`ekiden setup` does that). A file that is missing or cannot be read counts as empty: the
//! client says itself what it thinks of it.

mod denial;
pub mod guard;
pub mod permission;
pub mod settings;
pub mod transcript;
pub mod window;
