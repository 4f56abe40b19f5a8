//! After an attempt, and before the first: take over the handoff, look at the tree, verify, decide what is
//! next.

use super::judging::Crash;
use super::{
    Baseline, Next, NextAttempt, Phase, Purpose, Relay, ReviewStep, Reviewed, Session, SessionEnd,
    backoff,
};
use crate::bounds::OnRateLimit;
use crate::effect::{RelayEffect, StartMode};
use crate::ends::{EndCause, EndClass};
use crate::event::{AttemptEnded, Check, CheckOutcome, Commit, Survey};
use crate::handoff::{self, Handoff, Status};
use crate::judge::{Judgement, Warning};
use crate::limits;
use crate::notice;
use crate::outcome::{Outcome, WaitCause};
use crate::prompt::PromptSection;
use crate::steering::StopRequest;
use crate::time::Timestamp;

impl Relay {
    pub(super) fn attempt_ended(
        &mut self,
        at: Timestamp,
        session: &Session,
        ended: &AttemptEnded,
    ) -> Vec<RelayEffect> {
        if session.attempt.purpose == Purpose::Review {
            return self.reviewer_ended(session, ended);
        }
        self.charge_attempt(session, &ended.counters);
        self.traces.add(&ended.traces);
        if let Some(list) = &mut self.items {
            list.attempt_over(&ended.counters);
        }
        let inspection = self.inspect(&ended.files);
        let mut effects = match handoff::accept(&ended.files, &inspection) {
            // A question needs a person, however the session ended.
            Err(left) if left.status == Status::InProgress => {
                self.no_handoff(at, session, ended, left)
            }
            handoff => {
                if let Some(ordered_at) = session.ordered_at {
                    let cost = ended.counters.spend.since(ordered_at);
                    self.handoff_spend = self.handoff_spend.at_least(cost);
                }
                self.session_over(at, session, ended, handoff)
            }
        };
        let attempt = session.attempt.id;
        effects.push(RelayEffect::Archive { attempt });
        effects
    }

    /// The attempt left no valid handoff: try again, wait, give up, or rescue.
    fn no_handoff(
        &mut self,
        at: Timestamp,
        session: &Session,
        ended: &AttemptEnded,
        left: Box<Handoff>,
    ) -> Vec<RelayEffect> {
        let class = self.class_of(ended);
        let next = self.again(session, ended, class);
        let given_up = class == EndClass::Retry && next.failures >= limits::ATTEMPTS_MAX;
        // A new session with this prompt would repeat the work: a rescue reports it instead.
        let is_cut_off = session.is_late() && next.mode == StartMode::Fresh;
        if let Some(request) = self.wishes.stop.filter(|_| !given_up && !is_cut_off) {
            return self.stopped(request, Next::Attempt(next));
        }
        if let Some(outcome) = session.window_too_full() {
            return self.end(outcome, Next::Attempt(next));
        }
        let is_missing = session.never_ran(&ended.cause);
        if next.purpose.is_work() && self.gives_way(at, &ended.cause, is_missing, &next) {
            // The other agent would do that work again.
            let has_worked = ended.counters.tool_calls > 0 || session.is_late();
            if has_worked || self.is_out_of_budget(&next) {
                return self.session_over(at, session, ended, Err(left));
            }
            let waited = next.waited_through(at, &ended.cause);
            if waited <= self.settings.wait_max {
                return self.admit(at, self.by_another(NextAttempt { waited, ..next }));
            }
        }
        match class {
            EndClass::Wait | EndClass::Retry if is_cut_off || self.is_out_of_budget(&next) => {
                self.session_over(at, session, ended, Err(left))
            }
            EndClass::Wait => self.wait_for_limit(at, &ended.cause, next),
            EndClass::Retry if ended.cause == EndCause::EngineLost => self.admit(at, next),
            // No process at all: something is wrong with the program or the disk, and waiting fixes neither.
            EndClass::Retry if is_missing => self.agent_failed(ended, next),
            EndClass::Retry if !given_up => {
                let pause = backoff(self.crashes_in_a_row + next.failures);
                self.wait(at, pause, WaitCause::Failure, next)
            }
            // There is no work for a rescue to report.
            EndClass::Retry if matches!(ended.cause, EndCause::NeverStarted(_)) => {
                self.agent_failed(ended, next)
            }
            EndClass::Stop(_) => self.agent_failed(ended, next),
            EndClass::Left => self.stopped(StopRequest::Gently, Next::Attempt(next)),
            EndClass::Fine | EndClass::Retry | EndClass::TooLate => {
                self.session_over(at, session, ended, Err(left))
            }
        }
    }

