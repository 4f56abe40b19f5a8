//! The engine of one run: it receives, decides, records, performs, and never waits.
//!
//! ```text
//!  Input ─► event ─► Journal::record (decide, append, sync) ─► effects ─┬─► RunFiles      files
//!                                                                       └─► EffectRunner  processes, tasks
//! ```
//!
//! It is not async and knows no runtime, so the same code runs in a simulated world. One call of
//! [`Engine::take`] only reads small files and appends records; everything that takes longer is the effect
//! runner's work.
//!
//! `hear` turns agents' reports into events, and `messages` does the same for people's requests. `perform`
//! carries out what was decided.

mod hear;
mod messages;
mod perform;

use std::collections::{BTreeMap, VecDeque};

use ekiden_core::effect::Effect;
use ekiden_core::event::{AttemptEvent, Event, RelayEvent};
use ekiden_core::handoff::{HandoffFile, NotText};
use ekiden_core::ids::{AttemptId, EffectId, StageId};
use ekiden_core::outcome::Outcome;
use ekiden_core::relay::Relay;
use ekiden_core::steering::{Steered, Steering};
use ekiden_core::time::Timestamp;

use crate::clock;
use crate::effect_runner::{EffectRunner, Input};
use crate::error::EngineError;
use crate::journal::Journal;
use crate::meter::Meter;
use crate::observer::Observer;
use crate::run_files::RunFiles;
use ekiden_core::text::in_full;
pub(crate) use hear::hook_answer;

/// The only writer of one run.
pub struct Engine<'o, R> {
    journal: Journal,
    files: RunFiles,
    pub runner: R,
    observer: &'o mut dyn Observer,
    /// When the current input arrived.
    now: Timestamp,
    attempts: BTreeMap<StageId, LiveAttempt>,
    /// Inputs that wait until the current one is handled.
    queue: VecDeque<Input>,
    /// Archiving waits until the next agent runs: its syncs would delay the start.
    deferred_archives: Vec<(EffectId, StageId, AttemptId)>,
    /// The user has been warned of a file that cannot be written.
    warned: bool,
    /// How many stages were over when their results were last written.
    stages_over: usize,
    /// Local time's offset from UTC, in seconds. A simulated world has its own.
    pub utc_offset_secs: fn(Timestamp) -> i32,
}

/// What the log does not hold about an attempt at work.
#[derive(Debug)]
struct LiveAttempt {
    attempt: AttemptId,
    meter: Meter,
    tool_calls: u32,
    refusals: u32,
    /// What was in place of handoff files and was set aside, so that the agent could write them.
    set_aside: BTreeMap<HandoffFile, NotText>,
}

impl<'o, R: EffectRunner> Engine<'o, R> {
    /// An engine for a journal that was just begun or read again.
    pub fn new(
        journal: Journal,
        files: RunFiles,
        runner: R,
        observer: &'o mut dyn Observer,
    ) -> Self {
        let now = journal.last().time;
        Self {
            journal,
            files,
            runner,
            observer,
            now,
            attempts: BTreeMap::new(),
            queue: VecDeque::new(),
            deferred_archives: Vec::new(),
            warned: false,
            stages_over: 0,
            utc_offset_secs: clock::utc_offset_secs,
        }
    }

    /// Performs the effects of a run's first record.
    pub fn begin(&mut self, effects: Vec<(EffectId, Effect)>) -> Result<(), EngineError> {
        self.files.freeze(self.journal.run())?;
        self.files.keep_found(self.journal.run())?;
        self.observer
            .recorded(self.journal.last(), self.journal.run());
        self.perform_all(effects)?;
        self.drain()
    }

    /// Continues a run: first settles the outstanding effects.
    pub fn resume(&mut self, at: Timestamp, resumed: Event) -> Result<(), EngineError> {
        self.now = at;
        let outstanding: Vec<_> = self
            .journal
            .outstanding()
            .map(|(id, effect)| (id, effect.clone()))
            .collect();
        self.files.freeze(self.journal.run())?;
        self.files.keep_found(self.journal.run())?;
        self.take_edits()?;
        self.record(resumed)?;
        for (id, effect) in outstanding {
            self.settle(id, effect)?;
        }
        self.catch_up();
        self.drain()
    }

    /// Records what comes before the run's own work: oddities of its log, and what people have said. Nothing begins by
    /// that, not even because quiet hours are over: what the log orders is not settled yet.
    pub fn note(&mut self, at: Timestamp, event: Event) -> Result<(), EngineError> {
        self.now = at;
        self.record_one(event)
    }

    /// The next time at which something is due even if nothing happens.
    pub fn wakes_at(&self) -> Option<Timestamp> {
        self.journal.run().wakes_at()
    }

    pub fn take(&mut self, at: Timestamp, input: Input) -> Result<(), EngineError> {
        self.now = at;
        self.observer.tick(at);
        self.queue.push_back(input);
        self.drain()
    }

