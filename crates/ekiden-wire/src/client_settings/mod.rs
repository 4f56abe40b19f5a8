//! The guard in Claude Code's settings files: finds our entries in a file, and adds or removes them.
//!
//! * **What is not ours stays byte for byte.** `edit` changes the text through its concrete syntax, never
//!   through its values. The one exception: an object on one line that gets an entry becomes several
//!   lines.
//! * **We recognise our entries by what they run** ([`GuardCommand`]), not by marks that the client or a person
//!   might lose when they rewrite the file. So we find whatever ekiden installed, wherever ekiden was then.
//! * **We do not edit a file that we do not understand.** We understand comments and trailing commas, but not a
//!   property that appears twice, since the client uses the last one and a person sees the first.
//!
//! The client reads plain JSON, with or without a byte order mark. It ignores a file with a comment in it, so
//! [`Survey::read`] finds nothing there and [`load_fault`] says why.

mod commands;
mod edit;
mod server;
mod survey;

pub(crate) use commands::is_ekiden;
pub use commands::{GUARD_HOOKS, GuardCommand, GuardHook};
pub use edit::{
    Installed, SettingsFault, StatusLineFate, add_status_line, drop_status_line, install,
    own_status_line, remove,
};
pub use server::{
    Registered, TOOLS_RULE, allow_tools, allows_tools, register, registered, unregister, use_mod,
};
pub use survey::{Position, Survey, load_fault, read};

/// Some programs begin a file with this; JSON parsers refuse it.
const BYTE_ORDER_MARK: char = '\u{feff}';

#[cfg(test)]
mod tests;
