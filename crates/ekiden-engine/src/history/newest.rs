//! The newest run, for whoever can do without it: none if it cannot be read.

use ekiden_core::run::Run;

use super::{Listed, find, look, open, read};
use crate::workspace::Workspace;

/// The newest run here.
pub fn newest_run(workspace: &Workspace) -> Option<Run> {
    let (newest, _) = find(workspace, None).ok()?;
    Some(read(workspace, &newest, |_, _| {}).ok()?.run)
}

/// The newest run of the project, in whichever worktree, for what it has learned, which only improves a guess.
pub fn newest_of_project(workspace: &Workspace) -> Option<Run> {
    let state = open(workspace).ok()??;
    let runs = state.runs().ok()?.into_iter().map(|id| look(&state, id));
    let readable = runs.filter(|run| run.unreadable.is_none());
    let newest = readable.max_by_key(Listed::order)?;
    Some(read(workspace, &newest.run, |_, _| {}).ok()?.run)
}
