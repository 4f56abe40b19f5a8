//! What the prompts of stages say about other stages and earlier failures.

use std::collections::BTreeSet;

use crate::event::Check;
use crate::ids::StageId;
use crate::manifest::graph::Graph;
use crate::manifest::{Stage, Take, Verification};
use crate::outcome::Outcome;
use crate::plan::{StageEnd, StageState};
use crate::prompt::{
    FailedAttempt, FailureFacts, LastOutput, MergeSide, PromptSection, StageFacts, diagnosis,
    stage_result,
};
use crate::relay::{Relay, check_facts};
use crate::run::Run;
use crate::settings::FleetPlace;
use crate::text::shell_word;

impl Run {
    /// The prompt section for a stage whose changes conflict with those of others.
    pub(super) fn conflict(
        &self,
        stage: &StageId,
        files: &[String],
        check: Option<&Check>,
    ) -> PromptSection {
        let others = self.others(stage, files);
        let sides = [stage].into_iter().chain(&others);
        let sides = sides.filter_map(|stage| self.side(stage)).collect();
        let verification = self.merge_verification(stage);
        match verification.as_ref().zip(check) {
            None => PromptSection::Conflict {
                sides,
                files: files.to_vec(),
            },
            Some((verification, check)) => PromptSection::MergeBroke {
                sides,
                check: check_facts(verification, check),
            },
        }
    }

    /// The check that decides whether a stage's merge counts.
    pub fn merge_verification(&self, stage: &StageId) -> Option<Verification> {
        let met = self.merge_met.get(stage).into_iter().flatten();
        let done: BTreeSet<&StageId> = self.results.keys().collect();
        let manifest = &self.header.manifest;
        manifest.merge_verification(self.stage(stage)?, met, &done)
    }

    /// The diagnosis of a stage that failed for good, for a person; none for other stages.
    pub fn diagnosis(&self, stage: &StageId, tree: &str) -> Option<String> {
        let (outcome, may_be_skipped) = self.plan.state(stage)?.failure()?;
        let of_manifest = self.stage(stage)?;
        let relay = self.relays.get(stage);
        let own_check = relay.and_then(Relay::last_check);
        let output = self.conflicts.get(stage).and_then(PromptSection::output);
        let output = output.or(own_check.as_ref().map(LastOutput::Check));
        let mut attempts = self.failures_of(stage).to_vec();
        attempts.push(match relay {
            Some(relay) => failed(outcome, relay),
            None => FailedAttempt {
                cause: outcome.to_string(),
                notes: None,
            },
        });
        let asks = if let Outcome::Blocked { question } = outcome {
            Some(question.as_str())
        } else {
            None
        };
        let blocked: Vec<StageId> = self.plan.blocked_by(stage);
        let rules = self.header.manifest.plan.as_ref();
        let manifest = shell_word(rules.map_or("", |rules| &rules.file));
        let (run, fleet) = (&self.header.run, self.header.fleet.as_ref());
        let mut execute = format!("ekiden execute {manifest}");
        let mut merged = format!("ekiden/{run}");
        if let Some(FleetPlace { remote, queue, .. }) = fleet {
            let [remote, queue] = [remote, queue].map(|name| shell_word(name));
            execute += &format!(" --on fleet --remote {remote} --queue {queue}");
            merged = FleetPlace::merged(run);
        }
        Some(diagnosis(&FailureFacts {
            stage,
            name: &of_manifest.task_name,
            execute: &execute,
            attempts: &attempts,
            output,
            blocked: &blocked,
            left: &self.left(),
            tree: Some(tree).filter(|_| fleet.is_none()),
            merged: Some(merged.as_str()).filter(|_| self.has_worktrees()),
            is_skipped: may_be_skipped && blocked.is_empty(),
            asks,
            is_assumed: of_manifest.part.take == Take::Assume,
        }))
    }