    fn agent_failed(&mut self, ended: &AttemptEnded, next: NextAttempt) -> Vec<RelayEffect> {
        let cause = ended.cause.clone();
        self.end(Outcome::AgentFailed { cause }, Next::Attempt(next))
    }

    pub(super) fn wait_for_limit(
        &mut self,
        at: Timestamp,
        cause: &EndCause,
        mut next: NextAttempt,
    ) -> Vec<RelayEffect> {
        let limited = cause.is_limit();
        let length = cause.wait(at, next.waited);
        let until = at + length;
        if limited && self.settings.bounds.on_rate_limit == OnRateLimit::Stop {
            return self.end(Outcome::RateLimited { until }, Next::Attempt(next));
        }
        next.waited.0 = next.waited.0.saturating_add(length.0);
        if next.waited > self.settings.wait_max {
            let cause = cause.clone();
            let outcome = match limited {
                true => Outcome::LimitTooFar { until },
                false => Outcome::AgentFailed { cause },
            };
            return self.end(outcome, Next::Attempt(next));
        }
        let why = match limited {
            true => WaitCause::UsageLimit,
            false => WaitCause::Failure,
        };
        self.wait(at, length, why, next)
    }

    /// The session is over, with a handoff or without.
    fn session_over(
        &mut self,
        at: Timestamp,
        session: &Session,
        ended: &AttemptEnded,
        handoff: Result<Handoff, Box<Handoff>>,
    ) -> Vec<RelayEffect> {
        let attempt = session.attempt.id;
        self.session_limit.over += 1;
        self.totals.sessions += 1;
        let is_valid = handoff.is_ok();
        self.sections
            .retain(|section| !is_valid && section.stands());
        if is_valid {
            self.forget_retry();
        }
        let left = handoff.as_ref().unwrap_or_else(|rest| rest);
        let (number, date) = (attempt.session.get(), at.date());
        let facts_added = self.knowledge.merge(&left.knowledge, number, &date);
        if let Some(list) = &mut self.items {
            let edit = self.traces.last_edit.as_deref();
            list.session_over(at, session, ended, left, edit);
        }
        let figures = self.settings.agent.kind.takes_messages();
        let crash = match &handoff {
            Ok(_) => Crash::No,
            Err(rest) => Crash::of(ended, self.class_of(ended), figures || rest.has_words()),
        };
        let traces = std::mem::take(&mut self.traces);
        let did_nothing = crash == Crash::Yes && ended.cause == EndCause::Completed;
        let end = Box::new(SessionEnd {
            attempt,
            handoff,
            cause: match did_nothing {
                true => EndCause::NothingDone,
                false => ended.cause.clone(),
            },
            unchanged: traces.last_edit.is_none(),
            traces,
            crash,
            is_late: session.is_late(),
            compacted: session.is_compacted(),
            facts_added,
            committed: false,
            surveyed: false,
            verified_again: false,
        });
        match self.wishes.stop {
            Some(request @ StopRequest::Now { .. }) => {
                self.stopped(request, Next::Review(Some(end)))
            }
            Some(StopRequest::Gently) | None => self.review(at, Some(end), ReviewStep::Commit),
        }
    }

    /// Looks at the project, from this step on. The commit comes first, so that the committed tree is
    /// surveyed and verified.
    pub(super) fn review(
        &mut self,
        at: Timestamp,
        after: Reviewed,
        from: ReviewStep,
    ) -> Vec<RelayEffect> {
        let commits = self.commits && from == ReviewStep::Commit;
        let uncommitted = after.as_ref().filter(|end| commits && !end.committed);
        let (step, effect) = if let Some(end) = uncommitted {
            let session = end.attempt.session;
            (ReviewStep::Commit, RelayEffect::Commit { session })
        } else if self.surveys && from != ReviewStep::Verification {
            (ReviewStep::Survey, RelayEffect::Survey)
        } else if self.stage.verification.is_some() {
            (ReviewStep::Verification, RelayEffect::Verify)
        } else {
            return self.reviewed(at, after, None);
        };
        self.phase = Phase::Reviewing { after, step };
        vec![RelayEffect::Publish, effect]
    }

    /// If a commit was cancelled, the engine that resumes the run makes it.
    pub(super) fn committed(&mut self, at: Timestamp, commit: &Commit) -> Vec<RelayEffect> {
        let Some(Some(mut end)) = self.awaited(ReviewStep::Commit) else {
            return Vec::new();
        };
        let cancelled = *commit == Commit::Cancelled;
        self.seen.commit = Some(commit.clone());
        let section = match commit {
            Commit::Elsewhere { .. } => Some(PromptSection::OtherBranch),
            Commit::Refused { tail } => Some(PromptSection::HookRefused { tail: tail.clone() }),
            Commit::Made { .. }
            | Commit::Nothing { .. }
            | Commit::Failed { .. }
            | Commit::Cancelled => None,
        };
        self.sections.extend(section);
        let request = self.wishes.stop;
        let stops = request.filter(|request| cancelled || *request != StopRequest::Gently);
        end.committed = !cancelled || stops.is_none();
        match stops {
            Some(request) => self.stopped(request, Next::Review(Some(end))),
            None => self.review(at, Some(end), ReviewStep::Survey),
        }
    }

