//! `ekiden handoff`: shows this session's handoff document, to read and to fill in.

use std::path::Path;

use clap::Args;
use ekiden_core::guard::Reading;
use ekiden_core::guard::checkpoint::CheckpointReason;
use ekiden_core::guard::document::Filled;
use ekiden_core::text::clean;
use ekiden_engine::checkpoint::{Request, Taken};
use ekiden_engine::clock::{Clock, SystemClock};
use ekiden_engine::workspace::Workspace;

use super::{Invocation, end_leftovers};
use crate::client::transcript;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::guard::{Watched, take_checkpoint};
use crate::output::json::Fields;
use crate::output::line::{Line, Tone};
use crate::output::{Output, phrase};
use crate::settings::flags::{Asking, Typed};
use crate::settings::table;

/// Show this session's handoff document and what to fill in
///
/// Inside a Claude Code session this is the session's document that waits to be filled in; in a shell it is the newest of
/// the project. If there is none, ekiden makes one from git, the session's transcript and uncommitted work, which goes into
/// a commit under refs/ekiden/wip/ (`guard.wip`). The agent, or you, fill in what was done, decisions and blockers.
#[derive(Args)]
pub struct HandoffArgs {
    /// Make a new document, unless nothing has changed since the last one
    #[arg(long)]
    new: bool,
    #[command(flatten)]
    typed: Typed<Asking>,
}

pub fn handoff(args: &HandoffArgs, output: &mut Output) -> Result<Exit, Failure> {
    let invocation = Invocation::new(args.typed.flags())?;
    let workspace = invocation.workspace_of_session(Invocation::workspace_here)?;
    let documents = workspace.documents();
    let session = invocation
        .environment
        .variable(transcript::SESSION_VARIABLE);
    let watched = session.and_then(|session| Watched::for_command(Some(session)).ok());
    let newest = documents.newest(|origin| {
        session.is_none() || origin.and_then(|origin| origin.session.as_deref()) == session
    })?;
    let waiting = watched.as_ref().and_then(Watched::waiting_document);
    let is_shown = |name: &str| session.is_none() || waiting == Some(documents.path(name));
    let (path, text, is_new) = match newest.filter(|(name, _)| !args.new && is_shown(name)) {
        Some((name, text)) => (documents.path(&name), text, false),
        None => {
            end_leftovers(&workspace, output);
            // In a shell it is of the session that was last watched here.
            let last = || Watched::for_command(session).ok();
            let watched = watched.or_else(last);
            let last = watched.as_ref().map(|watched| watched.session.as_str());
            let session = last.filter(|last| !last.is_empty()).or(session);
            let taken = take(&invocation, &workspace, session, watched.as_ref())?;
            let text = documents.read(&taken.name)?.unwrap_or_default();
            (taken.document, text, !taken.again)
        }
    };
    let missing = Filled::missing(&text);
    if invocation.json()? {
        let answer = Fields::versioned().with("file", path).with("new", is_new);
        return output.answer_json(&answer.with("fill_in", missing).with("document", text));
    }
    output.answer(&clean(&text).text);
    tell(&path, is_new, &missing, output);
    Ok(Exit::Done)
}

/// Takes a checkpoint that somebody asked for. In a session the guard hears of it.
fn take(
    invocation: &Invocation,
    workspace: &Workspace,
    session: Option<&str>,
    watched: Option<&Watched>,
) -> Result<Taken, Failure> {
    if invocation.environment.has_run() {
        return Err(Watched::refused());
    }
    let reading = watched.and_then(Watched::reading);
    Ok(take_checkpoint(&Request {
        project_dir: workspace.dir.clone(),
        state_dir: crate::settings::chosen::state_dir(&invocation.given, &invocation.here)?,
        session_id: session.map(str::to_owned),
        transcript: session.and_then(|session| transcript::find(&invocation.environment, session)),
        reason: CheckpointReason::Manual,
        percent: reading.as_ref().map(Reading::percent),
        remaining_tokens: reading.as_ref().map(Reading::remaining_tokens),
        used_tokens: reading.as_ref().map_or(0, |reading| reading.used_tokens),
        issue: invocation.given.get(&table::GUARD_ISSUE)?,
        tracker: Vec::new(),
        next_part: None,
        wip: invocation.given.need(&table::GUARD_WIP)?,
        subject: watched.and_then(|watched| {
            let percent = reading.as_ref().map(Reading::percent);
            watched.loop_subject(CheckpointReason::Manual, percent)
        }),
        now: SystemClock.now(),
    })?)
}

/// Where it is, and what is still to be written.
fn tell(path: &Path, is_new: bool, missing: &[&str], output: &mut Output) {
    let file = phrase::path(path);
    let made = if is_new {
        "made now"
    } else {
        "`ekiden handoff --new` makes a new one"
    };
    output.line(Line::default());
    let line = Line::new(Tone::Quiet, "handoff  ").with(Tone::Plain, file);
    output.line(line.with(Tone::Quiet, format!("  {made}")));
    let next = match missing {
        [] => "complete; a fresh session begins with `ekiden orient`".to_owned(),
        missing => format!(
            "{}: replace each line that begins with `_Empty:` by what is known; a line for each item, about a \
             page in all. Point to files, do not copy them.",
            missing.join(", ")
        ),
    };
    output.line(
        Line::new(Tone::Quiet, "fill in  ")
            .with(Tone::Plain, next)
            .hanging(9),
    );
}
