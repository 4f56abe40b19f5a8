//! Work in progress into a commit that is in nobody's way.
//!
//! ```text
//! read-tree HEAD ─► add what differs ─► write-tree ─► commit-tree ─► update-ref refs/ekiden/wip/<session>
//! └──────────── in an index of our own ───────────┘
//! ```
//!
//! - *The person's stays.* Branch, index and files are not touched; no hook runs, since a checkpoint must
//!   neither wait for tests nor be refused. A merge under way, a locked index and a repository without a
//!   commit make no difference.
//! - *New files too*, but for what git ignores, what is ekiden's own, repositories inside, and files too
//!   large to keep in every version. What is not in it is told.
//! - *Once.* The same work on the same commit is the commit that is there. Earlier ones stay in the ref's
//!   reflog.
//! - *Bring it back*: `git checkout refs/ekiden/wip/<session> -- .`
//!
//! With [`Wip::Branch`] the commit is made on the branch, by git's own index. Where that is not possible
//! (a merge, a lock, no name to commit under) it goes under the ref, and that is told.
//!
//! WHY not `git stash create`: it leaves new files out, and fails in the middle of a merge. WHY not a copy
//! of the index: git tells by the index's own time which of its entries may be out of date, and a copy
//! has another.

use std::path::Path;

use ekiden_agent::child::ChildEnd;
use ekiden_agent::task::Output;
use ekiden_core::guard::checkpoint::{Wip, issue_of_branch, wip_subject};
use ekiden_core::guard::document::WipState;
use ekiden_core::limits;
use ekiden_core::text::one_line;
use ekiden_store::archive::ensure_dir;
use ekiden_store::disk::{Disk, DiskResult, RealDisk, parent};
use ekiden_store::layout::StateLayout;

use super::tree::{self, Entry, Looked};
use crate::error::in_full;
use crate::git::{Git, GitError};
use crate::workspace::Workspace;

/// What is to be kept, and where.
pub(super) struct Job<'a> {
    pub(super) disk: &'a RealDisk,
    pub(super) state: &'a StateLayout,
    /// The last part of the ref.
    pub(super) name: String,
    pub(super) wip: Wip,
    /// The issue, if it is known otherwise than by the branch.
    pub(super) issue: Option<&'a str>,
}

/// What was kept.
pub(super) struct Kept {
    pub(super) state: WipState,
    /// The tree of it: another one, and the work has gone on.
    pub(super) tree: Option<String>,
}

/// Hooks do not run, and no watcher is asked.
const QUIETLY: [&str; 4] = ["-c", "core.hooksPath=/dev/null", "-c", "core.fsmonitor=false"];
/// Git's own words, in characters.
const WORDS_CHARS_MAX: usize = 160;
/// A part of a ref's name, in characters.
const NAME_CHARS_MAX: usize = 64;
/// Who commits under the ref where git does not know the person.
const NOBODY: [(&str, &str); 4] = [
    ("GIT_AUTHOR_NAME", "ekiden"),
    ("GIT_AUTHOR_EMAIL", "ekiden@localhost"),
    ("GIT_COMMITTER_NAME", "ekiden"),
    ("GIT_COMMITTER_EMAIL", "ekiden@localhost"),
];

/// The last part of the ref: the session, or the work tree where no session asks.
pub(super) fn name(session: Option<&str>, workspace: &Workspace) -> String {
    let worktree = workspace.git.as_ref().and_then(|git| git.worktree.as_deref());
    let whole = match (session, worktree) {
        (Some(session), _) => session.to_owned(),
        (None, Some(worktree)) => format!("manual-{worktree}"),
        (None, None) => "manual".to_owned(),
    };
    let plain = |c: char| if c.is_ascii_alphanumeric() || c == '-' { c } else { '_' };
    let name: String = whole.chars().map(plain).take(NAME_CHARS_MAX).collect();
    if name.is_empty() { "manual".to_owned() } else { name }
}

/// Keeps what is not committed. Whatever fails is in the state.
pub(super) async fn keep(git: &Git, job: &Job<'_>, looked: &Looked) -> Kept {
    if job.wip == Wip::Off {
        return Kept { state: WipState::Off, tree: None };
    }
    if looked.entries.is_empty() {
        return Kept { state: WipState::Clean, tree: None };
    }
    let knows_person = git.run(&["var", "GIT_COMMITTER_IDENT"]).await.is_ok();
    let mut note = None;
    if job.wip == Wip::Branch {
        match on_branch(git, job, looked, knows_person).await {
            Ok(commit) => return commit,
            Err(why) => note = Some(format!("It is not on the branch: {why}")),
        }
    }
    let named = NOBODY.iter().fold(git.clone(), |git, (name, value)| git.with_env(name, *value));
    let git = if knows_person { git } else { &named };
    let kept = under_ref(git, job, looked, note).await;
    kept.unwrap_or_else(|why| Kept { state: WipState::Failed { why }, tree: None })
}

