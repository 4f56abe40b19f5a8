//! The files and agents that a manifest names.

use std::io::Read as _;
use std::path::{Component, Path, PathBuf};

use ekiden_core::agent::AgentSpec;
use ekiden_engine::globs;
use ekiden_engine::workspace::Workspace;
use ekiden_manifest::{Format, FoundText, Surroundings};
use ekiden_store::beneath::{self, NotInside};

use super::read::dir_of;
use crate::settings::chosen;
use crate::settings::given::Given;

/// How much is read of a text that a manifest names, in bytes.
const TEXT_BYTES_MAX: u64 = 4 * 1024 * 1024;

/// Looks up the files and agents that a manifest names.
pub(super) struct Lookup<'a> {
    pub(super) given: &'a Given,
    /// The agent of stages that name none.
    pub(super) agent: &'a AgentSpec,
    pub(super) manifest: &'a Path,
    pub(super) workspace: &'a Workspace,
}

impl Surroundings for Lookup<'_> {
    fn prompt(&mut self, format: Format, file: &str) -> Result<String, String> {
        let (project, beside) = (self.workspace.dir.clone(), dir_of(self.manifest));
        let dirs = match format {
            Format::Ekiden | Format::Casm => [project, beside],
            Format::Cleave => [beside, project],
        };
        let found = text_in(&dirs, file)?;
        // cleave keeps a copy of its pipeline; the prompts may lie beside the original.
        let where_to = match format {
            Format::Cleave => " beside the pipeline or in the work dir",
            Format::Ekiden | Format::Casm => "",
        };
        found
            .map(|(_, text)| text)
            .ok_or_else(|| format!("does not exist{where_to}"))
    }

    fn architecture(&mut self, file: &str) -> Result<Option<FoundText>, String> {
        let project = &self.workspace.dir;
        let Some((path, text)) = text_in(&[project.clone(), dir_of(self.manifest)], file)? else {
            return Ok(None);
        };
        let path = path.strip_prefix(project).unwrap_or(&path);
        Ok(Some(FoundText {
            name: path.to_string_lossy().into_owned(),
            text,
        }))
    }

    fn stays_inside(&mut self, path: &str) -> Result<(), String> {
        globs::stays_inside(&self.workspace.dir, path).map_err(|why| why.to_string())
    }

    fn agent(&mut self, name: Option<&str>, model: Option<&str>) -> Result<AgentSpec, String> {
        let mut agent = match name {
            Some(name) if name != self.agent.name => {
                chosen::agent_named(self.given, name, self.agent).map_err(|failure| {
                    let known = failure.hints().first().map(|hint| format!("; {hint}"));
                    format!("{}{}", failure.error(), known.unwrap_or_default())
                })?
            }
            Some(_) | None => self.agent.clone(),
        };
        agent.model = model.map(str::to_owned).or(agent.model);
        Ok(agent)
    }
}

/// The text of a file in the first directory that has it, and its place; `None` if no directory has it. It
/// may not lead out of the project of that directory.
fn text_in(dirs: &[PathBuf], name: &str) -> Result<Option<(PathBuf, String)>, String> {
    let is_plain = |part| matches!(part, Component::Normal(_) | Component::CurDir);
    if !Path::new(name).components().all(is_plain) {
        return Err("leads out of the project".to_owned());
    }
    for dir in dirs {
        let file = match beneath::open_file(dir, Path::new(name)) {
            Err(NotInside::Absent) => continue,
            found => found.map_err(|why| why.to_string())?.file,
        };
        let path = dir
            .canonicalize()
            .unwrap_or_else(|_| dir.clone())
            .join(name);
        let mut text = String::new();
        let read = file.take(TEXT_BYTES_MAX + 1).read_to_string(&mut text);
        read.map_err(|error| format!("cannot be read: {error}"))?;
        return match text.len() as u64 > TEXT_BYTES_MAX {
            true => Err("is too large".to_owned()),
            false => Ok(Some((path, text))),
        };
    }
    Ok(None)
}
