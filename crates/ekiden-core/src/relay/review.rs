//! After an attempt: take what it left, look at the tree, verify, decide what is next.

use crate::bounds::OnRateLimit;
use crate::effect::RelayEffect;
use crate::ends::{EndCause, EndClass};
use crate::event::{AttemptEnded, Check, CheckOutcome, Commit, StopRequest, Survey, Traces};
use crate::handoff::{self, Handoff, Status};
use crate::judge::Standstill;
use crate::limits;
use crate::manifest::Verification;
use crate::outcome::Outcome;
use crate::prompt::{self, CheckFacts, Notes, RescueFacts, Slot};
use crate::relay::judging::Crash;
use crate::relay::{
    Baseline, HANDOFF_DIR, LastSession, Looking, Next, NextAttempt, Phase, Relay, Session, SessionEnd,
    WaitCause, backoff,
};
use crate::time::Timestamp;

/// Around which session something was looked at.
enum Looked {
    /// Before session 1.
    Before,
    /// After this one.
    After(Box<SessionEnd>),
}

impl Relay {
    pub(super) fn attempt_ended(&mut self, at: Timestamp, ended: &AttemptEnded) -> Vec<RelayEffect> {
        let Phase::Running(session) = &self.phase else { return Vec::new() };
        if session.attempt.id != ended.attempt {
            return Vec::new();
        }
        let session = Session::clone(session);
        self.tally.add(&ended.counters);
        self.prices.merge(&ended.counters.prices);
        let inspection = self.inspect(&ended.files);
        let archive = RelayEffect::Archive { attempt: ended.attempt };
        let mut effects = match handoff::accept(&ended.files, &inspection) {
            Some(handoff) => self.session_over(at, ended, Some(handoff)),
            None => self.no_handoff(at, ended, &session),
        };
        effects.push(archive);
        effects
    }

    /// The attempt left no valid handoff: try again, wait, give up, or rescue.
    fn no_handoff(&mut self, at: Timestamp, ended: &AttemptEnded, session: &Session) -> Vec<RelayEffect> {
        let class = self.class_of(ended);
        let next = self.again(session, ended, class);
        let given_up = class == EndClass::Retry && next.failures >= limits::ATTEMPTS_MAX;
        if let Some(request) = self.stop.filter(|_| !given_up) {
            return self.stopped(request, Next::Attempt(next));
        }
        if let Some(outcome) = session.talk.window_too_full() {
            return self.end(outcome, Next::Attempt(next));
        }
        match class {
            EndClass::Wait | EndClass::Retry if self.is_out_of_budget(&next) => {
                self.session_over(at, ended, None)
            }
            EndClass::Wait => self.wait_for_limit(at, &ended.cause, next),
            EndClass::Retry if ended.cause == EndCause::EngineLost => self.admit(at, next),
            // No process at all: the program or the disk is not as it should be, and waiting helps neither.
            EndClass::Retry if session.never_ran(&ended.cause) => self.agent_failed(ended, next),
            EndClass::Retry if !given_up => {
                let pause = backoff(self.crashes_in_a_row + next.failures);
                self.wait(at, pause, WaitCause::Failure, next)
            }
            // Nothing was done that a rescue could tell of.
            EndClass::Retry if matches!(ended.cause, EndCause::NeverStarted(_)) => {
                self.agent_failed(ended, next)
            }
            EndClass::Stop(_) => self.agent_failed(ended, next),
            EndClass::Left => self.stopped(StopRequest::Gently, Next::Attempt(next)),
            EndClass::Fine | EndClass::Retry | EndClass::TooLate => self.session_over(at, ended, None),
        }
    }

    fn agent_failed(&mut self, ended: &AttemptEnded, next: NextAttempt) -> Vec<RelayEffect> {
        self.end(Outcome::AgentFailed { cause: ended.cause.clone() }, Next::Attempt(next))
    }

    fn wait_for_limit(&mut self, at: Timestamp, cause: &EndCause, mut next: NextAttempt) -> Vec<RelayEffect> {
        let limited = matches!(cause, EndCause::RateLimited { .. });
        let outage = *cause == EndCause::ServerError;
        let length = cause.wait(at, next.waited);
        if limited && self.settings.bounds.on_rate_limit == OnRateLimit::Stop {
            return self.end(Outcome::RateLimited { until: at + length }, Next::Attempt(next));
        }
        next.waited.0 = next.waited.0.saturating_add(length.0);
        if next.waited > self.settings.wait_max {
            let outcome = if outage {
                Outcome::AgentFailed { cause: cause.clone() }
            } else {
                Outcome::LimitTooFar { until: at + length }
            };
            return self.end(outcome, Next::Attempt(next));
        }
        let busy = outage || *cause == EndCause::Overloaded;
        self.wait(at, length, if busy { WaitCause::Failure } else { WaitCause::UsageLimit }, next)
    }

