//! The grounds of a plan's stages: where each works, and how what it did becomes part of the whole.

use serde::{Deserialize, Serialize};

use crate::effect::{Effect, RelayEffect};
use crate::event::{Check, Grounded, Merge};
use crate::ids::StageId;
use crate::limits;
use crate::manifest::Stage;
use crate::plan::StageState;
use crate::run::Run;
use crate::run::telling::{FailedTry, failed_try};
use crate::settings::{AgentSpec, CommitPlan, Settings};
use crate::time::Timestamp;

/// What a stage left that is done.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StageResult {
    /// The files that it changed, as git tells; what it declared where git cannot.
    pub files: Vec<String>,
    /// Files that it changed and had not declared.
    pub undeclared: Vec<String>,
    /// What it hands over to the stages that need it, in Markdown.
    pub text: String,
}

impl Run {
    /// What a stage left that is done.
    #[must_use]
    pub fn result(&self, stage: &StageId) -> Option<&StageResult> {
        self.results.get(stage)
    }

    /// What the stages left that this one builds on, nearest first; not more than could be shown.
    #[must_use]
    pub fn results_before(&self, stage: &StageId) -> Vec<(&Stage, &StageResult)> {
        let known = |id: &StageId| Some((self.stage(id)?, self.results.get(id)?));
        self.plan.done_before(stage, limits::STAGE_RESULTS_MAX).iter().filter_map(known).collect()
    }

    /// By which settings a stage works.
    pub(super) fn settings_of(&self, stage: &Stage) -> Settings {
        let mut settings = self.settings.clone();
        if self.header.manifest.plan.is_none() {
            return settings;
        }
        settings.marker = stage.part.marker.clone().unwrap_or(settings.marker);
        if let Some(agent) = &stage.part.agent {
            let permissions = settings.agent.permissions;
            settings.agent = AgentSpec { permissions, ..AgentSpec::clone(agent) };
        }
        settings.bounds.session = settings.bounds.session.replaced(stage.part.session);
        if let Some(tokens) = stage.part.session_tokens {
            let cap = settings.levels.cap_for_handoff(tokens);
            settings.cap_tokens = Some(settings.cap_tokens.map_or(cap, |other| other.min(cap)));
        }
        settings.bounds.turns_max = stage.part.turns_max.or(settings.bounds.turns_max);
        if self.has_worktrees() {
            settings.commit = Some(CommitPlan::default());
        }
        settings
    }

    pub(super) fn prepared(&mut self, stage: &StageId, ground: &Result<Grounded, String>) {
        if let Ok(ground) = ground {
            self.contexts.insert(stage.clone(), ground.context.clone());
        }
        let result = ground.as_ref().map(|_| ()).map_err(Clone::clone);
        self.decided.extend(self.plan.prepared(stage, result));
    }

    pub(super) fn confirmed(&mut self, stage: &StageId, result: &Result<String, String>) {
        match result {
            Ok(text) => {
                let files = self.stage(stage).map(|stage| stage.part.outputs.clone()).unwrap_or_default();
                let result = StageResult { files, undeclared: Vec::new(), text: text.clone() };
                self.results.insert(stage.clone(), result);
                self.plan.merged(stage);
            }
            Err(why) => self.plan.not_merged(stage, why.clone()),
        }
    }

    pub(super) fn merged(&mut self, stage: &StageId, merge: &Merge) {
        match merge {
            Merge::Done { commit, files, undeclared } => {
                self.whole = Some(commit.clone());
                self.keep_result(stage, files, undeclared);
                self.plan.merged(stage);
            }
            Merge::Conflict { files } => self.unmerged(stage, files, None),
            Merge::Broken { check } => self.unmerged(stage, &[], Some(check)),
            Merge::Failed { error } => self.plan.not_merged(stage, error.clone()),
            Merge::Cancelled => self.plan.merge_cancelled(stage),
        }
    }

    /// Keeps what a stage's relay is told when it begins to put right that the stage does not merge, if it
    /// may try that again.
    fn unmerged(&mut self, stage: &StageId, files: &[String], check: Option<&Check>) {
        if self.plan.unmerged(stage, files.to_vec()) {
            self.clashes.insert(stage.clone(), self.clash(stage, files, check));
        }
    }

    /// Another try of a stage.
    pub(super) fn try_again(
        &mut self,
        at: Timestamp,
        stage: &StageId,
        attempt: u32,
        max: u32,
    ) -> Vec<Effect> {
        let Some(relay) = self.relays.get(stage) else { return Vec::new() };
        let slot = failed_try(relay, attempt, max);
        self.tries.entry(stage.clone()).or_default().push(FailedTry::of(relay));
        self.last_begun = Some(stage.clone());
        let paused = self.paused;
        self.of_relay(at, stage, |relay| {
            relay.share_pause(paused);
            relay.try_again(at, slot)
        })
    }

    /// Keeps what a stage left that is done, and what it learned.
    pub(super) fn keep_result(&mut self, stage: &StageId, files: &[String], undeclared: &[String]) {
        let Some(relay) = self.relays.get(stage) else { return };
        let text = self.result_text(relay, files);
        if !relay.stage().part.knowledge_apart {
            self.shared.adopt(relay.knowledge());
        }
        let result = StageResult { files: files.to_vec(), undeclared: undeclared.to_vec(), text };
        self.results.insert(stage.clone(), result);
    }

    /// Ends the work on grounds: the run is being stopped.
    pub(super) fn cancel_grounds(&self) -> Vec<Effect> {
        let busy = |state: &StageState| matches!(state, StageState::Preparing | StageState::Merging);
        self.plan
            .states()
            .filter(|(_, state)| busy(state))
            .map(|(stage, _)| Effect::Stage { stage: stage.clone(), effect: RelayEffect::CancelTasks })
            .collect()
    }
}
