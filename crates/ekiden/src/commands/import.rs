//! `ekiden import`: takes over what other programs left in a project.

use std::path::PathBuf;

use clap::Args;

use super::{Invocation, config, end_leftovers};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::import::settings::{self, Foreign, Wish};
use crate::import::source::Source;
use crate::import::{Became, Finding};
use crate::output::json::Fields;
use crate::output::line::{Line, Tone, one_line};
use crate::output::{Output, phrase};
use crate::settings::environment::Environment;
use crate::settings::file::{self, SettingsFile};
use crate::settings::flags::{Starting, Typed};
use crate::settings::given::Given;
use crate::settings::table::{self, Row};

/// A longer name moves its place to the right.
const NAME_COLUMNS_MAX: usize = 44;

const EXAMPLES: &str = "\
Examples:
  ekiden import --dry-run     show what would become of it
  ekiden import               take it over
  ekiden import ../old        from another directory
";

/// Take over what cleave, CASM or CCS left in a project
///
/// Settings (`.casmrc.json`, `CLEAVE_*`, `.cleave/config`) become keys of the project's `.ekiden/config.toml`. Each
/// thing is listed with what became of it. Nothing of the other program is changed or deleted, and a second import
/// does nothing again. That the agent may do everything without asking is never taken over.
#[derive(Args)]
#[command(before_help = EXAMPLES)]
pub struct ImportArgs {
    /// The project with their files [default: the work dir]
    #[arg(value_name = "PATH")]
    path: Option<PathBuf>,
    /// Only show what would become of it
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    typed: Typed<Starting>,
}

pub fn import(args: &ImportArgs, output: &mut Output) -> Result<Exit, Failure> {
    let invocation = Invocation::new(args.typed.flags())?;
    invocation
        .environment
        .refuse_a_session("import settings and runs")?;
    let workspace = invocation.workspace_here()?;
    let source = source(args.path.as_ref().unwrap_or(&workspace.dir))?;
    if !args.dry_run {
        end_leftovers(&workspace, output);
    }
    let file = workspace.dir.join(".ekiden").join(file::FILE_NAME);
    let foreign = settings::foreign(&source, &invocation.environment)?;
    let findings = take_settings(foreign, &file, &invocation.environment, args.dry_run)?;
    if invocation.json()? {
        let answer = Fields::versioned().with("dry_run", args.dry_run);
        output.json(&answer.with("findings", findings));
        return Ok(Exit::Done);
    }
    show(&findings, &source, args.dry_run, output);
    Ok(Exit::Done)
}

/// Their project: the directory that is named, or the one in which the named `.cleave`, `.casm` or `.claude` is.
fn source(path: &std::path::Path) -> Result<Source, Failure> {
    let dir = path.canonicalize().map_err(|error| {
        let what = format!("cannot import from {}", phrase::path(path));
        Failure::caused(Exit::MissingInput, &what, &error)
    })?;
    let is_theirs = [".cleave", ".casm", ".claude"]
        .iter()
        .any(|name| dir.ends_with(name));
    let dir = match dir.parent().filter(|_| is_theirs) {
        Some(project) => project.to_owned(),
        None => dir,
    };
    if !dir.is_dir() {
        let text = format!(
            "cannot import from {}: it is no directory",
            phrase::path(path)
        );
        return Err(Failure::new(Exit::MissingInput, text).hint("name the project's directory"));
    }
    Ok(Source { dir })
}

/// Writes what can be set into the project's own file.
fn take_settings(
    foreign: Vec<Foreign>,
    file: &std::path::Path,
    environment: &Environment,
    dry_run: bool,
) -> Result<Vec<Finding>, Failure> {
    let present = SettingsFile::of_project(file)?;
    let own = Given::of_user(environment)?;
    let mut wanted: Vec<(&str, String, String)> = Vec::new();
    let mut findings = Vec::new();
    for Foreign { was, wish } in foreign {
        let (row, value) = match wish {
            Wish::Set(name, value) => match table::find(name) {
                Some(row) => (row, value),
                None => continue,
            },
            Wish::Nothing(why) => {
                findings.push(Finding::new(was, Became::Nothing(why)));
                continue;
            }
        };
        let first = wanted.iter().find(|(name, ..)| *name == row.name);
        let became = match first {
            Some((_, taken, of)) if *taken != value && !row.user_only => {
                Became::Nothing(format!("{of} says `{taken}`"))
            }
            Some(_) | None => became(row, &value, present.as_ref(), &own),
        };
        if matches!(became, Became::New(_)) && first.is_none() && !dry_run {
            file::set(
                file,
                row,
                &config::written(row, std::slice::from_ref(&value))?,
            )?;
        }
        wanted.push((row.name, value, was.clone()));
        findings.push(Finding::new(was, became));
    }
    Ok(findings)
}

fn became(row: &Row, value: &str, present: Option<&SettingsFile>, own: &Given) -> Became {
    let name = row.name;
    if let Err(needed) = (row.check)(value) {
        return Became::Nothing(format!("`{name}` must be {needed}"));
    }
    if row.user_only {
        let quoted = shlex::try_quote(value).unwrap_or_default().into_owned();
        let flag = row.long().unwrap_or_default();
        return Became::Nothing(format!(
            "a project's file may not set it: `--{flag} {quoted}`, or `ekiden config set {name} {quoted}`"
        ));
    }
    let there = present.and_then(|file| file.values.iter().find(|value| value.name == name));
    match there {
        Some(there) if there.text == value => Became::Known(format!("{name} = {value}")),
        Some(there) => Became::Nothing(format!(
            "`.ekiden/config.toml` has `{name}` = {} in line {}",
            there.text, there.line
        )),
        None if own.value(row).is_some_and(|own| own.text == value) => {
            Became::Known(format!("{name} = {value}"))
        }
        None if own.is_raised_by(row, value) => Became::New(format!(
            "{name} = {value}; it is more than you allow, so it holds after `ekiden config approve`"
        )),
        None => Became::New(format!("{name} = {value}")),
    }
}

fn show(findings: &[Finding], source: &Source, dry_run: bool, output: &mut Output) {
    if findings.is_empty() {
        let dir = phrase::path(&source.dir);
        let text = format!("nothing of cleave, CASM or CCS is in {dir}");
        return output.line(&Line::new(Tone::Plain, text));
    }
    let names = findings
        .iter()
        .map(|finding| one_line(&finding.was).chars().count());
    let names = names.max().unwrap_or(0).min(NAME_COLUMNS_MAX);
    for finding in findings {
        let was = one_line(&finding.was);
        let (tone, text) = match &finding.became {
            Became::New(text) => (Tone::Done, text.clone()),
            Became::Known(text) => (Tone::Quiet, format!("{text} (it is so already)")),
            Became::Nothing(why) => (Tone::Attention, format!("not taken over: {why}")),
        };
        let line = Line::new(Tone::Plain, format!("{was:<names$}  "));
        output.line(&line.with(tone, one_line(&text)).hanging(names + 2));
    }
    if dry_run {
        output.message("next: ekiden import\n");
    }
}
