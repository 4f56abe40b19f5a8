//! The one failure type of the binary: how it exits, what went wrong, what to do about it.
//!
//! Commands return it, `main` prints it, and nothing else does. The text after `error:` says what failed
//! and where; each cause follows after a colon; hints name the next command.

use ekiden_core::text::in_full;
use std::error::Error;
use std::fmt;
use std::path::{Path, PathBuf};

use ekiden_core::ids::RunId;
use ekiden_core::outcome::Outcome;
use ekiden_engine::git::branch::BranchError;
use ekiden_engine::leftovers;
use ekiden_engine::workspace::WorkspaceError;
use ekiden_engine::{EngineError, UnfinishedTask};
use ekiden_store::disk::DiskError;
use ekiden_store::error::StoreError;
use ekiden_store::lock::Holder;
use jiff::tz::TimeZone;

use crate::exit::Exit;
use crate::output::phrase;

/// Why a command ends without its result.
#[derive(Debug)]
pub struct Failure {
    exit: Exit,
    error: String,
    details: Vec<String>,
    hints: Vec<String>,
}

impl Failure {
    /// A failure in plain words.
    pub fn new(exit: Exit, error: impl Into<String>) -> Self {
        Self {
            exit,
            error: error.into(),
            details: Vec::new(),
            hints: Vec::new(),
        }
    }

    /// A failure with the messages of all its causes, outermost first.
    pub fn caused(exit: Exit, what: &str, cause: &dyn Error) -> Self {
        Self::new(exit, format!("{what}: {}", in_full(cause)))
    }

    /// The same with a line for each fault.
    pub fn details(mut self, lines: impl IntoIterator<Item = String>) -> Self {
        self.details.extend(lines);
        self
    }

    /// `what` is in the user's home, which is not known.
    pub fn no_home(what: &str) -> Self {
        let text = format!("cannot find {what}: HOME is not set");
        Self::new(Exit::Settings, text).hint("set HOME")
    }

    pub fn lines(&self) -> &[String] {
        &self.details
    }

    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hints.push(hint.into());
        self
    }

    pub fn map_hints(mut self, rewrite: impl Fn(&str) -> String) -> Self {
        self.hints = self.hints.iter().map(|hint| rewrite(hint)).collect();
        self
    }

    /// The same with a suggestion: the known word closest to `word`, or how to find it.
    pub fn suggest<'a>(
        self,
        word: &str,
        known: impl Iterator<Item = &'a str>,
        otherwise: &str,
    ) -> Self {
        match phrase::nearest(word, known) {
            Some(near) => self.hint(format!("did you mean `{near}`?")),
            None => self.hint(otherwise),
        }
    }

    pub fn exit(&self) -> Exit {
        self.exit
    }

    pub fn error(&self) -> &str {
        &self.error
    }

    pub fn hints(&self) -> &[String] {
        &self.hints
    }
}

/// Another error as the failure of a command.
pub trait OrFail<T> {
    /// `what` failed because of it.
    fn or_fail(self, exit: Exit, what: impl AsRef<str>) -> Result<T, Failure>;
}

impl<T, E: Error> OrFail<T> for Result<T, E> {
    fn or_fail(self, exit: Exit, what: impl AsRef<str>) -> Result<T, Failure> {
        self.map_err(|error| Failure::caused(exit, what.as_ref(), &error))
    }
}

pub fn current_dir() -> Result<PathBuf, Failure> {
    let here = std::env::current_dir();
    here.or_fail(Exit::MissingInput, "cannot find the current directory")
}

/// What [`EngineError`] already knows.
macro_rules! of_engine {
    ($($error:ty),+) => {$(
        impl From<$error> for Failure {
            fn from(error: $error) -> Self {
                EngineError::from(error).into()
            }
        }
    )+};
}

of_engine!(WorkspaceError, DiskError, StoreError, BranchError);

impl From<EngineError> for Failure {
    fn from(error: EngineError) -> Self {
        Self::from(&error)
    }
}

