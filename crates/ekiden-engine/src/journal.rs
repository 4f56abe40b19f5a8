//! Decide and record: the run's state and its log, which can only move together.
//!
//! Invariant: what [`Journal::record`] returns is on the disk. Nothing else gives effects out.

use std::collections::BTreeMap;

use ekiden_core::effect::{Effect, RelayEffect};
use ekiden_core::event::{Event, RelayEvent};
use ekiden_core::handoff::HandoffFiles;
use ekiden_core::ids::{EffectId, RunId};
use ekiden_core::record::{LOGIC, Outstanding, Record, numbered};
use ekiden_core::run::Run;
use ekiden_core::settings::RunStarted;
use ekiden_core::time::Timestamp;
use ekiden_store::log::LogWriter;
use ekiden_store::state::{LockedStateDir, StateDir};

use crate::error::EngineError;

/// One run's state and log.
pub struct Journal {
    log: LogWriter<Record>,
    folded: Folded,
}

/// What a log folds to.
#[derive(Debug)]
pub struct Folded {
    run: Run,
    outstanding: Outstanding,
    /// The handoffs whose archiving is outstanding: the log holds them, state does not.
    files: BTreeMap<EffectId, HandoffFiles>,
    last: Record,
    /// The first record where this program would have decided otherwise.
    differs: Option<u64>,
}

impl Journal {
    /// Begins a run: its first record is on the disk when this returns.
    ///
    /// # Errors
    ///
    /// If the log cannot be written; then there is no run.
    pub fn create(
        state: &LockedStateDir,
        at: Timestamp,
        header: RunStarted,
    ) -> Result<(Self, Vec<(EffectId, Effect)>), EngineError> {
        let (run, effects) = Run::begin(at, &header);
        let id = header.run.clone();
        let event = Event::RunStarted(Box::new(header));
        let first = Record { seq: 1, time: at, logic: LOGIC, event, effects };
        let log = state.create_run(&id, &first)?;
        let effects = owned(&first);
        Ok((Self { log, folded: Folded::begun(run, first) }, effects))
    }

    /// Reads a run again to go on with it. A torn last line is cut off.
    ///
    /// # Errors
    ///
    /// If the log cannot be read: unreadable state is never an empty one.
    pub fn open(state: &LockedStateDir, run: &RunId) -> Result<Self, EngineError> {
        let mut folded = None;
        let (log, _) = state.open_log(run, |record| fold(&mut folded, record))?;
        let folded = folded.ok_or_else(|| EngineError::Empty { run: run.clone() })?;
        Ok(Self { log, folded })
    }

    /// Decides what follows from an event, and records both.
    ///
    /// # Errors
    ///
    /// If the record cannot be written. The state has moved then and the log has not, so the run
    /// must not go on; whoever opens the log again finds the state before the event.
    pub fn record(&mut self, at: Timestamp, event: Event) -> Result<Vec<(EffectId, Effect)>, EngineError> {
        let effects = self.folded.run.step(at, &event);
        let record = Record { seq: self.log.next_seq(), time: at, logic: LOGIC, event, effects };
        self.log.append(&record)?;
        let effects = owned(&record);
        self.folded.note(record);
        Ok(effects)
    }

    /// The run's state.
    #[must_use]
    pub fn run(&self) -> &Run {
        &self.folded.run
    }

    /// The newest record.
    #[must_use]
    pub fn last(&self) -> &Record {
        &self.folded.last
    }

    /// Effects whose outcomes have not come, oldest first.
    #[must_use]
    pub fn outstanding(&self) -> Vec<(EffectId, Effect)> {
        self.folded.outstanding.iter().map(|(id, effect)| (id, effect.clone())).collect()
    }

    /// Published files are being written durably, or were when an engine died.
    #[must_use]
    pub fn is_publishing(&self) -> bool {
        let durable =
            |effect: &Effect| matches!(effect, Effect::Stage { effect: RelayEffect::PublishDurably, .. });
        self.folded.outstanding.iter().any(|(_, effect)| durable(effect))
    }

    /// The handoff that an outstanding archive effect is to keep.
    #[must_use]
    pub fn files_of(&self, effect: EffectId) -> Option<&HandoffFiles> {
        self.folded.files.get(&effect)
    }

    /// The handoffs that only the log is known to hold.
    pub fn unarchived(&self) -> impl Iterator<Item = &HandoffFiles> {
        self.folded.files.values()
    }

    /// The first record where this program would have decided otherwise, if there is one.
    #[must_use]
    pub fn differs(&self) -> Option<u64> {
        self.folded.differs
    }
}

impl Folded {
    /// Reads a log without going on with it, also while an engine writes it.
    ///
    /// # Errors
    ///
    /// As [`Journal::open`]; and whatever `show` says.
    pub fn read(
        state: &StateDir,
        run: &RunId,
        mut show: impl FnMut(&Record, &Run),
    ) -> Result<Self, EngineError> {
        let mut folded = None;
        for record in state.read_log::<Record>(run)? {
            fold(&mut folded, record?);
            if let Some(folded) = &folded {
                show(&folded.last, &folded.run);
            }
        }
        folded.ok_or_else(|| EngineError::Empty { run: run.clone() })
    }

    /// The run's state.
    #[must_use]
    pub fn run(&self) -> &Run {
        &self.run
    }

    /// The newest record.
    #[must_use]
    pub fn last(&self) -> &Record {
        &self.last
    }

    /// Every recorded effect has its outcome.
    #[must_use]
    pub fn is_settled(&self) -> bool {
        self.outstanding.is_empty()
    }

    /// The run's state, to keep.
    #[must_use]
    pub fn into_run(self) -> Run {
        self.run
    }

    fn begun(run: Run, first: Record) -> Self {
        let mut outstanding = Outstanding::default();
        outstanding.fold(&first);
        Self { run, outstanding, files: BTreeMap::new(), last: first, differs: None }
    }

    fn note(&mut self, record: Record) {
        self.outstanding.fold(&record);
        self.files.retain(|id, _| self.outstanding.has(*id));
        if let Event::Stage { event: RelayEvent::AttemptEnded(ended), .. } = &record.event {
            for (id, effect) in numbered(&record) {
                if let Effect::Stage { effect: RelayEffect::Archive { .. }, .. } = effect {
                    self.files.insert(id, ended.files.clone());
                }
            }
        }
        self.last = record;
    }
}

fn fold(folded: &mut Option<Folded>, record: Record) {
    match (folded.as_mut(), &record.event) {
        (None, Event::RunStarted(header)) => {
            let (run, effects) = Run::begin(record.time, header);
            let differs = (effects != record.effects).then_some(record.seq);
            *folded = Some(Folded { differs, ..Folded::begun(run, record) });
        }
        (None, _) => {}
        (Some(folded), event) => {
            let effects = folded.run.step(record.time, event);
            if effects != record.effects {
                folded.differs.get_or_insert(record.seq);
            }
            folded.note(record);
        }
    }
}

fn owned(record: &Record) -> Vec<(EffectId, Effect)> {
    numbered(record).map(|(id, effect)| (id, effect.clone())).collect()
}
