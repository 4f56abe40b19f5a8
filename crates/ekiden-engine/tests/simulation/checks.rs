//! Separate checkers: they read the disk and the log as a stranger would and know nothing of the
//! engine's own bookkeeping.

use std::collections::BTreeSet;
use std::sync::Arc;

use ekiden_core::effect::{Effect, RelayEffect, StartAttempt};
use ekiden_core::event::{AttemptEnded, AttemptEvent, Event, RelayEvent};
use ekiden_core::handoff::HandoffFile;
use ekiden_core::hash::sha256_hex;
use ekiden_core::ids::{AttemptId, AttemptNumber, StageId};
use ekiden_core::knowledge::Knowledge;
use ekiden_core::outcome::Outcome;
use ekiden_core::record::{Record, numbered};
use ekiden_core::run::Run;
use ekiden_core::steering::Steering;
use ekiden_engine::journal::RunSummary;
use ekiden_sim::SimDisk;
use ekiden_store::disk::Disk;
use ekiden_store::state::StateDir;

use crate::world::{Scenario, World, layout, published};

pub(crate) const READ_MAX: u64 = 1 << 20;

/// What the logs on this disk say.
pub(crate) fn log_of(disk: &SimDisk) -> String {
    let runs = layout().runs();
    let logs = disk
        .list(&runs)
        .unwrap()
        .into_iter()
        .map(|run| runs.join(run).join("log.jsonl"));
    logs.filter_map(|log| String::from_utf8(disk.read(&log, READ_MAX).ok()?).ok())
        .collect()
}

/// Everything that must hold whenever a run has ended, however it did and whatever happened on the way.
pub(crate) fn hold(
    disk: &Arc<SimDisk>,
    world: &World,
    scenario: &Scenario,
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
    let mut core_before = 0;
    let folded = RunSummary::read(&state, &runs[0], |record, run| {
        core_before = core_only_grows(run, core_before);
        records.push(record.clone());
    })
    .unwrap();
    assert!(folded.is_settled(), "every effect has its outcome");
    no_attempt_twice(&records, world);
    no_commit_twice(&records, world, &runs[0]);
    no_notice_twice(&records, world);
    no_handoff_twice(&records);
    every_message_acts_once(&records, world);
    no_spend_forgotten(&records, &folded.run);
    no_start_in_quiet_hours(&records, &folded.run);
    if kill_only {
        no_handoff_lost(&records, world);
    }
    everything_is_archived(disk, &records, &runs[0]);
    published_files_say_what_state_says(disk, &folded.run);
    if let Some(text) = scenario.found {
        let kept = disk
            .read(
                &layout()
                    .run(&runs[0])
                    .relay(None)
                    .left()
                    .join("KNOWLEDGE.md"),
                READ_MAX,
            )
            .unwrap();
        assert_eq!(kept, text.as_bytes(), "what a person left");
    }
}

fn core_only_grows(run: &Run, before: usize) -> usize {
    let now = run
        .relay(&StageId::only())
        .map_or(0, |relay| relay.knowledge.core.len());
    assert!(
        now >= before,
        "Core Knowledge lost a line: {before} facts became {now}"
    );
    now
}

fn effects(records: &[Record]) -> impl Iterator<Item = &RelayEffect> {
    records
        .iter()
        .flat_map(|record| &record.effects)
        .filter_map(|effect| match effect {
            Effect::Stage { effect, .. } => Some(effect),
            Effect::Worktree { .. } | Effect::Deliver | Effect::EndRun { .. } => None,
        })
}

fn starts(records: &[Record]) -> impl Iterator<Item = &StartAttempt> {
    effects(records).filter_map(|effect| match effect {
        RelayEffect::StartAttempt(start) => Some(start),
        _ => None,
    })
}

fn ends(records: &[Record]) -> impl Iterator<Item = (AttemptId, &AttemptEnded)> {
    records.iter().filter_map(|record| match &record.event {
        Event::Stage { event, .. } => event.ended(),
        _ => None,
    })
}

