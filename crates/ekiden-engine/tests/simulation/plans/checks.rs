//! Separate checkers for plans: they read log, disk and repository as a stranger would.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use ekiden_core::effect::{Effect, RelayEffect, WorktreeEffect};
use ekiden_core::ends::EndCause;
use ekiden_core::event::{AttemptEnded, AttemptEvent, Event, Merge, RelayEvent, WorktreeEvent};
use ekiden_core::handoff::HandoffFile;
use ekiden_core::ids::{AttemptId, RunId, StageId};
use ekiden_core::outcome::Outcome;
use ekiden_core::record::{Record, numbered};
use ekiden_core::run::Run;
use ekiden_core::time::Timestamp;
use ekiden_engine::journal::RunSummary;
use ekiden_engine::paths::RunPaths;
use ekiden_sim::SimDisk;
use ekiden_store::disk::Disk;
use ekiden_store::state::StateDir;

use super::PlanScenario;
use super::world::PlanWorld;
use crate::checks::{READ_MAX, author};
use crate::world::{layout, workspace};

/// Everything that must hold once a plan is over, however it ended and whatever happened on the way.
pub(super) fn hold(
    disk: &Arc<SimDisk>,
    world: &PlanWorld,
    scenario: &PlanScenario,
    outcome: &Outcome,
    kill_only: bool,
) {
    assert!(scenario.may_end_as(outcome), "the run ended as {outcome:?}");
    let shared: Arc<dyn Disk> = disk.clone();
    let state = StateDir::open(shared, layout())
        .unwrap()
        .expect("a state directory");
    let runs = state.runs().unwrap();
    assert_eq!(runs.len(), 1, "one run");
    let mut records = Vec::new();
    let folded = RunSummary::read(&state, &runs[0], |record, run| {
        let plan = run.plan();
        assert!(
            plan.at_work() <= plan.jobs(),
            "record {}: more stages than slots",
            record.seq
        );
        records.push(record.clone());
    })
    .unwrap();
    assert!(folded.is_settled(), "every effect has its outcome");
    no_attempt_twice(&records, world);
    no_commit_twice(&records, world, &runs[0]);
    no_handoff_twice(&records);
    every_stage_is_merged_once(&records, world, scenario, &runs[0]);
    no_start_before_its_needs(&records, scenario);
    no_start_in_a_limit(&records);
    if kill_only {
        no_handoff_lost(&records, world);
    }
    everything_is_archived(disk, &records, &folded.run);
}

fn starts(record: &Record) -> impl Iterator<Item = (&StageId, AttemptId)> {
    record.effects.iter().filter_map(|effect| match effect {
        Effect::Stage {
            stage,
            effect: RelayEffect::StartAttempt(start),
        } => Some((stage, start.attempt)),
        _ => None,
    })
}

fn ends(records: &[Record]) -> impl Iterator<Item = (&StageId, AttemptId, &AttemptEnded)> {
    records.iter().filter_map(|record| match &record.event {
        Event::Stage { stage, event } => {
            let (attempt, ended) = event.ended()?;
            Some((stage, attempt, ended))
        }
        _ => None,
    })
}

fn merges(record: &Record) -> Option<(&StageId, &Merge)> {
    match &record.event {
        Event::Worktree {
            stage,
            event: WorktreeEvent::Merged { merge },
            ..
        } => Some((stage, merge)),
        _ => None,
    }
}

/// Each stage's attempts are ordered once and in their order, end once, and each has one process at most.
fn no_attempt_twice(records: &[Record], world: &PlanWorld) {
    let mut ordered: BTreeMap<&StageId, Vec<AttemptId>> = BTreeMap::new();
    for (stage, attempt) in records.iter().flat_map(starts) {
        let before = ordered.entry(stage).or_default();
        assert!(
            before.last().is_none_or(|last| *last < attempt),
            "{stage} {attempt} after {before:?}"
        );
        before.push(attempt);
    }
    let mut ended = BTreeSet::new();
    for (stage, attempt, _) in ends(records) {
        assert!(
            ended.insert((stage, attempt)),
            "{stage} {attempt} ended twice"
        );
    }
    let all = ordered
        .iter()
        .flat_map(|(stage, attempts)| attempts.iter().map(|attempt| (*stage, *attempt)));
    assert_eq!(
        all.collect::<BTreeSet<_>>(),
        ended,
        "every attempt that was ordered has ended"
    );
    let mut processes = BTreeSet::new();
    for (stage, attempt, _) in &world.started {
        assert!(
            processes.insert((stage, attempt)),
            "{stage} {attempt} has two processes"
        );
    }
}