impl From<&EngineError> for Failure {
    fn from(error: &EngineError) -> Self {
        let failed = |exit| Self::new(exit, format!("cannot {}", in_full(error)));
        let stored =
            |exit, error: &StoreError| error.hint().into_iter().fold(failed(exit), Self::hint);
        let unread = |cause: &EngineError| {
            let hints = Self::from(cause).hints.into_iter();
            hints.fold(failed(Exit::State), Self::hint)
        };
        match error {
            EngineError::Workspace(WorkspaceError::Dir { .. }) => failed(Exit::MissingInput)
                .hint("create it, or name another directory with `--work-dir`"),
            EngineError::Workspace(error) if error.lacks_git() => failed(Exit::State)
                .hint("install git, or put it on PATH: git knows where the runs of this repository are"),
            EngineError::NotForWork { .. } => failed(Exit::MissingInput)
                .hint("name another directory with `--work-dir`"),
            EngineError::Held { holder } => held("in this directory", "", holder.as_deref()),
            EngineError::Overlaps { dir, holder, kept } => overlaps(dir, holder, kept.as_deref()),
            EngineError::Unfinished { run, task, asks } => unfinished(run.as_str(), *task, *asks),
            EngineError::NoRuns => failed(Exit::MissingInput).hint("`ekiden run TASK` starts one"),
            EngineError::NothingToResume => {
                failed(Exit::MissingInput).hint("`ekiden status` shows what ran here")
            }
            EngineError::Complete { run, is_plan } => failed(Exit::MissingInput).hint(match is_plan {
                true => format!("`ekiden log {run}` shows what it did"),
                false => format!("`ekiden continue 'WHAT NEXT' --run {run}` gives it more work"),
            }),
            EngineError::StateDoubted { .. } => state_doubted(failed(Exit::Settings)),
            EngineError::NotComplete { run, outcome } => not_complete(run, outcome.as_deref()),
            EngineError::LogChanged { run, .. } => log_changed(run, failed(Exit::State)),
            EngineError::NoHandoff { run, .. } => {
                failed(Exit::MissingInput).hint(format!("`ekiden sessions {run}` shows what there is"))
            }
            EngineError::NotRunning { run, outcome, ended } => not_running(run, outcome, *ended),
            EngineError::Refused { .. } => failed(Exit::NotPermitted)
                .hint("ask the person who runs it: a run can only be steered from outside"),
            EngineError::WorksElsewhere { .. } => failed(Exit::Unreachable).hint("give the command there"),
            EngineError::Unreachable { engine, .. } => failed(Exit::Unreachable)
                .hint(format!("`kill {engine}` where it runs stops it; it can be resumed")),
            EngineError::NotUnderstood { .. } => failed(Exit::Unreachable)
                .hint("nothing was changed; `ekiden stop` and `ekiden resume` the run, then repeat the command"),
            EngineError::Branch(error) => branch(error),
            EngineError::StillAlive { .. } => failed(Exit::Held).hint("try again in a few seconds"),
            EngineError::CannotPlan { hint, .. } => failed(Exit::Settings).hint(hint),
            EngineError::NoStage { .. } => failed(Exit::Bug),
            EngineError::Unreadable { cause, .. } => {
                unread(cause).hint("name another run by its id; `ekiden status --all` lists them")
            }
            EngineError::UnreadableInTheWay { cause, .. } => {
                unread(cause).hint("`--new` starts a new run and keeps that one as it is")
            }
            EngineError::Empty { .. } => failed(Exit::State)
                .hint("its log was emptied; what the sessions left is beside it, under sessions/, unless that was removed too"),
            EngineError::LogOfAnother { .. } => failed(Exit::State)
                .hint("put its own log back, or start again with `--new`"),
            EngineError::Store(error @ StoreError::UnknownRun { .. }) => stored(Exit::MissingInput, error),
            EngineError::Store(error @ StoreError::AmbiguousRun { .. }) => stored(Exit::Usage, error),
            EngineError::Archive(error @ StoreError::Disk(_)) => {
                stored(Exit::State, error).hint(WHEN_IT_CAN_BE_WRITTEN)
            }
            EngineError::Publish(_) => failed(Exit::State).hint(WHEN_IT_CAN_BE_WRITTEN),
            EngineError::Archive(error) | EngineError::Store(
                error @ (StoreError::Disk(_) | StoreError::File { .. } | StoreError::Held { .. }),
            ) => stored(Exit::State, error),
            EngineError::Workspace(WorkspaceError::Git { .. })
            | EngineError::Worktree { .. }
            | EngineError::System { .. } => failed(Exit::State),
        }
    }
}

