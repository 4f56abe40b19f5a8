//! Prepares an attempt: the protocol, an empty handoff directory, the prompt.
//!
//! All of it is in place before the process runs, and durable before the agent gets its prompt and before the log
//! says that the attempt has begun ([`RunFiles::make_durable`]). The syncs happen while the process starts. A
//! power cut before them may bring back old handoff files or lose the prompt. But then the attempt has not
//! begun and decides nothing: the next one has its own number and prompt, and empties the directory again.

use std::path::PathBuf;

use ekiden_agent::own_files::own_files;
use ekiden_core::effect::{StartAttempt, StartMode};
use ekiden_core::ids::{AttemptId, AttemptNumber, SessionNumber, StageId};
use ekiden_core::prompt::REVIEW_SCHEMA;
use ekiden_core::relay::{Purpose, Relay};
use ekiden_core::run::Run;
use ekiden_store::archive::{archive_dir, differs, ensure_dir, make_dir};
use ekiden_store::disk::{DiskResult, parent};
use ekiden_store::handoff::{Keeping, take_handoff};
use ekiden_store::layout::{PROTOCOL, PROTOCOL_BY_ITEMS};
use ekiden_store::published::restore_dirs;
use ekiden_store::replace::{Durability, replace};

use super::{RunFiles, of_attempt};
use crate::effect_runner::Launch;
use crate::error::EngineError;
use crate::journal::Journal;

impl RunFiles {
    /// Writes what stays the same for all sessions of the stages that have begun: the protocol, which agents
    /// read, and what stages on other machines left. It is durable when this returns.
    pub fn freeze(&mut self, run: &Run) -> Result<(), EngineError> {
        if run.header().is_plan() {
            ensure_dir(&*self.disk, &self.paths.run_dir.stages())?;
        }
        self.write_earlier(run)?;
        run.live()
            .try_for_each(|(stage, relay)| self.freeze_stage(stage, relay).map(|_| ()))
    }

    /// The protocol of a stage. It is in its file when this returns.
    fn freeze_stage(&mut self, stage: &StageId, relay: &Relay) -> Result<String, EngineError> {
        // An agent that takes over may learn in another way when to hand off.
        let settings = &relay.settings;
        let name = match settings.agent.kind.takes_messages() || settings.fallback.is_empty() {
            true => PROTOCOL,
            false => PROTOCOL_BY_ITEMS,
        };
        let key = (stage.clone(), name);
        if let Some(protocol) = self.protocols.get(&key) {
            return Ok(protocol.clone());
        }
        let layout = self.paths.relay(stage);
        // A run that another version of ekiden began keeps its wording.
        let protocol = self
            .read_text(&layout.dir().join(name))
            .unwrap_or_else(|| relay.protocol());
        archive_dir(&*self.disk, layout.dir(), &[(name, protocol.as_str())])
            .map_err(EngineError::Archive)?;
        ensure_dir(&*self.disk, &layout.sessions())?;
        self.protocols.insert(key, protocol.clone());
        Ok(protocol)
    }

