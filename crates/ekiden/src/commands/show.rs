//! `ekiden show N`: what a session saw, said and left.

use std::path::PathBuf;

use clap::Args;
use ekiden_core::event::{Survey, Traces};
use ekiden_core::handoff::HandoffFile;
use ekiden_core::hash::sha256_hex;
use ekiden_core::ids::{AttemptNumber, RunId, SessionNumber};
use ekiden_core::prompt::Notes;
use ekiden_core::relay::HANDOFF_DIR;
use ekiden_engine::EngineError;
use ekiden_engine::kept::{Kept, Part};
use ekiden_engine::workspace::Workspace;
use jiff::tz::TimeZone;
use serde::Serialize;

use super::{Scene, Told, asked_run, run_ids};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::account::{Attempt, Session};
use crate::output::line::{Line, Tone, one_line};
use crate::output::lines::Telling;
use crate::output::news::News;
use crate::output::{Output, phrase, retell};
use crate::settings::flags::{Asking, Typed};

const EXAMPLES: &str = "\
Examples:
  ekiden show 3                   session 3 of the newest run here
  ekiden show 3 7f3a --prompt     what it was given, in the run whose id begins so
  ekiden show 3 --events          what it said and did, line by line
  ekiden show 3 --next-prompt     what it left for session 4
  ekiden show 3 --json --verify   for programs
";

/// The version of the JSON form.
const JSON_VERSION: u32 = 1;

/// Show what a session saw, said and left
///
/// Without a part, an overview. A text that came from an agent or a tool is printed byte for byte, but
/// on a terminal without control sequences. Texts of the handoff are in the log too, so they can be
/// shown after the archive is gone.
#[derive(Args)]
#[command(before_help = EXAMPLES)]
pub struct ShowArgs {
    /// The session's number
    #[arg(value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    session: u32,
    /// The beginning of the run's id [default: the newest run here]
    #[arg(value_name = "RUN")]
    run: Option<String>,
    /// The stage, where the run is a plan
    #[arg(long, value_name = "ID")]
    stage: Option<String>,
    /// What the agent was given
    #[arg(long)]
    prompt: bool,
    /// Its `PROGRESS.md`
    #[arg(long)]
    progress: bool,
    /// Its `NEXT_PROMPT.md`, or the rescue handoff in its place
    #[arg(long)]
    next_prompt: bool,
    /// Its `KNOWLEDGE.md`: what it added
    #[arg(long)]
    knowledge: bool,
    /// What it said and did, a line for each; with --json the agent's own event stream
    #[arg(long)]
    events: bool,
    /// The output of the verification after it
    #[arg(long)]
    verify: bool,
    /// Prompt and handoff of this attempt [default: the last]
    #[arg(long, value_name = "K", value_parser = clap::value_parser!(u32).range(1..))]
    attempt: Option<u32>,
    #[command(flatten)]
    typed: Typed<Asking>,
}

/// Runs the command.
///
/// # Errors
///
/// If there is no such run, session, attempt or part.
pub fn show(args: &ShowArgs, output: &mut Output) -> Result<Exit, Failure> {
    let scene = Scene::set(args.typed.flags())?;
    let workspace = scene.workspace()?;
    let json = scene.json()?;
    let run = asked_run(&workspace, args.run.as_deref(), output)?;
    let told = Told::read(&workspace, &run, args.stage.as_deref())?;
    let session = told.session(args.session)?;
    let scene = Showing {
        kept: Kept::of(&workspace, &run, told.stage.as_ref(), session.number),
        attempt: attempt(session, args.attempt)?,
        session,
        told: &told,
    };
    let parts = args.parts();
    match (json, parts.as_slice()) {
        (true, [Part::Events]) => scene.raw_events(output)?,
        (true, parts) => scene.json(&run, parts, output)?,
        (false, []) => scene.overview(&workspace, args.run.as_deref(), output)?,
        (false, [part]) => scene.print(*part, output)?,
        (false, parts) => {
            for part in parts {
                output.line(&Line::new(Tone::Quiet, format!("── {} ──", scene.name(*part))));
                scene.print(*part, output)?;
            }
        }
    }
    Ok(Exit::Done)
}

impl ShowArgs {
    fn parts(&self) -> Vec<Part> {
        let chosen = [
            (self.prompt, Part::Prompt),
            (self.progress, Part::Handoff(HandoffFile::Progress)),
            (self.next_prompt, Part::Handoff(HandoffFile::NextPrompt)),
            (self.knowledge, Part::Handoff(HandoffFile::Knowledge)),
            (self.events, Part::Events),
            (self.verify, Part::Verify),
        ];
        chosen.into_iter().filter(|(wanted, _)| *wanted).map(|(_, part)| part).collect()
    }
}