/// What goes into a commit, and what does not.
struct Choice {
    /// Paths as git reads them, each with a NUL behind it.
    pathspecs: Vec<u8>,
    left_out: Vec<String>,
}

impl Choice {
    fn of(entries: &[Entry], top: &Path) -> Self {
        let mut choice = Self { pathspecs: Vec::new(), left_out: Vec::new() };
        for entry in entries.iter().filter(|entry| !entry.only_staged) {
            let why_not = why_not(entry, top);
            if entry.dirty_submodule {
                choice.left_out.push(format!("{} (what is changed inside the submodule)", entry.shown()));
            }
            match why_not {
                Some(why) => choice.left_out.push(format!("{} ({why})", entry.shown())),
                None => {
                    choice.pathspecs.extend_from_slice(b":(top,literal)");
                    choice.pathspecs.extend_from_slice(&entry.path);
                    choice.pathspecs.push(0);
                }
            }
        }
        choice
    }
}

fn why_not(entry: &Entry, top: &Path) -> Option<String> {
    if !entry.untracked {
        return None;
    }
    if entry.path.ends_with(b"/") {
        return Some("a repository of its own, or too many new files".to_owned());
    }
    let length = top.join(entry.shown()).symlink_metadata().ok()?.len();
    (length > limits::WIP_FILE_BYTES_MAX).then(|| format!("{} MB", length / (1024 * 1024)))
}

/// Makes a commit on the branch, or says why not.
async fn on_branch(git: &Git, job: &Job<'_>, looked: &Looked, knows_person: bool) -> Result<Kept, String> {
    if let Some(what) = looked.under_way() {
        return Err(format!("{what} is under way"));
    }
    if looked.branch().is_none() {
        return Err("no branch is checked out".to_owned());
    }
    if !knows_person {
        return Err("git does not know who you are".to_owned());
    }
    let choice = Choice::of(&looked.entries, &top(git).await.map_err(|error| in_full(&error))?);
    add(git, &choice).await.map_err(|why| why.told)?;
    let subject = subject(job, looked);
    let args = ["-c", "commit.gpgSign=false", "commit", "--quiet", "--no-verify", "-m", &subject];
    quietly(git, &args).await?;
    let commit = quietly(git, &["rev-parse", "HEAD"]).await?;
    let tree = quietly(git, &["rev-parse", "HEAD^{tree}"]).await?;
    let state = WipState::Saved { commit, name: None, note: None, left_out: choice.left_out };
    Ok(Kept { state, tree: Some(tree) })
}

/// Makes a commit under the ref.
async fn under_ref(git: &Git, job: &Job<'_>, looked: &Looked, note: Option<String>) -> Result<Kept, String> {
    let index = job.state.wip_index(&job.name);
    clear(job.disk, &index).map_err(|error| in_full(&error))?;
    let indexed = git.clone().with_env("GIT_INDEX_FILE", index.as_os_str());
    let made = written(&indexed, looked).await;
    // What is left behind is removed by the next checkpoint.
    let _ = clear(job.disk, &index);
    let Written { tree, left_out, unread } = made?;
    if let Some(head) = &looked.head_id
        && quietly(git, &["rev-parse", &format!("{head}^{{tree}}")]).await? == tree
    {
        let state = match left_out.first() {
            None => WipState::Clean,
            Some(first) => WipState::Failed { why: format!("none of it goes into a commit: {first}") },
        };
        return Ok(Kept { state, tree: Some(tree) });
    }
    let name = format!("refs/ekiden/wip/{}", job.name);
    let commit = match standing(git, &name, &tree, looked).await {
        Some(commit) => commit,
        None => commit(git, job, looked, &tree, &name).await?,
    };
    let note = note.or(unread);
    Ok(Kept { state: WipState::Saved { commit, name: Some(name), note, left_out }, tree: Some(tree) })
}

/// A tree that was written.
struct Written {
    tree: String,
    left_out: Vec<String>,
    /// What git could not read.
    unread: Option<String>,
}

