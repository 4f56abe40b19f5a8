//! `ekiden status --everywhere`: the runs of all projects of this user on this machine.

use std::cmp::Reverse;
use std::sync::Arc;

use ekiden_core::ids::RunId;
use ekiden_core::text::in_full;
use ekiden_engine::history::{self, Listed};
use ekiden_engine::registry::{self, Project, Unread};
use ekiden_engine::workspace::Workspace;
use ekiden_store::lock::Holder;
use jiff::tz::TimeZone;

use super::run_status::{self, RunStatus, Unreadable};
use super::{Invocation, run_ids};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::json::{Fields, fields};
use crate::output::line::{Line, Tone};
use crate::output::{Output, phrase};

/// How many runs that are over are shown without `--all`.
const SHOWN_MAX: usize = 20;

/// The runs of all projects, those at work first, then the newest first.
pub(super) struct Everywhere {
    pub(super) runs: Vec<Found>,
    /// Projects whose runs are not read.
    pub(super) unread: Vec<Project>,
}

pub(super) struct Found {
    pub(super) workspace: Arc<Workspace>,
    /// The ids of the runs beside it, by which its own can be shortened.
    pub(super) ids: Arc<Vec<RunId>>,
    /// The engine that works there, on whatever run.
    pub(super) holder: Option<Holder>,
    pub(super) listed: Listed,
}

impl Everywhere {
    /// Reads the beginnings of all logs.
    pub(super) fn of(projects: Vec<Project>) -> Self {
        let mut all = Self {
            runs: Vec::new(),
            unread: Vec::new(),
        };
        for mut project in projects {
            let runs = match &project.found {
                Ok(workspace) => runs_of(workspace),
                Err(_) => Ok(Vec::new()),
            };
            match runs {
                Ok(runs) => all.runs.extend(runs),
                Err(failure) => project.found = Err(Unread::Doubted(failure.error().to_owned())),
            }
            if project.found.is_err() {
                all.unread.push(project);
            }
        }
        all.runs
            .sort_by_cached_key(|found| Reverse((found.is_held(), found.listed.order())));
        all
    }
}

fn runs_of(workspace: &Workspace) -> Result<Vec<Found>, Failure> {
    let (listed, ids) = (history::list(workspace)?, Arc::new(run_ids(workspace)?));
    let (holder, workspace) = (history::holder(workspace), Arc::new(workspace.clone()));
    let found = |listed| Found {
        workspace: Arc::clone(&workspace),
        ids: Arc::clone(&ids),
        holder: holder.clone(),
        listed,
    };
    Ok(listed.into_iter().map(found).collect())
}

impl Found {
    /// An engine works on it.
    pub(super) fn is_held(&self) -> bool {
        let holder = self.holder.as_ref();
        holder.and_then(|holder| holder.run.as_ref()) == Some(&self.listed.run)
    }
}

pub(super) fn everywhere(
    invocation: &Invocation,
    all: bool,
    output: &mut Output,
) -> Result<Exit, Failure> {
    let home = invocation.environment.state_home();
    let home = home.ok_or_else(|| Failure::no_home("other projects"))?;
    let projects = registry::projects(&home.join("ekiden"), |_| true)?;
    let Everywhere { mut runs, unread } = Everywhere::of(projects);
    let held = runs.iter().filter(|found| found.is_held()).count();
    let shown = if all { runs.len() } else { held + SHOWN_MAX };
    let left_out = runs.len().saturating_sub(shown);
    runs.truncate(shown);
    if invocation.json()? {
        let runs: Vec<Fields> = runs.into_iter().map(json).collect();
        let unread: Vec<Fields> = unread.iter().map(unread_json).collect();
        let answer = Fields::versioned()
            .with("runs", runs)
            .and(fields! { "left_out": left_out, "unread": unread });
        return output.answer_json(&answer);
    }
    if runs.is_empty() {
        let text = "nothing is known to have run on this machine";
        output.line(text);
    }
    print(runs, output);
    if left_out > 0 {
        let text = format!("and {}: ", phrase::count(left_out as u64, "older run"));
        let command = "ekiden status --everywhere --all";
        output.line(Line::new(Tone::Quiet, text).with(Tone::Plain, command));
    }
    for project in unread {
        output.line(unread_line(&project));
    }
    Ok(Exit::Done)
}

/// Prints the runs, each below its project's name unless the run before has the same project.
fn print(runs: Vec<Found>, output: &mut Output) {
    let (zone, mut above) = (TimeZone::system(), None);
    for found in runs {
        let (workspace, ids) = (Arc::clone(&found.workspace), Arc::clone(&found.ids));
        let read = looked(found);
        if above.as_ref() != Some(&workspace.dir) {
            output.line(Line::new(Tone::Quiet, phrase::project(&workspace.dir)));
            above = Some(workspace.dir.clone());
        }
        let lines = match &read {
            Ok(run) => run.lines(&ids, &zone, None),
            Err(unreadable) => unreadable.lines(&ids),
        };
        // For a plan, the first line has the sum of its stages.
        for line in lines.into_iter().take(1) {
            output.line(Line::new(Tone::Plain, "  ").joined(line));
        }
    }
}

fn unread_line(project: &Project) -> Line {
    let line = Line::new(Tone::Quiet, phrase::project(&project.dir));
    match &project.found {
        Ok(_) => line,
        Err(why) => line.with(Tone::Attention, format!(" {}", in_full(why))),
    }
}

fn json(found: Found) -> Fields {
    let workspace = Arc::clone(&found.workspace);
    run_status::json(&looked(found)).with("project", &workspace.dir)
}

/// Reads the whole log of a run, and what its sessions are doing right now.
fn looked(found: Found) -> Result<RunStatus, Box<Unreadable>> {
    let mut status = run_status::look(&found.workspace, found.listed, found.holder)?;
    status.look_at_work(&found.workspace);
    Ok(status)
}

fn unread_json(project: &Project) -> Fields {
    let why = project.found.as_ref().err().map(|why| in_full(why));
    fields! {
        "project": project.dir,
        "seen": phrase::utc(project.seen),
        "why": why,
    }
}