    /// Prepares an attempt: its prompt is in the archive, and a new conversation finds an empty handoff
    /// directory. Neither is synced yet.
    pub fn prepare_attempt(
        &mut self,
        journal: &Journal,
        stage: &StageId,
        start: &StartAttempt,
    ) -> Result<Launch, EngineError> {
        let run = journal.run();
        let to_start = run
            .relay(stage)
            .and_then(|relay| Some((relay, relay.prompt()?)));
        let (relay, prompt) = to_start.ok_or_else(|| EngineError::NoStage {
            stage: stage.clone(),
        })?;
        // A reviewer leaves no handoff, so its prompt does not say how.
        let is_review = start.purpose == Purpose::Review;
        let protocol = match is_review {
            true => String::new(),
            false => self.freeze_stage(stage, relay)?,
        };
        let path = self.prompt(stage, start.attempt);
        let text = prompt.to_archive();
        // A power cut may leave part of a prompt that no agent has received yet: it is written again.
        // A prompt that an agent has received is never overwritten.
        let archived = self.read_text(&path).unwrap_or_default();
        if !text.starts_with(&archived) {
            return Err(EngineError::Archive(differs(&path)));
        }
        make_dir(&*self.disk, parent(&path))
            .and_then(|_| replace(&*self.disk, &path, text.as_bytes(), Durability::Derived))
            .map_err(|error| EngineError::Archive(error.into()))?;
        for (name, text) in own_files(relay.agent()) {
            let path = self.paths.relay(stage).dir().join(name);
            ensure_dir(&*self.disk, parent(&path))?;
            replace(&*self.disk, &path, text.as_bytes(), Durability::Derived)?;
        }
        if start.mode == StartMode::Fresh {
            self.empty_handoff(journal, stage, start.attempt)?;
        }
        self.session_before = Some(self.paths.relay(stage).session(start.attempt.session));
        Ok(Launch {
            run: run.header().run.clone(),
            stage: stage.clone(),
            attempt: start.attempt,
            agent: relay.agent().clone(),
            schema: is_review.then(|| REVIEW_SCHEMA.to_owned()),
            conversation: start.conversation,
            mode: start.mode,
            prices: run.prices(),
            protocol,
            message: prompt.clone(),
        })
    }

    /// Syncs the prompt of the attempt at work, its directory, that directory's name, and the empty handoff directory.
    pub fn make_durable(&self, run: &Run, stage: &StageId) -> DiskResult<()> {
        let Some((attempt, _)) = run.relay(stage).and_then(Relay::attempt) else {
            return Ok(());
        };
        let prompt = self.prompt(stage, attempt);
        self.disk.sync_file(&prompt)?;
        self.disk.sync_dir(parent(&prompt))?;
        self.disk.sync_dir(parent(parent(&prompt)))?;
        match self.disk.sync_dir(&self.paths.published(stage).handoff()) {
            // An agent that does not wait for its prompt has removed the directory with everything in it.
            Err(error) if error.is_not_found() => Ok(()),
            synced => synced,
        }
    }

    fn prompt(&self, stage: &StageId, attempt: AttemptId) -> PathBuf {
        let session = self.paths.relay(stage).session(attempt.session);
        let name = of_attempt("prompt.md", attempt.attempt);
        session.dir().join(name)
    }

    /// Empties the handoff directory, but leaves what an earlier attempt at the session learned. Files that are safe nowhere else are copied to the session that left them, or to
    /// the relay's directory if none of its sessions did.
    fn empty_handoff(
        &mut self,
        journal: &Journal,
        stage: &StageId,
        attempt: AttemptId,
    ) -> DiskResult<()> {
        let (published, relay) = (self.paths.published(stage), self.paths.relay(stage));
        restore_dirs(&*self.disk, &published)?;
        let before = previous(attempt.session);
        let is_first = attempt.attempt == AttemptNumber::FIRST;
        let has_before =
            before != attempt.session && self.disk.stat(relay.session(before).dir())?.is_some();
        let (left_by, left) = match (is_first, has_before) {
            (true, true) => (before, relay.session(before).left()),
            // An earlier run, or somebody else.
            (true, false) => (attempt.session, relay.left()),
            // An earlier attempt of the same session.
            (false, _) => (attempt.session, relay.session(attempt.session).left()),
        };
        // A power cut may have restored what the session before that had left.
        let sessions: Vec<_> = [left_by, previous(left_by)]
            .map(|session| relay.session(session))
            .into_iter()
            .chain(self.session_before.take())
            .collect();
        let recorded: Vec<_> = journal.unarchived().collect();
        let keeping = Keeping {
            sessions: &sessions,
            left: &left,
            recorded: &recorded,
            is_same_session: !is_first,
        };
        take_handoff(&*self.disk, &published.handoff(), keeping)
    }
}

fn previous(session: SessionNumber) -> SessionNumber {
    SessionNumber::try_from(session.get().saturating_sub(1)).unwrap_or(SessionNumber::FIRST)
}
