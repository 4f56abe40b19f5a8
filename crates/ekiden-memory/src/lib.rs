//! What sessions left, found again in milliseconds.
//!
//! ```text
//! <month>.jsonl ──► Memory::catch_up ──► index.db ──► candidates ──► texts by their places ──► ranking
//! the truth         under a lock         postings     newest first   read from the truth
//! ```
//!
//! Invariants:
//! - *The index can be thrown away.* How far each file was read moves in the same transaction as its rows, so a crash
//!   undoes both; a known id is passed over, so nothing is doubled.
//! - *A reader takes no lock* unless there is something new.
//! - *Bounded time*: a word's lists take a bit a row at most, and some hundred texts are read.
//!
//! Does not know: runs in progress, terminals. Its database is the one file that is written outside of the store.

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
