//! `ekiden handoff`: the handoff document of this session, to read and to fill in.

use std::path::PathBuf;

use clap::Args;
use ekiden_core::guard::checkpoint::CheckpointReason;
use ekiden_core::guard::document::Filled;
use ekiden_core::text::clean;
use ekiden_engine::checkpoint::{self, NoTracker, Request, Taken};
use ekiden_engine::clock::{Clock, SystemClock};
use ekiden_engine::workspace::Workspace;
use serde::Serialize;

use super::Scene;
use super::documents::Kept;
use crate::client::transcript;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::line::{Line, Tone};
use crate::output::{Output, phrase};
use crate::settings::flags::{Asking, Typed};
use crate::settings::table;

const EXAMPLES: &str = "\
Examples:
  ekiden handoff          this session's document, made now if there is none
  ekiden handoff --new    a new one, from the state of now
  ekiden handoff --json
";

/// The version of the JSON form.
const JSON_VERSION: u32 = 1;

/// Show this session's handoff document and what to fill in
///
/// Inside of a Claude Code session it is that session's newest document; in a shell the newest of the
/// project. If there is none it is made: from git, from the session's transcript and from what is not
/// committed, which goes into a commit under refs/ekiden/wip/ (`guard.wip`). Done, decisions and blockers
/// are left to the agent, or to you.
#[derive(Args)]
#[command(before_help = EXAMPLES)]
pub struct HandoffArgs {
    /// Make a new document; where nothing has changed since the last one like it, that is it
    #[arg(long)]
    new: bool,
    #[command(flatten)]
    typed: Typed<Asking>,
}

/// Runs the command.
///
/// # Errors
///
/// If the document can be neither read nor written.
pub fn handoff(args: &HandoffArgs, output: &mut Output) -> Result<Exit, Failure> {
    let scene = Scene::set(args.typed.flags())?;
    let workspace = scene.workspace()?;
    let kept = Kept::of(&workspace);
    let session = scene.environment.variable(transcript::SESSION_VARIABLE);
    let (path, text, is_new) = match kept.newest(session)?.filter(|_| !args.new) {
        Some((name, text)) => (kept.path(&name), text, false),
        None => {
            let taken = take(&scene, &workspace, session)?;
            let text = kept.text(&taken.name)?;
            (taken.document, text, !taken.again)
        }
    };
    let missing = Filled::of(&text).missing();
    if scene.json()? {
        output.json(&Answer { v: JSON_VERSION, file: path, new: is_new, fill_in: missing, document: &text });
        return Ok(Exit::Done);
    }
    output.answer(&clean(&text).text);
    tell(&path, is_new, &missing, output);
    Ok(Exit::Done)
}

/// Takes a checkpoint that somebody asked for.
///
/// # Errors
///
/// If a setting is wrong or the document cannot be written.
fn take(scene: &Scene, workspace: &Workspace, session: Option<&str>) -> Result<Taken, Failure> {
    let request = Request {
        project_dir: workspace.dir.clone(),
        state_dir: crate::settings::chosen::state_dir(&scene.given, &scene.here)?,
        session_id: session.map(str::to_owned),
        transcript: session.and_then(|session| transcript::find(&scene.environment, session)),
        reason: CheckpointReason::Manual,
        percent: None,
        remaining_tokens: None,
        issue: scene.given.get(&table::GUARD_ISSUE)?,
        wip: scene.given.need(&table::GUARD_WIP)?,
        now: SystemClock.now(),
    };
    Ok(checkpoint::take(&request, &NoTracker)?)
}

/// Where it is, and what is still to be written.
fn tell(path: &std::path::Path, is_new: bool, missing: &[&str], output: &mut Output) {
    let file = phrase::path(path);
    let made = if is_new { "made now" } else { "`ekiden handoff --new` makes a new one" };
    output.line(&Line::default());
    let line = Line::new(Tone::Quiet, "handoff  ").with(Tone::Plain, file);
    output.line(&line.with(Tone::Quiet, format!("  {made}")));
    let next = match missing {
        [] => "complete; a fresh session begins with /orient".to_owned(),
        missing => format!(
            "{}: replace each line that begins with `_Empty:` by what is known; a line for each item, about a \
             page in all. Point to files, do not copy them.",
            missing.join(", ")
        ),
    };
    output.line(&Line::new(Tone::Quiet, "fill in  ").with(Tone::Plain, next).hanging(9));
}

/// The answer for programs.
#[derive(Serialize)]
struct Answer<'a> {
    v: u32,
    file: PathBuf,
    new: bool,
    fill_in: Vec<&'static str>,
    document: &'a str,
}
