//! What stages are told of each other, and of what went wrong before.

use crate::event::Check;
use crate::ids::StageId;
use crate::knowledge::{Fact, Knowledge};
use crate::manifest::{Stage, Verification};
use crate::outcome::Outcome;
use crate::prompt::{
    CheckFacts, FailureFacts, MergeSide, Notes, Slot, StageFacts, TryFacts, diagnosis, stage_result,
};
use crate::relay::Relay;
use crate::run::Run;

/// A try at a stage that failed.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct FailedTry {
    cause: String,
    notes: Option<Notes>,
}

impl FailedTry {
    pub(super) fn of(relay: &Relay) -> Self {
        let cause = relay.outcome().map(|outcome| cause(outcome, relay)).unwrap_or_default();
        Self { cause, notes: relay.last().map(|last| last.notes.clone()) }
    }
}

impl Run {
    /// What a stage is told whose changes do not go together with those of others.
    pub(super) fn clash(&self, stage: &StageId, files: &[String], check: Option<&Check>) -> Slot {
        let mut sides: Vec<MergeSide> = self.side(stage).into_iter().collect();
        sides.extend(self.others(stage, files).iter().filter_map(|other| self.side(other)));
        match check {
            None => Slot::Conflict { sides, files: files.to_vec() },
            Some(check) => {
                let verification = self.stage(stage).and_then(|stage| stage.verification.as_ref());
                Slot::MergeBroke { sides, check: check_facts(verification, check) }
            }
        }
    }

    /// What a person is told of a stage that failed for good; nothing of others.
    #[must_use]
    pub fn diagnosis(&self, stage: &StageId, tree: &str) -> Option<String> {
        let (outcome, may_be_skipped) = self.plan.state(stage)?.failure()?;
        let of_manifest = self.stage(stage)?;
        let relay = self.relays.get(stage);
        let check = relay.and_then(last_check);
        let mut tries: Vec<(String, Option<Notes>)> = Vec::new();
        tries.extend(
            self.tries.get(stage).into_iter().flatten().map(|one| (one.cause.clone(), one.notes.clone())),
        );
        tries.push(match relay {
            Some(relay) => (cause(outcome, relay), relay.last().map(|last| last.notes.clone())),
            None => (words(outcome), None),
        });
        let tries: Vec<TryFacts<'_>> =
            tries.iter().map(|(cause, notes)| TryFacts { cause, notes: notes.as_ref() }).collect();
        let blocked: Vec<StageId> = self.plan.blocked_by(stage);
        Some(diagnosis(&FailureFacts {
            stage,
            name: &of_manifest.task_name,
            manifest: self.header.manifest.plan.as_ref().map(|rules| rules.file.as_str()).unwrap_or_default(),
            tries: &tries,
            check: check.as_ref(),
            blocked: &blocked,
            tree,
            is_skipped: may_be_skipped && blocked.is_empty(),
        }))
    }

    /// How the last try of a stage failed that is being tried again, in ekiden's words.
    #[must_use]
    pub fn last_failure(&self, stage: &StageId) -> Option<&str> {
        self.tries.get(stage)?.last().map(|failed| failed.cause.as_str())
    }

    /// What a stage that is done hands over.
    pub(super) fn result_text(&self, relay: &Relay, files: &[String]) -> String {
        let stage = relay.stage();
        let check = last_check(relay);
        let facts = learned(relay.knowledge(), &self.shared);
        stage_result(&StageFacts {
            stage: &stage.id,
            name: &stage.task_name,
            files,
            check: check.as_ref().map(|check| (check.command.as_str(), check.outcome.as_str())),
            notes: relay.last().map(|last| &last.notes),
            facts: &facts,
        })
    }

    fn side(&self, stage: &StageId) -> Option<MergeSide> {
        let Stage { task, verification, .. } = self.stage(stage)?;
        let result = match (self.results.get(stage), self.relays.get(stage)) {
            (Some(result), _) => result.text.clone(),
            (None, Some(relay)) => self.result_text(relay, &[]),
            (None, None) => String::new(),
        };
        let check = verification.as_ref().map(Verification::told).unwrap_or_default();
        Some(MergeSide { stage: stage.clone(), goal: task.clone(), result, check })
    }

