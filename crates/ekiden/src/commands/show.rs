//! `ekiden show N`: what a session was given, said and left.

use std::collections::BTreeMap;

use clap::Args;
use ekiden_core::event::Traces;
use ekiden_core::handoff::HandoffFile;
use ekiden_core::hash::sha256_hex;
use ekiden_core::prompt::Author;
use ekiden_core::text::in_full;
use ekiden_engine::session_archive::{Part, SessionArchive};

use super::{ReadRun, RunArgs, imported};
use crate::exit::Exit;
use crate::failure::{Failure, OrFail as _};
use crate::output::json::{Fields, fields};
use crate::output::line::{Line, Tone, one_line};
use crate::output::sessions::{Attempt, Session};
use crate::output::{Output, activity, phrase};

/// Show what a session saw, said and left
///
/// Without a part, prints an overview. Text from an agent or a tool is printed byte for byte, but with secrets masked, and
/// on a terminal without control sequences. The log has the handoff too, so ekiden can show it after the archive is gone.
#[derive(Args)]
pub struct ShowArgs {
    /// The session's number [default: the newest]
    #[arg(value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    session: Option<u32>,
    /// The prompt that the agent got
    #[arg(long)]
    prompt: bool,
    /// Its `PROGRESS.md`
    #[arg(long)]
    progress: bool,
    /// Its `NEXT_PROMPT.md`, or the rescue handoff in its place
    #[arg(long)]
    next_prompt: bool,
    /// Its `KNOWLEDGE.md`: what the session added
    #[arg(long)]
    knowledge: bool,
    /// What it said and did, one line each; with `--json`, or for an exec agent, what it printed itself
    #[arg(long)]
    events: bool,
    /// The output of the verification after it
    #[arg(long)]
    verify: bool,
    /// Prompt and handoff of this attempt [default: the last]
    #[arg(long, value_name = "K", value_parser = clap::value_parser!(u32).range(1..))]
    attempt: Option<u32>,
    #[command(flatten)]
    of: RunArgs,
}

pub fn show(args: &ShowArgs, output: &mut Output) -> Result<Exit, Failure> {
    let read = ReadRun::of(&args.of, output)?;
    let parts = args.parts();
    if let Some(exit) = imported::show(&read, args.session, &parts, output)? {
        return Ok(exit);
    }
    let session = read.session(args.session)?;
    let attempt = attempt(session, args.attempt)?;
    let shown = Shown {
        archive: SessionArchive::of(
            &read.workspace,
            &read.run.header().run,
            read.stage.as_ref(),
            attempt.id.session,
        ),
        attempt,
        session,
        read: &read,
    };
    match (read.json, parts.as_slice()) {
        (true, [Part::Events]) => output.foreign(&shown.archived(Part::Events)?),
        (true, parts) => output.json(&shown.json(parts)?),
        (false, []) => shown.overview(output),
        (false, [part]) => shown.print(*part, output)?,
        (false, parts) => {
            let mut printed = Ok(());
            for part in parts {
                let head = format!("── {} ──", shown.name(*part));
                output.line(Line::new(Tone::Quiet, head));
                printed = printed.and(shown.print(*part, output));
            }
            printed?;
        }
    }
    Ok(Exit::Done)
}

/// A flag, whether it was typed, and its part.
type PartFlag = (&'static str, fn(&ShowArgs) -> bool, Part);

const PARTS: [PartFlag; 6] = [
    ("--prompt", |args| args.prompt, Part::Prompt),
    (
        "--progress",
        |args| args.progress,
        Part::Handoff(HandoffFile::Progress),
    ),
    (
        "--next-prompt",
        |args| args.next_prompt,
        Part::Handoff(HandoffFile::NextPrompt),
    ),
    (
        "--knowledge",
        |args| args.knowledge,
        Part::Handoff(HandoffFile::Knowledge),
    ),
    ("--events", |args| args.events, Part::Events),
    ("--verify", |args| args.verify, Part::Verify),
];

/// The flags of the parts that there are.
pub(super) fn flags(is_there: impl Fn(Part) -> bool) -> String {
    let there = PARTS.iter().filter(|(_, _, part)| is_there(*part));
    let flags: Vec<&str> = there.map(|(flag, _, _)| *flag).collect();
    flags.join(" | ")
}

impl ShowArgs {
    fn parts(&self) -> Vec<Part> {
        let typed = PARTS.iter().filter(|(_, is_typed, _)| is_typed(self));
        typed.map(|(_, _, part)| *part).collect()
    }
}

/// The attempt that was asked for, or the last.
fn attempt(session: Session<'_>, asked: Option<u32>) -> Result<&Attempt, Failure> {
    let is_asked = |attempt: &&Attempt| asked.is_none_or(|asked| attempt.id.attempt.get() == asked);
    session.kept.attempts.iter().rfind(is_asked).ok_or_else(|| {
        let had = phrase::count(session.kept.attempts.len() as u64, "attempt");
        let number = session.kept.number;
        let what = format!("session {number} had only {had}");
        Failure::new(Exit::MissingInput, what)
    })
}

/// A session, and where everything of it is found.
struct Shown<'a> {
    read: &'a ReadRun,
    session: Session<'a>,
    attempt: &'a Attempt,
    archive: SessionArchive,
}

