//! Git as the engine uses it: the `git` command, so that hooks, worktrees and settings behave as the
//! user expects.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use ekiden_agent::child::{ChildEnd, ChildSpec, SpawnError, StdinKind};
use ekiden_agent::task::{self, Output, QuickError};
use ekiden_core::limits;

/// What is kept of a command's output.
const OUTPUT_BYTES_MAX: usize = 4 * 1024 * 1024;

/// Git in one directory.
#[derive(Debug, Clone)]
pub(crate) struct Git {
    keeper: PathBuf,
    dir: PathBuf,
}

/// Git could not be asked, or said no.
#[derive(Debug, thiserror::Error)]
pub(crate) enum GitError {
    /// It could not be started.
    #[error("run git")]
    Spawn(#[from] SpawnError),
    /// It could not be waited for.
    #[error("run git")]
    Quick(#[from] QuickError),
    /// It was ended before it could answer.
    #[error("`git {command}` gave no answer: {why}")]
    NoAnswer {
        /// The subcommand.
        command: String,
        /// What ended it.
        why: String,
    },
    /// It ended with an error.
    #[error("`git {command}` failed: {message}")]
    Failed {
        /// The subcommand.
        command: String,
        /// The first line that it said.
        message: String,
    },
}

impl Git {
    /// Git in `dir`, run under the keeper in this executable.
    #[must_use]
    pub(crate) fn new(keeper: PathBuf, dir: PathBuf) -> Self {
        Self { keeper, dir }
    }

    /// Runs one command and gives its standard output.
    ///
    /// # Errors
    ///
    /// If git cannot be started, fails, or takes longer than [`limits::SURVEY_TIMEOUT`].
    pub(crate) async fn run(&self, args: &[&str]) -> Result<String, GitError> {
        let spec = ChildSpec {
            keeper: self.keeper.clone(),
            program: "git".into(),
            args: args.iter().map(OsString::from).collect(),
            dir: self.dir.clone(),
            env_set: vec![("GIT_TERMINAL_PROMPT".into(), "0".into()), ("LC_ALL".into(), "C".into())],
            env_remove: Vec::new(),
            lock: None,
            grace: limits::KILL_GRACE,
            stdin: StdinKind::Null,
        };
        text_of(args, &task::run_output(spec, limits::SURVEY_TIMEOUT, OUTPUT_BYTES_MAX).await?)
    }
}

/// Runs one quick command where there is no runtime yet.
///
/// # Errors
///
/// As [`Git::run`].
pub(crate) fn ask(dir: &Path, args: &[&str]) -> Result<String, GitError> {
    let words: Vec<OsString> = args.iter().map(OsString::from).collect();
    text_of(args, &task::run_quick("git".as_ref(), &words, dir, limits::SURVEY_TIMEOUT)?)
}

fn text_of(args: &[&str], output: &Output) -> Result<String, GitError> {
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    if output.end == ChildEnd::Exited(0) {
        return Ok(text);
    }
    let command = args.first().copied().unwrap_or_default().to_owned();
    let said = String::from_utf8_lossy(&output.stderr);
    let why = match &output.end {
        _ if output.timed_out => "it took too long".to_owned(),
        ChildEnd::Exited(_) => {
            let message = said.lines().next().unwrap_or("no word").to_owned();
            return Err(GitError::Failed { command, message });
        }
        ChildEnd::Signaled(signal) => format!("signal {signal} ended it"),
        ChildEnd::NotStarted(error) => error.clone(),
        ChildEnd::KeeperLost => "its keeper was killed".to_owned(),
    };
    Err(GitError::NoAnswer { command, why })
}
