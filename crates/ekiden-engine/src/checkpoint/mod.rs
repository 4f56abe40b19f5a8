//! A checkpoint of a watched session: work in progress into a commit, what is known into a document.
//!
//! ```text
//! transcript ─► Told ──┐
//! git status ─► Tree ──┼─► Facts ─► document ─► .ekiden/handoffs/YYYY-MM-DD-HHMM.md
//!    └► commit ────────┤
//! CLAUDE.md, spec ─────┘
//! ```
//!
//! It runs in a process of its own or in a command, never in a hook that must answer at once.
//!
//! Invariants:
//! - *The document is written.* Git that fails or is missing, a transcript that cannot be read, a tracker
//!   that does not answer: each is a line in the document.
//! - *Asked again, the same answer.* A checkpoint of the same session for the same reason, of the same tree
//!   and the same conversation, is the document that is there. So a client that announces a compaction
//!   twice gets one checkpoint, and a process that died after the document is harmless.
//! - *Nothing of the person's changes* with [`Wip::Ref`]: neither branch nor index nor files.

mod surroundings;
mod tracker;
mod tree;
mod wip;

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ekiden_agent::keeper;
use ekiden_agent::workers::Workers;
use ekiden_core::guard::checkpoint::{CheckpointReason, Wip, issue_of_branch};
use ekiden_core::guard::document::{
    Facts, Filled, GitTree, LocalTime, Told, Tree, WipState, document, mark_of, session_of,
};
use ekiden_core::hash::sha256_hex;
use ekiden_core::time::{Millis, Timestamp};
use ekiden_store::disk::{DiskError, RealDisk};
use ekiden_store::documents::Documents;
use ekiden_store::layout::{Published, StateLayout};
use ekiden_store::published::{exclude_from_git, prepare_published};
use ekiden_store::state::create_state_root;
use ekiden_wire::recall::Recall;

use crate::clock::utc_offset_secs;
use crate::error::in_full;
use crate::git::Git;
use crate::workspace::{Workspace, WorkspaceError};
pub use tracker::{NoTracker, Tracker};

/// A checkpoint that is wanted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    /// Where the session works.
    pub project_dir: PathBuf,
    /// Where state lies, if not at its usual place.
    pub state_dir: Option<PathBuf>,
    /// The conversation.
    pub session_id: Option<String>,
    /// Its transcript.
    pub transcript: Option<PathBuf>,
    /// Why.
    pub reason: CheckpointReason,
    /// The share of the usable window in use.
    pub percent: Option<u64>,
    /// What is left of it, in tokens.
    pub remaining_tokens: Option<u64>,
    /// The issue, if it is known otherwise than by the branch.
    pub issue: Option<String>,
    /// Where uncommitted work goes.
    pub wip: Wip,
    /// The time.
    pub now: Timestamp,
}

/// A checkpoint that was taken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Taken {
    /// The document.
    pub document: PathBuf,
    /// Its name in `.ekiden/handoffs/`.
    pub name: String,
    /// It was there already, for the same state.
    pub again: bool,
    /// The commit of the work in progress.
    pub commit: Option<String>,
    /// The ref that keeps it.
    pub wip_ref: Option<String>,
    /// The issue.
    pub issue: Option<String>,
    /// What is not committed, by its path from the repository's root; without git what the session edited.
    pub modified_files: Vec<String>,
    /// Whether there is anything.
    pub uncommitted: bool,
}

