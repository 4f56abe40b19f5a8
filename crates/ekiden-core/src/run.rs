//! A run: the plan and its relays, folded from events.
//!
//! The plan says which stage begins, each relay what its stage wants; here they meet. Every step ends with
//! the plan being asked what is next, until it wants nothing more.

use std::collections::{BTreeMap, BTreeSet};

use crate::budget::{Prices, Spend};
use crate::effect::{Effect, GroundEffect, RelayEffect};
use crate::ends::EndCause;
use crate::event::{Event, GroundEvent, RelayEvent, RunResumed};
use crate::ids::{MessageId, StageId};
use crate::knowledge::Knowledge;
use crate::limits;
use crate::manifest::{Ground, Stage};
use crate::notice;
use crate::outcome::Outcome;
use crate::plan::{Plan, PlanDecision};
use crate::prompt::{Slot, StageContext};
use crate::relay::{Company, Relay};
use crate::renewal::Continued;
use crate::settings::{RunStarted, Settings};
use crate::time::Timestamp;

mod grounds;
mod steering;
mod telling;
#[cfg(test)]
mod tests;

pub use grounds::StageResult;
use telling::FailedTry;

/// One execution of a manifest.
#[derive(Debug, Clone, PartialEq)]
pub struct Run {
    header: RunStarted,
    /// The settings by which a stage begins, as they stand.
    settings: Settings,
    /// Another limit of sessions than each stage's own, for stages that begin.
    sessions_max: Option<u32>,
    started_at: Timestamp,
    plan: Plan,
    /// Stages that have begun.
    relays: BTreeMap<StageId, Relay>,
    /// Those of them that have not ended.
    live: BTreeSet<StageId>,
    /// The one that began last.
    last_begun: Option<StageId>,
    /// What the relays have spent that have ended.
    spent: Spend,
    /// What stages that are done have learned.
    shared: Knowledge,
    /// The newest commit of the whole, once a stage is merged.
    whole: Option<String>,
    /// What stages that are done have left.
    results: BTreeMap<StageId, StageResult>,
    /// What stages are shown that are about to begin.
    contexts: BTreeMap<StageId, StageContext>,
    /// What stages are told that are to put right that they do not merge.
    clashes: BTreeMap<StageId, Slot>,
    /// The tries of stages that failed.
    tries: BTreeMap<StageId, Vec<FailedTry>>,
    /// What the plan wants and is not carried out yet.
    decided: Vec<PlanDecision>,
    paused: bool,
    /// Messages that have acted.
    heard: BTreeSet<MessageId>,
}

impl Run {
    /// Begins a run. Its first record holds `RunStarted` and these effects.
    #[must_use]
    pub fn begin(at: Timestamp, header: &RunStarted) -> (Self, Vec<Effect>) {
        let mut run = Self {
            header: header.clone(),
            settings: header.settings.clone(),
            sessions_max: None,
            started_at: at,
            plan: Plan::new(&header.manifest),
            relays: BTreeMap::new(),
            live: BTreeSet::new(),
            last_begun: None,
            spent: Spend::default(),
            shared: Knowledge::default(),
            whole: None,
            results: BTreeMap::new(),
            contexts: BTreeMap::new(),
            clashes: BTreeMap::new(),
            tries: BTreeMap::new(),
            decided: Vec::new(),
            paused: false,
            heard: BTreeSet::new(),
        };
        let effects = run.carry_on(at);
        (run, effects)
    }

    /// Decides what follows from an event. Deterministic: the same events give the same effects.
    pub fn step(&mut self, at: Timestamp, event: &Event) -> Vec<Effect> {
        let mut effects = match event {
            Event::RunStarted(_) | Event::LogicChanged { .. } => return Vec::new(),
            Event::Woke => Vec::new(),
            Event::RunResumed(resumed) => self.resume(at, resumed),
            Event::Continued(continued) => self.go_on(at, continued),
            Event::UtcOffsetChanged { utc_offset_secs } => {
                self.settings.bounds.utc_offset_secs = *utc_offset_secs;
                // Those that have ended too: they may go on.
                let stages: Vec<StageId> = self.relays.keys().cloned().collect();
                let change = |relay: &mut Relay| relay.utc_offset_changed(at, *utc_offset_secs);
                stages.iter().flat_map(|stage| self.of_relay(at, stage, change)).collect()
            }
            Event::StopRequested(request) => self.request_stop(at, *request),
            Event::Steered(steered) => self.steer(at, steered),
            Event::Stage { stage, event } => {
                self.learn_limit(at, event);
                self.of_relay(at, stage, |relay| relay.step(at, event))
            }
            Event::Ground { stage, event } => {
                self.ground_event(stage, event);
                Vec::new()
            }
            Event::Delivered { .. } => {
                self.plan.delivered();
                Vec::new()
            }
        };
        effects.extend(self.carry_on(at));
        effects
    }

