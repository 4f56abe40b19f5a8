//! A run that other machines carry out, kept in this work dir's log as if it worked here, so that every command
//! that reads or steers a run works with this one too.
//!
//! ```text
//! what the others tell ──► RemoteRun::record ──► Journal ──► log.jsonl ──► status, log, report, attach
//! what their sessions do ──► RemoteRun::show ──► at-work.json ──► status, attach
//! ekiden pause ──► the steering socket ──► RemoteRun::steered ──► whoever keeps it tells the others
//! ```
//!
//! It holds the work dir's lock, so nothing else begins here meanwhile. It can end at any time: the run continues
//! elsewhere, and the next process that keeps it here catches up on what was missed.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use ekiden_agent::address::Socket;
use ekiden_core::budget::Spend;
use ekiden_core::effect::Effect;
use ekiden_core::event::Event;
use ekiden_core::ids::{AttemptId, EffectId, RunId, StageId};
use ekiden_core::run::Run;
use ekiden_core::settings::RunStarted;
use ekiden_core::steering::Steered;
use ekiden_core::time::Timestamp;
use ekiden_store::archive::ensure_dir;
use ekiden_store::disk::Disk as _;
use ekiden_store::layout::RunLayout;
use ekiden_store::limits::AT_WORK_BYTES_MAX;
use ekiden_store::replace::{Durability, replace};
use serde::{Deserialize, Serialize};
use tokio::sync::{mpsc, oneshot};

use crate::effect_runner::Input;
use crate::error::EngineError;
use crate::history;
use crate::journal::Journal;
use crate::run_files::RunFiles;
use crate::runner::LockedWorkDir;
use crate::steering_socket;
use crate::workspace::Workspace;

/// Waiting messages.
const INPUTS_MAX: usize = 16;

pub struct RemoteRun {
    journal: Journal,
    files: RunFiles,
    layout: RunLayout,
    at_work: BTreeMap<StageId, AtWork>,
    inputs: mpsc::Receiver<Input>,
    _socket: Option<Socket>,
    work_dir: LockedWorkDir,
}

/// A work dir that only this process may work in.
pub struct TakenWorkDir(LockedWorkDir);

impl TakenWorkDir {
    /// Takes it, as for a run that works here. It asks git and waits, so it panics within a runtime.
    pub fn take(workspace: &Workspace) -> Result<Self, EngineError> {
        let disk = Arc::new(workspace.disk());
        LockedWorkDir::take(disk, workspace).map(Self)
    }
}

/// What a session on another machine is doing now. Nothing depends on it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AtWork {
    pub attempt: AttemptId,
    pub host: String,
    /// Its context use, in tokens; 0 until it is known.
    pub usage_tokens: u64,
    pub spend: Spend,
    pub subagents: usize,
    /// In short; empty until it does something.
    pub doing: String,
}

impl AtWork {
    pub fn new(attempt: AttemptId, host: String) -> Self {
        Self {
            attempt,
            host,
            usage_tokens: 0,
            spend: Spend::default(),
            subagents: 0,
            doing: String::new(),
        }
    }
}

/// What the sessions of a run on other machines are doing, as far as the process that follows it here knows.
pub fn at_work(workspace: &Workspace, run: &RunId) -> BTreeMap<StageId, AtWork> {
    let path = workspace.layout().run(run).at_work();
    let disk = workspace.disk();
    let read = disk.read(&path, AT_WORK_BYTES_MAX).ok();
    let told = read.and_then(|bytes| serde_json::from_slice(&bytes).ok());
    told.unwrap_or_default()
}

/// A person's message, and the sender that waits until it is recorded.
pub struct Message {
    pub steered: Steered,
    recorded: oneshot::Sender<()>,
}

impl Message {
    /// Tells its sender that it took effect. A message that is dropped was not heard.
    pub fn is_recorded(self) {
        let _ = self.recorded.send(());
    }
}

impl RemoteRun {
    /// Continues the run's log, or begins it if there is none and no unfinished run is in the way. `set_aside` keeps such
    /// a run as it is. Call it within a runtime.
    pub fn open(
        TakenWorkDir(mut work_dir): TakenWorkDir,
        at: Timestamp,
        header: RunStarted,
        set_aside: bool,
    ) -> Result<Self, EngineError> {
        let run = header.run.clone();
        let state = &work_dir.state;
        let is_here = state.view().runs()?.contains(&run);
        if !is_here && !set_aside {
            let (place, wanted) = (&header.place, Some(&header.manifest));
            history::refuse_unfinished(state.view(), place.worktree.as_deref(), wanted)?;
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
            at_work: BTreeMap::new(),
            inputs,
            _socket: steering_socket::of_run(layout.socket(), &sender),
            layout,
            work_dir,
        })
    }

    pub fn run(&self) -> &Run {
        self.journal.run()
    }

    /// Where its files are.
    pub fn dir(&self) -> &Path {
        self.layout.dir()
    }

    /// Records what happened elsewhere. Returns the number of its record.
    pub fn record(&mut self, at: Timestamp, event: Event) -> Result<u64, EngineError> {
        self.journal.record(at, event)?;
        Ok(self.journal.last().seq)
    }

    /// Writes what stages left, what they learned and the run's status to where people look for it.
    pub fn publish(&mut self, at: Timestamp) -> Result<(), EngineError> {
        let run = self.journal.run();
        self.files.write_results(run)?;
        self.files.write_status(run, at)?;
        Ok(())
    }

    /// Writes what sessions are doing now, for anyone who looks here. Nothing depends on it.
    pub fn show(&mut self, at_work: BTreeMap<StageId, AtWork>) {
        if at_work == self.at_work {
            return;
        }
        let text = serde_json::to_vec(&at_work).unwrap_or_default();
        let (disk, path) = (&*self.work_dir.disk, self.layout.at_work());
        if replace(disk, &path, &text, Durability::Derived).is_ok() {
            self.at_work = at_work;
        }
    }

    /// Our effect of this kind that has no outcome yet, if there is one.
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
