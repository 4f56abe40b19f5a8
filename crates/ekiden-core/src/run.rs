//! A run: the plan and its relays, folded from events.

use std::collections::{BTreeMap, BTreeSet};

use crate::budget::Prices;
use crate::effect::{Effect, RelayEffect};
use crate::event::{Event, RelayEvent, RunResumed, StopRequest};
use crate::ids::{MessageId, StageId};
use crate::outcome::Outcome;
use crate::plan::{Plan, PlanDecision};
use crate::relay::Relay;
use crate::renewal::Continued;
use crate::settings::RunStarted;
use crate::steering::{Steered, Steering};
use crate::time::Timestamp;

/// One execution of a manifest.
#[derive(Debug, Clone, PartialEq)]
pub struct Run {
    header: RunStarted,
    started_at: Timestamp,
    plan: Plan,
    relays: BTreeMap<StageId, Relay>,
    /// Messages that have acted.
    heard: BTreeSet<MessageId>,
}

impl Run {
    /// Begins a run. Its first record holds `RunStarted` and these effects.
    #[must_use]
    pub fn begin(at: Timestamp, header: &RunStarted) -> (Self, Vec<Effect>) {
        let relays = header
            .manifest
            .stages
            .iter()
            .map(|stage| (stage.id.clone(), Relay::new(header, stage.clone())))
            .collect();
        let plan = Plan::new(&header.manifest);
        let mut run = Self { header: header.clone(), started_at: at, plan, relays, heard: BTreeSet::new() };
        let decisions = run.plan.begin();
        let effects = run.carry_out(at, decisions);
        (run, effects)
    }

    /// Decides what follows from an event. Deterministic: the same events give the same effects.
    pub fn step(&mut self, at: Timestamp, event: &Event) -> Vec<Effect> {
        match event {
            Event::RunStarted(_) | Event::LogicChanged { .. } => Vec::new(),
            Event::RunResumed(resumed) => self.resume(at, resumed),
            Event::Continued(continued) => self.go_on(at, continued),
            Event::UtcOffsetChanged { utc_offset_secs } => {
                self.each_relay(|relay| relay.utc_offset_changed(at, *utc_offset_secs))
            }
            Event::StopRequested(request) => self.request_stop(at, *request),
            Event::Steered(steered) => self.steer(at, steered),
            Event::Stage { stage, event } => self.stage_event(at, stage, event),
        }
    }

    /// The events that are due at a time because nothing else happened.
    #[must_use]
    pub fn due(&self, at: Timestamp) -> Vec<Event> {
        let due = |relay: &Relay| relay.wakes_at().is_some_and(|wakes| wakes <= at);
        self.relays
            .iter()
            .filter(|(_, relay)| due(relay))
            .map(|(stage, _)| Event::Stage { stage: stage.clone(), event: RelayEvent::Woke })
            .collect()
    }

    /// The next time at which [`Run::due`] has something.
    #[must_use]
    pub fn wakes_at(&self) -> Option<Timestamp> {
        self.relays.values().filter_map(Relay::wakes_at).min()
    }

    /// What the run was started with.
    #[must_use]
    pub fn header(&self) -> &RunStarted {
        &self.header
    }

    /// When it was started.
    #[must_use]
    pub fn started_at(&self) -> Timestamp {
        self.started_at
    }

    /// What the tasks of its stages are called now, for people.
    #[must_use]
    pub fn task_names(&self) -> String {
        let names: Vec<&str> = self.relays.values().map(|relay| relay.stage().task_name.as_str()).collect();
        names.join(", ")
    }

    /// How it ended, if every relay did.
    #[must_use]
    pub fn outcome(&self) -> Option<&Outcome> {
        let mut last = None;
        for relay in self.relays.values() {
            last = Some(relay.outcome()?);
        }
        last
    }

    /// A message of this id has acted already.
    #[must_use]
    pub fn has_heard(&self, message: &MessageId) -> bool {
        self.heard.contains(message)
    }

    /// Somebody wants the run to stop, and it has not stopped yet.
    #[must_use]
    pub fn is_stopping(&self) -> bool {
        self.relays.values().any(Relay::is_stopping)
    }