fn no_commit_twice(records: &[Record], world: &PlanWorld, run: &RunId) {
    let mut ordered = BTreeSet::new();
    let mut sessions = BTreeSet::new();
    for (id, effect) in records.iter().flat_map(numbered) {
        if let Effect::Stage {
            stage,
            effect: RelayEffect::Commit { session },
        } = effect
        {
            assert!(
                sessions.insert((stage.clone(), *session)),
                "{stage} {session} is committed twice"
            );
            ordered.insert(format!("{run}/{id}"));
        }
    }
    let made: BTreeSet<String> = world.commits.iter().cloned().collect();
    assert_eq!(
        (made.len(), made),
        (world.commits.len(), ordered),
        "every commit is made once"
    );
}

fn no_handoff_twice(records: &[Record]) {
    let mut seen = BTreeSet::new();
    for author in ends(records).filter_map(|(_, _, ended)| author(ended)) {
        assert!(
            seen.insert(author),
            "the handoff of start {author} was applied twice"
        );
    }
}

fn no_handoff_lost(records: &[Record], world: &PlanWorld) {
    let seen: BTreeSet<u32> = ends(records)
        .filter_map(|(_, _, ended)| author(ended))
        .collect();
    for start in &world.written {
        assert!(seen.contains(start), "the handoff of start {start} is lost");
    }
}

/// In the repository, in the log, and where the user has it.
fn every_stage_is_merged_once(
    records: &[Record],
    world: &PlanWorld,
    scenario: &PlanScenario,
    run: &RunId,
) {
    let merged: Vec<&StageId> = world.merges.iter().map(|(_, stage)| stage).collect();
    let once: BTreeSet<StageId> = merged.iter().map(|stage| (*stage).clone()).collect();
    assert_eq!(merged.len(), once.len(), "{:?}", world.merges);
    assert_eq!(once, scenario.done(), "every stage is merged");
    if scenario.fail.is_empty() {
        assert_eq!(world.given, once, "the user has it all");
    } else {
        assert!(world.given.is_empty(), "the user has a part of it");
    }
    let ordered: BTreeSet<String> = records
        .iter()
        .flat_map(numbered)
        .filter(|(_, effect)| {
            matches!(
                effect,
                Effect::Worktree {
                    effect: WorktreeEffect::Merge,
                    ..
                }
            )
        })
        .map(|(id, _)| format!("{run}/{id}"))
        .collect();
    assert!(
        world.merges.iter().all(|(mark, _)| ordered.contains(mark)),
        "each merge was ordered"
    );
    let told = records
        .iter()
        .filter_map(merges)
        .filter(|(_, merge)| matches!(merge, Merge::Done { .. }));
    assert_eq!(told.count(), once.len(), "each stage is done once");
    let ends = records
        .iter()
        .flat_map(|record| &record.effects)
        .filter(|effect| matches!(effect, Effect::EndRun { outcome } if outcome.is_complete()));
    let is_complete = usize::from(scenario.fail.is_empty());
    assert_eq!(ends.count(), is_complete, "the run is complete once");
}

fn no_start_before_its_needs(records: &[Record], scenario: &PlanScenario) {
    let mut done = BTreeSet::new();
    for record in records {
        if let Some((stage, Merge::Done { .. })) = merges(record) {
            done.insert(stage.clone());
        }
        for (stage, attempt) in starts(record) {
            assert!(
                scenario.needs(stage).is_subset(&done),
                "{stage} {attempt} begins too early"
            );
            assert!(
                !done.contains(stage),
                "{stage} {attempt} begins though it is merged"
            );
        }
    }
}

/// A limit that one stage meets holds all, also across a crash.
fn no_start_in_a_limit(records: &[Record]) {
    let mut held = Timestamp(0);
    for record in records {
        if let Event::Stage {
            event:
                RelayEvent::Attempt {
                    event: AttemptEvent::Ended(ended),
                    ..
                },
            ..
        } = &record.event
            && let EndCause::RateLimited {
                resets_at: Some(resets_at),
                ..
            } = ended.cause
        {
            held = held.max(resets_at);
        }
        for (stage, attempt) in starts(record) {
            assert!(
                record.time >= held,
                "{stage} {attempt} begins in a limit, record {}",
                record.seq
            );
        }
    }
}

fn everything_is_archived(disk: &SimDisk, records: &[Record], run: &Run) {
    let header = run.header();
    let paths = RunPaths::new(workspace(), layout().run(&header.run), header);
    for (stage, attempt, ended) in ends(records) {
        let session = paths.relay(stage).session(attempt.session);
        for file in HandoffFile::ALL {
            let Some(text) = ended.files.get(file).text() else {
                continue;
            };
            let name = session
                .handoff(file)
                .file_name()
                .unwrap()
                .to_str()
                .unwrap()
                .to_owned();
            let name = match name.split_once('.') {
                Some((stem, ending)) if attempt.attempt.get() > 1 => {
                    format!("{stem}.{}.{ending}", attempt.attempt)
                }
                _ => name,
            };
            let path = session.dir().join(name);
            let bytes = disk
                .read(&path, READ_MAX)
                .unwrap_or_else(|error| panic!("{error}"));
            assert_eq!(bytes, text.as_bytes(), "{}", path.display());
        }
    }
}
