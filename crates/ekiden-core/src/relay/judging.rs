//! Observations of the work, and the judge's view of a session: for people and for the next session.

use super::{Baseline, ItemList, Relay, SessionEnd};
use crate::effect::RelayEffect;
use crate::ends::{EndCause, EndClass};
use crate::event::{AttemptEnded, Check, Commit, Survey};
use crate::handoff::Status;
use crate::judge::{Judge, Judgement, Observed, Warning, WeakenedTest};
use crate::limits;
use crate::prompt::PromptSection;
use crate::settings::{Judging, LimitsChanged};

/// How many vanished items a warning names.
const VANISHED_TOLD_MAX: usize = 5;

/// The observations of the work so far.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Seen {
    pub baseline: Baseline,
    /// The last look at the work tree.
    pub survey: Option<Survey>,
    pub check: Option<Check>,
    pub(super) judge: Option<Judge>,
    /// The commit that was checked out before the run began.
    pub first_commit: Option<String>,
    /// What became of the last commit that was ordered.
    pub(super) commit: Option<Commit>,
    /// What was uncommitted before the run began, as in `git status --short`.
    open_before: Vec<String>,
    /// Weakened tests that existed before the run began, so the run did not cause them.
    weakened_before: Vec<WeakenedTest>,
    /// The commit that was checked out at the look before the last session.
    pub(super) head_before: Option<String>,
    /// The entries of git's stash before the run began, if it was surveyed then.
    stashes_before: Option<u32>,
    /// The number of new ones at the last warning about them.
    stashed: u32,
    /// The number of facts that were left out at the last warning about it.
    left_out: usize,
}

/// Whether a session was lost to a crash.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Crash {
    No,
    Yes,
    /// It was, if it left the tree unchanged: it ended at once without a word, not even in a handoff file, and its agent
    /// does not report what it does.
    IfUnchanged,
}

impl Crash {
    /// Whether a session's last attempt was one, if it left no valid handoff. `is_heard`: other signs than its last words
    /// show that it did something.
    pub(super) fn of(ended: &AttemptEnded, class: EndClass, is_heard: bool) -> Self {
        let silent = ended.traces.last_words.is_none() && !is_heard;
        let is_short = ended.cause == EndCause::Completed && ended.was_short();
        match class {
            // A kill of ekiden says nothing about the agent.
            EndClass::Retry if ended.cause == EndCause::EngineLost => Self::No,
            EndClass::Retry => Self::Yes,
            EndClass::Fine if silent && is_short => Self::IfUnchanged,
            EndClass::Fine
            | EndClass::Left
            | EndClass::Wait
            | EndClass::Stop(_)
            | EndClass::TooLate => Self::No,
        }
    }
}

impl Seen {
    pub(super) fn new(rules: Option<Judging>, task: &str) -> Self {
        Self {
            judge: rules.map(|rules| Judge::new(rules, task, None)),
            ..Self::default()
        }
    }

    /// The next look is the first one for another task.
    pub(super) fn forget(&mut self) {
        self.baseline = Baseline::Unknown;
        self.check = None;
        self.stashes_before = None;
    }

    /// It was uncommitted before the run began.
    pub(super) fn was_open(&self, line: &String) -> bool {
        self.open_before.contains(line)
    }

    /// Starts judging afresh: before the first session, or for another task.
    pub(super) fn judge_anew(&mut self, task: &str) {
        let tree = self.survey.as_ref().map(Survey::substance);
        if let Some(judge) = &mut self.judge {
            *judge = Judge::new(judge.rules, task, tree);
        }
    }

    /// The look before the first session of a task. After a resume, the work began before it.
    pub(super) fn begin(&mut self, task: &str) {
        if self.stashes_before.is_some() {
            return;
        }
        self.judge_anew(task);
        if let Some(survey) = self.survey.as_ref().filter(|_| self.judge.is_some()) {
            self.first_commit.clone_from(&survey.head);
            self.open_before.clone_from(&survey.status);
            self.weakened_before.clone_from(&survey.weakened);
            (self.stashes_before, self.stashed) = (Some(survey.stashes), 0);
        }
    }