    /// What models cost, as far as it is known.
    #[must_use]
    pub fn prices(&self) -> Prices {
        self.relays.values().fold(Prices::default(), |mut prices, relay| {
            prices.merge(relay.prices());
            prices
        })
    }

    /// One stage's relay.
    #[must_use]
    pub fn relay(&self, stage: &StageId) -> Option<&Relay> {
        self.relays.get(stage)
    }

    /// All relays.
    pub fn relays(&self) -> impl Iterator<Item = (&StageId, &Relay)> {
        self.relays.iter()
    }

    fn resume(&mut self, at: Timestamp, resumed: &RunResumed) -> Vec<Effect> {
        self.plan.resume();
        self.each_relay(|relay| relay.resume(at, resumed))
    }

    /// Only a complete run goes on like this.
    fn go_on(&mut self, at: Timestamp, continued: &Continued) -> Vec<Effect> {
        if !self.outcome().is_some_and(Outcome::is_complete) {
            return Vec::new();
        }
        self.plan.go_on();
        self.each_relay(|relay| relay.continue_with(at, continued))
    }

    fn request_stop(&mut self, at: Timestamp, request: StopRequest) -> Vec<Effect> {
        self.each_relay(|relay| relay.request_stop(at, request))
    }

    fn steer(&mut self, at: Timestamp, steered: &Steered) -> Vec<Effect> {
        if !self.heard.insert(steered.message.clone()) {
            return Vec::new();
        }
        match &steered.steering {
            Steering::Stop { .. } if steered.late => Vec::new(),
            stop @ Steering::Stop { .. } => {
                stop.stop().map(|request| self.request_stop(at, request)).unwrap_or_default()
            }
            Steering::Pause => self.each_relay(|relay| relay.pause(at)),
            Steering::Unpause => self.each_relay(|relay| relay.unpause(at)),
            Steering::Instruct { words } => self.each_relay(|relay| relay.instruct(at, words)),
            Steering::ChangeLimits(limits) => self.each_relay(|relay| relay.limit(at, limits)),
        }
    }

    fn stage_event(&mut self, at: Timestamp, stage: &StageId, event: &RelayEvent) -> Vec<Effect> {
        self.of_relay(stage, |relay| relay.step(at, event))
    }

    fn each_relay(&mut self, mut act: impl FnMut(&mut Relay) -> Vec<RelayEffect>) -> Vec<Effect> {
        let stages: Vec<StageId> = self.relays.keys().cloned().collect();
        stages.iter().flat_map(|stage| self.of_relay(stage, &mut act)).collect()
    }

    /// Lets a relay act, and the plan hear of it if the relay has ended by that. A relay that was resumed
    /// may end again at once, so what counts is what the plan knows.
    fn of_relay(&mut self, stage: &StageId, act: impl FnOnce(&mut Relay) -> Vec<RelayEffect>) -> Vec<Effect> {
        let Some(relay) = self.relays.get_mut(stage) else { return Vec::new() };
        let mut effects = staged(stage, act(relay));
        if let Some(outcome) = relay.outcome().filter(|_| !self.plan.has_ended(stage)) {
            for decision in self.plan.stage_ended(stage, outcome.clone()) {
                if let PlanDecision::End(outcome) = decision {
                    effects.push(Effect::EndRun { outcome });
                }
            }
        }
        effects
    }

    fn carry_out(&mut self, at: Timestamp, decisions: Vec<PlanDecision>) -> Vec<Effect> {
        let mut effects = Vec::new();
        for decision in decisions {
            match decision {
                PlanDecision::Start(stage) => effects.extend(self.of_relay(&stage, |relay| relay.begin(at))),
                PlanDecision::End(outcome) => effects.push(Effect::EndRun { outcome }),
            }
        }
        effects
    }
}

fn staged(stage: &StageId, effects: Vec<RelayEffect>) -> Vec<Effect> {
    effects.into_iter().map(|effect| Effect::Stage { stage: stage.clone(), effect }).collect()
}
