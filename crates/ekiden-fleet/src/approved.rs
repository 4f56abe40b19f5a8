//! The plan as it was submitted, and whether it may run here.
//!
//! The server says what to do: which run, which stage, from which commit. If trusted keys are set, the
//! order must match a plan that the owner of one of them signed: the plan must be for that run, and the run
//! must have made that commit.

use ekiden_core::ids::RunId;
use ekiden_core::manifest::{Isolation, Manifest};
use ekiden_core::settings::RunStarted;

use crate::fault::{Fault, is_gone};
use crate::git::Git;
use crate::order::{StageTask, Submission, refs};
use crate::worker_context::WorkerContext;

/// The name of the submission file in the plan's commit.
pub(crate) const PLAN_FILE: &str = "plan.json";

/// The plan of a commit. The mirror has the commit afterwards.
pub(crate) async fn submission(
    base: &WorkerContext,
    run: &RunId,
    plan: &str,
) -> Result<Submission, Fault> {
    named_by_hash(plan)?;
    let mirror = Git::at(&base.mirror().await?);
    let file = format!("{plan}:{PLAN_FILE}");
    let ask = ["cat-file", "blob", &file];
    let known = mirror.ended(&ask, b"").await?;
    let text = if known.ok {
        known.stdout
    } else {
        let fetched = base.fetch(&[refs::plan(run)]).await;
        // A worker of another project takes from the same queue.
        if let Err(Fault::Git { said, .. }) = &fetched
            && is_gone(said)
        {
            let said = format!("no {run} there; perhaps this worker belongs to another project");
            return Err(Fault::Remote {
                what: "find the plan at",
                said,
            });
        }
        fetched?;
        mirror.line(&ask).await?
    };
    if let Some(keys) = &base.trusted_keys {
        let keys = format!("gpg.ssh.allowedSignersFile={}", keys.display());
        // Keys of other kinds are in keyrings that have nothing to do with fleets.
        let (pgp, x509) = ("gpg.openpgp.program=false", "gpg.x509.program=false");
        let ask = ["-c", &keys, "-c", pgp, "-c", x509, "verify-commit", plan];
        let is_signed = mirror.ended(&ask, b"").await?.ok;
        if !is_signed || !is_plan(&mirror.line(&["cat-file", "commit", plan]).await?, run) {
            let text = "the plan is not signed by a key that this worker trusts";
            return Err(Fault::Untrusted(text.to_owned()));
        }
    }
    let submission: Submission = serde_json::from_str(&text).map_err(|error| {
        Fault::Refused(format!("the plan is of another version of ekiden: {error}"))
    })?;
    refuse_newer(&submission.header.ekiden)?;
    Ok(submission)
}

/// The message of a plan's commit.
pub(crate) fn subject(run: &RunId) -> String {
    format!("ekiden: the plan of {run}")
}

/// Whether a commit was made to be this run's plan. The same key may sign other work, which may have a file of that name.
fn is_plan(commit: &str, run: &RunId) -> bool {
    let (head, message) = commit.split_once("\n\n").unwrap_or_default();
    !head.contains("\nparent ") && message.trim_end() == subject(run)
}

/// A newer worker continues what an older one began. The other way round, it would miss part of the plan.
fn refuse_newer(theirs: &str) -> Result<(), Fault> {
    match version_numbers(theirs) > version_numbers(env!("CARGO_PKG_VERSION")) {
        true => Err(Fault::Older(format!("the plan is of {theirs}"))),
        false => Ok(()),
    }
}

fn version_numbers(version: &str) -> Vec<u64> {
    let numbers = version.split(['.', '-', '+']);
    numbers.map_while(|part| part.parse().ok()).collect()
}

