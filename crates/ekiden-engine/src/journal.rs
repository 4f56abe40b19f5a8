//! Decides and records: the run's state and its log, which only move together.
//!
//! Invariant: what [`Journal::record`] returns is on the disk. Effects come from nowhere else.

use std::collections::BTreeMap;

use ekiden_core::effect::{Effect, RelayEffect};
use ekiden_core::event::Event;
use ekiden_core::handoff::HandoffFiles;
use ekiden_core::ids::{EffectId, RunId};
use ekiden_core::record::{LOGIC, Outstanding, Record, numbered};
use ekiden_core::run::Run;
use ekiden_core::settings::RunStarted;
use ekiden_core::time::Timestamp;
use ekiden_store::log::{LogReader, LogWriter};
use ekiden_store::state::{LockedStateDir, StateDir};

use crate::error::EngineError;

/// One run's state and log.
pub struct Journal {
    log: LogWriter<Record>,
    folded: RunSummary,
}

/// What a log folds to.
#[derive(Debug)]
pub struct RunSummary {
    /// The run's state after its newest record.
    pub run: Run,
    pub last: Record,
    outstanding: Outstanding,
    /// The handoffs whose archiving is outstanding: the log holds them, state does not.
    files: BTreeMap<EffectId, HandoffFiles>,
    /// The first record where this program would have decided differently.
    differs: Option<u64>,
}

impl Journal {
    /// Begins a run: its first record is on the disk when this returns.
    pub fn create(
        state: &LockedStateDir,
        at: Timestamp,
        header: RunStarted,
    ) -> Result<(Self, Vec<(EffectId, Effect)>), EngineError> {
        let (run, effects) = Run::begin(at, &header);
        let id = header.run.clone();
        let first = Record {
            seq: 1,
            time: at,
            logic: LOGIC,
            event: Event::RunStarted(Box::new(header)),
            effects,
        };
        let log = state.create_run(&id, &first)?;
        let effects = owned(&first);
        let folded = RunSummary::new(run, first);
        Ok((Self { log, folded }, effects))
    }

    /// Reads a run again to continue it. A torn last line is cut off.
    pub fn open(state: &LockedStateDir, run: &RunId) -> Result<Self, EngineError> {
        let mut folded = None;
        let log = state.open_log(run, |record| fold(&mut folded, record))?;
        let folded = folded.ok_or_else(|| EngineError::Empty { run: run.clone() })?;
        Ok(Self { log, folded })
    }

    /// Decides what follows from an event, and records both. If the record cannot be written, the state has moved but
    /// the log has not, so the run must not continue. The next process that opens the log finds the state before the
    /// event.
    pub fn record(
        &mut self,
        at: Timestamp,
        event: Event,
    ) -> Result<Vec<(EffectId, Effect)>, EngineError> {
        let effects = self.folded.run.step(at, &event);
        let record = Record {
            seq: self.log.next_seq(),
            time: at,
            logic: LOGIC,
            event,
            effects,
        };
        self.log.append(&record)?;
        let effects = owned(&record);
        self.folded.take(record);
        Ok(effects)
    }

    /// Whether the log can later be compared with what it holds now.
    pub fn is_copied(&self) -> bool {
        self.log.copies_links()
    }

    pub fn run(&self) -> &Run {
        &self.folded.run
    }

    pub fn last(&self) -> &Record {
        &self.folded.last
    }

    /// Effects whose outcomes have not come, oldest first.
    pub fn outstanding(&self) -> impl Iterator<Item = (EffectId, &Effect)> {
        self.folded.outstanding.iter()
    }

    /// Published files are being written durably, or were when an engine died.
    pub fn is_publishing(&self) -> bool {
        self.folded.is_publishing()
    }

    /// The handoff that an outstanding archive effect must keep.
    pub fn files_of(&self, effect: EffectId) -> Option<&HandoffFiles> {
        self.folded.files.get(&effect)
    }

