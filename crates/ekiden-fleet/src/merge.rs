//! Merges a stage's result: one at a time. A merge that was made without anybody hearing of it is found
//! again.

use std::collections::BTreeSet;
use std::path::Path;

use ekiden_core::event::Check;
use ekiden_core::ids::StageId;
use ekiden_core::manifest::{Stage, Verification};
use ekiden_engine::check;
use tokio::try_join;

use crate::approved;
use crate::fault::Fault;
use crate::git::{self, Git, Move};
use crate::order::{MergeDone, MergeFailure, MergeTask, Submission, refs};
use crate::setup::set_up;
use crate::worker_context::WorkerContext;

const TRAILER: &str = "Ekiden-Effect";

/// How often a merge is tried whose work tree cannot be set up: the worker may be to blame, or the merge.
const SETUP_TRIES: u32 = 3;

/// Merges a stage's result, or confirms with its validation that the work was done before. `tries` counts
/// this one.
pub(crate) async fn merge(
    base: &WorkerContext,
    merge: &MergeTask,
    tries: u32,
) -> Result<MergeDone, Fault> {
    let task = &merge.task;
    let name = refs::merged(&task.run);
    let made = format!("refs/heads/ekiden/{}/{}/*", task.run, task.stage);
    let place = base.place(&format!("{}-merge-", task.run))?;
    let mirror = base.mirror().await?;
    let names = [name.clone(), made];
    let (submission, git, ()) = try_join!(
        approved::submission(base, &task.run, &task.plan),
        git::clone(&mirror, place.path()),
        base.fetch(&names)
    )?;
    let manifest = &submission.header.manifest;
    let mut stages = manifest.stages.iter();
    let stage = stages.find(|stage| stage.id == task.stage);
    let stage = stage.ok_or_else(|| approved::unknown(&task.run))?;
    approved::check(base, &submission, &task.run, &task.base).await?;
    let tree = place.path().join("tree");
    let Some(made) = &merge.commit else {
        return confirm(&git, &tree, &submission, stage, &task.base, tries).await;
    };
    approved::named_by_hash(made)?;
    let of = format!("{}/{}", task.run, task.stage);
    let merged = Merged::read(&Git::at(&mirror), &task.base, &name).await?;
    if let Some(commit) = merged.of(&of) {
        return Ok(MergeDone::Merged { commit });
    }
    let tip = &merged.tip;
    let failed = async |files, check| {
        let met = merged.since(&git, made).await?;
        let failure = MergeFailure { files, check, met };
        Ok(MergeDone::Conflict(failure.bounded()))
    };
    let merged_tree = match merge_trees(&git, tip, made).await? {
        Ok(tree) => tree,
        Err(files) => return failed(files, None).await,
    };
    let subject = format!("ekiden: {} {}", stage.id, stage.task_name);
    let trailer = format!("{TRAILER}: {of}");
    let parents = ["-p", tip, "-p", made, "-m", &subject, "-m", &trailer];
    let args = [&["commit-tree", &merged_tree][..], &parents].concat();
    let commit = git.line(&args).await?;
    let done = merged.stages();
    let met = task.merge_failure.iter().flat_map(|failure| &failure.met);
    let verification = manifest.merge_verification(stage, met, &done.iter().collect());
    if let Some(verification) = verification {
        let check = validate(&git, &tree, &submission, &verification, &commit, tries).await?;
        if !check.passed() {
            return failed(Vec::new(), Some(check)).await;
        }
    }
    let to = commit.clone();
    let from = Some(merged.tip);
    // If another attempt at this merge was faster, the next try finds its result.
    git.push(&base.remote, &[Move { name, from, to }]).await?;
    Ok(MergeDone::Merged { commit })
}

