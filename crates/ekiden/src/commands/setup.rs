//! `ekiden setup`: installs the guard into Claude Code, or takes it out, and shows the change.

use std::path::Path;

use clap::Args;
use ekiden_core::text;
use ekiden_wire::client_settings::{StatusLineFate, load_fault};
use serde::Serialize;

use super::Scene;
use crate::client::guard;
use crate::client::settings::ClientSettings;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::Output;
use crate::output::line::{Line, Tone};
use crate::output::patch::unified;
use crate::settings::flags::{Asking, Typed};
use crate::setup::{FileChange, Place, Plan, Scope, apply, own_program};

const EXAMPLES: &str = "\
Examples:
  ekiden setup              watch the sessions that you start yourself
  ekiden setup --dry-run    only show what would change
  ekiden setup --project    watch those in this project
  ekiden setup --remove     put everything back
";

/// The version of the JSON form.
const JSON_VERSION: u32 = 1;
/// Unchanged lines around each change.
const CONTEXT_LINES: usize = 2;

/// Install the guard into Claude Code: hooks, status line, skills
///
/// The guard watches how full the context of a session is, also of one that you start yourself. The
/// change to the settings is shown; what others have there stays as it is, a status line is shown as
/// before with the guard's beside it, and a command that exists keeps its name. A second call brings
/// everything up to date, for instance after this program has moved.
///
/// The settings as they were are kept. `--remove` puts them back byte for byte, or takes out exactly
/// what is ours if they were changed since.
#[derive(Args)]
#[command(before_help = EXAMPLES)]
pub struct SetupArgs {
    /// For all your sessions, in `~/.claude` or `$CLAUDE_CONFIG_DIR` (the default)
    #[arg(long, conflicts_with = "project")]
    user: bool,
    /// For sessions in this project, in its `.claude`
    #[arg(long)]
    project: bool,
    /// Take the guard out again
    #[arg(long)]
    remove: bool,
    /// Only show what would change
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    typed: Typed<Asking>,
}

/// Runs the command.
///
/// # Errors
///
/// If a file cannot be understood, may not be changed, or cannot be written.
pub fn setup(args: &SetupArgs, output: &mut Output) -> Result<Exit, Failure> {
    let scene = Scene::set(args.typed.flags())?;
    let workspace = scene.workspace()?;
    let scope = if args.project { Scope::Project } else { Scope::User };
    let place = Place::find(scope, &scene.environment, &workspace.dir)?;
    let program = own_program()?;
    let plan = if args.remove { Plan::remove(&place)? } else { Plan::install(&place, &program)? };
    let diff = diff(&plan.settings);
    let json = scene.json()?;
    if !json {
        output.answer(&shown(&diff));
    }
    if !args.dry_run && (args.remove || !plan.is_none()) {
        apply(&plan, &place)?;
    }
    let warnings = warnings(args, &plan, &scene, &workspace.dir, &program);
    if json {
        output.json(&Answer::of(args, &plan, &place, &diff, &warnings));
    } else {
        tell(args, &plan, &place, output);
        warnings.iter().for_each(|warning| output.warn(warning));
    }
    Ok(Exit::Done)
}

/// The change as `diff -u` tells it.
fn diff(change: &FileChange) -> String {
    let [before, after] = [&change.before, &change.after].map(|text| text.clone().unwrap_or_default());
    let name = |text: &Option<String>| match text {
        Some(_) => change.path.display().to_string(),
        None => "/dev/null".to_owned(),
    };
    let names = [name(&change.before), name(&change.after)];
    unified(names.each_ref().map(String::as_str), [&before, &after], CONTEXT_LINES)
}

/// Without what would move the cursor: the settings are other people's text.
fn shown(diff: &str) -> String {
    let mut clean = text::clean(diff).text;
    if !clean.is_empty() && !clean.ends_with('\n') {
        clean.push('\n');
    }
    clean
}