    /// The stages that a new run has to carry out once it has the work of this one: those that are not done, and what they
    /// need that no validation confirms.
    fn left(&self) -> Vec<StageId> {
        let stages = &self.header().manifest.stages;
        let (mut needed, mut left) = (BTreeSet::new(), BTreeSet::new());
        let order = Graph::of(stages).order().unwrap_or_default();
        for stage in order.into_iter().rev().map(|at| &stages[at]) {
            let state = self.plan.state(&stage.id);
            let is_out = stage.part.take == Take::Skip
                || matches!(state, Some(StageState::Over(StageEnd::LeftOut { .. })));
            let is_done = stage.part.take == Take::Assume || self.plan.is_done(&stage.id);
            if is_out || is_done && !needed.contains(&stage.id) {
                continue;
            }
            needed.extend(stage.part.needs.iter().map(|need| &need.stage));
            if !is_done || stage.verification.is_none() {
                left.insert(&stage.id);
            }
        }
        let ids = stages.iter().map(|stage| &stage.id);
        ids.filter(|id| left.contains(id)).cloned().collect()
    }

    /// The tries of a stage that failed before its last one, wherever it works.
    fn failures_of(&self, stage: &StageId) -> &[FailedAttempt] {
        let apart = self.apart.get(stage);
        let failures = apart.map_or(&self.failures, |run| &run.failures);
        failures.get(stage).map_or(&[], Vec::as_slice)
    }

    /// Which try of a stage this is, wherever it works.
    pub fn tries(&self, stage: &StageId) -> u32 {
        let apart = self.apart.get(stage).map_or(0, |run| run.plan.tries(stage));
        self.plan.tries(stage).max(apart)
    }

    /// How the last attempt at a retried stage failed, in ekiden's words.
    pub fn last_failure(&self, stage: &StageId) -> Option<&str> {
        let last = self.failures_of(stage).last();
        last.map(|failed| failed.cause.as_str())
    }

    pub(super) fn result_text(&self, relay: &Relay, files: &[String]) -> String {
        let stage = &relay.stage;
        let check = relay.last_check();
        stage_result(&StageFacts {
            stage: &stage.id,
            name: &stage.task_name,
            files,
            check: check.as_ref(),
            notes: relay.last.as_ref().map(|last| &last.notes),
        })
    }

    fn side(&self, stage: &StageId) -> Option<MergeSide> {
        let Stage {
            task, verification, ..
        } = self.stage(stage)?;
        let result = match (self.results.get(stage), self.relays.get(stage)) {
            (Some(result), _) => result.text.clone(),
            (None, Some(relay)) => self.result_text(relay, &relay.changed()),
            (None, None) => String::new(),
        };
        let check = verification
            .as_ref()
            .map(Verification::in_lines)
            .unwrap_or_default();
        Some(MergeSide {
            stage: stage.clone(),
            goal: task.clone(),
            result,
            check,
        })
    }

    /// The stages whose changes this one meets only now: those that are done, that it does not build on and that
    /// were merged after its worktree was made. If some of them changed the files in question, only those.
    pub(super) fn others(&self, stage: &StageId, files: &[String]) -> Vec<StageId> {
        let known = self.plan.done_before(stage, usize::MAX);
        let in_tree = self.in_tree.get(stage);
        let is_beside = |other: &StageId| {
            let is_in_tree = in_tree.is_some_and(|stages| stages.contains(other));
            other != stage && !known.contains(other) && !is_in_tree
        };
        let is_named = |changed: &String| files.contains(changed);
        let (touching, others): (Vec<_>, Vec<_>) = self
            .results
            .iter()
            .filter(|(other, _)| is_beside(other))
            .partition(|(_, result)| result.files.iter().any(is_named));
        let named = if touching.is_empty() {
            others
        } else {
            touching
        };
        named.into_iter().map(|(other, _)| other.clone()).collect()
    }
}

/// The prompt section about the failed attempt before a retry.
pub(super) fn failed_attempt(
    relay: &Relay,
    cause: String,
    attempt: u32,
    max: u32,
) -> PromptSection {
    let survey = relay.seen.survey.as_ref();
    let has_passed = relay.seen.check.as_ref().is_some_and(Check::passed);
    PromptSection::Retry {
        attempt,
        max,
        cause,
        diff_stat: survey
            .map(|survey| survey.diff_stat.clone())
            .unwrap_or_default(),
        check: relay.last_check().filter(|_| !has_passed),
    }
}

pub(super) fn failed(outcome: &Outcome, relay: &Relay) -> FailedAttempt {
    let check = relay.seen.check.as_ref().filter(|check| !check.passed());
    FailedAttempt {
        cause: match check {
            Some(check) => format!("{outcome}; the check {check}"),
            None => outcome.to_string(),
        },
        notes: relay.last.as_ref().map(|last| last.notes.clone()),
    }
}
