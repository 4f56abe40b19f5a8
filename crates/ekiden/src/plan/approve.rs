//! A person approves a plan before any command runs that a model may have written (PLN-18).
//!
//! The approval is for the bytes of the manifest in this project: a change by an agent or a `git pull`
//! voids it. A manifest without commands needs none, unless a model has just made it.

use ekiden_core::manifest::Manifest;
use ekiden_engine::workspace::Workspace;

use super::show;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::line::Line;
use crate::output::{Output, phrase};
use crate::settings::approval::Approvals;
use crate::settings::environment::Environment;

/// Shows the plan and asks a person to approve it, unless somebody already has. `is_new` means that nobody has seen it.
/// `nobody` is set if nobody can be asked, and has the hints for the error.
pub fn approve(
    manifest: &Manifest,
    is_new: bool,
    setup: Option<&str>,
    workspace: &Workspace,
    environment: &Environment,
    nobody: Option<[String; 2]>,
    output: &mut Output,
) -> Result<(), Failure> {
    let rules = manifest.plan.as_deref();
    let hash = rules.map_or("", |rules| &rules.hash);
    let commands = show::all_commands(manifest, setup);
    if commands.is_empty() && !is_new {
        return Ok(());
    }
    let approvals = Approvals::read(environment)?;
    if approvals.has_manifest(&workspace.dir, hash) {
        return Ok(());
    }
    if let Some(hints) = nobody {
        let text = match commands.len() as u64 {
            0 => "nobody approved this plan".to_owned(),
            count => {
                let commands = phrase::count(count, "command");
                format!("this plan runs {commands} of its own, and nobody approved it")
            }
        };
        let failure = Failure::new(Exit::Settings, text);
        return Err(hints.into_iter().fold(failure, Failure::hint));
    }
    let runs = show::commands(manifest);
    let is_new = |command: &show::Command| !runs.iter().any(|run| run.command == command.command);
    let rest: Vec<_> = commands.into_iter().filter(is_new).collect();
    let rest = show::command_lines("commands that it would run in other cases", &rest);
    let lines = show::lines(manifest).into_iter().chain(rest);
    lines.for_each(|line| output.message_line(&line));
    output.message_line(&Line::default());
    if !output.confirm("Run this plan, commands included, as it is now? [y/N] ") {
        return Err(Failure::new(
            Exit::Settings,
            "the plan is not approved, so nothing was started",
        ));
    }
    if let Err(failure) = approvals.approve_manifest(&workspace.dir, hash) {
        let text = format!("the approval is not remembered: {}", failure.error());
        output.warn(&text);
    }
    Ok(())
}
