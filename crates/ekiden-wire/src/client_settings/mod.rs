//! The settings files of Claude Code, as far as the guard is concerned: what of ours stands in one, and
//! the same file with ours in it or out of it.
//!
//! ```text
//!            ┌─ shape: may it be edited? ─► edit: concrete syntax ─► the new text
//!  text ─────┤
//!            └─ survey: what does the client see in it?
//! ```
//!
//! * **What is not ours stays byte for byte.** The text is edited through its concrete syntax, never
//!   through its values. The one exception: an object on one line that gets an entry becomes several
//!   lines.
//! * **Ours is known by what it runs** ([`GuardCommand`]), not by marks that the client or a person
//!   might lose when they write the file anew. Whatever ekiden installed, from wherever it ran, is
//!   found again.
//! * **A file that is not understood is not edited.** Comments and trailing commas are; a property that
//!   stands twice is not, since the client heeds the last one and a person sees the first.
//!
//! The client reads plain JSON, with or without a byte order mark. Where it finds a comment it leaves
//! out the whole file, so [`Survey::read`] sees nothing there and [`load_fault`] says why.

mod commands;
mod edit;
mod shape;
mod survey;

pub use commands::{GUARD_HOOKS, GuardCommand, GuardHook};
pub use edit::{Installed, StatusLineFate, install, remove};
pub use shape::{Position, SettingsFault};
pub use survey::{Survey, load_fault};

/// Programs may begin a file with it; no JSON parser wants to see it.
const BYTE_ORDER_MARK: char = '\u{feff}';

#[cfg(test)]
mod tests;