fn tell(args: &SetupArgs, plan: &Plan, place: &Place, output: &mut Output) {
    let changes = [&plan.settings].into_iter().chain(&plan.skills);
    for change in changes.filter(|change| !change.is_none()) {
        let line = Line::labelled(word(change, args), Tone::Plain, change.path.display().to_string());
        output.line(&line);
    }
    if plan.is_none() {
        let text = if args.remove { "nothing of the guard is here" } else { "nothing to change" };
        output.line(&Line::new(Tone::Plain, text));
    } else if args.dry_run {
        output.line(&Line::new(Tone::Plain, "nothing was changed: this was a dry run"));
    } else if !args.remove {
        tell_installed(plan, place, output);
    }
}

fn tell_installed(plan: &Plan, place: &Place, output: &mut Output) {
    let mut line = |label: &str, text: String| output.line(&Line::labelled(label, Tone::Plain, text));
    if !plan.commands.is_empty() {
        line("skills", format!("{} in new sessions", plan.commands.join(", ")));
    }
    let original = place.receipt.original();
    if original.exists() {
        line("as it was", original.display().to_string());
    }
    let flag = match place.scope {
        Scope::User => "",
        Scope::Project => " --project",
    };
    line("next", format!("start a session; `ekiden setup{flag} --remove` takes the guard out again"));
}

/// What becomes, or would become, of a file.
fn word(change: &FileChange, args: &SetupArgs) -> &'static str {
    match (&change.before, &change.after, args.dry_run) {
        (None, _, false) => "made",
        (None, _, true) => "to make",
        (Some(_), Some(_), false) => "changed",
        (Some(_), Some(_), true) => "to change",
        (Some(_), None, false) => "removed",
        (Some(_), None, true) => "to remove",
    }
}

/// What keeps the guard from working, or a person from knowing what it does.
fn warnings(args: &SetupArgs, plan: &Plan, scene: &Scene, dir: &Path, program: &str) -> Vec<String> {
    let mut warnings = plan.notes.clone();
    if args.remove {
        return warnings;
    }
    let path = plan.settings.path.display();
    if let Some((at, _)) = plan.settings.after.as_deref().and_then(load_fault) {
        warnings.push(format!(
            "Claude Code leaves out all of {path}, the guard included: at {at} it is no plain JSON (comments \
             and trailing commas count)"
        ));
    }
    if let Some(off) = ClientSettings::read(&scene.environment, dir, false).hooks_are_off() {
        let text = "the guard is silent until that goes, and nobody changes it for you";
        warnings.push(format!("`disableAllHooks` in {}: {text}", off.display()));
    }
    if plan.status_line == Some(StatusLineFate::Kept) {
        warnings.push(format!("the status line in {path} has a form that is not known, and stays alone"));
    }
    let (places, _) = guard::look(&scene.environment, dir);
    for place in places.iter().filter(|place| place.path != plan.settings.path) {
        if place.survey.programs().iter().any(|other| *other != program) {
            let other = place.path.display();
            warnings
                .push(format!("{other} calls another ekiden: both would run; `ekiden doctor` tells more"));
        }
    }
    warnings
}

/// The answer for programs.
#[derive(Serialize)]
struct Answer<'a> {
    v: u32,
    scope: &'static str,
    dry_run: bool,
    changed: bool,
    files: Vec<Changed<'a>>,
    diff: &'a str,
    original: Option<String>,
    skills: &'a [String],
    warnings: &'a [String],
}

/// A file that is changed.
#[derive(Serialize)]
struct Changed<'a> {
    path: std::borrow::Cow<'a, str>,
    change: &'static str,
}

impl<'a> Answer<'a> {
    fn of(args: &SetupArgs, plan: &'a Plan, place: &Place, diff: &'a str, warnings: &'a [String]) -> Self {
        let changes = [&plan.settings].into_iter().chain(&plan.skills).filter(|change| !change.is_none());
        let files = changes.map(|change| Changed {
            path: change.path.to_string_lossy(),
            change: match (&change.before, &change.after) {
                (None, _) => "made",
                (Some(_), Some(_)) => "changed",
                (Some(_), None) => "removed",
            },
        });
        let original = place.receipt.original();
        Self {
            v: JSON_VERSION,
            scope: match place.scope {
                Scope::User => "user",
                Scope::Project => "project",
            },
            dry_run: args.dry_run,
            changed: !plan.is_none() && !args.dry_run,
            files: files.collect(),
            diff,
            original: original.exists().then(|| original.display().to_string()),
            skills: &plan.commands,
            warnings,
        }
    }
}
