//! Where the dispatcher's runs are: a worktree for each issue, and what its log and lock say about the run.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use ekiden_core::event::Event;
use ekiden_core::ids::RunId;
use ekiden_core::issue::IssueRef;
use ekiden_core::outcome::Outcome;
use ekiden_core::record::Record;
use ekiden_core::steering::StopRequest;
use ekiden_core::time::Timestamp;
use ekiden_engine::clock::{Clock as _, SystemClock};
use ekiden_engine::history;
use ekiden_engine::workspace::Workspace;
use rustix::process::Signal;

use crate::failure::Failure;

/// The prefix of the ids of a dispatcher's messages, by which it recognizes its own stops in a log.
pub(super) const SENDER: &str = "dispatch-";
const SIGTERM: i32 = Signal::TERM.as_raw();

#[derive(Debug)]
pub(super) struct IssueWorktree {
    /// The issue's id, as the directory's name has it.
    pub(super) issue: String,
    /// The label for which it was made.
    pub(super) label: Option<String>,
    pub(super) tree: PathBuf,
    pub(super) workspace: Workspace,
    pub(super) standing: Standing,
}

/// How far the work on an issue is.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Standing {
    /// No run has begun.
    Empty,
    /// Its run is about to begin.
    Begins,
    Works(IssueRun),
    /// Somebody has asked it to stop.
    Stops(IssueRun),
    /// To be resumed: its engine died, a dispatcher stopped it, or the usage limit that ended it is lifted.
    CutOff(IssueRun),
    /// It ended by itself, or a person stopped it.
    Over(IssueRun, Outcome),
    Unreadable(String),
}

#[derive(Debug, Clone, PartialEq)]
pub(super) struct IssueRun {
    pub(super) run: RunId,
    pub(super) issue: Option<IssueRef>,
    pub(super) spent_micro_usd: u64,
    /// The time of its newest record.
    pub(super) last: Timestamp,
}

impl IssueWorktree {
    /// How much its run takes of the total budget, if each run has a budget; a run that is over takes what it spent.
    pub(super) fn takes_micro_usd(&self, budget: u64) -> u64 {
        match &self.standing {
            Standing::Empty => 0,
            // Nobody knows what an unreadable one spent.
            Standing::Begins | Standing::Unreadable(_) => budget,
            Standing::Works(work) | Standing::Stops(work) | Standing::CutOff(work) => {
                work.spent_micro_usd.max(budget)
            }
            Standing::Over(work, _) => work.spent_micro_usd,
        }
    }

    /// Looks at a worktree; `within` is the work dir's place in it.
    pub(super) fn look(
        tree: PathBuf,
        within: &str,
        state_dir: Option<&Path>,
        state_home: Option<PathBuf>,
    ) -> Option<Self> {
        let (issue, _) = tree.file_name()?.to_str()?.rsplit_once('-')?;
        let (issue, dir) = (issue.to_owned(), tree.join(within));
        // Its creation was interrupted, or a person has removed it.
        if !tree.join(".git").exists() || !dir.is_dir() {
            return None;
        }
        let unreadable = |failure: Failure| Standing::Unreadable(failure.error().to_owned());
        let (workspace, standing) = match Workspace::find(&dir, state_dir) {
            Ok(found) => {
                let found = found.of_user(state_home);
                let standing = standing(&found).unwrap_or_else(unreadable);
                (found, standing)
            }
            Err(error) => {
                let unknown = Workspace::at(dir, None, PathBuf::new());
                (unknown, unreadable(error.into()))
            }
        };
        let label = label_file(&tree).and_then(|file| fs::read_to_string(file).ok());
        Some(Self {
            issue,
            label,
            tree,
            workspace,
            standing,
        })
    }

    pub(super) fn is_at_work(&self) -> bool {
        matches!(
            self.standing,
            Standing::Begins | Standing::Works(_) | Standing::Stops(_)
        )
    }

    /// The run's engine has gone since it was looked at.
    pub(super) fn has_ended(&self) -> bool {
        self.is_at_work() && history::holder(&self.workspace).is_none()
    }
}

/// Where a worktree's label is kept: git removes it with the worktree.
pub(super) fn label_file(tree: &Path) -> Option<PathBuf> {
    let link = fs::read_to_string(tree.join(".git")).ok()?;
    let dir = link.strip_prefix("gitdir: ")?.trim_end();
    Some(tree.join(dir).join("ekiden-label"))
}