/// Refuses everything else that git would accept as a commit: a name may resolve differently when it is
/// read again, and `A:B` to a tree.
pub(crate) fn named_by_hash(commit: &str) -> Result<(), Fault> {
    let is_hash =
        matches!(commit.len(), 40 | 64) && commit.bytes().all(|byte| byte.is_ascii_hexdigit());
    match is_hash {
        true => Ok(()),
        false => Err(Fault::Untrusted(
            "the server does not name a commit by its hash".to_owned(),
        )),
    }
}

/// Refuses a plan that is not that run's, or a commit that the run cannot have made. Call it once the
/// commit is fetched.
pub(crate) async fn check(
    base: &WorkerContext,
    submission: &Submission,
    run: &RunId,
    begins: &str,
) -> Result<(), Fault> {
    named_by_hash(begins)?;
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
    is_of_run(&submission.header.run, run, follows)
}

/// Whether the run of the signed plan is the ordered one, and the commit follows from the one where it began.
fn is_of_run(signed: &RunId, ordered: &RunId, follows: bool) -> Result<(), Fault> {
    match signed == ordered && follows {
        true => Ok(()),
        false => Err(Fault::Untrusted(
            "the signed plan belongs to another run, or starts from another commit".to_owned(),
        )),
    }
}

/// The run of a single stage, in place.
pub(crate) fn alone(header: &RunStarted, task: &StageTask) -> Result<RunStarted, Fault> {
    let mut header = header.clone();
    (header.fleet, header.place.branch) = (None, None);
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

#[cfg(test)]
mod tests {
    use super::*;

    // shows: FLT-02
    #[test]
    fn an_older_worker_leaves_a_newer_plan_alone() {
        assert!(
            version_numbers("0.10.0") > version_numbers("0.9.3")
                && version_numbers("1.0.0-rc.1") < version_numbers("1.0.1")
        );
        let why = refuse_newer("99.0.0").unwrap_err().to_string();
        assert!(why.ends_with("and the plan is of 99.0.0"), "{why}");
        assert!(refuse_newer(env!("CARGO_PKG_VERSION")).is_ok() && refuse_newer("0.0.1").is_ok());
    }

    // shows: FLT-05
    #[test]
    fn a_signed_plan_counts_for_its_own_run_and_what_that_made() {
        let (own, other) = (RunId::from_bits(7), RunId::from_bits(8));
        assert!(is_of_run(&own, &own, true).is_ok());
        for (ordered, follows) in [(&other, true), (&own, false), (&other, false)] {
            let why = is_of_run(&own, ordered, follows).unwrap_err();
            assert!(matches!(why, Fault::Untrusted(_)), "{why}");
        }
    }

    // shows: FLT-05
    #[test]
    fn a_signature_under_other_work_is_none_under_a_plan() {
        let run = RunId::from_bits(7);
        let commit = |parent: &str, message: &str| {
            let head = "tree 1\n{parent}author me 1 +0000\ngpgsig -----BEGIN\n \n x\n -----END";
            format!("{}\n\n{message}\n", head.replace("{parent}", parent))
        };
        let own = subject(&run);
        assert!(is_plan(&commit("", &own), &run));
        for (parent, message) in [
            ("parent 2\n", own.as_str()),
            ("", "Merge pull request #1"),
            ("", &subject(&RunId::from_bits(8))),
            ("", &format!("first\n\n{own}")),
        ] {
            assert!(!is_plan(&commit(parent, message), &run), "{message}");
        }
    }

    /// Git reads `E:sub:plan.json` as a file of `E`, and verifies `E:sub`, which may be another commit.
    // shows: FLT-05
    #[test]
    fn a_commit_is_named_by_its_hash_and_nothing_else() {
        let hash = "0123456789abcdef0123456789ABCDEF01234567";
        assert!(named_by_hash(hash).is_ok() && named_by_hash(&"f".repeat(64)).is_ok());
        let tree = format!("{hash}:sub");
        let short = &hash[..39];
        for other in [
            &tree,
            short,
            "",
            "HEAD",
            "refs/heads/main",
            "--upload-pack=x",
        ] {
            assert!(named_by_hash(other).is_err(), "{other}");
        }
    }
}