fn begun(records: &[Record]) -> impl Iterator<Item = AttemptId> {
    records.iter().filter_map(|record| match &record.event {
        Event::Stage {
            event:
                RelayEvent::Attempt {
                    attempt,
                    event: AttemptEvent::Started { .. },
                },
            ..
        } => Some(*attempt),
        _ => None,
    })
}

/// No attempt was ordered twice, ended twice, or carried out by two processes.
fn no_attempt_twice(records: &[Record], world: &World) {
    let mut ordered = BTreeSet::new();
    for start in starts(records) {
        assert!(
            ordered.insert(start.attempt),
            "attempt {} was ordered twice",
            start.attempt
        );
    }
    let mut ended = BTreeSet::new();
    for (attempt, _) in ends(records) {
        assert!(ended.insert(attempt), "attempt {attempt} ended twice");
    }
    assert_eq!(ordered, ended, "every attempt that was ordered has ended");
    let mut processes = BTreeSet::new();
    for (attempt, _) in &world.started {
        assert!(
            processes.insert(*attempt),
            "attempt {attempt} was carried out by two processes"
        );
    }
}

/// Each session was committed by one effect, and each effect made one commit.
fn no_commit_twice(records: &[Record], world: &World, run: &ekiden_core::ids::RunId) {
    let mut sessions = BTreeSet::new();
    let mut ordered = BTreeSet::new();
    for (id, effect) in records.iter().flat_map(numbered) {
        if let Effect::Stage {
            effect: RelayEffect::Commit { session },
            ..
        } = effect
        {
            assert!(
                sessions.insert(*session),
                "session {session} was to be committed twice"
            );
            ordered.insert(format!("{run}/{id}"));
        }
    }
    let mut made = BTreeSet::new();
    for commit in &world.commits {
        assert!(
            made.insert(commit.clone()),
            "the commit of {commit} was made twice"
        );
    }
    assert_eq!(made, ordered, "every commit that was ordered was made");
}

/// A notification that a crash swallowed is not shown later.
fn no_notice_twice(records: &[Record], world: &World) {
    let notices = records.iter().flat_map(numbered).filter(|(_, effect)| {
        matches!(
            effect,
            Effect::Stage {
                effect: RelayEffect::Notify { .. },
                ..
            }
        )
    });
    let mut ordered: BTreeSet<_> = notices.map(|(id, _)| id).collect();
    for notice in &world.notices {
        assert!(
            ordered.remove(notice),
            "notification {notice} was not ordered, or was shown twice"
        );
    }
}

/// Which agent wrote the handoff of an attempt. A text that a power loss cut off within the number names none.
pub(crate) fn author(ended: &AttemptEnded) -> Option<u32> {
    let progress = ended.files.progress.text()?;
    let (number, _) = progress.split("item of start ").nth(1)?.split_once(',')?;
    number.parse().ok()
}

fn no_handoff_twice(records: &[Record]) {
    let mut seen = BTreeSet::new();
    for (_, ended) in ends(records) {
        if let Some(author) = author(ended) {
            assert!(
                seen.insert(author),
                "the handoff of start {author} was applied twice"
            );
        }
    }
}

/// No message is in the log twice, none that was sent is missing, and nothing starts in a pause.
fn every_message_acts_once(records: &[Record], world: &World) {
    let (mut heard, mut paused) = (BTreeSet::new(), false);
    for record in records {
        if let Event::Steered(steered) = &record.event {
            let message = &steered.message;
            assert!(
                heard.insert(message.clone()),
                "message {message} acted twice"
            );
            match &steered.steering {
                Steering::Stop { .. }
                | Steering::HandOff
                | Steering::Instruct { .. }
                | Steering::Answer { .. }
                | Steering::ChangeLimits(_) => {}
                Steering::Pause => paused = true,
                Steering::Unpause => paused = false,
            }
        }
        assert!(
            !paused || starts(std::slice::from_ref(record)).next().is_none(),
            "a start in a pause: {record:?}"
        );
        if record
            .effects
            .iter()
            .any(|effect| matches!(effect, Effect::EndRun { .. }))
        {
            paused = false;
        }
    }
    for message in &world.sent {
        assert!(heard.contains(message), "message {message} is lost");
    }
}

