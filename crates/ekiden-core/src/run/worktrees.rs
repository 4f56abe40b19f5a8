//! Where the stages of a plan work, and how their work is merged.

use serde::{Deserialize, Serialize};

use crate::agent::AgentSpec;
use crate::effect::{Effect, RelayEffect};
use crate::event::{Check, Merge, PreparedWorktree};
use crate::ids::StageId;
use crate::limits;
use crate::manifest::Stage;
use crate::outcome::Outcome;
use crate::plan::StageState;
use crate::prompt::PromptSection;
use crate::run::Run;
use crate::run::stage_facts::{failed, failed_attempt};
use crate::settings::{CommitPlan, Earlier, Settings};
use crate::time::Timestamp;

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StageResult {
    /// The files that it changed, according to git; without git, its declared outputs.
    pub files: Vec<String>,
    /// Files that it changed and had not declared.
    pub undeclared: Vec<String>,
    /// Its text for the stages that need it, in Markdown.
    pub text: String,
}

impl Run {
    pub fn result(&self, stage: &StageId) -> Option<&StageResult> {
        self.results.get(stage)
    }

    /// The results of the stages that this one builds on, nearest first; not more than a prompt can show.
    pub fn results_before(&self, stage: &StageId) -> Vec<Earlier> {
        let known = |id: &StageId| {
            Some(Earlier {
                stage: id.clone(),
                name: self.stage(id)?.task_name.clone(),
                text: self.results.get(id)?.text.clone(),
            })
        };
        let here = self.plan.done_before(stage, limits::STAGE_RESULTS_MAX);
        let elsewhere = self.header.before.iter();
        let elsewhere = elsewhere.flat_map(|before| before.results.clone());
        here.iter().filter_map(known).chain(elsewhere).collect()
    }

    pub(super) fn settings_of(&self, stage: &Stage) -> Settings {
        let mut settings = self.settings.clone();
        if self.header.manifest.plan.is_none() {
            return settings;
        }
        settings.marker = stage.part.marker.clone().unwrap_or(settings.marker);
        if let Some(agent) = &stage.part.agent {
            let permissions = settings.agent.permissions;
            settings.agent = AgentSpec {
                permissions,
                ..AgentSpec::clone(agent)
            };
        }
        if stage.part.review && settings.reviewer.is_none() {
            settings.reviewer = Some(Box::new(settings.agent.clone().read_only()));
        }
        if let (Some(reviewer), Some(model)) = (&mut settings.reviewer, &stage.part.review_model)
            && reviewer.name == settings.agent.name
        {
            reviewer.model = Some(model.clone());
        }
        stage.part.lower(&mut settings.bounds);
        if let Some(tokens) = stage.part.session_tokens {
            let cap = settings.levels.cap_for_handoff(tokens);
            settings.cap_tokens = Some(settings.cap_tokens.map_or(cap, |other| other.min(cap)));
        }
        if self.has_worktrees() {
            settings.commit = Some(CommitPlan::default());
        }
        settings
    }

    pub(super) fn prepared(
        &mut self,
        stage: &StageId,
        worktree: &Result<PreparedWorktree, String>,
    ) {
        if let Ok(worktree) = worktree {
            let mut context = worktree.context.clone();
            if let Some(before) = &self.header.before {
                context.not_set_up = context.not_set_up.or_else(|| before.not_set_up.clone());
                context.not_merged.clone_from(&before.not_merged);
            }
            self.contexts.insert(stage.clone(), context);
            let is_base = |(commit, _): &(String, StageId)| worktree.base.as_ref() == Some(commit);
            let until = self.merges.iter().position(is_base).map_or(0, |at| at + 1);
            let in_tree = self.merges.iter().take(until).map(|(_, of)| of.clone());
            self.in_tree.insert(stage.clone(), in_tree.collect());
        }
        let result = worktree.as_ref().map(|_| ()).map_err(Clone::clone);
        self.decided.extend(self.plan.prepared(stage, result));
    }