    /// How the run ended, once it did and no agent works any more.
    pub fn outcome(&self) -> Option<&Outcome> {
        let outcome = self.journal.run().outcome();
        outcome.filter(|_| self.attempts.is_empty())
    }

    /// The run's state and log.
    pub fn journal(&self) -> &Journal {
        &self.journal
    }

    fn drain(&mut self) -> Result<(), EngineError> {
        while let Some(input) = self.queue.pop_front() {
            match input {
                Input::Agent {
                    stage,
                    attempt,
                    report,
                } => self.report(&stage, attempt, report)?,
                Input::Event(event) => {
                    // A stop ends a wait, and the published knowledge is written again.
                    if let Event::StopRequested(_) = event {
                        self.take_edits()?;
                    }
                    self.record(event)?;
                }
                Input::Warning(text) => self.observer.warn(&text),
                Input::Steered { steered, recorded } => {
                    self.steer(steered)?;
                    // The sender may be gone.
                    let _ = recorded.send(());
                }
                Input::Tick => self.tick()?,
            }
        }
        Ok(())
    }

    fn tick(&mut self) -> Result<(), EngineError> {
        self.check_utc_offset(false)?;
        let due = self.journal.run().due(self.now);
        if !due.is_empty() {
            self.take_edits()?;
        }
        due.into_iter().try_for_each(|event| self.record(event))
    }

    fn record_attempt(
        &mut self,
        stage: &StageId,
        attempt: AttemptId,
        event: AttemptEvent,
    ) -> Result<(), EngineError> {
        self.record_of(stage, RelayEvent::Attempt { attempt, event })
    }

    fn record_of(&mut self, stage: &StageId, event: RelayEvent) -> Result<(), EngineError> {
        let stage = stage.clone();
        self.record(Event::Stage { stage, event })
    }

    fn record(&mut self, event: Event) -> Result<(), EngineError> {
        self.check_utc_offset(brings_quiet_hours(&event))?;
        self.record_one(event)
    }

    /// Records a new UTC offset if the run has quiet hours, or `gets` some. These may end by that, so edits of the
    /// knowledge come first.
    fn check_utc_offset(&mut self, gets: bool) -> Result<(), EngineError> {
        let relays = self.journal.run().relays();
        let bounds = relays.map(|(_, relay)| &relay.settings.bounds);
        let quiet = bounds.filter(|bounds| gets || !bounds.quiet_hours.is_empty());
        let mut known = quiet.map(|bounds| bounds.utc_offset_secs).peekable();
        // Asking for the offset reads the zone's rules, so we ask only where it matters.
        if known.peek().is_none() {
            return Ok(());
        }
        let utc_offset_secs = (self.utc_offset_secs)(self.now);
        let is_new = known.any(|known| known != utc_offset_secs);
        drop(known);
        if is_new {
            self.take_edits()?;
            self.record_one(Event::UtcOffsetChanged { utc_offset_secs })?;
        }
        Ok(())
    }

    fn record_one(&mut self, event: Event) -> Result<(), EngineError> {
        let effects = self.journal.record(self.now, event)?;
        self.observer
            .recorded(self.journal.last(), self.journal.run());
        self.perform_all(effects)?;
        self.catch_up();
        Ok(())
    }

    /// Does what can wait, unless the next agent is about to start.
    fn catch_up(&mut self) {
        if self.journal.run().is_between_agents() {
            return;
        }
        for (id, stage, attempt) in std::mem::take(&mut self.deferred_archives) {
            let files = self.journal.files_of(id).cloned().unwrap_or_default();
            let job = self.files.archive_job(&stage, attempt, &files);
            self.runner.archive(&stage, id, job);
        }
        let over = self.journal.run().plan().over();
        if over != std::mem::replace(&mut self.stages_over, over) {
            let written = self.files.write_results(self.journal.run());
            self.warn_if_failed(written);
        }
        let written = self.files.write_status(self.journal.run(), self.now);
        self.warn_if_failed(written);
    }

    /// Warns of the first file that cannot be written; a disk that refuses one usually refuses many.
    fn warn_if_failed(&mut self, result: Result<(), impl std::error::Error>) {
        if let Err(error) = result
            && !std::mem::replace(&mut self.warned, true)
        {
            self.observer.warn(&format!("cannot {}", in_full(&error)));
        }
    }

    fn relay(&self, stage: &StageId) -> Option<&Relay> {
        self.journal.run().relay(stage)
    }
}

fn brings_quiet_hours(event: &Event) -> bool {
    let limits = if let Event::RunResumed(resumed) = event {
        &resumed.limits
    } else if let Event::Steered(Steered {
        steering: Steering::ChangeLimits(limits),
        ..
    }) = event
    {
        limits
    } else {
        return false;
    };
    limits.bounds.quiet_hours.is_some()
}
