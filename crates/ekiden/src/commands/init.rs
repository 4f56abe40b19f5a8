//! `ekiden init`: writes a task to fill in.

use std::path::{Path, PathBuf};

use clap::Args;
use ekiden_engine::EngineError;
use ekiden_store::disk::{Disk, Reach, RealDisk};
use serde::Serialize;

use super::Scene;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::line::{Line, Tone};
use crate::output::{Output, phrase};
use crate::settings::flags::{Asking, Typed};

const EXAMPLES: &str = "\
Examples:
  ekiden init                   write task.md
  ekiden init port-parser.md    another name
  ekiden init - | less          only show it
";

/// The version of the JSON form.
const JSON_VERSION: u32 = 1;

/// The task to fill in. Advice on it stands in `docs/writing-tasks.md`.
const TEMPLATE: &str = include_str!("init/task.md");

/// Write a task to fill in: what is wanted, where things are, how to work, what done means
///
/// Nothing is ever overwritten.
#[derive(Args)]
#[command(before_help = EXAMPLES)]
pub struct InitArgs {
    /// The file to write, or `-` for standard output
    #[arg(value_name = "FILE", default_value = "task.md")]
    file: PathBuf,
    #[command(flatten)]
    typed: Typed<Asking>,
}

/// Runs the command.
///
/// # Errors
///
/// If the file exists, or cannot be written.
pub fn init(args: &InitArgs, output: &mut Output) -> Result<Exit, Failure> {
    if args.file == Path::new("-") {
        output.answer(TEMPLATE);
        return Ok(Exit::Done);
    }
    let scene = Scene::set(args.typed.flags())?;
    let workspace = scene.workspace()?;
    let path = workspace.dir.join(&args.file);
    let disk = RealDisk::fenced(&workspace.dir);
    disk.create_file(&path, TEMPLATE.as_bytes(), Reach::Disk).map_err(|error| {
        let exists = error.is_already_there();
        let failure = Failure::from(EngineError::from(error));
        if exists {
            failure.hint("it was left as it is; name another file: `ekiden init FILE`")
        } else {
            failure
        }
    })?;
    let named = phrase::path(&path);
    if scene.json()? {
        output.json(&Answer { v: JSON_VERSION, file: &path });
        return Ok(Exit::Done);
    }
    output.line(&Line::new(Tone::Plain, format!("{named} is written: fill it in")));
    let next = format!("ekiden run {named} --verify 'COMMAND' --agent rehearsal");
    output.line(&Line::new(Tone::Quiet, "next  ").with(Tone::Plain, next));
    Ok(Exit::Done)
}

/// The answer for programs.
#[derive(Serialize)]
struct Answer<'a> {
    v: u32,
    file: &'a Path,
}