    /// The events that are due at a time because nothing else happened.
    #[must_use]
    pub fn due(&self, at: Timestamp) -> Vec<Event> {
        let due = |wakes: Option<Timestamp>| wakes.is_some_and(|wakes| wakes <= at);
        let plan = due(self.plan.wakes_at()).then_some(Event::Woke);
        self.live()
            .filter(|(_, relay)| due(relay.wakes_at()))
            .map(|(stage, _)| Event::Stage { stage: stage.clone(), event: RelayEvent::Woke })
            .chain(plan)
            .collect()
    }

    /// The next time at which [`Run::due`] has something.
    #[must_use]
    pub fn wakes_at(&self) -> Option<Timestamp> {
        self.live().filter_map(|(_, relay)| relay.wakes_at()).chain(self.plan.wakes_at()).min()
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
        if let Some(rules) = &self.header.manifest.plan {
            return rules.project.clone();
        }
        let names: Vec<&str> = self.relays.values().map(|relay| relay.stage().task_name.as_str()).collect();
        names.join(", ")
    }

    /// How it ended, if it did.
    #[must_use]
    pub fn outcome(&self) -> Option<&Outcome> {
        self.plan.ended()
    }

    /// A message of this id has acted already.
    #[must_use]
    pub fn has_heard(&self, message: &MessageId) -> bool {
        self.heard.contains(message)
    }

    /// Somebody wants the run to stop, and it has not stopped yet.
    #[must_use]
    pub fn is_stopping(&self) -> bool {
        self.outcome().is_none() && self.plan.is_stopping()
    }

    /// What models cost, as far as it is known.
    #[must_use]
    pub fn prices(&self) -> Prices {
        let mut prices = self.header.prices.clone();
        self.relays.values().for_each(|relay| prices.merge(relay.prices()));
        prices
    }

    /// What stages that are done have learned, each for all.
    #[must_use]
    pub fn shared_knowledge(&self) -> &Knowledge {
        &self.shared
    }

    /// Which stage is where.
    #[must_use]
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// A stage of the manifest.
    #[must_use]
    pub fn stage(&self, stage: &StageId) -> Option<&Stage> {
        self.header.manifest.stages.get(self.plan.place(stage)?)
    }

    /// The newest commit of what all stages made, once there is one.
    #[must_use]
    pub fn whole(&self) -> Option<&str> {
        self.whole.as_deref()
    }

    /// The stages that have a ground and still need it: begun, and not part of the whole.
    pub fn grounded(&self) -> impl Iterator<Item = &StageId> {
        self.relays.keys().filter(|stage| !self.plan.is_done(stage))
    }

    /// One stage's relay, once it has begun.
    #[must_use]
    pub fn relay(&self, stage: &StageId) -> Option<&Relay> {
        self.relays.get(stage)
    }

    /// The relays of all stages that have begun.
    pub fn relays(&self) -> impl Iterator<Item = (&StageId, &Relay)> {
        self.relays.iter()
    }

    /// The relays that have not ended.
    pub fn live(&self) -> impl Iterator<Item = (&StageId, &Relay)> {
        self.live.iter().filter_map(|stage| Some((stage, self.relays.get(stage)?)))
    }

    /// No agent is there and one's process is about to begin: what can wait does. A ground in the work dir
    /// is made in no time.
    #[must_use]
    pub fn is_between_agents(&self) -> bool {
        let next_is_prepared = !self.has_worktrees() && self.live.is_empty() && self.plan.at_work() > 0;
        next_is_prepared || self.live().any(|(_, relay)| relay.is_between_agents())
    }

    /// What a stage published belongs to another one by now, which works in the same place.
    #[must_use]
    pub fn is_superseded(&self, stage: &StageId) -> bool {
        let by_another = |last: &StageId| last != stage;
        let is_live = self.live.contains(stage);
        !self.has_worktrees() && !is_live && self.last_begun.as_ref().is_some_and(by_another)
    }

