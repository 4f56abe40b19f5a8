//! Everything that knows git: how its commands run, and how their output is read.
//!
//! We run the `git` command, so that hooks, filters, worktrees and settings behave as the user expects.
//! Each command runs under a keeper, in bounded time and with bounded output.
//!
//! | module | |
//! |---|---|
//! | `status` | the one reader of `git status` |
//! | `commit` | the commit after a session, and how we find our own commit again |
//! | `dirty` | what had changes when a run began, and stays out of its commits |
//! | `snapshot` | commits made with a temporary index, which touch neither branch nor index nor files |
//! | `branch` | the branch a run works on |
//!
//! [`crate::worktrees`] has the worktrees of a plan's stages and merges them.

pub mod branch;
pub mod commit;
pub(crate) mod dirty;
pub(crate) mod flood;
pub(crate) mod snapshot;
pub(crate) mod status;

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::sync::LazyLock;
use std::time::{Duration, SystemTime};

use ekiden_agent::child::{ChildEnd, ChildSpec, SpawnError, find_program};
use ekiden_agent::task::{self, Output};
use ekiden_core::limits;
use ekiden_core::text::{one_line, shell_word};
use ekiden_core::time::Millis;
use ekiden_store::disk::DiskError;
use ekiden_store::place::git_dir_of;
use tokio::sync::watch;
use tokio::time::Instant;

use self::status::Entry;
use crate::task_mark::TASK_MARK;

const NO_FILES: &str = "this operation must be run in a work tree";
/// What is kept of a command's output: a status of some 200,000 paths.
const OUTPUT_BYTES_MAX: usize = 16 * 1024 * 1024;
/// How long a merge or a checkout may take to end by itself when the run is being stopped.
const CANCELLED_GRACE: Duration = Duration::from_secs(2);
/// The pause between two attempts to get a lock.
const LOCK_PAUSE: Duration = Duration::from_millis(300);
/// Files hashed by one command, below every platform's limit of arguments.
const HASHED_AT_ONCE: usize = 200;

/// Commands that change files or a remote repository. A checkout that is killed is left between two commits; and
/// large files, filters, hooks and networks are slow.
const WRITING: [&str; 4] = ["checkout", "push", "switch", "worktree"];

/// Git looks for a repository only below this directory. Otherwise a worktree that has lost its `.git` would
/// look like a part of whatever repository is above it.
pub(crate) const CEILING: &str = "GIT_CEILING_DIRECTORIES";

/// Git tidies up after some commands, in the background, where we would kill it halfway. The user's own
/// next command does it instead. And a checkout leaves submodules alone: a worktree does not have the repositories
/// of those that were cloned in another. Our worktrees are known by absolute paths. And what git commits survives a power
/// cut, since the log names it: by default git does not wait for the disk. `batch` waits once for many files.
const ALWAYS: [&str; 12] = [
    "-c",
    "maintenance.auto=false",
    "-c",
    "gc.auto=0",
    "-c",
    "submodule.recurse=false",
    "-c",
    "worktree.useRelativePaths=false",
    "-c",
    "core.fsync=committed,reference",
    "-c",
    "core.fsyncMethod=batch",
];
/// No hook runs, no file system watcher starts, and line ends stay as they are.
const QUIET: [&str; 6] = [
    "-c",
    "core.hooksPath=/dev/null",
    "-c",
    "core.fsmonitor=false",
    "-c",
    "core.safecrlf=false",
];
/// Paths come on standard input, each followed by a NUL.
pub(crate) const FROM_STDIN: [&str; 2] = ["--pathspec-from-file=-", "--pathspec-file-nul"];

/// Changes when the run is being stopped.
pub(crate) type Cancelled = watch::Receiver<u32>;

/// For what a stop waits for.
pub(crate) fn never() -> Cancelled {
    static NEVER: LazyLock<watch::Sender<u32>> = LazyLock::new(|| watch::Sender::new(0));
    NEVER.subscribe()
}

