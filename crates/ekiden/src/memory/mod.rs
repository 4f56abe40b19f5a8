//! The memory in the binary: who records, what is left out, and how what was found is shown to an agent.
//!
//! ```text
//! hook, checkpoint, observer of a run ──► Capture ──► store::memory      appended, never indexed here
//! `ekiden memory`, `ekiden mcp`, SessionStart ──► ekiden_memory::ask ──► shown
//! ```

mod ignored;
pub mod mcp;
pub mod observer;
pub mod shown;

use ekiden_core::observation::{Observation, Origin};
use ekiden_store::disk::DiskResult;
use ekiden_store::memory::MemoryFiles;
use ekiden_store::place::ProjectPlace;

use serde_json::Value;

use crate::client::settings::config_dir;
use crate::settings::environment::Environment;
use crate::settings::given::Given;
use crate::settings::table;
use ignored::Ignored;

/// Who records for one project.
#[derive(Debug)]
pub struct Capture {
    files: MemoryFiles,
    /// What is known of every observation from here.
    pub origin: Origin,
    ignored: Ignored,
}

/// The rules of what is left out; none where nothing is to be recorded.
pub fn allowed(given: &Given) -> Option<Vec<String>> {
    let records = given.get(&table::MEMORY_RECORD).ok()??;
    let exclude = given.get(&table::MEMORY_EXCLUDE).ok()?;
    records.then(|| exclude.unwrap_or_default())
}

/// Where a user's memory is; none without a home.
pub fn files(environment: &Environment) -> Option<MemoryFiles> {
    let home = environment.state_home()?.join("ekiden");
    Some(MemoryFiles::of(&home))
}

/// Whether the user has claude-mem, which gives sessions its own context and tools: then nothing is given twice.
pub fn has_claude_mem(environment: &Environment) -> bool {
    let Some(dir) = config_dir(environment) else {
        return false;
    };
    let settings = std::fs::read(dir.join("settings.json")).unwrap_or_default();
    let settings: Value = serde_json::from_slice(&settings).unwrap_or_default();
    let mut plugins = settings["enabledPlugins"].as_object().into_iter().flatten();
    plugins.any(|(name, on)| name.starts_with("claude-mem@") && *on == true)
}

impl Capture {
    /// None where the project is left out, or there is no home to record in.
    pub fn of(environment: &Environment, place: &ProjectPlace, exclude: &[String]) -> Option<Self> {
        let ignored = Ignored::of(environment, place, exclude)?;
        Some(Self {
            files: files(environment)?,
            origin: Origin {
                project: place.project().display().to_string(),
                branch: place.branch(),
                ..Origin::default()
            },
            ignored,
        })
    }

    /// Records what is not left out.
    pub fn keep(&self, observations: Vec<Observation>) -> DiskResult<()> {
        let kept = observations
            .into_iter()
            .filter_map(|observation| observation.without(|file| self.ignored.has(file)));
        let kept: Vec<Observation> = kept.collect();
        self.files.append(&kept)
    }
}