    /// The handoffs that may be only in the log.
    pub fn unarchived(&self) -> impl Iterator<Item = &HandoffFiles> {
        self.folded.files.values()
    }

    /// The first record where this program would have decided differently, if there is one.
    pub fn differs(&self) -> Option<u64> {
        self.folded.differs
    }
}

impl RunSummary {
    /// Reads a log without continuing it, even while an engine writes it.
    pub fn read(
        state: &StateDir,
        run: &RunId,
        mut show: impl FnMut(&Record, &Run),
    ) -> Result<Self, EngineError> {
        let mut log = state.read_log(run)?;
        Self::read_first(run, &mut log, &mut show)
    }

    /// The same from an open log, from which the caller can read on later.
    pub(crate) fn read_first(
        run: &RunId,
        log: &mut LogReader<Record>,
        show: &mut impl FnMut(&Record, &Run),
    ) -> Result<Self, EngineError> {
        let mut folded = None;
        while folded.is_none()
            && let Some(record) = log.next().transpose()?
        {
            fold(&mut folded, record);
        }
        let mut summary = folded.ok_or_else(|| EngineError::Empty { run: run.clone() })?;
        EngineError::refuse_another(run, summary.id())?;
        show(&summary.last, &summary.run);
        summary.read_on(log, show)?;
        Ok(summary)
    }

    pub(crate) fn read_on(
        &mut self,
        log: &mut LogReader<Record>,
        show: &mut impl FnMut(&Record, &Run),
    ) -> Result<(), EngineError> {
        for record in log {
            self.step(record?);
            show(&self.last, &self.run);
        }
        Ok(())
    }

    pub fn id(&self) -> &RunId {
        &self.run.header().run
    }

    /// Every recorded effect has its outcome.
    pub fn is_settled(&self) -> bool {
        self.outstanding.is_empty()
    }

    /// Published files are being written durably, or were when an engine died.
    pub(crate) fn is_publishing(&self) -> bool {
        self.outstanding.iter().any(|(_, effect)| {
            matches!(
                effect,
                Effect::Stage {
                    effect: RelayEffect::PublishDurably,
                    ..
                }
            )
        })
    }

    fn new(run: Run, first: Record) -> Self {
        let mut outstanding = Outstanding::default();
        outstanding.fold(&first);
        Self {
            run,
            last: first,
            outstanding,
            files: BTreeMap::new(),
            differs: None,
        }
    }

    fn step(&mut self, record: Record) {
        let effects = self.run.step(record.time, &record.event);
        if effects != record.effects {
            self.differs.get_or_insert(record.seq);
        }
        // What differed before this record is recorded by it.
        if matches!(record.event, Event::LogicChanged { .. }) {
            self.differs = None;
        }
        self.take(record);
    }

    fn take(&mut self, record: Record) {
        self.outstanding.fold(&record);
        self.files.retain(|id, _| self.outstanding.has(*id));
        if let Event::Stage { event, .. } = &record.event
            && let Some((_, ended)) = event.ended()
        {
            for (id, effect) in numbered(&record) {
                if let Effect::Stage {
                    effect: RelayEffect::Archive { .. },
                    ..
                } = effect
                {
                    self.files.insert(id, ended.files.clone());
                }
            }
        }
        self.last = record;
    }
}

fn fold(folded: &mut Option<RunSummary>, record: Record) {
    match (folded.as_mut(), &record.event) {
        (None, Event::RunStarted(header)) => {
            let (run, effects) = Run::begin(record.time, header);
            let differs = (effects != record.effects).then_some(record.seq);
            let mut new = RunSummary::new(run, record);
            new.differs = differs;
            *folded = Some(new);
        }
        (None, _) => {}
        (Some(folded), _) => folded.step(record),
    }
}

fn owned(record: &Record) -> Vec<(EffectId, Effect)> {
    numbered(record)
        .map(|(id, effect)| (id, effect.clone()))
        .collect()
}
