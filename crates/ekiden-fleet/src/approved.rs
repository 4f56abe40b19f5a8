//! The plan as it was submitted, and whether it may run here.
//!
//! The server says what is to be done: of which run, at which stage, from which commit. Where keys are trusted, that must fit to
//! a plan that the owner of one has signed: it is that run's, and the commit is one that the run made.

use ekiden_core::ids::RunId;
use ekiden_core::manifest::{Isolation, Manifest};
use ekiden_core::settings::RunStarted;

use crate::base::Base;
use crate::fault::Fault;
use crate::git::Git;
use crate::order::{StageTask, Submission, refs};

/// The name of the submission in the plan's commit.
pub(crate) const PLAN_FILE: &str = "plan.json";

/// The plan of a commit, which the mirror has from then on.
pub(crate) async fn submission(base: &Base, run: &RunId, plan: &str) -> Result<Submission, Fault> {
    let mirror = Git::at(&base.mirror().await?);
    let file = format!("{plan}:{PLAN_FILE}");
    let ask = ["cat-file", "blob", &file];
    let known = mirror.ended(&ask, b"").await?;
    let text = if known.ok {
        known.stdout
    } else {
        base.fetch(&[refs::plan(run)]).await?;
        mirror.line(&ask).await?
    };
    if let Some(keys) = &base.trusted_keys {
        let keys = format!("gpg.ssh.allowedSignersFile={}", keys.display());
        let ask = ["-c", &keys, "verify-commit", plan];
        if !mirror.ended(&ask, b"").await?.ok {
            let text = "the plan is not signed by a key that this worker trusts";
            return Err(Fault::Untrusted(text.to_owned()));
        }
    }
    Ok(serde_json::from_str(&text)?)
}

/// Refuses a plan that is not that run's, or a commit that the run cannot have made. To be asked once the commit is fetched.
pub(crate) async fn check(
    base: &Base,
    submission: &Submission,
    run: &RunId,
    begins: &str,
) -> Result<(), Fault> {
    if base.trusted_keys.is_none() {
        return Ok(());
    }
    let rules = submission.header.manifest.plan.as_deref();
    let begun = rules.and_then(|rules| match &rules.isolation {
        Isolation::Worktrees { base, .. } => Some(base.as_str()),
        Isolation::InPlace => None,
    });
    let mirror = Git::at(&base.mirror().await?);
    let ask = [
        "merge-base",
        "--is-ancestor",
        begun.unwrap_or_default(),
        begins,
    ];
    let follows = mirror.ended(&ask, b"").await?.ok;
    if submission.header.run != *run || !follows {
        let text = "the signed plan is that of another run, or begins elsewhere";
        return Err(Fault::Untrusted(text.to_owned()));
    }
    Ok(())
}

/// The run of one stage by itself, in place.
pub(crate) fn alone(header: &RunStarted, task: &StageTask) -> Result<RunStarted, Fault> {
    let mut header = header.clone();
    header.fleet = None;
    let Manifest { stages, plan } = &mut header.manifest;
    stages.retain(|stage| stage.id == task.stage);
    let Some(stage) = stages.first_mut() else {
        return Err(unknown(&task.run));
    };
    stage.part.needs.clear();
    if let Some(rules) = plan {
        rules.isolation = Isolation::InPlace;
    }
    Ok(header)
}

pub(crate) fn unknown(run: &RunId) -> Fault {
    Fault::Refused(format!("the plan of {run} has no such stage"))
}
