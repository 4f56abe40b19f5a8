//! What a run needs from the repository around its work dir, and what a person should know before it starts.
//!
//! A flag that ekiden cannot follow is an error before it creates anything. A setting from elsewhere that
//! does not fit this project is ignored, with a note.

use ekiden_core::issue::{IssueRef, TrackerKind};
use ekiden_core::manifest::Isolation;
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
        branch::check(workspace, name)?;
    }
    Ok(Vec::new())
}

/// Where a pull request would be opened, whatever the run is; an error if there cannot be one.
pub(super) fn may_open_pull_request(
    invocation: &Invocation,
    workspace: &Workspace,
) -> Result<IssueRef, Failure> {
    if workspace.git.is_none() {
        return Err(no_pull_request("the work dir is not in a git repository")
            .hint("`git init` creates one"));
    }
    invocation
        .environment
        .refuse_a_session("open a pull request")?;
    invocation.trackers(workspace).pull_request(String::new())
}

fn no_pull_request(why: &str) -> Failure {
    Failure::new(Exit::Settings, format!("cannot open a pull request: {why}"))
}

pub(super) fn nothing_verifies() -> Failure {
    no_pull_request("nothing verifies the run's end")
        .hint("say how to tell that it is done: `--verify COMMAND`")
}

/// The pull request has a branch of its own, which the run makes and commits to.
pub(super) fn fit_pull_request(
    header: &mut RunStarted,
    invocation: &Invocation,
    workspace: &Workspace,
) -> Result<(), Failure> {
    let stages = &header.manifest.stages;
    if let Some(stage) = stages.iter().find(|stage| stage.verification.is_none()) {
        return Err(match stages.len() {
            1 => nothing_verifies(),
            _ => no_pull_request(&format!("stage {} has no validation", stage.id))
                .hint("say in the manifest how to tell that it is done: `validation`"),
        });
    }
    let branch = header.place.branch.clone();
    let plan = header.manifest.plan.as_mut();
    let to = plan.and_then(|plan| match &mut plan.isolation {
        Isolation::Worktrees { branch, .. } => Some(branch),
        Isolation::InPlace => None,
    });
    let branch = branch.unwrap_or_else(|| match to {
        None => format!("ekiden/{}", header.run),
        // Stages are merged on the branch with that name.
        Some(_) => format!("ekiden/pull-request-{}", header.run),
    });
    if branch::exists(workspace, &branch) {
        let why = format!(
            "branch `{branch}` already exists, and ekiden only pushes a branch that the run created"
        );
        let hint = "name a new one with `--branch`; `ekiden continue` keeps using a run's branch";
        return Err(no_pull_request(&why).hint(hint));
    }
    branch::check(workspace, &branch)?;
    let pull = may_open_pull_request(invocation, workspace)?;
    // It gets the results of all stages.
    to.into_iter().for_each(|to| *to = Some(branch.clone()));
    // A rehearsal writes beside its issue, which may be outside this work dir.
    let beside = header.issue.as_ref();
    let beside = beside.filter(|issue| [pull.tracker, issue.tracker] == [TrackerKind::Local; 2]);
    header.pull_request = Some(IssueRef {
        tracker: pull.tracker,
        repo: beside.map_or(pull.repo, |issue| issue.repo.clone()),
        id: branch.clone(),
    });
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
        .hint(
            "`git init` creates one; if there is a `.git`, `git status` says what is wrong with it",
        )
        .hint(format!("without `--{flag}` the run needs none")))
}

/// The branch that a run works on; none on a detached head.
pub(super) fn branch_of(header: &RunStarted, workspace: &Workspace) -> Option<String> {
    let named = header.place.branch.clone();
    named.or_else(|| branch::current(workspace))
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
    match branch_of(header, workspace) {
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
