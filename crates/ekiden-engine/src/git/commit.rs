//! Commits what a session did: exactly once, whatever crashes, and without the user's own changes.
//!
//! ```text
//! is it made already? ─► is something under way? ─► what changed ─► git add -N ─► git commit --only
//! ```
//!
//! - *Once.* A trailer in the message names the effect. After a crash we look for that trailer first, so a
//!   commit that was made but not recorded is found instead of made again.
//! - *Nothing that is the user's.* `git commit --only` takes the named paths from the work tree and leaves
//!   the rest of the index alone. Files that had changes at the start are not named. New files are first
//!   added with `git add -N`; if no commit follows, that is undone.
//! - *As git does it.* The repository's hooks run, and git's own lock guards the index. While another process
//!   holds that lock, we wait, but not forever.

use std::collections::BTreeSet;
use std::time::SystemTime;

use ekiden_core::event::Commit;
use ekiden_core::limits;
use ekiden_core::prompt::budget::{Keep, Mark, NOWHERE, cut_by_size};
use ekiden_core::settings::CommitPlan;
use ekiden_core::text::{clean, in_full, short};

use super::branch::full_name;
use super::dirty::{self, Changes};
use super::flood::{Lent, is_in};
use super::status::{Entry, Scope, pathspecs, under_way};
use super::{FROM_STDIN, Git, GitError, never};

/// The trailer by which we find a commit or a merge again.
pub(crate) const TRAILER: &str = "Ekiden-Effect";
/// The newest commits, among which we look for ours: few are made between a crash and a resume.
const NEWEST: &str = "log -n 200 -z --no-show-signature --format=%H%n%B";
/// The files of a commit, from the repository's root.
const NAMES: &str = "diff-tree --root --name-only -r -z --ignore-submodules=none";

/// The most of one line of what git or a hook said, in characters.
const SAID_LINE_CHARS_MAX: usize = 300;

pub(crate) const REFUSES_MESSAGE: &str = "the `commit-msg` hook refused ekiden's message; give it another form in the settings, such as `commit_subject = \"chore: {subject}\"`";

#[derive(Debug, Clone)]
pub struct CommitJob {
    /// The first line of the message.
    pub subject: String,
    /// What the trailer says: which effect of which run.
    pub effect: String,
    pub plan: CommitPlan,
    /// The branch that the user named, or a stage's own: commits are made only there.
    pub branch: Option<String>,
    /// The issue that the run works on, as people name it.
    pub issue: Option<String>,
    /// Its file, from the repository's root. ekiden writes its comment there, so it stays out.
    pub issue_file: Option<String>,
    /// Who worked, if another agent may take over.
    pub agent: Option<String>,
    /// It was ordered before a crash, and may already have been made then.
    pub is_repeated: bool,
    /// The worktree is the stage's own: nothing in it is the user's, not even the index.
    pub own_tree: bool,
    /// What the session should make, from the repository's root. The number of files does not matter.
    pub declared: Vec<String>,
    /// The user's files that the worktree was lent.
    pub lent: Lent,
}

/// Makes a commit, unless it already exists.
pub(crate) async fn commit(git: &Git, job: &CommitJob) -> Commit {
    match (Committer { git, job }).commit().await {
        Ok(commit) => commit,
        Err(GitError::Cancelled { .. }) => Commit::Cancelled,
        Err(error) => failed(in_full(&error), ""),
    }
}

