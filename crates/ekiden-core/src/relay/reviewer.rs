//! An independent review: before a claim of completion counts, a fresh read-only session judges it.
//!
//! ```text
//! a claim, verified ─► the tree ─► a reviewer ─► the tree ─┬─► passed: complete
//!        ▲                                                 ├─► findings: the next session mends them
//!        └──────── look, verify again ◄── stopped, resumed ┴─► findings again, no verdict, or a tree that
//!                                                              changed meanwhile: a person is asked
//! ```
//!
//! The reviewer's session is one of the relay's: it has a number, counts, spends and waits like any other. It leaves
//! no handoff, so none of it becomes notes or knowledge. The session that made the claim is judged once, when the
//! verdict is there. The reviewer's answer is data. An ended run keeps no partial review: a resume looks at the tree,
//! verifies and asks again.

use super::backoff;
use super::{Next, NextAttempt, Phase, Prompt, Purpose, Relay, ReviewStep, Session, SessionEnd};
use crate::effect::RelayEffect;
use crate::ends::{EndCause, EndClass};
use crate::event::{AttemptEnded, Survey};
use crate::handoff::Status;
use crate::ids::AttemptNumber;
use crate::limits;
use crate::outcome::{Outcome, WaitCause};
use crate::prompt::{self, Finding, PromptSection, ReviewInput};
use crate::steering::StopRequest;
use crate::time::Timestamp;

#[derive(Debug, Clone, PartialEq)]
pub(super) struct Claim {
    /// The session that claims.
    end: Box<SessionEnd>,
    /// The reviewer's attempt that is about to begin, or in progress.
    next: NextAttempt,
    /// The tree as the reviewer found it.
    tree: String,
    /// How the last attempt ended.
    over: Option<Over>,
    findings: Option<Vec<Finding>>,
}

#[derive(Debug, Clone, PartialEq)]
struct Over {
    cause: EndCause,
    class: EndClass,
    /// Its findings; none if it reached no verdict.
    findings: Option<Vec<Finding>>,
}

impl Relay {
    /// The run would be complete with this session, and a reviewer has to judge it first.
    pub(super) fn wants_reviewer(
        &self,
        end: &SessionEnd,
        status: Option<&Status>,
        passed: Option<bool>,
    ) -> bool {
        if !self.is_reviewed() {
            return false;
        }
        let mut status = status.cloned();
        if let Some(mut list) = self.items.clone() {
            let had_item = list.in_hand.is_some();
            list.settle(passed, end.goes_on());
            status = list.status(status, had_item);
        }
        let outcome = self.outcome_after(passed, status, end.cause.clone(), None);
        outcome.is_some_and(|outcome| outcome.is_complete())
    }

    pub(super) fn is_reviewed(&self) -> bool {
        self.settings.reviewer.is_some() && !self.settings.no_review
    }

    pub(super) fn ask_reviewer(&mut self, at: Timestamp, end: Box<SessionEnd>) -> Vec<RelayEffect> {
        if let Some(request) = self.wishes.stop {
            return self.stopped(request, Next::Review(Some(end)));
        }
        let next = NextAttempt {
            purpose: Purpose::Review,
            ..self.fresh(self.unused())
        };
        if self.sessions_are_used() {
            return self.end(Outcome::SessionLimit, Next::Review(Some(end)));
        }
        self.claim = Some(Box::new(Claim {
            end,
            next,
            tree: String::new(),
            over: None,
            findings: None,
        }));
        self.admit(at, next)
    }

    /// The claim that needs no verdict any more, since the task has changed.
    pub(super) fn claim_of_old_task(&mut self, next: &NextAttempt) -> Option<Box<SessionEnd>> {
        let is_old = next.purpose == Purpose::Review && self.wishes.task_edited;
        let claim = self.claim.take_if(|_| is_old)?;
        self.count_reviewer(next);
        Some(claim.end)
    }

