//! What the engine does with files beside the log: texts in, texts out.
//!
//! Archived files are truth that a person can read, and durable. Published files are derived from
//! state: they are written again whenever an engine starts, so most of them need no sync.

mod ends;
mod start;
mod texts;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ekiden_core::budget::Prices;
use ekiden_core::event::{Counters, Traces};
use ekiden_core::guard::{GuardView, HookInput, Level, Profile, ToolUse};
use ekiden_core::handoff::{FileText, HandoffFile, HandoffFiles};
use ekiden_core::ids::{AttemptId, AttemptNumber, MessageId, SessionNumber, StageId};
use ekiden_core::relay::{Phase, Relay};
use ekiden_core::run::Run;
use ekiden_core::settings::AgentKind;
use ekiden_core::steering::Steering;
use ekiden_core::time::Timestamp;
use ekiden_store::disk::{Disk, DiskResult, Kind};
use ekiden_store::handoff::{keep, make_private, read_handoff};
use ekiden_store::inbox::{Inbox, Received, Scan};
use ekiden_store::layout::{Published, SessionLayout};
use ekiden_store::published::restore_places;
use ekiden_store::replace::{Durability, replace};
use ekiden_store::status::{Status, StatusError, StatusFile};

use crate::archive_job::ArchiveJob;
use crate::journal::Journal;
use crate::places::Places;
use crate::status::status;
use texts::published_texts;

/// The most that is read of a text that somebody else may have written.
pub(crate) const TEXT_BYTES_MAX: u64 = 16 * 1024 * 1024;

/// The engine's place to read and write.
#[derive(Debug, Clone)]
pub struct Desk {
    disk: Arc<dyn Disk>,
    places: Places,
    status: StatusFile,
    /// The standing text of each stage that has begun.
    protocols: BTreeMap<StageId, String>,
    /// The stages whose ends were written down.
    ends: BTreeSet<StageId>,
    /// The session that was prepared last: where stages share a work dir, what it left is still there.
    session_before: Option<SessionLayout>,
    /// What `status.json` says, as far as we wrote it.
    told: Option<Status>,
}

impl Desk {
    /// A desk for one run.
    ///
    /// # Errors
    ///
    /// If `status.json` was written by a newer program.
    pub fn new(disk: Arc<dyn Disk>, places: Places) -> Result<Self, StatusError> {
        let status = StatusFile::open(&*disk, Published::new(&places.workspace().dir).status())?;
        let (protocols, ends) = (BTreeMap::new(), BTreeSet::new());
        Ok(Self { disk, places, status, protocols, ends, session_before: None, told: None })
    }

    /// Where each stage works.
    #[must_use]
    pub fn places(&self) -> &Places {
        &self.places
    }

    /// Puts back what only an agent can have changed while a session ran: the directories that are
    /// published, and the task in them.
    ///
    /// # Errors
    ///
    /// If the disk refuses.
    pub fn restore(&self, relay: &Relay) -> DiskResult<()> {
        let (published, task) = (self.published(relay), &relay.stage().task);
        restore_places(&*self.disk, &published)?;
        if self.reads(&published.task(), task) {
            return Ok(());
        }
        replace(&*self.disk, &published.task(), task.as_bytes(), Durability::Derived)
    }

    fn published(&self, relay: &Relay) -> Published {
        self.places.published(&relay.stage().id)
    }

    /// Writes `status.json` if there is something new to say. Always whole, so that a reader never
    /// finds half of it.
    ///
    /// # Errors
    ///
    /// If the disk refuses.
    pub fn tell_status(&mut self, run: &Run, at: Timestamp) -> Result<(), StatusError> {
        let status = status(run, at);
        let same = |told: &Status| Status { updated_at: at, ..told.clone() } == status;
        if self.told.as_ref().is_some_and(same) {
            return Ok(());
        }
        self.status.write(&*self.disk, &status)?;
        self.told = Some(status);
        Ok(())
    }

    /// Writes the published files of a relay where they differ from its state. Durably, it is also made
    /// sure that nobody else can read what the agent left: the run rests.
    ///
    /// # Errors
    ///
    /// If the disk refuses.
    pub fn publish(&self, relay: &Relay, durably: bool) -> DiskResult<()> {
        let published = self.published(relay);
        let durability = if durably { Durability::Full } else { Durability::Derived };
        for (file, text) in published_texts(relay) {
            let path = published.file(file);
            // What reads right may still be in the cache only.
            if durably || !self.reads(&path, &text) {
                replace(&*self.disk, &path, text.as_bytes(), durability)?;
            }
        }
        let (path, task) = (published.task(), &relay.stage().task);
        if !self.reads(&path, task) {
            replace(&*self.disk, &path, task.as_bytes(), Durability::Derived)?;
        }
        if !durably {
            return Ok(());
        }
        make_private(&*self.disk, &published.handoff())?;
        // The directory itself may be new.
        self.disk.sync_dir(published.work_dir())
    }

