//! The handoff document of a watched session.
//!
//! ```text
//!  Facts ──► document()   Markdown for people and agents, in .ekiden/handoffs/
//!                │  the agent fills in Done, Decisions, Blockers
//!                ├──► load()        what the next session reads at its start: marked as data
//!                ├──► KeyPoints     what `ekiden orient` shows
//!                └──► Filled        what the agent wrote, carried into the session's next document
//! ```
//!
//! A program writes what a program can know. What only the agent knows gets a marked empty place. Specs and diffs are
//! named, never copied.
//!
//! Invariants:
//! - A document has at most [`limits::DOCUMENT_MADE_TOKENS_MAX`](crate::limits) tokens when it is made, which leaves
//!   the agent room. Every section has its share, and says what was left out.
//! - Text of an agent, a tool or a file appears only on lines that begin with `- `, `> `, a number and a point or
//!   ekiden's own text, or as a quoted value of the front matter. So it can never open a section.
//! - [`load`] marks every line of the document as data.

mod facts;
mod front;
mod load;
mod page;
mod read;
mod sections;

pub use facts::{
    ChangedFile, Facts, GitTree, Instructions, LocalTime, TestRun, Todo, TodoState,
    TranscriptFacts, Tree, WipState,
};
pub use load::{Loaded, load};
pub use read::{Filled, KeyPoints, branch_of, mark_of, named_specs, section_names, session_of};

use crate::limits;
use front::front_matter;
use page::page;

/// The handoff document as Markdown.
pub fn document(facts: &Facts) -> String {
    let front = front_matter(facts);
    let title = format!("# Session Handoff: {}\n", sections::title(facts));
    let room = limits::DOCUMENT_MADE_TOKENS_MAX * limits::BYTES_PER_TOKEN;
    let room = room.saturating_sub(front.len() + title.len() + 1);
    let body = page(&sections::all(facts), room);
    format!("{front}\n{title}{body}")
}

#[cfg(test)]
mod tests;
