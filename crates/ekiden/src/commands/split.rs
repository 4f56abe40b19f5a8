//! `ekiden split`: an architecture document becomes a manifest.

use std::path::PathBuf;

use clap::Args;

use super::Scene;
use super::plan::{Desk, Writing};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::Output;
use crate::settings::chosen;
use crate::settings::flags::{Planning, Typed};

const EXAMPLES: &str = "\
Examples:
  ekiden split architecture.md                 plan.json, in the work dir
  ekiden split docs/design.md -o plans/
  ekiden split architecture.md --force         anew, over the manifest that is there
";

/// Split an architecture document into the stages of a manifest
///
/// One session reads the document and the project, and answers with the manifest; it writes nothing itself.
/// An answer with faults is sent back with them, twice at most. No command of the plan runs before you have
/// approved it: `ekiden execute` shows it and asks.
#[derive(Args)]
#[command(before_help = EXAMPLES)]
pub struct SplitArgs {
    /// The document: what stands under "Summary" is shown to every stage
    #[arg(value_name = "FILE")]
    document: PathBuf,
    #[command(flatten)]
    writing: Writing,
    #[command(flatten)]
    typed: Typed<Planning>,
}

/// Runs the command.
///
/// # Errors
///
/// If something is missing or wrong, before anything is created; or if planning does not come to its end.
pub fn split(args: &SplitArgs, output: &mut Output) -> Result<Exit, Failure> {
    let scene = Scene::set(args.typed.flags())?;
    let workspace = scene.workspace()?;
    let mut settings = chosen::settings(&scene.given, &scene.here)?;
    let desk = Desk { scene: &scene, workspace: &workspace, writing: &args.writing };
    let written = desk.split_document(&args.document, &mut settings, output)?;
    desk.tell(&written, settings, output)?;
    Ok(Exit::Done)
}
