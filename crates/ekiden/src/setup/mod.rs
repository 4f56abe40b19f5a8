//! Installing the guard into Claude Code, and taking it out: everything of `ekiden setup` but its words.
//!
//! ```text
//!  Place ──► Plan::install │ Plan::remove ──► shown ──► apply
//!  where      reads, writes nothing                     receipt, skills, settings
//! ```
//!
//! Invariants:
//!
//! * **A plan is whole before the first byte is written**, and what is shown is the plan. If a file
//!   cannot be understood there is no plan.
//! * **The receipt goes first, the settings last**, and the other way round when it is taken out. So
//!   whenever the machine stops, a second call finds everything that the first one did: nothing fires
//!   whose removal nobody knows.
//! * **What a person made their own is left alone:** a skill that was changed, a command of the same
//!   name, a status line of a form that is not known.

mod apply;
mod place;
mod plan;
mod program;
mod shelf;

pub use apply::apply;
pub use place::{Place, Scope};
pub use plan::{FileChange, Plan};
pub use program::own_program;

/// Larger than any settings file or skill that a person wrote.
const FILE_BYTES_MAX: u64 = 4 * 1024 * 1024;
