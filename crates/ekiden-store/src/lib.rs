//! Durable state: the only crate that writes files.
//!
//! ```text
//!  engine ──► LockedStateDir ──► LogWriter        one record, one sync, then the effect
//!     │            └── WorkDirLock, attempt lock  who may write, what still lives
//!     ├──► archive · handoff · publish · status   whole files: the old or the new, never half
//!     └──► StreamWriter                           event streams, not synced
//!  status, log ──► StateDir ──► LogReader         reads only, also during a run
//!                     │
//!                     ▼
//!  hooks ──► GuardFiles                           watched sessions: many writers, nothing synced
//!
//!        Disk ── RealDisk                         the operating system
//! ```
//!
//! It makes three promises; each module says how it keeps its part:
//!
//! * **Nothing acknowledged is lost.** When a call reports success, its result survives what the call's doc
//!   says it survives: the death of the process, or a power cut.
//! * **Nothing half done passes for whole.** Files appear whole or not at all; a torn tail of the log is
//!   recognized as one.
//! * **Nothing unreadable passes for empty.** Damage, a foreign file or a newer version is an error with its path
//!   and a hint.
//!
//! What must not be known here: agents, processes, the network, what a record means.

pub mod archive;
pub mod beneath;
pub mod disk;
pub mod documents;
pub mod error;
pub mod format;
pub mod guard;
pub mod handoff;
pub mod layout;
pub mod limits;
pub mod lock;
pub mod log;
pub mod memory;
pub mod outbox;
pub mod place;
pub mod published;
pub mod ralph;
pub mod receipt;
mod reftable;
pub mod replace;
pub mod state;
pub mod status;
pub mod stream;
pub mod user_state;
