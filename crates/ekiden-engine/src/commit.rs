//! Commits what a session did: once, whatever dies when, and nothing of the person's own.
//!
//! ```text
//! is it made already? ─► is git in the middle of something? ─► what changed ─► git add -N ─► git commit --only
//! ```
//!
//! - *Once.* The message names the effect in a trailer. Whoever settles the effect after a crash looks
//!   for that first, so a commit that was made and not recorded is found and not made again.
//! - *Nothing of the person's.* `git commit --only` takes the named paths from the work tree and leaves
//!   what is staged of others as it is; what had changes at the start is not named. New files are named
//!   to git before, and that is taken back if there is no commit.
//! - *As git does it.* The repository's hooks run, with git's own lock on the index, so nobody else can
//!   commit meanwhile. Where somebody else holds it, we wait, but not for ever.

use std::ffi::OsStr;
use std::path::Path;
use std::time::Duration;

use ekiden_agent::child::ChildEnd;
use ekiden_agent::task::Output;
use ekiden_core::event::Commit;
use ekiden_core::ids::SessionNumber;
use ekiden_core::limits;
use ekiden_core::settings::CommitPlan;
use ekiden_core::text::one_line;
use tokio::sync::watch;
use tokio::time::Instant;

use crate::changes::{self, Change, Take};
use crate::error::in_full;
use crate::git::{Git, GitError};

/// By which a commit or a merge is found again.
pub(crate) const TRAILER: &str = "Ekiden-Effect";
/// The newest commits, in which ours is looked for: few are made between a crash and a resume.
const NEWEST: &[&str] = &["log", "-n", "200", "-z", "--no-show-signature", "--format=%H%n%B"];
/// The newest one, its message, and its files.
const OURS: &[&str] = &["diff-tree", "--root", "-r", "-z", "--name-only", "--format=%H%n%B%x00", "HEAD"];
/// The pause between two tries to get the lock.
const LOCK_PAUSE: Duration = Duration::from_millis(300);
/// Paths come on standard input, each with a NUL behind it.
const FROM_STDIN: &str = "--pathspec-from-file=-";
const WITH_NUL: &str = "--pathspec-file-nul";
const LOCKED: &str = "another process has locked the repository; if none is at work in it, remove the lock";
/// What git leaves in its directory while it is in the middle of something.
pub(crate) const UNDER_WAY: &[(&str, &str)] = &[
    ("MERGE_HEAD", "a merge"),
    ("CHERRY_PICK_HEAD", "a cherry-pick"),
    ("REVERT_HEAD", "a revert"),
    ("rebase-merge", "a rebase"),
    ("rebase-apply", "a rebase"),
];

/// A commit to be made.
#[derive(Debug, Clone)]
pub struct CommitJob {
    /// The session that is over.
    pub session: SessionNumber,
    /// What the trailer says: which effect of which run.
    pub effect: String,
    /// What stays out.
    pub plan: CommitPlan,
    /// An earlier engine may have made it.
    pub is_repeated: bool,
    /// The worktree is the stage's own: nothing in it is a person's, not even the index.
    pub own_tree: bool,
}

/// Makes a commit, unless it is made already. Ends soon after `cancelled` changes.
pub(crate) async fn commit(git: &Git, job: &CommitJob, cancelled: watch::Receiver<u32>) -> Commit {
    let until = Instant::now() + Duration::from(limits::COMMIT_TIMEOUT);
    let mut work = Work { git, job, cancelled, until };
    match work.commit().await {
        Ok(commit) => commit,
        Err(error) => failed(in_full(&error), ""),
    }
}

struct Work<'a> {
    git: &'a Git,
    job: &'a CommitJob,
    cancelled: watch::Receiver<u32>,
    until: Instant,
}

