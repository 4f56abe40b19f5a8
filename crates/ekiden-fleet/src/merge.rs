//! Merging what a stage made: one at a time, and found again if it was made and nobody heard of it.

use std::path::Path;

use ekiden_core::event::Check;
use ekiden_core::manifest::{Stage, Verification};

use crate::attempt::{Base, submission, unknown};
use crate::fault::Fault;
use crate::git::{self, Git};
use crate::order::{MergeDone, MergeTask, Submission, conflict, refs};
use crate::setup::{check, set_up};

/// Merges what a stage made; or confirms that it was done before, by its validation.
pub(crate) async fn merge(base: &Base, merge: &MergeTask) -> Result<MergeDone, Fault> {
    let task = &merge.task;
    let name = refs::merged(&task.run);
    let made = format!("refs/heads/ekiden/{}/{}/*", task.run, task.stage);
    let mirror = base
        .fetch(&[name.clone(), refs::plan(&task.run), made])
        .await?;
    let place = base.place(&format!("{}-merge-", task.run))?;
    let git = Git::at(&git::clone(&mirror, place.path()).await?);
    let submission = submission(base, &git, &task.run, &task.plan, &task.base).await?;
    let mut stages = submission.header.manifest.stages.iter();
    let stage = stages
        .find(|stage| stage.id == task.stage)
        .ok_or_else(|| unknown(&task.run))?;
    let tree = place.path().join("tree");
    let Some(made) = &merge.commit else {
        return confirm(&git, &tree, &submission, stage, &task.base).await;
    };
    let tip = Git::at(&mirror).line(&["rev-parse", &name]).await?;
    let trailer = format!("Ekiden-Effect: {}/{}", task.run, task.stage);
    if let Some(commit) = find(&git, &trailer, &task.base, &tip).await? {
        return Ok(MergeDone::Merged { commit });
    }
    let args = [
        "merge-tree",
        "--write-tree",
        "--name-only",
        "--no-messages",
        &tip,
        made,
    ];
    let merged = git.ended(&args, b"").await?;
    let mut lines = merged.stdout.lines().map(str::to_owned);
    let merged_tree = lines.next().unwrap_or_default();
    if !merged.ok {
        let files: Vec<String> = lines.filter(|line| !line.is_empty()).collect();
        return match files.is_empty() {
            true => Err(Fault::Git {
                command: "merge-tree".to_owned(),
                said: merged.said,
            }),
            false => Ok(conflict(files)),
        };
    }
    let subject = format!("ekiden: {} {}", stage.id, stage.task_name);
    let args = [
        "commit-tree",
        &merged_tree,
        "-p",
        &tip,
        "-p",
        made,
        "-m",
        &subject,
        "-m",
        &trailer,
    ];
    let commit = git.line(&args).await?;
    if let Some(verification) = &stage.verification {
        let check = validate(&git, &tree, &submission, verification, &commit).await?;
        if !check.passed() {
            return Ok(conflict(Vec::new()));
        }
    }
    match git.push(&base.remote, &name, Some(&tip), &commit).await {
        Ok(()) => Ok(MergeDone::Merged { commit }),
        // Another attempt at this merge was faster. The next try finds what it made.
        Err(fault) => Err(fault),
    }
}

async fn confirm(
    git: &Git,
    tree: &Path,
    submission: &Submission,
    stage: &Stage,
    commit: &str,
) -> Result<MergeDone, Fault> {
    let Some(verification) = &stage.verification else {
        let why = "it has neither validation nor outputs, so nothing shows that it was done";
        let why = why.to_owned();
        return Ok(MergeDone::Refused { why });
    };
    let check = validate(git, tree, submission, verification, commit).await?;
    if check.passed() {
        let commit = commit.to_owned();
        return Ok(MergeDone::Merged { commit });
    }
    let why = format!("its validation {check}");
    Ok(MergeDone::Refused { why })
}

/// Checks a commit out, in a work tree as stages have it, and validates it.
async fn validate(
    git: &Git,
    tree: &Path,
    submission: &Submission,
    verification: &Verification,
    commit: &str,
) -> Result<Check, Fault> {
    git.line(&["checkout", "--quiet", "--detach", commit])
        .await?;
    set_up(submission, tree).await?;
    check(tree.join(&submission.prefix), verification.clone()).await
}

async fn find(git: &Git, trailer: &str, from: &str, to: &str) -> Result<Option<String>, Fault> {
    let range = format!("{from}..{to}");
    let grep = format!("--grep=^{trailer}$");
    let found = git
        .line(&["log", "--first-parent", "--format=%H", &grep, &range])
        .await?;
    Ok(found.lines().next().map(str::to_owned))
}
