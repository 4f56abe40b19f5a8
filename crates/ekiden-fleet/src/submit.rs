//! Submits a plan, waits for its end, and brings what it made.

use std::time::Duration;

use ekiden_core::manifest::{Isolation, Take};
use ekiden_core::outcome::Outcome;
use ekiden_core::steering::StopRequest;
use ekiden_core::text::in_full;
use temporalio_client::errors::WorkflowGetResultError;
use temporalio_client::{
    Client, WorkflowCancelOptions, WorkflowGetResultOptions, WorkflowHandle, WorkflowStartOptions,
};
use temporalio_common::{HasWorkflowDefinition, WorkflowDefinition};

use crate::Failure;
use crate::attempt::PLAN_FILE;
use crate::fault::Fault;
use crate::git::Git;
use crate::order::{ORDER_BYTES_MAX, Order, PlanDone, Submission, outline, refs};
use crate::worker::{asked_to_leave, connect, deserted};
use crate::workflow::FleetPlan;

/// The pause before the server is asked again.
const AWAY_PAUSE: Duration = Duration::from_secs(2);

pub(crate) async fn submit(submission: Submission) -> Result<Outcome, Failure> {
    let (base, branch) = where_it_begins(&submission)?;
    let git = Git::at(&submission.repository);
    let run = submission.header.run.clone();
    let client = connect().await?;
    let named = submission.header.manifest.stages.iter();
    let named = named.filter_map(|stage| stage.part.queue.clone());
    if let Some(queue) = deserted(&client, named.collect()).await? {
        return Err(Failure::no_worker(&queue));
    }
    let order = Order {
        ekiden: submission.header.ekiden.clone(),
        run: run.clone(),
        outline: outline(&submission.header.manifest),
        base: base.clone(),
        plan: publish(&git, &submission, &base)
            .await
            .map_err(|fault| Failure::unreachable_remote(in_full(&fault)))?,
        lease_secs: submission.lease_secs,
    };
    let bytes = serde_json::to_vec(&order).map_or(0, |bytes| bytes.len());
    if bytes > ORDER_BYTES_MAX {
        let text =
            format!("the plan has too many stages for a fleet: its outline is {bytes} bytes");
        return Err(Failure::settings(text));
    }
    let options = WorkflowStartOptions::new(submission.queue.clone(), format!("ekiden-{run}"));
    let started = client
        .start_workflow(FleetPlan::run, order, options.build())
        .await;
    let handle = started.map_err(Failure::unreachable)?;
    crate::say(&format!("run {run} is with the fleet; ctrl-c stops it"));
    let done = tokio::select! {
        done = result(&handle) => done?,
        () = asked_to_leave() => {
            crate::say("stopping: waiting until every agent has stopped; ctrl-c again does not wait");
            let asked = handle.cancel(WorkflowCancelOptions::default()).await;
            asked.map_err(Failure::unreachable)?;
            tokio::select! {
                done = result(&handle) => done?,
                () = asked_to_leave() => return Ok(Outcome::Stopped { request: StopRequest::Gently }),
            }
        }
    };
    crate::say(&format!("{} ({} merged)", done.outcome, done.merged));
    for (stage, why) in &done.reasons {
        crate::say(&format!("  {stage}  {why}"));
    }
    match done.outcome.is_complete() {
        true => Ok(deliver(&git, &submission, branch.as_deref(), &base, done).await),
        false => Ok(done.outcome),
    }
}

/// Waits for the end of a plan, however long the server is away: the workers go on without it.
async fn result<W>(handle: &WorkflowHandle<Client, W>) -> Result<PlanDone, Failure>
where
    W: HasWorkflowDefinition + WorkflowDefinition<Output = PlanDone>,
{
    let mut is_away = false;
    loop {
        let options = WorkflowGetResultOptions::default();
        match handle.get_result(options).await {
            Ok(done) => return Ok(done),
            Err(WorkflowGetResultError::Rpc(_) | WorkflowGetResultError::Other(_)) => {
                if !std::mem::replace(&mut is_away, true) {
                    crate::say("the Temporal server does not answer; waiting for it");
                }
                tokio::time::sleep(AWAY_PAUSE).await;
            }
            Err(error) => return Err(Failure::unreachable(error)),
        }
    }
}

