//! What a run needs from the repository around its work dir, and what a person should know before it starts.
//!
//! A flag that cannot be followed is an error before anything is created. A setting from elsewhere that does not
//! fit this project is ignored, with a note.

use ekiden_core::settings::RunStarted;
use ekiden_engine::git::branch;
use ekiden_engine::workspace::Workspace;

use super::Invocation;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::settings::given::Origin;
use crate::settings::table::{self, Setting};

/// Checks what the run's settings need from the repository, and removes what is impossible. Returns notes for the person.
pub(super) fn fit(
    header: &mut RunStarted,
    invocation: &Invocation,
    workspace: &Workspace,
) -> Result<Vec<String>, Failure> {
    header.place.branch = invocation.given.get(&table::BRANCH)?;
    if workspace.git.is_none() {
        let mut notes = Vec::new();
        if header.settings.commit.take().is_some() {
            notes.push(outside(invocation, &table::GIT_COMMIT, "commit")?);
        }
        if header.place.branch.take().is_some() {
            notes.push(outside(invocation, &table::BRANCH, "work on a branch")?);
        }
        return Ok(notes);
    }
    if let Some(name) = &header.place.branch {
        branch::check(workspace, name).map_err(ekiden_engine::EngineError::from)?;
    }
    Ok(Vec::new())
}

/// The pull request has a branch of its own, which the run makes and commits to.
pub(super) fn fit_pull_request(
    header: &mut RunStarted,
    invocation: &Invocation,
    workspace: &Workspace,
) -> Result<(), Failure> {
    let refused = |why: &str, hint: &str| {
        let text = format!("cannot open a pull request: {why}");
        Err(Failure::new(Exit::Settings, text).hint(hint))
    };
    if workspace.git.is_none() {
        return refused(
            "the work dir is not in a git repository",
            "`git init` creates one",
        );
    }
    let mut stages = header.manifest.stages.iter();
    if !stages.any(|stage| stage.verification.is_some()) {
        let hint = "say how to tell that it is done: `--verify COMMAND`";
        return refused("nothing verifies the run's end", hint);
    }
    let branch = header.place.branch.clone();
    let branch = branch.unwrap_or_else(|| format!("ekiden/{}", header.run));
    if branch::exists(workspace, &branch) {
        let why = format!(
            "branch `{branch}` is there already, and only one that the run makes is pushed"
        );
        let hint = "name a new one with `--branch`; `ekiden continue` goes on with a run's own";
        return refused(&why, hint);
    }
    branch::check(workspace, &branch).map_err(ekiden_engine::EngineError::from)?;
    invocation
        .environment
        .refuse_a_session("open a pull request")?;
    let trackers = invocation.trackers(workspace);
    header.pull_request = Some(trackers.pull_request(branch.clone())?);
    header.place.branch = Some(branch);
    Ok(())
}

/// The work dir is in no repository, but a setting needs one.
fn outside<T>(
    invocation: &Invocation,
    setting: &Setting<T>,
    what: &str,
) -> Result<String, Failure> {
    let text = format!("cannot {what}: the work dir is not in a git repository");
    if invocation.given.origin(&setting.row) < Origin::Flag {
        return Ok(text);
    }
    let flag = setting.row.long().unwrap_or_default();
    Err(Failure::new(Exit::Settings, text)
        .hint("`git init` creates one")
        .hint(format!("without `--{flag}` the run needs none")))
}

/// A warning if an unattended run would work on a branch that others rely on, or commit to none.
pub(super) fn risk(header: &RunStarted, workspace: &Workspace) -> Option<String> {
    let commits = header.settings.commit.is_some();
    let skips = header.settings.agent.permissions.skip;
    let what = match (commits, skips) {
        (false, false) => return None,
        (true, false) => "this run commits",
        (false, true) => "the agent may do everything without asking",
        (true, true) => "this run commits, and the agent may do everything without asking,",
    };
    let branch = header
        .place
        .branch
        .clone()
        .or_else(|| branch::current(workspace));
    match branch {
        Some(branch) if branch::is_default(workspace, &branch) => Some(format!(
            "{what} on the default branch `{branch}`; use `--branch NAME` for another"
        )),
        None if commits => Some(
            "this run commits on no branch (detached HEAD); use `--branch NAME` to create one"
                .to_owned(),
        ),
        Some(_) | None => None,
    }
}
