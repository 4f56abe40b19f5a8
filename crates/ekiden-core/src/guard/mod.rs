//! The watch over a session's context: levels of use, and the verdict at each hook.
//!
//! Both are pure. An engine and a hook process ask the same functions.

mod levels;
mod verdict;

pub use levels::{Level, Levels, LevelsError, Profile, Window};
pub use verdict::{Denial, GuardView, HookInput, ToolUse, Verdict, verdict};
