//! `ekiden setup`: installs the guard into Claude Code, or removes it, and shows the change.

use std::path::Path;

use clap::Args;
use ekiden_core::text;
use ekiden_wire::client_settings::{StatusLineFate, load_fault};

use super::{Invocation, end_leftovers};
use crate::client::guard;
use crate::client::settings::ClientSettings;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::Output;
use crate::output::json::{Fields, fields};
use crate::output::line::{Line, Tone};
use crate::output::patch::unified;
use crate::settings::flags::{Asking, Typed};
use crate::settings::table;
use crate::setup::{FileChange, Plan, Scope, Target, own_program};

/// Unchanged lines around each change.
const CONTEXT_LINES: usize = 2;

/// Install the guard into Claude Code: hooks, status line, skills, MCP server
///
/// The guard watches how full the context is in sessions that you start yourself. Setup shows the change to the settings.
/// Everything else there stays as it is: your status line still appears, together with the guard's, and if a command or
/// skill of yours has the same name as one of ekiden's, yours stays. A second call updates everything, for instance
/// after this program has moved.
///
/// The MCP server gives sessions the memory of earlier ones, and a rule lets its tools run without asking;
/// `mcp = false` leaves both out.
///
/// ekiden keeps a copy of the settings. `--remove` restores them byte for byte or, if they changed since, removes only
/// ekiden's entries.
#[derive(Args)]
pub struct SetupArgs {
    /// For all your sessions, in `~/.claude` or `$CLAUDE_CONFIG_DIR` (the default)
    #[arg(long, conflicts_with = "project")]
    user: bool,
    /// For sessions in this project: `.claude/settings.local.json` and skills
    #[arg(long)]
    project: bool,
    /// Remove the guard
    #[arg(long)]
    remove: bool,
    /// Only show what would change
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    typed: Typed<Asking>,
}

pub fn setup(args: &SetupArgs, output: &mut Output) -> Result<Exit, Failure> {
    let invocation = Invocation::new(args.typed.flags())?;
    if !args.dry_run {
        let environment = &invocation.environment;
        environment.refuse_a_session("install or remove the guard")?;
    }
    let workspace = invocation.workspace_here()?;
    let scope = if args.project {
        Scope::Project
    } else {
        Scope::User
    };
    let target = Target::find(scope, &invocation.environment, &workspace.dir)?;
    let program = own_program()?;
    let mcp = invocation.given.need(&table::MCP)?;
    let plan = if args.remove {
        Plan::remove(&target)?
    } else {
        Plan::install(&target, &program, mcp)?
    };
    let diff = diff(&plan.settings);
    let json = invocation.json()?;
    if !json {
        output.answer(&shown(&diff));
    }
    if !args.dry_run {
        end_leftovers(&workspace, output);
    }
    if !args.dry_run && (args.remove || !plan.is_none()) {
        plan.apply(&target)?;
    }
    let mut warnings = plan.notes.clone();
    if !args.remove {
        warnings.extend(obstacles(&plan, &invocation, &workspace.dir, &program));
    }
    if json {
        let file = |change: &FileChange| {
            let path = change.path.to_string_lossy();
            fields! { "path": path, "change": word(change) }
        };
        let files: Vec<Fields> = plan.changes().map(file).collect();
        output.json(&Fields::versioned().and(fields! {
            "scope": if args.project { "project" } else { "user" },
            "dry_run": args.dry_run,
            "changed": !plan.is_none() && !args.dry_run,
            "files": files,
            "diff": diff,
            "original": original(&target),
            "skills": plan.commands,
            "warnings": warnings,
        }));
    } else {
        let there = invocation.in_work_dir(&workspace.dir);
        tell(args, &plan, &target, &there, output);
        warnings.iter().for_each(|warning| output.warn(warning));
    }
    Ok(Exit::Done)
}

/// The change in the form of `diff -u`.
fn diff(change: &FileChange) -> String {
    let path = change.path.display().to_string();
    let sides = [&change.before, &change.after].map(Option::as_deref);
    let names = sides.map(|text| text.map_or("/dev/null", |_| path.as_str()));
    unified(names, sides.map(Option::unwrap_or_default), CONTEXT_LINES)
}