    pub(super) fn surveyed(
        &mut self,
        at: Timestamp,
        survey: &Result<Survey, String>,
    ) -> Vec<RelayEffect> {
        if let Some(Some(end)) = self.awaited(ReviewStep::BeforeReviewer) {
            return self.before_reviewer(at, end, survey);
        }
        if let Some(Some(end)) = self.awaited(ReviewStep::AfterReviewer) {
            return self.after_reviewer(at, end, survey);
        }
        let Some(mut after) = self.awaited(ReviewStep::Survey) else {
            return Vec::new();
        };
        let request = self.wishes.stop;
        let cancelled = survey.is_err() && request.is_some();
        if !cancelled {
            self.take_survey(survey.as_ref().ok(), after.as_deref_mut());
        }
        let at_once = cancelled || after.is_none();
        match request.filter(|request| at_once || *request != StopRequest::Gently) {
            Some(request) => self.stopped(request, Next::Review(after)),
            None => self.review(at, after, ReviewStep::Verification),
        }
    }

    pub(super) fn verified(&mut self, at: Timestamp, check: &Check) -> Vec<RelayEffect> {
        let Some(after) = self.awaited(ReviewStep::Verification) else {
            return Vec::new();
        };
        let cancelled = check.outcome == CheckOutcome::Cancelled;
        let begins_to_pass = check.passed() && self.last_pass() != Some(true);
        if !cancelled {
            self.seen.check = Some(check.clone());
        }
        let request = self.wishes.stop;
        if let Some(request) = request.filter(|_| cancelled || after.is_none()) {
            return self.stopped(request, Next::Review(after));
        }
        if after.is_none() {
            // A stage may be there to install it; a single relay would work for nothing.
            let begins = self.member.is_none() && self.totals.sessions == 0;
            if let Some(outcome) = no_check(check).filter(|_| begins) {
                return self.end(outcome, Next::Review(None));
            }
            if self.seen.baseline == Baseline::Unknown {
                self.seen.baseline = Baseline::of(&check.outcome);
            }
            if begins_to_pass && !self.claim_needed() && !self.has_more_to_do() {
                let next = Next::Attempt(self.fresh(self.unused()));
                return self.end(Outcome::Complete { verified: true }, next);
            }
        }
        self.reviewed(at, after, Some(check.passed()))
    }

    /// The session after which this step happens, if the relay waits for the step. Any other outcome is void.
    fn awaited(&self, awaited: ReviewStep) -> Option<Reviewed> {
        let Phase::Reviewing { after, step } = &self.phase else {
            return None;
        };
        (*step == awaited).then(|| after.clone())
    }

    /// Everything is known: end the run, or start the next session.
    pub(super) fn reviewed(
        &mut self,
        at: Timestamp,
        after: Reviewed,
        passed: Option<bool>,
    ) -> Vec<RelayEffect> {
        let Some(mut end) = after else {
            return self.begin_work(at, passed);
        };
        let status = end.status();
        let findings = match self.take_findings() {
            Some(findings) => findings,
            None if self.wants_reviewer(&end, status.as_ref(), passed) => {
                return self.ask_reviewer(at, end);
            }
            None => Vec::new(),
        };
        let next = self.unused();
        let empty = self.count_crash(&mut end);
        let cause = end.cause.clone();
        if let Some(rules) = denied_in_vain(&end, status.as_ref(), passed, self.wishes.stop) {
            if end.handoff.is_ok() {
                self.remember(&end);
            }
            let next = Next::Attempt(self.fresh(next));
            return self.end(Outcome::Denied { rules }, next);
        }
        let mut judged = self.judge(&end);
        let status = self.settle_items(&end, status, passed, &mut judged);
        self.remember(&end);
        let claimed = status == Some(Status::Complete);
        if claimed && passed == Some(false) {
            self.veto();
        }
        let outcome = self.outcome_after(passed, status, cause, judged.standstill.take());
        let outcome = self.without_faults(outcome, findings);
        let confirms = claimed || outcome.as_ref().is_some_and(Outcome::is_complete);
        let asks = matches!(outcome, Some(Outcome::Blocked { .. }));
        if asks || confirms && passed != Some(false) {
            // The session was useful if it found that all is done, or that a person must decide.
            let is_idle = |warning: &Warning| matches!(warning, Warning::Idle { .. });
            judged.warnings.retain(|warning| !is_idle(warning));
        }
        // The run's end has its own notice.
        let repeated = judged.warnings.iter().find_map(notice::of_warning);
        let repeated = self.notify(repeated.filter(|_| outcome.is_none()));
        let mut effects = self.warnings(judged, passed == Some(true) && confirms);
        effects.extend(repeated);
        effects.extend(match outcome {
            Some(outcome) => {
                let next = Next::Attempt(self.fresh(next));
                self.end(outcome, next)
            }
            None => self.start_next(at, next, empty),
        });
        effects
    }

