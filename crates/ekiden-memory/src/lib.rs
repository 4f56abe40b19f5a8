//! Finds in milliseconds what sessions left.
//!
//! ```text
//! <month>.jsonl ──► Memory::catch_up ──► index-2.db ──► candidates ──► texts by their places ──► ranking
//! the truth         under a lock         postings     newest first   read from the truth
//! ```
//!
//! Invariants:
//! - *The index can be thrown away.* The position up to which each file was read moves in the same
//!   transaction as its rows, so a crash undoes both. A known id is skipped, so nothing is duplicated.
//! - *A reader takes no lock* unless there is something new.
//! - *Bounded time*: a word's lists take at most one bit per row, and about a hundred texts are read.
//!
//! Does not know about runs in progress or terminals. Its database is the one file that it writes.

mod ask;
mod candidates;
mod error;
mod forget;
mod index;
mod postings;
mod query;
mod ranking;
mod reading;
mod words;

pub use ask::ask;
pub use error::MemoryError;
pub use forget::Forget;
pub use index::{Memory, Stats};
pub use query::{Filter, Here, Query};
