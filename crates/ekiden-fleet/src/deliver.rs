//! Brings what a plan made into the repository of whoever follows it.

use ekiden_core::event::Delivery;
use ekiden_core::manifest::Isolation;

use crate::fault::Fault;
use crate::git::Git;
use crate::order::{Submission, refs};

/// Fetches the integration branch, and moves the user's branch forward if it is clean and has not moved.
pub(crate) async fn deliver(git: &Git, submission: &Submission, remote: &str) -> Delivery {
    let run = &submission.header.run;
    let rules = submission.header.manifest.plan.as_deref();
    let (base, branch) = match rules.map(|rules| &rules.isolation) {
        Some(Isolation::Worktrees { base, branch, .. }) => (base.as_str(), branch.as_deref()),
        Some(Isolation::InPlace) | None => ("", None),
    };
    let kept = format!("ekiden/{run}");
    let fetched = format!("+{}:refs/heads/{kept}", refs::merged(run));
    let fetch = ["fetch", "--quiet", "--no-tags", "--", remote, &fetched];
    let moved: Result<Option<String>, Fault> = async {
        git.line(&fetch).await?;
        let here = git.line(&["rev-parse", "HEAD"]).await?;
        let on = git.ended(&["symbolic-ref", "--short", "HEAD"], b"");
        let on = on.await?.stdout;
        let dirty = ["status", "--porcelain", "--untracked-files=no"];
        let dirty = git.line(&dirty).await?;
        if here != base || Some(on.trim()) != branch || !dirty.is_empty() {
            return Ok(None);
        }
        git.line(&["merge", "--quiet", "--ff-only", &kept]).await?;
        git.line(&["rev-parse", "HEAD"]).await.map(Some)
    }
    .await;
    let (why, command) = match moved {
        Ok(Some(commit)) => {
            let branch = branch.map(str::to_owned);
            return Delivery::Given { branch, commit };
        }
        Ok(None) => (
            "it is not as it was when the plan began".to_owned(),
            format!("git merge {kept}"),
        ),
        Err(fault) => (fault.to_string(), format!("git {}", fetch.join(" "))),
    };
    Delivery::Kept {
        branch: kept,
        why,
        command,
    }
}