/// The commit of an effect, if it is among the newest ones. Also none if there is no commit at all.
pub(crate) async fn find_effect(
    git: &Git,
    effect: &str,
    rev: &str,
) -> Result<Option<String>, GitError> {
    match git.run(NEWEST, &[rev, "--"]).await {
        Ok(log) => Ok(find(&log, &trailer(effect))),
        Err(GitError::Failed { .. }) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Puts the commit that is checked out onto a stage's branch. If the commit does not contain that branch, HEAD is detached
/// instead, and the answer is false. The branch that was checked out may be the user's and stays where it is. No file changes.
pub(crate) async fn return_to(git: &Git, branch: &str) -> Result<bool, GitError> {
    let (name, reason) = (full_name(branch), "ekiden: the stage worked elsewhere");
    let exists = git.run("rev-parse --quiet --verify", &[&name]).await;
    let is_behind = "merge-base --is-ancestor";
    let has_left = exists.is_ok() && git.run(is_behind, &[&name, "HEAD"]).await.is_err();
    if has_left {
        let detach = "update-ref --no-deref HEAD HEAD";
        git.long(detach, &[], b"").await?;
    } else {
        git.long("update-ref -m", &[reason, &name, "HEAD"], b"")
            .await?;
        let attach = "symbolic-ref -m";
        git.long(attach, &[reason, "HEAD", &name], b"").await?;
    }
    Ok(!has_left)
}

/// Commits the whole tree except these files and directories. A file that git no longer tracks but that is
/// still there is committed as removed.
pub(crate) async fn commit_all(
    git: &Git,
    message: &[&str],
    except: &BTreeSet<String>,
) -> Result<(), GitError> {
    let others = except.iter();
    let others = others.map(|path| format!(":(top,exclude,literal){path}"));
    let paths: Vec<String> = std::iter::once(":/".to_owned()).chain(others).collect();
    let mut args: Vec<&str> = vec!["--"];
    args.extend(paths.iter().map(String::as_str));
    git.long("add --all --sparse", &args, b"").await?;
    // An agent may have staged lent files.
    let files = except.iter().filter(|path| !path.ends_with('/'));
    let staged: Vec<String> = files.map(|path| format!(":(top,literal){path}")).collect();
    if !staged.is_empty() {
        let staged: Vec<&str> = staged.iter().map(String::as_str).collect();
        let args = [&["--"][..], &staged].concat();
        git.long("reset --quiet", &args, b"").await?;
    }
    let done = git.long("commit --quiet", message, b"");
    done.await.map(drop)
}

/// The end of the output, if a hook refused what is in the commit. Git then ends with 1, and also if there is nothing
/// to commit, which the caller has ruled out. It ends with 128 without an identity, a lock, a signature or room. If
/// git has written the message since `before`, a hook refused the message, which no session writes.
pub(crate) async fn refusal(
    git: &Git,
    error: &GitError,
    before: Option<SystemTime>,
) -> Option<String> {
    let GitError::Failed {
        command,
        code: 1,
        said,
    } = error
    else {
        return None;
    };
    let refused =
        command == "commit" && git.message_written() == before && git.has_hook("pre-commit").await;
    refused.then(|| excerpt(said))
}

/// Whether the hook that checks the message refused the commit.
pub(crate) async fn refuses_message(
    git: &Git,
    error: &GitError,
    before: Option<SystemTime>,
) -> bool {
    let is_of_hook =
        matches!(error, GitError::Failed { command, code: 1, .. } if command == "commit");
    is_of_hook && git.message_written() != before && git.has_hook("commit-msg").await
}

pub(crate) fn trailer(effect: &str) -> String {
    format!("{TRAILER}: {effect}")
}

/// The newest commit whose message has this line, in `id, line end, message, NUL`.
fn find(log: &str, line: &str) -> Option<String> {
    let messages = log.split('\0').filter_map(|entry| entry.split_once('\n'));
    let mut ours =
        messages.filter(|(_, message)| message.lines().any(|said| said.trim_end() == line));
    ours.next().map(|(id, _)| id.to_owned())
}

struct Committer<'a> {
    git: &'a Git,
    job: &'a CommitJob,
}

impl Committer<'_> {
    async fn commit(&self) -> Result<Commit, GitError> {
        if self.job.is_repeated
            && let Some(id) = self.find().await?
        {
            return self.made(&id, Vec::new(), None).await;
        }
        if let Some(what) = self.git.git_dir().and_then(|dir| under_way(&dir)) {
            return Ok(failed(format!("{what} is under way"), ""));
        }
        let (declared, lent) = (&self.job.declared, &self.job.lent);
        let scope = match self.job.own_tree {
            true => Scope::Everything,
            false => Scope::Dir,
        };
        let mut changes = dirty::changes(self.git, scope, &self.job.plan, declared, lent).await?;
        let issue = self.job.issue_file.as_ref();
        changes.entries.retain(|it| issue != Some(&it.shown()));
        if let Some(branch) = &self.job.branch
            && changes.branch.as_ref() != Some(branch)
        {
            if !self.job.own_tree {
                return Ok(self.elsewhere(branch, changes.branch).await);
            }
            return_to(self.git, branch).await?;
        }
        if let Some(file) = self.unresolved(&changes.entries).await {
            let why = format!("`{file}` has conflicts that are not resolved");
            return Ok(failed(why, ""));
        }
        // `git add --all` would add a nested repository as a mere name.
        let takes_all = self.job.own_tree && !changes.has_repositories;
        if !takes_all {
            self.leave_out_replaced(&mut changes.entries).await?;
        }
        if changes.entries.is_empty() {
            let left_out = changes.left_out;
            return Ok(Commit::Nothing { left_out });
        }
        let issue = self.job.issue.as_ref();
        let issue = issue.map(|issue| format!("Issue: {issue}\n"));
        let agent = self.job.agent.as_ref();
        let agent = agent.map(|agent| format!("Ekiden-Agent: {agent}\n"));
        let trailers = issue.unwrap_or_default() + &agent.unwrap_or_default();
        let trailer = trailers + &trailer(&self.job.effect);
        let message = ["-m", &self.job.subject, "-m", &trailer];
        let before = self.git.message_written();
        let on = changes.branch.as_deref().unwrap_or("HEAD");
        let begun = self.job.plan.branch.as_deref();
        let elsewhere = begun.filter(|begun| *begun != on).map(|_| on.to_owned());
        let result = if takes_all {
            commit_all(self.git, &message, &changes.stays_out).await
        } else {
            match self.commit_only(&message, &changes.entries).await {
                Err(GitError::Failed { code: 128, .. }) if self.leave_out(&mut changes).await? => {
                    self.commit_only(&message, &changes.entries).await
                }
                done => done,
            }
        };
        match result {
            Ok(()) => self.made("HEAD", changes.left_out, elsewhere).await,
            // Git may have been stopped just after it made the commit.
            Err(error) => match self.find().await? {
                Some(id) => self.made(&id, changes.left_out, elsewhere).await,
                None => self.refused(error, changes, before).await,
            },
        }
    }

    /// No commit, since another branch than the run's is checked out.
    async fn elsewhere(&self, branch: &str, found: Option<String>) -> Commit {
        let exists = "rev-parse --quiet --verify";
        match self.git.run(exists, &[&full_name(branch)]).await {
            Ok(_) => Commit::Elsewhere {
                branch: branch.to_owned(),
                found,
            },
            Err(_) => failed(
                format!(
                    "its branch `{branch}` is gone; `git switch --create {branch}` makes it again here"
                ),
                "",
            ),
        }
    }

    /// A file with the markers of a conflict, such as one from the stash. To resolve it, it is enough to remove them:
    /// git need not be told.
    async fn unresolved(&self, entries: &[Entry]) -> Option<String> {
        for entry in entries.iter().filter(|entry| entry.is_unmerged) {
            let place = format!(":(top,literal){}", entry.shown());
            let args = ["^<<<<<<< ", "--", &place];
            if self.git.run("grep --quiet -e", &args).await.is_ok() {
                return Some(entry.shown());
            }
        }
        None
    }

    /// Leaves out what git calls deleted although something is there. Git would commit what is there. It drops such
    /// a name by itself when it takes in a directory or a link in its way; a file that was only taken out of the index
    /// stays taken out, for the user to commit.
    async fn leave_out_replaced(&self, entries: &mut Vec<Entry>) -> Result<(), GitError> {
        if entries.iter().any(Entry::is_deleted) {
            let top = self.git.top().await?;
            let is_there = |entry: &Entry| entry.place(&top).symlink_metadata().is_ok();
            entries.retain(|entry| !(entry.is_deleted() && is_there(entry)));
        }
        Ok(())
    }

    async fn commit_only(&self, message: &[&str], entries: &[Entry]) -> Result<(), GitError> {
        let (git, new, paths) = (self.git, pathspecs(untracked(entries)), pathspecs(entries));
        if !new.is_empty() {
            let add = "add --intent-to-add --sparse";
            git.long(add, &FROM_STDIN, &new).await?;
        }
        let args = [message, &FROM_STDIN].concat();
        let done = git.long("commit --quiet --only", &args, &paths);
        done.await.map(drop)
    }

    /// Leaves out the files that git cannot take in, such as one whose filter is not installed, if there are others.
    async fn leave_out(&self, changes: &mut Changes) -> Result<bool, GitError> {
        let failing = self.git.failing(&changes.entries).await?;
        if failing.is_empty() || failing.len() == changes.entries.len() {
            return Ok(false);
        }
        self.forget(&changes.entries).await;
        changes.entries.retain(|entry| !is_in(entry, &failing));
        changes.left_out.extend(failing);
        Ok(true)
    }

    /// Takes new files out of the index again. Below the root, `git rm` takes no paths from standard input.
    async fn forget(&self, entries: &[Entry]) {
        let new = pathspecs(untracked(entries));
        if !new.is_empty()
            && let Ok(top) = self.git.top().await
        {
            let forget = "rm --cached --sparse --force --quiet --ignore-unmatch";
            // At worst the names stay in the index; the next commit takes them in.
            let _ = self.git.within(top).fed(forget, &FROM_STDIN, &new).await;
        }
    }

    async fn refused(
        &self,
        error: GitError,
        changes: Changes,
        before: Option<SystemTime>,
    ) -> Result<Commit, GitError> {
        let (entries, left_out) = (changes.entries, changes.left_out);
        let commit = match &error {
            GitError::Failed {
                command, code: 1, ..
            } if command == "commit" && self.is_nothing(&entries).await => {
                Ok(Commit::Nothing { left_out })
            }
            GitError::Failed { .. } if !self.git.knows_committer().await => Ok(failed(
                "git has no name and email for you; set them: `git config --global user.name NAME`, `git config --global user.email ADDRESS`"
                    .to_owned(),
                "",
            )),
            GitError::Failed { code, said, .. } => Ok(match refusal(self.git, &error, before).await {
                Some(tail) => Commit::Refused { tail },
                None if refuses_message(self.git, &error, before).await => {
                    failed(REFUSES_MESSAGE.to_owned(), said)
                }
                None => failed(format!("git or a hook refused it (exit code {code})"), said),
            }),
            GitError::Spawn(_)
            | GitError::NoAnswer { .. }
            | GitError::Cancelled { .. }
            | GitError::Locked { .. }
            | GitError::Disk(_)
            | GitError::Refused(_) => Err(error),
        };
        self.forget(&entries).await;
        commit
    }

    /// Git would commit none of the differences, such as a mode that it ignores.
    async fn is_nothing(&self, entries: &[Entry]) -> bool {
        let dry_run = "commit --dry-run --quiet --only";
        let asked = self
            .git
            .fed(dry_run, &FROM_STDIN, &pathspecs(entries))
            .await;
        matches!(asked, Err(GitError::Failed { code: 1, .. }))
    }

    async fn made(
        &self,
        commit: &str,
        left_out: Vec<String>,
        elsewhere: Option<String>,
    ) -> Result<Commit, GitError> {
        let (git, id) = (self.git, self.git.line("rev-parse", &[commit]).await?);
        let names = git.fed(NAMES, &["--no-commit-id", &id, "--"], b"").await?;
        // The index may lack what is committed: a hook changed and staged files, also others, or git was killed after
        // it moved HEAD. Without names, git would reset the whole index.
        if !names.is_empty() {
            let all = git.within(git.top().await?).until(never());
            let reset = "--literal-pathspecs reset --quiet";
            let _ = all.long(reset, &FROM_STDIN, &names).await;
        }
        let files = names.iter().filter(|byte| **byte == 0).count();
        Ok(Commit::Made {
            id,
            files: u32::try_from(files).unwrap_or(u32::MAX),
            elsewhere,
            left_out,
        })
    }

    async fn find(&self) -> Result<Option<String>, GitError> {
        find_effect(self.git, &self.job.effect, "HEAD").await
    }
}

