//! The engine's files beside the log.
//!
//! Archived files are durable and let a person read the past. Published files are derived from state: an engine
//! rewrites them at every start, so most of them need no sync.
//!
//! `attempt` prepares an attempt, `published` writes what people and agents read.

mod attempt;
mod published;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ekiden_agent::leads_to::leads_to_by;
use ekiden_core::agent::AgentKind;
use ekiden_core::ends::EndCause;
use ekiden_core::event::AttemptEnded;
use ekiden_core::guard::{GuardView, HookInput, Level, Profile, ToolUse};
use ekiden_core::handoff::{HandoffFile, HandoffFiles};
use ekiden_core::ids::{AttemptId, AttemptNumber, SessionNumber, StageId};
use ekiden_core::run::Run;
use ekiden_core::time::Timestamp;
use ekiden_store::disk::{Disk, DiskResult};
use ekiden_store::error::StoreError;
use ekiden_store::handoff::{read_handoff, set_aside};
use ekiden_store::layout::SessionLayout;
use ekiden_store::status::{Status, StatusFile};

use crate::effect_runner::ArchiveJob;
use crate::paths::RunPaths;
use crate::status::status;
pub(crate) use published::Touched;

/// How much is read of a text that somebody else may have written, in bytes.
pub(crate) const TEXT_BYTES_MAX: u64 = 16 * 1024 * 1024;

/// Reads and writes the files of one run.
#[derive(Debug, Clone)]
pub struct RunFiles {
    disk: Arc<dyn Disk>,
    paths: RunPaths,
    status: StatusFile,
    protocols: BTreeMap<(StageId, &'static str), String>,
    /// The stages that are done and whose results were written.
    results: BTreeSet<StageId>,
    /// The session that was prepared last. In a work dir that stages share, its files may still be in the
    /// handoff directory.
    session_before: Option<SessionLayout>,
    /// What `status.json` holds, as far as we wrote it.
    last_status: Option<Status>,
    /// What files of published knowledge hold, as far as we wrote or read it.
    knowledge: BTreeMap<PathBuf, String>,
}

impl RunFiles {
    pub fn new(disk: Arc<dyn Disk>, paths: RunPaths) -> Result<Self, StoreError> {
        let status = StatusFile::open(&*disk, paths.workspace.published().status())?;
        Ok(Self {
            disk,
            paths,
            status,
            protocols: BTreeMap::new(),
            results: BTreeSet::new(),
            session_before: None,
            last_status: None,
            knowledge: BTreeMap::new(),
        })
    }

    /// The stage works in a worktree, and it is gone.
    pub(crate) fn lacks_worktree(&self, stage: &StageId) -> bool {
        let tree = self.paths.tree(stage);
        tree.is_some_and(|tree| matches!(self.disk.stat(&tree), Ok(None)))
    }

    pub fn paths(&self) -> &RunPaths {
        &self.paths
    }

    /// Writes `status.json` if more than its time would change. A reader never sees half of it.
    pub fn write_status(&mut self, run: &Run, at: Timestamp) -> Result<(), StoreError> {
        let status = status(run, at);
        let mut last = self.last_status.take();
        if let Some(last) = &mut last {
            last.updated_at = at;
        }
        if last.as_ref() != Some(&status) {
            self.status.write(&*self.disk, &status)?;
        }
        self.last_status = Some(status);
        Ok(())
    }

    /// The handoff directory as it is. Unreadable files count as absent: the agent is asked for them.
    pub fn handoff_files(&self, stage: &StageId) -> HandoffFiles {
        read_handoff(&*self.disk, &self.paths.published(stage).handoff()).unwrap_or_default()
    }

    /// Moves what an agent could not overwrite out of its way, into its session's directory.
    pub fn set_aside(
        &self,
        stage: &StageId,
        session: SessionNumber,
        files: &HandoffFiles,
    ) -> DiskResult<()> {
        let session = self.paths.relay(stage).session(session);
        let dir = self.paths.published(stage).handoff();
        set_aside(&*self.disk, &dir, files, &session)
    }

    /// What an attempt left in the handoff directory, to archive.
    pub fn archive_job(
        &self,
        stage: &StageId,
        attempt: AttemptId,
        files: &HandoffFiles,
    ) -> ArchiveJob {
        let layout = self.paths.relay(stage).session(attempt.session);
        let named = |file: HandoffFile| {
            let path = layout.handoff(file);
            let name = of_attempt(path.file_name()?.to_str()?, attempt.attempt);
            Some((name, files.get(file).text()?.to_owned()))
        };
        ArchiveJob {
            files: HandoffFile::ALL.into_iter().filter_map(named).collect(),
            dir: layout.dir().to_owned(),
        }
    }

