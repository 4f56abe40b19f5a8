//! Brings a plan's result into the follower's repository.

use ekiden_core::event::Delivery;
use ekiden_core::manifest::Isolation;
use ekiden_core::settings::FleetPlace;

use crate::fault::Fault;
use crate::git::Git;
use crate::order::{Submission, refs};

/// Fetches the integration branch, and moves the user's branch forward if it is clean and has not moved. A
/// pull request gets a separate branch. After an error nothing has changed.
pub(crate) async fn deliver(
    git: &Git,
    submission: &Submission,
    remote: &str,
) -> Result<Delivery, Fault> {
    let run = &submission.header.run;
    let rules = submission.header.manifest.plan.as_deref();
    let (base, branch) = match rules.map(|rules| &rules.isolation) {
        Some(Isolation::Worktrees { base, branch, .. }) => (base.as_str(), branch.as_deref()),
        Some(Isolation::InPlace) | None => ("", None),
    };
    let kept = format!("ekiden/{run}");
    // Not into the branch at once: that may fail permanently.
    let followed = FleetPlace::merged(run);
    let spec = format!("+{}:{followed}", refs::merged(run));
    let branched = match git.fetch(remote, &[&spec]).await {
        Err(away @ Fault::Remote { .. }) => return Err(away),
        Err(fault) => Err(fault),
        Ok(()) => git.line(&["branch", "--force", &kept, &followed]).await,
    };
    let (given, command) = match (branched, &submission.header.place.branch) {
        (Err(fault), _) => (
            Err(fault),
            format!("git fetch {remote} {spec} && git merge {followed}"),
        ),
        (Ok(_), Some(new)) => (
            new_branch(git, new, &kept).await,
            format!("git branch {new} {kept}"),
        ),
        (Ok(_), None) => (
            forward(git, base, branch, &kept).await,
            format!("git merge --no-overwrite-ignore {kept}"),
        ),
    };
    Ok(match given {
        Ok(commit) => Delivery::Given {
            branch: branch.map(str::to_owned),
            commit,
        },
        Err(fault) => Delivery::Kept {
            branch: kept,
            why: fault.to_string(),
            command,
        },
    })
}

/// Creates a branch that did not exist when the plan began, or that was created here before.
async fn new_branch(git: &Git, new: &str, kept: &str) -> Result<String, Fault> {
    let made = git.line(&["branch", new, kept]).await;
    let [is, wanted] = [new, kept].map(|name| format!("refs/heads/{name}"));
    let (is, wanted) = (git.object(&is).await?, git.object(&wanted).await?);
    match is.filter(|is| Some(is) == wanted.as_ref()) {
        Some(is) => Ok(is),
        None => made,
    }
}

/// Moves the checked-out branch forward, unless it already has everything.
async fn forward(git: &Git, base: &str, branch: Option<&str>, kept: &str) -> Result<String, Fault> {
    let here = git.line(&["rev-parse", "HEAD"]).await?;
    let on = git.ended(&["symbolic-ref", "--short", "HEAD"], b"").await?;
    let moved = || Fault::Refused("it is not as it was when the plan began".to_owned());
    if Some(on.stdout.trim()) != branch {
        return Err(moved());
    }
    let has_all = ["merge-base", "--is-ancestor", kept, "HEAD"];
    if git.ended(&has_all, b"").await?.ok {
        return Ok(here);
    }
    let dirty = ["status", "--porcelain", "--untracked-files=no"];
    if here != base || !git.line(&dirty).await?.is_empty() {
        return Err(moved());
    }
    // A file of the user's that git ignores is theirs.
    let merge = ["merge", "--quiet", "--ff-only", "--no-overwrite-ignore"];
    git.line(&[&merge[..], &[kept]].concat()).await?;
    git.line(&["rev-parse", "HEAD"]).await
}
