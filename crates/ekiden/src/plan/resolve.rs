//! A document becomes what a run is started with: settings fill in what it does not say.

use std::path::{Component, Path, PathBuf};

use ekiden_core::ids::RunId;
use ekiden_core::limits;
use ekiden_core::manifest::{Defaults, Format, Ground, Manifest, PlanRules, Surroundings};
use ekiden_core::settings::{AgentSpec, RunStarted, Settings};
use ekiden_engine::history;
use ekiden_engine::workspace::Workspace;

use super::read::{ManifestFile, dir_of, faulty, name};
use crate::failure::Failure;
use crate::settings::chosen;
use crate::settings::given::Given;
use crate::settings::table;

/// The most that is read of a text that a manifest names, in bytes.
const TEXT_BYTES_MAX: u64 = 4 * 1024 * 1024;

/// What a plan works with.
pub struct Around<'a> {
    /// Every setting that somebody set.
    pub given: &'a Given,
    /// The project.
    pub workspace: &'a Workspace,
    /// By which settings its stages work, but for what each says itself.
    pub settings: Settings,
    /// Stages that may work at the same time, if that was typed.
    pub jobs: Option<u32>,
}

/// The header of a run of this manifest.
///
/// # Errors
///
/// If a text that it names cannot be read, or an agent is unknown.
pub fn header(
    file: ManifestFile,
    around: Around<'_>,
    run: RunId,
    ground: Ground,
) -> Result<RunStarted, Failure> {
    let ManifestFile { path, hash, document } = file;
    let Around { given, workspace, settings, jobs } = around;
    let rules = PlanRules {
        project: document.project.clone(),
        file: name(&path),
        hash,
        jobs: jobs.or(document.jobs).unwrap_or(limits::JOBS_DEFAULT),
        ground,
        architecture: String::new(),
        document: String::new(),
    };
    let defaults = Defaults {
        timeout: given.need(&table::VERIFY_TIMEOUT)?,
        retries: limits::RETRIES_DEFAULT,
        sessions_max: given.need(&table::MAX_SESSIONS)?,
        turns_max: settings.bounds.turns_max.unwrap_or(limits::STAGE_TURNS_DEFAULT),
        session_tokens: limits::STAGE_SESSION_TOKENS_DEFAULT,
    };
    let mut asked = Asked { given, agent: &settings.agent, manifest: &path, workspace };
    let manifest: Manifest =
        document.into_manifest(rules, &defaults, &mut asked).map_err(|faults| faulty(&path, &faults))?;
    Ok(RunStarted {
        run,
        ekiden: env!("CARGO_PKG_VERSION").to_owned(),
        place: workspace.place(),
        manifest,
        settings,
        from: None,
        prices: history::prices(workspace),
    })
}

/// Answers what a document asks.
pub(super) struct Asked<'a> {
    pub(super) given: &'a Given,
    /// The agent of stages that name none.
    pub(super) agent: &'a AgentSpec,
    /// Where the manifest lies.
    pub(super) manifest: &'a Path,
    pub(super) workspace: &'a Workspace,
}

impl Surroundings for Asked<'_> {
    fn prompt(&mut self, format: Format, file: &str) -> Result<String, String> {
        let (project, beside) = (self.workspace.dir.clone(), dir_of(self.manifest));
        let dirs = match format {
            Format::Ekiden | Format::Casm => [project, beside],
            Format::Cleave => [beside, project],
        };
        text_in(&dirs, file)?.ok_or_else(|| "does not exist".to_owned())
    }

    fn architecture(&mut self, file: &str) -> Result<Option<String>, String> {
        text_in(&[self.workspace.dir.clone(), dir_of(self.manifest)], file)
    }

    fn agent(&mut self, name: Option<&str>, model: Option<&str>) -> Result<AgentSpec, String> {
        let mut agent = match name {
            Some(name) if name != self.agent.name => chosen::agent_named(self.given, name, self.agent)
                .map_err(|failure| failure.error().to_owned())?,
            Some(_) | None => self.agent.clone(),
        };
        agent.model = model.map(str::to_owned).or(agent.model);
        Ok(agent)
    }
}

/// The text of a file in the first directory that has it; nothing if none has. It may not lead out of that
/// directory.
fn text_in(dirs: &[PathBuf], name: &str) -> Result<Option<String>, String> {
    let plain =
        Path::new(name).components().all(|part| matches!(part, Component::Normal(_) | Component::CurDir));
    if !plain {
        return Err("leads out of the project".to_owned());
    }
    let Some((dir, path)) = dirs.iter().map(|dir| (dir, dir.join(name))).find(|(_, path)| path.exists())
    else {
        return Ok(None);
    };
    let inside = || Some(path.canonicalize().ok()?.starts_with(dir.canonicalize().ok()?));
    if inside() != Some(true) {
        return Err("leads out of the project".to_owned());
    }
    match path.metadata() {
        Ok(found) if !found.is_file() => return Err("is no file".to_owned()),
        Ok(found) if found.len() > TEXT_BYTES_MAX => return Err("is too large".to_owned()),
        Ok(_) | Err(_) => {}
    }
    std::fs::read_to_string(&path).map(Some).map_err(|error| format!("cannot be read: {error}"))
}
