//! Planning sessions for the commands: what they are asked, how their answers are judged, what is written.
//!
//! ```text
//! idea ─► architecture session ─► architecture.md ─► manifest session ─► plan.json ─► shown
//!           asked again once                           asked again twice
//! ```
//!
//! No answer is trusted. The document is read as a file, the manifest like any manifest, and no command
//! from either has run by the time they are written.

use std::ffi::OsStr;
use std::io::Read as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use ekiden_agent::attempt::{Activity, Answer};
use ekiden_core::agent::{AgentKind, AgentSpec};
use ekiden_core::bounds::OnRateLimit;
use ekiden_core::ends::{EndCause, EndClass};
use ekiden_core::ids::StageId;
use ekiden_core::limits;
use ekiden_core::outcome::WaitCause;
use ekiden_core::prompt::{self, DocumentFault, PromptBlocks, Question};
use ekiden_core::shard::{self, Shards};
use ekiden_core::time::Millis;
use ekiden_engine::EngineError;
use ekiden_engine::clock::{Clock, SystemClock};
use ekiden_engine::observer::Observer;
use ekiden_engine::planning::{Planner, PlanningEnd, PlanningSession};
use ekiden_manifest::{Fault, Refused, planned, planned_schema};
use ekiden_store::disk::RealDisk;
use ekiden_store::replace::{Durability, replace};
use jiff::tz::TimeZone;

use super::read::faulty;
use super::stopped::stopped;
use crate::commands::task::refuse_endless;
use crate::exit::Exit;
use crate::failure::{Failure, OrFail as _};
use crate::output::line::{Line, Tone};
use crate::output::shown_work_dir::ShownWorkDir;
use crate::output::waits::Wait;
use crate::output::{Output, activity, phrase};

/// How much of a document is read, in bytes.
const DOCUMENT_BYTES_MAX: u64 = 4 * 1024 * 1024;
/// How often a faulty document is sent back.
const DOCUMENT_MENDS_MAX: u32 = 1;
/// How often a faulty manifest is sent back.
const MANIFEST_MENDS_MAX: u32 = 2;
/// The name of the file with an answer that is not a valid manifest.
const REFUSED: &str = "refused.json";

/// Plans in one work dir.
pub struct Author<'a> {
    pub planner: Planner,
    pub on_rate_limit: OnRateLimit,
    pub voice: Voice<'a>,
    /// How long to wait for usage limits, in total.
    pub wait_max: Millis,
    pub waited: Millis,
}

/// Shows what happens in a planning session.
pub struct Voice<'a> {
    pub output: &'a mut Output,
    /// Also show what the agent says and does.
    pub verbose: bool,
    /// Print only the answer.
    pub json: bool,
}

/// Refuses an agent that cannot plan, before anything is created.
pub fn check_planner(agent: &AgentSpec) -> Result<(), Failure> {
    match agent.kind {
        AgentKind::Exec | AgentKind::Acp | AgentKind::Codex => {
            let name = &agent.name;
            let text = format!(
                "agent `{name}` cannot plan: its answers cannot be checked against a schema"
            );
            let hint =
                "name another with `--agent`, or write the manifest yourself (docs/manifests.md)";
            Err(Failure::new(Exit::Settings, text).hint(hint))
        }
        AgentKind::Claude | AgentKind::Rehearsal => Ok(()),
    }
}