const WHEN_IT_CAN_BE_WRITTEN: &str =
    "nothing is lost; `ekiden resume` continues when the disk can be written";

fn held(place: &str, named: &str, holder: Option<&Holder>) -> Failure {
    let who = holder.map_or_else(String::new, |holder| {
        let run = holder.run.as_ref().map(|run| format!("{run}, "));
        let (run, pid, host) = (run.unwrap_or_default(), holder.pid, &holder.host);
        let since = phrase::day_and_time(holder.started, &TimeZone::system());
        format!(": {run}pid {pid} on {host}, since {since}")
    });
    let text = format!("another run works {place}{who}");
    let hint = match holder {
        Some(Holder { run: None, pid, .. }) => {
            format!("it plans, or has just begun; `kill {pid}` stops it")
        }
        _ => format!("`ekiden status{named}` shows it, `ekiden stop{named}` ends it"),
    };
    Failure::new(Exit::Held, text).hint(hint)
}

/// Agents in directories that contain one another would change the same files.
fn overlaps(dir: &Path, holder: &Holder, kept: Option<&Path>) -> Failure {
    let text = dir.to_string_lossy();
    if let Some(kept) = kept {
        let place = format!("in {text}, with its state in {}", kept.display());
        return held(&place, "", Some(holder)).map_hints(|_| {
            let stop = format!("`kill {}` stops it", holder.pid);
            format!("`ekiden status --everywhere` shows it; {stop}, and it can be resumed")
        });
    }
    let quoted = shlex::try_quote(&text).unwrap_or_else(|_| text.clone());
    let named = format!(" -d {quoted}");
    held(
        &format!("in {text}, which overlaps with this directory"),
        &named,
        Some(holder),
    )
    .hint("two directories beside each other can each have a run")
}

fn state_doubted(failure: Failure) -> Failure {
    failure
        .hint("a state from an archive can name commands, and a run would execute them")
        .hint("if it is yours, `--trust-state` trusts it here from now on")
}

/// What to do about a run whose verification does not exist.
const NOTHING_BEGUN: &str = "`ekiden run TASK --verify 'COMMAND'` starts again";

fn not_running(run: &RunId, outcome: &Option<Box<Outcome>>, ended: usize) -> Failure {
    let resume = format!("`ekiden resume {run}` continues it");
    let (why, hint) = match outcome.as_deref() {
        None => ("ekiden was killed", resume),
        Some(Outcome::Undelivered { .. }) => (
            "it is complete, but was not delivered",
            format!("`ekiden log {run}` ends with the command that brings it there"),
        ),
        Some(outcome) if outcome.is_complete() => {
            let hint = format!("`ekiden log {run}` shows what it did");
            ("it is complete", hint)
        }
        Some(outcome) if outcome.is_final() => ("it began nothing", NOTHING_BEGUN.to_owned()),
        Some(outcome) if Exit::of(outcome) == Exit::Blocked => (
            "it stopped and needs your input",
            format!("`ekiden answer {run}` answers it"),
        ),
        Some(_) => ("it stopped early", resume),
    };
    let text = format!("run {run} is not running: {why}");
    let failure = Failure::new(Exit::MissingInput, text).hint(hint);
    leftovers::message(ended)
        .into_iter()
        .fold(failure, Failure::hint)
}

fn log_changed(run: &RunId, failure: Failure) -> Failure {
    failure
        .hint(format!("`ekiden log {run}` shows it as it is now"))
        .hint(format!(
            "to continue from it as it is now: `ekiden resume {run} --accept-log`"
        ))
}

