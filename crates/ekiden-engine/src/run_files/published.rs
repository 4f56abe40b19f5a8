//! The published files: written for people and agents, and left alone when somebody else has changed them.

use std::path::{Path, PathBuf};

use ekiden_core::event::Check;
use ekiden_core::handoff::{FileText, HandoffFile, NotText, OpenItems};
use ekiden_core::ids::{SessionNumber, StageId};
use ekiden_core::plan::{StageEnd, StageState};
use ekiden_core::relay::Relay;
use ekiden_core::run::Run;
use ekiden_store::archive::make_dir;
use ekiden_store::disk::{DiskResult, Kind, parent};
use ekiden_store::error::StoreError;
use ekiden_store::handoff::{keep, make_private, move_out};
use ekiden_store::layout::{Published, TASK_FILE};
use ekiden_store::published::restore_places;
use ekiden_store::ralph;
use ekiden_store::replace::{Durability, replace};

use super::RunFiles;
use crate::journal::Journal;
use crate::survey;

/// A published file that somebody has changed or removed.
#[derive(Debug)]
pub(crate) struct Touched {
    /// None means the task.
    pub(crate) file: Option<HandoffFile>,
    /// What is there instead.
    pub(crate) text: FileText,
    path: PathBuf,
}

impl Touched {
    pub(crate) fn name(&self) -> &'static str {
        self.file.map_or(TASK_FILE, HandoffFile::name)
    }
}

impl RunFiles {
    /// Writes the published files of a relay where they differ from its state, and restores directories that an
    /// agent may have removed. `durably`: the run rests, so what the agent left is made private too.
    pub fn publish(&self, relay: &Relay, durably: bool) -> Result<(), StoreError> {
        let published = self.published(relay);
        restore_places(&*self.disk, &published)?;
        for (file, text) in published_texts(relay) {
            let path = place(&published, file);
            let durability = match durably && file.is_some() {
                true => Durability::Full,
                false => Durability::Derived,
            };
            // A file with the right content may still be only in the cache.
            if durability == Durability::Full || !self.reads(&path, &text) {
                replace(&*self.disk, &path, text.as_bytes(), durability)?;
            }
        }
        if !durably {
            return Ok(());
        }
        make_private(&*self.disk, &published.handoff())?;
        // The directory itself may be new.
        Ok(self.disk.sync_dir(&published.work_dir)?)
    }

    /// Writes the state of a relay's list, if it has one, and the prompt that goes with it. Other programs write these
    /// files too, so a damaged one must not keep the others from being published.
    pub(crate) fn publish_list(&self, relay: &Relay) -> Result<(), StoreError> {
        let Some(list) = &relay.items else {
            return Ok(());
        };
        let dir = &self.paths.workspace.dir;
        let changed = ralph::change(&*self.disk, &Published::new(dir), |state| {
            state.take(&list.history, list.checkpoint());
            // What a loop counted before the run may be done, and gone from the list.
            state.open_items.clear();
            if relay.seen.check.as_ref().is_some_and(Check::passed) {
                state.unverified = None;
            }
            for file in &mut state.context_checkpoint.files_in_progress {
                let path = Path::new(&file.path).strip_prefix(dir);
                file.path =
                    path.map_or_else(|_| file.path.clone(), |path| path.display().to_string());
            }
            state.measure_item(&ralph::list(&*self.disk, dir));
        });
        Ok(ralph::regenerate_prompt(
            &*self.disk,
            dir,
            &changed?,
            relay.settings.memory.tools,
        )?)
    }

    /// The published files that somebody has changed or removed. Links are followed: what a link leads to is
    /// what somebody put there.
    pub(crate) fn touched(&self, relay: &Relay) -> Vec<Touched> {
        let published = self.published(relay);
        let texts = published_texts(relay).into_iter();
        texts
            .filter_map(|(file, ours)| self.difference(&published, file, &ours))
            .collect()
    }

