//! `ekiden diff N`: what a session changed, in the work tree and in the handoff.

use clap::Args;
use ekiden_engine::session_archive;
use serde::Serialize;

use super::{ReadRun, RunArgs};
use crate::exit::Exit;
use crate::failure::{Failure, OrFail as _};
use crate::output::Output;
use crate::output::json::{Fields, fields};
use crate::output::line::{Line, Tone, one_line};
use crate::output::patch::unified;
use crate::output::sessions::{Session, SessionParts};

/// Unchanged lines around a change of the handoff.
const CONTEXT_LINES: usize = 1;

/// Show what a session changed: commits, files, and the handoff compared with the previous one
///
/// Shows commits from the session line by line, and of uncommitted files only the names. After a merge conflict, these
/// include the other stages' commits that the session got to resolve. Outside a git repository ekiden knows nothing
/// about the files.
#[derive(Args)]
pub struct DiffArgs {
    /// The session's number [default: the newest]
    #[arg(value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    session: Option<u32>,
    /// Show which files changed and how much, not their lines and not the handoff
    #[arg(long)]
    stat: bool,
    #[command(flatten)]
    of: RunArgs,
}

pub fn diff(args: &DiffArgs, output: &mut Output) -> Result<Exit, Failure> {
    let read = ReadRun::of(&args.of, output)?;
    let Session {
        told,
        kept: session,
    } = read.session(args.session)?;
    let commits = Commits::of(&read, session, args.stat)?;
    let handoff = handoffs(read.sessions.before(session), session);
    if read.json {
        let (from, to) = match &commits.range {
            Some((from, to)) => (from.as_deref(), Some(to)),
            None => (None, None),
        };
        let open: Vec<Fields> = open(session)
            .map(|(name, before)| fields! { "name": name, "before": before })
            .collect();
        let survey = session.survey.as_ref();
        return output.answer_json(&read.json().and(fields! {
            "session": session.number,
            "known": commits.known,
            "from": from,
            "to": to,
            "commits": survey.map_or(&[][..], |survey| &survey.commits),
            "patch": commits.patch,
            "open": open,
            "handoff": handoff,
        }));
    }
    let head = format!("session {} of run {}", session.number, read.id);
    let known = match told.is_review {
        true => " · it reviewed the work, and may change nothing".to_owned(),
        false => commits.in_words(),
    };
    output.line(Line::new(Tone::Plain, head).with(Tone::Quiet, known));
    for commit in session.survey.iter().flat_map(|survey| &survey.commits) {
        output.line(Line::labelled("commit", Tone::Plain, one_line(commit)));
    }
    for (name, before) in open(session) {
        let note = if before { "  (already before it)" } else { "" };
        let line = Line::labelled("open", Tone::Plain, one_line(name));
        output.line(line.with(Tone::Quiet, note));
    }
    let handoff = (!args.stat).then_some(handoff);
    for text in handoff.into_iter().chain(commits.patch) {
        if !text.is_empty() {
            output.line(Line::default());
            output.foreign(text.as_bytes());
        }
    }
    if commits.is_cut {
        output.warn("the difference is longer than this; `git diff` has all of it");
    }
    Ok(Exit::Done)
}

/// What is known of the commits of a session.
struct Commits {
    known: Known,
    /// The commits before and after it, where both are known and differ.
    range: Option<(Option<String>, String)>,
    /// What git shows between them.
    patch: Option<String>,
    /// There is more than that.
    is_cut: bool,
}

/// How much can be known of the files.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum Known {
    /// The work dir lies in no repository.
    NoGit,
    /// The session is not over, or the look at the work tree failed.
    NoSurvey,
    NoCommit,
    /// Git no longer has one of the commits.
    Forgotten,
    Committed,
}

impl Commits {
    fn of(read: &ReadRun, session: &SessionParts, stat: bool) -> Result<Self, Failure> {
        let nothing = |known| Self {
            known,
            range: None,
            patch: None,
            is_cut: false,
        };
        if !read.run.header().place.git {
            return Ok(nothing(Known::NoGit));
        }
        let (Some(before), Some(after)) = (&session.survey_before, &session.survey) else {
            return Ok(nothing(Known::NoSurvey));
        };
        let Some(to) = after.head.clone().filter(|_| before.head != after.head) else {
            return Ok(nothing(Known::NoCommit));
        };
        let from = before.head.clone();
        let patch = session_archive::patch(&read.workspace, from.as_deref(), &to, stat)
            .or_fail(Exit::State, "cannot ask git")?;
        Ok(Self {
            known: match patch {
                Some(_) => Known::Committed,
                None => Known::Forgotten,
            },
            range: Some((from, to)),
            is_cut: patch.as_ref().is_some_and(|patch| patch.cut),
            patch: patch.map(|patch| patch.text),
        })
    }

    fn in_words(&self) -> String {
        let short = |commit: &str| commit.get(..10).unwrap_or(commit).to_owned();
        let range = self.range.as_ref().map(|(from, to)| {
            let from = from.as_deref().map_or("nothing".to_owned(), short);
            format!("{from}..{}", short(to))
        });
        let range = range.unwrap_or_default();
        match self.known {
            Known::NoGit => {
                " · the work dir is not in a git repository, so what changed in it is not known"
                    .to_owned()
            }
            Known::NoSurvey => {
                " · the work tree was not looked at after it, so what changed is not known"
                    .to_owned()
            }
            Known::NoCommit => " · it made no commit".to_owned(),
            Known::Forgotten => format!(" · {range}, which git no longer has"),
            Known::Committed => format!(" · {range}"),
        }
    }
}

/// Files that were not committed at its end, each with whether it already was uncommitted before.
fn open(session: &SessionParts) -> impl Iterator<Item = (&String, bool)> {
    let (before, after) = (session.survey_before.as_ref(), session.survey.as_ref());
    let names = after.into_iter().flat_map(|after| &after.status);
    names.map(move |name| {
        let was_open = before.is_some_and(|before| before.status.contains(name));
        (name, was_open)
    })
}

/// The handoff against the one before, as `diff -u` shows it.
fn handoffs(before: Option<&SessionParts>, session: &SessionParts) -> String {
    if session.notes.is_none() {
        return String::new();
    }
    let (old, new) = (texts(before), texts(Some(session)));
    let files = ["PROGRESS.md", "NEXT_PROMPT.md"].iter().zip(old).zip(new);
    files
        .map(|((file, old), new)| {
            let old_name = before.map_or("nothing".to_owned(), |before| {
                format!("session {}: {file}", before.number)
            });
            let new_name = format!("session {}: {file}", session.number);
            unified([&old_name, &new_name], [old, new], CONTEXT_LINES)
        })
        .collect()
}

/// What a session left: its progress, and the prompt for the next.
fn texts(session: Option<&SessionParts>) -> [&str; 2] {
    let notes = session.and_then(|session| session.notes.as_ref());
    notes.map_or(["", ""], |notes| [&notes.progress, &notes.next_prompt])
}