impl Author<'_> {
    /// Has the document written to `path`, which is `name` from the work dir.
    pub fn architecture(&mut self, idea: &str, name: &str, path: &Path) -> Result<(), Failure> {
        self.document(prompt::architecture_prompt(idea, name), name, path)
    }

    /// Has a document written to `path`, which is `name` from the work dir.
    pub fn document(
        &mut self,
        prompt: PromptBlocks,
        name: &str,
        path: &Path,
    ) -> Result<(), Failure> {
        self.begins(&format!("writes {name}"));
        let before = stamp(path);
        let session = PlanningSession {
            prompt,
            schema: None,
            document: path,
        };
        let mut fault = None;
        self.hold(&session, DOCUMENT_MENDS_MAX, &mut |_| {
            // A file that existed before is not the agent's.
            let is_new = stamp(path) != before;
            let found = is_new.then(|| content(path)).flatten();
            fault = DocumentFault::of(found.as_deref());
            fault.map(prompt::mend_document)
        })?;
        match fault {
            None => Ok(()),
            Some(fault) => {
                let text = format!("the document {} {}", phrase::path(path), fault.text());
                Err(Failure::new(Exit::Unfinished, text)
                    .hint("`--verbose` shows what the agent does; its permissions may keep it from writing"))
            }
        }
    }

    /// Has a document split into the text of a manifest; `named` is the document as the manifest names it,
    /// if it can.
    pub fn manifest(&mut self, path: &Path, named: Option<&str>) -> Result<String, Failure> {
        let document = document(path)?;
        let shown = phrase::path(path);
        self.begins(&format!("splits {} into stages", named.unwrap_or(&shown)));
        let room = limits::STAGE_SESSION_TOKENS_DEFAULT;
        let session = PlanningSession {
            prompt: prompt::split_prompt(&document, named.unwrap_or(&shown), room),
            schema: Some(planned_schema().to_string()),
            document: path,
        };
        let mut last = None;
        self.hold(&session, MANIFEST_MENDS_MAX, &mut |answer| {
            let read = read(&answer, named);
            let faults = read.as_ref().err().map(Refused::without_lines);
            // Words without a manifest do not take the place of a faulty one, which a person can repair.
            if last.is_none() || said(&answer).is_some() {
                last = Some(read);
            }
            faults.as_deref().map(prompt::mend_manifest)
        })?;
        match last {
            Some(Ok(text)) => Ok(text),
            Some(Err(refused)) => {
                let kept = self.planner.keep(REFUSED, &refused.text)?;
                Err(faulty(&kept, &refused.faults).hint(
                    "that was the agent's last manifest; fix it by hand, then run it with `ekiden execute FILE`",
                ))
            }
            None => Err(Failure::new(
                Exit::Unfinished,
                "the agent ended without an answer",
            )),
        }
    }

    /// The agent's questions about a task before it starts. The session may read `file`, and writes
    /// nothing.
    pub fn questions(&mut self, task: &str, file: &Path) -> Result<Vec<Question>, Failure> {
        self.begins("reads the task and the project, and asks");
        let session = PlanningSession {
            prompt: prompt::questions_prompt(task),
            schema: Some(prompt::QUESTIONS_SCHEMA.to_owned()),
            document: file,
        };
        let mut asked = None;
        self.hold(&session, 0, &mut |answer| {
            asked = said(&answer).and_then(prompt::questions);
            None
        })?;
        asked.ok_or_else(|| Failure::new(Exit::Unfinished, "the agent's questions cannot be read"))
    }

    /// Has the agent name the parts of a document and their needs. If no answer is right, they stay as they
    /// are, and the error's text says so.
    pub fn shards(
        &mut self,
        shards: &mut Shards,
        text: &str,
        file: &Path,
    ) -> Result<Option<String>, Failure> {
        let name = phrase::path(file);
        self.begins(&format!("names the parts of {name}"));
        let session = PlanningSession {
            prompt: prompt::shards_prompt(text, &shards.table(), &name),
            schema: Some(shard::SCHEMA.to_owned()),
            document: file,
        };
        let mut fault = Some(prompt::NO_MANIFEST.to_owned());
        self.hold(&session, MANIFEST_MENDS_MAX, &mut |answer| {
            fault = match said(&answer) {
                Some(said) => shards.refine(said).err(),
                None => Some(prompt::NO_MANIFEST.to_owned()),
            };
            let faults = fault.clone()?;
            Some(prompt::mend_manifest(&[faults]))
        })?;
        Ok(fault)
    }

    fn begins(&mut self, what: &str) {
        if !self.voice.json {
            let session = self.planner.session;
            let line = Line::new(Tone::Plain, format!("session {session}"));
            self.voice
                .output
                .line(line.with(Tone::Quiet, format!(" · {what}")));
        }
    }

    fn tell_cost(&mut self) {
        let (spend, subscription) = self.planner.spent();
        let spent = phrase::spent(spend, subscription, self.planner.budget());
        if let Some(spent) = spent.filter(|_| !self.voice.json) {
            let line = Line::labelled("cost", Tone::Quiet, format!("{spent} so far"));
            self.voice.output.line(line);
        }
    }

    /// Runs a session until `fault` finds nothing wrong with an answer, or has sent it back `mends_max`
    /// times. After a usage limit the session starts again.
    fn hold(
        &mut self,
        session: &PlanningSession<'_>,
        mends_max: u32,
        fault: &mut dyn FnMut(Answer) -> Option<String>,
    ) -> Result<(), Failure> {
        loop {
            let mut sent_back = 0;
            let mut review = |answer| {
                let mend = fault(answer)?;
                sent_back += 1;
                (sent_back <= mends_max).then_some(mend)
            };
            let end = self.planner.hold(session, &mut review, &mut self.voice)?;
            self.voice.output.erase();
            self.tell_cost();
            match end {
                PlanningEnd::Reviewed => return Ok(()),
                PlanningEnd::Ended(cause) => self.waits(&cause)?,
                PlanningEnd::Stopped { signal } => return Err(was_stopped(signal)),
            }
        }
    }

    /// Waits as a run would wait.
    fn waits(&mut self, cause: &EndCause) -> Result<(), Failure> {
        let now = SystemClock.now();
        let length = cause.wait(now, self.waited);
        let is_limit = cause.is_limit();
        let waits = cause.class() == EndClass::Wait
            && !(is_limit && self.on_rate_limit == OnRateLimit::Stop)
            && self.waited.0.saturating_add(length.0) <= self.wait_max.0;
        if !waits {
            return Err(stopped(cause));
        }
        self.waited.0 += length.0;
        let (until, next) = (now + length, (self.planner.session.get(), 1));
        let why = if is_limit {
            WaitCause::UsageLimit
        } else {
            WaitCause::Failure
        };
        let lines = Wait {
            until,
            why,
            cause: Some(cause),
            next,
        }
        .lines(now, &TimeZone::system(), &ShownWorkDir::default());
        // The other lines are about runs, which can be resumed.
        if let Some(line) = lines.first().filter(|_| !self.voice.json) {
            self.voice.output.line(line);
        }
        self.planner
            .wait_until((!is_limit).then_some(now), until)
            .map_or(Ok(()), |signal| Err(was_stopped(signal)))
    }
}

