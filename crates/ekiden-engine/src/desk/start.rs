//! Before an attempt and at its beginning: the standing text, an empty handoff directory, the prompt.
//!
//! What an agent could meet as soon as its process runs is in its place before. That it is durable is seen to
//! while the process starts, before the agent is told anything ([`Desk::seal`]): until then the attempt does not
//! count as begun, and whatever a power cut leaves of it decides nothing.

use std::path::PathBuf;

use ekiden_agent::attempt::FirstMessage;
use ekiden_core::effect::{StartAttempt, StartMode};
use ekiden_core::ids::{AttemptId, AttemptNumber, SessionNumber, StageId};
use ekiden_core::relay::{Prompt, Relay};
use ekiden_core::run::Run;
use ekiden_store::archive::{NewDir, NewFile, archive_dirs, ensure_dir, make_dir, place_unsealed, seal};
use ekiden_store::disk::DiskResult;
use ekiden_store::handoff::{Keeping, take_handoff};
use ekiden_store::layout::PROTOCOL;
use ekiden_store::published::restore_dirs;

use super::{Desk, of_attempt};
use crate::error::EngineError;
use crate::hands::Launch;
use crate::journal::Journal;

impl Desk {
    /// Freezes what stays the same for all sessions of the stages that have begun: the protocol, where
    /// agents read it from. It is durable when this returns.
    ///
    /// # Errors
    ///
    /// If the disk refuses, or another protocol stands there.
    pub fn freeze(&mut self, run: &Run) -> Result<(), EngineError> {
        if run.header().manifest.plan.is_some() {
            ensure_dir(&*self.disk, &self.places.run().stages())?;
        }
        run.live().try_for_each(|(stage, relay)| self.freeze_stage(stage, relay))
    }

    fn freeze_stage(&mut self, stage: &StageId, relay: &Relay) -> Result<(), EngineError> {
        if self.protocols.contains_key(stage) {
            return Ok(());
        }
        let layout = self.places.relay(stage);
        // A run that an older program began keeps its own words.
        let protocol = self.read_text(&layout.protocol()).unwrap_or_else(|| relay.protocol());
        let files = [NewFile { name: PROTOCOL, bytes: protocol.as_bytes() }];
        let dirs =
            [NewDir { dir: layout.dir(), files: &files }, NewDir { dir: &layout.sessions(), files: &[] }];
        archive_dirs(&*self.disk, &dirs)?;
        self.protocols.insert(stage.clone(), protocol);
        Ok(())
    }

    /// Makes ready for an attempt: its texts are in the archive, and a new conversation finds an empty handoff
    /// directory. The prompt and the emptiness are durable only after [`seal`](Self::seal).
    ///
    /// # Errors
    ///
    /// If the disk refuses, or other texts are archived in their place.
    pub fn prepare(
        &mut self,
        journal: &Journal,
        stage: &StageId,
        start: &StartAttempt,
    ) -> Result<Launch, EngineError> {
        let run = journal.run();
        let relay = run.relay(stage).ok_or_else(|| EngineError::NoStage { stage: stage.clone() })?;
        let prompt = relay.prompt().ok_or_else(|| EngineError::NoStage { stage: stage.clone() })?;
        let layout = self.places.relay(stage);
        self.freeze_stage(stage, relay)?;
        place_unsealed(&*self.disk, &self.prompt(stage, start.attempt), prompt.to_archive().as_bytes())?;
        if start.mode == StartMode::Fresh {
            let before = before(start.attempt);
            // A run that goes on from another's session has not begun that one itself.
            let is_ours = self.disk.stat(layout.session(before).dir())?.is_some();
            self.empty_handoff(journal, stage, if is_ours { before } else { start.attempt.session })?;
        }
        self.session_before = Some(layout.session(start.attempt.session));
        Ok(Launch {
            run: run.header().run.clone(),
            stage: stage.clone(),
            attempt: start.attempt,
            agent: relay.agent().clone(),
            conversation: start.conversation,
            mode: start.mode,
            prices: run.prices(),
            protocol: self.protocols.get(stage).cloned().unwrap_or_else(|| relay.protocol()),
            message: match prompt {
                Prompt::Fresh(blocks) => FirstMessage::Prompt(blocks.clone()),
                Prompt::Resume(note) => FirstMessage::Note(note.clone()),
            },
        })
    }

    /// Makes durable what must be so before the attempt at work counts as begun and is told anything: its
    /// prompt in the archive, and that nothing of the session before lies in the handoff directory. The
    /// next session's directory is made too: now there is time for it.
    ///
    /// # Errors
    ///
    /// If the disk refuses.
    pub fn seal(&self, run: &Run, stage: &StageId) -> DiskResult<()> {
        let Some((attempt, _)) = run.relay(stage).and_then(Relay::attempt) else { return Ok(()) };
        let next = self.places.relay(stage).session(attempt.session.next());
        // What cannot be made now is made when it is needed.
        let _ = make_dir(&*self.disk, next.dir());
        seal(&*self.disk, &self.prompt(stage, attempt))?;
        match self.disk.sync_dir(&self.places.published(stage).handoff()) {
            // An agent of a kind that does not wait for its prompt has removed it, with all that was there.
            Err(error) if error.is_not_found() => Ok(()),
            synced => synced,
        }
    }

    /// Takes away the directory that waits for the next session: nothing begins soon. Nobody misses it.
    pub fn clear_next(&self, relay: &Relay) {
        let layout = self.places.relay(&relay.stage().id);
        let _ = self.disk.remove_dir(layout.session(relay.session().next()).dir());
    }

    fn prompt(&self, stage: &StageId, attempt: AttemptId) -> PathBuf {
        self.places.relay(stage).session(attempt.session).dir().join(of_attempt("prompt.md", attempt.attempt))
    }

    fn empty_handoff(
        &mut self,
        journal: &Journal,
        stage: &StageId,
        left_by: SessionNumber,
    ) -> DiskResult<()> {
        let published = self.places.published(stage);
        restore_dirs(&*self.disk, &published)?;
        let recorded: Vec<_> = journal.unarchived().collect();
        // A power cut may have brought back what the one before that had left.
        let sessions: Vec<_> = [left_by, previous(left_by)]
            .map(|session| self.places.relay(stage).session(session))
            .into_iter()
            .chain(self.session_before.take())
            .collect();
        let keeping = Keeping { sessions: &sessions, recorded: &recorded };
        take_handoff(&*self.disk, &published.handoff(), keeping).map(|_| ())
    }
}

/// The session that left what is in the handoff directory when this attempt begins.
fn before(attempt: AttemptId) -> SessionNumber {
    if attempt.attempt > AttemptNumber::FIRST {
        return attempt.session;
    }
    previous(attempt.session)
}

fn previous(session: SessionNumber) -> SessionNumber {
    SessionNumber::try_from(session.get().saturating_sub(1)).unwrap_or(SessionNumber::FIRST)
}
