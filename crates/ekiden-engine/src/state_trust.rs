//! Whether a project's state can be trusted: was it made here, by this user (SEC-10)?
//!
//! A state names the commands that a run continues with, so ekiden must not trust one that came in an archive. The
//! user's own state directory records, under the state's id, the directory and the user that the state was made
//! for. No archive contains that note. A state is not trusted if it was moved, if another user sees it, or if a
//! container sees it under a different path.
//!
//! In a git repository only the files' owner counts, so that a repository can be moved. Anyone who can plant a
//! `.git` directory has other ways to run commands.

use std::os::unix::fs::MetadataExt as _;
use std::path::PathBuf;
use std::sync::Arc;

use ekiden_core::ids::RunId;
use ekiden_store::replace::Durability;
use ekiden_store::user_state::{StateId, UserState};
use serde::{Deserialize, Serialize};

use crate::error::EngineError;
use crate::history;
use crate::log_check;
use crate::workspace::{OWN_STATE, Workspace, has_runs};

/// The name of the file in the user's own state directory.
const PLACE: &str = "place";

/// For which user and where a state was made.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Origin {
    uid: u32,
    dir: PathBuf,
}

/// The same workspace with the state from before its directory was a repository, if the runs are there. A clone can
/// bring such a state, so this user must be known to have made it here.
pub fn from_before_git(workspace: Workspace) -> Workspace {
    let before = Workspace {
        state_dir: workspace.dir.join(OWN_STATE),
        ..workspace.clone()
    };
    let git = workspace.git.as_ref();
    let is_in_git = git.is_some_and(|git| workspace.state_dir.starts_with(&git.common_dir));
    let is_it = is_in_git
        && has_runs(&before.state_dir)
        && !has_runs(&workspace.state_dir)
        && said(&before).is_ok_and(|said| said.as_ref() == Some(&here(&before)));
    if is_it { before } else { workspace }
}

/// Why the state here, or this run's log in it, is not trusted; none if both are, or if there is nothing to trust.
pub fn doubt(workspace: &Workspace, run: Option<&RunId>) -> Result<Option<String>, EngineError> {
    if workspace.is_trusted {
        return Ok(None);
    }
    match (moved(workspace)?, run) {
        (None, Some(run)) if log_check::is_unknown(workspace, run)? => {
            Ok(Some(log_check::unknown(run)))
        }
        (why, _) => Ok(why),
    }
}

fn moved(workspace: &Workspace) -> Result<Option<String>, EngineError> {
    let has_runs = match history::open(workspace)? {
        Some(state) => !state.runs()?.is_empty(),
        None => false,
    };
    if !has_runs {
        return Ok(None);
    }
    let owner = workspace.state_dir.metadata().ok();
    let found = Found {
        owner: owner.map(|state| state.uid()),
        said: said(workspace)?,
        in_git: workspace.git.is_some(),
        has_home: workspace.user_dir.is_some(),
    };
    Ok(found.doubt(&here(workspace)))
}

/// What is known about a state that contains runs.
struct Found {
    owner: Option<u32>,
    said: Option<Origin>,
    in_git: bool,
    has_home: bool,
}

impl Found {
    fn doubt(&self, here: &Origin) -> Option<String> {
        if self.said.as_ref() == Some(here) {
            return None;
        }
        if self.owner.is_some_and(|owner| owner != here.uid) {
            return Some("it belongs to another user".to_owned());
        }
        if self.in_git {
            return None;
        }
        Some(match &self.said {
            Some(said) if said.uid != here.uid => "it was made by another user".to_owned(),
            Some(said) => format!("it was made in {}", said.dir.display()),
            None if self.has_home => "there is no record that you made it here".to_owned(),
            None => "without a home directory there is no record that you made it here".to_owned(),
        })
    }
}

fn trust(workspace: &Workspace) -> Result<(), EngineError> {
    let (layout, disk) = (workspace.layout(), Arc::new(workspace.disk()));
    let Some(home) = &workspace.user_dir else {
        return Ok(());
    };
    let bits = uuid::Uuid::new_v4().as_u128();
    // Whoever made the state may know an id that came with it, and the state it was copied from has the same id.
    let id = StateId::renew(&*disk, &layout, bits)?;
    let place = serde_json::to_vec(&here(workspace)).map_err(|error| EngineError::System {
        what: "say where the state is",
        source: error.into(),
    })?;
    let kept = UserState::of(disk, home, &id);
    Ok(kept.write(PLACE, &place, Durability::Whole)?)
}

/// Refuses an untrusted state, and binds one that is trusted or still empty. The directory must exist. If
/// nothing can be kept about it, it is not trusted the next time either.
pub(crate) fn settle(workspace: &Workspace) -> Result<(), EngineError> {
    if let Some(why) = doubt(workspace, None)? {
        let dir = workspace.state_dir.clone();
        return Err(EngineError::StateDoubted { dir, why });
    }
    let is_new = workspace.git.is_none() && said(workspace)?.as_ref() != Some(&here(workspace));
    if is_new || moved(workspace)?.is_some() {
        let _ = trust(workspace);
    }
    Ok(())
}

fn said(workspace: &Workspace) -> Result<Option<Origin>, EngineError> {
    let (layout, disk) = (workspace.layout(), Arc::new(workspace.disk()));
    let (Some(home), Some(id)) = (&workspace.user_dir, StateId::of(&*disk, &layout)?) else {
        return Ok(None);
    };
    let bytes = UserState::of(disk, home, &id).read(PLACE)?;
    Ok(bytes.and_then(|bytes| serde_json::from_slice(&bytes).ok()))
}

fn here(workspace: &Workspace) -> Origin {
    let dir = &workspace.state_dir;
    Origin {
        uid: rustix::process::getuid().as_raw(),
        dir: dir.canonicalize().unwrap_or_else(|_| dir.clone()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // shows: SEC-10
    #[test]
    fn a_state_of_another_user_is_doubted_everywhere() {
        let place = |uid, dir: &str| Origin {
            uid,
            dir: dir.into(),
        };
        let here = place(1000, "/p/.ekiden/state");
        let doubt = |owner, said, in_git| {
            let found = Found {
                owner: Some(owner),
                said,
                in_git,
                has_home: true,
            };
            found.doubt(&here).unwrap_or_default()
        };
        let same = || Some(place(1000, "/p/.ekiden/state"));
        for (owner, said, in_git, expected) in [
            (1000, same(), false, ""),
            (1000, None, true, ""),
            (1001, None, true, "it belongs to another user"),
            (1001, None, false, "it belongs to another user"),
            // Of a directory that somebody else gave away, and of one that a container sees otherwise.
            (
                1000,
                Some(place(1001, "/p/.ekiden/state")),
                false,
                "it was made by another user",
            ),
            (
                1000,
                Some(place(1000, "/q/.ekiden/state")),
                false,
                "it was made in /q/.ekiden/state",
            ),
            (1000, Some(place(1001, "/q/.ekiden/state")), true, ""),
            (
                1000,
                None,
                false,
                "there is no record that you made it here",
            ),
            // Somebody has believed it before.
            (1001, same(), true, ""),
        ] {
            assert_eq!(doubt(owner, said, in_git), expected, "{owner} {in_git}");
        }
    }
}
