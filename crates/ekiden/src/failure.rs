//! The one failure type of the binary: how it exits, what went wrong, what to do about it.
//!
//! Commands return it, `main` prints it, nothing else does. The text after `error:` says what could
//! not be done and where; each cause behind it follows after a colon; hints name the next command.

use std::error::Error;
use std::fmt;

use ekiden_core::outcome::Outcome;
use ekiden_engine::EngineError;
use ekiden_engine::branch::BranchError;
use ekiden_engine::checkpoint::CheckpointError;
use ekiden_engine::workspace::WorkspaceError;
use ekiden_store::lock::Holder;
use ekiden_store::state::FindRunError;
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
    #[must_use]
    pub fn new(exit: Exit, error: impl Into<String>) -> Self {
        Self { exit, error: error.into(), details: Vec::new(), hints: Vec::new() }
    }

    /// A failure with everything that its causes say, outermost first.
    #[must_use]
    pub fn caused(exit: Exit, what: &str, cause: &dyn Error) -> Self {
        Self::new(exit, format!("{what}: {}", chain(cause)))
    }

    /// The same with a line of its own for each part of what is wrong.
    #[must_use]
    pub fn details(mut self, lines: impl IntoIterator<Item = String>) -> Self {
        self.details.extend(lines);
        self
    }

    /// What is wrong in particular, a line each.
    #[must_use]
    pub fn lines(&self) -> &[String] {
        &self.details
    }

    /// The same with one more hint.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hints.push(hint.into());
        self
    }

    /// How the program exits.
    #[must_use]
    pub fn exit(&self) -> Exit {
        self.exit
    }

    /// What went wrong.
    #[must_use]
    pub fn error(&self) -> &str {
        &self.error
    }

    /// What to do about it.
    #[must_use]
    pub fn hints(&self) -> &[String] {
        &self.hints
    }
}

/// An error and its causes on one line. A cause that the text before repeats is left out.
#[must_use]
pub fn chain(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        let cause_text = cause.to_string();
        if !text.ends_with(&cause_text) {
            text = format!("{text}: {cause_text}");
        }
        next = cause.source();
    }
    text
}

impl From<WorkspaceError> for Failure {
    fn from(error: WorkspaceError) -> Self {
        let failed = |exit| Self::new(exit, format!("cannot {}", chain(&error)));
        match &error {
            WorkspaceError::Dir { .. } => {
                failed(Exit::MissingInput).hint("name another directory with `--work-dir`, or create it")
            }
            WorkspaceError::Git { .. } => failed(Exit::State),
        }
    }
}

impl From<CheckpointError> for Failure {
    fn from(error: CheckpointError) -> Self {
        match error {
            CheckpointError::Workspace(error) => error.into(),
            CheckpointError::Disk(error) => EngineError::from(error).into(),
        }
    }
}

impl From<EngineError> for Failure {
    fn from(error: EngineError) -> Self {
        let failed = |exit| {
            let failure = Self::new(exit, format!("cannot {}", chain(&error)));
            error.hint().into_iter().fold(failure, Self::hint)
        };
        match &error {
            EngineError::Workspace(WorkspaceError::Dir { .. })
            | EngineError::FindRun(FindRunError::Unknown { .. }) => failed(Exit::MissingInput),
            EngineError::FindRun(FindRunError::Ambiguous { .. }) => failed(Exit::Usage),
            EngineError::Held { holder } => held(holder.as_deref()),
            EngineError::Unfinished { run, same_task } => unfinished(run.as_str(), *same_task),
            EngineError::NoRuns => failed(Exit::MissingInput).hint("`ekiden run TASK` starts one"),
            EngineError::NothingToResume => {
                failed(Exit::MissingInput).hint("`ekiden status` shows what ran here")
            }
            EngineError::Complete { run } => {
                failed(Exit::MissingInput).hint(format!("`ekiden log {run}` tells what it did"))
            }
            EngineError::NotComplete { run } => Self::new(
                Exit::Unfinished,
                format!("run {run} is not finished, so nothing can follow up on it"),
            )
            .hint("`ekiden resume` carries it on; `--task FILE` with it takes an edited task"),
            EngineError::NoHandoff { run, .. } => {
                failed(Exit::MissingInput).hint(format!("`ekiden sessions {run}` shows what there is"))
            }
            EngineError::NotRunning { run, outcome } => not_running(run.as_str(), outcome.as_deref()),
            EngineError::Branch(error) => branch(error),
            EngineError::StillAlive { .. } => failed(Exit::Held).hint("try again in a few seconds"),
            EngineError::Ground { .. } => failed(Exit::State),
            EngineError::NotIgnored { .. } => {
                failed(Exit::Settings).hint("`.gitignore` or `.git/info/exclude` keeps it out of commits")
            }
            EngineError::NotLent { .. } => failed(Exit::Settings)
                .hint("`[worktree] copy` in the manifest names files of the project; `setup` makes others"),
            EngineError::BranchInTheWay { branch } => {
                failed(Exit::Settings).hint(format!("`git branch -m {branch} NEW-NAME` makes room"))
            }
            EngineError::NoIdentity => failed(Exit::Settings)
                .hint("`git config --global user.name` and `user.email` say who you are"),
            EngineError::NoStage { .. } => failed(Exit::Bug),
            EngineError::Unreadable { .. } => {
                failed(Exit::State).hint("name another run by its id; `ekiden status --all` lists them")
            }
            EngineError::UnreadableInTheWay { .. } => {
                failed(Exit::State).hint("`--new` starts anew and keeps that one as it is")
            }
            EngineError::Archive(_) => {
                failed(Exit::State).hint("nothing is lost; `ekiden resume` goes on when the disk takes it")
            }
            EngineError::Workspace(WorkspaceError::Git { .. })
            | EngineError::FindRun(FindRunError::Disk(_))
            | EngineError::State(_)
            | EngineError::Log(_)
            | EngineError::Empty { .. }
            | EngineError::Disk(_)
            | EngineError::Status(_)
            | EngineError::Lock(_)
            | EngineError::Send(_)
            | EngineError::System { .. } => failed(Exit::State),
        }
    }
}

