//! `ekiden diff N`: what a session changed, in the work tree and in the handoff.

use clap::Args;
use ekiden_core::event::Survey;
use ekiden_core::ids::RunId;
use ekiden_core::prompt::Notes;
use ekiden_engine::kept::{self, Detail, Patch};
use ekiden_engine::workspace::Workspace;
use serde::Serialize;

use super::{Scene, Told, asked_run};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::Output;
use crate::output::account::Session;
use crate::output::line::{Line, Tone, one_line};
use crate::output::patch::unified;
use crate::settings::flags::{Asking, Typed};

const EXAMPLES: &str = "\
Examples:
  ekiden diff 3                  what session 3 of the newest run here changed
  ekiden diff 3 --stat           the files, without their lines
  ekiden diff 3 7f3a | less -R   in the run whose id begins so
";

/// The version of the JSON form.
const JSON_VERSION: u32 = 1;
/// Unchanged lines around a change of the handoff.
const CONTEXT_LINES: usize = 1;

/// Show what a session changed: commits, files, and the handoff against the one before
///
/// What was committed between the looks at the work tree before and after the session is shown line by
/// line. Of what was not committed then only the names are known. Outside a git repository nothing is
/// known of the files.
#[derive(Args)]
#[command(before_help = EXAMPLES)]
pub struct DiffArgs {
    /// The session's number
    #[arg(value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    session: u32,
    /// The beginning of the run's id [default: the newest run here]
    #[arg(value_name = "RUN")]
    run: Option<String>,
    /// The stage, where the run is a plan
    #[arg(long, value_name = "ID")]
    stage: Option<String>,
    /// Show which files were changed and how much, not their lines
    #[arg(long)]
    stat: bool,
    #[command(flatten)]
    typed: Typed<Asking>,
}

/// Runs the command.
///
/// # Errors
///
/// If there is no such run or session, or git cannot be asked.
pub fn diff(args: &DiffArgs, output: &mut Output) -> Result<Exit, Failure> {
    let scene = Scene::set(args.typed.flags())?;
    let workspace = scene.workspace()?;
    let json = scene.json()?;
    let run = asked_run(&workspace, args.run.as_deref(), output)?;
    let told = Told::read(&workspace, &run, args.stage.as_deref())?;
    let session = told.session(args.session)?;
    let changes =
        Changes::of(&workspace, &told, session, if args.stat { Detail::Stat } else { Detail::Lines })?;
    if json {
        output.json(&changes.answer(&run, session));
    } else {
        changes.print(&told, session, output);
    }
    Ok(Exit::Done)
}

/// What is known of a session's changes.
struct Changes {
    known: Known,
    commits: Vec<String>,
    /// Names that were not committed at its end, and whether they were so before already.
    open: Vec<(String, bool)>,
    handoff: String,
}

/// How much can be known of the files.
enum Known {
    /// The work dir lies in no repository.
    NoGit,
    /// The session is not over, or the look at the work tree failed.
    NoSurvey,
    /// No commit was made.
    NoCommit,
    /// Git no longer has one of the commits.
    Forgotten { from: Option<String>, to: String },
    /// Commits were made.
    Committed { from: Option<String>, to: String, patch: Patch },
}

impl Changes {
    fn of(workspace: &Workspace, told: &Told, session: &Session, detail: Detail) -> Result<Self, Failure> {
        let (before, after) = (told.account.survey_before(session), session.survey.as_ref());
        let known = match after {
            _ if !told.run.header().place.git => Known::NoGit,
            None => Known::NoSurvey,
            Some(after) => between(workspace, before, after, detail)?,
        };
        let was_open = |name: &String| before.is_some_and(|before| before.status.contains(name));
        Ok(Self {
            known,
            commits: after.map(|after| after.commits.clone()).unwrap_or_default(),
            open: after
                .map(|after| after.status.iter().map(|name| (name.clone(), was_open(name))).collect())
                .unwrap_or_default(),
            handoff: handoffs(told.account.before(session), session),
        })
    }

    fn print(&self, told: &Told, session: &Session, output: &mut Output) {
        let head = format!("session {} of run {}", session.number, told.id);
        output.line(&Line::new(Tone::Plain, head).with(Tone::Quiet, self.known.in_words()));
        for commit in &self.commits {
            output.line(&Line::labelled("commit", Tone::Plain, one_line(commit)));
        }
        for (name, before) in &self.open {
            let note = if *before { "  (already before it)" } else { "" };
            output.line(&Line::labelled("open", Tone::Plain, one_line(name)).with(Tone::Quiet, note));
        }
        if !self.handoff.is_empty() {
            output.line(&Line::default());
            output.foreign(self.handoff.as_bytes());
        }
        if let Known::Committed { patch, .. } = &self.known
            && !patch.text.is_empty()
        {
            output.line(&Line::default());
            output.foreign(patch.text.as_bytes());
            if patch.cut {
                output.warn("the difference is longer than this; `git diff` has all of it");
            }
        }
    }

