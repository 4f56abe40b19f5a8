//! Prepares a work tree as the plan wants it.

use std::path::Path;

use ekiden_core::limits::SETUP_TIMEOUT;
use ekiden_core::manifest::{Isolation, Verification};
use ekiden_engine::check;

use crate::fault::Fault;
use crate::order::Submission;

/// Prepares a new work tree as the plan says. Returns why that failed: a stage may have to make what it
/// needs.
pub(crate) async fn set_up(submission: &Submission, tree: &Path) -> Result<Option<String>, Fault> {
    let rules = submission.header.manifest.plan.as_deref();
    let Some(Isolation::Worktrees {
        setup: Some(setup), ..
    }) = rules.map(|rules| &rules.isolation)
    else {
        return Ok(None);
    };
    let verification = Verification::by_command(setup.clone(), SETUP_TIMEOUT);
    let check = check(&tree.join(&submission.prefix), &verification).await?;
    if check.passed() {
        return Ok(None);
    }
    let told = check.with_output(&check.tail);
    let why = format!("the worktree's setup `{setup}` {told}");
    crate::say(&why);
    Ok(Some(why))
}
