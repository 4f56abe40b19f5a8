//! Plans on the command line: a manifest is read, fitted to settings and project, shown and approved.
//!
//! ```text
//! file ─► read ─► Document ─► isolation ─► Manifest ─► select (--from, --only, --skip)
//!                                             │
//!                                             └─► show (waves, commands, estimate) ─► approve
//! idea, document ─► author ─► file
//! ```
//!
//! The crate `ekiden-manifest` says what a manifest means; these modules hold the files and the questions
//! around it.

pub mod approve;
pub mod author;
pub mod isolation;
pub mod read;
mod resolve;
pub mod select;
pub mod show;
pub mod stopped;
