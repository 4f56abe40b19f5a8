//! After an attempt: take what it left, look at the tree, verify, decide what is next.

use crate::effect::RelayEffect;
use crate::ends::{EndCause, EndClass};
use crate::event::{AttemptEnded, Check, CheckOutcome, StopRequest, Survey};
use crate::guard::Level;
use crate::handoff::{self, Handoff, Status};
use crate::limits;
use crate::outcome::Outcome;
use crate::prompt::{self, CheckFacts, Notes, RescueFacts, Slot};
use crate::relay::{
    Baseline, LastSession, Looking, Next, NextAttempt, Phase, Relay, Session, SessionEnd, WaitCause, backoff,
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
        let resumable = ended.resumable && session.talk.level < Level::L2;
        let failed = ended.cause != EndCause::EngineLost && ended.cause.class() == EndClass::Retry;
        let next = self.again(&session.attempt, resumable, failed);
        if let Some(request) = self.stop {
            return self.end(Outcome::Stopped { request }, Next::Attempt(next));
        }
        match ended.cause.class() {
            EndClass::Wait => self.wait_for_limit(at, &ended.cause, next),
            EndClass::Retry if next.failures < limits::ATTEMPTS_MAX => self.retry(at, ended, next),
            EndClass::Stop(_) => {
                self.end(Outcome::AgentFailed { cause: ended.cause.clone() }, Next::Attempt(next))
            }
            EndClass::Fine | EndClass::Retry | EndClass::TooLate => self.session_over(at, ended, None),
        }
    }

    fn retry(&mut self, at: Timestamp, ended: &AttemptEnded, next: NextAttempt) -> Vec<RelayEffect> {
        if ended.cause == EndCause::EngineLost {
            return self.start(next);
        }
        let pause = backoff(self.crashes_in_a_row + next.failures);
        self.wait(at, pause, WaitCause::Failure, next)
    }

    fn wait_for_limit(&mut self, at: Timestamp, cause: &EndCause, next: NextAttempt) -> Vec<RelayEffect> {
        let until_reset = |reset: Timestamp| (reset + limits::RESET_BUFFER).since(at);
        let length = cause.resets_at().map_or(limits::RESET_UNKNOWN, until_reset);
        if length > self.settings.wait_max {
            return self.end(Outcome::LimitTooFar { until: at + length }, Next::Attempt(next));
        }
        self.wait(at, length, WaitCause::UsageLimit, next)
    }

    /// The session is over, with a handoff or without.
    fn session_over(
        &mut self,
        at: Timestamp,
        ended: &AttemptEnded,
        handoff: Option<Handoff>,
    ) -> Vec<RelayEffect> {
        self.quota.over += 1;
        self.tally.sessions += 1;
        let crashed = handoff.is_none() && ended.cause.class() == EndClass::Retry;
        self.crashes_in_a_row = if crashed { self.crashes_in_a_row + 1 } else { 0 };
        self.slots.clear();
        if let Some(handoff) = &handoff {
            let date = at.date();
            self.knowledge.merge(&handoff.knowledge, ended.attempt.session.get(), &date);
        }
        let end = SessionEnd {
            attempt: ended.attempt,
            handoff,
            cause: ended.cause.clone(),
            traces: ended.traces.clone(),
        };
        match self.stop {
            Some(request @ StopRequest::Now { .. }) => self.stopped(request, Next::Review(Box::new(end))),
            Some(StopRequest::Gently) | None => self.review(at, Box::new(end)),
        }
    }

    pub(super) fn review(&mut self, at: Timestamp, end: Box<SessionEnd>) -> Vec<RelayEffect> {
        if self.git {
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
        self.conclude(at, end)
    }

    pub(super) fn surveyed(&mut self, at: Timestamp, survey: &Result<Survey, String>) -> Vec<RelayEffect> {
        if let Ok(survey) = survey {
            self.survey = Some(survey.clone());
        }
        match (self.looked(Looking::Survey), self.stop) {
            (Some(Looked::Before), None) => self.prepare_check(),
            (Some(Looked::Before), Some(request)) => self.stopped(request, Next::Prepare),
            (Some(Looked::After(end)), None) => self.review_check(at, end),
            (Some(Looked::After(end)), Some(request)) => self.stopped(request, Next::Review(end)),
            (None, _) => Vec::new(),
        }
    }

    pub(super) fn verified(&mut self, at: Timestamp, check: &Check) -> Vec<RelayEffect> {
        let cancelled = check.outcome == CheckOutcome::Cancelled;
        if !cancelled {
            self.check = Some(check.clone());
        }
        match (self.looked(Looking::Verification), self.stop) {
            (Some(Looked::Before), None) => {
                self.baseline = if check.passed() { Baseline::Passes } else { Baseline::Fails };
                self.start_first()
            }
            (Some(Looked::Before), Some(request)) => self.stopped(request, Next::Prepare),
            (Some(Looked::After(end)), Some(request)) if cancelled => {
                self.stopped(request, Next::Review(end))
            }
            (Some(Looked::After(end)), _) => self.conclude(at, end),
            (None, _) => Vec::new(),
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
            | Phase::Ended { .. }) => {
                self.phase = phase;
                None
            }
        }
    }

    fn stopped(&mut self, request: StopRequest, next: Next) -> Vec<RelayEffect> {
        self.end(Outcome::Stopped { request }, next)
    }

    /// Everything is known of the session: end the run, or start the next.
    fn conclude(&mut self, at: Timestamp, end: Box<SessionEnd>) -> Vec<RelayEffect> {
        let passed = self.stage.verification.as_ref().and(self.check.as_ref()).map(Check::passed);
        let status = end.handoff.as_ref().map(|handoff| handoff.status.clone());
        let claimed = status == Some(Status::Complete);
        let next = end.attempt.session.next();
        let cause = end.cause.clone();
        self.remember(*end);
        if let Some(outcome) = self.verdict_on(claimed, passed, status, cause) {
            let next = self.fresh(next);
            return self.end(outcome, Next::Attempt(next));
        }
        if claimed {
            self.veto();
        }
        self.start_next(at, next)
    }

    fn verdict_on(
        &self,
        claimed: bool,
        passed: Option<bool>,
        status: Option<Status>,
        cause: EndCause,
    ) -> Option<Outcome> {
        let claim_needed = self.stage.claim_needed || self.baseline == Baseline::Passes;
        match (passed, status, self.stop) {
            (Some(true), _, _) if claimed || !claim_needed => Some(Outcome::Complete { verified: true }),
            (None, _, _) if claimed => Some(Outcome::Complete { verified: false }),
            (_, Some(Status::Blocked { question }), _) => Some(Outcome::Blocked { question }),
            (_, _, Some(request)) => Some(Outcome::Stopped { request }),
            _ if self.crashes_in_a_row >= limits::CRASHES_IN_A_ROW_MAX => {
                Some(Outcome::TooManyCrashes { cause })
            }
            _ => None,
        }
    }

    fn veto(&mut self) {
        if let (Some(verification), Some(check)) = (&self.stage.verification, &self.check) {
            self.slots.push(Slot::Veto { check: verification.command.clone(), tail: check.tail.clone() });
        }
    }

    /// Keeps what the next session goes on from: the handoff, or a rescue.
    fn remember(&mut self, end: SessionEnd) {
        let before = self.last.take();
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
        let command = self.stage.verification.as_ref().map(|verification| verification.command.clone());
        let check = command.zip(self.check.as_ref()).map(|(command, check)| CheckFacts {
            command,
            outcome: check.to_string(),
            tail: check.tail.clone(),
        });
        let traces = end.traces.clone();
        prompt::rescue(&RescueFacts {
            session: end.attempt.session,
            cause: end.cause.to_string(),
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
            previous_next_prompt: before.and_then(|before| before.notes.next_prompt()).map(str::to_owned),
        })
    }
}

impl Notes {
    /// The agent's own notes for its successor, if there are any.
    pub(super) fn next_prompt(&self) -> Option<&str> {
        match self {
            Self::Handoff { next_prompt, .. } => Some(next_prompt),
            Self::Rescue { .. } => None,
        }
    }
}