/// A checkpoint cannot be taken. Reads well after "cannot".
#[derive(Debug, thiserror::Error)]
pub enum CheckpointError {
    /// There is no such project.
    #[error(transparent)]
    Workspace(WorkspaceError),
    /// The document cannot be kept.
    #[error("keep the handoff document")]
    Disk(#[from] DiskError),
}

/// Takes a checkpoint.
///
/// # Errors
///
/// If the project is not there or the document cannot be written; nothing else is an error.
///
/// # Panics
///
/// Within a runtime, since it asks git and waits.
pub fn take(request: &Request, tracker: &dyn Tracker) -> Result<Taken, CheckpointError> {
    let (workspace, git_error) = find(request)?;
    let place = Place::prepare(&workspace)?;
    let (told, last_line) = recalled(request.transcript.as_deref());
    let (tree, fingerprint) = look(request, &workspace, &place, git_error);
    let documents = place.documents();
    let mark = mark(request, fingerprint.as_deref(), last_line.as_deref());
    let last = last_of_session(&documents, request.session_id.as_deref())?;
    let issue = issue(request, &tree);
    if let Some((name, text)) = &last
        && mark.is_some()
        && mark_of(text) == mark
    {
        return Ok(taken(documents.path(name), true, issue, &tree, &told));
    }
    let issue_state = issue.as_deref().map(|issue| tracker.state(issue)).unwrap_or_default();
    let facts = Facts {
        session: request.session_id.clone(),
        at: local_time(request.now),
        reason: request.reason,
        percent: request.percent,
        remaining_tokens: request.remaining_tokens,
        issue,
        issue_state,
        instructions: surroundings::instructions(&workspace.dir),
        spec: surroundings::spec(&workspace.dir, &told, request.issue.as_deref()),
        filled: last.as_ref().map(|(_, text)| Filled::of(text)).unwrap_or_default(),
        previous: last.map(|(name, _)| name),
        mark,
        tree,
        told,
    };
    let path = documents.add(&minute(&facts.at), &document(&facts))?;
    let taken = taken(path, false, facts.issue, &facts.tree, &facts.told);
    if let Some(issue) = &taken.issue {
        tracker.note(issue, request.reason, &taken.document);
    }
    Ok(taken)
}

/// The workspace; where git does not answer, one without git, and why.
fn find(request: &Request) -> Result<(Workspace, Option<String>), CheckpointError> {
    match Workspace::find(&request.project_dir, request.state_dir.as_deref()) {
        Ok(workspace) => Ok((workspace, None)),
        Err(WorkspaceError::Git { path, source }) => {
            let missing = |source| CheckpointError::Workspace(WorkspaceError::Dir { path, source });
            let dir = request.project_dir.canonicalize().map_err(missing)?;
            let published = dir.join(".ekiden");
            let state_dir = published.join("state");
            Ok((Workspace { dir, git: None, state_dir, published }, Some(in_full(&source))))
        }
        Err(error @ WorkspaceError::Dir { .. }) => Err(CheckpointError::Workspace(error)),
    }
}

/// Where a project's documents lie.
struct Place {
    disk: RealDisk,
    published: Published,
    state: StateLayout,
}

impl Place {
    /// Makes `.ekiden/` as a run makes it, and keeps it out of git.
    fn prepare(workspace: &Workspace) -> Result<Self, DiskError> {
        let disk = RealDisk::fenced(&workspace.dir);
        let (published, state) = (Published::new(&workspace.dir), StateLayout::new(&workspace.state_dir));
        create_state_root(&disk, &state)?;
        prepare_published(&disk, &published, &state)?;
        if let Some(git) = &workspace.git {
            // A repository that cannot be written to has the `.gitignore` beside the documents.
            let _ = exclude_from_git(&disk, &git.common_dir.join("info").join("exclude"));
        }
        Ok(Self { disk, published, state })
    }

    fn documents(&self) -> Documents<'_> {
        Documents::of(&self.disk, &self.published, &self.state)
    }
}

/// What the transcript tells, and what its last line is called. One that cannot be read tells nothing.
fn recalled(transcript: Option<&Path>) -> (Told, Option<String>) {
    let recall = transcript.and_then(|path| Recall::of(&mut File::open(path).ok()?).ok());
    let recall = recall.unwrap_or_default();
    let last_line = recall.last_line().map(str::to_owned);
    (recall.into_told(), last_line)
}