    /// The entries of git's stash that were not there before.
    pub(super) fn stashed(&self) -> u32 {
        let now = self.survey.as_ref().map(|survey| survey.stashes);
        let counts = now.zip(self.stashes_before);
        counts.map_or(0, |(now, before)| now.saturating_sub(before))
    }

    /// Applies new rules. After an end, the counts are forgiven.
    pub(super) fn change_rules(&mut self, limits: &LimitsChanged, ended: bool) {
        let Some(judge) = &mut self.judge else {
            return;
        };
        let rules = &mut judge.rules;
        rules.stall_sessions = limits.stall_sessions.unwrap_or(rules.stall_sessions);
        rules.research = limits.research.unwrap_or(rules.research);
        if ended {
            judge.forgive();
        }
    }

    /// The tree is the one that the judge saw last, or nobody can tell.
    fn is_unchanged(&self) -> bool {
        let tree = self.survey.as_ref().map(Survey::substance);
        let judge = self.judge.as_ref();
        tree.is_none() || judge.is_none_or(|judge| judge.is_unchanged(tree))
    }
}

impl Relay {
    /// Whether everything that sessions did is committed where it should be, as far as the last look can tell. Paths with
    /// `except` in them do not count.
    pub fn is_committed(&self, except: &str) -> bool {
        let is_made = match &self.seen.commit {
            None => true,
            Some(Commit::Made { left_out, .. } | Commit::Nothing { left_out }) => {
                left_out.is_empty()
            }
            Some(
                Commit::Elsewhere { .. }
                | Commit::Refused { .. }
                | Commit::Failed { .. }
                | Commit::Cancelled,
            ) => false,
        };
        let survey = self.seen.survey.as_ref();
        let mut open = survey.into_iter().flat_map(|survey| &survey.status);
        let is_old = |line: &String| self.seen.open_before.contains(line);
        is_made && open.all(|line| is_old(line) || line.contains(except))
    }

    /// The files that the stage has changed, as far as the last look can tell; without git, the declared ones.
    pub(crate) fn changed(&self) -> Vec<String> {
        let survey = self.seen.survey.as_ref();
        let Some(survey) = survey.filter(|survey| survey.head.is_some()) else {
            return self.stage.part.outputs.clone();
        };
        let sizes = survey.diff_stat.iter();
        let names = sizes.filter_map(|line| Some(line.split_once(" | ")?.0.trim()));
        let open = survey.status.iter();
        let new = open.filter(|line| !self.seen.open_before.contains(line));
        let new = new.filter_map(|line| line.strip_prefix("?? "));
        names.chain(new).map(str::to_owned).collect()
    }

    /// Unknown parts are not filled in from an earlier survey.
    pub(super) fn take_survey(&mut self, survey: Option<&Survey>, after: Option<&mut SessionEnd>) {
        if let (Some(list), Some(survey)) = (&mut self.items, survey) {
            list.survey(survey);
        }
        let before = std::mem::replace(&mut self.seen.survey, survey.cloned());
        let Some(end) = after else {
            if let (Some(survey), Some(before)) = (&mut self.seen.survey, before) {
                survey.add(before);
            }
            if survey.is_some() {
                self.seen.begin(&self.stage.task);
            }
            return;
        };
        match (&mut self.seen.survey, before) {
            (Some(survey), Some(before)) if end.surveyed => survey.add(before),
            // Without two surveys of the tree, only the agent's own edits say whether it changed.
            (Some(survey), Some(before)) => {
                end.unchanged = before.tree == survey.tree;
                self.seen.head_before = before.head;
            }
            (Some(_), None) | (None, _) => {}
        }
        end.surveyed = true;
    }

    /// Counts a session that crashed, and returns whether the next one must wait a while.
    pub(super) fn count_crash(&mut self, end: &mut SessionEnd) -> bool {
        let empty = end.crash == Crash::IfUnchanged && self.seen.is_unchanged();
        if empty {
            end.cause = EndCause::NothingDone;
        }
        self.crashes_in_a_row = match empty || end.crash == Crash::Yes {
            true => self.crashes_in_a_row + 1,
            false => 0,
        };
        empty
    }