    /// What a person writes into the knowledge that a stage published is taken over: it may go on, and
    /// the file is still its.
    #[must_use]
    pub fn takes_edits(&self, stage: &StageId) -> bool {
        let is_over = self.header.manifest.plan.is_some() && self.plan.is_done(stage);
        !is_over && !self.is_superseded(stage)
    }

    fn resume(&mut self, at: Timestamp, resumed: &RunResumed) -> Vec<Effect> {
        if self.outcome().is_some_and(Outcome::is_complete) {
            return Vec::new();
        }
        self.take_limits(&resumed.limits);
        self.paused &= self.outcome().is_none();
        self.plan.resume();
        // A limit that a relay waits for holds the others still, if only an engine died.
        let limits: Vec<Timestamp> = self.live().filter_map(|(_, relay)| relay.limited_until()).collect();
        limits.into_iter().for_each(|until| self.plan.hold(until));
        self.plan.pause(self.paused);
        let stages: Vec<StageId> = self.relays.keys().cloned().collect();
        for stage in &stages {
            if let Some(relay) = self.relays.get_mut(stage) {
                relay.resume(at, resumed);
            }
        }
        Vec::new()
    }

    /// Only a complete run of a single relay goes on like this.
    fn go_on(&mut self, at: Timestamp, continued: &Continued) -> Vec<Effect> {
        if !self.outcome().is_some_and(Outcome::is_complete) || self.header.manifest.plan.is_some() {
            return Vec::new();
        }
        self.plan.go_on();
        let stages: Vec<StageId> = self.relays.keys().cloned().collect();
        stages
            .iter()
            .flat_map(|stage| self.of_relay(at, stage, |relay| relay.continue_with(at, continued)))
            .collect()
    }

    /// A usage limit holds all stages, also where the session that met it had handed over before and its
    /// relay need not wait.
    fn learn_limit(&mut self, at: Timestamp, event: &RelayEvent) {
        let RelayEvent::AttemptEnded(ended) = event else { return };
        let EndCause::RateLimited { resets_at: Some(resets_at), .. } = ended.cause else { return };
        let until = resets_at + limits::RESET_BUFFER;
        // What is too far is for the next session that meets it to say.
        let is_near = at < resets_at && until.since(at) <= self.settings.wait_max;
        if is_near && self.header.manifest.plan.is_some() {
            self.plan.hold(until);
        }
    }

    /// Lets a relay act, and the plan hear of it if the relay has ended by that, or has met a limit.
    fn of_relay(
        &mut self,
        at: Timestamp,
        stage: &StageId,
        act: impl FnOnce(&mut Relay) -> Vec<RelayEffect>,
    ) -> Vec<Effect> {
        let company = self.company_of(stage, at);
        let Some(relay) = self.relays.get_mut(stage) else { return Vec::new() };
        let before = relay.tally();
        relay.meet(company);
        let mut effects = act(relay);
        let tally = relay.tally();
        self.spent = self.spent.plus(tally.spend().since(before.spend()));
        if let Some(until) = relay.limited_until() {
            self.plan.hold(until);
        }
        match relay.outcome() {
            None => {
                self.live.insert(stage.clone());
            }
            Some(outcome) => {
                self.live.remove(stage);
                let was_done = self.plan.is_done(stage);
                self.decided.extend(self.plan.stage_ended(stage, outcome, tally.tokens));
                if self.plan.is_done(stage) && !was_done && self.header.manifest.plan.is_some() {
                    let declared = self.stage(stage).map(|stage| stage.part.outputs.clone());
                    self.keep_result(stage, &declared.unwrap_or_default(), &[]);
                }
                if self.plan.is_done(stage) && self.plan.over() < self.plan.stages() {
                    effects.iter_mut().for_each(hand_on);
                }
            }
        }
        staged(stage, effects)
    }

    /// What the other relays mean for one. Only those at work are looked at, which are few.
    fn company_of(&self, stage: &StageId, at: Timestamp) -> Company {
        if self.header.manifest.plan.is_none() {
            return Company::default();
        }
        let own = self.relays.get(stage).map(|relay| relay.tally().spend()).unwrap_or_default();
        let mut spent = self.spent.since(own);
        for (_, relay) in self.live().filter(|(other, _)| *other != stage) {
            spent = spent.plus(relay.spend().since(relay.tally().spend())).plus(relay.set_aside());
        }
        let sharers = u32::try_from(self.plan.may_begin()).unwrap_or(u32::MAX).saturating_add(1);
        Company { spent, sharers, held_until: self.plan.held_until().filter(|until| at < *until) }
    }