fn untracked(entries: &[Entry]) -> impl Iterator<Item = &Entry> {
    entries.iter().filter(|entry| entry.is_untracked())
}

/// No commit, with what git said.
fn failed(error: String, said: &str) -> Commit {
    let tail = excerpt(said);
    Commit::Failed { error, tail }
}

/// The beginning and the end of what was said: the reason may be in either.
fn excerpt(said: &str) -> String {
    let said = clean(said.trim_end()).text;
    let lines = said
        .lines()
        .map(|line| short(line, SAID_LINE_CHARS_MAX) + "\n");
    let (max, mark) = (limits::COMMIT_SAID_CHARS, Mark::new("", NOWHERE));
    let chars = |text: &str| text.chars().count();
    let kept = cut_by_size(&lines.collect::<String>(), max, Keep::Ends, mark, chars);
    kept.trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    // shows: REL-18, DUR-01
    #[test]
    fn only_the_whole_trailer_finds_a_commit() {
        let log = "aaa\nother\n\nEkiden-Effect: 7f3a0b1c/12.1\n\0bbb\nekiden: session 3 checkpoint\n\n\
                   Change-Id: I1\nEkiden-Effect: 7f3a0b1c/2.1\n\0";
        assert_eq!(
            find(log, "Ekiden-Effect: 7f3a0b1c/2.1").as_deref(),
            Some("bbb")
        );
        assert_eq!(find(log, "Ekiden-Effect: 7f3a0b1c/2"), None);
        assert_eq!(find("", "Ekiden-Effect: 7f3a0b1c/2.1"), None);
    }

    // shows: REL-18
    #[test]
    fn what_git_and_hooks_said_is_bounded() {
        assert_eq!(
            excerpt("one\ntwo\n\u{1b}[31mthree\u{1b}[m\n"),
            "one\ntwo\nthree"
        );
        let noise = "word\n".repeat(1000) + &"x".repeat(10_000);
        let long = excerpt(&format!("lint: a.txt has blanks\n{noise}\nlast\n"));
        assert!(long.starts_with("lint: a.txt has blanks\n") && long.ends_with("\nlast"));
        assert!(long.contains(" lines left out here]\n"), "{long}");
        assert!(long.chars().count() <= limits::COMMIT_SAID_CHARS);
    }
}