    /// Where the output of a session's verification is kept.
    pub fn verify_log(&self, stage: &StageId, session: SessionNumber) -> PathBuf {
        self.paths.relay(stage).session(session).verify_log()
    }

    /// What the saved event stream shows of an attempt whose engine died. While it has no process, the stream is only of
    /// attempts before it, which are charged already.
    pub fn traces_of(&self, run: &Run, stage: &StageId, attempt: AttemptId) -> AttemptEnded {
        let lost = AttemptEnded::bare(EndCause::EngineLost);
        let begun = run.relay(stage);
        let begun = begun.and_then(|relay| Some((relay.agent(), relay.runs_since()?)));
        let Some((agent, since)) = begun else {
            return lost;
        };
        match agent.kind {
            AgentKind::Claude | AgentKind::Rehearsal | AgentKind::Acp | AgentKind::Codex => {}
            AgentKind::Exec => return lost,
        }
        let events = self.paths.relay(stage).session(attempt.session).events();
        let Ok(stream) = self.disk.reader(&events, 0) else {
            return lost;
        };
        let (number, prices) = (attempt.attempt, run.prices());
        let ended = ekiden_agent::stream::from_saved_stream(stream, number, agent.kind, prices);
        let Ok(mut ended) = ended else {
            return lost;
        };
        // The stream has no times; it was written to as long as the engine lived.
        if let Ok(Some(until)) = self.disk.modified(&events) {
            ended.counters.duration = until.since(since);
        }
        ended
    }

    /// Where the agent may write and where it may not.
    pub fn guard_view(&self, stage: &StageId) -> GuardView {
        let (published, workspace) = (self.paths.published(stage), &self.paths.workspace);
        GuardView {
            profile: Profile::Relay,
            level: Level::L0,
            handoff_dir: published.handoff(),
            engine_dirs: vec![
                published.dir().to_owned(),
                workspace.published().dir().to_owned(),
                workspace.state_dir.clone(),
            ],
            missing: String::new(),
        }
    }

    pub fn resolve_input(&self, input: &HookInput) -> HookInput {
        resolve_input(&*self.disk, input)
    }

    fn reads(&self, path: &Path, text: &str) -> bool {
        self.disk
            .read(path, text.len() as u64)
            .is_ok_and(|bytes| bytes == text.as_bytes())
    }

    fn read_text(&self, path: &Path) -> Option<String> {
        String::from_utf8(self.disk.read(path, TEXT_BYTES_MAX).ok()?).ok()
    }
}

/// The same question with symbolic links resolved, so that no link leads past the guard.
pub(crate) fn resolve_input(disk: &dyn Disk, input: &HookInput) -> HookInput {
    let real = |path: &Path| disk.resolve(path).ok();
    let link = |path: &Path| disk.read_link(path).ok();
    let mut input = input.clone();
    if let HookInput::PreTool {
        tool: ToolUse::Read(path) | ToolUse::Write(path),
        ..
    } = &mut input
    {
        *path = leads_to_by(path, &real, &link);
    }
    input
}

/// A file's name for one attempt: the first has the plain name, `prompt.md`, later ones theirs,
/// `prompt.2.md`.
pub(crate) fn of_attempt(name: &str, attempt: AttemptNumber) -> String {
    match name.split_once('.') {
        Some((stem, ending)) if attempt > AttemptNumber::FIRST => {
            format!("{stem}.{attempt}.{ending}")
        }
        Some(_) | None => name.to_owned(),
    }
}

#[cfg(test)]
#[expect(
    clippy::disallowed_methods,
    reason = "a test lays out the links that are followed"
)]
mod tests {
    use ekiden_store::disk::RealDisk;

    use super::*;

    // shows: AGT-13
    #[test]
    fn no_link_leads_past_the_guard() {
        let home = tempfile::tempdir().unwrap();
        let root = home.path().canonicalize().unwrap();
        std::fs::create_dir_all(root.join(".ekiden")).unwrap();
        std::os::unix::fs::symlink(".ekiden", root.join("notes")).unwrap();
        std::os::unix::fs::symlink(root.join("notes"), root.join("more")).unwrap();
        std::os::unix::fs::symlink(".ekiden/new.toml", root.join("todo.md")).unwrap();
        let asked = |path: &str| HookInput::PreTool {
            tool: ToolUse::Write(root.join(path)),
            subagent: false,
        };
        for (path, meant) in [
            ("more/config.toml", ".ekiden/config.toml"),
            ("notes/new/file", ".ekiden/new/file"),
            ("todo.md", ".ekiden/new.toml"),
            ("src/main.rs", "src/main.rs"),
        ] {
            let resolved = resolve_input(&RealDisk::fenced(&root), &asked(path));
            assert_eq!(resolved, asked(meant), "{path}");
        }
    }
}