/// Without what would move the cursor: the settings are other people's text.
fn shown(diff: &str) -> String {
    let mut clean = text::clean(diff).text;
    if !clean.is_empty() && !clean.ends_with('\n') {
        clean.push('\n');
    }
    clean
}

fn tell(args: &SetupArgs, plan: &Plan, target: &Target, there: &str, output: &mut Output) {
    let mut line =
        |label: &str, text: String| output.line(Line::labelled(label, Tone::Plain, text));
    for change in plan.changes() {
        let word = match (word(change), args.dry_run) {
            (word, false) => word,
            ("created", true) => "to create",
            ("changed", true) => "to change",
            (_, true) => "to remove",
        };
        // Its diff is not shown: there may be keys beside our lines.
        let what = if change.path == target.state {
            " (MCP server)"
        } else {
            ""
        };
        line(word, format!("{}{what}", change.path.display()));
    }
    let in_place = match (plan.is_none(), args.remove, args.dry_run) {
        (true, true, _) => "nothing of the guard is here",
        (true, false, _) => "nothing to change",
        (false, _, true) => "nothing was changed: this was a dry run",
        (false, true, false) => return,
        (false, false, false) => {
            if !plan.commands.is_empty() {
                line(
                    "skills",
                    format!("{} in new sessions", plan.commands.join(", ")),
                );
            }
            if let Some(original) = original(target) {
                line("copy", original);
            }
            let flag = match target.scope {
                Scope::User => String::new(),
                Scope::Project => format!(" --project{there}"),
            };
            let next = format!("start a session; `ekiden setup{flag} --remove` removes the guard");
            return line("next", next);
        }
    };
    output.line(in_place);
}

fn word(change: &FileChange) -> &'static str {
    match (&change.before, &change.after) {
        (None, _) => "created",
        (Some(_), Some(_)) => "changed",
        (Some(_), None) => "removed",
    }
}

/// Where the settings without us are kept, if there were any.
fn original(target: &Target) -> Option<String> {
    let original = target.receipt.original();
    original.exists().then(|| original.display().to_string())
}

/// What keeps the guard from working.
fn obstacles(plan: &Plan, invocation: &Invocation, dir: &Path, program: &str) -> Vec<String> {
    let mut warnings = Vec::new();
    let path = plan.settings.path.display();
    if let Some(at) = plan.settings.after.as_deref().and_then(load_fault) {
        warnings.push(format!(
            "Claude Code ignores all of {path}, with the guard in it: not plain JSON at {at} (it accepts no \
             comments or trailing commas)"
        ));
    }
    let client = ClientSettings::read(&invocation.environment, dir, false);
    warnings.extend(silenced(&client));
    if plan.status_line == Some(StatusLineFate::Kept) {
        warnings.push(format!(
            "the status line in {path} has an unknown form, so the guard's is not shown"
        ));
    }
    let (files, _) = guard::look(&invocation.environment, dir);
    for file in files.iter().filter(|file| file.path != plan.settings.path) {
        if file.survey.programs().iter().any(|other| *other != program) {
            let other = file.path.display();
            warnings.push(format!(
                "{other} calls another ekiden, so both would run; see `ekiden doctor`"
            ));
        }
    }
    warnings
}

/// The setting that keeps the client from calling the guard.
fn silenced(client: &ClientSettings) -> Option<String> {
    let (setting, off) = client.hooks_are_off()?;
    let off = off.display();
    Some(format!("the guard is silent: `{setting}` is set in {off}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::settings::MANAGED;

    // shows: OPS-02
    #[test]
    fn an_administrator_who_allows_only_hooks_of_his_own_is_told_of() {
        let only_managed = serde_json::json!({"allowManagedHooksOnly": true});
        assert_eq!(
            silenced(&ClientSettings::managed(only_managed)).unwrap(),
            format!("the guard is silent: `allowManagedHooksOnly` is set in {MANAGED}")
        );
        assert_eq!(silenced(&ClientSettings::default()), None);
    }
}