fn was_stopped(signal: i32) -> Failure {
    Failure::new(
        Exit::Signal(signal),
        "planning was stopped; nothing of it is left running",
    )
}

impl Observer for Voice<'_> {
    fn activity(&mut self, _stage: &StageId, activity: &Activity) {
        if let Activity::Warning(text) = activity {
            self.output.warn(text);
        }
        if self.json {
            return;
        }
        let lines = activity::lines(activity);
        if self.verbose {
            lines.iter().for_each(|line| self.output.line(line));
        } else if let (Activity::Tool { .. }, Some(call)) = (activity, lines.first()) {
            self.output.draw(std::slice::from_ref(call));
        }
    }
}

/// The answer that the agent gave by the schema, otherwise the JSON in its text.
fn said(answer: &Answer) -> Option<&str> {
    let structured = answer.structured.as_deref();
    structured.or_else(|| prompt::extract_json(&answer.words))
}

fn read(answer: &Answer, architecture: Option<&str>) -> Result<String, Refused> {
    match said(answer) {
        Some(said) => planned(said, architecture),
        None => {
            let faults = Fault::new(None, prompt::NO_MANIFEST).into();
            Err(Refused {
                text: answer.words.clone(),
                faults,
            })
        }
    }
}

/// Changes if a file was rewritten, even with the same contents: its inode, and when it was changed.
type Stamp = (u64, i64, i64);