/// Runs git commands in a directory.
#[derive(Debug, Clone)]
pub(crate) struct Git {
    keeper: PathBuf,
    dir: PathBuf,
    options: Vec<&'static str>,
    env: Vec<(&'static str, OsString)>,
    /// How long a long command may take to end by itself when the run is being stopped.
    grace: Duration,
    cancelled: Cancelled,
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum GitError {
    #[error("run git")]
    Spawn(#[from] SpawnError),
    /// It was ended before it could answer.
    #[error("`git {command}` gave no answer: {why}")]
    NoAnswer { command: String, why: String },
    #[error("`git {command}` was cancelled")]
    Cancelled { command: String },
    #[error(
        "another process has locked the repository; if no git is at work there, `rm {}` unlocks it",
        shell_word(lock)
    )]
    Locked { lock: String },
    #[error(
        "`git {command}` failed: {}",
        one_line(said, limits::COMMIT_SAID_CHARS)
    )]
    Failed {
        command: String,
        code: i32,
        /// Both of its streams.
        said: String,
    },
    #[error(transparent)]
    Disk(#[from] DiskError),
    /// The state of the repository, and what helps.
    #[error("{0}")]
    Refused(String),
}

impl GitError {
    pub(crate) fn refused<T>(text: impl Into<String>) -> Result<T, Self> {
        Err(Self::Refused(text.into()))
    }

    /// The fault may pass in a moment: another process has a lock, or is making a worktree that git sees half made.
    fn may_pass(&self) -> bool {
        matches!(self, Self::Failed { said, .. } if is_half_made(said))
            || matches!(self, Self::Locked { .. })
    }
}

impl Git {
    pub(crate) fn new(keeper: PathBuf, dir: PathBuf) -> Self {
        Self {
            keeper,
            dir,
            options: ALWAYS.to_vec(),
            env: Vec::new(),
            grace: Duration::ZERO,
            cancelled: never(),
        }
    }

    /// The same in another directory.
    pub(crate) fn within(&self, dir: PathBuf) -> Self {
        Self {
            dir,
            ..self.clone()
        }
    }

    /// The same for an effect: after a crash, this mark identifies its processes.
    pub(crate) fn marked(&self, mark: &str) -> Self {
        self.with_env(TASK_MARK, mark)
    }

    /// The same, but a stop waits a moment for the command to end: a killed command may leave its locks.
    pub(crate) fn patient(self) -> Self {
        let grace = CANCELLED_GRACE;
        Self { grace, ..self }
    }

    /// The same, whose long commands end when the run is being stopped.
    pub(crate) fn until(self, cancelled: Cancelled) -> Self {
        Self { cancelled, ..self }
    }

    /// The same without hooks and watchers.
    pub(crate) fn quiet(mut self) -> Self {
        self.options.extend(QUIET);
        self
    }

    /// The same with one more variable, such as `GIT_INDEX_FILE`.
    pub(crate) fn with_env(&self, name: &'static str, value: impl Into<OsString>) -> Self {
        let mut git = self.clone();
        git.env.push((name, value.into()));
        git
    }

    /// Runs one command, its fixed words first, and returns its standard output as text.
    pub(crate) async fn run(&self, words: &str, args: &[&str]) -> Result<String, GitError> {
        self.fed(words, args, b"").await.map(lossy)
    }

    /// The same where the answer is one line.
    pub(crate) async fn line(&self, words: &str, args: &[&str]) -> Result<String, GitError> {
        Ok(self.run(words, args).await?.trim().to_owned())
    }

    /// The same with standard input, and byte for byte: paths need not be text.
    pub(crate) async fn fed(
        &self,
        words: &str,
        args: &[&str],
        input: &[u8],
    ) -> Result<Vec<u8>, GitError> {
        let output = self.quick(words, args, input).await?;
        if output.cut {
            return Err(no_answer(words, "its answer is too long"));
        }
        stdout_of(words, output)
    }