/// The directories in which worktrees of issues are.
pub(super) fn trees(dir: &Path) -> io::Result<Vec<PathBuf>> {
    let entries = match fs::read_dir(dir) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries?,
    };
    let trees: io::Result<Vec<PathBuf>> = entries.map(|entry| Ok(entry?.path())).collect();
    let mut trees = trees?;
    trees.sort();
    Ok(trees)
}

fn standing(workspace: &Workspace) -> Result<Standing, Failure> {
    let holder = history::holder(workspace);
    let Some(newest) = history::list(workspace)?.pop() else {
        return Ok(match holder {
            Some(_) => Standing::Begins,
            None => Standing::Empty,
        });
    };
    let mut by_person = false;
    let summary = history::read(workspace, &newest.run, |record, _| {
        by_person = stopped_by_person(record).unwrap_or(by_person);
    })?;
    let work = IssueRun {
        run: newest.run,
        issue: summary.run.header().issue.clone(),
        spent_micro_usd: summary.run.totals().spend.micro_usd,
        last: summary.last.time,
    };
    Ok(match (holder, summary.run.outcome()) {
        // It may have ended a moment ago.
        (Some(_), outcome) if summary.run.is_stopping() || outcome.is_some() => {
            Standing::Stops(work)
        }
        (Some(_), _) => Standing::Works(work),
        // Its engine was killed before it ended.
        (None, None) if by_person && summary.run.is_stopping() => {
            let request = StopRequest::Gently;
            Standing::Over(work, Outcome::Stopped { request })
        }
        (None, None) => Standing::CutOff(work),
        (None, Some(outcome)) if goes_on(outcome, by_person, SystemClock.now()) => {
            Standing::CutOff(work)
        }
        (None, Some(outcome)) => Standing::Over(work, outcome.clone()),
    })
}

/// A run that ended like this needs no person.
fn goes_on(outcome: &Outcome, by_person: bool, now: Timestamp) -> bool {
    if let Outcome::LimitTooFar { until } | Outcome::RateLimited { until } = outcome {
        return *until <= now;
    }
    !by_person && matches!(outcome, Outcome::Stopped { .. })
}

/// Whether a person wants the run to stop, if this record decides about it.
fn stopped_by_person(record: &Record) -> Option<bool> {
    if let Event::StopRequested(request) = &record.event {
        // When a machine shuts down, every process gets this signal.
        let by_machine = StopRequest::Now { signal: SIGTERM };
        return (*request != by_machine).then_some(true);
    }
    if matches!(record.event, Event::RunResumed(_)) {
        return Some(false);
    }
    let Event::Steered(steered) = &record.event else {
        return None;
    };
    steered.steering.stop()?;
    Some(!steered.message.as_str().starts_with(SENDER))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Perhaps a person is editing git's settings. Here git would not be understood.
    // shows: TRK-10
    #[test]
    #[expect(clippy::disallowed_methods, reason = "a test lays out a worktree")]
    fn a_worktree_about_which_git_cannot_be_asked_is_left_alone() {
        let home = tempfile::tempdir().unwrap();
        let tree = home.path().join("two\nlines/login-12ab");
        fs::create_dir_all(tree.join(".git")).unwrap();
        let place = IssueWorktree::look(tree, "", None, None).unwrap();
        assert_eq!(place.issue, "login");
        assert!(matches!(place.standing, Standing::Unreadable(_)));
    }

    /// All issues would be taken again.
    // shows: TRK-10
    #[test]
    fn a_directory_of_worktrees_that_cannot_be_read_is_not_taken_for_an_empty_one() {
        let home = tempfile::NamedTempFile::new().unwrap();
        assert!(trees(home.path()).is_err());
        assert_eq!(trees(&home.path().with_extension("gone")).unwrap().len(), 0);
    }

    // shows: TRK-10
    #[test]
    fn what_a_person_ended_stays_and_what_a_limit_ended_goes_on_after_it() {
        let now = Timestamp(1_000);
        let goes_on = |outcome: &Outcome, by_person| goes_on(outcome, by_person, now);
        let stopped = Outcome::Stopped {
            request: StopRequest::Gently,
        };
        assert!(goes_on(&stopped, false) && !goes_on(&stopped, true));
        for (until, expected) in [(999, true), (1_000, true), (1_001, false)] {
            let until = Timestamp(until);
            assert_eq!(goes_on(&Outcome::LimitTooFar { until }, false), expected);
            assert_eq!(goes_on(&Outcome::RateLimited { until }, true), expected);
        }
        assert!(!goes_on(&Outcome::SessionLimit, true));
    }
}
