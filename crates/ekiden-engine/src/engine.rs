//! The engine of one run: it receives, decides, records, dispatches, and never waits.
//!
//! ```text
//!  Input ─► event ─► Journal::record (decide, append, sync) ─► effects ─┬─► Desk   files
//!                                                                       └─► Hands  processes, tasks
//! ```
//!
//! It is not async and knows no runtime, so that the same code runs in a simulated world. A call of
//! [`Engine::take`] reads at most three small files and appends one record; all that takes longer is
//! the hands' work.
//!
//! `hear` turns what agents report into events, `messages` what people leave in the inbox; `perform`
//! does what was decided, and `late` holds back what nobody should wait for.

mod hear;
mod late;
mod messages;
mod perform;

use std::collections::{BTreeMap, VecDeque};

use ekiden_core::effect::Effect;
use ekiden_core::event::{Event, RelayEvent};
use ekiden_core::ids::{AttemptId, EffectId, StageId};
use ekiden_core::outcome::Outcome;
use ekiden_core::relay::Relay;
use ekiden_core::time::Timestamp;

use crate::clock;
use crate::desk::Desk;
use crate::error::{EngineError, in_full};
use crate::hands::{Hands, Input};
use crate::journal::Journal;
use crate::meter::Meter;
use crate::observer::Observer;
use late::Late;

/// The only writer of one run.
pub struct Engine<H> {
    journal: Journal,
    desk: Desk,
    /// What performs.
    pub hands: H,
    working: BTreeMap<StageId, Working>,
    later: VecDeque<Input>,
    late: Late,
    over: Option<Outcome>,
    warned: bool,
    /// A notification could not be shown, and that was told.
    unnotified: bool,
    /// Stages that were over when their ends were kept last.
    ends_kept: usize,
    /// Local time's offset from UTC, in seconds.
    utc_offset_secs: fn(Timestamp) -> i32,
}

/// What is known of an attempt at work beside the log.
#[derive(Debug)]
struct Working {
    attempt: AttemptId,
    meter: Meter,
    tool_calls: u32,
    refusals: u32,
}

impl<H: Hands> Engine<H> {
    /// An engine for a journal that was just begun or read again.
    pub fn new(journal: Journal, desk: Desk, hands: H) -> Self {
        let over = journal.run().outcome().cloned();
        let (working, later, late) = (BTreeMap::new(), VecDeque::new(), Late::default());
        Self {
            journal,
            desk,
            hands,
            working,
            later,
            late,
            over,
            warned: false,
            unnotified: false,
            ends_kept: 0,
            utc_offset_secs: clock::utc_offset_secs,
        }
    }

    /// The same engine in another zone.
    #[must_use]
    pub fn with_zone(self, utc_offset_secs: fn(Timestamp) -> i32) -> Self {
        Self { utc_offset_secs, ..self }
    }

    /// Performs the effects of a run's first record.
    pub fn begin(
        &mut self,
        at: Timestamp,
        effects: Vec<(EffectId, Effect)>,
        observer: &mut dyn Observer,
    ) -> Result<(), EngineError> {
        self.desk.freeze(self.journal.run())?;
        self.desk.keep_found(self.journal.run())?;
        observer.recorded(self.journal.last(), self.journal.run());
        self.perform_all(effects, observer)?;
        self.drain(at, observer)
    }

    /// Takes a run up again: settles what is outstanding, then goes on.
    pub fn take_up(
        &mut self,
        at: Timestamp,
        resumed: Event,
        observer: &mut dyn Observer,
    ) -> Result<(), EngineError> {
        let outstanding = self.journal.outstanding();
        self.desk.freeze(self.journal.run())?;
        self.desk.keep_found(self.journal.run())?;
        self.take_edits(at, observer)?;
        self.take_messages(at, true, observer)?;
        self.record(at, resumed, observer)?;
        self.over = self.journal.run().outcome().cloned();
        for (id, effect) in outstanding {
            self.settle(id, effect, observer)?;
        }
        self.catch_up(at, observer);
        self.drain(at, observer)
    }

    /// Records something that needs no decision.
    pub fn note(
        &mut self,
        at: Timestamp,
        event: Event,
        observer: &mut dyn Observer,
    ) -> Result<(), EngineError> {
        self.record(at, event, observer)
    }

    /// The next time at which something is due though nothing happens.
    #[must_use]
    pub fn wakes_at(&self) -> Option<Timestamp> {
        self.journal.run().wakes_at()
    }

    /// Takes one input.
    pub fn take(
        &mut self,
        at: Timestamp,
        input: Input,
        observer: &mut dyn Observer,
    ) -> Result<(), EngineError> {
        self.later.push_back(input);
        self.drain(at, observer)
    }

    /// How the run ended, once it did and nothing is outstanding.
    #[must_use]
    pub fn outcome(&self) -> Option<&Outcome> {
        self.over.as_ref().filter(|_| self.working.is_empty())
    }

    /// Effects whose outcomes have not come.
    #[must_use]
    pub fn is_settled(&self) -> bool {
        self.journal.outstanding().is_empty()
    }

    /// The run's state and log.
    #[must_use]
    pub fn journal(&self) -> &Journal {
        &self.journal
    }

