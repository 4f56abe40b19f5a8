//! What a run wants of the repository around its work dir, and what a person should know before it
//! begins.
//!
//! What was typed and cannot be had is an error before anything is created. What a settings file says
//! for all projects is left out where it does not fit, and that is told.

use ekiden_core::settings::RunStarted;
use ekiden_engine::branch;
use ekiden_engine::workspace::Workspace;

use super::Scene;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::settings::given::Origin;
use crate::settings::table::{self, Setting};

/// Looks whether the repository gives what the run wants of it, and takes out what cannot be. Returns
/// what the person should know.
///
/// # Errors
///
/// If the run cannot begin so.
pub(super) fn fit(
    header: &mut RunStarted,
    scene: &Scene,
    workspace: &Workspace,
) -> Result<Vec<String>, Failure> {
    header.place.branch = scene.given.get(&table::BRANCH)?;
    let mut notes = Vec::new();
    if workspace.git.is_none() {
        let wants_commits = header.settings.commit.take().is_some();
        let wants_branch = header.place.branch.take().is_some();
        let wanted = [
            (wants_commits, outside(scene, &table::GIT_COMMIT, "commit")),
            (wants_branch, outside(scene, &table::BRANCH, "work on a branch")),
        ];
        for (_, told) in wanted.into_iter().filter(|(wants, _)| *wants) {
            notes.push(told?);
        }
        return Ok(notes);
    }
    if let Some(name) = &header.place.branch {
        branch::check(workspace, name).map_err(ekiden_engine::EngineError::from)?;
    }
    notes.extend(risk(header, workspace));
    Ok(notes)
}

/// There is no repository for this.
fn outside<T>(scene: &Scene, setting: &Setting<T>, what: &str) -> Result<String, Failure> {
    let text = format!("cannot {what}: the work dir lies in no git repository");
    match scene.given.origin(&setting.row) {
        Origin::Flag(flag) => Err(Failure::new(Exit::Settings, text)
            .hint("`git init` makes one")
            .hint(format!("without `--{flag}` the run needs none"))),
        Origin::Default | Origin::User(_) | Origin::Project(_) | Origin::Env(_) => Ok(text),
    }
}

/// What a run without anybody watching does to a branch that others rely on, or to none.
fn risk(header: &RunStarted, workspace: &Workspace) -> Option<String> {
    let commits = header.settings.commit.is_some();
    let skips = header.settings.agent.permissions.skip;
    let what = match (commits, skips) {
        (false, false) => return None,
        (true, false) => "this run commits",
        (false, true) => "the agent may do everything without asking",
        (true, true) => "this run commits, and the agent may do everything without asking,",
    };
    let branch = header.place.branch.clone().or_else(|| branch::head(workspace).branch);
    match branch {
        Some(branch) if branch::is_default(workspace, &branch) => {
            Some(format!("{what} on the default branch `{branch}`; `--branch NAME` works on another"))
        }
        None if commits => {
            Some("this run commits on no branch (detached HEAD); `--branch NAME` makes one".to_owned())
        }
        Some(_) | None => None,
    }
}