    /// Carries out what the plan wants, until it wants nothing more.
    fn carry_on(&mut self, at: Timestamp) -> Vec<Effect> {
        let mut effects = Vec::new();
        loop {
            let mut decisions = std::mem::take(&mut self.decided);
            if decisions.is_empty() {
                decisions = self.plan.next(at);
            }
            if decisions.is_empty() {
                return effects;
            }
            for decision in decisions {
                effects.extend(self.carry_out(at, decision));
            }
        }
    }

    fn carry_out(&mut self, at: Timestamp, decision: PlanDecision) -> Vec<Effect> {
        let ground = |stage, effect| vec![Effect::Ground { stage, effect }];
        match decision {
            PlanDecision::Prepare(stage) => ground(stage, GroundEffect::Prepare),
            PlanDecision::Merge(stage) => ground(stage, GroundEffect::Merge),
            PlanDecision::Confirm(stage) => ground(stage, GroundEffect::Confirm),
            PlanDecision::Start(stage) => self.start(at, &stage),
            PlanDecision::Retry { stage, attempt, max } => self.try_again(at, &stage, attempt, max),
            PlanDecision::Deliver => vec![Effect::Deliver],
            PlanDecision::End(outcome) => self.end(outcome),
        }
    }

    /// The relays of a plan tell nobody of their ends; the plan tells of its own.
    fn end(&self, outcome: Outcome) -> Vec<Effect> {
        let sessions = self.relays.values().map(|relay| relay.tally().sessions).sum();
        let wanted = self.header.manifest.plan.is_some() && self.settings.notify;
        let notice = notice::of_end(&outcome, sessions).filter(|_| wanted);
        let told = notice.zip(self.relays.keys().next()).map(|(text, stage)| Effect::Stage {
            stage: stage.clone(),
            effect: RelayEffect::Notify { text },
        });
        told.into_iter().chain([Effect::EndRun { outcome }]).collect()
    }

    fn start(&mut self, at: Timestamp, stage: &StageId) -> Vec<Effect> {
        if !self.relays.contains_key(stage) {
            let Some(mut of_manifest) = self.stage(stage).cloned() else { return Vec::new() };
            of_manifest.sessions_max = self.sessions_max.unwrap_or(of_manifest.sessions_max);
            let settings = self.settings_of(&of_manifest);
            let mut relay = Relay::new(&self.header, settings, of_manifest);
            if self.header.manifest.plan.is_some() {
                relay.join(self.contexts.remove(stage).unwrap_or_default());
            }
            if !relay.stage().part.knowledge_apart {
                relay.learn(&self.shared);
            }
            self.relays.insert(stage.clone(), relay);
        }
        self.last_begun = Some(stage.clone());
        let (clash, paused) = (self.clashes.remove(stage), self.paused);
        self.of_relay(at, stage, |relay| {
            relay.share_pause(paused);
            match clash {
                Some(slot) => relay.mend(at, slot),
                None => relay.begin(at),
            }
        })
    }

    /// What follows is the plan's to say.
    fn ground_event(&mut self, stage: &StageId, event: &GroundEvent) {
        match event {
            GroundEvent::Prepared { ground, .. } => self.prepared(stage, ground),
            GroundEvent::Merged { merge, .. } => self.merged(stage, merge),
            GroundEvent::Confirmed { result, .. } => self.confirmed(stage, result),
        }
    }

    /// The stages work in worktrees of their own.
    fn has_worktrees(&self) -> bool {
        let rules = self.header.manifest.plan.as_deref();
        rules.is_some_and(|rules| matches!(rules.ground, Ground::Worktrees { .. }))
    }
}

/// The run does not rest: others go on, and what this one published is theirs, or copied from its result.
fn hand_on(effect: &mut RelayEffect) {
    if *effect == RelayEffect::PublishDurably {
        *effect = RelayEffect::Publish;
    }
}

fn staged(stage: &StageId, effects: Vec<RelayEffect>) -> Vec<Effect> {
    effects.into_iter().map(|effect| Effect::Stage { stage: stage.clone(), effect }).collect()
}