    /// The session is over, with a handoff or without.
    fn session_over(
        &mut self,
        at: Timestamp,
        ended: &AttemptEnded,
        handoff: Option<Handoff>,
    ) -> Vec<RelayEffect> {
        let compacted = matches!(&self.phase, Phase::Running(session) if session.is_compacted());
        self.quota.over += 1;
        self.tally.sessions += 1;
        self.slots.clear();
        let merged = handoff
            .as_ref()
            .map(|handoff| self.knowledge.merge(&handoff.knowledge, ended.attempt.session.get(), &at.date()));
        let crash = match &handoff {
            Some(_) => Crash::No,
            None => Crash::of(ended, self.class_of(ended), self.settings.agent.kind.tells_figures()),
        };
        let did_nothing = crash == Crash::Yes && ended.cause == EndCause::Completed;
        let end = SessionEnd {
            attempt: ended.attempt,
            handoff,
            cause: if did_nothing { EndCause::NothingDone } else { ended.cause.clone() },
            traces: ended.traces.clone(),
            crash,
            compacted,
            facts_added: merged.map_or(0, |merged| merged.added),
            committed: false,
            unchanged: edited_nothing(&ended.traces),
            surveyed: false,
        };
        match self.stop {
            Some(request @ StopRequest::Now { .. }) => self.stopped(request, Next::Review(Box::new(end))),
            Some(StopRequest::Gently) | None => self.review(at, Box::new(end)),
        }
    }

    /// A commit comes first, so that tree and verification are looked at as they were committed.
    pub(super) fn review(&mut self, at: Timestamp, end: Box<SessionEnd>) -> Vec<RelayEffect> {
        if self.commits && !end.committed {
            let session = end.attempt.session;
            self.phase = Phase::Reviewing { end, looking: Looking::Commit };
            return vec![RelayEffect::Publish, RelayEffect::Commit { session }];
        }
        if self.surveys {
            self.phase = Phase::Reviewing { end, looking: Looking::Survey };
            return vec![RelayEffect::Publish, RelayEffect::Survey];
        }
        self.review_check(at, end)
    }

    fn review_check(&mut self, at: Timestamp, end: Box<SessionEnd>) -> Vec<RelayEffect> {
        if self.stage.verification.is_some() {
            self.phase = Phase::Reviewing { end, looking: Looking::Verification };
            return vec![RelayEffect::Publish, RelayEffect::Verify];
        }
        self.conclude(at, end, None)
    }

    /// A commit that was cancelled is made by whoever carries the run on.
    pub(super) fn committed(&mut self, at: Timestamp, commit: &Commit) -> Vec<RelayEffect> {
        let Some(Looked::After(mut end)) = self.looked(Looking::Commit) else { return Vec::new() };
        let cancelled = *commit == Commit::Cancelled;
        match self.stop {
            Some(request) if cancelled || matches!(request, StopRequest::Now { .. }) => {
                end.committed = !cancelled;
                self.stopped(request, Next::Review(end))
            }
            Some(_) | None => {
                end.committed = true;
                self.review(at, end)
            }
        }
    }

    pub(super) fn surveyed(&mut self, at: Timestamp, survey: &Result<Survey, String>) -> Vec<RelayEffect> {
        let Some(looked) = self.looked(Looking::Survey) else { return Vec::new() };
        let cancelled = survey.is_err() && self.stop.is_some();
        let tree = self.survey.as_ref().map(|survey| survey.tree.clone());
        if !cancelled {
            self.take_survey(survey.as_ref().ok(), &looked);
        }
        match (looked, self.stop) {
            (Looked::Before, None) => self.prepare_check(at),
            (Looked::Before, Some(request)) => self.stopped(request, Next::Prepare),
            (Looked::After(end), Some(request @ StopRequest::Now { .. })) => {
                self.stopped(request, Next::Review(end))
            }
            (Looked::After(end), Some(request)) if cancelled => self.stopped(request, Next::Review(end)),
            (Looked::After(mut end), Some(StopRequest::Gently) | None) => {
                end.unchanged = self.unchanged(&end, tree);
                end.surveyed = true;
                self.review_check(at, end)
            }
        }
    }

