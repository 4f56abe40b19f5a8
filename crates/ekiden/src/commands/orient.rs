//! `ekiden orient`: where the last session stopped, for the one that goes on.
//!
//! An agent reads this too. What a document says is then marked as data, like any notes.

use std::path::PathBuf;

use clap::Args;
use ekiden_core::guard::document::{KeyPoints, session_of};
use ekiden_core::prompt::quote::MARK;
use serde::Serialize;

use super::Scene;
use super::documents::Kept;
use super::status::{self, Row};
use crate::client::transcript::{self, IN_AGENT_VARIABLE};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::line::{Line, Tone};
use crate::output::{Output, phrase};
use crate::settings::flags::{Asking, Typed};

const EXAMPLES: &str = "\
Examples:
  ekiden orient
  ekiden orient --json | jq -r '.handoff.next_steps[]'
";

/// The version of the JSON form.
const JSON_VERSION: u32 = 1;
/// Where a relay's notes for its next session are.
const RELAY_NOTES: &str = ".ekiden/NEXT_PROMPT.md";

/// Show where the last session stopped, and what comes next
///
/// The newest handoff document of the project: where it is, what it was about, the state of its issue, and
/// numbered next steps. A relay that is not finished is shown too.
#[derive(Args)]
#[command(before_help = EXAMPLES)]
pub struct OrientArgs {
    #[command(flatten)]
    typed: Typed<Asking>,
}

/// Runs the command.
///
/// # Errors
///
/// If the documents or the runs cannot be read.
pub fn orient(args: &OrientArgs, output: &mut Output) -> Result<Exit, Failure> {
    let scene = Scene::set(args.typed.flags())?;
    let workspace = scene.workspace()?;
    let kept = Kept::of(&workspace);
    let found = kept.newest(None)?;
    if let (Some((name, text)), Some(session)) =
        (&found, scene.environment.variable(transcript::SESSION_VARIABLE))
        && session_of(text).as_deref() != Some(session)
    {
        kept.consume(name, session);
    }
    let relay = status::unfinished(&workspace)?;
    let handoff = found.map(|(name, text)| Handoff { file: kept.path(&name), points: KeyPoints::of(&text) });
    if scene.json()? {
        output.json(&Answer { v: JSON_VERSION, handoff, relay });
        return Ok(Exit::Done);
    }
    let mark = scene.environment.variable(IN_AGENT_VARIABLE).map_or("", |_| MARK);
    handoff.iter().flat_map(|handoff| handoff.lines(mark)).for_each(|line| output.line(&line));
    if let Some(row) = &relay {
        status::tell_row(&workspace, row, output)?;
        output.line(&labelled("notes", RELAY_NOTES));
    }
    if handoff.is_none() && relay.is_none() {
        output.line(&Line::new(Tone::Plain, "no handoff here yet: nothing to go on from"));
        output.line(&Line::new(Tone::Quiet, "next  ").with(Tone::Plain, "ekiden handoff"));
    }
    Ok(Exit::Done)
}

/// The answer for programs.
#[derive(Serialize)]
struct Answer {
    v: u32,
    handoff: Option<Handoff>,
    /// The newest run, if it is not complete.
    relay: Option<Row>,
}

/// A document.
#[derive(Serialize)]
struct Handoff {
    file: PathBuf,
    #[serde(flatten)]
    points: KeyPoints,
}

impl Handoff {
    fn lines(&self, mark: &str) -> Vec<Line> {
        let points = &self.points;
        let mut lines = vec![labelled("handoff", &phrase::path(&self.file))];
        let fact = |label: &str, text: &Option<String>| {
            text.as_ref().map(|text| labelled(label, &format!("{mark}{text}")))
        };
        lines.extend(fact("made", &points.made));
        lines.extend(fact("because", &points.trigger));
        lines.push(labelled("about", &format!("{mark}{}", points.title)));
        lines.extend(fact("task", &points.task));
        lines.extend(fact("branch", &points.branch));
        let listed = |label: &str, texts: &[String]| {
            let first = texts.iter().take(1).map(|text| labelled(label, &format!("{mark}{text}")));
            let rest = texts.iter().skip(1).map(|text| labelled("", &format!("{mark}{text}")));
            first.chain(rest).collect::<Vec<_>>()
        };
        lines.extend(listed("issue", &points.issue_state));
        lines.extend(listed("reload", &points.reload));
        lines.extend(listed("done", &points.done));
        lines.extend(listed("decided", &points.decisions));
        lines.extend(listed("in the way", &points.blockers));
        let steps = points.next_steps.iter().enumerate();
        let steps: Vec<String> = steps.map(|(index, step)| format!("{}. {step}", index + 1)).collect();
        lines.extend(listed("next steps", &steps));
        lines
    }
}

fn labelled(label: &str, text: &str) -> Line {
    Line::new(Tone::Quiet, format!("{label:<12}")).with(Tone::Plain, text).hanging(12)
}
