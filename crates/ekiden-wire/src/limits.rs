//! How much of an agent's stream we keep, in one place, each limit with the reason for its size.

use crate::excerpt::Bounds;

/// The longest line that is read. For longer lines only the head is examined: a line of this size holds a
/// file or picture that no decision needs.
pub const LINE_BYTES_MAX: usize = 4 * 1024 * 1024;
/// A buffer larger than this is freed after its line, since long lines are rare.
pub const LINE_BUFFER_KEPT: usize = 64 * 1024;
/// The target of a call (path, command, pattern): a line on a terminal.
pub const TARGET_BYTES_MAX: usize = 200;
/// Commands that succeeded, kept for a rescue handoff.
pub const COMMANDS_KEPT: usize = 8;
/// Commands that failed, kept for a rescue handoff.
pub const FAILURES_KEPT: usize = 5;
/// Calls whose results may be outstanding at the same time; the oldest are forgotten first.
pub const OPEN_CALLS_MAX: usize = 64;
/// Callbacks of the agent that may be open at the same time; the oldest are forgotten first.
pub const OPEN_CALLBACKS_MAX: usize = 64;
/// An agent that retries without end has tried for some four minutes by then, so its service counts as out.
pub const RETRIES_MAX: u32 = 10;
/// Messages kept from one result.
pub const ERRORS_KEPT: usize = 8;
/// Refused calls kept from one result.
pub const DENIALS_KEPT: usize = 100;

/// Rules proposed for refused calls: nobody reads more.
pub const RULES_KEPT: usize = 10;

/// How much of a transcript's end is read. The client also writes its requests there, hundreds of kilobytes
/// each, so a few megabytes would be only a few calls.
pub const TAIL_BYTES_MAX: u64 = 16 * 1024 * 1024;
/// How much of its beginning is read, where the first prompt follows the client's own lines.
pub const HEAD_BYTES_MAX: u64 = 1024 * 1024;
pub const EDITED_KEPT: usize = 40;
/// What the person decided, by answering questions and by approving plans.
pub const DECISIONS_KEPT: usize = 12;
/// Items of an agent's to-do list.
pub const TODOS_KEPT: usize = 60;

/// What a person asked: the beginning says most.
pub(crate) const PROMPT: Bounds = Bounds {
    head: 900,
    tail: 300,
};
/// What the agent said: a little of the beginning, more of the end, where its plans are.
pub(crate) const WORDS: Bounds = Bounds {
    head: 300,
    tail: 900,
};
/// What a tool returned: the exit code is at the beginning, the failure at the end.
pub(crate) const RESULT: Bounds = Bounds {
    head: 300,
    tail: 300,
};
pub(crate) const TARGET: Bounds = Bounds {
    head: TARGET_BYTES_MAX - 4,
    tail: 0,
};
pub(crate) const ERROR: Bounds = Bounds { head: 400, tail: 0 };
