//! The user gets what all stages made: their branch is moved forward if that overwrites nothing of theirs.

use ekiden_core::event::Delivery;
use ekiden_core::manifest::Ground;

use super::{Cancelled, Grounds, patiently};

/// Hands over. What cannot be is told, with where it lies.
pub(super) async fn deliver(grounds: &Grounds, cancelled: Cancelled) -> Delivery {
    let given = give(grounds, cancelled.clone()).await;
    let kept = grounds.places.whole_branch();
    let delivery = match given {
        Ok((branch, commit)) => Delivery::Given { branch, commit },
        Err(why) => Delivery::Kept { branch: kept, why },
    };
    clear_away(grounds, matches!(delivery, Delivery::Given { .. }), cancelled).await;
    delivery
}

/// Moves the user's branch forward, or says why not.
async fn give(grounds: &Grounds, cancelled: Cancelled) -> Result<(Option<String>, String), String> {
    let Ground::Worktrees { base, branch: of_user, .. } = &grounds.ground else {
        return Err("there are no worktrees".to_owned());
    };
    let (git, whole) = (grounds.users_git(), grounds.places.whole_branch());
    let head = git.line(&["rev-parse", "HEAD"]).await.map_err(|error| error.to_string())?;
    let Some(tip) = grounds.branch_tip(&whole).await else {
        // It was handed over, and cleared away, by an engine that did not live to tell it.
        return Ok((of_user.clone(), head));
    };
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

/// Removes the worktrees and the branches that nobody needs any more.
async fn clear_away(grounds: &Grounds, given: bool, cancelled: Cancelled) {
    let git = grounds.users_git();
    let whole = grounds.places.whole_branch();
    let known = git.run(&["worktree", "list", "--porcelain"]).await.unwrap_or_default();
    let Some(whole_tree) = grounds.places.whole_tree() else { return };
    let prefix = whole_tree.to_string_lossy().into_owned();
    let ours = |path: &&str| *path == prefix || path.starts_with(&format!("{prefix}-"));
    for tree in known.lines().filter_map(|line| line.strip_prefix("worktree ")).filter(ours) {
        grounds.remove_tree(tree.as_ref(), cancelled.clone()).await;
    }
    let pattern = format!("refs/heads/{whole}*");
    let branches = git.run(&["for-each-ref", "--format=%(refname:short)", &pattern]).await;
    for branch in branches.unwrap_or_default().lines().filter(|branch| given || *branch != whole) {
        // What stays is only a name too many.
        let _ = git.run(&["branch", "--quiet", "-D", branch]).await;
    }
}
