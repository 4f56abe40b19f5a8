//! Planning sessions as a command holds them: what is asked, what is made of the answers, what is written.
//!
//! ```text
//! idea ─► architecture session ─► architecture.md ─► manifest session ─► plan.json ─► shown
//!           asked again once                           asked again twice
//! ```
//!
//! What a session answers is input from a stranger. The document is looked at as a file, the manifest read
//! as any manifest, and nothing that either says has run when they are written.

use std::io::Read as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use ekiden_agent::attempt::{Activity, Answer};
use ekiden_core::bounds::{Bounds, OnRateLimit};
use ekiden_core::ends::{EndCause, EndClass};
use ekiden_core::ids::SessionNumber;
use ekiden_core::limits;
use ekiden_core::manifest::{Fault, Planned, Refused, planned, planned_schema};
use ekiden_core::prompt::{self, DocumentFault, PromptBlocks};
use ekiden_core::relay::WaitCause;
use ekiden_core::settings::{AgentKind, AgentSpec, Interface};
use ekiden_core::time::Millis;
use ekiden_engine::EngineError;
use ekiden_engine::clock::{Clock, SystemClock};
use ekiden_engine::planning::{Planner, PlanningEnd, PlanningSession, Review, Reviewer};
use ekiden_store::disk::RealDisk;
use ekiden_store::replace::{Durability, replace};
use jiff::tz::TimeZone;

use super::read::faulty;
use super::stopped::stopped;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::line::{Line, Tone};
use crate::output::waits::Wait;
use crate::output::{Output, aloud, phrase};

/// The most that is read of a document, in bytes.
const DOCUMENT_BYTES_MAX: u64 = 4 * 1024 * 1024;
/// How often a manifest with faults is sent back.
const MENDS_MAX: u32 = 2;
/// The name under which an answer is kept that is no manifest.
const REFUSED: &str = "refused.json";

/// Plans in one work dir.
pub struct Author<'a> {
    /// The right to do so.
    pub planner: Planner,
    /// Who does it.
    pub agent: AgentSpec,
    /// What a session may use.
    pub bounds: Bounds,
    /// Who watches.
    pub voice: Voice<'a>,
    /// Sessions held so far.
    pub session: SessionNumber,
    /// How long usage limits are waited for, all together.
    pub wait_max: Millis,
    /// How long they were so far.
    pub waited: Millis,
}

/// Tells what happens in a planning session.
pub struct Voice<'a> {
    /// Where to.
    pub output: &'a mut Output,
    /// What the agent says and does is told as well.
    pub aloud: bool,
    /// Nothing but the answer is told.
    pub json: bool,
}

/// An agent that cannot plan is refused before anything is created.
///
/// # Errors
///
/// If it is such an agent.
pub fn check_planner(agent: &AgentSpec) -> Result<(), Failure> {
    let refuse = |text: String, hint: &str| Err(Failure::new(Exit::Settings, text).hint(hint));
    match (agent.kind, agent.interface) {
        (AgentKind::Exec, _) => refuse(
            format!("agent `{}` cannot plan: it gives no answer that could be held to a form", agent.name),
            "name another with `--agent`, or write the manifest yourself (docs/manifests.md)",
        ),
        (AgentKind::Claude | AgentKind::Rehearsal, Interface::Terminal) => {
            refuse("planning has no interface of the agent to show".to_owned(), "leave out `--tui`")
        }
        (AgentKind::Claude | AgentKind::Rehearsal, Interface::Headless) => Ok(()),
    }
}

