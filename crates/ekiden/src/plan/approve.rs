//! A person approves a plan before any command runs that a model may have written (PLN-18).
//!
//! What is approved are the bytes of the manifest for this project: whoever changes it, an agent or a `git
//! pull`, loses the approval. A manifest without any command needs none.

use std::io::{IsTerminal, stderr, stdin};

use ekiden_core::manifest::Manifest;
use ekiden_engine::workspace::Workspace;

use super::show;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::Output;
use crate::output::line::{Line, Tone};
use crate::settings::approval::Approvals;
use crate::settings::environment::{Environment, RUN_VARIABLE};

/// Makes sure that somebody approved the plan.
///
/// # Errors
///
/// If nobody did and nobody can be asked, or the answer is no.
pub fn approve(
    manifest: &Manifest,
    setup: Option<&str>,
    workspace: &Workspace,
    environment: &Environment,
    yes: bool,
    output: &mut Output,
) -> Result<(), Failure> {
    let hash = manifest.plan.as_deref().map(|rules| rules.hash.as_str()).unwrap_or_default();
    let commands = show::all_commands(manifest, setup);
    if yes || commands.is_empty() {
        return Ok(());
    }
    let approvals = Approvals::read(environment)?;
    if approvals.holds(&workspace.dir, hash) {
        return Ok(());
    }
    let inside = environment.variable(RUN_VARIABLE).is_some();
    if inside || !stdin().is_terminal() || !stderr().is_terminal() {
        return Err(nobody(commands.len()));
    }
    show::lines(manifest).iter().for_each(|line| output.line(line));
    let runs = show::commands(manifest);
    let rest: Vec<_> = commands
        .into_iter()
        .filter(|command| !runs.iter().any(|run| run.command == command.command))
        .collect();
    show::command_lines("commands that it would run in other cases", &rest)
        .iter()
        .for_each(|line| output.line(line));
    output.line(&Line::default());
    output.talk("Run this plan, commands included? The answer holds for the manifest as it is now. [y/N] ");
    let mut line = String::new();
    let read = stdin().read_line(&mut line).unwrap_or(0);
    if read == 0 || !matches!(line.trim(), "y" | "Y" | "yes") {
        return Err(Failure::new(Exit::Settings, "the plan is not approved, so nothing was started"));
    }
    if let Err(failure) = approvals.approve_manifest(&workspace.dir, hash) {
        let text = format!("the approval is not remembered: {}", failure.error());
        output.line(&Line::new(Tone::Attention, text));
    }
    Ok(())
}

fn nobody(commands: usize) -> Failure {
    let commands = crate::output::phrase::count(commands as u64, "command");
    let text = format!("nobody has approved this plan, which runs {commands} of its own");
    Failure::new(Exit::Settings, text)
        .hint("`ekiden execute MANIFEST --dry-run` shows them")
        .hint("run it once on a terminal and answer yes, or add `--yes`")
}