impl Shown<'_> {
    fn name(&self, part: Part) -> String {
        self.archive.name(part, self.attempt.id.attempt)
    }

    fn print(&self, part: Part, output: &mut Output) -> Result<(), Failure> {
        // The output of an agent that reports nothing is already for people.
        if part == Part::Events && self.session.told.hears(self.attempt.id.attempt) {
            let stream = self.archive.reader(part, self.attempt.id.attempt, 0);
            let stream = stream?;
            let stream = stream.ok_or_else(|| self.missing(part))?;
            return activity::of_stream(stream, |line| output.line(line))
                .or_fail(Exit::State, "cannot read the event stream");
        }
        let (bytes, note) = self.find(part)?;
        if let Some(note) = note {
            output.warn(&note);
        }
        output.foreign(&bytes);
        Ok(())
    }

    fn archived(&self, part: Part) -> Result<Vec<u8>, Failure> {
        let bytes = self.archive.read(part, self.attempt.id.attempt);
        let bytes = bytes?;
        bytes.ok_or_else(|| self.missing(part))
    }

    /// A part from the archive, else what the log has of it; and what must be said about it.
    fn find(&self, part: Part) -> Result<(Vec<u8>, Option<String>), Failure> {
        let missing = match self.archived(part) {
            Ok(bytes) => {
                let differs = part == Part::Prompt && sha256_hex(&bytes) != self.attempt.prompt;
                let note = "this is not what the agent was given: the file was changed since (its hash differs)";
                return Ok((bytes, differs.then(|| note.to_owned())));
            }
            Err(missing) => missing,
        };
        let gone = format!("{} is no longer in the archive; this is", self.name(part));
        let ended = self.attempt.ended.as_ref();
        let (text, note) = match (part, &self.session.kept.notes, &self.session.told.check) {
            (Part::Handoff(HandoffFile::NextPrompt), Some(notes), _)
                if matches!(notes.by, Author::Rescue | Author::Both) =>
            {
                let note = "the session left no valid handoff; ekiden wrote this, around what could be read";
                (Some(notes.next_prompt.as_str()), note.to_owned())
            }
            (Part::Handoff(file), ..) => {
                let text = ended.and_then(|ended| ended.files.get(file).text());
                (text, format!("{gone} from the log"))
            }
            (Part::Verify, _, Some(check)) => {
                let note = format!("{gone} the end of it, from the log");
                (Some(check.tail.as_str()), note)
            }
            (Part::Verify | Part::Prompt | Part::Events, ..) => (None, gone),
        };
        let text = text.ok_or(missing)?;
        Ok((text.as_bytes().to_vec(), Some(note)))
    }

    /// Why a part is not there, as far as it can be known.
    fn missing(&self, part: Part) -> Failure {
        let (number, name) = (self.session.kept.number, self.name(part));
        let why = match part {
            Part::Handoff(_) if self.attempt.ended.is_none() => {
                let attempt = self.attempt.id.attempt;
                format!("attempt {attempt} of session {number} has not handed off")
            }
            Part::Handoff(_) => format!("session {number} left no {name}"),
            Part::Verify if self.session.told.check.is_none() => {
                format!("no verification ran after session {number}")
            }
            Part::Prompt | Part::Events | Part::Verify => {
                let dir = phrase::path(self.archive.dir());
                format!("{name} is not in the archive any more: {dir}")
            }
        };
        Failure::new(Exit::MissingInput, why).hint(format!(
            "`ekiden show {number}{}` shows what there is",
            self.read.named
        ))
    }

    fn overview(&self, output: &mut Output) {
        let (number, named) = (self.session.kept.number, &self.read.named);
        let head = format!("session {number} of run {}", self.read.id);
        let day = phrase::day_and_time(self.session.told.began, &self.read.sessions.reporter.zone);
        output.line(Line::new(Tone::Plain, head).with(Tone::Quiet, format!(" · {day}")));
        // The first entry says when it began, as the head does.
        let entries = self.session.kept.entries.iter().skip(1);
        for line in entries.flat_map(|(_, entry)| &entry.lines) {
            output.line(line);
        }
        if self.session.told.end().is_none() {
            let open = "its last attempt has not ended, as far as the log knows";
            output.line(Line::labelled("", Tone::Attention, open));
        }
        for line in self.facts() {
            output.line(&line);
        }
        let files = self.archive.files().unwrap_or_default();
        let parts = flags(|part| match part {
            // It may be long.
            Part::Events => files.iter().any(|(name, _)| *name == self.name(part)),
            Part::Prompt | Part::Handoff(_) | Part::Verify => self.find(part).is_ok(),
        });
        let mut label = "more";
        if !parts.is_empty() {
            let more = format!("ekiden show {number}{named} {parts}");
            output.line(Line::labelled(label, Tone::Quiet, more).whole());
            label = "";
        }
        if !self.session.told.is_review {
            let diff = format!("ekiden diff {number}{named}");
            output.line(Line::labelled(label, Tone::Quiet, diff).whole());
        }
    }

    fn facts(&self) -> Vec<Line> {
        let mut lines = Vec::new();
        if let Some(survey) = &self.session.kept.survey {
            let commits = phrase::count(survey.commits.len() as u64, "commit");
            let open = phrase::files(survey.status.len());
            let text = format!("{commits}, {open} not committed at its end");
            lines.push(Line::labelled("tree", Tone::Plain, text));
        }
        if let Some(ended) = &self.attempt.ended {
            let work_dir = format!("{}/", self.read.run.header().place.work_dir);
            lines.extend(last_seen(&ended.traces, &work_dir));
        }
        let files = match self.archive.files() {
            Ok(files) if files.is_empty() => {
                "nothing; the archive of this session is gone".to_owned()
            }
            Ok(files) => {
                let sized = |(name, bytes): &(String, u64)| {
                    format!("{} {}", one_line(name), phrase::bytes(*bytes))
                };
                files.iter().map(sized).collect::<Vec<_>>().join(", ")
            }
            Err(error) => format!("unknown: cannot {}", in_full(&error)),
        };
        let dir = phrase::path(self.archive.dir());
        lines.push(Line::labelled("kept", Tone::Plain, files));
        lines.push(Line::labelled("in", Tone::Quiet, dir));
        lines
    }

    fn json(&self, parts: &[Part]) -> Result<Fields, Failure> {
        let entries = self.session.kept.entries.iter();
        let events: Vec<Fields> = entries
            .map(|(at, entry)| entry.json_of_session(*at))
            .collect();
        let files = self.archive.files()?.into_iter();
        let files: Vec<Fields> = files
            .map(|(name, bytes)| fields! { "name": name, "bytes": bytes })
            .collect();
        let text = |part: &Part| {
            let bytes = self.find(*part).ok()?.0;
            Some(String::from_utf8_lossy(&bytes).into_owned())
        };
        let texts: BTreeMap<String, Option<String>> = parts
            .iter()
            .map(|part| (self.name(*part), text(part)))
            .collect();
        Ok(self.read.json().and(fields! {
            "session": self.session.kept.number,
            "attempt": self.attempt.id.attempt,
            "attempts": self.session.kept.attempts.len(),
            "events": events,
            "prompt_sha256": self.attempt.prompt,
            "survey": self.session.kept.survey,
            "traces": self.attempt.ended.as_ref().map(|ended| &ended.traces),
            "dir": self.archive.dir(),
            "files": files,
            "texts": texts,
        }))
    }
}

fn last_seen(traces: &Traces, work_dir: &str) -> Vec<Line> {
    let mut lines = Vec::new();
    if let Some(edit) = &traces.last_edit {
        let edit = one_line(&edit.replace(work_dir, ""));
        let line = Line::labelled("edited", Tone::Plain, edit);
        lines.push(line.with(Tone::Quiet, ", last"));
    }
    if let Some(words) = &traces.last_words {
        lines.push(Line::labelled("said", Tone::Plain, one_line(words)));
    }
    lines
}