impl Author<'_> {
    /// Has the document written to `path`, which `name` is from the work dir.
    ///
    /// # Errors
    ///
    /// If the session does not come to its end, or there is no document after it.
    pub fn architecture(&mut self, idea: &str, name: &str, path: &Path) -> Result<(), Failure> {
        self.begins(&format!("writes {name}"));
        let before = stamp(path);
        let blocks = prompt::architecture_prompt(idea, name);
        let fault = loop {
            let session = self.session(blocks.clone(), None, path);
            let mut review = OfDocument { path, before, asked: false, fault: None, voice: &mut self.voice };
            let end = self.planner.hold(session, &mut review)?;
            let fault = review.fault;
            if self.is_over(end)? {
                break fault;
            }
        };
        match fault {
            None => Ok(()),
            Some(fault) => {
                let text = format!("there is no plan: the document {} {}", phrase::path(path), fault.told());
                Err(Failure::new(Exit::Unfinished, text)
                    .hint("`--verbose` shows what the agent does; its permissions may keep it from writing"))
            }
        }
    }

    /// Has a document split; `named` is the document as the manifest names it, if it can.
    ///
    /// # Errors
    ///
    /// If the session does not come to its end, or what it answered last has faults.
    pub fn manifest(&mut self, path: &Path, named: Option<&str>) -> Result<Planned, Failure> {
        let document = document(path)?;
        let shown = phrase::path(path);
        self.begins(&format!("splits {} into stages", named.unwrap_or(&shown)));
        let room = limits::STAGE_SESSION_TOKENS_DEFAULT;
        let blocks = prompt::split_prompt(&document, named.unwrap_or(&shown), room);
        let last = loop {
            let session = self.session(blocks.clone(), Some(planned_schema().to_string()), path);
            let mut review = OfManifest { architecture: named, asked: 0, last: None, voice: &mut self.voice };
            let end = self.planner.hold(session, &mut review)?;
            let last = review.last;
            if self.is_over(end)? {
                break last;
            }
        };
        match last {
            Some(Ok(planned)) => Ok(planned),
            Some(Err(refused)) => Err(self.refused(&refused)?),
            None => Err(Failure::new(Exit::Unfinished, "the agent ended without an answer")),
        }
    }

    fn session<'a>(
        &mut self,
        prompt: PromptBlocks,
        schema: Option<String>,
        document: &'a Path,
    ) -> PlanningSession<'a> {
        let number = self.session;
        self.session = number.next();
        PlanningSession {
            number,
            agent: self.agent.clone(),
            writes: schema.is_none(),
            prompt,
            schema,
            document,
            bounds: self.bounds.clone(),
        }
    }

    fn begins(&mut self, what: &str) {
        if !self.voice.json {
            let line = Line::new(Tone::Plain, format!("session {}", self.session));
            self.voice.output.line(&line.with(Tone::Quiet, format!(" · {what}")));
        }
    }

    /// The conversation came to its end; else it is to be held anew, after a wait.
    fn is_over(&mut self, end: PlanningEnd) -> Result<bool, Failure> {
        self.voice.output.erase();
        match end {
            PlanningEnd::Reviewed => Ok(true),
            PlanningEnd::Ended(cause) => self.waits(&cause).map(|()| false),
            PlanningEnd::Stopped { signal } => Err(was_stopped(signal)),
        }
    }

    /// Waits as a run would, where a run would.
    fn waits(&mut self, cause: &EndCause) -> Result<(), Failure> {
        let now = SystemClock.now();
        let length = cause.wait(now, self.waited);
        let is_limit = matches!(cause, EndCause::RateLimited { .. });
        let waits = cause.class() == EndClass::Wait
            && !(is_limit && self.bounds.on_rate_limit == OnRateLimit::Stop)
            && self.waited.0.saturating_add(length.0) <= self.wait_max.0;
        if !waits {
            return Err(stopped(cause));
        }
        self.waited.0 += length.0;
        let (until, next) = (now + length, (self.session.get(), 1));
        let why = if is_limit { WaitCause::UsageLimit } else { WaitCause::Failure };
        let lines = Wait { until, why, cause: Some(cause), next }.lines(now, &TimeZone::system());
        // What else is told holds for runs, which can be resumed.
        if let Some(line) = lines.first().filter(|_| !self.voice.json) {
            self.voice.output.line(line);
        }
        self.planner.wait_until(until).map_or(Ok(()), |signal| Err(was_stopped(signal)))
    }

    fn refused(&self, refused: &Refused) -> Result<Failure, EngineError> {
        let kept = self.planner.keep(REFUSED, &refused.text)?;
        Ok(faulty(&kept, &refused.faults)
            .hint("that was the agent's last answer; mended by hand, `ekiden execute FILE` takes it"))
    }
}

fn was_stopped(signal: i32) -> Failure {
    Failure::new(Exit::Signal(signal), "planning was stopped; nothing of it goes on")
}

impl Voice<'_> {
    fn tells(&mut self, activity: &Activity) {
        if let Activity::Warning(text) = activity {
            self.output.warn(text);
        }
        if self.json {
            return;
        }
        let lines = aloud::lines(activity);
        match (self.aloud, activity, lines.first()) {
            (true, ..) => lines.iter().for_each(|line| self.output.line(line)),
            (false, Activity::Tool { .. }, Some(call)) => self.output.draw(call),
            (false, ..) => {}
        }
    }
}

/// Looks at the document after each turn.
struct OfDocument<'a, 'o> {
    path: &'a Path,
    /// The file that stood there before.
    before: Option<Stamp>,
    asked: bool,
    fault: Option<DocumentFault>,
    voice: &'a mut Voice<'o>,
}

