//! Plans on the command line: reads a manifest, fits it to settings and project, shows it and asks for
//! approval.
//!
//! ```text
//! file ─► read ─► Document ─► isolation ─► Manifest ─► select (--from, --only, --skip)
//!                                             │
//!                                             └─► show (waves, commands, estimate) ─► approve
//! idea, document ─► author ─► file
//! ```
//!
//! The crate `ekiden-manifest` defines what a manifest means; these modules handle the files and the
//! questions around it.

pub mod approve;
pub mod author;
pub mod isolation;
pub mod read;
mod resolve;
pub mod select;
pub mod show;
pub mod stopped;
