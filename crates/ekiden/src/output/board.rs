//! What a watched run is doing: each relay at work, as the log's records show it, and with what the log
//! does not hold.

use std::collections::BTreeMap;

use ekiden_core::budget::Spend;
use ekiden_core::event::{Event, RelayEvent};
use ekiden_core::ids::StageId;
use ekiden_core::record::Record;
use ekiden_core::relay::Relay;
use ekiden_core::run::Run;
use ekiden_core::time::Timestamp;
use jiff::tz::TimeZone;

use super::line::Line;
use super::relay_progress::RelayProgress;
use super::summary::Summary;

#[derive(Debug, Clone, Default)]
pub struct Board {
    /// The relays that have not ended; if there are none, the first one.
    relays: BTreeMap<StageId, RelayProgress>,
    /// What the records say about the whole run, if somebody wants to know.
    pub summary: Option<Summary>,
}

impl Board {
    /// Takes in a record and the state of the run after it.
    pub fn follow(&mut self, record: &Record, run: &Run) {
        if let Event::Stage { stage, event } = &record.event
            && let RelayEvent::Attempt { event, .. } = event
        {
            self.relays.entry(stage.clone()).or_default().note(event);
        }
        let levels = run.header().settings.levels;
        let mut shown: Vec<_> = run.live().collect();
        if shown.is_empty() {
            shown.extend(run.relays().next());
        }
        if shown.is_empty() {
            return;
        }
        let is_shown = |stage: &StageId| shown.iter().any(|(id, _)| *id == stage);
        self.relays.retain(|stage, _| is_shown(stage));
        for (stage, relay) in shown {
            let progress = self.relays.entry(stage.clone()).or_default();
            progress.follow(record.time, relay, levels);
        }
    }

    pub fn first(&self) -> Option<&RelayProgress> {
        self.relays.values().next()
    }

    pub fn of(&self, stage: &StageId) -> Option<&RelayProgress> {
        self.relays.get(stage)
    }

    /// The spending of all sessions, including those at work as far as it was seen. `settled` is that of the sessions
    /// that are over, `known` what the records say of all.
    pub fn spend(&self, settled: Spend, known: Spend) -> Spend {
        let at_work = self.relays.values().map(|progress| progress.spend);
        let seen = at_work.fold(settled, Spend::plus);
        known.at_least(seen)
    }

    /// What a relay has spent, including its session at work as far as it was seen.
    pub fn spend_of(&self, relay: &Relay) -> Spend {
        let seen = self.of(&relay.stage.id).map(|progress| progress.spend);
        let seen = relay.totals.spend.plus(seen.unwrap_or_default());
        relay.spend().at_least(seen)
    }

    /// Part of what is spent at work is the API price, which nobody pays.
    pub fn has_subscription(&self) -> bool {
        self.relays.values().any(|progress| progress.subscription)
    }

    /// What the relays at work spend is never known.
    pub fn is_uncounted(&self) -> bool {
        !self.relays.is_empty()
            && self
                .relays
                .values()
                .all(|progress| progress.reports_nothing)
    }

    pub fn relay(&mut self, stage: &StageId) -> Option<&mut RelayProgress> {
        self.relays.get_mut(stage)
    }

    /// A line about each relay at work, under its stage's name in a plan.
    pub fn lines(&self, now: Timestamp, zone: &TimeZone) -> Vec<Line> {
        let named = |(stage, progress): (&StageId, &RelayProgress)| {
            let line = progress.line(now, zone)?;
            Some(match *stage == StageId::only() {
                true => line,
                false => line.under(stage.as_str(), 0),
            })
        };
        self.relays.iter().filter_map(named).collect()
    }

    /// The line about the first relay, if there is something to show.
    pub fn line(&self, now: Timestamp, zone: &TimeZone) -> Option<Line> {
        self.first()?.line(now, zone)
    }
}