/// Writes the work tree's content, by an index that begins as the last commit.
async fn written(git: &Git, looked: &Looked) -> Result<Written, String> {
    if let Some(head) = &looked.head_id {
        quietly(git, &["read-tree", head]).await?;
    }
    let top = top(git).await.map_err(|error| in_full(&error))?;
    let mut choice = Choice::of(&looked.entries, &top);
    let added = match add(git, &choice).await {
        // A file may have gone since it was listed: once more, by a new list.
        Err(NotAdded { gone: true, .. }) => {
            // With the index of HEAD, what only the real one knows is new and not there: no difference.
            let again = tree::look(git).await.map_err(|error| in_full(&error))?;
            choice = Choice::of(&again.entries, &top);
            add(git, &choice).await
        }
        added => added,
    };
    let unread = added.map_err(|why| why.told)?;
    let tree = quietly(git, &["write-tree"]).await?;
    Ok(Written { tree, left_out: choice.left_out, unread })
}

/// Git took none of what it was to add.
struct NotAdded {
    told: String,
    /// A path is not there any more.
    gone: bool,
}

/// Adds to the index. What could not be read is told; all else is in.
async fn add(git: &Git, choice: &Choice) -> Result<Option<String>, NotAdded> {
    if choice.pathspecs.is_empty() {
        return Ok(None);
    }
    let add = ["-c", "advice.addEmbeddedRepo=false", "-c", "core.safecrlf=false", "add", "--all"];
    let rest = ["--ignore-errors", "--pathspec-from-file=-", "--pathspec-file-nul"];
    let args: Vec<&str> = QUIETLY.into_iter().chain(add).chain(rest).collect();
    let over = tokio::time::sleep(limits::SURVEY_TIMEOUT.into());
    let output = git.fed(&args, &choice.pathspecs, over).await;
    let output = output.map_err(|error| NotAdded { told: in_full(&error), gone: false })?;
    match output.end {
        ChildEnd::Exited(0) => Ok(None),
        ChildEnd::Exited(1) => Ok(Some(format!("Git could not read everything: {}", first_line(&output)))),
        ChildEnd::Exited(_) | ChildEnd::Signaled(_) | ChildEnd::NotStarted(_) | ChildEnd::KeeperLost => {
            let told = first_line(&output);
            Err(NotAdded { gone: told.contains("did not match any files"), told })
        }
    }
}

/// The commit that the ref names, if it is of this tree and this commit.
async fn standing(git: &Git, name: &str, tree: &str, looked: &Looked) -> Option<String> {
    let text =
        git.run(&["log", "-1", "--no-show-signature", "--format=%H%n%T%n%P", name, "--"]).await.ok()?;
    let mut lines = text.lines();
    let (commit, of_tree, parent) = (lines.next()?, lines.next()?, lines.next().unwrap_or_default());
    let same = of_tree == tree && parent == looked.head_id.as_deref().unwrap_or_default();
    same.then(|| commit.to_owned())
}

async fn commit(git: &Git, job: &Job<'_>, looked: &Looked, tree: &str, name: &str) -> Result<String, String> {
    let subject = subject(job, looked);
    let mut args = vec!["commit-tree", "--no-gpg-sign", "-m", &subject];
    if let Some(head) = &looked.head_id {
        args.extend(["-p", head]);
    }
    args.push(tree);
    let commit = quietly(git, &args).await?;
    quietly(git, &["update-ref", "--create-reflog", "-m", "checkpoint", name, &commit]).await?;
    Ok(commit)
}

fn subject(job: &Job<'_>, looked: &Looked) -> String {
    let of_branch = looked.branch().and_then(issue_of_branch);
    wip_subject(job.issue.map(str::to_owned).or(of_branch).as_deref())
}

async fn top(git: &Git) -> Result<std::path::PathBuf, GitError> {
    Ok(git.run(&["rev-parse", "--show-toplevel"]).await?.trim_end_matches('\n').into())
}

/// Runs a command without hooks, and gives what it says.
async fn quietly(git: &Git, args: &[&str]) -> Result<String, String> {
    let args: Vec<&str> = QUIETLY.iter().chain(args).copied().collect();
    let text = git.run(&args).await.map_err(|error| one_line(&in_full(&error), WORDS_CHARS_MAX))?;
    Ok(text.trim().to_owned())
}

fn first_line(output: &Output) -> String {
    let said = String::from_utf8_lossy(&output.stderr);
    let lines = said.lines().filter(|line| !line.starts_with("warning:"));
    one_line(lines.into_iter().next().unwrap_or("git said nothing"), WORDS_CHARS_MAX)
}

/// Removes an index of ours with its lock, and makes its directory.
fn clear(disk: &RealDisk, index: &Path) -> DiskResult<()> {
    ensure_dir(disk, parent(index))?;
    for path in [index.to_owned(), index.with_extension("index.lock")] {
        if disk.stat(&path)?.is_some() {
            disk.remove(&path)?;
        }
    }
    Ok(())
}
