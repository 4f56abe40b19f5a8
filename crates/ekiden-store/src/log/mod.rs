//! The log of a run: JSON lines that a person can read, and the truth that everything derives from.
//!
//! ```text
//! {"format":"ekiden-log","version":1}
//! {"seq":1,"time":1780000000000,"logic":1,"event":{...},"effects":[...],"chain":"6b0f..."}
//! {"seq":2,...
//! ```
//!
//! # Invariants
//!
//! 1. A record is on the disk when [`LogWriter::append`] returns. Only then may its effects be performed.
//! 2. Records are numbered 1, 2, 3 without a gap.
//! 3. A record, once on the disk, is never changed and never removed.
//! 4. The file appears whole, with its header and its first record: see [`LogWriter::create`].
//! 5. Each line ends with a link to the line before, and the links are copied to where no project
//!    writes: see [`ChainCheck`].
//! 6. There is one writer, the holder of the work dir's lock. Each append names the length that it
//!    expects, so a second writer would be noticed.
//!
//! # The torn tail
//!
//! A crash in the middle of an append leaves a last line that has no newline, or that has its newline and zeros
//! instead of text. By (1) none of its effects was performed, so the next writer cuts the line off and readers
//! skip it. Only the last line can be torn, since the writer begins a line after it has synced the one before.
//! Any other unreadable line is damage. Damage is an error with its place, never an empty or shorter log: that
//! is how work disappears. A last line that is valid JSON but not a record was written by another version; it
//! is an error too.
//!
//! # A record that was not acknowledged
//!
//! After a failed append the record may be in the file or not, and the writer refuses to continue
//! ([`FileFault::Broken`](crate::error::FileFault::Broken)). The next writer finds out. It syncs what it has read
//! before anybody may act on it, since its predecessor may have died between its write and its sync.

mod chain;
mod reader;
mod writer;

pub use chain::{ChainCheck, Continuity};
pub(crate) use reader::glance;
pub use reader::{LogReader, Tail, read_log};
pub use writer::LogWriter;

/// A record that knows its number.
pub trait Numbered {
    /// Its number in the log: 1, 2, 3.
    fn seq(&self) -> u64;
}

impl Numbered for ekiden_core::record::Record {
    fn seq(&self) -> u64 {
        self.seq
    }
}