    pub(super) fn confirmed(&mut self, stage: &StageId, result: &Result<String, String>) {
        match result {
            Ok(text) => {
                let files = self
                    .stage(stage)
                    .map(|stage| stage.part.outputs.clone())
                    .unwrap_or_default();
                let result = StageResult {
                    files,
                    undeclared: Vec::new(),
                    text: text.clone(),
                };
                self.results.insert(stage.clone(), result);
                self.plan.merged(stage);
            }
            Err(why) => self.plan.not_merged(stage, why.clone()),
        }
    }

    pub(super) fn merged(&mut self, stage: &StageId, merge: &Merge) {
        self.conflicts.remove(stage);
        match merge {
            Merge::Done {
                commit,
                files,
                undeclared,
            } => {
                self.merges.push((commit.clone(), stage.clone()));
                self.keep_result(stage, files, undeclared);
                self.plan.merged(stage);
            }
            Merge::Conflict { files } => self.in_conflict(stage, files, None),
            Merge::Broken { check } => self.in_conflict(stage, &[], Some(check)),
            Merge::Refused { tail } => {
                let why = "a hook of the repository refused to commit its work".to_owned();
                let section = PromptSection::HookRefused { tail: tail.clone() };
                self.unmerged(stage, section, Outcome::NotMerged { why });
            }
            Merge::Failed { error } => self.plan.not_merged(stage, error.clone()),
            Merge::Cancelled => self.plan.merge_cancelled(stage),
        }
    }

    fn in_conflict(&mut self, stage: &StageId, files: &[String], check: Option<&Check>) {
        let section = self.conflict(stage, files, check);
        let files = files.to_vec();
        let others = self.others(stage, &files);
        if self.unmerged(stage, section, Outcome::Unmerged { files }) {
            let met = self.merge_met.entry(stage.clone()).or_default();
            met.extend(others);
        }
    }

    /// True if the stage's relay is to mend what stops the merge; otherwise the stage ends with `outcome`.
    fn unmerged(&mut self, stage: &StageId, section: PromptSection, outcome: Outcome) -> bool {
        self.conflicts.insert(stage.clone(), section);
        self.plan.unmerged(stage, outcome)
    }

    pub(super) fn retry(
        &mut self,
        at: Timestamp,
        stage: &StageId,
        attempt: u32,
        max: u32,
    ) -> Vec<Effect> {
        let Some(relay) = self.relays.get(stage) else {
            return Vec::new();
        };
        let Some(outcome) = relay.outcome() else {
            return Vec::new();
        };
        let failed = failed(outcome, relay);
        let section = failed_attempt(relay, failed.cause.clone(), attempt, max);
        let failures = self.failures.entry(stage.clone()).or_default();
        failures.push(failed);
        self.last_begun = Some(stage.clone());
        let paused = self.paused;
        self.of_relay(at, stage, |relay| {
            // Whatever it was when the relay ended.
            relay.wishes.paused = paused;
            relay.retry(at, section)
        })
    }

    /// Keeps a finished stage's result and knowledge.
    pub(super) fn keep_result(&mut self, stage: &StageId, files: &[String], undeclared: &[String]) {
        let Some(relay) = self.relays.get(stage) else {
            return;
        };
        let text = self.result_text(relay, files);
        if !relay.stage.part.knowledge_apart {
            self.shared.adopt(&relay.knowledge);
        }
        let result = StageResult {
            files: files.to_vec(),
            undeclared: undeclared.to_vec(),
            text,
        };
        self.results.insert(stage.clone(), result);
    }

    /// Cancels merges and worktrees in preparation: the run is being stopped.
    pub(super) fn cancel_worktree_tasks(&self) -> Vec<Effect> {
        let busy =
            |state: &StageState| matches!(state, StageState::Preparing | StageState::Merging);
        self.plan
            .states()
            .filter(|(_, state)| busy(state))
            .map(|(stage, _)| Effect::Stage {
                stage: stage.clone(),
                effect: RelayEffect::CancelTasks,
            })
            .collect()
    }
}