    /// The published files that somebody has changed or removed, as they are.
    #[must_use]
    pub fn touched(&self, relay: &Relay) -> Vec<(HandoffFile, FileText)> {
        let published = self.published(relay);
        published_texts(relay)
            .into_iter()
            .filter_map(|(file, text)| Some((file, self.other_than(&published.file(file), &text)?)))
            .collect()
    }

    /// The same of the task.
    #[must_use]
    pub fn touched_task(&self, relay: &Relay) -> Option<FileText> {
        self.other_than(&self.published(relay).task(), &relay.stage().task)
    }

    /// What stands there, if it is not this text. A link is followed: what it leads to is what somebody
    /// put there.
    fn other_than(&self, path: &Path, ours: &str) -> Option<FileText> {
        let found = match self.disk.read(path, TEXT_BYTES_MAX).map(String::from_utf8) {
            Ok(Ok(text)) => FileText::Text(text),
            Err(error) if error.is_not_found() => FileText::Absent,
            Ok(Err(_)) | Err(_) => FileText::NotText,
        };
        (found.text() != Some(ours)).then_some(found)
    }

    /// Keeps what stands in place of published files and is not ours, before it is overwritten, beside
    /// the session in which it was found (RUN-12).
    ///
    /// # Errors
    ///
    /// If the disk refuses.
    pub fn keep_touched(
        &self,
        stage: &StageId,
        session: SessionNumber,
        touched: &[(HandoffFile, FileText)],
        task: Option<&FileText>,
    ) -> DiskResult<()> {
        let (left, published) =
            (self.places.relay(stage).session(session).left(), self.places.published(stage));
        if let Some(task) = task {
            self.keep_one(&left, &published.task(), task)?;
        }
        self.keep_in(&left, &published, touched)
    }

    /// Keeps what stood in the published places before this run's first session: another run's files,
    /// with what a person has changed in them since, or anybody's (RUN-12).
    ///
    /// # Errors
    ///
    /// If the disk refuses.
    pub fn keep_found(&self, run: &Run) -> DiskResult<()> {
        let untouched = |relay: &Relay| relay.last().is_none() && !relay.has_started();
        for (stage, relay) in run.live().filter(|(_, relay)| untouched(relay)) {
            self.keep_in(&self.places.relay(stage).left(), &self.published(relay), &self.touched(relay))?;
        }
        Ok(())
    }

    fn keep_in(
        &self,
        left: &Path,
        published: &Published,
        touched: &[(HandoffFile, FileText)],
    ) -> DiskResult<()> {
        touched.iter().try_for_each(|(file, text)| self.keep_one(left, &published.file(*file), text))
    }

    /// What says nothing is not kept: a power cut makes such files of ours.
    fn keep_one(&self, left: &Path, path: &Path, text: &FileText) -> DiskResult<()> {
        let says_nothing = text.text().is_some_and(|text| text.trim_matches(['\0', '\n', ' ']).is_empty());
        // A directory cannot be copied so; it is moved aside when the file is published.
        let aside = matches!(self.disk.stat(path)?.map(|found| found.kind), Some(Kind::Dir | Kind::Other));
        if *text != FileText::Absent && !says_nothing && !aside {
            keep(&*self.disk, path, left)?;
        }
        Ok(())
    }

    /// What a person wrote into the published knowledge while no session ran. Only where the file is
    /// known to have been written durably can a difference be a person's doing.
    #[must_use]
    pub fn edited_knowledge(&self, journal: &Journal) -> Vec<(StageId, String)> {
        let idle = |relay: &Relay| {
            matches!(relay.phase(), Phase::Waiting { .. } | Phase::Paused { .. } | Phase::Ended { .. })
        };
        if journal.is_publishing() {
            return Vec::new();
        }
        let run = journal.run();
        run.relays()
            .filter(|(stage, relay)| idle(relay) && run.takes_edits(stage))
            .filter_map(|(stage, relay)| {
                let text = self.read_text(&self.published(relay).file(HandoffFile::Knowledge))?;
                (text != relay.knowledge().render()).then(|| (stage.clone(), text))
            })
            .collect()
    }

    /// What lies in the inbox and is not known.
    ///
    /// # Errors
    ///
    /// If the disk refuses.
    pub fn messages(&self, is_known: impl Fn(&MessageId) -> bool) -> DiskResult<Scan<Steering>> {
        Inbox::new(self.places.run().inbox()).scan(&*self.disk, is_known)
    }

    /// Removes a message that is in the log.
    ///
    /// # Errors
    ///
    /// If the disk refuses. The message comes again and is known.
    pub fn remove_message(&self, received: &Received<Steering>) -> DiskResult<()> {
        Inbox::new(self.places.run().inbox()).remove(&*self.disk, received)
    }

