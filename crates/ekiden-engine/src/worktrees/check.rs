//! What a plan in worktrees needs from the repository. It is checked before anything is created; otherwise each
//! stage would fail hours later.

use std::collections::BTreeSet;
use std::path::Path;

use ekiden_agent::keeper;
use ekiden_core::ids::RunId;
use ekiden_core::manifest::{Isolation, Manifest};

use super::setup::{self, COPIES_MAX};
use crate::error::EngineError;
use crate::git::branch::full_name;
use crate::git::{Git, GitError};
use crate::globs;
use crate::paths::BRANCHES;
use crate::runtime::{runtime, system};
use crate::workspace::Workspace;

/// Checks that git can make branches, and can commit what stages do without the files that are only lent to them.
/// Starts a runtime, so it panics if called within one.
pub fn check_git(workspace: &Workspace, manifest: &Manifest) -> Result<(), EngineError> {
    let rules = manifest.plan.as_deref();
    let Some(Isolation::Worktrees { copy, .. }) = rules.map(|rules| &rules.isolation) else {
        return Ok(());
    };
    let git = git(workspace)?;
    runtime()?.block_on(async {
        check_repository(&git).await?;
        check_context(&git, &workspace.dir, manifest).await?;
        check_copies(&git, &workspace.dir, copy).await
    })
}

/// The part that is the same for every plan. Starts a runtime, too.
pub fn check_any(workspace: &Workspace) -> Result<(), EngineError> {
    runtime()?.block_on(check_repository(&git(workspace)?))
}

/// Whether the branch of a plan's run has commits that are not on the one that is checked out. Starts a runtime, too.
pub(crate) fn is_apart(workspace: &Workspace, run: &RunId) -> Result<bool, EngineError> {
    let (git, branch) = (git(workspace)?, full_name(&format!("{BRANCHES}/{run}")));
    let args = [&branch[..], "HEAD"];
    let asked = runtime()?.block_on(git.run("merge-base --is-ancestor", &args));
    Ok(matches!(asked, Err(GitError::Failed { code: 1, .. })))
}

fn git(workspace: &Workspace) -> Result<Git, EngineError> {
    let keeper = keeper::executable().map_err(system("find this program"))?;
    Ok(Git::new(keeper, workspace.dir.clone()))
}

async fn check_repository(git: &Git) -> Result<(), EngineError> {
    if !git.knows_committer().await {
        return cannot_plan(
            "stages commit their work, and git has no name and email for you",
            "say who you are: `git config --global user.name NAME`, `git config --global user.email ADDRESS`",
        );
    }
    let merge = "merge-tree --write-tree HEAD HEAD";
    if git.run(merge, &[]).await.is_err() {
        let why = "this git cannot merge without a work tree";
        return cannot_plan(why, "install git 2.38 or newer");
    }
    let branch = format!("show-ref --verify --quiet refs/heads/{BRANCHES}");
    if git.run(&branch, &[]).await.is_ok() {
        return cannot_plan(
            format!("there is a branch `{BRANCHES}`, so git can make none below it"),
            format!("`git branch -m {BRANCHES} NEW-NAME` frees the name"),
        );
    }
    Ok(())
}

fn cannot_plan(why: impl Into<String>, hint: impl Into<String>) -> Result<(), EngineError> {
    let (why, hint) = (why.into(), hint.into());
    Err(EngineError::CannotPlan { why, hint })
}

const LENT: &str =
    "`[worktree] copy` in the manifest names files of the project; `setup` creates others";

/// Checks that files that are copied into worktrees are the project's own, and stay out of commits.
async fn check_copies(git: &Git, dir: &Path, copy: &[String]) -> Result<(), EngineError> {
    let Ok(found) = globs::find(dir, copy, COPIES_MAX) else {
        return Ok(());
    };
    if let Some(name) = found.missing.first() {
        let why = format!("`copy` names `{name}`, and there is no such file");
        return cannot_plan(why, LENT);
    }
    if found.files.is_empty() {
        return Ok(());
    }
    for file in &found.files {
        if let Err(why) = setup::find(dir, file) {
            return cannot_plan(why, LENT);
        }
    }
    let list = "--literal-pathspecs ls-files --others --exclude-standard -z --";
    let files: Vec<&str> = found.files.iter().map(String::as_str).collect();
    let seen = git.run(list, &files).await.unwrap_or_default();
    match seen.split_terminator('\0').next() {
        Some(file) => cannot_plan(
            format!("`{file}` is copied into worktrees, where git would commit it"),
            "`.gitignore` or `.git/info/exclude` keeps it out of commits",
        ),
        None => Ok(()),
    }
}

/// Checks that the untracked files that stages name fit into what is carried into a worktree.
async fn check_context(git: &Git, dir: &Path, manifest: &Manifest) -> Result<(), EngineError> {
    let all: BTreeSet<&String> = manifest
        .stages
        .iter()
        .flat_map(|stage| &stage.part.context)
        .collect();
    let all: Vec<String> = all.into_iter().cloned().collect();
    if globs::all_of(dir, &all).map_or(0, |files| files.len()) <= COPIES_MAX {
        return Ok(());
    }
    let known = git.run("ls-files -z", &[]).await.unwrap_or_default();
    let known: BTreeSet<&str> = known.split_terminator('\0').collect();
    for stage in &manifest.stages {
        // A name that leads out of the project is reported when the stage begins.
        let mut files = globs::all_of(dir, &stage.part.context).unwrap_or_default();
        files.retain(|file| !known.contains(file.as_str()));
        if files.len() > COPIES_MAX {
            let (stage, files) = (&stage.id, files.len());
            return cannot_plan(
                format!(
                    "`context` of stage {stage} names {files} untracked files, and at most {COPIES_MAX} are copied into a worktree"
                ),
                "`git add` and commit them, or name fewer; what tools make is for `[worktree] setup`",
            );
        }
    }
    Ok(())
}