/// What was known to be spent while an attempt ran is charged, whatever became of it.
fn no_spend_forgotten(records: &[Record], run: &Run) {
    let mut charged = 0;
    for (id, ended) in ends(records) {
        charged += ended.counters.spend.micro_usd;
        let known = records.iter().filter_map(|record| match &record.event {
            Event::Stage {
                event:
                    RelayEvent::Attempt {
                        attempt,
                        event: AttemptEvent::SpendCrossed { crossing },
                    },
                ..
            } => (*attempt == id).then_some(crossing.spend.micro_usd),
            _ => None,
        });
        let most = known.max().unwrap_or(0);
        assert!(
            ended.counters.spend.micro_usd >= most,
            "attempt {id} is charged too little"
        );
    }
    let tally = run
        .relay(&StageId::only())
        .map_or(0, |relay| relay.totals.spend.micro_usd);
    assert_eq!(tally, charged, "the sum is that of all attempts");
}

/// No attempt is ordered while it is quiet by the local time that the log knows.
fn no_start_in_quiet_hours(records: &[Record], run: &Run) {
    let bounds = &run.header().settings.bounds;
    let mut offset = bounds.utc_offset_secs;
    for record in records {
        if let Event::UtcOffsetChanged { utc_offset_secs } = &record.event {
            offset = *utc_offset_secs;
        }
        let start = |effect: &Effect| {
            matches!(
                effect,
                Effect::Stage {
                    effect: RelayEffect::StartAttempt(_),
                    ..
                }
            )
        };
        if record.effects.iter().any(start) {
            assert_eq!(
                bounds.quiet_hours.until(record.time, offset),
                None,
                "record {}",
                record.seq
            );
        }
    }
}

/// If only processes died, a handoff that was written to its end is in the log.
fn no_handoff_lost(records: &[Record], world: &World) {
    let seen: BTreeSet<u32> = ends(records)
        .filter_map(|(_, ended)| author(ended))
        .collect();
    for start in &world.written {
        assert!(seen.contains(start), "the handoff of start {start} is lost");
    }
}

/// What an attempt's file is called.
pub(crate) fn named(name: &str, attempt: AttemptNumber) -> String {
    match name.split_once('.') {
        Some((stem, ending)) if attempt.get() > 1 => format!("{stem}.{attempt}.{ending}"),
        _ => name.to_owned(),
    }
}

fn everything_is_archived(disk: &SimDisk, records: &[Record], run: &ekiden_core::ids::RunId) {
    let run = layout().run(run);
    // The prompt of an attempt that never counted as begun may be missing or torn: the machine died before.
    let begun: BTreeSet<_> = begun(records).collect();
    for start in starts(records).filter(|start| begun.contains(&start.attempt)) {
        let session = run.relay(None).session(start.attempt.session);
        let path = session
            .dir()
            .join(named("prompt.md", start.attempt.attempt));
        let bytes = disk
            .read(&path, READ_MAX)
            .unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(
            sha256_hex(&bytes),
            start.prompt,
            "the prompt of {}",
            start.attempt
        );
    }
    for (id, ended) in ends(records) {
        let session = run.relay(None).session(id.session);
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
            let path = session.dir().join(named(&name, id.attempt));
            let bytes = disk
                .read(&path, READ_MAX)
                .unwrap_or_else(|error| panic!("{error}"));
            assert_eq!(bytes, text.as_bytes(), "{}", path.display());
        }
    }
}

fn published_files_say_what_state_says(disk: &SimDisk, run: &Run) {
    let relay = run.relay(&StageId::only()).unwrap();
    let text = disk
        .read(&published().file(HandoffFile::Knowledge), READ_MAX)
        .unwrap();
    let text = String::from_utf8(text).unwrap();
    assert_eq!(text, relay.knowledge.render());
    assert_eq!(Knowledge::parse(&text).core, relay.knowledge.core);
    let status = disk.read(&published().status(), READ_MAX).unwrap();
    let status: serde_json::Value = serde_json::from_slice(&status).unwrap();
    assert_eq!(status["format"], "ekiden-status");
}