    /// Without two looks at the tree only the agent's own edits tell.
    fn unchanged(&self, end: &SessionEnd, before: Option<String>) -> bool {
        let after = self.survey.as_ref().map(|survey| &survey.tree);
        match (before, after) {
            (Some(before), Some(after)) if !end.surveyed => before == *after,
            (_, _) => end.unchanged,
        }
    }

    /// What could not be seen is not told from an earlier look.
    fn take_survey(&mut self, survey: Option<&Survey>, looked: &Looked) {
        let again = matches!(looked, Looked::After(end) if end.surveyed);
        let before = self.survey.take().filter(|_| again);
        self.survey = survey.cloned();
        if let (Looked::Before, Some(bench), Some(survey)) = (looked, &mut self.bench, &self.survey) {
            bench.begin(survey);
        }
        if let (Some(survey), Some(before)) = (&mut self.survey, before) {
            survey.commits.extend(before.commits);
        }
    }

    pub(super) fn verified(&mut self, at: Timestamp, check: &Check) -> Vec<RelayEffect> {
        let Some(looked) = self.looked(Looking::Verification) else { return Vec::new() };
        let cancelled = check.outcome == CheckOutcome::Cancelled;
        if !cancelled {
            self.check = Some(check.clone());
        }
        match (looked, self.stop) {
            (Looked::Before, None) => {
                self.baseline = Baseline::of(&check.outcome);
                self.start_first(at)
            }
            (Looked::Before, Some(request)) => self.stopped(request, Next::Prepare),
            (Looked::After(end), Some(request)) if cancelled => self.stopped(request, Next::Review(end)),
            (Looked::After(end), _) => self.conclude(at, end, Some(check.passed())),
        }
    }

    /// Leaves the phase in which this is looked at. Late news of anything else is void.
    fn looked(&mut self, at: Looking) -> Option<Looked> {
        match std::mem::replace(&mut self.phase, Phase::Planned) {
            Phase::Preparing(looking) if looking == at => Some(Looked::Before),
            Phase::Reviewing { end, looking } if looking == at => Some(Looked::After(end)),
            phase @ (Phase::Planned
            | Phase::Preparing(_)
            | Phase::Running(_)
            | Phase::Reviewing { .. }
            | Phase::Waiting { .. }
            | Phase::Paused { .. }
            | Phase::Ended { .. }) => {
                self.phase = phase;
                None
            }
        }
    }

    /// Everything is known of the session: end the run, or start the next.
    fn conclude(
        &mut self,
        at: Timestamp,
        mut end: Box<SessionEnd>,
        passed: Option<bool>,
    ) -> Vec<RelayEffect> {
        let status = end.handoff.as_ref().map(|handoff| handoff.status.clone());
        let next = end.attempt.session.next();
        let empty = self.count_crash(&mut end);
        let cause = end.cause.clone();
        if let Some(rules) = denied_in_vain(&end, status.as_ref(), passed, self.stop) {
            if end.handoff.is_some() {
                self.remember(*end);
            }
            let next = self.fresh(next);
            return self.end(Outcome::Denied { rules }, Next::Attempt(next));
        }
        let judged = self.judge(&end);
        self.remember(*end);
        if status == Some(Status::Complete) && passed == Some(false) {
            self.veto();
        }
        let claimed = status == Some(Status::Complete);
        let outcome = self.verdict_on(passed, status, cause, judged.standstill);
        let proved = passed == Some(true) && (claimed || outcome.as_ref().is_some_and(Outcome::is_complete));
        let mut effects = self.warnings(&judged, proved);
        effects.extend(match outcome {
            Some(outcome) => {
                let next = self.fresh(next);
                self.end(outcome, Next::Attempt(next))
            }
            None => self.start_next(at, next, empty),
        });
        effects
    }

