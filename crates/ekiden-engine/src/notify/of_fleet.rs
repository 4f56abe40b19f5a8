//! Notifications of a run that a fleet carries out, sent by the process that shows it.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;

use ekiden_core::effect::{Effect, RelayEffect};
use ekiden_core::event::{Elsewhere, Event};
use ekiden_core::ids::EffectId;
use ekiden_core::limits;
use ekiden_core::record::{Record, numbered};
use ekiden_core::run::Run;
use ekiden_core::text::in_full;
use ekiden_core::time::Timestamp;

use super::{Endpoint, LATE, Notice, failure, tellings};
use crate::clock::{Clock as _, SystemClock};
use crate::error::EngineError;
use crate::runtime::{runtime, system};
use crate::workspace::Workspace;

/// Sends each notification from a thread, since the process that shows a run has no runtime.
pub struct FleetNotices {
    keeper: PathBuf,
    workspace: Workspace,
    endpoints: Vec<Endpoint>,
    /// What happened before was told by another process, or by none.
    since: Timestamp,
    ended: (Sender<Ended>, Receiver<Ended>),
    on_their_way: usize,
    /// The ways that the user already knows do not work.
    failed: BTreeSet<&'static str>,
}

/// The way, and why it failed.
type Ended = (&'static str, Result<(), String>);

impl FleetNotices {
    pub fn new(workspace: &Workspace, endpoints: Vec<Endpoint>) -> Result<Self, EngineError> {
        let keeper = ekiden_agent::keeper::executable();
        Ok(Self {
            keeper: keeper.map_err(system("find ekiden's executable"))?,
            workspace: workspace.clone(),
            endpoints,
            since: SystemClock.now(),
            ended: channel(),
            on_their_way: 0,
            failed: BTreeSet::new(),
        })
    }

    /// Sends what a new record says. Of the stages' own records nothing: they come late, and a stage's end
    /// is not the run's.
    pub fn recorded(&mut self, record: &Record, run: &Run) {
        let is_of_stage = matches!(
            record.event,
            Event::Stage { .. }
                | Event::Elsewhere {
                    event: Elsewhere::Recorded { .. },
                    ..
                }
        );
        if is_of_stage || record.time < self.since {
            return;
        }
        for (id, effect) in numbered(record) {
            if let Effect::Stage {
                stage,
                effect: RelayEffect::Notify { about, text },
            } = effect
            {
                let notice = Notice::of(run, record.time, stage, *about, text.clone());
                self.send(run, id, &notice);
            }
        }
    }

    fn send(&mut self, run: &Run, id: EffectId, notice: &Notice) {
        let of = (&run.header().run, id);
        let tellings = tellings(&self.keeper, &self.workspace, &self.endpoints, of, notice);
        for (name, telling) in tellings {
            if self.on_their_way == limits::NOTIFY_MAX {
                return;
            }
            let ended = self.ended.0.clone();
            let thread = thread::Builder::new().spawn(move || {
                let done = match runtime() {
                    Ok(runtime) => runtime.block_on(telling),
                    Err(error) => Err(in_full(&error)),
                };
                let _ = ended.send((name, done));
            });
            self.on_their_way += usize::from(thread.is_ok());
        }
    }

    /// What has failed since, for the user.
    pub fn failed(&mut self) -> Vec<String> {
        let ended: Vec<Ended> = self.ended.1.try_iter().collect();
        let ended = ended.into_iter();
        ended.filter_map(|ended| self.hear(ended)).collect()
    }

    fn hear(&mut self, (name, done): Ended) -> Option<String> {
        self.on_their_way -= 1;
        let why = done.err()?;
        self.failed.insert(name).then(|| failure(name, &why))
    }

    /// Waits a moment for those on their way. Returns what has failed.
    pub fn finish(mut self) -> Vec<String> {
        let until = SystemClock.now() + limits::NOTIFY_AT_END;
        let mut failed = Vec::new();
        while self.on_their_way > 0 {
            let left = until.since(SystemClock.now());
            let Ok(ended) = self.ended.1.recv_timeout(left.into()) else {
                failed.push(LATE.to_owned());
                break;
            };
            failed.extend(self.hear(ended));
        }
        failed
    }
}