    fn drain(&mut self, at: Timestamp, observer: &mut dyn Observer) -> Result<(), EngineError> {
        while let Some(input) = self.later.pop_front() {
            self.one(at, input, observer)?;
        }
        Ok(())
    }

    fn one(&mut self, at: Timestamp, input: Input, observer: &mut dyn Observer) -> Result<(), EngineError> {
        match input {
            Input::Agent { stage, attempt, report } => self.report(at, &stage, attempt, report, observer),
            Input::Surveyed { stage, effect, survey } => {
                self.record_of(at, &stage, RelayEvent::Surveyed { effect, survey }, observer)
            }
            Input::Committed { stage, effect, commit } => {
                self.record_of(at, &stage, RelayEvent::Committed { effect, commit }, observer)
            }
            Input::Noted { text } => {
                observer.warn(&text);
                Ok(())
            }
            Input::Unnotified { why } => {
                if !std::mem::replace(&mut self.unnotified, true) {
                    observer.warn(&format!("cannot notify: {why}; `--no-notify` switches that off"));
                }
                Ok(())
            }
            Input::Verified { stage, effect, mut check, output } => {
                self.keep_output(&stage, &output, observer);
                check.tree = self.relay(&stage).and_then(Relay::survey).map(|survey| survey.tree.clone());
                self.record_of(at, &stage, RelayEvent::Verified { effect, check }, observer)
            }
            Input::Archived { stage, effect, failure: None } => {
                self.record_of(at, &stage, RelayEvent::Archived { effect }, observer)
            }
            Input::Archived { failure: Some(failure), .. } => {
                self.warn_once(observer, &format!("cannot {failure}; a resume tries again"));
                Ok(())
            }
            Input::Published { stage, effect } => {
                self.record_of(at, &stage, RelayEvent::Published { effect }, observer)
            }
            Input::Ground { stage, event } => self.record(at, Event::Ground { stage, event }, observer),
            Input::Delivered { effect, delivery } => {
                self.record(at, Event::Delivered { effect, delivery }, observer)
            }
            Input::Stop(request) => self.record(at, Event::StopRequested(request), observer),
            Input::LookIntoInbox => self.take_messages(at, false, observer),
            Input::Tick => self.tick(at, observer),
        }
    }

    fn tick(&mut self, at: Timestamp, observer: &mut dyn Observer) -> Result<(), EngineError> {
        if let Some(utc_offset_secs) = self.new_offset(at) {
            self.record_one(at, Event::UtcOffsetChanged { utc_offset_secs }, observer)?;
        }
        let due = self.journal.run().due(at);
        if !due.is_empty() {
            self.take_edits(at, observer)?;
        }
        for event in due {
            self.record(at, event, observer)?;
        }
        Ok(())
    }

    fn record_of(
        &mut self,
        at: Timestamp,
        stage: &StageId,
        event: RelayEvent,
        observer: &mut dyn Observer,
    ) -> Result<(), EngineError> {
        self.record(at, Event::Stage { stage: stage.clone(), event }, observer)
    }

    /// Records an event, after the hour of the day if that is another than was thought and matters.
    fn record(
        &mut self,
        at: Timestamp,
        event: Event,
        observer: &mut dyn Observer,
    ) -> Result<(), EngineError> {
        if let Some(utc_offset_secs) = self.new_offset(at) {
            self.record_one(at, Event::UtcOffsetChanged { utc_offset_secs }, observer)?;
        }
        self.record_one(at, event, observer)
    }

    fn new_offset(&self, at: Timestamp) -> Option<i32> {
        let mut known =
            self.journal.run().relays().filter_map(|(_, relay)| relay.utc_offset_secs()).peekable();
        known.peek()?;
        let offset = (self.utc_offset_secs)(at);
        known.any(|known| known != offset).then_some(offset)
    }

    fn record_one(
        &mut self,
        at: Timestamp,
        event: Event,
        observer: &mut dyn Observer,
    ) -> Result<(), EngineError> {
        let effects = self.journal.record(at, event)?;
        observer.recorded(self.journal.last(), self.journal.run());
        self.perform_all(effects, observer)?;
        self.catch_up(at, observer);
        Ok(())
    }

    /// Does what waited, unless somebody waits for an agent; then there is nothing new to say either.
    fn catch_up(&mut self, at: Timestamp, observer: &mut dyn Observer) {
        if self.journal.run().is_between_agents() {
            return;
        }
        self.publish_all_late(observer);
        self.archive_late();
        if let Err(error) = self.desk.tell_status(self.journal.run(), at) {
            self.warn_once(observer, &in_full(&error));
        }
    }

    /// Writes down what stages left that are over now: derived from state, and written again by whoever takes
    /// the run up.
    fn keep_ends(&mut self, observer: &mut dyn Observer) {
        let over = self.journal.run().plan().over();
        if over == self.ends_kept || self.journal.run().header().manifest.plan.is_none() {
            return;
        }
        self.ends_kept = over;
        if let Err(error) = self.desk.keep_ends(self.journal.run()) {
            self.warn_once(observer, &in_full(&error));
        }
    }

    fn warn_once(&mut self, observer: &mut dyn Observer, text: &str) {
        if !std::mem::replace(&mut self.warned, true) {
            observer.warn(text);
        }
    }
}
