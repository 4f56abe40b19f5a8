//! What the engine does between two agents, seen from inside its process.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use ekiden_agent::attempt::Activity;
use ekiden_core::event::{Event, RelayEvent};
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

const SESSIONS: &str = "sessions";
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
    /// Where the handover under way began, if there is one.
    from: Option<Mark>,
    handovers: Vec<Mark>,
    /// What the same files cost by bare calls.
    bare: Vec<Duration>,
    /// A directory for those.
    dir: PathBuf,
    lives: Vec<Life>,
}

impl Watch {
    /// A watch of a run on this disk. `dir` is its own.
    pub(crate) fn new(disk: Arc<dyn Disk>, dir: PathBuf) -> io::Result<Self> {
        fs::create_dir_all(dir.join(SESSIONS))?;
        fs::create_dir(dir.join(HANDOFF))?;
        fs::write(dir.join(LOG), "")?;
        let (heard, handovers, bare, lives) = (Mark::default(), Vec::new(), Vec::new(), Vec::new());
        Ok(Self { disk, heard, from: None, handovers, bare, dir, lives })
    }

    /// All that was measured, one figure for each handover.
    pub(crate) fn figures(&self, sessions: u32) -> Value {
        assert_eq!(u32::try_from(self.lives.len()), Ok(sessions), "every agent has told its times");
        assert_eq!(self.handovers.len() + 1, self.lives.len(), "a handover lies between any two");
        let syncs: Vec<u64> = self.handovers.iter().map(|handover| handover.syncs).collect();
        let cpu: Vec<f64> = self.handovers.iter().map(|handover| millis(handover.cpu)).collect();
        let time: Vec<f64> =
            self.lives.windows(2).map(|pair| millis(pair[1].began.saturating_sub(pair[0].ended))).collect();
        let spawn: Vec<f64> = self.lives.iter().map(|life| millis(life.spawn)).collect();
        let bare: Vec<f64> = self.bare.iter().copied().map(millis).collect();
        json!({"syncs": syncs, "cpu_ms": cpu, "bare_cpu_ms": bare, "time_ms": time, "spawn_ms": spawn})
    }

    /// Does to files what a handover does, by bare calls: a record, a session's directory with its
    /// prompt, an emptied handoff directory, each with its syncs. Nobody can promise the same for less.
    fn hand_over_bare(&mut self) -> io::Result<()> {
        let (handoff, sessions) = (self.dir.join(HANDOFF), self.dir.join(SESSIONS));
        for name in HANDOFF_FILES {
            fs::write(handoff.join(name), [b'x'; 300])?;
        }
        let start = own_cpu();
        let mut log = File::options().append(true).open(self.dir.join(LOG))?;
        log.write_all(&[b'x'; 1500])?;
        log.sync_data()?;
        let session = sessions.join(self.handovers.len().to_string());
        fs::create_dir(&session)?;
        let mut prompt = File::create_new(session.join("new"))?;
        prompt.write_all(&[b'x'; 1500])?;
        prompt.sync_data()?;
        fs::rename(session.join("new"), session.join("prompt"))?;
        File::open(&session)?.sync_all()?;
        File::open(&sessions)?.sync_all()?;
        HANDOFF_FILES.iter().try_for_each(|name| fs::remove_file(handoff.join(name)))?;
        File::open(&handoff)?.sync_all()?;
        self.bare.push(own_cpu() - start);
        Ok(())
    }
}

impl Observer for Watch {
    fn recorded(&mut self, record: &Record, _run: &Run) {
        if let Event::Stage { event, .. } = &record.event {
            if let RelayEvent::AttemptEnded(ended) = event {
                let life = ended.traces.last_words.as_deref().and_then(Life::parse);
                self.from = life.map(|life| Mark { syncs: self.heard.syncs, cpu: life.engine_cpu });
                self.lives.extend(life);
            }
            if let RelayEvent::AttemptStarted { .. } = event
                && let Some(from) = self.from.take()
            {
                let (syncs, cpu) = (self.heard.syncs - from.syncs, self.heard.cpu - from.cpu);
                self.handovers.push(Mark { syncs, cpu });
                self.hand_over_bare().expect("the directory is ours");
            }
        }
    }

    fn tick(&mut self, _now: Timestamp) {
        self.heard = Mark { syncs: self.disk.syncs(), cpu: own_cpu() };
    }

    fn activity(&mut self, _stage: &StageId, _activity: &Activity) {}
    fn usage(&mut self, _stage: &StageId, _usage_tokens: u64, _window: Window) {}
    fn spend(&mut self, _stage: &StageId, _spend: ekiden_core::budget::Spend) {}
    fn warn(&mut self, _text: &str) {}
}

/// The CPU time of this process, all threads.
fn own_cpu() -> Duration {
    clock_gettime(ClockId::ProcessCPUTime).try_into().unwrap_or_default()
}

fn millis(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}
