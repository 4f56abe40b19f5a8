//! What earlier stages left, on any worker: read from the logs that they pushed.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use ekiden_core::event::Event;
use ekiden_core::ids::{RunId, StageId};
use ekiden_core::knowledge::Knowledge;
use ekiden_core::limits::STAGE_RESULTS_MAX;
use ekiden_core::manifest::{Manifest, Stage};
use ekiden_core::outcome::Outcome;
use ekiden_core::record::Record;
use ekiden_core::run::Run;
use ekiden_core::settings::{Before, Earlier};
use ekiden_engine::history;

use crate::fault::Fault;
use crate::git::Git;
use crate::order::{StageTask, refs};
use crate::stage::STATE;
use crate::worker_context::WorkerContext;

/// The refs that are read here, as patterns.
pub(crate) fn wanted(manifest: &Manifest, task: &StageTask) -> Vec<String> {
    let under = refs::handoffs(&task.run);
    let needed = needed(manifest, &task.stage).into_iter();
    needed
        .map(|stage| format!("{under}/{}/*", stage.id))
        .collect()
}

/// What the stages that this one builds on left and learned, nearest first. Call it once [`wanted`] is
/// fetched.
pub(crate) async fn before(
    base: &WorkerContext,
    manifest: &Manifest,
    task: &StageTask,
) -> Result<Before, Fault> {
    let (mut before, mut learned) = (Before::default(), Knowledge::default());
    let needed = needed(manifest, &task.stage);
    if needed.is_empty() {
        return Ok(before);
    }
    let mirror = Git::at(&base.mirror().await?);
    let mut last = last_rounds(&mirror, &task.run, &needed).await?;
    for stage in needed {
        let Some((_, commit)) = last.remove(&stage.id) else {
            continue;
        };
        let log = records(&mirror, &task.run, &commit).await?;
        let Some(run) = folded(&log) else { continue };
        if let Some(result) = run.result(&stage.id) {
            learned.adopt(run.shared_knowledge());
            before.results.push(Earlier {
                stage: stage.id.clone(),
                name: stage.task_name.clone(),
                text: result.text.clone(),
            });
        }
    }
    before.knowledge = learned.render();
    Ok(before)
}

/// The stages that one builds on, nearest first; no more than can be shown.
fn needed<'a>(manifest: &'a Manifest, stage: &StageId) -> Vec<&'a Stage> {
    let stages: BTreeMap<&StageId, &Stage> = manifest
        .stages
        .iter()
        .map(|stage| (&stage.id, stage))
        .collect();
    let (mut found, mut seen) = (Vec::new(), BTreeSet::new());
    let mut next: VecDeque<&Stage> = stages.get(stage).copied().into_iter().collect();
    while let Some(stage) = next.pop_front() {
        for need in &stage.part.needs {
            if let Some(needed) = stages.get(&need.stage).filter(|_| seen.insert(&need.stage)) {
                next.push_back(needed);
                found.push(*needed);
            }
        }
    }
    found.truncate(STAGE_RESULTS_MAX);
    found
}

/// The last round of each of these stages, and what it left.
async fn last_rounds(
    git: &Git,
    run: &RunId,
    stages: &[&Stage],
) -> Result<BTreeMap<StageId, (u32, String)>, Fault> {
    let under = refs::handoffs(run);
    let names: Vec<String> = stages
        .iter()
        .map(|stage| format!("{under}/{}", stage.id))
        .collect();
    let mut list = vec!["for-each-ref", "--format=%(refname) %(objectname)"];
    list.extend(names.iter().map(String::as_str));
    let mut last = BTreeMap::new();
    for line in git.line(&list).await?.lines() {
        let found = line.split_once(' ').and_then(|(name, commit)| {
            let (stage, round) = refs::round_of(name, &under)?;
            Some((stage, (round, commit.to_owned())))
        });
        if let Some((stage, found)) = found {
            let known = last.entry(stage).or_insert_with(|| found.clone());
            *known = found.max(known.clone());
        }
    }
    Ok(last)
}

/// The records of a stage's own log, as pushed.
pub(crate) async fn records(git: &Git, run: &RunId, commit: &str) -> Result<Vec<Record>, Fault> {
    let log = log(git, run, commit).await?;
    let records = log.lines().skip(1);
    let read = records.map(|line| serde_json::from_str(line).map_err(Fault::from));
    read.collect()
}

/// A stage's own log, as pushed. A claim without a handoff has none.
pub(crate) async fn log(git: &Git, run: &RunId, commit: &str) -> Result<String, Fault> {
    let file = format!("{commit}:{STATE}/runs/{run}/log.jsonl");
    let log = git.ended(&["cat-file", "blob", &file], b"").await?;
    match log.ok {
        true => whole(log.stdout),
        false => Ok(String::new()),
    }
}

/// The lines that are complete: the log was pushed while being written.
fn whole(mut log: String) -> Result<String, Fault> {
    log.truncate(log.rfind('\n').unwrap_or(0));
    match log.lines().next().is_some_and(history::is_newer) {
        true => Err(Fault::Older("a stage's log is of a newer one".to_owned())),
        false => Ok(log),
    }
}

/// The run of a stage that is done.
fn folded(log: &[Record]) -> Option<Run> {
    let (first, rest) = log.split_first()?;
    let Event::RunStarted(header) = &first.event else {
        return None;
    };
    let (mut run, _) = Run::begin(first.time, header);
    for record in rest {
        run.step(record.time, &record.event);
    }
    let is_done = run.outcome().is_some_and(Outcome::is_complete);
    is_done.then_some(run)
}

#[cfg(test)]
mod tests {
    use super::*;

    // shows: FLT-02, DUR-05
    #[test]
    fn a_log_of_a_newer_format_is_left_to_newer_workers() {
        let log = |version: u32| {
            let first = format!("{{\"format\":\"ekiden-log\",\"version\":{version}}}\n");
            whole(format!("{first}{{\"seq\":1}}\n{{\"se"))
        };
        assert_eq!(log(1).unwrap().lines().last(), Some("{\"seq\":1}"));
        let newer = log(2).unwrap_err();
        assert!(
            matches!(newer, Fault::Older(_)) && newer.is_away(),
            "{newer}"
        );
    }
}
