//! Where this user's runs are on this machine, so that you can see all of them from anywhere.
//!
//! ```text
//! <user's state home>/ekiden/projects/<state id>/work-dirs.json
//! ```
//!
//! Any command that finds runs in a work dir notes the work dir there. A note says only where to look. Each look
//! decides anew whether to trust the state there. Losing a note does no harm, since the next command writes it again.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use ekiden_core::time::{Millis, Timestamp};
use ekiden_store::disk::{Disk, RealDisk};
use ekiden_store::layout::StateLayout;
use ekiden_store::replace::Durability;
use ekiden_store::user_state::{StateId, UserState};
use serde::{Deserialize, Serialize};

use crate::error::EngineError;
use crate::state_trust;
use crate::workspace::{GitPlace, Workspace};

const NAME: &str = "work-dirs.json";
/// The version that this program writes. It neither reads nor overwrites a newer version.
const VERSION: u32 = 1;
/// The work dirs of one state, such as the worktrees of a repository. The most recently seen ones are kept.
const WORK_DIRS_MAX: usize = 50;
/// A note of the same place is renewed only when it is older than this.
const SEEN_STEP: Millis = Millis::from_secs(24 * 60 * 60);

#[derive(Debug, Serialize, Deserialize)]
struct Note {
    version: u32,
    work_dirs: Vec<WorkDir>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
struct WorkDir {
    dir: PathBuf,
    state_dir: PathBuf,
    git: Option<GitPlace>,
    seen: Timestamp,
}

/// A work dir in which a command found runs.
#[derive(Debug)]
pub struct Project {
    pub dir: PathBuf,
    /// When, to the day.
    pub seen: Timestamp,
    /// Where to read its runs, or why they are not read.
    pub found: Result<Workspace, Unread>,
}

/// Why the runs of a work dir are not read. Reads well after the directory.
#[derive(Debug, thiserror::Error)]
pub enum Unread {
    #[error("is not read: {0}")]
    Doubted(String),
    #[error("cannot be read")]
    Unreadable(#[source] Box<EngineError>),
}

/// Notes the work dir, unless it is already noted, its state has no id yet, its state is not trusted, or it is not a
/// project but git's own directory. If there is nothing to write, this costs two small reads.
pub fn note(workspace: &Workspace, now: Timestamp) -> Result<(), EngineError> {
    if workspace.is_inside_git() {
        return Ok(());
    }
    let disk: Arc<dyn Disk> = Arc::new(workspace.disk());
    let id = StateId::of(&*disk, &workspace.layout())?;
    let (Some(home), Some(id)) = (&workspace.user_dir, id) else {
        return Ok(());
    };
    let kept = UserState::of(disk, home, &id);
    let Some(mut noted) = read(&kept)? else {
        return Ok(());
    };
    let is_same = |noted: &WorkDir| noted.is_of(workspace);
    let is_fresh = |noted: &WorkDir| now.since(noted.seen) < SEEN_STEP;
    if noted.iter().any(|noted| is_same(noted) && is_fresh(noted))
        || state_trust::doubt(workspace, None)?.is_some()
    {
        return Ok(());
    }
    noted.retain(|noted| noted.dir != workspace.dir);
    noted.insert(0, WorkDir::of(workspace, now));
    noted.truncate(WORK_DIRS_MAX);
    write(&kept, noted)
}

/// The wanted ones of all noted work dirs, the most recently seen first, without those that are gone or have another
/// state now. Changes nothing in the projects, and does not look at the others: their disk may be far away. A note that
/// cannot be read is skipped.
pub fn projects(
    user_dir: &Path,
    is_wanted: impl Fn(&Path) -> bool,
) -> Result<Vec<Project>, EngineError> {
    let disk: Arc<dyn Disk> = Arc::new(RealDisk::new());
    let mut projects = Vec::new();
    for id in StateId::all_in(&*disk, user_dir)? {
        let kept = UserState::of(Arc::clone(&disk), user_dir, &id);
        let noted = read(&kept).ok().flatten().unwrap_or_default();
        let noted = noted.into_iter().filter(|noted| is_wanted(&noted.dir));
        projects.extend(noted.filter_map(|noted| {
            Some(Project {
                seen: noted.seen,
                dir: noted.dir.clone(),
                found: noted.look(user_dir, &id).transpose()?,
            })
        }));
    }
    projects.sort_by_key(|project| std::cmp::Reverse(project.seen));
    Ok(projects)
}

impl WorkDir {
    fn of(workspace: &Workspace, seen: Timestamp) -> Self {
        Self {
            dir: workspace.dir.clone(),
            state_dir: workspace.state_dir.clone(),
            git: workspace.git.clone(),
            seen,
        }
    }

    fn is_of(&self, workspace: &Workspace) -> bool {
        (&self.dir, &self.state_dir, &self.git)
            == (&workspace.dir, &workspace.state_dir, &workspace.git)
    }

    /// What is there now; none if it is not what was noted under this id.
    fn look(&self, user_dir: &Path, id: &StateId) -> Result<Option<Workspace>, Unread> {
        if !self.dir.is_dir() || !self.state_dir.is_dir() {
            return Ok(None);
        }
        let (dir, git, state_dir) = (self.dir.clone(), self.git.clone(), self.state_dir.clone());
        let workspace = Workspace {
            user_dir: Some(user_dir.to_owned()),
            ..Workspace::at(dir, git, state_dir)
        };
        let unreadable = |error| Unread::Unreadable(Box::new(error));
        let disk = RealDisk::fenced(&self.dir);
        let found = StateId::of(&disk, &StateLayout::new(&self.state_dir));
        if found.map_err(|error| unreadable(error.into()))?.as_ref() != Some(id) {
            return Ok(None);
        }
        match state_trust::doubt(&workspace, None).map_err(unreadable)? {
            Some(why) => Err(Unread::Doubted(why)),
            None => Ok(Some(workspace)),
        }
    }
}

/// What is noted under an id; none if a newer program noted it.
fn read(kept: &UserState) -> Result<Option<Vec<WorkDir>>, EngineError> {
    let bytes = kept.read(NAME)?.unwrap_or_default();
    let note = serde_json::from_slice::<serde_json::Value>(&bytes).unwrap_or_default();
    if note["version"].as_u64() > Some(VERSION.into()) {
        return Ok(None);
    }
    let note = serde_json::from_value::<Note>(note);
    Ok(Some(note.map(|note| note.work_dirs).unwrap_or_default()))
}

fn write(kept: &UserState, work_dirs: Vec<WorkDir>) -> Result<(), EngineError> {
    let version = VERSION;
    let note = serde_json::to_vec(&Note { version, work_dirs });
    let note = note.map_err(|error| EngineError::System {
        what: "say where a work dir is",
        source: error.into(),
    })?;
    Ok(kept.write(NAME, &note, Durability::Derived)?)
}