    /// The stages whose changes this one meets only now: done, and none that it builds on. Of those that
    /// changed the files in question, if there are such.
    fn others(&self, stage: &StageId, files: &[String]) -> Vec<StageId> {
        let known = self.plan.done_before(stage, usize::MAX);
        let beside: Vec<&StageId> =
            self.results.keys().filter(|other| *other != stage && !known.contains(other)).collect();
        let touches = |other: &&&StageId| {
            let changed = self.results.get(**other).map(|result| result.files.as_slice()).unwrap_or_default();
            // Git names files from the root of the repository, results from the work dir.
            changed.iter().any(|file| files.iter().any(|conflict| conflict.ends_with(file.as_str())))
        };
        let touching: Vec<StageId> = beside.iter().filter(touches).map(|other| (*other).clone()).collect();
        if touching.is_empty() { beside.into_iter().cloned().collect() } else { touching }
    }
}

/// What the next try of a stage is told of the last.
pub(super) fn failed_try(relay: &Relay, attempt: u32, max: u32) -> Slot {
    Slot::Retry {
        attempt,
        max,
        cause: relay.outcome().map(|outcome| cause(outcome, relay)).unwrap_or_default(),
        diff_stat: relay.survey().map(|survey| survey.diff_stat.clone()).unwrap_or_default(),
        check: last_check(relay),
    }
}

fn last_check(relay: &Relay) -> Option<CheckFacts> {
    let check = relay.check()?;
    Some(check_facts(relay.stage().verification.as_ref(), check))
}

fn check_facts(verification: Option<&Verification>, check: &Check) -> CheckFacts {
    CheckFacts {
        command: verification.map(Verification::told_in_line).unwrap_or_default(),
        outcome: check.to_string(),
        tail: check.tail.clone(),
    }
}

/// Facts that a stage has found itself.
fn learned(knowledge: &Knowledge, shared: &Knowledge) -> Vec<Fact> {
    knowledge.core.iter().filter(|fact| !shared.core.contains(fact)).cloned().collect()
}

fn cause(outcome: &Outcome, relay: &Relay) -> String {
    let words = words(outcome);
    match relay.check().filter(|check| !check.passed()) {
        Some(check) => format!("{words}; the check {check}"),
        None => words,
    }
}

/// How a stage failed, in ekiden's words.
fn words(outcome: &Outcome) -> String {
    match outcome {
        Outcome::Complete { .. } => "it was complete".to_owned(),
        Outcome::Blocked { .. } => "it needs a person".to_owned(),
        Outcome::SessionLimit => "all its sessions are used".to_owned(),
        Outcome::Stopped { .. } => "it was stopped".to_owned(),
        Outcome::LimitTooFar { .. } | Outcome::RateLimited { .. } => "a usage limit was reached".to_owned(),
        Outcome::BudgetSpent { .. } => "the budget is spent".to_owned(),
        Outcome::WindowTooFull { .. } => "the window was full before the work began".to_owned(),
        Outcome::AgentFailed { cause } => format!("the agent cannot work: {cause}"),
        Outcome::Stuck { .. } => "its handoffs repeated and nothing changed".to_owned(),
        Outcome::Stalled { sessions } => format!("nothing changed in {sessions} sessions in a row"),
        Outcome::Denied { .. } => "the agent may not do what it needs".to_owned(),
        Outcome::TooManyCrashes { cause } => format!("too many sessions in a row crashed, at last {cause}"),
        Outcome::NoGround { why } => format!("it has no place to work: {why}"),
        Outcome::NotMerged { why } => format!("it cannot be merged: {why}"),
        Outcome::Unmerged { .. } => "it does not go together with other stages".to_owned(),
        Outcome::NotDone { why } => format!("it was taken for done and is not: {why}"),
        Outcome::StagesFailed { .. } => "stages of it failed".to_owned(),
    }
}
