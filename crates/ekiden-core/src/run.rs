//! A run: the plan and its relays, folded from events.
//!
//! The plan says which stage begins, and each relay says what its stage wants. A run combines them. Every step ends
//! by asking the plan what is next, until the plan wants nothing more.

use std::collections::{BTreeMap, BTreeSet};

use crate::agent::AgentSpec;
use crate::budget::{AgentSpends, Prices, Spend};
use crate::effect::{Effect, RelayEffect};
use crate::event::{Continued, Delivery, Event, RunResumed, WorktreeEvent};
use crate::fallback::Outages;
use crate::ids::{MessageId, StageId};
use crate::knowledge::Knowledge;
use crate::manifest::{Isolation, Stage};
use crate::notice;
use crate::outcome::Outcome;
use crate::plan::{Plan, PlanDecision};
use crate::prompt::{FailedAttempt, PromptSection, StageContext};
use crate::relay::{Member, Relay, Totals};
use crate::settings::{RunStarted, Settings};
use crate::time::Timestamp;

mod elsewhere;
mod shares;
mod stage_facts;
mod steering;
#[cfg(test)]
mod tests;
mod waits;
mod worktrees;

use elsewhere::notice_of;
pub use worktrees::StageResult;

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
    relays: BTreeMap<StageId, Relay>,
    /// Those of them that have not ended.
    live: BTreeSet<StageId>,
    /// The one that began last.
    last_begun: Option<StageId>,
    /// What the relays have spent in sessions that are over.
    spent: Spend,
    /// The same by agent.
    spent_by: AgentSpends,
    /// What models cost, by the attempt that reported it last.
    prices: Prices,
    /// What earlier rounds of stages came to on other machines, with which their relays ended.
    before: Totals,
    /// How many sessions of its relays are over.
    sessions: u32,
    /// What stages that are done have learned.
    shared: Knowledge,
    /// The merged stages, oldest first, each with its commit on the integration branch.
    merges: Vec<(String, StageId)>,
    /// Which of them were in a stage's worktree from its beginning.
    in_tree: BTreeMap<StageId, BTreeSet<StageId>>,
    /// What stages that are done have left.
    results: BTreeMap<StageId, StageResult>,
    /// What stages are shown that are about to begin.
    contexts: BTreeMap<StageId, StageContext>,
    /// What came of the last merge of stages that could not be merged: what their next session reads, or their
    /// diagnosis quotes.
    conflicts: BTreeMap<StageId, PromptSection>,
    /// For a stage whose merge failed, the stages that it met in it.
    merge_met: BTreeMap<StageId, BTreeSet<StageId>>,
    /// The failed attempts at each stage.
    failures: BTreeMap<StageId, Vec<FailedAttempt>>,
    /// What the plan wants and is not carried out yet.
    decided: Vec<PlanDecision>,
    paused: bool,
    /// What a person told the sessions of a plan: stages that begin later hear it, too.
    words: Vec<String>,
    /// What its relays know of agents that are out.
    outages: Outages,
    /// The stages at work that changed limits have not reached yet: their shares are given anew.
    to_share: BTreeSet<StageId>,
    heard: BTreeSet<MessageId>,
    /// The runs of stages that other machines carry out, each as its own log tells.
    apart: BTreeMap<StageId, Self>,
}