    /// Runs one command, and returns the beginning of an answer of any length as text.
    pub(crate) async fn beginning(&self, words: &str, args: &[&str]) -> Result<String, GitError> {
        let output = self.quick(words, args, b"").await?;
        stdout_of(words, output).map(lossy)
    }

    async fn quick(&self, words: &str, args: &[&str], input: &[u8]) -> Result<Output, GitError> {
        let over = tokio::time::sleep(limits::SURVEY_TIMEOUT.into());
        self.output(words, args, input, over).await
    }

    /// Runs a command that may take long, such as one that runs hooks or checks out a large tree. While
    /// another process holds git's lock or makes a worktree, it is retried for a while.
    pub(crate) async fn long(
        &self,
        words: &str,
        args: &[&str],
        input: &[u8],
    ) -> Result<String, GitError> {
        let patience = Instant::now() + Duration::from(limits::GIT_LOCK_PATIENCE);
        loop {
            let mut stopped = self.cancelled.clone();
            let over = async {
                tokio::select! {
                    _ = stopped.changed() => tokio::time::sleep(self.grace).await,
                    () = tokio::time::sleep(limits::COMMIT_TIMEOUT.into()) => {}
                }
            };
            let output = self.output(words, args, input, over).await?;
            if output.timed_out && self.cancelled.has_changed().unwrap_or(true) {
                let command = subcommand(words);
                return Err(GitError::Cancelled { command });
            }
            match stdout_of(words, output) {
                Err(error) if error.may_pass() && Instant::now() < patience => {
                    tokio::time::sleep(LOCK_PAUSE).await;
                }
                done => return done.map(lossy),
            }
        }
    }

    /// Identifies the content of files, in their order: the objects that they would be in git, and for links
    /// their targets. None for anything else, such as a deleted file or a directory.
    pub(crate) async fn contents(&self, paths: &[String]) -> Vec<Option<String>> {
        let place = |path: &String| self.dir.join(path);
        // `git hash-object` would follow a link: to another's file, or to a device without an end.
        let link = |path| Some(format!("-> {}", place(path).read_link().ok()?.display()));
        let mut contents: Vec<Option<String>> = paths.iter().map(link).collect();
        let is_file = |path: &String| {
            let found = place(path).symlink_metadata();
            found.is_ok_and(|found| found.is_file())
        };
        let files = (0..paths.len()).filter(|at| is_file(&paths[*at]));
        let files: Vec<usize> = files.collect();
        for some in files.chunks(HASHED_AT_ONCE) {
            let named: Vec<&str> = some.iter().map(|at| paths[*at].as_str()).collect();
            let mut ids = self.hash(&named).await.unwrap_or_default();
            if ids.len() != some.len() {
                // One file that cannot be hashed makes the whole command fail.
                ids.clear();
                for path in named {
                    let found = self.hash(&[path]).await.unwrap_or_default();
                    ids.push(found.into_iter().next().flatten());
                }
            }
            for (at, id) in some.iter().zip(ids) {
                contents[*at] = id;
            }
        }
        contents
    }

    /// The files that git cannot take in, such as one whose filter is not installed.
    pub(crate) async fn failing(&self, entries: &[Entry]) -> Result<BTreeSet<String>, GitError> {
        let top = self.top().await?;
        let paths: Vec<String> = entries.iter().map(Entry::shown).collect();
        let contents = self.within(top.clone()).contents(&paths).await;
        let files = paths.into_iter().zip(contents);
        let fails = |(path, content): &(String, Option<String>)| {
            content.is_none() && top.join(path).is_file()
        };
        Ok(files.filter(fails).map(|(path, _)| path).collect())
    }

    async fn hash(&self, paths: &[&str]) -> Option<Vec<Option<String>>> {
        let ids = self.run("hash-object --", paths).await.ok()?;
        Some(ids.lines().map(|id| Some(id.to_owned())).collect())
    }

