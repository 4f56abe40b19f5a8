//! `ekiden split`: turns an architecture document into a manifest.

use std::path::PathBuf;

use clap::Args;

use super::plan::{Planner, Writing};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::Output;
use crate::settings::flags::{Planning, Typed};

/// Split an architecture document into the stages of a manifest
///
/// One session reads the document and the project, and answers with the manifest; it writes nothing itself. ekiden sends
/// an answer with faults back, twice at most. No command of the plan runs before you have approved it: `ekiden execute`
/// shows it and asks.
#[derive(Args)]
pub struct SplitArgs {
    /// The document; every stage sees its "Summary" section
    #[arg(value_name = "FILE")]
    document: PathBuf,
    #[command(flatten)]
    writing: Writing,
    #[command(flatten)]
    typed: Typed<Planning>,
}

pub fn split(args: &SplitArgs, output: &mut Output) -> Result<Exit, Failure> {
    let mut planner = Planner::new(args.typed.flags(), &args.writing)?;
    let written = planner.split_document(&args.document, output)?;
    planner.show(&written, output)
}