fn held(holder: Option<&Holder>) -> Failure {
    let who = holder.map_or_else(String::new, |holder| {
        let run = holder.run.as_ref().map(|run| format!("{run}, ")).unwrap_or_default();
        let since = phrase::day_and_time(holder.started, &TimeZone::system());
        format!(": {run}pid {} on {}, since {since}", holder.pid, holder.host)
    });
    Failure::new(Exit::Held, format!("another run works in this directory{who}"))
        .hint("`ekiden status` shows it, `ekiden stop` ends it")
}

fn not_running(run: &str, outcome: Option<&Outcome>) -> Failure {
    let why = match outcome {
        None => "its engine is gone without an end",
        Some(Outcome::Complete { .. }) => "it is complete",
        Some(Outcome::Blocked { .. }) => "it has stopped and needs a person",
        Some(
            Outcome::SessionLimit
            | Outcome::Stopped { .. }
            | Outcome::LimitTooFar { .. }
            | Outcome::Stuck { .. }
            | Outcome::Stalled { .. }
            | Outcome::RateLimited { .. }
            | Outcome::BudgetSpent { .. }
            | Outcome::WindowTooFull { .. }
            | Outcome::AgentFailed { .. }
            | Outcome::Denied { .. }
            | Outcome::NoGround { .. }
            | Outcome::NotMerged { .. }
            | Outcome::Unmerged { .. }
            | Outcome::NotDone { .. }
            | Outcome::StagesFailed { .. }
            | Outcome::TooManyCrashes { .. },
        ) => "it has stopped early",
    };
    let failure = Failure::new(Exit::MissingInput, format!("run {run} is not running: {why}"));
    match outcome {
        Some(Outcome::Complete { .. }) => failure.hint(format!("`ekiden log {run}` tells what it did")),
        Some(_) | None => failure.hint("`ekiden resume` carries it on"),
    }
}

fn branch(error: &BranchError) -> Failure {
    let failed = |exit| Failure::new(exit, format!("cannot {}", chain(error)));
    match error {
        BranchError::NoRepository { .. } => failed(Exit::Settings).hint("`git init` makes one"),
        BranchError::Name { .. } => failed(Exit::Settings).hint("name one such as `migrate`"),
        BranchError::Refused { .. } => {
            failed(Exit::Settings).hint("settle that, or switch yourself; `git stash` puts changes aside")
        }
    }
}

/// Resuming is just what was asked for if the task is the same; so the exit codes differ.
fn unfinished(run: &str, same_task: bool) -> Failure {
    let (exit, of) = if same_task { (Exit::StoppedEarly, "this") } else { (Exit::Unfinished, "another") };
    Failure::new(exit, format!("a run of {of} task is not finished here: {run}"))
        .hint("`ekiden resume` carries it on")
        .hint("`--new` starts anew and keeps that one as it is")
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "error: {}", self.error)?;
        self.hints.iter().try_for_each(|hint| write!(f, "\nhint: {hint}"))
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
        let failure = |same_task| {
            Failure::from(EngineError::Unfinished { run: ekiden_core::ids::RunId::from_bits(7), same_task })
        };
        expect_test::expect![[r"
            error: a run of this task is not finished here: 00000007
            hint: `ekiden resume` carries it on
            hint: `--new` starts anew and keeps that one as it is"]]
        .assert_eq(&failure(true).to_string());
        assert_eq!((failure(true).exit(), failure(false).exit()), (Exit::StoppedEarly, Exit::Unfinished));
    }

    #[test]
    fn a_failure_reads_as_error_and_hints() {
        let cause = Open(std::io::Error::from(std::io::ErrorKind::PermissionDenied));
        let failure = Failure::caused(Exit::State, "cannot read the log", &cause).hint("try `ekiden status`");
        expect_test::expect![[r"
            error: cannot read the log: cannot open /x: permission denied
            hint: try `ekiden status`"]]
        .assert_eq(&failure.to_string());
        assert_eq!(failure.exit(), Exit::State);
    }
}