    /// Which of these paths git ignores, each with the file and line of the rule.
    pub(crate) async fn ignored(&self, paths: &[&str]) -> Vec<(String, String)> {
        let asked: String = paths.iter().map(|path| format!("{path}\0")).collect();
        let ask = self.fed("check-ignore -v -z --stdin", &[], asked.as_bytes());
        // Git also reports failure if it ignores none of them.
        let told = lossy(ask.await.unwrap_or_default());
        let fields: Vec<&str> = told.split_terminator('\0').collect();
        let rules = fields.as_chunks().0.iter();
        let ignores = rules.filter(|[_, _, rule, _]| !rule.starts_with('!'));
        ignores
            .map(|[file, line, _, path]| ((*path).to_owned(), format!("{file}:{line}")))
            .collect()
    }

    /// The root of the work tree.
    pub(crate) async fn top(&self) -> Result<PathBuf, GitError> {
        let top = self.run("rev-parse --show-toplevel", &[]).await?;
        Ok(top.trim_end_matches('\n').into())
    }

    /// Where git keeps what belongs to this work tree alone.
    pub(crate) fn git_dir(&self) -> Option<PathBuf> {
        self.dir.ancestors().find_map(git_dir_of)
    }

    /// Whether this commit is checked out completely. A hook that fails after a checkout makes the command
    /// fail, not the checkout.
    pub(crate) async fn is_at(&self, commit: &str) -> bool {
        let head = self.line("rev-parse HEAD", &[]).await;
        head.is_ok_and(|head| head == commit)
            && self.run("diff-index --quiet HEAD --", &[]).await.is_ok()
    }

    /// When git last wrote the message of a commit here, which it does after the hooks that look at the files.
    pub(crate) fn message_written(&self) -> Option<SystemTime> {
        let message = self.git_dir()?.join("COMMIT_EDITMSG");
        message.metadata().ok()?.modified().ok()
    }

    /// Whether this hook is there and may run.
    pub(crate) async fn has_hook(&self, name: &str) -> bool {
        // It knows `core.hooksPath`, and what worktrees share.
        let Ok(hooks) = self.line("rev-parse --git-path hooks", &[]).await else {
            return false;
        };
        let hook = self.dir.join(hooks).join(name);
        find_program(hook.as_os_str(), OsStr::new("")).is_some()
    }

    pub(crate) async fn knows_committer(&self) -> bool {
        self.run("var GIT_COMMITTER_IDENT", &[]).await.is_ok()
    }

    async fn output(
        &self,
        words: &str,
        args: &[&str],
        input: &[u8],
        over: impl Future<Output = ()>,
    ) -> Result<Output, GitError> {
        let mut env_set = vec![
            ("GIT_TERMINAL_PROMPT".into(), "0".into()),
            ("LC_ALL".into(), "C".into()),
        ];
        let env = self.env.iter().cloned();
        env_set.extend(env.map(|(name, value)| (name.into(), value)));
        let options = self.options.iter().copied();
        let command = options.chain(words.split(' ')).chain(args.iter().copied());
        let spec = ChildSpec {
            args: command.map(OsString::from).collect(),
            env_set,
            ..ChildSpec::new(&self.keeper, "git", &self.dir)
        };
        Ok(task::run_output(spec, input, over, OUTPUT_BYTES_MAX).await?)
    }
}

/// Runs one command where there is no runtime yet.
pub(crate) fn ask(dir: &Path, words: &str, args: &[&str]) -> Result<String, GitError> {
    let command = words.split(' ').chain(args.iter().copied());
    let command: Vec<&str> = command.collect();
    let output = task::run_quick("git", &command, dir, time_of(words))?;
    stdout_of(words, output).map(lossy)
}

/// How long a command run by [`ask`] may take.
fn time_of(words: &str) -> Millis {
    match WRITING.contains(&&*subcommand(words)) {
        true => limits::COMMIT_TIMEOUT,
        false => limits::SURVEY_TIMEOUT,
    }
}