    /// A reviewer may begin: first looks at the tree that it will find.
    pub(super) fn look_before_reviewer(&mut self, next: NextAttempt) -> Vec<RelayEffect> {
        let Some(claim) = &mut self.claim else {
            return Vec::new();
        };
        claim.next = next;
        let after = Some(claim.end.clone());
        self.phase = Phase::Reviewing {
            after,
            step: ReviewStep::BeforeReviewer,
        };
        vec![RelayEffect::Publish, RelayEffect::Survey]
    }

    pub(super) fn before_reviewer(
        &mut self,
        at: Timestamp,
        end: Box<SessionEnd>,
        survey: &Result<Survey, String>,
    ) -> Vec<RelayEffect> {
        let Some(claim) = &mut self.claim else {
            return Vec::new();
        };
        let next = claim.next;
        if let Some(request) = self.wishes.stop {
            return self.stopped(request, Next::Attempt(next));
        }
        if self.wishes.paused {
            return self.hold_back(at, next);
        }
        let Ok(survey) = survey else {
            return self.no_verdict(prompt::NO_TREE.to_owned(), end);
        };
        let seen = self.seen.survey.as_ref().map(|seen| &seen.tree);
        if self.stage.verification.is_some() && seen != Some(&survey.tree) && !end.verified_again {
            return self.verify_again(at, end);
        }
        claim.tree.clone_from(&survey.tree);
        let check = self.last_check();
        let words = self.told.join("\n");
        let prompt = prompt::review_prompt(&ReviewInput {
            task: &self.stage.task,
            check: check.as_ref(),
            words: Some(words.as_str()).filter(|words| !words.is_empty()),
            diff: &survey.diff,
        });
        self.start_with(next, Prompt::Fresh(prompt))
    }

    /// The tree is not the one on which the claim was verified: a person edits while a reviewer waits. This
    /// happens once per claim, since the verification may itself write files.
    fn verify_again(&mut self, at: Timestamp, mut end: Box<SessionEnd>) -> Vec<RelayEffect> {
        if let Some(claim) = self.claim.take() {
            self.count_reviewer(&claim.next);
        }
        end.verified_again = true;
        self.review(at, Some(end), ReviewStep::Survey)
    }

    /// A reviewer's attempt is over. Whatever its answer, the tree is looked at first.
    pub(super) fn reviewer_ended(
        &mut self,
        session: &Session,
        ended: &AttemptEnded,
    ) -> Vec<RelayEffect> {
        self.charge_attempt(session, &ended.counters);
        // The last words of an agent without messages are its answer.
        let silent = !self.agent().kind.takes_messages();
        let words = ended.traces.last_words.as_ref().filter(|_| silent);
        let answer = session.answer.as_ref().or(words);
        let findings = answer.and_then(|answer| prompt::verdict(answer));
        let class = match self.class_of(ended) {
            EndClass::Fine | EndClass::TooLate => EndClass::Retry,
            class @ (EndClass::Left | EndClass::Retry | EndClass::Stop(_) | EndClass::Wait) => {
                class
            }
        };
        let again = self.again(session, ended, class);
        let attempt = session.attempt.id;
        let Some(claim) = &mut self.claim else {
            return Vec::new();
        };
        claim.next = again.afresh(again.id.conversation(&self.run, &self.stage.id));
        claim.over = Some(Over {
            cause: ended.cause.clone(),
            class,
            findings,
        });
        let (after, next) = (Some(claim.end.clone()), claim.next);
        let archive = RelayEffect::Archive { attempt };
        if let Some(request @ StopRequest::Now { .. }) = self.wishes.stop {
            let mut effects = self.stopped(request, Next::Attempt(next));
            effects.push(archive);
            return effects;
        }
        self.phase = Phase::Reviewing {
            after,
            step: ReviewStep::AfterReviewer,
        };
        vec![RelayEffect::Publish, RelayEffect::Survey, archive]
    }

