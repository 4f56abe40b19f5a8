//! What people ask of a run: stop, pause, other limits, words for its agents.

use super::Run;
use crate::effect::{Effect, RelayEffect};
use crate::event::{Answer, RunResumed};
use crate::ids::StageId;
use crate::prompt::is_of_stranger;
use crate::relay::{Relay, make_room};
use crate::settings::LimitsChanged;
use crate::steering::{Steered, Steering, StopRequest};
use crate::text;
use crate::time::Timestamp;

impl Run {
    /// A person wants nothing to begin, whether or not something is held already. A finished run waits for
    /// nothing.
    pub fn is_paused(&self) -> bool {
        let is_asked = self.paused || self.live().any(|(_, relay)| relay.wishes.paused);
        is_asked && self.outcome().is_none()
    }

    pub(super) fn request_stop(&mut self, at: Timestamp, request: StopRequest) -> Vec<Effect> {
        if self.outcome().is_some() {
            return Vec::new();
        }
        self.plan.stop(request);
        let mut effects = self.each_live(at, |relay| relay.request_stop(at, request));
        effects.extend(self.cancel_worktree_tasks());
        effects
    }

    pub(super) fn steer(&mut self, at: Timestamp, steered: &Steered) -> Vec<Effect> {
        if !self.heard.insert(steered.message.clone()) {
            return Vec::new();
        }
        match &steered.steering {
            stop @ Steering::Stop { .. } => stop
                .stop()
                .map(|request| self.request_stop(at, request))
                .unwrap_or_default(),
            Steering::HandOff => self.each_live(at, Relay::hand_off),
            Steering::Pause => self.pause(at, true),
            Steering::Unpause => self.pause(at, false),
            Steering::Instruct { words } => {
                if self.header.is_plan() {
                    self.keep_words(words);
                }
                self.each_to_come(at, |relay| relay.instruct(at, words))
            }
            Steering::Answer { stage, words } => {
                self.answer(at, stage, words);
                Vec::new()
            }
            Steering::ChangeLimits(limits) => {
                self.take_limits(limits);
                self.to_share = self.live.clone();
                let effects = self.each_to_come(at, |relay| relay.limit(at, limits));
                self.to_share.clear();
                effects
            }
        }
    }

    /// Keeps words for stages that begin later, as many as one has room for: the newest ones, and a person's own in
    /// preference to comments by strangers.
    fn keep_words(&mut self, words: &str) {
        let words = text::clean(words).text.trim().to_owned();
        while !make_room(&mut self.words, &words) {
            if self.words.is_empty() || is_of_stranger(&words) {
                return;
            }
            self.words.remove(0);
        }
        self.words.push(words);
    }

    /// Restarts a stage whose question is answered; the others continue meanwhile.
    fn answer(&mut self, at: Timestamp, stage: &StageId, words: &str) {
        // The fleet informs the stage's own run.
        if !self.plan.answered(stage) || self.header.fleet.is_some() {
            return;
        }
        let resumed = RunResumed {
            ekiden: self.header.ekiden.clone(),
            answer: Some(Answer {
                stage: stage.clone(),
                words: words.to_owned(),
            }),
            ..RunResumed::default()
        };
        if let Some(relay) = self.relays.get_mut(stage) {
            relay.resume(at, &resumed);
        }
    }

    fn pause(&mut self, at: Timestamp, paused: bool) -> Vec<Effect> {
        self.paused = paused && self.outcome().is_none();
        self.plan.pause(self.paused);
        match paused {
            true => self.each_live(at, |relay| relay.pause(at)),
            false => self.each_to_come(at, |relay| relay.unpause(at)),
        }
    }

    /// Applies limits to stages that have not begun.
    pub(super) fn take_limits(&mut self, limits: &LimitsChanged) {
        self.settings.change(limits);
        self.sessions_max = limits.sessions_max.or(self.sessions_max);
    }

    fn each_live(
        &mut self,
        at: Timestamp,
        mut act: impl FnMut(&mut Relay) -> Vec<RelayEffect>,
    ) -> Vec<Effect> {
        let stages: Vec<StageId> = self.live.iter().cloned().collect();
        stages
            .iter()
            .flat_map(|stage| self.of_relay(at, stage, &mut act))
            .collect()
    }

    /// The working relays; in a run that has ended, those that a resume continues.
    fn each_to_come(
        &mut self,
        at: Timestamp,
        mut act: impl FnMut(&mut Relay) -> Vec<RelayEffect>,
    ) -> Vec<Effect> {
        if !self.live.is_empty() && self.header.manifest.plan.is_none() {
            return self.each_live(at, act);
        }
        // Stages of a plan that wait for their merge may be sent back.
        let over = |stage: &StageId| !self.live.is_empty() && self.plan.is_done(stage);
        let stages: Vec<StageId> = self
            .relays
            .keys()
            .filter(|stage| !over(stage))
            .cloned()
            .collect();
        stages
            .iter()
            .flat_map(|stage| self.of_relay(at, stage, &mut act))
            .collect()
    }
}
