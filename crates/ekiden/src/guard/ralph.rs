//! A loop that a person runs with `claude -p`: the state of its iterations, and the prompt of the next one.
//!
//! A loop exists where `ralph-state.json` is. Each session is an iteration. Nobody is there to end a
//! session that hands off at L2, so the guard ends it once its document is written; the prompt then says
//! where the next one resumes.
//!
//! Several processes of a session may write at once, and the last one counts. That is the end of the
//! session, which reads everything again from its log, its document and its transcript.

use std::fs::File;
use std::path::Path;

use ekiden_core::guard::checkpoint::CheckpointReason;
use ekiden_core::guard::document::KeyPoints;
use ekiden_core::guard::watch::{Trigger, Watch};
use ekiden_core::guard::{Level, Reading};
use ekiden_core::handoff::open_items;
use ekiden_core::memory::MemoryTools;
use ekiden_core::observation::watched::iteration;
use ekiden_core::ralph::{
    Checkpoint, FileInProgress, PROGRESS_FILE, PROMPT_FILE, RalphState, commit_subject,
};
use ekiden_core::relay::ITEMS_FILE;
use ekiden_store::disk::RealDisk;
use ekiden_store::error::StoreError;
use ekiden_store::layout::Published;
use ekiden_store::ralph;
use ekiden_wire::recall::Recall;

use super::Watched;
use crate::client::guard::look;
use crate::memory::has_claude_mem;
use crate::tracker::LoopInIssue;

/// How many files are named as in progress.
const FILES_MAX: usize = 5;

/// The message for a person who watches the loop's output.
pub(super) const ENDED: &str =
    "ekiden: the handoff is written; the loop goes on with a fresh session.";
/// How the client identifies itself to its children: `cli` in its own interface, where a person decides
/// when to continue, and `sdk-` something without an interface.
pub(super) const ENTRYPOINT: &str = "CLAUDE_CODE_ENTRYPOINT";

impl Watched {
    /// Whether this project runs a loop.
    pub fn is_loop(&self) -> bool {
        self.published().ralph_state().is_file()
    }

    pub fn loop_state(&self) -> Result<Option<RalphState>, StoreError> {
        ralph::state(&self.disk(), &self.published())
    }

    /// Follows a session of a loop: how full it was, and at its end, or when a document is written, how the
    /// next one continues. Returns whether the session should end now.
    pub(super) fn follow_loop(
        &self,
        trigger: &Trigger,
        watch: &Watch,
        reading: Option<&Reading>,
    ) -> bool {
        if !self.is_loop() || self.session.is_empty() {
            return false;
        }
        let ends = matches!(trigger, Trigger::Stops { .. } | Trigger::Ends);
        let (mut number, mut changed) = (0, None);
        let noted = ralph::change(&self.disk(), &self.published(), |state| {
            let iteration = state.iteration_of(&self.session);
            let percent = reading.map(Reading::percent);
            iteration.peak_percent = iteration.peak_percent.max(percent);
            number = iteration.iteration;
            let before = state.context_checkpoint.clone();
            if ends {
                self.end_iteration(state, watch, reading);
            }
            changed = (state.context_checkpoint != before).then_some(number);
        });
        if let Some(state) = self.or_complain(noted).filter(|_| ends) {
            self.or_complain(self.regenerate_prompt(&state));
            let left = &state.context_checkpoint;
            // As long as the session lives it may still leave one.
            let told = match left.active {
                true => changed,
                false => matches!(trigger, Trigger::Ends).then_some(number),
            };
            self.remember(|from| {
                let made = told.and_then(|number| iteration(from, self.now, number, left));
                made.into_iter().collect()
            });
        }
        let is_attended = self.environment.variable(ENTRYPOINT) == Some("cli");
        matches!(trigger, Trigger::AfterBatch(_)) && !is_attended && watch.is_handed_off(self.now)
    }

    /// The same as soon as a document is written, no matter who asked for it.
    pub(super) fn checkpoint_loop(&self, reading: Option<&Reading>) {
        let trigger = Trigger::Stops { background: true };
        self.follow_loop(&trigger, &self.watch(), reading);
    }

    /// The title of a checkpoint's commit in a loop.
    pub fn loop_subject(&self, reason: CheckpointReason, percent: Option<u64>) -> Option<String> {
        let mut state = self.loop_state().ok()??;
        let iteration = state.iteration_of(&self.session).iteration;
        Some(commit_subject(iteration, level_of(reason), percent))
    }