/// The merged tree of two commits, or the files that conflict.
async fn merge_trees(
    git: &Git,
    ours: &str,
    theirs: &str,
) -> Result<Result<String, Vec<String>>, Fault> {
    let merge = ["merge-tree", "--write-tree", "--name-only", "--no-messages"];
    let args = [&merge[..], &[ours, theirs]].concat();
    let merged = git.ended(&args, b"").await?;
    let mut lines = merged.stdout.lines().map(str::to_owned);
    let tree = lines.next().unwrap_or_default();
    if merged.ok {
        return Ok(Ok(tree));
    }
    let files: Vec<String> = lines.filter(|line| !line.is_empty()).collect();
    match files.is_empty() {
        true => Err(Fault::Git {
            command: "merge-tree".to_owned(),
            said: merged.said,
        }),
        false => Ok(Err(files)),
    }
}

async fn confirm(
    git: &Git,
    tree: &Path,
    submission: &Submission,
    stage: &Stage,
    commit: &str,
    tries: u32,
) -> Result<MergeDone, Fault> {
    let Some(verification) = &stage.verification else {
        let why = "it has neither validation nor outputs, so nothing shows that it was done";
        let why = why.to_owned();
        return Ok(MergeDone::Refused { why });
    };
    let check = validate(git, tree, submission, verification, commit, tries).await?;
    if check.passed() {
        let commit = commit.to_owned();
        return Ok(MergeDone::Merged { commit });
    }
    let why = format!("its validation {check}");
    Ok(MergeDone::Refused { why })
}

/// Checks a commit out into a work tree like those of stages, and validates it.
async fn validate(
    git: &Git,
    tree: &Path,
    submission: &Submission,
    verification: &Verification,
    commit: &str,
    tries: u32,
) -> Result<Check, Fault> {
    git.line(&["checkout", "--quiet", "--detach", commit])
        .await?;
    let not_set_up = set_up(submission, tree).await?;
    let mut check = check(&tree.join(&submission.prefix), verification).await?;
    if let Some(why) = not_set_up.filter(|_| !check.passed()) {
        if tries < SETUP_TRIES {
            return Err(Fault::Refused(why));
        }
        check.tail = format!("{why}\n{}", check.tail);
    }
    Ok(check)
}

/// What the integration branch holds of the run.
struct Merged {
    tip: String,
    /// Its commits, the latest first, each with its purpose.
    commits: Vec<(String, String)>,
}

impl Merged {
    async fn read(git: &Git, from: &str, name: &str) -> Result<Self, Fault> {
        let range = format!("{from}..{name}");
        let format = format!("--format=%H %(trailers:key={TRAILER},valueonly,separator=%x20)");
        let all = git
            .line(&["log", "--first-parent", &format, &range])
            .await?;
        let split = |line: &str| {
            let (commit, of) = line.split_once(' ').unwrap_or((line, ""));
            (commit.to_owned(), of.to_owned())
        };
        let commits: Vec<(String, String)> = all.lines().map(split).collect();
        let tip = commits.first().map_or(from, |(commit, _)| commit);
        Ok(Self {
            tip: tip.to_owned(),
            commits,
        })
    }

    /// The stages whose work it has.
    fn stages(&self) -> BTreeSet<StageId> {
        let all = self.commits.iter();
        all.filter_map(|(_, of)| stage_of(of)).collect()
    }

    /// Those that were merged while this result was made.
    async fn since(&self, git: &Git, made: &str) -> Result<BTreeSet<StageId>, Fault> {
        let range = format!("{made}..{}", self.tip);
        let new = git.line(&["rev-list", "--first-parent", &range]).await?;
        let new: BTreeSet<&str> = new.lines().collect();
        let all = self.commits.iter();
        let met = all.filter(|(commit, _)| new.contains(commit.as_str()));
        Ok(met.filter_map(|(_, of)| stage_of(of)).collect())
    }

    fn of(&self, wanted: &str) -> Option<String> {
        let mut commits = self.commits.iter();
        let found = commits.find(|(_, of)| of == wanted);
        found.map(|(commit, _)| commit.clone())
    }
}

fn stage_of(purpose: &str) -> Option<StageId> {
    let (_, stage) = purpose.split_once('/')?;
    StageId::try_from(stage.to_owned()).ok()
}
