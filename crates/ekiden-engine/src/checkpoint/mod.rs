//! A checkpoint of a watched session: commits the work in progress and writes what is known to a document.
//!
//! ```text
//! transcript ─► TranscriptFacts ──┐
//! git status ─► Tree ──┼─► Facts ─► document ─► .ekiden/handoffs/YYYY-MM-DD-HHMM.md
//!    └► commit ────────┤
//! CLAUDE.md, spec ─────┘
//! ```
//!
//! It runs in a separate process or in a command, never in a hook that must answer at once.
//!
//! Invariants:
//! - *The document is always written.* If git fails or is missing, or a transcript cannot be read, a line in the
//!   document says so.
//! - *The same question has the same answer.* If the session, the reason, the tree and the conversation match
//!   the existing document, no second one is made. So a client that announces a compaction twice gets one
//!   checkpoint, and a process that dies after writing the document does no harm.
//! - *[`Wip::Ref`] changes nothing of the user's*: neither branch nor index nor files.

mod surroundings;
mod wip;

use std::fs::File;
use std::path::{Path, PathBuf};

use ekiden_agent::keeper;
use ekiden_core::guard::checkpoint::{CheckpointReason, Wip, issue_of_branch};
use ekiden_core::guard::document::{
    ChangedFile, Facts, Filled, GitTree, KeyPoints, LocalTime, TranscriptFacts, Tree, WipState,
    document, mark_of,
};
use ekiden_core::hash::sha256_hex;
use ekiden_core::limits::CHECKPOINT_FILES_MAX;
use ekiden_core::time::{Millis, Timestamp};
use ekiden_store::disk::DiskError;
use ekiden_store::documents::{Documents, Origin};
use ekiden_store::place::ProjectPlace;
use ekiden_wire::recall::Recall;
use serde::{Deserialize, Serialize};

