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

/// The variables that identify an attempt's processes, and those of its run.
const SESSION_MARK: &str = "EKIDEN_SESSION_ID";
const RUN_MARK: &str = "EKIDEN_RUN";

/// Ends what a run left behind, and returns how many processes that were. Best effort: on a platform that cannot
/// tell, the attempt's lock still says whether keepers live. Call it only when no engine works on the run.
pub(crate) fn end_of<'a>(
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
    let tasks = tasks.map(|(id, _)| (TASK_MARK, task_mark(&run.header().run, id)));
    let attempts = run.live().filter_map(|(_, relay)| {
        let (_, conversation) = relay.attempt()?;
        Some((SESSION_MARK, conversation.to_string()))
    });
    tasks
        .chain(attempts)
        .map(|(name, mark)| ekiden_agent::end_marked(name, &mark, KILL_GRACE).unwrap_or(0))
        .sum()
}

/// The same for all runs of a project, by the variables that name a run. A process under a keeper is not left
/// behind, whether or not an engine lives.
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
