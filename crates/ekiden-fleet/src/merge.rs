//! Merging what a stage made: one at a time, and found again if it was made and nobody heard of it.

use std::path::Path;

use ekiden_core::event::CheckOutcome;
use ekiden_core::manifest::Verification;
use ekiden_engine::check_now;

use crate::attempt::{Base, submission, unknown};
use crate::fault::Fault;
use crate::git::{self, Git};
use crate::order::{MergeDone, MergeTask, conflict, refs};

pub(crate) async fn merge(base: &Base, merge: &MergeTask) -> Result<MergeDone, Fault> {
    let task = &merge.task;
    let name = refs::merged(&task.run);
    let made = format!("refs/heads/ekiden/{}/{}/*", task.run, task.stage);
    let mirror = base
        .fetch(&[name.clone(), refs::plan(&task.run), made])
        .await?;
    let place = base.place(&format!("{}-merge-", task.run))?;
    let git = Git::at(&git::clone(&mirror, place.path()).await?);
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
        &merge.commit,
    ];
    let merged = git.ended(&args, b"").await?;
    let mut lines = merged.stdout.lines().map(str::to_owned);
    let tree = lines.next().unwrap_or_default();
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
    let submission = submission(base, &git, task).await?;
    let mut stages = submission.header.manifest.stages.iter();
    let stage = stages
        .find(|stage| stage.id == task.stage)
        .ok_or_else(|| unknown(&task.run))?;
    let subject = format!("ekiden: {} {}", stage.id, stage.task_name);
    let args = [
        "commit-tree",
        &tree,
        "-p",
        &tip,
        "-p",
        &merge.commit,
        "-m",
        &subject,
        "-m",
        &trailer,
    ];
    let commit = git.line(&args).await?;
    if let Some(verification) = &stage.verification {
        git.line(&["checkout", "--quiet", "--detach", &commit])
            .await?;
        let dir = place.path().join("tree").join(&submission.prefix);
        if !passes(&dir, verification).await? {
            return Ok(conflict(Vec::new()));
        }
    }
    match git.push(&base.remote, &name, Some(&tip), &commit).await {
        Ok(()) => Ok(MergeDone::Merged { commit }),
        // Another attempt at this merge was faster. The next try finds what it made.
        Err(fault) => Err(fault),
    }
}

async fn find(git: &Git, trailer: &str, from: &str, to: &str) -> Result<Option<String>, Fault> {
    let range = format!("{from}..{to}");
    let grep = format!("--grep=^{trailer}$");
    let found = git
        .line(&["log", "--first-parent", "--format=%H", &grep, &range])
        .await?;
    Ok(found.lines().next().map(str::to_owned))
}

async fn passes(dir: &Path, verification: &Verification) -> Result<bool, Fault> {
    let (dir, verification) = (dir.to_owned(), verification.clone());
    let checked = tokio::task::spawn_blocking(move || check_now(&dir, &verification)).await;
    let check = checked
        .map_err(|panic| Fault::Refused(panic.to_string()))?
        .map_err(|error| Fault::Refused(error.to_string()))?;
    Ok(check.outcome == CheckOutcome::Passed)
}
