//! The user gets what all stages made: their branch is moved forward if that overwrites nothing of theirs.

use std::collections::BTreeSet;
use std::path::Path;

use ekiden_core::event::Delivery;
use ekiden_core::manifest::Ground;
use tokio::sync::watch;

use super::half::Half;
use super::{Cancelled, DeliveryJob, Grounds, patiently};
use crate::error::in_full;
use crate::git::Git;

/// Hands over. What cannot be is told, with where it lies.
pub(super) async fn deliver(grounds: &Grounds, job: &DeliveryJob, cancelled: Cancelled) -> Delivery {
    let given = give(grounds, job).await;
    let kept = grounds.places.whole_branch();
    let delivery = match given {
        Ok((branch, commit)) => Delivery::Given { branch, commit },
        Err(why) => Delivery::Kept { branch: kept, why },
    };
    clear_away(grounds, matches!(delivery, Delivery::Given { .. }), cancelled).await;
    delivery
}

/// Moves the user's branch forward, or says why not. A stop waits for that: what is ended in the middle
/// leaves their checkout between two commits.
async fn give(grounds: &Grounds, job: &DeliveryJob) -> Result<(Option<String>, String), String> {
    let Ground::Worktrees { base, branch: of_user, .. } = &grounds.ground else {
        return Err("there are no worktrees".to_owned());
    };
    let (_nobody, never) = watch::channel(0);
    let (git, whole) = (grounds.users_git().marked(job.mark.clone()), grounds.places.whole_branch());
    let head = git.line(&["rev-parse", "HEAD"]).await.map_err(|error| error.to_string())?;
    let [tip] = grounds.tips([&whole]).await?;
    let known = job.whole.as_deref();
    if tip.is_none() && is_part(grounds, known, &head).await {
        // It was handed over, and cleared away, by an engine that did not live to tell it.
        return Ok((of_user.clone(), head));
    }
    let tip = grounds.whole_at(tip, known, never.clone()).await?;
    let branch = git.line(&["symbolic-ref", "--quiet", "--short", "HEAD"]).await.ok();
    if branch != *of_user {
        return Err("another branch is checked out now".to_owned());
    }
    if head == tip {
        return Ok((branch, tip));
    }
    if head != *base {
        return Err("it has new commits since the run began".to_owned());
    }
    let half = Half { grounds, git: &git, base, tip: &tip };
    if !(job.is_repeated && half.complete(never.clone()).await?) {
        let status = git.run(&["status", "--porcelain", "--untracked-files=no"]).await;
        if !status.map_err(|error| error.to_string())?.is_empty() {
            return Err("there are changes that are not committed".to_owned());
        }
        forward(&git, &whole, branch.as_deref(), never).await?;
    }
    match git.line(&["rev-parse", "HEAD"]).await {
        Ok(head) if head == tip => Ok((branch, tip)),
        Ok(head) => Err(format!("git moved it to {head} and not to {tip}")),
        Err(error) => Err(error.to_string()),
    }
}

/// Moves the checkout forward, and nothing else: whatever the user has git do when they merge.
async fn forward(git: &Git, whole: &str, branch: Option<&str>, cancelled: Cancelled) -> Result<(), String> {
    let options = branch.map(|branch| format!("branch.{branch}.mergeOptions="));
    let mut args = vec!["-c", "advice.diverging=false"];
    // A name with `=` cannot be told so.
    if let Some(options) = options.as_deref().filter(|options| options.matches('=').count() == 1) {
        args.extend(["-c", options]);
    }
    args.extend([
        "merge",
        "--quiet",
        "--ff-only",
        "--no-squash",
        "--commit",
        "--no-verify-signatures",
        whole,
    ]);
    patiently(git, &args, cancelled).await.map(|_| ())
}

/// All that was merged is in this commit.
async fn is_part(grounds: &Grounds, known: Option<&str>, of: &str) -> bool {
    match known {
        Some(known) => grounds.is_ancestor(known, of).await,
        None => true,
    }
}

/// Removes the worktrees and the branches that nobody needs any more. What is not part of the whole stays:
/// a stage that was skipped may have done more than half.
async fn clear_away(grounds: &Grounds, given: bool, cancelled: Cancelled) {
    let git = grounds.users_git();
    let whole = grounds.places.whole_branch();
    let known = git.run(&["worktree", "list", "--porcelain"]).await.unwrap_or_default();
    let known: Vec<&str> = known.lines().filter_map(|line| line.strip_prefix("worktree ")).collect();
    let Some(whole_tree) = grounds.places.whole_tree() else { return };
    let mut needless = merged(grounds, &whole).await;
    let prefix = whole_tree.to_string_lossy().into_owned();
    let of_stage = |path: &str| path.strip_prefix(&prefix)?.strip_prefix('-').map(str::to_owned);
    for tree in &known {
        let branch = of_stage(tree).map(|stage| format!("{whole}-{stage}"));
        match branch {
            Some(branch) if needless.contains(&branch) && !is_kept(grounds, tree.as_ref()).await => {}
            Some(branch) => {
                needless.remove(&branch);
                continue;
            }
            None if *tree == prefix => {}
            None => continue,
        }
        grounds.remove_tree(tree.as_ref(), cancelled.clone()).await;
    }
    if let Err(error) = grounds.clear_remnants(&known) {
        grounds.note(in_full(&error));
    }
    for branch in needless.iter().filter(|branch| given || **branch != whole) {
        if let Err(error) = git.run(&["branch", "--quiet", "-D", branch]).await {
            grounds.note(format!("the branch {branch} is left and nobody needs it: {error}"));
        }
    }
}

/// Our branches that are part of the whole.
async fn merged(grounds: &Grounds, whole: &str) -> BTreeSet<String> {
    let pattern = format!("refs/heads/{whole}*");
    let git = grounds.users_git();
    let [tip] = grounds.tips([whole]).await.unwrap_or_default();
    let into = if tip.is_some() { whole } else { "HEAD" };
    let args = ["for-each-ref", "--format=%(refname:short)", "--merged", into, &pattern];
    git.run(&args).await.unwrap_or_default().lines().map(str::to_owned).collect()
}

/// Somebody's work may be there that is not committed. Of a worktree that lost its `.git`, nobody can tell;
/// what is in it is not removed in any case.
async fn is_kept(grounds: &Grounds, tree: &Path) -> bool {
    if !grounds.is_there(&tree.join(".git")) {
        return false;
    }
    // Whatever the user's settings hide.
    let args = ["status", "--porcelain", "--untracked-files=all", "--ignore-submodules=none"];
    let is_clean = grounds.git(tree).run(&args).await.is_ok_and(|status| status.is_empty());
    !is_clean || has_submodule_commits(grounds, tree).await
}

/// A stage committed in a submodule: those commits lie in this worktree's git directory, and nowhere else.
async fn has_submodule_commits(grounds: &Grounds, tree: &Path) -> bool {
    let Ground::Worktrees { base, .. } = &grounds.ground else { return false };
    if !grounds.git_dir(tree).is_some_and(|dir| grounds.is_there(&dir.join("modules"))) {
        return false;
    }
    let args = ["diff", "--raw", "--no-renames", "--ignore-submodules=none", base, "HEAD"];
    let changed = grounds.git(tree).run(&args).await.unwrap_or_default();
    let is_moved = |line: &str| line.split(' ').nth(1) == Some("160000");
    if !changed.lines().any(is_moved) {
        return false;
    }
    let tree = tree.display();
    grounds.note(format!(
        "the worktree {tree} stays: a submodule in it has commits that may be nowhere else; push them, then \
         `git worktree remove --force {tree}`"
    ));
    true
}