    /// The handoff directory as it stands. What cannot be read is as good as absent: the agent is
    /// asked for it.
    #[must_use]
    pub fn handoff_files(&self, stage: &StageId) -> HandoffFiles {
        read_handoff(&*self.disk, &self.places.published(stage).handoff()).unwrap_or_default()
    }

    /// What an attempt left in the handoff directory, to be archived.
    #[must_use]
    pub fn archive_job(&self, stage: &StageId, attempt: AttemptId, files: &HandoffFiles) -> ArchiveJob {
        let layout = self.places.relay(stage).session(attempt.session);
        let named = |file: HandoffFile| {
            let path = layout.handoff(file);
            let name = path.file_name()?.to_str()?;
            Some((of_attempt(name, attempt.attempt), files.get(file).text()?.to_owned()))
        };
        let files = HandoffFile::ALL.into_iter().filter_map(named).collect();
        ArchiveJob { dir: layout.dir().to_owned(), files }
    }

    /// Keeps the output of a verification beside the session. Derived from nothing and decides
    /// nothing, so it is not synced.
    ///
    /// # Errors
    ///
    /// If the disk refuses.
    pub fn keep_output(&self, stage: &StageId, session: SessionNumber, output: &str) -> DiskResult<()> {
        let layout = self.places.relay(stage).session(session);
        if self.disk.stat(layout.dir())?.is_none() {
            return Ok(());
        }
        replace(&*self.disk, &layout.verify_log(), output.as_bytes(), Durability::Derived)
    }

    /// What the saved event stream tells of an attempt whose engine died.
    #[must_use]
    pub fn traces_of(&self, run: &Run, stage: &StageId, attempt: AttemptId) -> (Traces, Counters, bool) {
        let agent = run.relay(stage).map_or(&run.header().settings.agent, Relay::agent);
        let kind = agent.kind;
        let events = self.places.relay(stage).session(attempt.session).events();
        let saved = self.disk.reader(&events, 0).ok().and_then(|stream| saved(stream, kind, run.prices()));
        saved.unwrap_or_default()
    }

    /// Where the agent may write and where it may not.
    #[must_use]
    pub fn guard_view(&self, stage: &StageId) -> GuardView {
        let (published, workspace) = (self.places.published(stage), self.places.workspace());
        GuardView {
            profile: Profile::Relay,
            level: Level::L0,
            handoff_dir: published.handoff(),
            engine_dirs: vec![published.dir(), workspace.published.clone(), workspace.state_dir.clone()],
            missing: String::new(),
        }
    }

    /// The same question with symbolic links resolved, so that no link leads past the guard.
    #[must_use]
    pub fn resolve_input(&self, input: &HookInput) -> HookInput {
        resolve_input(&*self.disk, input)
    }

    fn reads(&self, path: &Path, text: &str) -> bool {
        self.disk.read(path, text.len() as u64).is_ok_and(|bytes| bytes == text.as_bytes())
    }

    fn read_text(&self, path: &Path) -> Option<String> {
        String::from_utf8(self.disk.read(path, TEXT_BYTES_MAX).ok()?).ok()
    }
}

/// The same question with symbolic links resolved.
pub(crate) fn resolve_input(disk: &dyn Disk, input: &HookInput) -> HookInput {
    let HookInput::PreTool { tool, subagent } = input else { return input.clone() };
    let tool = match tool {
        ToolUse::Read(path) => ToolUse::Read(resolve(disk, path)),
        ToolUse::Write(path) => ToolUse::Write(resolve(disk, path)),
        ToolUse::Shell(_) | ToolUse::Schedule | ToolUse::Handoff | ToolUse::Other => tool.clone(),
    };
    HookInput::PreTool { tool, subagent: *subagent }
}

/// Resolves the part of a path that exists; what would be created keeps its name.
fn resolve(disk: &dyn Disk, path: &Path) -> PathBuf {
    if let Ok(resolved) = disk.resolve(path) {
        return resolved;
    }
    match (path.parent(), path.file_name()) {
        (Some(parent), Some(name)) => resolve(disk, parent).join(name),
        (Some(_) | None, _) => path.to_owned(),
    }
}

/// A file's name for one attempt: the first has the plain name, `prompt.md`, later ones theirs,
/// `prompt.2.md`.
pub(crate) fn of_attempt(name: &str, attempt: AttemptNumber) -> String {
    match name.split_once('.') {
        Some((stem, ending)) if attempt > AttemptNumber::FIRST => format!("{stem}.{attempt}.{ending}"),
        Some(_) | None => name.to_owned(),
    }
}

fn saved(stream: impl std::io::Read, kind: AgentKind, prices: Prices) -> Option<(Traces, Counters, bool)> {
    let ended = match kind {
        AgentKind::Claude | AgentKind::Rehearsal => {
            ekiden_agent::stream::from_saved_stream(stream, kind, prices).ok()?
        }
        AgentKind::Exec => return None,
    };
    Some((ended.traces, ended.counters, ended.resumable))
}