/// The commit at which the plan begins, and the branch that is to get what it makes.
fn where_it_begins(submission: &Submission) -> Result<(String, Option<String>), Failure> {
    let manifest = &submission.header.manifest;
    if manifest
        .stages
        .iter()
        .any(|stage| stage.part.take == Take::Assume)
    {
        let text = "a fleet does not check whether stages were done before";
        return Err(Failure::settings(text.to_owned()));
    }
    let rules = manifest.plan.as_deref();
    match rules.map(|rules| &rules.isolation) {
        Some(Isolation::Worktrees {
            base,
            branch,
            copy,
            setup,
            ..
        }) => {
            if !copy.is_empty() || setup.is_some() {
                let text = "a fleet does not copy files into a stage's work tree, or set it up";
                return Err(Failure::settings(text.to_owned()));
            }
            Ok((base.clone(), branch.clone()))
        }
        Some(Isolation::InPlace) | None => {
            let text = "a fleet moves work by git: the project needs a repository with a commit";
            Err(Failure::settings(text.to_owned()))
        }
    }
}

/// Pushes what workers begin from. Gives the commit that holds the plan.
async fn publish(git: &Git, submission: &Submission, base: &str) -> Result<String, Fault> {
    let run = &submission.header.run;
    let text = serde_json::to_vec(submission)?;
    let blob = git.fed(&["hash-object", "-w", "--stdin"], &text).await?;
    let listed = format!("100644 blob {blob}\t{PLAN_FILE}\n");
    let tree = git.fed(&["mktree"], listed.as_bytes()).await?;
    let subject = format!("ekiden: the plan of {run}");
    let key = submission.sign_key.as_deref();
    let key = key.map(|key| format!("user.signingKey={}", key.display()));
    let mut args = Vec::new();
    if let Some(key) = &key {
        args.extend(["-c", "gpg.format=ssh", "-c", key]);
    }
    args.extend(["commit-tree", &tree, "-m", &subject]);
    args.extend(key.as_ref().map(|_| "-S"));
    let plan = git.line(&args).await?;
    git.push(&submission.remote, &refs::plan(run), None, &plan)
        .await?;
    git.push(&submission.remote, &refs::merged(run), None, base)
        .await?;
    Ok(plan)
}

/// Fetches the integration branch, and moves the user's branch forward if it is clean and has not moved.
async fn deliver(
    git: &Git,
    submission: &Submission,
    branch: Option<&str>,
    base: &str,
    done: PlanDone,
) -> Outcome {
    let run = &submission.header.run;
    let local = format!("ekiden/{run}");
    let fetched = format!("+{}:refs/heads/{local}", refs::merged(run));
    let fetch = [
        "fetch",
        "--quiet",
        "--no-tags",
        &submission.remote,
        &fetched,
    ];
    let moved = async {
        git.line(&fetch).await?;
        let here = git.line(&["rev-parse", "HEAD"]).await?;
        let on = git
            .ended(&["symbolic-ref", "--short", "HEAD"], b"")
            .await?
            .stdout;
        let dirty = git
            .line(&["status", "--porcelain", "--untracked-files=no"])
            .await?;
        if here != base || Some(on.trim()) != branch || !dirty.is_empty() {
            return Ok(false);
        }
        git.line(&["merge", "--quiet", "--ff-only", &done.tip])
            .await
            .map(|_| true)
    };
    let moved: Result<bool, Fault> = moved.await;
    if let Ok(true) = moved {
        return done.outcome;
    }
    let command = match moved {
        Ok(_) => format!("git merge {local}"),
        Err(_) => format!("git {}", fetch.join(" ")),
    };
    Outcome::Undelivered {
        verified: matches!(done.outcome, Outcome::Complete { verified: true }),
        command,
    }
}