    fn difference(
        &self,
        published: &Published,
        file: Option<HandoffFile>,
        ours: &str,
    ) -> Option<Touched> {
        let path = place(published, file);
        let read = self.disk.read(&path, super::TEXT_BYTES_MAX);
        let text = match read.map(String::from_utf8) {
            Ok(Ok(text)) if text == ours => return None,
            Ok(Ok(text)) => FileText::Text(text),
            Err(error) if error.is_not_found() => FileText::Absent,
            Ok(Err(_)) | Err(_) => FileText::NotText(NotText::Binary),
        };
        Some(Touched { file, text, path })
    }

    /// Copies whatever is in place of published files beside the session in which it was found, before it is
    /// overwritten (RUN-12).
    pub(crate) fn keep_touched(
        &self,
        stage: &StageId,
        session: SessionNumber,
        touched: &[Touched],
    ) -> DiskResult<()> {
        let left = self.paths.relay(stage).session(session).left();
        touched
            .iter()
            .try_for_each(|touched| self.keep_one(&left, touched).map(drop))
    }

    /// What somebody has written over the published knowledge since we wrote or read it, and publishing overwrites.
    pub(crate) fn overwritten(&mut self, relay: &Relay) -> Option<Touched> {
        let (published, file) = (self.published(relay), HandoffFile::Knowledge);
        let ours = relay.knowledge.render();
        let before = self.knowledge.insert(published.file(file), ours)?;
        self.difference(&published, Some(file), &before)
    }

    /// The published knowledge is this text of a person.
    pub(crate) fn took_edit(&mut self, stage: &StageId, text: &str) {
        let path = self.paths.published(stage).file(HandoffFile::Knowledge);
        self.knowledge.insert(path, text.to_owned());
    }

    /// Copies an edit beside the session before which it was found. Returns the copy if there was none yet.
    pub(crate) fn keep_edit(&self, relay: &Relay, edit: &Touched) -> DiskResult<Option<PathBuf>> {
        let relays = self.paths.relay(&relay.stage.id);
        self.keep_one(&relays.session(relay.session()).left(), edit)
    }

    /// Copies what was in the published places before this run's first session: another run's files, including
    /// a person's changes since, or anybody's files (RUN-12).
    pub fn keep_found(&self, run: &Run) -> DiskResult<()> {
        let is_new = |relay: &Relay| relay.last.is_none() && !relay.has_started();
        for (stage, relay) in run.live().filter(|(_, relay)| is_new(relay)) {
            let left = self.paths.relay(stage).left();
            for found in self.touched(relay) {
                // The task of another run is in its log.
                if found.file.is_some() {
                    self.keep_one(&left, &found)?;
                }
            }
        }
        Ok(())
    }

    /// An empty file is not kept: a power cut turns our own files into such files.
    fn keep_one(
        &self,
        left: &Path,
        Touched { text, path, .. }: &Touched,
    ) -> DiskResult<Option<PathBuf>> {
        let is_empty = text
            .text()
            .is_some_and(|text| text.trim_matches(['\0', '\n', ' ']).is_empty());
        // A directory cannot be copied like this; it is moved aside when the file is published. So is a link to none.
        let aside = match self.disk.stat(path)?.map(|found| found.kind) {
            Some(Kind::Dir | Kind::Other) => true,
            Some(Kind::Link) => self.disk.reader(path, 0).is_err(),
            Some(Kind::File) | None => false,
        };
        if *text == FileText::Absent || is_empty || aside {
            return Ok(None);
        }
        if matches!(text, FileText::TooLarge { .. }) {
            return move_out(&*self.disk, path, left).map(|()| None);
        }
        keep(&*self.disk, path, left)
    }

    /// What a person wrote into the published knowledge while no session ran. A difference can be a person's
    /// doing only if the file is known to have been written durably.
    pub(crate) fn edited_knowledge(&self, journal: &Journal) -> Vec<(StageId, Touched)> {
        if journal.is_publishing() {
            return Vec::new();
        }
        let run = journal.run();
        run.relays()
            .filter(|(stage, relay)| relay.is_idle() && run.takes_edits(stage))
            .filter_map(|(stage, relay)| {
                let (published, file) = (self.published(relay), Some(HandoffFile::Knowledge));
                let edit = self.difference(&published, file, &relay.knowledge.render())?;
                (edit.text != FileText::Absent).then(|| (stage.clone(), edit))
            })
            .collect()
    }