fn stamp(path: &Path) -> Option<Stamp> {
    let found = path.symlink_metadata().ok()?;
    Some((found.ino(), found.ctime(), found.ctime_nsec()))
}

/// The start of a file; `None` if there is no file, or it is a link.
fn content(path: &Path) -> Option<Vec<u8>> {
    path.symlink_metadata()
        .ok()
        .filter(std::fs::Metadata::is_file)?;
    let mut bytes = Vec::new();
    std::fs::File::open(path)
        .ok()?
        .take(DOCUMENT_BYTES_MAX)
        .read_to_end(&mut bytes)
        .ok()?;
    Some(bytes)
}

/// The document to split; refuses one that cannot be split.
pub fn document(path: &Path) -> Result<String, Failure> {
    let what = format!("cannot read the document {}", phrase::path(path));
    refuse_endless(&what, path, "name a file")?;
    let file = std::fs::File::open(path).or_fail(Exit::MissingInput, &what)?;
    let mut bytes = Vec::new();
    let mut limited = file.take(DOCUMENT_BYTES_MAX + 1);
    limited
        .read_to_end(&mut bytes)
        .or_fail(Exit::MissingInput, &what)?;
    if bytes.len() as u64 > DOCUMENT_BYTES_MAX {
        return Err(Failure::new(
            Exit::InvalidInput,
            format!("{what}: it is over 4 MiB"),
        ));
    }
    let text = String::from_utf8(bytes)
        .map_err(|_| Failure::new(Exit::InvalidInput, format!("{what}: it is not UTF-8 text")))?;
    if text.trim().is_empty() {
        return Err(Failure::new(
            Exit::InvalidInput,
            format!("{what}: it is empty"),
        ));
    }
    Ok(text)
}

/// Refuses to overwrite an existing file unless asked to, and what can never be written: a link, a directory.
pub fn refuse_existing(paths: &[&PathBuf], force: bool) -> Result<(), Failure> {
    let exists = |path: &&&PathBuf| path.symlink_metadata().is_ok();
    let is_in_the_way =
        |path: &&&PathBuf| path.is_symlink() || path.is_dir() || !force && exists(path);
    let Some(path) = paths.iter().find(is_in_the_way) else {
        return Ok(());
    };
    let shown = phrase::path(path);
    let (text, remedy) = if path.is_symlink() {
        (
            format!("{shown} is a link, and ekiden does not write through links"),
            "remove it",
        )
    } else if path.is_dir() {
        (format!("{shown} is a directory"), "move it away")
    } else {
        (
            format!("{shown} exists already"),
            "`--force` writes over it",
        )
    };
    Err(Failure::new(Exit::State, text).hint(format!("it was left as it is; {remedy}")))
}

/// The same for a manifest, which may go elsewhere.
pub fn refuse_existing_manifest(paths: &[&PathBuf], force: bool) -> Result<(), Failure> {
    refuse_existing(paths, force)
        .map_err(|failure| failure.hint("`--output` names another manifest"))
}

/// Refuses a manifest with an ending of another syntax: `ekiden execute` reads a file by its ending.
pub fn refuse_ending(manifest: &Path, others: &[&str], ours: &str) -> Result<(), Failure> {
    let ending = manifest.extension().map(OsStr::to_ascii_lowercase);
    if !others
        .iter()
        .any(|other| ending.as_deref() == Some(OsStr::new(other)))
    {
        return Ok(());
    }
    let [path, other] = [manifest, &manifest.with_extension(ours)].map(phrase::path);
    let text = format!(
        "cannot write {path}: the manifest is {}",
        ours.to_uppercase()
    );
    Err(Failure::new(Exit::Usage, text).hint(format!("name it {other}")))
}

pub fn write(work_dir: &Path, path: &Path, text: &str) -> Result<(), Failure> {
    let disk = RealDisk::fenced(work_dir);
    replace(&disk, path, text.as_bytes(), Durability::Full)
        .map_err(|error| EngineError::from(error).into())
}
