//! What the engine does between two agents, seen from inside its process.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use ekiden_agent::attempt::Activity;
use ekiden_core::event::{AttemptEvent, Event, RelayEvent};
use ekiden_core::guard::Window;
use ekiden_core::ids::StageId;
use ekiden_core::record::Record;
use ekiden_core::run::Run;
use ekiden_core::time::Timestamp;
use ekiden_engine::observer::Observer;
use ekiden_store::disk::Disk;
use rustix::time::{ClockId, clock_gettime};
use serde_json::{Value, json};

use crate::agent::Life;

const HANDOFF: &str = "handoff";
const HANDOFF_FILES: [&str; 3] = ["progress", "next", "knowledge"];
const LOG: &str = "log";

/// Sums of this process at one moment.
#[derive(Debug, Clone, Copy, Default)]
struct Mark {
    syncs: u64,
    cpu: Duration,
}

/// Gathers the figures of a run.
#[derive(Debug)]
pub(crate) struct Watch {
    disk: Arc<dyn Disk>,
    /// When the engine heard what it is about to record.
    heard: Mark,
    /// How many syncs there were when the handoff under way began, if there is one.
    syncs_before: Option<u64>,
    handoffs: Vec<Mark>,
    /// What the same files cost by bare calls.
    bare: Vec<Duration>,
    /// A directory for those.
    dir: PathBuf,
    /// Where each agent tells of its life.
    life: PathBuf,
    lives: Vec<Life>,
}

impl Watch {
    /// A watch of a run on this disk, whose agents leave their lives in a file. `dir` is its own.
    pub(crate) fn new(disk: Arc<dyn Disk>, dir: PathBuf, life: PathBuf) -> io::Result<Self> {
        fs::create_dir_all(dir.join(HANDOFF))?;
        fs::write(dir.join(LOG), "")?;
        let (heard, handoffs, bare, lives) = (Mark::default(), Vec::new(), Vec::new(), Vec::new());
        Ok(Self {
            disk,
            heard,
            syncs_before: None,
            handoffs,
            bare,
            dir,
            life,
            lives,
        })
    }

    /// All that was measured, one figure for each handoff.
    pub(crate) fn figures(&mut self, sessions: u32) -> Value {
        self.lives.extend(Life::read(&self.life));
        assert_eq!(
            u32::try_from(self.lives.len()),
            Ok(sessions),
            "every agent has told its times"
        );
        assert_eq!(
            self.handoffs.len() + 1,
            self.lives.len(),
            "a handoff lies between any two"
        );
        let syncs: Vec<u64> = self.handoffs.iter().map(|handoff| handoff.syncs).collect();
        let cpu: Vec<f64> = self
            .handoffs
            .iter()
            .map(|handoff| millis(handoff.cpu))
            .collect();
        let time: Vec<f64> = self
            .lives
            .windows(2)
            .map(|pair| millis(pair[1].began.saturating_sub(pair[0].ended)))
            .collect();
        let spawn: Vec<f64> = self.lives.iter().map(|life| millis(life.spawn)).collect();
        let bare: Vec<f64> = self.bare.iter().copied().map(millis).collect();
        json!({"syncs": syncs, "cpu_ms": cpu, "bare_cpu_ms": bare, "time_ms": time, "spawn_ms": spawn})
    }

    /// Does to files what a handoff does, by bare calls: a record with its sync, a prompt, and an emptied
    /// handoff directory. Nobody can promise the same for less.
    fn hand_off_bare(&mut self) -> io::Result<()> {
        let handoff = self.dir.join(HANDOFF);
        for name in HANDOFF_FILES {
            fs::write(handoff.join(name), [b'x'; 300])?;
        }
        let start = own_cpu();
        let mut log = File::options().append(true).open(self.dir.join(LOG))?;
        log.write_all(&[b'x'; 1500])?;
        log.sync_data()?;
        let prompt = self.dir.join(format!("prompt-{}", self.handoffs.len()));
        File::create_new(prompt)?.write_all(&[b'x'; 1500])?;
        HANDOFF_FILES
            .iter()
            .try_for_each(|name| fs::remove_file(handoff.join(name)))?;
        self.bare.push(own_cpu() - start);
        Ok(())
    }
}

impl Observer for Watch {
    fn recorded(&mut self, record: &Record, _run: &Run) {
        if let Event::Stage { event, .. } = &record.event {
            if let RelayEvent::Attempt {
                event: AttemptEvent::Ended(_),
                ..
            } = event
            {
                self.syncs_before = Some(self.heard.syncs);
            }
            if let RelayEvent::Attempt {
                event: AttemptEvent::Started { .. },
                ..
            } = event
                && let Some(syncs_before) = self.syncs_before.take()
            {
                // Now there is time to read it: the agent that runs now writes its own at its end.
                let before = Life::read(&self.life).expect("every agent tells of its life");
                let (syncs, cpu) = (
                    self.heard.syncs - syncs_before,
                    self.heard.cpu - before.engine_cpu,
                );
                self.handoffs.push(Mark { syncs, cpu });
                self.lives.push(before);
                self.hand_off_bare().expect("the directory is ours");
            }
        }
    }

    fn tick(&mut self, _now: Timestamp) {
        self.heard = Mark {
            syncs: self.disk.syncs(),
            cpu: own_cpu(),
        };
    }

    fn activity(&mut self, _stage: &StageId, _activity: &Activity) {}
    fn usage(&mut self, _stage: &StageId, _usage_tokens: u64, _window: Window) {}
    fn spend(&mut self, _stage: &StageId, _spend: ekiden_core::budget::Spend, _: bool) {}
    fn warn(&mut self, _text: &str) {}
}

/// The CPU time of this process, all threads.
fn own_cpu() -> Duration {
    clock_gettime(ClockId::ProcessCPUTime)
        .try_into()
        .unwrap_or_default()
}

fn millis(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}