impl Work<'_> {
    async fn commit(&mut self) -> Result<Commit, GitError> {
        if self.job.is_repeated
            && let Some(id) = self.made().await?
        {
            return self.tell(id, Vec::new()).await;
        }
        let (state, taken) = tokio::join!(state(self.git), changes::take(self.git, &self.job.plan));
        let (under_way, has_hooks) = state?;
        if let Some(what) = under_way {
            return Ok(failed(format!("{what} is under way"), ""));
        }
        let Take { changes, left_out, nested } = taken?;
        if changes.is_empty() {
            return Ok(Commit::Nothing { left_out });
        }
        // A repository within would be added as a mere name.
        if self.job.own_tree && !nested {
            return self.commit_all(&changes).await;
        }
        let new: Vec<Change> = changes.iter().filter(|change| change.untracked).cloned().collect();
        let new = pathspecs(&new);
        let why = match self.name(&new).await? {
            None => match self.make(&pathspecs(&changes), has_hooks).await? {
                None => return self.tell_new(left_out).await,
                Some(why) => why,
            },
            Some(why) => why,
        };
        let commit = self.explain(&why, &pathspecs(&changes), left_out).await?;
        // Git may have been told to end when the commit was just made: then it knows the files.
        if !matches!(commit, Commit::Made { .. }) {
            self.forget(&new).await;
        }
        Ok(commit)
    }

    /// Commits the tree as it is: also that a file is no longer git's, though it is still there.
    async fn commit_all(&mut self, changes: &[Change]) -> Result<Commit, GitError> {
        let message = self.message();
        let args = [&["commit", "--quiet"], &message.each_ref().map(String::as_str)[..]].concat();
        let why = match self.patiently(&["add", "--all"], b"").await? {
            None => self.patiently(&args, b"").await?,
            added => added,
        };
        match why {
            None => self.tell_new(Vec::new()).await,
            Some(why) => self.explain(&why, &pathspecs(changes), Vec::new()).await,
        }
    }

    fn message(&self) -> [String; 4] {
        let subject = format!("ekiden: session {} checkpoint", self.job.session);
        ["-m".to_owned(), subject, "-m".to_owned(), self.trailer()]
    }

    /// Names new files to git, as `commit --only` wants it. None: it worked.
    async fn name(&mut self, new: &[u8]) -> Result<Option<Output>, GitError> {
        if new.is_empty() {
            return Ok(None);
        }
        self.patiently(&["add", "--intent-to-add", FROM_STDIN, WITH_NUL], new).await
    }

    /// Takes back what [`Self::name`] did. The files themselves stay.
    async fn forget(&self, new: &[u8]) {
        if !new.is_empty() {
            let args = ["rm", "--cached", "--force", "--quiet", "--ignore-unmatch", FROM_STDIN, WITH_NUL];
            // At worst the names stay known; the next commit takes them in.
            let _ = self.git.fed(&args, new, tokio::time::sleep(limits::SURVEY_TIMEOUT.into())).await;
        }
    }

    async fn make(&mut self, paths: &[u8], has_hooks: bool) -> Result<Option<Output>, GitError> {
        let message = self.message();
        let message = message.each_ref().map(String::as_str);
        let args = [&["commit", "--quiet", "--only"], &message[..], &[FROM_STDIN, WITH_NUL]].concat();
        let refused = self.patiently(&args, paths).await?;
        if refused.is_none() && has_hooks {
            // A hook may have changed and staged files: what is committed is what the index says.
            let args = ["reset", "--quiet", FROM_STDIN, WITH_NUL];
            let _ = self.git.fed(&args, paths, tokio::time::sleep(limits::SURVEY_TIMEOUT.into())).await;
        }
        Ok(refused)
    }

    /// Runs a command that needs git's locks, again and again while somebody else has them. None: it
    /// worked; else what it said at last.
    async fn patiently(&mut self, args: &[&str], input: &[u8]) -> Result<Option<Output>, GitError> {
        let patience = Instant::now() + Duration::from(limits::GIT_LOCK_PATIENCE);
        loop {
            let output = self.git.fed(args, input, over(self.cancelled.clone(), self.until)).await?;
            if output.end == ChildEnd::Exited(0) {
                return Ok(None);
            }
            if output.timed_out || !is_locked(&output) || Instant::now() >= patience {
                return Ok(Some(output));
            }
            tokio::time::sleep(LOCK_PAUSE).await;
        }
    }

    /// Why there is no commit, or that there is one after all: git may have been told to end when it
    /// had just made it.
    async fn explain(&self, said: &Output, paths: &[u8], left_out: Vec<String>) -> Result<Commit, GitError> {
        if let Some(id) = self.made().await? {
            return self.tell(id, left_out).await;
        }
        let tail = tail(said);
        Ok(match &said.end {
            _ if said.timed_out && Instant::now() < self.until => Commit::Cancelled,
            _ if said.timed_out => {
                failed(format!("it took longer than {}, hooks included", limits::COMMIT_TIMEOUT), &tail)
            }
            _ if is_locked(said) => failed(LOCKED.to_owned(), &lock_of(said)),
            ChildEnd::Exited(1) if self.is_nothing(paths).await? => Commit::Nothing { left_out },
            ChildEnd::Exited(_) if self.git.run(&["var", "GIT_COMMITTER_IDENT"]).await.is_err() => failed(
                "git does not know who you are; `git config --global user.name` and `user.email` say it"
                    .to_owned(),
                "",
            ),
            ChildEnd::Exited(code) => failed(format!("git or a hook refused it (exit code {code})"), &tail),
            ChildEnd::Signaled(signal) => failed(format!("signal {signal} ended git"), &tail),
            ChildEnd::NotStarted(error) => failed(error.clone(), &tail),
            ChildEnd::KeeperLost => failed("git's keeper was killed".to_owned(), &tail),
        })
    }

    /// What differs is no content that git would commit, such as a mode that it does not heed.
    async fn is_nothing(&self, paths: &[u8]) -> Result<bool, GitError> {
        let args = ["commit", "--dry-run", "--quiet", "--only", FROM_STDIN, WITH_NUL];
        let over = tokio::time::sleep(limits::SURVEY_TIMEOUT.into());
        Ok(self.git.fed(&args, paths, over).await?.end == ChildEnd::Exited(1))
    }

    /// The commit that was made just now. A hook may have made another one behind it, or dropped the trailer;
    /// then it is the newest.
    async fn tell_new(&self, left_out: Vec<String>) -> Result<Commit, GitError> {
        let newest = self.git.run(OURS).await?;
        if let Some((commit, files)) = newest.split_once('\0')
            && let Some(id) = find(commit, &self.trailer())
        {
            return Ok(Commit::Made { id, files: count(files), left_out });
        }
        let id = match self.made().await? {
            Some(id) => id,
            None => self.git.line(&["rev-parse", "HEAD"]).await?,
        };
        self.tell(id, left_out).await
    }

    async fn tell(&self, id: String, left_out: Vec<String>) -> Result<Commit, GitError> {
        let args = ["diff-tree", "--root", "--no-commit-id", "--name-only", "-r", "-z", &id];
        let files = count(&self.git.run(&args).await?);
        Ok(Commit::Made { id, files, left_out })
    }

    fn trailer(&self) -> String {
        format!("{TRAILER}: {}", self.job.effect)
    }

    /// The commit with our trailer. A repository without any commit has none.
    async fn made(&self) -> Result<Option<String>, GitError> {
        match self.git.run(NEWEST).await {
            Ok(log) => Ok(find(&log, &self.trailer())),
            Err(GitError::Failed { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }
}

/// What git is in the middle of, if anything: a commit would become a part of it. And whether the repository
/// has hooks.
async fn state(git: &Git) -> Result<(Option<&'static str>, bool), GitError> {
    let question =
        [&["rev-parse", "--path-format=absolute", "--git-path", "hooks"], &under_way_question()[2..]];
    let paths = git.run(&question.concat()).await?;
    let (hooks, under_way) = paths.split_once('\n').unwrap_or_default();
    Ok((under_way_in(under_way), has_hooks(Path::new(hooks))))
}

/// What git puts there itself are samples, which do nothing.
fn has_hooks(dir: &Path) -> bool {
    let is_sample = |name: &OsStr| name.as_encoded_bytes().ends_with(b".sample");
    dir.read_dir().is_ok_and(|entries| entries.flatten().any(|entry| !is_sample(&entry.file_name())))
}

/// Asks git where it would leave what it is in the middle of.
pub(crate) fn under_way_question() -> Vec<&'static str> {
    let names = UNDER_WAY.iter().flat_map(|(name, _)| ["--git-path", name]);
    ["rev-parse", "--path-format=absolute"].into_iter().chain(names).collect()
}

/// What of it is there.
pub(crate) fn under_way_in(paths: &str) -> Option<&'static str> {
    let mut found = paths.lines().zip(UNDER_WAY).filter(|(path, _)| Path::new(path).exists());
    found.next().map(|(_, (_, what))| *what)
}