impl Run {
    /// Begins a run. Its first record holds `RunStarted` and these effects.
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
            spent_by: AgentSpends::default(),
            prices: header.prices.clone(),
            before: Totals::default(),
            sessions: 0,
            shared: header.knowledge(),
            merges: Vec::new(),
            in_tree: BTreeMap::new(),
            results: BTreeMap::new(),
            contexts: BTreeMap::new(),
            conflicts: BTreeMap::new(),
            merge_met: BTreeMap::new(),
            failures: BTreeMap::new(),
            decided: Vec::new(),
            paused: false,
            words: Vec::new(),
            outages: Outages::default(),
            to_share: BTreeSet::new(),
            heard: BTreeSet::new(),
            apart: BTreeMap::new(),
        };
        let effects = run.carry_on(at);
        (run, effects)
    }

    /// Decides what follows from an event. Deterministic: the same events give the same effects.
    pub fn step(&mut self, at: Timestamp, event: &Event) -> Vec<Effect> {
        self.learn_prices(event);
        let mut effects = match event {
            Event::RunStarted(_) | Event::LogicChanged { .. } | Event::LogAccepted { .. } => {
                return Vec::new();
            }
            Event::Woke => Vec::new(),
            Event::RunResumed(resumed) => self.resume(at, resumed),
            Event::Continued(continued) => self.go_on(at, continued),
            Event::UtcOffsetChanged { utc_offset_secs } => {
                self.settings.bounds.utc_offset_secs = *utc_offset_secs;
                // Those that have ended too: they may continue.
                self.of_all(at, |relay| relay.utc_offset_changed(at, *utc_offset_secs))
            }
            Event::StopRequested(request) => self.request_stop(at, *request),
            Event::Steered(steered) => self.steer(at, steered),
            Event::Stage { stage, .. } if self.header.fleet.is_some() => {
                self.recorded_elsewhere(at, stage, event)
            }
            Event::Elsewhere { stage, event } => self.elsewhere(at, stage, event),
            Event::Stage { stage, event } => {
                self.learn_limit(at, stage, event);
                self.of_relay(at, stage, |relay| relay.step(at, event))
            }
            Event::Worktree { stage, event, .. } => {
                self.settle_order(stage, event);
                match event {
                    WorktreeEvent::Prepared { worktree } => self.prepared(stage, worktree),
                    WorktreeEvent::Merged { merge } => self.merged(stage, merge),
                    WorktreeEvent::Confirmed { result } => self.confirmed(stage, result),
                }
                // What follows is decided by the plan.
                Vec::new()
            }
            Event::Delivered { delivery, .. } => {
                let kept = match delivery {
                    Delivery::Given { .. } => None,
                    Delivery::Kept { command, .. } => Some(command.clone()),
                };
                self.plan.delivered(kept);
                Vec::new()
            }
        };
        effects.extend(self.carry_on(at));
        effects.extend(self.share_anew(at));
        effects
    }

    /// What the run was started with.
    pub fn header(&self) -> &RunStarted {
        &self.header
    }

    pub fn started_at(&self) -> Timestamp {
        self.started_at
    }

    /// What the tasks of its stages are called now, for people.
    pub fn task_names(&self) -> String {
        if let Some(rules) = &self.header.manifest.plan {
            return rules.project.clone();
        }
        let names: Vec<&str> = self
            .relays
            .values()
            .map(|relay| relay.stage.task_name.as_str())
            .collect();
        names.join(", ")
    }

    /// How it ended, if it did.
    pub fn outcome(&self) -> Option<&Outcome> {
        self.plan.ended()
    }

    /// The open questions with which stages ended as blocked, for [`crate::event::Answer`].
    pub fn questions(&self) -> impl Iterator<Item = (&StageId, &str)> {
        let asking = self.relays.iter().filter(|(id, _)| self.plan.needs_you(id));
        asking.filter_map(|(stage, relay)| {
            let Some(Outcome::Blocked { question }) = relay.outcome() else {
                return None;
            };
            Some((stage, question.as_str()))
        })
    }

    /// A message of this id has acted already.
    pub fn has_heard(&self, message: &MessageId) -> bool {
        self.heard.contains(message)
    }

    /// Somebody wants the run to stop, and it has not stopped yet.
    pub fn is_stopping(&self) -> bool {
        self.outcome().is_none() && self.plan.is_stopping()
    }

    /// What stages that are done have learned, each for all.
    pub fn shared_knowledge(&self) -> &Knowledge {
        &self.shared
    }

    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// A stage of the manifest.
    pub fn stage(&self, stage: &StageId) -> Option<&Stage> {
        self.header.manifest.stages.get(self.plan.place(stage)?)
    }

    /// The newest commit of the integration branch, once there is one.
    pub fn integration_commit(&self) -> Option<&str> {
        self.merges.last().map(|(commit, _)| commit.as_str())
    }

    /// The stages whose worktrees are still needed: begun, and not merged.
    pub fn with_worktrees(&self) -> impl Iterator<Item = &StageId> {
        self.relays.keys().filter(|stage| !self.plan.is_done(stage))
    }

    /// One stage's relay, once it has begun.
    pub fn relay(&self, stage: &StageId) -> Option<&Relay> {
        self.relays.get(stage)
    }

    /// The relays of all stages that have begun.
    pub fn relays(&self) -> impl Iterator<Item = (&StageId, &Relay)> {
        self.relays.iter()
    }

    /// The relays that have not ended.
    pub fn live(&self) -> impl Iterator<Item = (&StageId, &Relay)> {
        self.live
            .iter()
            .filter_map(|stage| Some((stage, self.relays.get(stage)?)))
    }

    /// No agent is there and one's process is about to begin: what can wait does. The work dir
    /// is made in no time.
    pub fn is_between_agents(&self) -> bool {
        let next_is_prepared =
            !self.has_worktrees() && self.live.is_empty() && self.plan.at_work() > 0;
        next_is_prepared || self.live().any(|(_, relay)| relay.is_between_agents())
    }

    /// What a stage published belongs to another one by now, which works in the same place.
    pub fn is_superseded(&self, stage: &StageId) -> bool {
        let by_another = |last: &StageId| last != stage;
        let is_live = self.live.contains(stage);
        !self.has_worktrees() && !is_live && self.last_begun.as_ref().is_some_and(by_another)
    }

    /// What a person writes into the knowledge that a stage published is kept: it may continue, and
    /// the file is still its.
    pub fn takes_edits(&self, stage: &StageId) -> bool {
        let is_over = self.header.is_plan() && self.plan.is_done(stage);
        !is_over && !self.is_superseded(stage)
    }

    fn resume(&mut self, at: Timestamp, resumed: &RunResumed) -> Vec<Effect> {
        if self.outcome().is_some_and(Outcome::is_complete) {
            return Vec::new();
        }
        self.take_limits(&resumed.limits);
        self.paused &= self.outcome().is_none();
        self.outages.forgive(self.outcome().is_some());
        let answer = resumed.answer.as_ref();
        self.plan.resume(answer.map(|answer| &answer.stage));
        // A limit that a relay waits for holds the others still, if only an engine died.
        let limits = self.live().filter_map(|(_, relay)| relay.limit_met());
        let limits: Vec<(AgentSpec, Timestamp)> = limits.collect();
        for (agent, until) in limits {
            self.hold(&agent, until);
        }
        self.plan.pause(self.paused);
        self.of_all(at, |relay| relay.resume(at, resumed))
    }

    /// Only a complete run of a single relay continues like this.
    fn go_on(&mut self, at: Timestamp, continued: &Continued) -> Vec<Effect> {
        if !self.outcome().is_some_and(Outcome::is_complete) || self.header.is_plan() {
            return Vec::new();
        }
        self.take_limits(&continued.limits);
        self.outages.forgive(true);
        self.paused = false;
        self.plan.go_on();
        self.of_all(at, |relay| relay.continue_with(at, continued))
    }

    fn of_all(
        &mut self,
        at: Timestamp,
        act: impl Fn(&mut Relay) -> Vec<RelayEffect>,
    ) -> Vec<Effect> {
        let stages: Vec<StageId> = self.relays.keys().cloned().collect();
        let of = |stage: &StageId| self.of_relay(at, stage, &act);
        stages.iter().flat_map(of).collect()
    }

    /// Lets a relay act, and the plan hear of it if the relay has ended by that, or has met a limit.
    fn of_relay(
        &mut self,
        at: Timestamp,
        stage: &StageId,
        act: impl FnOnce(&mut Relay) -> Vec<RelayEffect>,
    ) -> Vec<Effect> {
        // What another machine carries out is not ours to move.
        if self.header.fleet.is_some() {
            return Vec::new();
        }
        self.to_share.remove(stage);
        let shared = self.shared_limits_of(stage, at);
        let Some(relay) = self.relays.get_mut(stage) else {
            return Vec::new();
        };
        let (before, before_by) = (relay.totals, relay.spent_by.clone());
        relay.shared = shared;
        relay.candidates.outages = std::mem::take(&mut self.outages);
        let mut effects = act(relay);
        self.outages = std::mem::take(&mut relay.candidates.outages);
        let spend = relay.totals.spend;
        self.spent = self.spent.plus(spend.since(before.spend));
        let spent_by = relay.spent_by.clone().since(&before_by);
        self.spent_by = std::mem::take(&mut self.spent_by).plus(&spent_by);
        self.sessions += relay.totals.sessions.saturating_sub(before.sessions);
        let limit = relay.limit_met();
        // With fallbacks, all agents are out.
        let alone = relay.settings.fallback.is_empty();
        let out = relay.outcome();
        let out = out.filter(|outcome| alone && outcome.is_of_agent());
        let out = out.map(|outcome| (relay.agent().clone(), outcome.clone()));
        let mut notice = None;
        match relay.outcome() {
            None => {
                self.live.insert(stage.clone());
            }
            Some(outcome) => {
                let was_live = self.live.remove(stage);
                let was_done = self.plan.is_done(stage);
                self.decided.extend(self.plan.stage_ended(stage, outcome));
                notice = notice_of(relay, outcome).filter(|_| was_live);
                if self.plan.is_done(stage) && !was_done && self.header.is_plan() {
                    let relay = self.relays.get(stage);
                    let changed = relay.map(Relay::changed).unwrap_or_default();
                    self.keep_result(stage, &changed, &[]);
                }
                if self.plan.is_done(stage) && self.plan.over() < self.plan.stages() {
                    effects.iter_mut().for_each(hand_on);
                }
            }
        }
        if let Some((agent, until)) = limit {
            self.hold(&agent, until);
        }
        let is_out = out.is_some();
        if let Some((agent, outcome)) = out {
            let stages = self.of_account(&agent);
            self.plan.halt_only(&outcome, stages);
        }
        // The plan notifies of its end, which may be hours away.
        if (is_out || self.plan.asks(stage)) && self.plan.goes_on() {
            effects.extend(notice);
        }
        staged(stage, effects)
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
        match decision {
            PlanDecision::Worktree(stage, effect) => vec![Effect::Worktree { stage, effect }],
            PlanDecision::Start(stage) => self.start(at, &stage),
            PlanDecision::Retry {
                stage,
                attempt,
                max,
            } => self.retry(at, &stage, attempt, max),
            PlanDecision::Deliver => vec![Effect::Deliver],
            PlanDecision::End(outcome) => self.end(outcome),
        }
    }

    /// The relays of a plan send no notice of their ends; the plan sends its own.
    fn end(&self, outcome: Outcome) -> Vec<Effect> {
        let sessions = self.totals().sessions;
        let wanted = self.header.is_plan() && self.settings.notify;
        let notice = notice::of_end(&outcome, sessions, self.settings.notify_text);
        let notice = notice.filter(|_| wanted);
        // It may end before any stage has begun.
        let first = self.header.manifest.stages.first().map(|stage| &stage.id);
        let stage = self.relays.keys().next().or(first);
        let told = notice.zip(stage).map(|(notice, stage)| Effect::Stage {
            stage: stage.clone(),
            effect: notice.effect(),
        });
        told.into_iter()
            .chain([Effect::EndRun { outcome }])
            .collect()
    }

    fn start(&mut self, at: Timestamp, stage: &StageId) -> Vec<Effect> {
        if self.header.fleet.is_some() {
            return Vec::new();
        }
        if !self.relays.contains_key(stage) {
            let Some(mut of_manifest) = self.stage(stage).cloned() else {
                return Vec::new();
            };
            of_manifest.sessions_max = self.sessions_max.unwrap_or(of_manifest.sessions_max);
            let settings = self.settings_of(&of_manifest);
            let context = self.contexts.remove(stage).unwrap_or_default();
            let in_plan = self.header.is_plan();
            let member = in_plan.then(|| Member::new(context));
            let mut relay = Relay::new(&self.header, settings, of_manifest, member);
            if !relay.stage.part.knowledge_apart {
                relay.learn(&self.shared);
            }
            let words = self.words.iter();
            words.for_each(|words| drop(relay.instruct(at, words)));
            self.relays.insert(stage.clone(), relay);
        }
        self.last_begun = Some(stage.clone());
        let (conflict, paused) = (self.conflicts.remove(stage), self.paused);
        self.of_relay(at, stage, |relay| {
            relay.wishes.paused = paused;
            match conflict {
                Some(section) => relay.resolve_conflict(at, section),
                None => relay.begin(at),
            }
        })
    }

    /// The stages work in worktrees of their own.
    pub fn has_worktrees(&self) -> bool {
        let rules = self.header.manifest.plan.as_deref();
        rules.is_some_and(|rules| matches!(rules.isolation, Isolation::Worktrees { .. }))
    }
}

/// The run does not rest: others continue, and what this one published is theirs, or copied from its result.
fn hand_on(effect: &mut RelayEffect) {
    if *effect == RelayEffect::PublishDurably {
        *effect = RelayEffect::Publish;
    }
}

fn staged(stage: &StageId, effects: Vec<RelayEffect>) -> Vec<Effect> {
    effects
        .into_iter()
        .map(|effect| Effect::Stage {
            stage: stage.clone(),
            effect,
        })
        .collect()
}