    fn answer<'a>(&'a self, run: &'a RunId, session: &Session) -> Answer<'a> {
        let (from, to, patch) = match &self.known {
            Known::NoGit | Known::NoSurvey | Known::NoCommit => (None, None, None),
            Known::Forgotten { from, to } => (from.as_deref(), Some(to.as_str()), None),
            Known::Committed { from, to, patch } => {
                (from.as_deref(), Some(to.as_str()), Some(patch.text.as_str()))
            }
        };
        let known = match &self.known {
            Known::NoGit => "no_git",
            Known::NoSurvey => "no_survey",
            Known::NoCommit => "no_commit",
            Known::Forgotten { .. } => "forgotten",
            Known::Committed { .. } => "committed",
        };
        let open = self.open.iter().map(|(name, before)| Open { name, before: *before }).collect();
        let (commits, handoff) = (&self.commits, &self.handoff);
        Answer {
            v: JSON_VERSION,
            run,
            session: session.number.get(),
            known,
            from,
            to,
            commits,
            patch,
            open,
            handoff,
        }
    }
}

impl Known {
    fn in_words(&self) -> String {
        match self {
            Self::NoGit => {
                " · the work dir lies in no git repository, so what changed in it is not known".to_owned()
            }
            Self::NoSurvey => {
                " · the work tree was not looked at after it, so what changed is not known".to_owned()
            }
            Self::NoCommit => " · it made no commit".to_owned(),
            Self::Forgotten { from, to } => {
                format!(" · {}..{}, which git no longer has", short(from.as_deref()), short(Some(to)))
            }
            Self::Committed { from, to, .. } => format!(" · {}..{}", short(from.as_deref()), short(Some(to))),
        }
    }
}

fn short(commit: Option<&str>) -> &str {
    commit.map_or("nothing", |commit| commit.get(..10).unwrap_or(commit))
}

fn between(
    workspace: &Workspace,
    before: Option<&Survey>,
    after: &Survey,
    detail: Detail,
) -> Result<Known, Failure> {
    let Some(before) = before else { return Ok(Known::NoSurvey) };
    let (from, Some(to)) = (before.head.clone(), after.head.clone()) else { return Ok(Known::NoCommit) };
    if from.as_ref() == Some(&to) {
        return Ok(Known::NoCommit);
    }
    let patch = kept::patch(workspace, from.as_deref(), &to, detail)
        .map_err(|error| Failure::caused(Exit::State, "cannot ask git", &error))?;
    Ok(match patch {
        Some(patch) => Known::Committed { from, to, patch },
        None => Known::Forgotten { from, to },
    })
}

/// The handoff against the one before, as `diff -u` tells it.
fn handoffs(before: Option<&Session>, session: &Session) -> String {
    let texts = |session: Option<&Session>| match session.and_then(|session| session.notes.as_ref()) {
        Some(Notes::Handoff { progress, next_prompt } | Notes::Continuation { progress, next_prompt }) => {
            (progress.clone(), next_prompt.clone())
        }
        Some(Notes::Rescue { text }) => (String::new(), text.clone()),
        None => (String::new(), String::new()),
    };
    let (old, new) = (texts(before), texts(Some(session)));
    let name = |session: Option<&Session>, file: &str| match session {
        Some(session) => format!("session {}: {file}", session.number),
        None => "nothing".to_owned(),
    };
    let one = |old: &str, new: &str, file: &str| {
        let names = [name(before, file), name(Some(session), file)];
        unified(names.each_ref().map(String::as_str), [old, new], CONTEXT_LINES)
    };
    if session.notes.is_none() {
        return String::new();
    }
    one(&old.0, &new.0, "PROGRESS.md") + &one(&old.1, &new.1, "NEXT_PROMPT.md")
}

/// The answer for programs.
#[derive(Serialize)]
struct Answer<'a> {
    v: u32,
    run: &'a RunId,
    session: u32,
    known: &'static str,
    from: Option<&'a str>,
    to: Option<&'a str>,
    commits: &'a [String],
    patch: Option<&'a str>,
    open: Vec<Open<'a>>,
    handoff: &'a str,
}

/// A file that was not committed.
#[derive(Serialize)]
struct Open<'a> {
    name: &'a str,
    before: bool,
}
