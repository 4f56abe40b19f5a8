//! Puts what a run's records say into the memory.

use std::collections::BTreeMap;

use ekiden_core::event::Event;
use ekiden_core::guard::Window;
use ekiden_core::guard::checkpoint::issue_of_branch;
use ekiden_core::ids::StageId;
use ekiden_core::observation::{Origin, of_record};
use ekiden_core::record::Record;
use ekiden_core::run::Run;
use ekiden_core::text::in_full;

use super::Capture;

/// Records while a run goes on. After a first failure it is silent: the run continues, and so does the
/// problem with the disk.
#[derive(Debug)]
pub struct Recorder {
    capture: Option<Capture>,
    windows: BTreeMap<StageId, Window>,
}

impl Recorder {
    pub fn new(capture: Capture) -> Self {
        Self {
            capture: Some(capture),
            windows: BTreeMap::new(),
        }
    }

    pub fn usage(&mut self, stage: &StageId, window: Window) {
        self.windows.insert(stage.clone(), window);
    }

    /// The first error, once.
    pub fn recorded(&mut self, record: &Record, run: &Run) -> Option<String> {
        let capture = self.capture.as_ref()?;
        let mut window = None;
        if let Event::Stage { stage, .. } = &record.event {
            window = self.windows.get(stage).copied();
        }
        let branch = run.header().place.branch.clone();
        let branch = branch.or_else(|| capture.origin.branch.clone());
        let issue = run.header().issue.as_ref().map(ToString::to_string);
        let from = Origin {
            run: Some(run.header().run.to_string()),
            issue: issue.or_else(|| issue_of_branch(branch.as_deref()?)),
            branch,
            ..capture.origin.clone()
        };
        let error = capture.keep(of_record(record, &from, window)).err()?;
        self.capture = None;
        Some(format!(
            "nothing more of this run is remembered: cannot {}",
            in_full(&error)
        ))
    }
}
