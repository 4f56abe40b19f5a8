//! `ekiden init`: writes a task template.

use std::fs::File;
use std::io::Read as _;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Component, Path, PathBuf};

use clap::Args;
use ekiden_core::text::one_line;
use ekiden_store::disk::{Disk, Reach};

use super::{Invocation, end_leftovers};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::json::Fields;
use crate::output::line::Line;
use crate::output::{Output, phrase};
use crate::settings::flags::{Asking, Typed};

/// Advice on how to fill it in is in `docs/writing-tasks.md`.
const TEMPLATE: &str = include_str!("init/task.md");

/// The placeholder for the goal in the template. A task that still has it was not filled in.
pub(super) const UNFILLED: &str =
    "<In two or three sentences: what must exist at the end, and for whom.>";

/// Directories in which projects keep their scripts.
const SCRIPT_DIRS: [&str; 4] = ["bin", "script", "scripts", "tools"];
/// A list that nobody reads helps no session.
const SCRIPTS_MAX: usize = 20;
/// The template's line about scripts.
const SLOT: &str = "- `<script>`: <what it does; use it instead of writing another>\n";

/// Write a task template to fill in
///
/// The template asks what you want, where things are, how to work, and what done means. It names the scripts in `bin`,
/// `script`, `scripts` and `tools` with their first comment. ekiden never overwrites an existing file.
#[derive(Args)]
pub struct InitArgs {
    /// The file to write, or `-` for standard output
    #[arg(value_name = "FILE", default_value = "task.md")]
    file: PathBuf,
    #[command(flatten)]
    typed: Typed<Asking>,
}

pub fn init(args: &InitArgs, output: &mut Output) -> Result<Exit, Failure> {
    if args.file == Path::new("-") {
        output.answer(&template(Path::new("")));
        return Ok(Exit::Done);
    }
    let invocation = Invocation::new(args.typed.flags())?;
    let workspace = invocation.workspace_here()?;
    end_leftovers(&workspace, output);
    if args.file.as_os_str().as_bytes().ends_with(b"/") {
        let text = format!("{} names a directory", phrase::path(&args.file));
        let hint = "name the file in it, or `-` for standard output";
        return Err(Failure::new(Exit::Usage, text).hint(hint));
    }
    let path = without_climbing(workspace.dir.join(&args.file));
    let disk = workspace.disk();
    let template = template(&workspace.dir);
    disk.create_file(&path, template.as_bytes(), Reach::Disk)
        .map_err(|error| match error.is_already_there() {
            true => {
                let text = format!("{} exists already and was not changed", phrase::path(&path));
                Failure::new(Exit::State, text).hint("name another file: `ekiden init FILE`")
            }
            false if path.parent().is_some_and(Path::is_dir) => Failure::from(error),
            false => Failure::from(error).hint("name a file in a directory that is there"),
        })?;
    let named = phrase::path(&path);
    if invocation.json()? {
        return output.answer_json(&Fields::versioned().with("file", &path));
    }
    output.line(format!("wrote {named}: fill it in"));
    let there = invocation.in_work_dir(&workspace.dir);
    let named = invocation.word(&path);
    let next = format!("ekiden run {named}{there} --verify 'COMMAND' --agent rehearsal");
    output.line(Line::next(next));
    Ok(Exit::Done)
}

/// The same file by a path without `..`, which no write follows in a project.
fn without_climbing(path: PathBuf) -> PathBuf {
    let climbs = path.components().any(|part| part == Component::ParentDir);
    let dir = path.parent().filter(|_| climbs);
    let dir = dir.and_then(|dir| dir.canonicalize().ok());
    match (dir, path.file_name()) {
        (Some(dir), Some(name)) => dir.join(name),
        (_, _) => path,
    }
}

/// The template, with the scripts of the project, so that no session writes one again.
pub(super) fn template(dir: &Path) -> String {
    let mut names = Vec::new();
    for of in SCRIPT_DIRS {
        let entries = dir.join(of).read_dir().into_iter().flatten().flatten();
        let files = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_file()));
        let named = files.filter_map(|file| file.file_name().into_string().ok());
        names.extend(named.map(|name| format!("{of}/{name}")));
    }
    names.retain(|name| name.chars().all(|c| c.is_ascii_graphic() && c != '`'));
    names.sort();
    names.truncate(SCRIPTS_MAX);
    let line = |name: &String| {
        let what = first_comment(&dir.join(name)).unwrap_or_else(|| "<what it does>".to_owned());
        format!("- `{name}`: {what}\n")
    };
    let scripts: String = names.iter().map(line).collect();
    match scripts.is_empty() {
        true => TEMPLATE.to_owned(),
        false => TEMPLATE.replace(
            SLOT,
            &format!("{scripts}- Use these scripts instead of writing others.\n"),
        ),
    }
}

/// What the first comment of a script says, in a line.
fn first_comment(path: &Path) -> Option<String> {
    let mut start = Vec::new();
    File::open(path)
        .ok()?
        .take(1024)
        .read_to_end(&mut start)
        .ok()?;
    let start = String::from_utf8_lossy(&start);
    let mut lines = start
        .lines()
        .filter(|line| !line.starts_with("#!") && !line.trim().is_empty());
    let first = lines.next()?;
    let comment = first
        .strip_prefix('#')
        .or_else(|| first.strip_prefix("//"))?;
    let comment = one_line(comment.trim_matches(['#', '/', ' ']), 120);
    (!comment.is_empty()).then_some(comment)
}