/// The standard output of a command that succeeded.
fn stdout_of(words: &str, output: Output) -> Result<Vec<u8>, GitError> {
    match output.end {
        ChildEnd::Exited(0) => Ok(output.stdout),
        _ if output.timed_out => Err(no_answer(words, "it took too long")),
        ChildEnd::Exited(code) => {
            let said = lossy([&output.stdout[..], &output.stderr].concat());
            Err(match lock_in(&lossy(output.stderr)) {
                Some(lock) => GitError::Locked { lock },
                None if said.contains(NO_FILES) => GitError::Refused(
                    "this is a bare repository, without files; work in one of its worktrees, which `git worktree add DIR` makes"
                        .to_owned(),
                ),
                None => GitError::Failed {
                    command: subcommand(words),
                    code,
                    said,
                },
            })
        }
        ChildEnd::Signaled(signal) => Err(no_answer(words, &format!("signal {signal} ended it"))),
        ChildEnd::NotStarted(error) => Err(no_answer(words, &error)),
        ChildEnd::KeeperLost => Err(no_answer(words, "its keeper was killed")),
    }
}

fn no_answer(words: &str, why: &str) -> GitError {
    GitError::NoAnswer {
        command: subcommand(words),
        why: why.to_owned(),
    }
}

/// The subcommand, after options of git itself. A word with `=` is the value of a `-c`.
fn subcommand(words: &str) -> String {
    let is_option = |word: &&str| word.starts_with('-') || word.contains('=');
    let mut words = words.split(' ').skip_while(is_option);
    words.next().unwrap_or_default().to_owned()
}

/// The lock that is in git's way: `fatal: Unable to create '/p/.git/index.lock': File exists.`
fn lock_in(said: &str) -> Option<String> {
    let (before, _) = said.split_once(".lock': File exists")?;
    let (_, path) = before.rsplit_once('\'')?;
    Some(format!("{path}.lock"))
}

/// `fatal: failed to read .git/worktrees/x/commondir: Success`: the file was still empty.
fn is_half_made(said: &str) -> bool {
    let read = said.split_once("failed to read ");
    read.is_some_and(|(_, rest)| rest.contains("worktrees/") && rest.contains("/commondir: "))
}

fn lossy(bytes: Vec<u8>) -> String {
    String::from_utf8(bytes)
        .unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    // shows: REL-18
    #[test]
    fn a_lock_in_the_way_is_named() {
        let locked =
            "fatal: Unable to create '/p q/.git/index.lock': File exists.\n\nAnother git process";
        assert_eq!(lock_in(locked).as_deref(), Some("/p q/.git/index.lock"));
        assert_eq!(lock_in("a hook failed"), None);
        let lock = lock_in(locked).unwrap();
        let told = GitError::Locked { lock }.to_string();
        assert!(told.contains("`rm '/p q/.git/index.lock'`"), "{told}");
    }

    /// A checkout that is ended in the middle leaves a mixture of two commits.
    // shows: RUN-17, TRK-10
    #[test]
    fn what_changes_files_or_a_remote_has_more_time_than_what_looks() {
        for words in ["switch --quiet", "checkout --force", "worktree add --force"] {
            assert_eq!(time_of(words), limits::COMMIT_TIMEOUT, "{words}");
        }
        let push = "-c core.askPass=true push --quiet origin";
        assert_eq!(time_of(push), limits::COMMIT_TIMEOUT);
        for words in [
            "rev-parse HEAD",
            "status --porcelain",
            "read-tree --dry-run -m",
        ] {
            assert_eq!(time_of(words), limits::SURVEY_TIMEOUT, "{words}");
        }
    }

    // shows: PLN-08
    #[test]
    fn a_worktree_that_another_git_is_making_is_known() {
        let half = "Preparing worktree (new branch 'b')\nfatal: failed to read .git/worktrees/x/commondir: Success";
        assert!(is_half_made(half));
        assert!(!is_half_made("fatal: failed to read object 1234: Success"));
    }

    #[test]
    fn a_command_is_called_by_its_name() {
        assert_eq!(subcommand("-c a.b= merge --quiet"), "merge");
    }
}