    pub(super) fn after_reviewer(
        &mut self,
        at: Timestamp,
        end: Box<SessionEnd>,
        survey: &Result<Survey, String>,
    ) -> Vec<RelayEffect> {
        let Some(claim) = &mut self.claim else {
            return Vec::new();
        };
        let next = claim.next;
        let unseen = survey.is_err();
        let is_changed = survey
            .as_ref()
            .is_ok_and(|survey| survey.tree != claim.tree);
        let Some(over) = claim.over.take() else {
            return Vec::new();
        };
        let stop = self.wishes.stop;
        if let Some(request) = stop.filter(|_| unseen || over.findings.is_none()) {
            return self.stopped(request, Next::Attempt(next));
        }
        if unseen || is_changed {
            let session = next.id.session;
            let why = match is_changed {
                true => prompt::tree_changed(session),
                false => prompt::NO_TREE.to_owned(),
            };
            return self.no_verdict(why, end);
        }
        if over.findings.is_some() {
            claim.findings = over.findings;
            self.count_reviewer(&next);
            let passed = self.last_pass();
            return self.reviewed(at, Some(end), passed);
        }
        let given_up = next.failures >= limits::ATTEMPTS_MAX || self.is_out_of_budget(&next);
        let cause = over.cause;
        match over.class {
            EndClass::Wait => self.wait_for_limit(at, &cause, next),
            EndClass::Stop(_) => self.end(Outcome::AgentFailed { cause }, Next::Attempt(next)),
            EndClass::Left => self.stopped(StopRequest::Gently, Next::Attempt(next)),
            EndClass::Retry | EndClass::Fine | EndClass::TooLate => {
                if given_up {
                    self.no_verdict(prompt::no_verdict(next.id.session, &cause), end)
                } else if cause == EndCause::EngineLost {
                    self.admit(at, next)
                } else {
                    self.wait(at, backoff(next.failures), WaitCause::Failure, next)
                }
            }
        }
    }

    /// Without a verdict a claim does not count, but the work is not at fault: a person is asked.
    fn no_verdict(&mut self, question: String, end: Box<SessionEnd>) -> Vec<RelayEffect> {
        if let Some(claim) = self.claim.take() {
            self.count_reviewer(&claim.next);
        }
        self.end(Outcome::Blocked { question }, Next::Review(Some(end)))
    }

    /// The findings of the current claim's reviewer, once they are known.
    pub(super) fn take_findings(&mut self) -> Option<Vec<Finding>> {
        self.claim
            .take_if(|claim| claim.findings.is_some())?
            .findings
    }

    /// How the run ends, given a reviewer's findings: a session repairs the faults first, or a person
    /// decides.
    pub(super) fn without_faults(
        &mut self,
        outcome: Option<Outcome>,
        findings: Vec<Finding>,
    ) -> Option<Outcome> {
        let is_complete = outcome.as_ref().is_some_and(Outcome::is_complete);
        if findings.is_empty() || !is_complete {
            return outcome;
        }
        self.review_rounds += 1;
        let question = prompt::faults_left(&findings);
        self.tell(PromptSection::Findings(findings));
        if self.review_rounds > limits::REVIEW_ROUNDS_MAX {
            return Some(Outcome::Blocked { question });
        }
        let request = self.wishes.stop;
        request.map(|request| Outcome::Stopped { request })
    }

    /// An ended run keeps no partial review.
    pub(super) fn without_reviewer(&mut self, next: Next) -> Next {
        match (next, self.claim.take()) {
            (Next::Attempt(next), Some(claim)) if next.purpose == Purpose::Review => {
                self.count_reviewer(&claim.next);
                Next::Review(Some(claim.end))
            }
            (next, _) => next,
        }
    }

    /// A reviewer's session that began is over.
    fn count_reviewer(&mut self, next: &NextAttempt) {
        if next.id.attempt > AttemptNumber::FIRST {
            self.session_limit.over += 1;
            self.totals.sessions += 1;
        }
    }

    /// The findings of the reviewer whose attempt has just ended, if it reached a verdict.
    pub fn found(&self) -> Option<&[Finding]> {
        self.claim.as_ref()?.over.as_ref()?.findings.as_deref()
    }

    /// The verification's result for the claim.
    pub(super) fn last_pass(&self) -> Option<bool> {
        let check = self.seen.check.as_ref();
        check
            .filter(|_| self.stage.verification.is_some())
            .map(crate::event::Check::passed)
    }
}
