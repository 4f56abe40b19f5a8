//! The guard in the settings files of Claude Code: what of ours is in one, and the same file with ours put in or
//! taken out.
//!
//! * **What is not ours stays byte for byte.** `edit` changes the text through its concrete syntax, never
//!   through its values. The one exception: an object on one line that gets an entry becomes several
//!   lines.
//! * **Ours is recognised by what it runs** ([`GuardCommand`]), not by marks that the client or a person
//!   might lose when they rewrite the file. Whatever ekiden installed is found again, wherever ekiden was then.
//! * **A file that is not understood is not edited.** Comments and trailing commas are understood; a property
//!   that appears twice is not, since the client uses the last one and a person sees the first.
//!
//! The client reads plain JSON, with or without a byte order mark. It ignores a file with a comment in it, so
//! [`Survey::read`] finds nothing there and [`load_fault`] says why.

mod commands;
mod edit;
mod server;
mod survey;

pub use commands::{GUARD_HOOKS, GuardCommand, GuardHook};
pub use edit::{Installed, SettingsFault, StatusLineFate, install, remove};
pub use server::{Registered, TOOLS_RULE, allow_tools, register, registered, unregister, use_mod};
pub use survey::{Position, Survey, load_fault};

/// Some programs begin a file with it; JSON parsers refuse it.
const BYTE_ORDER_MARK: char = '\u{feff}';

#[cfg(test)]
mod tests;