    /// How the run ends with this session, if it does. A question to a person takes precedence over a pass: a
    /// blocked run can continue, and a complete one would never show the question.
    pub(super) fn outcome_after(
        &self,
        passed: Option<bool>,
        status: Option<Status>,
        cause: EndCause,
        standstill: Option<Outcome>,
    ) -> Option<Outcome> {
        let (passed, status) = self.of_this_task(passed, status);
        let claimed = status == Some(Status::Complete);
        match (passed, status, self.wishes.stop) {
            (_, Some(Status::Blocked { question }), _) => Some(Outcome::Blocked { question }),
            (Some(true), _, _) if claimed || !self.claim_needed() => {
                Some(Outcome::Complete { verified: true })
            }
            (None, _, _) if claimed => Some(Outcome::Complete { verified: false }),
            (_, _, Some(request)) => Some(Outcome::Stopped { request }),
            _ if self.crashes_in_a_row >= limits::CRASHES_IN_A_ROW_MAX => {
                Some(Outcome::TooManyCrashes { cause })
            }
            // The session knew that the program is missing, and still claims to be done. The next would do the same.
            _ if claimed => {
                let check = self.seen.check.as_ref();
                check.and_then(no_check).or(standstill)
            }
            _ => standstill,
        }
    }

    /// A pass alone does not end the run.
    pub(super) fn claim_needed(&self) -> bool {
        let fails = self.seen.baseline == Baseline::Fails;
        self.stage.claim_needed || !fails || self.items.is_some()
    }

    /// Updates the task's status from the list, if the relay works through one.
    fn settle_items(
        &mut self,
        end: &SessionEnd,
        said: Option<Status>,
        passed: Option<bool>,
        judged: &mut Judgement,
    ) -> Option<Status> {
        let Some(list) = &mut self.items else {
            return said;
        };
        let had_item = list.in_hand.is_some();
        if let Some(item) = list.settle(passed, end.goes_on()) {
            judged.warnings.push(Warning::ItemSetAside {
                session: end.attempt.session,
                item: item.text.clone(),
                tries: item.tries,
            });
        }
        list.status(said, had_item)
    }

    pub(super) fn veto(&mut self) {
        if let (Some(verification), Some(check)) = (&self.stage.verification, &self.seen.check) {
            self.sections.push(PromptSection::Veto {
                check: verification.in_one_line(),
                tail: check.tail.clone(),
            });
        }
    }

    /// What follows from an end. An agent that ends at once and did nothing is broken, whatever it reports:
    /// otherwise it would use up all sessions within seconds. An agent without figures may have worked
    /// anyway; in that case the tree decides, once it was surveyed.
    pub(super) fn class_of(&self, ended: &AttemptEnded) -> EndClass {
        let counters = &ended.counters;
        let did_nothing =
            counters.tool_calls == 0 && counters.usage_tokens == 0 && ended.was_short();
        let known = self.agent().kind.takes_messages();
        let nothing = ended.cause == EndCause::Completed && did_nothing && known;
        if nothing {
            EndClass::Retry
        } else {
            ended.cause.class()
        }
    }
}

/// The end of a relay whose verification lacks its program.
fn no_check(check: &Check) -> Option<Outcome> {
    let CheckOutcome::NoProgram { program } = &check.outcome else {
        return None;
    };
    let program = program.clone();
    Some(Outcome::NoCheck { program })
}

/// The rules to add, if the agent's permissions left a session nothing to do. More sessions would be refused
/// the same way. A claim or a question takes precedence, and a run that is being stopped ends as requested.
fn denied_in_vain(
    end: &SessionEnd,
    status: Option<&Status>,
    passed: Option<bool>,
    stop: Option<StopRequest>,
) -> Option<Vec<String>> {
    let rules = &end.traces.denied;
    let goes_on =
        matches!(status, None | Some(Status::InProgress)) && passed != Some(true) && stop.is_none();
    (goes_on && end.unchanged && !rules.is_empty()).then(|| rules.clone())
}