impl Reviewer for OfDocument<'_, '_> {
    fn review(&mut self, _answer: Answer) -> Review {
        // What stood there before is nobody's answer.
        let found = if stamp(self.path) == self.before { None } else { content(self.path) };
        self.fault = DocumentFault::of(found.as_deref());
        match self.fault {
            Some(fault) if !std::mem::replace(&mut self.asked, true) => {
                Review::Ask(prompt::mend_document(fault))
            }
            Some(_) | None => Review::Over,
        }
    }

    fn activity(&mut self, activity: &Activity) {
        self.voice.tells(activity);
    }
}

/// Reads the manifest after each turn.
struct OfManifest<'a, 'o> {
    architecture: Option<&'a str>,
    asked: u32,
    last: Option<Result<Planned, Refused>>,
    voice: &'a mut Voice<'o>,
}

impl Reviewer for OfManifest<'_, '_> {
    fn review(&mut self, answer: Answer) -> Review {
        let read = read(&answer, self.architecture);
        let mend = read.as_ref().err().map(|refused| prompt::mend_manifest(&refused.told()));
        self.last = Some(read);
        match mend {
            Some(mend) if self.asked < MENDS_MAX => {
                self.asked += 1;
                Review::Ask(mend)
            }
            Some(_) | None => Review::Over,
        }
    }

    fn activity(&mut self, activity: &Activity) {
        self.voice.tells(activity);
    }
}

/// What the agent held to the schema counts; else what stands in its words.
fn read(answer: &Answer, architecture: Option<&str>) -> Result<Planned, Refused> {
    let said = answer.structured.as_deref().or_else(|| prompt::extract_json(&answer.words));
    match said {
        Some(said) => planned(said, architecture),
        None => {
            let faults = Fault::new(None, &prompt::no_manifest()).into();
            Err(Refused { text: answer.words.clone(), faults })
        }
    }
}

/// By what a file that was written anew differs from the one before, though it may read the same: its
/// number, and when it was changed.
type Stamp = (u64, i64, i64);

fn stamp(path: &Path) -> Option<Stamp> {
    let found = path.symlink_metadata().ok()?;
    Some((found.ino(), found.ctime(), found.ctime_nsec()))
}

/// What a file holds, its beginning if it is very long; nothing if there is no file, or a link.
fn content(path: &Path) -> Option<Vec<u8>> {
    path.symlink_metadata().ok().filter(std::fs::Metadata::is_file)?;
    let mut bytes = Vec::new();
    std::fs::File::open(path).ok()?.take(DOCUMENT_BYTES_MAX).read_to_end(&mut bytes).ok()?;
    Some(bytes)
}

/// A document that cannot be split is told before anything is created.
///
/// # Errors
///
/// If it is not there, or no text.
pub fn check_document(path: &Path) -> Result<(), Failure> {
    document(path).map(drop)
}

/// The document to split.
fn document(path: &Path) -> Result<String, Failure> {
    let what = format!("cannot read the document {}", phrase::path(path));
    let size = path.metadata().map_err(|error| Failure::caused(Exit::MissingInput, &what, &error))?;
    if size.is_dir() {
        return Err(Failure::new(Exit::MissingInput, format!("{what}: it is a directory")));
    }
    if size.len() > DOCUMENT_BYTES_MAX {
        return Err(Failure::new(Exit::InvalidInput, format!("{what}: it is over 4 MiB")));
    }
    let bytes = std::fs::read(path).map_err(|error| Failure::caused(Exit::MissingInput, &what, &error))?;
    let text = String::from_utf8(bytes)
        .map_err(|_| Failure::new(Exit::InvalidInput, format!("{what}: it is not UTF-8 text")))?;
    if text.trim().is_empty() {
        return Err(Failure::new(Exit::InvalidInput, format!("{what}: it is empty")));
    }
    Ok(text)
}

/// Nothing that exists is written over, unless that was asked for.
///
/// # Errors
///
/// If one of the files exists.
pub fn refuse_existing(paths: &[&PathBuf], force: bool) -> Result<(), Failure> {
    let exists = |path: &&&PathBuf| path.symlink_metadata().is_ok();
    match paths.iter().find(exists).filter(|_| !force) {
        None => Ok(()),
        Some(path) => Err(Failure::new(Exit::Settings, format!("{} exists already", phrase::path(path)))
            .hint("it was left as it is; `--force` writes over it, `--output` names another manifest")),
    }
}

/// Writes the manifest.
///
/// # Errors
///
/// If the disk refuses.
pub fn write(work_dir: &Path, path: &Path, text: &str) -> Result<(), Failure> {
    let disk = RealDisk::fenced(work_dir);
    replace(&disk, path, text.as_bytes(), Durability::Full).map_err(|error| EngineError::from(error).into())
}
