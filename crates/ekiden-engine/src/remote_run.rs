//! A run that other machines carry out, kept in this work dir's log as if it worked here: so that whatever reads or
//! steers a run does so with this one, too.
//!
//! ```text
//! what the others tell ──► RemoteRun::record ──► Journal ──► log.jsonl ──► status, log, report, attach
//! ekiden pause ──► the steering socket ──► RemoteRun::steered ──► whoever keeps it tells the others
//! ```
//!
//! It holds the work dir's lock, so nothing else begins here meanwhile. It can end at any time: the run goes on
//! elsewhere, and the next one that is kept here takes in what was missed.

use std::path::PathBuf;
use std::sync::Arc;

use ekiden_agent::address::Socket;
use ekiden_core::effect::Effect;
use ekiden_core::event::Event;
use ekiden_core::ids::EffectId;
use ekiden_core::run::Run;
use ekiden_core::settings::RunStarted;
use ekiden_core::steering::Steered;
use ekiden_core::time::Timestamp;
use ekiden_store::archive::ensure_dir;
use ekiden_store::disk::RealDisk;
use tokio::sync::{mpsc, oneshot};

use crate::effect_runner::Input;
use crate::error::EngineError;
use crate::history;
use crate::journal::Journal;
use crate::run_files::RunFiles;
use crate::runner::{LockedWorkDir, Unfinished};
use crate::steering_socket;
use crate::workspace::Workspace;

/// Messages that wait.
const INPUTS_MAX: usize = 16;

pub struct RemoteRun {
    journal: Journal,
    files: RunFiles,
    /// Where its files are.
    pub dir: PathBuf,
    inputs: mpsc::Receiver<Input>,
    _socket: Option<Socket>,
    _work_dir: LockedWorkDir,
}

/// A work dir that is ours alone.
pub struct TakenWorkDir(LockedWorkDir);

impl TakenWorkDir {
    /// Takes it, as for a run that works here.
    ///
    /// # Panics
    ///
    /// Within a runtime, since it asks git and waits.
    pub fn take(workspace: &Workspace) -> Result<Self, EngineError> {
        let disk = Arc::new(RealDisk::fenced(&workspace.dir));
        LockedWorkDir::take(disk, workspace).map(Self)
    }
}

/// A message of a person, and whoever waits until it is recorded.
pub struct Message {
    pub steered: Steered,
    recorded: oneshot::Sender<()>,
}

impl Message {
    /// Tells its sender that it has acted. One that is dropped was not heard.
    pub fn is_recorded(self) {
        let _ = self.recorded.send(());
    }
}

impl RemoteRun {
    /// Goes on with the run's log, or begins it if there is none. Within a runtime.
    ///
    /// # Errors
    ///
    /// If it begins and an unfinished run is in the way, or if the state cannot be read or written.
    pub fn open(
        TakenWorkDir(mut work_dir): TakenWorkDir,
        at: Timestamp,
        header: RunStarted,
        unfinished: Unfinished,
    ) -> Result<Self, EngineError> {
        let run = header.run.clone();
        let state = &work_dir.state;
        let is_here = state.view().runs()?.contains(&run);
        if !is_here && unfinished == Unfinished::Refuse {
            history::refuse_unfinished(state.view(), &header)?;
        }
        let journal = match is_here {
            true => Journal::open(state, &run)?,
            false => Journal::create(state, at, header)?.0,
        };
        let layout = state.view().layout().run(&run);
        ensure_dir(&*work_dir.disk, &layout.stages())?;
        let paths = work_dir.paths(journal.run().header());
        let files = RunFiles::new(Arc::clone(&work_dir.disk), paths)?;
        work_dir.state.lock_mut().name_run(run)?;
        let (sender, inputs) = mpsc::channel(INPUTS_MAX);
        Ok(Self {
            journal,
            files,
            dir: layout.dir().to_owned(),
            inputs,
            _socket: steering_socket::of_run(layout.socket(), &sender),
            _work_dir: work_dir,
        })
    }

    pub fn run(&self) -> &Run {
        self.journal.run()
    }

    /// Takes in what happened elsewhere. Gives the number of its record.
    pub fn record(&mut self, at: Timestamp, event: Event) -> Result<u64, EngineError> {
        self.journal.record(at, event)?;
        Ok(self.journal.last().seq)
    }

    /// Writes what stages left, what they learned and how the run stands, where people look for it.
    pub fn publish(&mut self, at: Timestamp) -> Result<(), EngineError> {
        let run = self.journal.run();
        self.files.write_results(run)?;
        self.files.write_status(run, at)?;
        Ok(())
    }

    /// Our effect of this kind whose outcome has not come, if there is one.
    pub fn ordered(&self, wanted: &Effect) -> Option<EffectId> {
        let mut outstanding = self.journal.outstanding();
        outstanding.find_map(|(id, effect)| (effect == wanted).then_some(id))
    }

    /// The next message of a person. Cancel safe.
    pub async fn steered(&mut self) -> Message {
        loop {
            match self.inputs.recv().await {
                Some(Input::Steered { steered, recorded }) => {
                    return Message { steered, recorded };
                }
                Some(_) => {}
                None => std::future::pending().await,
            }
        }
    }
}
