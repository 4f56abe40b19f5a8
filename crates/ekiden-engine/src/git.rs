//! Git as the engine uses it: the `git` command, so that hooks, worktrees and settings behave as the
//! user expects.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ekiden_agent::child::{ChildEnd, SpawnError};
use ekiden_agent::task::{self, Output, QuickError};
use ekiden_agent::workers::{ShortCommand, Workers};
use ekiden_core::limits;

use crate::processes::TASK_MARK;

/// What is kept of a command's output.
const OUTPUT_BYTES_MAX: usize = 4 * 1024 * 1024;

/// Above which directory git does not look for a repository. A worktree that has lost its `.git` would
/// else pass for a part of whatever repository lies above it.
pub(crate) const CEILING: &str = "GIT_CEILING_DIRECTORIES";

/// Git tidies up behind some commands, in the background, where we would end it half done. The user's own
/// next command does it.
const NO_MAINTENANCE: &[&str] = &["-c", "maintenance.auto=false", "-c", "gc.auto=0"];

/// Git in one directory.
#[derive(Debug, Clone)]
pub(crate) struct Git {
    workers: Arc<Workers>,
    dir: PathBuf,
    mark: Option<String>,
    env: Vec<(&'static str, OsString)>,
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
    /// Git in `dir`.
    #[must_use]
    pub(crate) fn new(workers: Arc<Workers>, dir: PathBuf) -> Self {
        Self { workers, dir, mark: None, env: Vec::new() }
    }

    /// The same in a repository within this one.
    #[must_use]
    pub(crate) fn within(&self, dir: PathBuf) -> Self {
        Self { dir, ..self.clone() }
    }

    /// The same, by whose processes a restarted engine finds what outlived even their keepers.
    #[must_use]
    pub(crate) fn marked(self, mark: String) -> Self {
        Self { mark: Some(mark), ..self }
    }

    /// The same with one more variable, such as `GIT_INDEX_FILE`.
    #[must_use]
    pub(crate) fn with_env(mut self, name: &'static str, value: impl Into<OsString>) -> Self {
        self.env.push((name, value.into()));
        self
    }

    /// The same, which takes nothing in this directory or above it for its repository.
    #[must_use]
    pub(crate) fn below(self, ceiling: &Path) -> Self {
        self.with_env(CEILING, ceiling)
    }

    /// Runs one command and gives its standard output.
    ///
    /// # Errors
    ///
    /// If git cannot be started, fails, or takes longer than [`limits::SURVEY_TIMEOUT`].
    pub(crate) async fn run(&self, args: &[&str]) -> Result<String, GitError> {
        stdout_of(args, self.output(args).await?).map(lossy)
    }

    /// The same where the answer is one line.
    ///
    /// # Errors
    ///
    /// As [`Git::run`].
    pub(crate) async fn line(&self, args: &[&str]) -> Result<String, GitError> {
        Ok(self.run(args).await?.trim().to_owned())
    }

    /// The same, byte for byte: paths need not be text.
    ///
    /// # Errors
    ///
    /// As [`Git::run`]; and if the answer is too long to be kept whole.
    pub(crate) async fn whole(&self, args: &[&str]) -> Result<Vec<u8>, GitError> {
        let output = self.output(args).await?;
        if output.cut {
            let why = "its answer is too long".to_owned();
            return Err(GitError::NoAnswer { command: subcommand(args), why });
        }
        stdout_of(args, output)
    }

    /// Runs one command with this on its standard input until it ends, or `over` comes and it is
    /// told to end.
    ///
    /// # Errors
    ///
    /// If git cannot be started. How it ended is for the caller to see.
    pub(crate) async fn fed(
        &self,
        args: &[&str],
        input: &[u8],
        over: impl Future<Output = ()>,
    ) -> Result<Output, GitError> {
        Ok(self.workers.run(self.command(args), input, over, OUTPUT_BYTES_MAX).await?)
    }

    async fn output(&self, args: &[&str]) -> Result<Output, GitError> {
        self.fed(args, b"", tokio::time::sleep(limits::SURVEY_TIMEOUT.into())).await
    }

    fn command(&self, args: &[&str]) -> ShortCommand {
        let mut env = vec![("GIT_TERMINAL_PROMPT".into(), "0".into()), ("LC_ALL".into(), "C".into())];
        env.extend(self.mark.as_ref().map(|mark| (TASK_MARK.into(), mark.into())));
        env.extend(self.env.iter().map(|(name, value)| (name.into(), value.clone())));
        let args = NO_MAINTENANCE.iter().chain(args).map(OsString::from).collect();
        ShortCommand { program: "git".into(), args, dir: self.dir.clone(), env }
    }
}

/// Runs one quick command where there is no runtime yet.
///
/// # Errors
///
/// As [`Git::run`].
pub(crate) fn ask(dir: &Path, args: &[&str]) -> Result<String, GitError> {
    let words: Vec<OsString> = args.iter().map(OsString::from).collect();
    stdout_of(args, task::run_quick("git".as_ref(), &words, dir, limits::SURVEY_TIMEOUT)?).map(lossy)
}

/// The subcommand, behind options of git itself. A word with `=` is the value of a `-c`.
pub(crate) fn subcommand(args: &[&str]) -> String {
    let is_option = |word: &str| word.starts_with('-') || word.contains('=');
    args.iter().find(|word| !is_option(word)).copied().unwrap_or_default().to_owned()
}

/// The standard output of a command that went well.
pub(crate) fn stdout_of(args: &[&str], output: Output) -> Result<Vec<u8>, GitError> {
    let command = subcommand(args);
    let why = match &output.end {
        ChildEnd::Exited(0) => return Ok(output.stdout),
        _ if output.timed_out => "it took too long".to_owned(),
        ChildEnd::Exited(_) => {
            let said = String::from_utf8_lossy(&output.stderr);
            let message = said.lines().next().unwrap_or("no word").to_owned();
            return Err(GitError::Failed { command, message });
        }
        ChildEnd::Signaled(signal) => format!("signal {signal} ended it"),
        ChildEnd::NotStarted(error) => error.clone(),
        ChildEnd::KeeperLost => "its keeper was killed".to_owned(),
    };
    Err(GitError::NoAnswer { command, why })
}

fn lossy(bytes: Vec<u8>) -> String {
    String::from_utf8(bytes).unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned())
}
