//! One run: events to core, records through store, effects performed.
//!
//! ```text
//!             ┌──────────────────────── runner: runtime, signals, clock ───────────────────────┐
//!             │  Input ─► Engine ─► Journal: decide, record ─► effects ─┬─► RunFiles    files       │
//!             │    ▲                                                    └─► EffectRunner   processes   │
//!             │    └──────────────── outcomes ──────────────────────────────────┘              │
//!             └────────────────────────────────────────────────────────────────────────────────┘
//! ```
//!
//! [`engine`] is synchronous and generic over its effect runner, so the same code runs on real processes and
//! in a simulated world. [`history`] only reads.
//!
//! What must not be known here: terminals, the command line.

pub mod checkpoint;
pub mod clock;
pub mod effect_runner;
pub mod engine;
pub mod error;
pub mod git;
pub mod globs;
pub mod history;
pub mod journal;
pub mod knowledge_file;
pub mod known_limits;
pub mod leftovers;
pub mod log_check;
mod main_loop;
mod meter;
pub mod notify;
pub mod observer;
mod overlap;
pub mod paths;
pub mod planning;
mod process_runner;
pub mod registry;
pub mod remote_run;
pub mod run_files;
pub mod runner;
mod runtime;
pub mod session_archive;
mod signals;
pub mod state_trust;
pub mod status;
pub mod steering;
mod steering_socket;
mod survey;
mod task_mark;
mod verification;
pub mod workspace;
pub mod worktrees;

pub use error::{EngineError, UnfinishedTask};
pub use verification::{check, check_now, ignored};