use crate::clock::utc_offset_secs;
use crate::git::status::{Scope, Status, under_way};
use crate::git::{Git, GitError};
use crate::runtime::runtime;
use crate::workspace::{Workspace, WorkspaceError};
use ekiden_core::text::in_full;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Request {
    pub project_dir: PathBuf,
    /// Where state is kept, if not at its usual place.
    pub state_dir: Option<PathBuf>,
    pub session_id: Option<String>,
    pub transcript: Option<PathBuf>,
    pub reason: CheckpointReason,
    /// The share of the usable window in use.
    pub percent: Option<u64>,
    /// What is left of it, in tokens.
    pub remaining_tokens: Option<u64>,
    /// The context in use, in tokens; 0 if nobody knows.
    pub used_tokens: u64,
    /// The issue, if it is known from something other than the branch.
    pub issue: Option<String>,
    /// What its tracker says about it, or why it says nothing.
    #[serde(default)]
    pub tracker: Vec<String>,
    /// What follows the part of a plan that the session works on.
    #[serde(default)]
    pub next_part: Option<String>,
    pub wip: Wip,
    /// The commit's title, if the issue does not give it.
    #[serde(default)]
    pub subject: Option<String>,
    pub now: Timestamp,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Taken {
    pub document: PathBuf,
    pub name: String,
    /// It already existed, for the same state.
    pub again: bool,
    /// The commit of the work in progress.
    pub commit: Option<String>,
    pub wip_ref: Option<String>,
    pub issue: Option<String>,
    /// What is not committed, by its path from the repository's root; without git, what the session edited.
    pub modified_files: Vec<String>,
    /// True also if git could not say.
    pub uncommitted: bool,
}

/// A checkpoint cannot be taken. Reads well after "cannot".
#[derive(Debug, thiserror::Error)]
pub enum CheckpointError {
    #[error(transparent)]
    Workspace(WorkspaceError),
    /// The document cannot be kept.
    #[error("keep the handoff document")]
    Disk(#[from] DiskError),
    #[error("take a checkpoint while another of this session is being written")]
    Busy,
}

/// Takes a checkpoint. Panics within a runtime, since it asks git and waits.
pub fn take(request: &Request) -> Result<Taken, CheckpointError> {
    let (workspace, git_error) = find(request)?;
    // As a run does: makes `.ekiden/`, and keeps it out of git.
    workspace.prepare()?;
    let documents = workspace.documents();
    let (told, last_line) = recalled(request.transcript.as_deref());
    let (tree, fingerprint) = look(request, &workspace, &documents, git_error);
    let mark = mark(request, fingerprint.as_deref(), last_line.as_deref());
    let is_of_it = |origin: &Origin| origin.session == request.session_id;
    let last = documents.newest(|origin| origin.is_some_and(is_of_it))?;
    let issue = issue(request, &tree);
    if let Some((name, text)) = &last
        && mark.is_some()
        && mark_of(text) == mark
    {
        return Ok(taken(documents.path(name), true, issue, &tree, &told));
    }
    let session = request.session_id.as_deref();
    let continued = session.map_or(Ok(None), |session| documents.loaded_by(session))?;
    let points = |(_, text): &(String, String)| KeyPoints::of(text);
    let before = last.as_ref().or(continued.as_ref());
    let spec_before = before.and_then(|before| points(before).spec);
    let began = continued.as_ref().map(points);
    let facts = Facts {
        session: request.session_id.clone(),
        at: local_time(request.now),
        reason: request.reason,
        percent: request.percent,
        remaining_tokens: request.remaining_tokens,
        issue,
        tracker: request.tracker.clone(),
        next_part: request.next_part.clone(),
        instructions: surroundings::instructions(&workspace.dir),
        spec: surroundings::spec(&workspace.dir, &told, request.issue.as_deref(), spec_before),
        filled: before.map(|(_, text)| Filled::of(text)).unwrap_or_default(),
        previous: last.map(|(name, _)| name),
        continued: continued.map(|(name, _)| name),
        began: began.and_then(|points| points.began.or(points.task)),
        mark,
        tree,
        told,
    };
    let path = documents.add(Some(request.now), &minute(&facts.at), &document(&facts))?;
    Ok(taken(path, false, facts.issue, &facts.tree, &facts.told))
}

/// The workspace. If git does not answer, a workspace without git, and why.
fn find(request: &Request) -> Result<(Workspace, Option<String>), CheckpointError> {
    let (path, source) = match Workspace::find(&request.project_dir, request.state_dir.as_deref()) {
        Ok(workspace) => return Ok((workspace, None)),
        Err(WorkspaceError::Git { path, source }) => (path, source),
        Err(error @ WorkspaceError::Dir { .. }) => {
            return Err(CheckpointError::Workspace(error));
        }
    };
    let why = in_full(&source);
    // The hooks find the state in the same way.
    let place = ProjectPlace::find(&request.project_dir, request.state_dir.as_deref());
    let source = std::io::ErrorKind::NotFound.into();
    let missing = || CheckpointError::Workspace(WorkspaceError::Dir { path, source });
    let ProjectPlace { dir, state_dir, .. } = place.ok_or_else(missing)?;
    Ok((Workspace::at(dir, None, state_dir), Some(why)))
}

/// What the transcript tells, and the id of its last line. An unreadable transcript tells nothing.
fn recalled(transcript: Option<&Path>) -> (TranscriptFacts, Option<String>) {
    let recall = transcript.and_then(|path| Recall::of(&mut File::open(path).ok()?).ok());
    let recall = recall.unwrap_or_default();
    let last_line = recall.last_line.clone();
    (recall.into_told(), last_line)
}

/// Keeps the work in progress and returns the tree, and a value that changes when the tree does.
fn look(
    request: &Request,
    workspace: &Workspace,
    documents: &Documents,
    git_error: Option<String>,
) -> (Tree, Option<String>) {
    let asked = match (&workspace.git, git_error) {
        (_, Some(why)) => Err(why),
        (None, None) => return (Tree::NoRepository, None),
        (Some(_), None) => ask_git(request, workspace, documents),
    };
    match asked {
        Ok((tree, fingerprint)) => (Tree::Git(Box::new(tree)), Some(fingerprint)),
        Err(why) => (Tree::Unknown { why }, None),
    }
}

fn ask_git(
    request: &Request,
    workspace: &Workspace,
    documents: &Documents,
) -> Result<(GitTree, String), String> {
    let keeper = keeper::executable().map_err(|error| in_full(&error))?;
    let runtime = runtime().map_err(|error| in_full(&error))?;
    let git = Git::new(keeper, workspace.dir.clone());
    let asked = runtime.block_on(save_and_describe(request, workspace, documents, &git));
    asked.map_err(|error| in_full(&error))
}

async fn save_and_describe(
    request: &Request,
    workspace: &Workspace,
    documents: &Documents,
    git: &Git,
) -> Result<(GitTree, String), GitError> {
    let mut status = status(git).await?;
    let job = wip::Job {
        git,
        disk: &*documents.disk,
        state: &documents.state,
        name: wip::name(request.session_id.as_deref(), workspace),
        request,
        status: &status,
        under_way: git.git_dir().and_then(|dir| under_way(&dir)),
    };
    let (wip, mut saved_tree) = job.save().await;
    let under_way = job.under_way.map(str::to_owned);
    if let WipState::Saved { name: None, .. } = wip {
        status = self::status(git).await?;
        // As of a clean tree, so that the next checkpoint finds it unchanged.
        saved_tree = saved_tree.filter(|_| !status.entries.is_empty());
    }
    let log = "log -1 --no-show-signature --no-color";
    let head = git.line(log, &["--format=%h %s"]).await;
    let changed = status.entries.iter().map(|entry| ChangedFile {
        code: entry.code.clone(),
        path: entry.shown(),
    });
    let changed: Vec<ChangedFile> = changed.collect();
    let content = saved_tree.unwrap_or_else(|| format!("{changed:?}"));
    let fingerprint = format!("{:?} {content}", status.head);
    let tree = GitTree {
        changed,
        branch: status.branch,
        head: head.ok(),
        under_way,
        wip,
    };
    Ok((tree, fingerprint))
}

async fn status(git: &Git) -> Result<Status, GitError> {
    let quiet = git.clone().quiet();
    match Status::read(&quiet, Scope::Repository).await {
        // Very many files are untracked.
        Err(GitError::NoAnswer { .. }) => Status::read(&quiet, Scope::RepositoryInShort).await,
        status => status,
    }
}

/// A value that stays the same if the same checkpoint is asked for again. None if nothing distinguishes one state
/// from another.
fn mark(request: &Request, tree: Option<&str>, last_line: Option<&str>) -> Option<String> {
    if tree.is_none() && last_line.is_none() {
        return None;
    }
    let state = format!(
        "{}\n{:?}\n{tree:?}\n{last_line:?}",
        request.reason, request.session_id
    );
    Some(sha256_hex(state.as_bytes())[..16].to_owned())
}

fn issue(request: &Request, tree: &Tree) -> Option<String> {
    let of_branch = || match tree {
        Tree::Git(git) => git.branch.as_deref().and_then(issue_of_branch),
        Tree::NoRepository | Tree::Unknown { .. } => None,
    };
    request.issue.clone().or_else(of_branch)
}

fn taken(
    document: PathBuf,
    again: bool,
    issue: Option<String>,
    tree: &Tree,
    told: &TranscriptFacts,
) -> Taken {
    let (mut modified_files, mut commit, mut wip_ref) = (told.edited.clone(), None, None);
    if let Tree::Git(git) = tree {
        let paths = git.changed.iter().map(|file| file.path.clone());
        modified_files = paths.take(CHECKPOINT_FILES_MAX).collect();
        if let WipState::Saved {
            commit: id, name, ..
        } = &git.wip
        {
            (commit, wip_ref) = (Some(id.clone()), name.clone());
        }
    }
    let name = document.file_name().unwrap_or_default().to_string_lossy();
    Taken {
        name: name.into_owned(),
        document,
        again,
        commit,
        wip_ref,
        issue,
        uncommitted: !modified_files.is_empty() || matches!(tree, Tree::Unknown { .. }),
        modified_files,
    }
}

fn local_time(now: Timestamp) -> LocalTime {
    let offset = utc_offset_secs(now);
    let by = Millis::from_secs(u64::from(offset.unsigned_abs()));
    let local = if offset < 0 { now - by } else { now + by };
    let minutes = local.0 / 60_000 % (24 * 60);
    LocalTime {
        date: local.date(),
        time: format!("{:02}:{:02}", minutes / 60, minutes % 60),
    }
}

/// `2026-01-07-1045`
fn minute(at: &LocalTime) -> String {
    format!("{}-{}", at.date, at.time.replace(':', ""))
}