    /// How the run ends with this session, if it does. A question to a person comes before a pass:
    /// a blocked run can go on, and a complete one would never show the question.
    fn verdict_on(
        &self,
        passed: Option<bool>,
        status: Option<Status>,
        cause: EndCause,
        standstill: Option<Standstill>,
    ) -> Option<Outcome> {
        let (passed, status) = self.of_this_task(passed, status);
        let claimed = status == Some(Status::Complete);
        let claim_needed = self.stage.claim_needed || self.baseline != Baseline::Fails;
        match (passed, status, self.stop) {
            (_, Some(Status::Blocked { question }), _) => Some(Outcome::Blocked { question }),
            (Some(true), _, _) if claimed || !claim_needed => Some(Outcome::Complete { verified: true }),
            (None, _, _) if claimed => Some(Outcome::Complete { verified: false }),
            (_, _, Some(request)) => Some(Outcome::Stopped { request }),
            _ if self.crashes_in_a_row >= limits::CRASHES_IN_A_ROW_MAX => {
                Some(Outcome::TooManyCrashes { cause })
            }
            _ => standstill.map(Standstill::outcome),
        }
    }

    fn veto(&mut self) {
        if let (Some(verification), Some(check)) = (&self.stage.verification, &self.check) {
            self.slots.push(Slot::Veto { check: verification.told_in_line(), tail: check.tail.clone() });
        }
    }

    /// Keeps what the next session goes on from: the handoff, or a rescue.
    fn remember(&mut self, end: SessionEnd) {
        let before = self.last.take();
        if let Some(handoff) = &end.handoff {
            self.next_prompt = Some(handoff.next_prompt.clone()).filter(|text| !text.is_empty());
        }
        let last = match end.handoff {
            Some(handoff) => LastSession {
                session: end.attempt.session,
                vanished: handoff::vanished(
                    before.as_ref().and_then(|before| before.open_items.as_ref()),
                    handoff.open_items.as_ref(),
                ),
                open_items: handoff.open_items,
                notes: Notes::Handoff { progress: handoff.progress, next_prompt: handoff.next_prompt },
            },
            None => LastSession {
                session: end.attempt.session,
                notes: Notes::Rescue { text: self.rescue(&end, before.as_ref()) },
                open_items: before.and_then(|before| before.open_items),
                vanished: Vec::new(),
            },
        };
        self.last = Some(last);
    }

    fn rescue(&self, end: &SessionEnd, before: Option<&LastSession>) -> String {
        let survey = self.survey.clone().unwrap_or_default();
        let (untracked, git_status) = survey.status.into_iter().partition(|line| line.starts_with("??"));
        let command = self.stage.verification.as_ref().map(Verification::told_in_line);
        let check = command.zip(self.check.as_ref()).map(|(command, check)| CheckFacts {
            command,
            outcome: check.to_string(),
            tail: check.tail.clone(),
        });
        let traces = end.traces.clone();
        prompt::rescue(&RescueFacts {
            session: end.attempt.session,
            cause: end.cause.to_string(),
            compacted: end.compacted,
            git_status,
            diff_stat: survey.diff_stat,
            commits: survey.commits,
            untracked,
            last_edit: traces.last_edit,
            last_call: traces.last_call,
            last_words: traces.last_words,
            succeeded: traces.succeeded,
            failed: traces.failed,
            check,
            open_items: before.and_then(|before| before.open_items.clone()),
            previous_next_prompt: self.next_prompt.clone(),
        })
    }

    /// What follows from an end. An agent that ends at once and did nothing is broken, whatever it says
    /// of its end: else it would use up all sessions within seconds. An agent without figures may have
    /// worked all the same; there the tree decides, once it was looked at.
    fn class_of(&self, ended: &AttemptEnded) -> EndClass {
        let counters = &ended.counters;
        let did_nothing = counters.tool_calls == 0 && counters.usage_tokens == 0 && ended.was_short();
        let known = self.settings.agent.kind.tells_figures();
        let nothing = ended.cause == EndCause::Completed && did_nothing && known;
        if nothing { EndClass::Retry } else { ended.cause.class() }
    }
}

/// The rules to add, if the agent's permissions left a session nothing to do. More sessions would be
/// refused the same. What it claims or asks comes first, and a run that stops ends as asked.
fn denied_in_vain(
    end: &SessionEnd,
    status: Option<&Status>,
    passed: Option<bool>,
    stop: Option<StopRequest>,
) -> Option<Vec<String>> {
    let rules = &end.traces.denied;
    let goes_on = matches!(status, None | Some(Status::InProgress)) && passed != Some(true) && stop.is_none();
    (goes_on && end.unchanged && !rules.is_empty()).then(|| rules.clone())
}

/// No edit but of the handoff succeeded.
fn edited_nothing(traces: &Traces) -> bool {
    traces.last_edit.as_ref().is_none_or(|edit| edit.contains(HANDOFF_DIR))
}
