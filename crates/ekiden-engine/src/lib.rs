//! One run: events to core, records through store, effects performed.
//!
//! ```text
//!             ┌──────────────────────── runner: runtime, signals, clock ───────────────────────┐
//!             │  Input ─► Engine ─► Journal: decide, record ─► effects ─┬─► Desk    files       │
//!             │    ▲                                                    └─► Hands   processes   │
//!             │    └──────────────── outcomes ──────────────────────────────────┘              │
//!             └────────────────────────────────────────────────────────────────────────────────┘
//! ```
//!
//! [`engine`] is synchronous and generic over its hands, so the same code runs on real processes and
//! in a simulated world. [`history`] only reads.
//!
//! What must not be known here: terminals, the command line.

pub mod archive_job;
pub mod branch;
mod changes;
pub mod checkpoint;
pub mod clock;
pub mod commit;
pub mod desk;
pub mod engine;
pub mod error;
mod git;
mod globs;
pub mod grounds;
pub mod hands;
pub mod history;
pub mod journal;
pub mod kept;
pub mod knowledge_file;
mod meter;
mod notify;
pub mod observer;
pub mod places;
pub mod planning;
mod processes;
pub mod runner;
mod session_files;
pub mod status;
pub mod steering;
mod survey;
mod verification;
pub mod workspace;

pub use error::EngineError;
