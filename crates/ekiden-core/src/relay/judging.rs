//! What the judge says of a session, told to people and to the next session.
//!
//! A relay whose log is older than the rules has no judge, and none of this happens: what was decided
//! without them is not decided anew.

use crate::effect::RelayEffect;
use crate::ends::{EndCause, EndClass};
use crate::event::{AttemptEnded, LimitsChanged, Survey};
use crate::handoff::{Handoff, Status};
use crate::judge::{Judge, Judgement, Observed, Pages, Standstill, Warning, WeakenedTest};
use crate::limits;
use crate::outcome::Outcome;
use crate::prompt::Slot;
use crate::relay::{LastSession, Relay, SessionEnd};
use crate::settings::Judging;

/// The most vanished items that a warning names.
const VANISHED_TOLD_MAX: usize = 5;

/// The judge of a relay, and what it has told already.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Bench {
    judge: Judge,
    /// The commit that was checked out before the run began.
    first_commit: Option<String>,
    /// Signs that were there before the run began: not its doing.
    weakened_before: Vec<WeakenedTest>,
    /// Facts that were left out when that was last told.
    left_out_told: usize,
}

/// Whether a session was lost to a crash.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Crash {
    /// It was not.
    No,
    /// It was.
    Yes,
    /// It was if it left the tree as it was: it ended at once without a word, and its agent tells
    /// nothing of what it does.
    IfUnchanged,
}

impl Crash {
    /// What the end of a session's last attempt says, where it left no handoff.
    pub(super) fn of(ended: &AttemptEnded, class: EndClass, tells_figures: bool) -> Self {
        let silent = ended.traces.last_words.is_none() && !tells_figures;
        match class {
            EndClass::Retry => Self::Yes,
            EndClass::Fine if silent && ended.cause == EndCause::Completed && ended.was_short() => {
                Self::IfUnchanged
            }
            EndClass::Fine | EndClass::Left | EndClass::Wait | EndClass::Stop(_) | EndClass::TooLate => {
                Self::No
            }
        }
    }
}

impl Bench {
    pub(super) fn new(rules: Judging, task: &str) -> Self {
        Self {
            judge: Judge::new(rules, task),
            first_commit: None,
            weakened_before: Vec::new(),
            left_out_told: 0,
        }
    }

    /// The look before the first session.
    pub(super) fn begin(&mut self, survey: &Survey) {
        self.judge.begin(Some(survey.substance()));
        self.first_commit.clone_from(&survey.head);
        self.weakened_before.clone_from(&survey.weakened);
    }

    /// Another task: what was counted of the one before says nothing.
    pub(super) fn renew(&mut self, task: &str, survey: Option<&Survey>) {
        self.judge = Judge::new(self.judge.rules(), task);
        self.judge.begin(survey.map(Survey::substance));
    }

    pub(super) fn first_commit(&self) -> Option<&str> {
        self.first_commit.as_deref()
    }

    /// Takes the rules of a resume. After an end, what was counted is forgiven.
    pub(super) fn resume(&mut self, limits: &LimitsChanged, ended: bool) {
        let rules = self.judge.rules();
        self.judge.set_rules(Judging {
            stall_sessions: limits.stall_sessions.unwrap_or(rules.stall_sessions),
            research: limits.research.unwrap_or(rules.research),
        });
        if ended {
            self.judge.forgive();
        }
    }
}

impl Standstill {
    pub(super) fn outcome(self) -> Outcome {
        match self {
            Self::Stuck(repeat) => Outcome::Stuck { repeats: repeat.in_a_row, percent: repeat.percent },
            Self::Stalled { sessions } => Outcome::Stalled { sessions },
        }
    }
}