/// When a commit is to end: it is not wanted any more, or its time is over.
async fn over(mut cancelled: watch::Receiver<u32>, until: Instant) {
    tokio::select! {
        _ = cancelled.changed() => {}
        () = tokio::time::sleep_until(until) => {}
    }
}

/// The newest commit whose message has this line, of `id, line end, message, NUL`.
fn find(log: &str, line: &str) -> Option<String> {
    let messages = log.split('\0').filter_map(|entry| entry.split_once('\n'));
    let mut ours = messages.filter(|(_, message)| message.lines().any(|said| said.trim_end() == line));
    ours.next().map(|(id, _)| id.to_owned())
}

/// The paths as git takes them word for word, from the repository's root.
fn pathspecs(changes: &[Change]) -> Vec<u8> {
    let mut text = Vec::new();
    for change in changes {
        text.extend_from_slice(b":(top,literal)");
        text.extend_from_slice(&change.path);
        text.push(0);
    }
    text
}

fn is_locked(output: &Output) -> bool {
    !lock_of(output).is_empty()
}

/// The line in which git names the lock that is in its way.
fn lock_of(output: &Output) -> String {
    let said = String::from_utf8_lossy(&output.stderr);
    let mut lines = said.lines().filter(|line| line.contains(".lock': File exists"));
    one_line(lines.next().unwrap_or_default(), limits::COMMIT_TAIL_CHARS)
}