    /// Judges the finished session, unless it was lost with ekiden. Call it once per session.
    pub(super) fn judge(&mut self, end: &SessionEnd) -> Judgement {
        let seen = &mut self.seen;
        let was_killed = end.handoff.is_err() && end.cause == EndCause::EngineLost;
        let Some(judge) = seen.judge.as_mut().filter(|_| !was_killed) else {
            return Judgement::default();
        };
        let left = end.handoff.as_ref().unwrap_or_else(|rest| rest);
        let list = self.items.as_ref();
        let left_open = left.open_items.as_ref().map(|items| items.open.len());
        // Nobody reads the notes beside a claim.
        let notes = end
            .handoff
            .as_ref()
            .ok()
            .filter(|handoff| handoff.status != Status::Complete);
        let survey = seen.survey.as_ref();
        let judgement = judge.judge(&Observed {
            session: end.attempt.session,
            tree: survey.map(Survey::substance),
            commits: survey.is_some_and(|survey| !survey.commits.is_empty()),
            check: seen.check.as_ref().map(|check| &check.outcome),
            open_items: list.map(ItemList::unticked).or(left_open),
            new_facts: end.facts_added,
            pages: notes.map(|handoff| (&*handoff.progress, &*handoff.next_prompt)),
            rescued: end.handoff.is_err() && end.crash == Crash::No,
            sessions_min: list.map_or(0, |_| 2 * limits::ITEM_TRIES_MAX),
        });
        if judgement.repeats > 0 {
            let k = judgement.repeats + 1;
            self.sections.push(PromptSection::Repeated { k });
        }
        judgement
    }

    /// Warnings for people in addition to the judgement. `passed`: the verification passes together with
    /// a claim, or ends the run.
    pub(super) fn warnings(&mut self, judged: Judgement, passed: bool) -> Vec<RelayEffect> {
        let (Some(last), true) = (&self.last, self.seen.judge.is_some()) else {
            return Vec::new();
        };
        let budget = limits::KNOWLEDGE_TOKENS_MAX;
        let left_out = self.knowledge.for_prompt(budget).left_out;
        let before = std::mem::replace(&mut self.seen.left_out, left_out);
        let survey = self.seen.survey.as_ref();
        let dropped = survey.and_then(|survey| survey.dropped);
        let stashed = self.seen.stashed();
        let is_new = stashed > std::mem::replace(&mut self.seen.stashed, stashed);
        let survey = survey.filter(|_| passed);
        let unread = survey.and_then(|survey| survey.tests_unread.clone());
        let tests: Vec<_> = survey
            .iter()
            .flat_map(|survey| &survey.weakened)
            .filter(|sign| !self.seen.weakened_before.contains(sign))
            .cloned()
            .collect();
        let (session, count) = (last.session, last.vanished.len());
        let items = last.vanished.iter().take(VANISHED_TOLD_MAX);
        let items = items.cloned().collect();
        let facts = self.knowledge.core.len();
        let others = [
            (count > 0).then_some(Warning::ItemsVanished {
                session,
                items,
                count,
            }),
            (!tests.is_empty()).then_some(Warning::TestsWeakened { session, tests }),
            unread.map(|why| Warning::TestsUnread { session, why }),
            dropped.map(|count| Warning::CommitsDropped {
                session,
                count,
                commit: self.seen.head_before.clone().unwrap_or_default(),
            }),
            is_new.then_some(Warning::Stashed {
                session,
                count: stashed,
            }),
            (left_out > 0 && left_out != before)
                .then_some(Warning::KnowledgeCut { left_out, facts }),
        ];
        let warnings = judged.warnings.into_iter();
        warnings
            .chain(others.into_iter().flatten())
            .map(|warning| RelayEffect::Warn { warning })
            .collect()
    }
}
