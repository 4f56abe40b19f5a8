//! `ekiden orient`: where the last session stopped, for the session that continues.
//!
//! An agent may read this too. The text of a document is then marked as data, like any notes.

use std::path::PathBuf;

use clap::Args;
use ekiden_core::guard::document::{KeyPoints, session_of};
use ekiden_core::prompt::quote::MARK;
use ekiden_store::place::ProjectPlace;
use serde::Serialize;

use super::Invocation;
use super::run_status::{self, RunStatus};
use crate::client::transcript::{self, IN_AGENT_VARIABLE};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::guard::Watched;
use crate::output::json::Fields;
use crate::output::line::{Line, Tone};
use crate::output::{Output, phrase};
use crate::settings::flags::{Asking, Typed};
use crate::tracker::Trackers;

/// Show where the last session stopped, and what comes next
///
/// Shows the project's newest handoff document: where it is, what it was about, the state of its issue, and numbered next
/// steps. Also shows an unfinished relay.
#[derive(Args)]
pub struct OrientArgs {
    #[command(flatten)]
    typed: Typed<Asking>,
}

pub fn orient(args: &OrientArgs, output: &mut Output) -> Result<Exit, Failure> {
    let invocation = Invocation::looking(args.typed.flags(), output)?;
    let workspace = invocation.workspace_of_session(Invocation::workspace)?;
    let kept = workspace.documents();
    let session = invocation
        .environment
        .variable(transcript::SESSION_VARIABLE);
    let branch = ProjectPlace::find(&workspace.dir, None);
    // What a session that starts here is told about comes first: the newest document may be of another branch.
    let branch = branch.and_then(|place| place.branch());
    let watched = session.and_then(|session| Watched::for_command(Some(session)).ok());
    let told = watched.as_ref().and_then(|watched| watched.watch().loaded);
    let unread = match told {
        Some(name) => Some(name),
        None => kept.newest_unconsumed(branch.as_deref(), session)?,
    };
    let found = match unread {
        Some(name) => kept.read(&name)?.map(|text| (name, text)),
        None => kept.newest(|_| true)?,
    };
    // A session of a run, and one that an agent starts for a question, leave it for the person's next one.
    if let (Some((name, text)), Some(session)) = (&found, session)
        && session_of(text).as_deref() != Some(session)
        && watched.is_some_and(|watched| !watched.is_nested())
    {
        // If nothing can be written, it is only read.
        let _ = kept.consume(name, session);
    }
    let relay = run_status::unfinished(&workspace)?;
    let trackers = invocation.trackers(&workspace);
    let handoff = found.map(|(name, text)| Handoff {
        file: kept.path(&name),
        points: with_issue(KeyPoints::of(&text), &trackers),
    });
    if invocation.json()? {
        let relay = relay.as_ref().map(RunStatus::json);
        let answer = Fields::versioned().with("handoff", handoff);
        return output.answer_json(&answer.with("relay", relay));
    }
    let mark = invocation
        .environment
        .variable(IN_AGENT_VARIABLE)
        .map_or("", |_| MARK);
    handoff
        .iter()
        .flat_map(|handoff| handoff.lines(mark))
        .for_each(|line| output.line(&line));
    if let Some(run) = &relay {
        let there = invocation.shown_work_dir(&workspace)?;
        run.print(&workspace, &there, false, output)?;
        output.line(labelled("notes", &there.published("NEXT_PROMPT.md")));
    }
    if handoff.is_none() && relay.is_none() {
        output.line("no handoff here yet: nothing to continue from");
        let there = invocation.shown_work_dir(&workspace)?.flag();
        output.line(Line::next(format!("ekiden handoff{there}")));
    }
    Ok(Exit::Done)
}

/// The points with what the issue's tracker says now. If it does not answer, what it said before stays.
fn with_issue(mut points: KeyPoints, trackers: &Trackers) -> KeyPoints {
    if let Some(issue) = points
        .issue
        .as_deref()
        .and_then(|name| trackers.of_name(name))
    {
        match trackers.ask(&issue) {
            Ok(found) => points.issue_state = found.summary_lines(),
            Err(why) => points.issue_state.push(format!("Tracker now: {why}")),
        }
    }
    points
}

#[derive(Serialize)]
struct Handoff {
    file: PathBuf,
    #[serde(flatten)]
    points: KeyPoints,
}

impl Handoff {
    fn lines(&self, mark: &str) -> Vec<Line> {
        let points = &self.points;
        let steps = points.next_steps.iter().zip(1..);
        let steps: Vec<String> = steps
            .map(|(step, number)| format!("{number}. {step}"))
            .collect();
        let listed = [
            ("made", points.made.as_slice()),
            ("reason", points.trigger.as_slice()),
            ("about", std::slice::from_ref(&points.title)),
            ("task", points.task.as_slice()),
            ("began with", points.began.as_slice()),
            ("branch", points.branch.as_slice()),
            ("issue", &points.issue_state),
            ("reload", &points.reload),
            ("done", &points.done),
            ("decided", &points.decisions),
            ("blockers", &points.blockers),
            ("next steps", &steps),
        ];
        let mut lines = vec![labelled("handoff", &phrase::path(&self.file))];
        for (label, texts) in listed {
            let labels = std::iter::once(label).chain(std::iter::repeat(""));
            let texts = texts.iter().map(|text| format!("{mark}{text}"));
            lines.extend(
                labels
                    .zip(texts)
                    .map(|(label, text)| labelled(label, &text)),
            );
        }
        lines
    }
}

fn labelled(label: &str, text: &str) -> Line {
    Line::new(Tone::Quiet, format!("{label:<12}"))
        .with(Tone::Plain, text)
        .hanging(12)
}