    /// Lists of items that a person changed while no session ran.
    pub(crate) fn edited_lists(&self, run: &Run) -> Vec<(StageId, OpenItems)> {
        let edited = |(stage, relay): (&StageId, &Relay)| {
            let mut list = relay.items.clone().filter(|_| relay.takes_items())?;
            let items = survey::items(&self.paths.dir(stage))?;
            list.edit(&items).then(|| (stage.clone(), items))
        };
        run.relays().filter_map(edited).collect()
    }

    /// Writes the result, or the failure, of each stage of a plan that is over, and the knowledge of all of them.
    /// Derived from state; the next engine writes it again.
    pub fn write_results(&mut self, run: &Run) -> DiskResult<()> {
        if run.header().manifest.plan.is_none() {
            return Ok(());
        }
        for (stage, state) in run.plan().states() {
            let StageState::Over(end) = state else {
                continue;
            };
            if *end == StageEnd::Done && !self.results.insert(stage.clone()) {
                continue;
            }
            let tree = self.paths.dir(stage).display().to_string();
            let result = run.result(stage).map(|result| result.text.clone());
            let Some(text) = result.or_else(|| run.diagnosis(stage, &tree)) else {
                continue;
            };
            self.write_result(&self.result_path(stage), &text)?;
            self.write_result(&self.paths.shown_result(stage), &text)?;
        }
        if self.paths.integration_tree().is_some() {
            return self.write_shared_knowledge(&run.shared_knowledge().render());
        }
        Ok(())
    }

    /// Writes what all stages share. If anybody has changed what we wrote there, that is kept beside the run.
    fn write_shared_knowledge(&mut self, text: &str) -> DiskResult<()> {
        let published = self.paths.workspace.published();
        let path = published.file(HandoffFile::Knowledge);
        let before = self.knowledge.insert(path, text.to_owned());
        if let Some(found) = self.difference(&published, Some(HandoffFile::Knowledge), text) {
            if before.is_none() || found.text.text() != before.as_deref() {
                self.keep_one(&self.paths.run_dir.relay(None).left(), &found)?;
            }
            replace(
                &*self.disk,
                &found.path,
                text.as_bytes(),
                Durability::Derived,
            )?;
        }
        Ok(())
    }

    /// Writes what stages on other machines left.
    pub(super) fn write_earlier(&self, run: &Run) -> DiskResult<()> {
        let before = run.header().before.iter();
        for earlier in before.flat_map(|before| &before.results) {
            self.write_result(&self.result_path(&earlier.stage), &earlier.text)?;
        }
        Ok(())
    }

    fn write_result(&self, path: &Path, text: &str) -> DiskResult<()> {
        make_dir(&*self.disk, parent(path))?;
        if self.reads(path, text) {
            return Ok(());
        }
        replace(&*self.disk, path, text.as_bytes(), Durability::Derived)
    }

    pub fn result_path(&self, stage: &StageId) -> PathBuf {
        self.paths.relay(stage).result()
    }

    fn published(&self, relay: &Relay) -> Published {
        self.paths.published(&relay.stage.id)
    }
}

/// The texts of a relay that are published; the one without a file is the task.
fn published_texts(relay: &Relay) -> [(Option<HandoffFile>, String); 4] {
    let notes = relay.last.as_ref().map(|last| &last.notes);
    let (progress, next_prompt) = notes.map_or(("", ""), |notes| {
        (notes.progress.as_str(), notes.next_prompt.as_str())
    });
    [
        (Some(HandoffFile::Progress), ended_by_newline(progress)),
        (Some(HandoffFile::NextPrompt), ended_by_newline(next_prompt)),
        (Some(HandoffFile::Knowledge), relay.knowledge.render()),
        (None, relay.stage.task.clone()),
    ]
}

/// Where a published text is; the one without a file is the task.
fn place(published: &Published, file: Option<HandoffFile>) -> PathBuf {
    file.map_or(published.task(), |file| published.file(file))
}

/// A text file ends with a newline, also if the agent's did not.
fn ended_by_newline(text: &str) -> String {
    let is_ended = text.is_empty() || text.ends_with('\n');
    text.to_owned() + if is_ended { "" } else { "\n" }
}
