//! The results of a run, from its log: a timeline, its curves, and the pages made from them.
//!
//! ```text
//! records of the log ──► Timeline ──┐
//! saved event streams ─► Streams ───┼──► Page ──► markdown, html
//!                                   └──► svg ────────────┘
//! ```
//!
//! Nothing here reads a file or a clock. The caller gives the records, a reader of each stream, and the texts that
//! only the command line has (exit codes, the next command).
//!
//! Invariants:
//! - Any prefix of a log gives a timeline: of a running run, of a killed one, of one whose log is damaged further on.
//! - Every text that ekiden did not write passes [`page::foreign`] on its way into a page: clean, masked, cut.
//! - A page refers to nothing outside itself, and nothing in it can be clicked or run.

pub mod curve;
pub mod graph;
pub mod page;
pub mod phrase;
pub mod render;
pub mod svg;
#[cfg(test)]
mod tests;
pub mod timeline;

pub use curve::Streams;
pub use page::Page;
pub use timeline::Timeline;
