//! The handoff: what a session leaves for its successors, and how it is checked.
//!
//! An agent writes up to three files. ekiden reads them like input from a stranger:
//!
//! ```text
//! HandoffFiles ──► inspect ──► Inspection: status, open items, faults
//!      │                          │ no required fault
//!      └──────────► accept ◄──────┘
//!                     └─► Handoff: stripped, with the warnings that were accepted
//! ```
//!
//! Invariants:
//! - [`inspect`] and [`accept()`] see the same cleaned text, and the next session sees that text too: nothing
//!   hides from one of the three.
//! - Each requirement is written once: [`Heading`] supplies the text of the protocol, the check and the
//!   remedy.
//! - Doing what a [`Fault`] says removes the fault.
//! - Only the STATUS line and the ticks have an effect; everything else is passed on as data.

mod accept;
pub(crate) mod fault;
pub(crate) mod files;
pub mod headings;
mod inspection;
mod items;
mod page;
pub(crate) mod status;

pub use accept::{Handoff, accept};
pub use fault::{Fault, FaultKind, Lack, Severity};
pub use files::{FileText, HandoffFile, HandoffFiles, NotText};
pub(crate) use headings::is_explanation;
pub use headings::{Heading, Need, first_line, said};
pub use inspection::{Inspection, inspect, inspect_after};
pub use items::{OpenItems, item_key, open_items, vanished};
pub use status::{
    InvalidMarker, Marker, STATUS, Status, StatusFault, WORD_BLOCKED, WORD_IN_PROGRESS,
};

#[cfg(test)]
pub(crate) mod tests;