fn branch(error: &BranchError) -> Failure {
    let hint = match error {
        BranchError::NoRepository { .. } => "`git init` creates one",
        BranchError::Name { .. } => "name one such as `migrate`",
        BranchError::Refused { .. } => {
            "resolve that, or switch branches yourself; `git stash` puts changes aside"
        }
        BranchError::Unknown { .. } => "`git status` and `git fsck` may say more",
    };
    Failure::new(Exit::Settings, format!("cannot {}", in_full(error))).hint(hint)
}

fn not_complete(run: &RunId, outcome: Option<&Outcome>) -> Failure {
    let text = format!("run {run} is not finished, so nothing can follow up on it");
    Failure::new(Exit::Unfinished, text).hint(match outcome {
        Some(outcome) if outcome.asks() => {
            format!("`ekiden answer {run}` answers its question and continues it")
        }
        Some(outcome) if outcome.is_final() => {
            format!("it began nothing; {NOTHING_BEGUN}")
        }
        Some(_) | None => {
            format!("`ekiden resume {run}` continues it; add `--task FILE` for an edited task")
        }
    })
}

/// If the task is the same, resuming is what the user asked for; so the exit codes differ.
fn unfinished(run: &str, task: UnfinishedTask, asks: bool) -> Failure {
    let (exit, of) = match task {
        UnfinishedTask::Same => (Exit::StoppedEarly, " of this task"),
        UnfinishedTask::SamePlan => (Exit::StoppedEarly, " of this plan"),
        UnfinishedTask::EditedPlan => (Exit::Unfinished, " of this plan"),
        UnfinishedTask::Another => (Exit::Unfinished, " of another task"),
        UnfinishedTask::Unknown => (Exit::Unfinished, ""),
        UnfinishedTask::Undelivered => {
            let text = format!("run {run} has done this plan, and its work is not on your branch");
            return Failure::new(Exit::Undelivered, text)
                .hint("`ekiden status` names the command that brings it there")
                .hint("`--new` does all of it again");
        }
    };
    let text = format!("a run{of} is unfinished here: {run}");
    if task == UnfinishedTask::EditedPlan {
        return Failure::new(exit, format!("{text}; its manifest has changed since"))
            .hint("`ekiden resume` continues it with the manifest as it was")
            .hint("`--new` starts a new run with the manifest as it is now, and keeps that one");
    }
    let goes_on = match asks {
        true => "`ekiden answer` answers its question and continues it",
        false => "`ekiden resume` continues it",
    };
    Failure::new(exit, text)
        .hint(goes_on)
        .hint("`--new` starts a new run and keeps that one as it is")
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "error: {}", self.error)?;
        self.hints
            .iter()
            .try_for_each(|hint| write!(f, "\nhint: {hint}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("cannot open /x")]
    struct Open(#[source] std::io::Error);

    // shows: RUN-12
    #[test]
    fn an_unfinished_run_is_told_with_both_ways_out() {
        let failure = |task| {
            Failure::from(EngineError::Unfinished {
                run: ekiden_core::ids::RunId::from_bits(7),
                task,
                asks: task == UnfinishedTask::Unknown,
            })
        };
        let same = failure(UnfinishedTask::Same);
        expect_test::expect![[r"
            error: a run of this task is unfinished here: 00000007
            hint: `ekiden resume` continues it
            hint: `--new` starts a new run and keeps that one as it is"]]
        .assert_eq(&same.to_string());
        assert_eq!(
            (same.exit(), failure(UnfinishedTask::Another).exit()),
            (Exit::StoppedEarly, Exit::Unfinished)
        );
        let asks = failure(UnfinishedTask::Unknown).to_string();
        assert!(
            asks.contains("`ekiden answer` answers its question"),
            "{asks}"
        );
    }

    #[test]
    fn a_failure_reads_as_error_and_hints() {
        let cause = Open(std::io::Error::from(std::io::ErrorKind::PermissionDenied));
        let failure =
            Failure::caused(Exit::State, "cannot read the log", &cause).hint("try `ekiden status`");
        expect_test::expect![[r"
            error: cannot read the log: cannot open /x: permission denied
            hint: try `ekiden status`"]]
        .assert_eq(&failure.to_string());
        assert_eq!(failure.exit(), Exit::State);
    }
}