impl Relay {
    /// Counts a session that crashed; the answer is whether the next one is to wait a while.
    pub(super) fn count_crash(&mut self, end: &mut SessionEnd) -> bool {
        let tree = self.survey.as_ref().map(Survey::substance);
        let unchanged = || {
            let judge = self.bench.as_ref().map(|bench| &bench.judge);
            tree.is_none() || judge.is_none_or(|judge| judge.is_unchanged(tree))
        };
        let empty = end.crash == Crash::IfUnchanged && unchanged();
        if empty {
            end.cause = EndCause::NothingDone;
        }
        let crashed = empty || end.crash == Crash::Yes;
        self.crashes_in_a_row = if crashed { self.crashes_in_a_row + 1 } else { 0 };
        empty
    }

    /// Judges the session that is over. To be asked once a session.
    pub(super) fn judge(&mut self, end: &SessionEnd) -> Judgement {
        let Some(bench) = &mut self.bench else { return Judgement::default() };
        let handoff = end.handoff.as_ref();
        let open_items = handoff.and_then(|handoff| handoff.open_items.as_ref());
        let judgement = bench.judge.judge(&Observed {
            session: end.attempt.session,
            tree: self.survey.as_ref().map(Survey::substance),
            commits: self.survey.as_ref().is_some_and(|survey| !survey.commits.is_empty()),
            check: self.check.as_ref().map(|check| &check.outcome),
            open_items: open_items.map(|items| items.open.len()),
            new_facts: end.facts_added,
            pages: handoff.and_then(pages),
        });
        if let Some(repeat) = judgement.repeat.filter(|repeat| repeat.in_a_row > 0) {
            self.slots.push(Slot::Repeated { k: repeat.in_a_row + 1 });
        }
        judgement
    }

    /// What people are told of the session that is over. `passed` is a verification that passes beside
    /// a claim, or that ends the run.
    pub(super) fn warnings(&mut self, judged: &Judgement, passed: bool) -> Vec<RelayEffect> {
        let Some(last) = &self.last else { return Vec::new() };
        let Some(bench) = &mut self.bench else { return Vec::new() };
        let rules = bench.judge.rules();
        let left_out = self.knowledge.for_prompt(limits::KNOWLEDGE_TOKENS_MAX).left_out;
        let told = std::mem::replace(&mut bench.left_out_told, left_out);
        let cut = Warning::KnowledgeCut { left_out, facts: self.knowledge.core.len() };
        let weakened = self.survey.iter().filter(|_| passed).flat_map(|survey| &survey.weakened);
        let tests: Vec<_> = weakened.filter(|sign| !bench.weakened_before.contains(sign)).cloned().collect();
        let session = last.session;
        let warnings = [
            repeated(last, judged),
            idle(last, judged, rules),
            vanished(last),
            (!tests.is_empty()).then_some(Warning::TestsWeakened { session, tests }),
            (left_out > 0 && left_out != told).then_some(cut),
        ];
        warnings.into_iter().flatten().map(|warning| RelayEffect::Warn { warning }).collect()
    }
}

/// The notes beside a claim are for nobody.
fn pages(handoff: &Handoff) -> Option<Pages<'_>> {
    let pages = Pages { progress: &handoff.progress, next_prompt: &handoff.next_prompt };
    (handoff.status != Status::Complete).then_some(pages)
}

fn repeated(last: &LastSession, judged: &Judgement) -> Option<Warning> {
    let (session, repeats_max) = (last.session, limits::REPEATS_MAX);
    judged.repeat.map(|repeat| Warning::Repeated { session, repeat, repeats_max })
}

/// Notes that repeat are warning enough.
fn idle(last: &LastSession, judged: &Judgement, rules: Judging) -> Option<Warning> {
    let counts = rules.stall_sessions > 0 && !rules.research && judged.idle > 0;
    let repeats = judged.repeat.is_some_and(|repeat| repeat.in_a_row > 0);
    let (session, in_a_row, sessions_max) = (last.session, judged.idle, rules.stall_sessions);
    (counts && !repeats).then_some(Warning::Idle { session, in_a_row, sessions_max })
}

fn vanished(last: &LastSession) -> Option<Warning> {
    let (session, count) = (last.session, last.vanished.len());
    let items = last.vanished.iter().take(VANISHED_TOLD_MAX).cloned().collect();
    (count > 0).then_some(Warning::ItemsVanished { session, items, count })
}
