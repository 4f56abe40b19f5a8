//! How a plan reacts to what it hears: from people, from workers, and about what it asked workers for.

use ekiden_core::ids::{MessageId, StageId};
use ekiden_core::outcome::Outcome;
use ekiden_core::plan::PlanDecision;
use ekiden_core::steering::{Steered, Steering, StopRequest};
use ekiden_core::text::in_full;
use ekiden_core::time::Timestamp;
use temporalio_sdk::ActivityExecutionError;

use super::{Fleet, HEARD_MAX, KEPT_CHARS_MAX, Step};
use crate::at_work;
use crate::order::{MergeDone, PlanSignal, bounded};
use crate::shares::Spent;

impl Fleet {
    /// Takes in a message. One that was heard before counts once.
    pub(super) fn hear(&mut self, now: Timestamp, signal: PlanSignal) {
        match signal {
            PlanSignal::Steered { steered } if self.state.heard.contains(&steered.message) => {}
            PlanSignal::Steered { steered } => self.steered(steered),
            PlanSignal::Limited { limit } => self.state.limits.note(limit, now),
            PlanSignal::Resumed { resumed } => {
                self.resumes += 1;
                // A pause outlives a follower that was killed.
                self.state.is_paused &= self.plan.ended().is_none();
                self.state.shares.change(&resumed.limits.bounds);
                let id = format!("resume-{}-{}", now.0, self.resumes);
                if let Ok(message) = MessageId::try_from(id) {
                    let limits = Box::new(resumed.limits);
                    self.state.messages.take(Steered {
                        message,
                        from: None,
                        steering: Steering::ChangeLimits(limits),
                    });
                }
                let answered = resumed.answer.as_ref().map(|answer| &answer.stage);
                // An answer that comes too late would be taken for one to the stage's next question.
                let asks = answered.is_some_and(|stage| self.plan.asks(stage));
                self.plan.resume(answered);
                let answer = resumed.answer.filter(|_| asks);
                let answer = answer.map(|answer| (answer.stage, answer.words));
                self.state.answers.extend(answer);
            }
        }
    }

    fn steered(&mut self, steered: Steered) {
        let heard = &mut self.state.heard;
        heard.push(steered.message.clone());
        heard.drain(..heard.len().saturating_sub(HEARD_MAX));
        self.state.messages.take(steered.clone());
        match steered.steering {
            stop @ Steering::Stop { .. } => {
                stop.stop()
                    .into_iter()
                    .for_each(|request| self.plan.stop(request));
            }
            // The plan gets it before it decides again.
            Steering::Pause => self.state.is_paused = true,
            Steering::Unpause => self.state.is_paused = false,
            Steering::Answer { stage, words } => {
                if self.plan.answered(&stage) {
                    self.state.answers.insert(stage, words);
                }
            }
            Steering::ChangeLimits(limits) => self.state.shares.change(&limits.bounds),
            // The stages' own engines get them.
            Steering::HandOff | Steering::Instruct { .. } => {}
        }
    }

    /// A worker is no longer on a stage. A stage that ran short of budget has not ended while others may
    /// give some back.
    fn settle(
        &mut self,
        stage: &StageId,
        outcome: &Outcome,
        spent: Option<&Spent>,
    ) -> Option<PlanDecision> {
        self.at_work.remove(stage);
        let mut ran_short = false;
        if let Outcome::BudgetSpent { agents, .. } = outcome {
            let spent = spent.cloned().unwrap_or_default();
            ran_short = self.state.shares.ran_short(stage, &spent, agents);
        }
        self.state.shares.settle(stage, spent);
        if ran_short && !self.plan.is_stopping() {
            self.state.short.insert(stage.clone());
            return None;
        }
        self.plan.stage_ended(stage, outcome)
    }

    /// The next stage that waits for budget and can continue, or that has ended because nobody is left to
    /// give any.
    pub(super) fn next_short(&mut self, can_begin: bool) -> Option<PlanDecision> {
        let can = |stage: &&StageId| self.state.shares.has_more(stage);
        let more = self.state.short.iter().find(can).cloned();
        let is_halting = self.plan.is_halting();
        if let Some(stage) = more.filter(|_| !is_halting) {
            return can_begin.then(|| {
                self.state.short.remove(&stage);
                PlanDecision::Start(stage)
            });
        }
        if self.at_work.is_empty() || is_halting {
            while let Some(stage) = self.state.short.pop_first() {
                let (spent, budget, agents) = self.state.shares.spent(&stage);
                let outcome = Outcome::BudgetSpent {
                    spent,
                    budget,
                    agents,
                };
                self.plan.stage_ended(&stage, &outcome);
            }
        }
        None
    }

    pub(super) fn take(&mut self, step: Step) -> Option<PlanDecision> {
        match step {
            Step::Signalled => None,
            Step::Abandoned { resumes } => {
                self.is_abandoned |= resumes == self.resumes;
                None
            }
            // A person cancelled the workflow on the server's own page. That is final.
            Step::Cancelled => {
                self.is_abandoned = true;
                self.plan.stop(StopRequest::Gently);
                None
            }
            Step::Stage(stage, done) => {
                let mut spent = None;
                let outcome = match done {
                    Ok(done) => {
                        let commit = done.commit.map(|commit| (stage.clone(), commit));
                        self.state.made.extend(commit);
                        spent = Some(done.spent);
                        done.outcome
                    }
                    // No worker has it: a worker that does reports its spending. What a dead worker spent
                    // is unknown.
                    Err(ActivityExecutionError::Cancelled(_)) => {
                        spent = Some(self.state.shares.charged(&stage));
                        Outcome::Stopped {
                            request: StopRequest::Gently,
                        }
                    }
                    // A worker that died is not replaced any more. Its last report counts.
                    Err(error) if self.plan.is_stopping() => {
                        spent = error.failure().and_then(at_work::last_beat);
                        Outcome::Stopped {
                            request: StopRequest::Gently,
                        }
                    }
                    Err(error) => Outcome::NoWorktree {
                        why: in_full(&error),
                        on_worker: true,
                    },
                };
                let outcome = bounded(outcome, KEPT_CHARS_MAX);
                self.settle(&stage, &outcome, spent.as_ref())
            }
            Step::Merge(stage, done) => {
                self.is_merging = false;
                match done {
                    Ok(MergeDone::Merged { commit }) => {
                        self.state.merged(&stage, commit);
                        self.plan.merged(&stage);
                    }
                    Ok(MergeDone::Conflict(merge_failure)) => {
                        let files = merge_failure.files.clone();
                        self.plan.unmerged(&stage, Outcome::Unmerged { files });
                        self.state.not_merged(stage, merge_failure);
                    }
                    Ok(MergeDone::Refused { why }) => self.plan.not_merged(&stage, why),
                    Err(ActivityExecutionError::Cancelled(_)) => {
                        self.plan.merge_cancelled(&stage);
                    }
                    Err(_) if self.plan.is_stopping() => self.plan.merge_cancelled(&stage),
                    Err(error) => self.plan.not_merged(&stage, in_full(&error)),
                }
                None
            }
        }
    }
}
