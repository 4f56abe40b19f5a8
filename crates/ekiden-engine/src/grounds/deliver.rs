//! The user gets what all stages made: their branch is moved forward if that overwrites nothing of theirs.

use std::collections::BTreeSet;

use ekiden_core::event::Delivery;
use ekiden_core::manifest::Ground;

use super::{Cancelled, Grounds, patiently};

/// Hands over. What cannot be is told, with where it lies.
pub(super) async fn deliver(grounds: &Grounds, whole: Option<&str>, cancelled: Cancelled) -> Delivery {
    let given = give(grounds, whole, cancelled.clone()).await;
    let kept = grounds.places.whole_branch();
    let delivery = match given {
        Ok((branch, commit)) => Delivery::Given { branch, commit },
        Err(why) => Delivery::Kept { branch: kept, why },
    };
    clear_away(grounds, matches!(delivery, Delivery::Given { .. }), cancelled).await;
    delivery
}

/// Moves the user's branch forward, or says why not.
async fn give(
    grounds: &Grounds,
    known: Option<&str>,
    cancelled: Cancelled,
) -> Result<(Option<String>, String), String> {
    let Ground::Worktrees { base, branch: of_user, .. } = &grounds.ground else {
        return Err("there are no worktrees".to_owned());
    };
    let (git, whole) = (grounds.users_git(), grounds.places.whole_branch());
    let head = git.line(&["rev-parse", "HEAD"]).await.map_err(|error| error.to_string())?;
    let [tip] = grounds.tips([&whole]).await?;
    if tip.is_none() && is_part(grounds, known, &head).await {
        // It was handed over, and cleared away, by an engine that did not live to tell it.
        return Ok((of_user.clone(), head));
    }
    let tip = grounds.whole_at(tip, known, cancelled.clone()).await?;
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
    let status = git.run(&["status", "--porcelain", "--untracked-files=no"]).await;
    if !status.map_err(|error| error.to_string())?.is_empty() {
        return Err("there are changes that are not committed".to_owned());
    }
    patiently(&git, &["merge", "--quiet", "--ff-only", &whole], cancelled).await?;
    Ok((branch, tip))
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
    let Some(whole_tree) = grounds.places.whole_tree() else { return };
    let merged = merged(grounds, &whole).await;
    let prefix = whole_tree.to_string_lossy().into_owned();
    let of_stage = |path: &str| path.strip_prefix(&prefix)?.strip_prefix('-').map(str::to_owned);
    for tree in known.lines().filter_map(|line| line.strip_prefix("worktree ")) {
        let needless = match of_stage(tree) {
            Some(stage) => merged.contains(&format!("{whole}-{stage}")) && is_clean(grounds, tree).await,
            None => tree == prefix,
        };
        if needless {
            grounds.remove_tree(tree.as_ref(), cancelled.clone()).await;
        }
    }
    for branch in merged.iter().filter(|branch| given || **branch != whole) {
        // What stays is only a name too many; git keeps what is still checked out.
        let _ = git.run(&["branch", "--quiet", "-D", branch]).await;
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

async fn is_clean(grounds: &Grounds, tree: &str) -> bool {
    let status = grounds.git(tree.as_ref()).run(&["status", "--porcelain"]).await;
    status.is_ok_and(|status| status.is_empty())
}