/// Names, each with a NUL behind it, and perhaps an empty line before them.
fn count(names: &str) -> u32 {
    u32::try_from(names.split('\0').filter(|name| !name.is_empty()).count()).unwrap_or(u32::MAX)
}

fn failed(error: String, tail: &str) -> Commit {
    Commit::Failed { error, tail: tail.to_owned() }
}

/// The last lines of what git and the hooks said.
fn tail(output: &Output) -> String {
    let said = [&output.stdout[..], &output.stderr].concat();
    let text = String::from_utf8_lossy(&said);
    let lines: Vec<&str> = text.trim_end().lines().collect();
    let kept = lines[lines.len().saturating_sub(limits::COMMIT_TAIL_LINES)..].join("\n");
    ekiden_core::text::short(&ekiden_core::text::clean(&kept).text, limits::COMMIT_TAIL_CHARS)
}

#[cfg(test)]
mod tests {
    use super::*;

    // shows: REL-18, DUR-01
    #[test]
    fn only_the_whole_trailer_finds_a_commit() {
        let log = "aaa\nother\n\nEkiden-Effect: 7f3a0b1c/12.1\n\0bbb\nekiden: session 3 checkpoint\n\n\
                   Change-Id: I1\nEkiden-Effect: 7f3a0b1c/2.1\n\0";
        assert_eq!(find(log, "Ekiden-Effect: 7f3a0b1c/2.1").as_deref(), Some("bbb"));
        assert_eq!(find(log, "Ekiden-Effect: 7f3a0b1c/2"), None);
        assert_eq!(find("", "Ekiden-Effect: 7f3a0b1c/2.1"), None);
    }

    // shows: REL-18
    #[test]
    fn what_git_and_hooks_said_is_bounded() {
        let output = |stdout: &str, stderr: &str| Output {
            end: ChildEnd::Exited(1),
            stdout: stdout.as_bytes().to_vec(),
            stderr: stderr.as_bytes().to_vec(),
            cut: false,
            timed_out: false,
        };
        assert_eq!(tail(&output("one\n", "two\n\u{1b}[31mthree\u{1b}[m\n")), "one\ntwo\nthree");
        let long = tail(&output(&"word\n".repeat(1000), &"x".repeat(10_000)));
        assert!(long.lines().count() <= limits::COMMIT_TAIL_LINES);
        assert!(long.chars().count() <= limits::COMMIT_TAIL_CHARS);
        let locked = "fatal: Unable to create '/p/.git/index.lock': File exists.\n\nAnother git process";
        assert!(is_locked(&output("", locked)) && !is_locked(&output(locked, "a hook failed")));
    }
}
