//! How ekiden finds a task that outlived its engine and its keepers: by a variable in its environment.

use ekiden_core::ids::{EffectId, RunId};

/// The variable by which a restarted engine finds a verification or a commit that outlived even its
/// keepers.
pub(crate) const TASK_MARK: &str = "EKIDEN_TASK";

/// Its value. A commit also has it in its trailer.
pub(crate) fn task_mark(run: &RunId, effect: EffectId) -> String {
    format!("{run}/{effect}")
}
