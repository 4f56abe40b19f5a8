//! Plans on the command line: a manifest is read, fitted to settings and project, shown and approved.
//!
//! ```text
//! file ─► read ─► Document ─► resolve ─► RunStarted ─► select (--from, --only, --skip)
//!                                │
//!                                └─► show (waves, commands, estimate) ─► approve
//! idea, document ─► author ─► file
//! ```
//!
//! What a manifest means is decided in `core`; here stand the files and the questions around it.

pub mod approve;
pub mod author;
pub mod ground;
pub mod read;
pub mod resolve;
pub mod select;
pub mod show;
pub mod stopped;