/// The attempt that was asked for, or the last.
fn attempt(session: &Session, asked: Option<u32>) -> Result<&Attempt, Failure> {
    let found = match asked {
        Some(asked) => session.attempts.iter().find(|attempt| attempt.number.get() == asked),
        None => session.attempts.last(),
    };
    found.ok_or_else(|| {
        let had = phrase::count(session.attempts.len() as u64, "attempt");
        let what = format!("session {} had {had}, so there is nothing to show of another", session.number);
        Failure::new(Exit::MissingInput, what)
    })
}

/// A session, and where everything of it is found.
struct Showing<'a> {
    told: &'a Told,
    session: &'a Session,
    attempt: &'a Attempt,
    kept: Kept,
}

/// A text, and what must be said about it.
struct Found {
    bytes: Vec<u8>,
    note: Option<String>,
}

impl Showing<'_> {
    fn name(&self, part: Part) -> String {
        self.kept.name(part, self.number())
    }

    fn number(&self) -> AttemptNumber {
        self.attempt.number
    }

    fn print(&self, part: Part, output: &mut Output) -> Result<(), Failure> {
        if part == Part::Events {
            return self.retell(output);
        }
        let found = self.find(part)?;
        if let Some(note) = &found.note {
            output.warn(note);
        }
        output.foreign(&found.bytes);
        Ok(())
    }

    fn retell(&self, output: &mut Output) -> Result<(), Failure> {
        let stream = self.kept.reader(Part::Events, self.number(), 0).map_err(EngineError::from)?;
        let stream = stream.ok_or_else(|| self.missing(Part::Events))?;
        retell::retell(stream, |line| output.line(&line))
            .map_err(|error| Failure::caused(Exit::State, "cannot read the event stream", &error))
    }

    fn raw_events(&self, output: &mut Output) -> Result<(), Failure> {
        let events = self.kept.read(Part::Events, self.number()).map_err(EngineError::from)?;
        output.foreign(&events.ok_or_else(|| self.missing(Part::Events))?);
        Ok(())
    }

    /// A part from the archive, else what the log has of it.
    fn find(&self, part: Part) -> Result<Found, Failure> {
        let kept = self.kept.read(part, self.number()).map_err(EngineError::from)?;
        if let Some(bytes) = kept {
            let differs = part == Part::Prompt && sha256_hex(&bytes) != self.attempt.prompt;
            let note = "this is not what the agent was given: the file was changed since (its hash differs)";
            return Ok(Found { bytes, note: differs.then(|| note.to_owned()) });
        }
        let (text, note) = self.in_log(part).ok_or_else(|| self.missing(part))?;
        Ok(Found { bytes: text.into_bytes(), note: Some(note) })
    }

    fn in_log(&self, part: Part) -> Option<(String, String)> {
        let name = self.name(part);
        let of_log = format!("{name} is no longer in the archive; this is from the log");
        match part {
            Part::Handoff(file) => {
                let left = self.attempt.left.as_ref();
                let text = left.and_then(|left| left.files.get(file).text()).map(str::to_owned);
                let rescue = || match (&self.session.notes, file) {
                    (Some(Notes::Rescue { text }), HandoffFile::NextPrompt) => Some((
                        text.clone(),
                        "the session left no handoff that could be used; ekiden wrote this".to_owned(),
                    )),
                    (_, _) => None,
                };
                text.map(|text| (text, of_log)).or_else(rescue)
            }
            Part::Verify if self.session.check().is_some() => {
                let note = format!("{name} is no longer in the archive; this is the end of it, from the log");
                Some((self.session.check_tail.clone(), note))
            }
            Part::Prompt | Part::Events | Part::Verify => None,
        }
    }

    /// Why a part is not there, as far as it can be known.
    fn missing(&self, part: Part) -> Failure {
        let (number, name) = (self.session.number, self.name(part));
        let removed = || format!("{name} is not in the archive any more: {}", phrase::path(self.kept.dir()));
        let why = match part {
            Part::Handoff(_) if self.attempt.left.is_none() => {
                format!("attempt {} of session {number} has not handed off", self.number())
            }
            Part::Handoff(_) => format!("session {number} left no {name}"),
            Part::Verify if self.session.check().is_none() => {
                format!("no verification ran after session {number}")
            }
            Part::Prompt | Part::Events | Part::Verify => removed(),
        };
        let failure = Failure::new(Exit::MissingInput, why);
        failure.hint(format!("`ekiden show {number}` shows what there is"))
    }

    fn overview(
        &self,
        workspace: &Workspace,
        asked: Option<&str>,
        output: &mut Output,
    ) -> Result<(), Failure> {
        let zone = TimeZone::system();
        let day = phrase::day_and_time(self.session.began(), &zone);
        let head = format!("session {} of run {}", self.session.number, self.told.id);
        output.line(&Line::new(Tone::Plain, head).with(Tone::Quiet, format!(" · {day}")));
        let telling = Telling::of(&self.told.run, &run_ids(workspace)?, zone);
        for (at, news) in self.session.told.iter().skip(1) {
            telling.lines(*at, news).iter().for_each(|line| output.line(line));
        }
        if self.session.is_open() {
            output.line(&Line::labelled(
                "",
                Tone::Attention,
                "its last attempt has not ended, as far as the log knows",
            ));
        }
        self.facts().iter().for_each(|line| output.line(line));
        let number = self.session.number;
        let more = format!(
            "ekiden show {number}{} --prompt | --events | --progress | --next-prompt | --knowledge | --verify",
            self.told.named(asked)
        );
        output.line(&Line::labelled("more", Tone::Quiet, more));
        output.line(&Line::labelled(
            "",
            Tone::Quiet,
            format!("ekiden diff {number}{}", self.told.named(asked)),
        ));
        Ok(())
    }

    fn facts(&self) -> Vec<Line> {
        let mut lines = Vec::new();
        if let Some(survey) = &self.session.survey {
            let commits = phrase::count(survey.commits.len() as u64, "commit");
            let open = phrase::files(survey.status.len());
            lines.push(Line::labelled(
                "tree",
                Tone::Plain,
                format!("{commits}, {open} not committed at its end"),
            ));
        }
        if let Some(left) = &self.attempt.left {
            let work_dir = format!("{}/", self.told.run.header().place.work_dir);
            lines.extend(last_seen(&left.traces, &work_dir));
        }
        let files = match self.kept.files() {
            Ok(files) if files.is_empty() => "nothing; the archive of this session is gone".to_owned(),
            Ok(files) => {
                let sized =
                    |(name, bytes): &(String, u64)| format!("{} {}", one_line(name), phrase::bytes(*bytes));
                files.iter().map(sized).collect::<Vec<_>>().join(", ")
            }
            Err(error) => format!("unknown: cannot {}", crate::failure::chain(&error)),
        };
        lines.push(Line::labelled("kept", Tone::Plain, files));
        lines.push(Line::labelled("in", Tone::Quiet, phrase::path(self.kept.dir())));
        lines
    }

    fn json(&self, run: &RunId, parts: &[Part], output: &mut Output) -> Result<(), Failure> {
        let story =
            self.session.told.iter().map(|(at, news)| Happened { time: phrase::utc(*at), news }).collect();
        let files = self.kept.files().map_err(EngineError::from)?;
        let mut texts = std::collections::BTreeMap::new();
        for part in parts {
            let found = match part {
                Part::Events => self.kept.read(*part, self.number()).map_err(EngineError::from)?,
                Part::Prompt | Part::Handoff(_) | Part::Verify => {
                    self.find(*part).ok().map(|found| found.bytes)
                }
            };
            texts.insert(self.name(*part), found.map(|bytes| String::from_utf8_lossy(&bytes).into_owned()));
        }
        output.json(&Answer {
            v: JSON_VERSION,
            run,
            session: self.session.number,
            attempt: self.number(),
            attempts: self.session.attempts.len(),
            story,
            prompt_sha256: &self.attempt.prompt,
            survey: self.session.survey.as_ref(),
            traces: self.attempt.left.as_ref().map(|left| &left.traces),
            dir: self.kept.dir().to_owned(),
            kept: files.into_iter().map(|(name, bytes)| KeptFile { name, bytes }).collect(),
            texts,
        });
        Ok(())
    }
}