    /// The iteration at work, and the conversation by which an issue knows its loop.
    pub(super) fn loop_in_issue(&self) -> Option<LoopInIssue> {
        if !self.is_loop() || self.session.is_empty() {
            return None;
        }
        let mut place = None;
        let noted = ralph::change(&self.disk(), &self.published(), |state| {
            let iteration = state.iteration_of(&self.session).iteration;
            let first = state
                .reported_session
                .get_or_insert_with(|| self.session.clone());
            place = Some(LoopInIssue {
                iteration,
                session: first.clone(),
            });
        });
        self.or_complain(noted)?;
        place
    }

    /// Only the plugin sets the guard up here.
    pub(super) fn is_by_plugin(&self) -> bool {
        let (files, _) = look(&self.environment, &self.place.dir);
        let in_settings = files.iter().any(|file| !file.survey.programs().is_empty());
        !in_settings && files.iter().any(|file| file.survey.plugin)
    }

    fn regenerate_prompt(&self, state: &RalphState) -> Result<(), StoreError> {
        let tools = match has_claude_mem(&self.environment) {
            true => Some(MemoryTools::ClaudeMem),
            false => self.memory.as_ref().map(|_| match self.is_by_plugin() {
                true => MemoryTools::Plugin,
                false => MemoryTools::Own,
            }),
        };
        let dir = &self.place.dir;
        Ok(ralph::regenerate_prompt(&self.disk(), dir, state, tools)?)
    }

    /// An iteration that left a document is resumed from it; without a document there is nothing to resume.
    fn end_iteration(&self, state: &mut RalphState, watch: &Watch, reading: Option<&Reading>) {
        let list = ralph::list(&self.disk(), &self.place.dir);
        let last = watch.last.as_ref().filter(|last| !last.outdated);
        state.iteration_of(&self.session).checkpoint |= last.is_some();
        let Some(last) = last else {
            state.context_checkpoint.active = false;
            return;
        };
        let taken = &last.taken;
        let percent = reading.filter(|_| taken.used_tokens > 0);
        let document = std::fs::read_to_string(self.place.dir.join(&taken.document));
        let points = KeyPoints::of(&document.unwrap_or_default());
        state.context_checkpoint = Checkpoint {
            active: true,
            level: level_of(taken.reason),
            percent_at_checkpoint: percent.map(|reading| reading.window.percent(taken.used_tokens)),
            timestamp: Some(last.at.rfc3339()),
            handoff_file: Some(taken.document.clone()),
            resume_summary: points.next_steps.first().cloned(),
            files_in_progress: self.files_in_progress(&taken.modified_files),
            current_todo_item: open_items(&list).open.first().cloned(),
            progress_on_item: None,
        };
        state.measure_item(&list);
    }

    /// The file of the last edit, with its lines, and what else is not committed.
    fn files_in_progress(&self, modified: &[String]) -> Vec<FileInProgress> {
        let recall = File::open(&self.transcript).ok();
        let recall = recall.and_then(|mut file| Recall::of(&mut file).ok());
        let edit = recall.and_then(|recall| FileInProgress::of_edit(recall.last_edit()?));
        let edit = edit.map(|edit| FileInProgress {
            path: self.shown(Path::new(&edit.path)),
            ..edit
        });
        let own = [PROMPT_FILE, ITEMS_FILE, PROGRESS_FILE];
        let is_edit = |path: &str| edit.as_ref().is_some_and(|edit| edit.path == path);
        let other = |path: &&String| !is_edit(path) && !own.contains(&path.as_str());
        let others = modified.iter().filter(other).map(|path| FileInProgress {
            path: path.clone(),
            lines: None,
        });
        let others: Vec<_> = others.collect();
        edit.into_iter().chain(others).take(FILES_MAX).collect()
    }

    fn disk(&self) -> RealDisk {
        RealDisk::fenced(&self.place.dir)
    }

    fn published(&self) -> Published {
        Published::new(&self.place.dir)
    }
}

fn level_of(reason: CheckpointReason) -> Option<Level> {
    match reason {
        CheckpointReason::Level2 | CheckpointReason::Trajectory => Some(Level::L2),
        CheckpointReason::Level3 => Some(Level::L3),
        CheckpointReason::Compaction | CheckpointReason::Manual => None,
    }
}