/// The tree, with its work in progress kept; and what changes when the tree does.
fn look(
    request: &Request,
    workspace: &Workspace,
    place: &Place,
    git_error: Option<String>,
) -> (Tree, Option<String>) {
    match (&workspace.git, git_error) {
        (_, Some(why)) => (Tree::Unknown { why }, None),
        (None, None) => (Tree::NoRepository, None),
        (Some(_), None) => match ask_git(request, workspace, place) {
            Ok((tree, fingerprint)) => (Tree::Git(Box::new(tree)), Some(fingerprint)),
            Err(why) => (Tree::Unknown { why }, None),
        },
    }
}

fn ask_git(request: &Request, workspace: &Workspace, place: &Place) -> Result<(GitTree, String), String> {
    let keeper = keeper::executable().map_err(|error| in_full(&error))?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let git = Git::new(Arc::new(Workers::new(keeper)), workspace.dir.clone());
    let job = wip::Job {
        disk: &place.disk,
        state: &place.state,
        name: wip::name(request.session_id.as_deref(), workspace),
        wip: request.wip,
        issue: request.issue.as_deref(),
    };
    let asked = async {
        let looked = tree::look(&git).await?;
        let wip = wip::keep(&git, &job, &looked).await;
        Ok((looked, wip))
    };
    let asked = runtime.map_err(|error| in_full(&error))?.block_on(asked);
    let (looked, kept) = asked.map_err(|error: crate::git::GitError| in_full(&error))?;
    let fingerprint = format!("{:?} {}", looked.head_id, kept.tree.unwrap_or_else(|| looked.listing()));
    Ok((looked.into_tree(kept.state), fingerprint))
}

/// The newest document of this session.
fn last_of_session(
    documents: &Documents<'_>,
    session: Option<&str>,
) -> Result<Option<(String, String)>, DiskError> {
    for name in documents.names()?.into_iter().rev() {
        if let Some(text) = documents.read(&name)?
            && session_of(&text).as_deref() == session
        {
            return Ok(Some((name, text)));
        }
    }
    Ok(None)
}

/// What is the same if the same checkpoint is asked for again. None where nothing tells one state from
/// another.
fn mark(request: &Request, tree: Option<&str>, last_line: Option<&str>) -> Option<String> {
    if tree.is_none() && last_line.is_none() {
        return None;
    }
    let state = format!("{}\n{:?}\n{tree:?}\n{last_line:?}", request.reason, request.session_id);
    Some(sha256_hex(state.as_bytes())[..16].to_owned())
}

fn issue(request: &Request, tree: &Tree) -> Option<String> {
    let of_branch = || match tree {
        Tree::Git(git) => git.branch.as_deref().and_then(issue_of_branch),
        Tree::NoRepository | Tree::Unknown { .. } => None,
    };
    request.issue.clone().or_else(of_branch)
}

fn taken(document: PathBuf, again: bool, issue: Option<String>, tree: &Tree, told: &Told) -> Taken {
    let (modified_files, wip) = match tree {
        Tree::Git(git) => (git.changed.iter().map(|file| file.path.clone()).collect(), Some(&git.wip)),
        Tree::NoRepository | Tree::Unknown { .. } => (told.edited.clone(), None),
    };
    let (commit, wip_ref) = match wip {
        Some(WipState::Saved { commit, name, .. }) => (Some(commit.clone()), name.clone()),
        Some(WipState::Off | WipState::Clean | WipState::Failed { .. }) | None => (None, None),
    };
    let name = document.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let uncommitted = !modified_files.is_empty();
    Taken { document, name, again, commit, wip_ref, issue, modified_files, uncommitted }
}

/// The time by the clock on the wall.
fn local_time(now: Timestamp) -> LocalTime {
    let offset = utc_offset_secs(now);
    let by = Millis::from_secs(u64::from(offset.unsigned_abs()));
    let local = if offset < 0 { now - by } else { now + by };
    let minutes = local.0 / 60_000 % (24 * 60);
    LocalTime { date: local.date(), time: format!("{:02}:{:02}", minutes / 60, minutes % 60) }
}

/// `2026-01-07-1045`
fn minute(at: &LocalTime) -> String {
    format!("{}-{}", at.date, at.time.replace(':', ""))
}