fn last_seen(traces: &Traces, work_dir: &str) -> Vec<Line> {
    let mut lines = Vec::new();
    let edit = traces.last_edit.as_ref().map(|edit| edit.replace(work_dir, ""));
    // That a session wrote its handoff last is nothing to tell.
    if let Some(edit) = edit.filter(|edit| !edit.contains(HANDOFF_DIR)) {
        lines.push(Line::labelled("edited", Tone::Plain, one_line(&edit)).with(Tone::Quiet, ", last"));
    }
    if let Some(words) = &traces.last_words {
        lines.push(Line::labelled("said", Tone::Plain, one_line(words)));
    }
    lines
}

/// The answer for programs.
#[derive(Serialize)]
struct Answer<'a> {
    v: u32,
    run: &'a RunId,
    session: SessionNumber,
    attempt: AttemptNumber,
    attempts: usize,
    story: Vec<Happened<'a>>,
    prompt_sha256: &'a str,
    survey: Option<&'a Survey>,
    traces: Option<&'a Traces>,
    dir: PathBuf,
    kept: Vec<KeptFile>,
    /// The parts that were asked for; nothing where there is none.
    texts: std::collections::BTreeMap<String, Option<String>>,
}

/// One piece of news.
#[derive(Serialize)]
struct Happened<'a> {
    time: String,
    #[serde(flatten)]
    news: &'a News,
}

/// A file of the archive.
#[derive(Serialize)]
struct KeptFile {
    name: String,
    bytes: u64,
}
