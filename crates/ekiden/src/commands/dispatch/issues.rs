//! What the tracker says about issues, and which of them want a run.

use ekiden_core::issue::{Issue, IssueRef, TrackerKind};
use ekiden_core::time::Timestamp;
use ekiden_tracker::Fault;

use super::Dispatcher;
use super::place::{IssueWorktree, Standing};
use super::round::Wanted;
use crate::failure::Failure;
use crate::tracker::failure;

impl Dispatcher<'_> {
    /// The same as `find`. Once the tracker has answered, a later failure is only reported, and there is no list then.
    pub(super) fn listed(&mut self) -> Result<Option<Vec<Issue>>, Failure> {
        // Before the limit is over, nothing is asked, even if a run ends meanwhile.
        if !self.limited.is_zero() {
            return Ok(None);
        }
        match self.find() {
            Ok(found) => {
                self.has_found = true;
                Ok(Some(found))
            }
            Err(fault) => {
                let failure = failure("list issues", self.kind, &fault);
                if !self.has_found {
                    return Err(failure);
                }
                self.say_obstacle(Some(failure.error().to_owned()));
                if let Fault::Limited { wait } = fault {
                    self.limited = wait.into();
                }
                Ok(None)
            }
        }
    }

    /// The issues that want a run, those to begin with first.
    fn find(&self) -> Result<Vec<Issue>, Fault> {
        let tracker = self.trackers.open_project(self.kind)?;
        let mut found = tracker.find(Some(&self.args.label), self.args.assignee.as_deref())?;
        match self.kind {
            TrackerKind::Linear | TrackerKind::Github => found.reverse(),
            TrackerKind::Local => found.sort_by(|one, other| one.name.cmp(&other.name)),
        }
        found.sort_by_key(|issue| issue.priority.unwrap_or(u8::MAX));
        Ok(found)
    }

    /// The issue as a run in another directory knows it.
    pub(super) fn named(&self, issue: &Issue) -> Option<IssueRef> {
        match self.kind {
            TrackerKind::Linear | TrackerKind::Github => self.trackers.named(&issue.name).ok(),
            TrackerKind::Local => Some(IssueRef {
                tracker: self.kind,
                repo: self.trackers.local_dir().to_string_lossy().into_owned(),
                id: issue.name.clone(),
            }),
        }
    }

    /// Whether an issue is still wanted. If it is not in the list, it is looked up separately: the list may be cut.
    pub(super) fn wants(&self, place: &IssueWorktree, found: &[String], now: Timestamp) -> Wanted {
        let is_label = |label: &String| label.eq_ignore_ascii_case(&self.args.label);
        if place.label.as_ref().is_some_and(|label| !is_label(label)) {
            return Wanted::Unknown;
        }
        if found.contains(&place.issue) {
            return match self.is_due(&place.issue, now) {
                true => Wanted::Yes,
                false => Wanted::Later,
            };
        }
        let issue = match &place.standing {
            Standing::Works(work) => &work.issue,
            Standing::Over(work, outcome) if outcome.is_complete() => &work.issue,
            Standing::Empty
            | Standing::Begins
            | Standing::Stops(_)
            | Standing::CutOff(_)
            | Standing::Over(..)
            | Standing::Unreadable(_) => return Wanted::Unknown,
        };
        let Some(issue) = issue else {
            return Wanted::Unknown;
        };
        let tracker = self.trackers.open(issue);
        // Its run may have closed it, and counts for the next call of `--once`.
        let counts = self.args.once
            && self.args.total_budget.is_some()
            && matches!(place.standing, Standing::Over(..));
        match tracker.and_then(|tracker| tracker.issue(&issue.id)) {
            Ok(issue) if !issue.labels.iter().any(is_label) => Wanted::No,
            Ok(issue) if issue.is_closed && !counts => Wanted::No,
            // Files may all be away for a moment, with their directory.
            Err(Fault::Missing(_))
                if self.kind != TrackerKind::Local || self.trackers.local_dir().is_dir() =>
            {
                Wanted::No
            }
            Ok(_) | Err(_) => Wanted::Unknown,
        }
    }

    /// Its run may begin or go on: it did not just fail to.
    pub(super) fn is_due(&self, issue: &str, now: Timestamp) -> bool {
        let failed = self.failed.get(issue);
        failed.is_none_or(|(_, next)| *next <= now)
    }
}

/// The issue under the name that its worktree has: one that is moved in Linear gets another name.
pub(super) fn by_its_place(issue: &Issue, places: &[IssueWorktree]) -> Issue {
    let here = |name: &&String| places.iter().any(|place| place.issue == **name);
    let name = issue.former_names.iter().find(here).unwrap_or(&issue.name);
    Issue {
        name: name.clone(),
        ..issue.clone()
    }
}
