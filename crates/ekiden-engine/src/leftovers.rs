//! Ends what outlived an engine and all its keepers.
//!
//! If any of the keepers survives, it ends the processes it keeps. If the engine and every keeper are killed at
//! the same instant, nothing is left to do that, and a tool that ignores signals or has its own session keeps
//! running. It still has its run's mark in its environment. The next command that changes anything in the project
//! finds the tool by that mark, opens a descriptor to it, checks again, and kills it. So it never hits a later
//! process that reuses the pid.

use ekiden_core::effect::{Effect, RelayEffect};
use ekiden_core::ids::EffectId;
use ekiden_core::limits::KILL_GRACE;
use ekiden_core::run::Run;
use ekiden_store::state::StateDir;

use crate::history;
use crate::observer::Observer;
use crate::task_mark::{TASK_MARK, task_mark};
use crate::workspace::Workspace;

/// The variable that identifies the processes of a run's attempts.
const RUN_MARK: &str = "EKIDEN_RUN";

/// Ends the commands that a run was waiting for, and returns how many processes that were. Best effort. A
/// command has no lock as an attempt has, so it is ended even if its keeper lives. Call it only when no engine works on the
/// run.
pub(crate) fn end_tasks<'a>(
    run: &Run,
    outstanding: impl Iterator<Item = (EffectId, &'a Effect)>,
) -> usize {
    let is_task = |effect: &Effect| {
        matches!(
            effect,
            Effect::Worktree { .. }
                | Effect::Deliver
                | Effect::Stage {
                    effect: RelayEffect::Verify | RelayEffect::Commit { .. },
                    ..
                }
        )
    };
    let tasks = outstanding.filter(|(_, effect)| is_task(effect));
    let marks = tasks.map(|(id, _)| task_mark(&run.header().run, id));
    marks
        .map(|mark| ekiden_agent::end_marked(TASK_MARK, &mark, KILL_GRACE).unwrap_or(0))
        .sum()
}

/// Ends what no keeper keeps any more of all runs of a project, by the variables that name a run. What a keeper keeps
/// is not left behind: it may belong to an engine in a copy of this project.
pub(crate) fn end_unkept(state: &StateDir) -> usize {
    let runs = state.runs().unwrap_or_default();
    let is_ours = |name: &str| runs.iter().any(|run| run.as_str() == name);
    let is_mark = |variable: &[u8]| run_of(variable).is_some_and(is_ours);
    match runs.is_empty() {
        true => 0,
        false => ekiden_agent::end_unkept(&is_mark, KILL_GRACE).unwrap_or(0),
    }
}

/// The run that a variable names.
fn run_of(variable: &[u8]) -> Option<&str> {
    let (name, value) = std::str::from_utf8(variable).ok()?.split_once('=')?;
    match name {
        RUN_MARK => Some(value),
        TASK_MARK => value.split('/').next(),
        _ => None,
    }
}

/// The same for a command that starts nothing.
pub fn end_here(workspace: &Workspace) -> usize {
    let state = history::open(workspace).ok().flatten();
    state.map_or(0, |state| end_unkept(&state))
}

/// Says how many were ended, if any.
pub fn message(ended: usize) -> Option<String> {
    let processes = match ended {
        0 => return None,
        1 => "1 process".to_owned(),
        more => format!("{more} processes"),
    };
    Some(format!(
        "ended {processes} that an earlier run left behind: ekiden and its keepers were all killed at once"
    ))
}

pub(crate) fn warn(ended: usize, observer: &mut dyn Observer) {
    if let Some(text) = message(ended) {
        observer.warn(&text);
    }
}
