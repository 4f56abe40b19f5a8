//! Reads a manifest's file and shows its faults.

use std::fs::File;
use std::io::{ErrorKind, Read as _, stdin};
use std::path::{Path, PathBuf};

use ekiden_core::hash::sha256_hex;
use ekiden_core::limits::{self, MANIFEST_BYTES_MAX};
use ekiden_core::manifest::{Isolation, Manifest, PlanRules};
use ekiden_core::settings::Settings;
use ekiden_engine::workspace::Workspace;
use ekiden_manifest::{Defaults, Document, Faults, Syntax};

use super::resolve::Lookup;
use crate::commands::task::{file_meant, is_passed_on, named_from, refuse_endless};
use crate::exit::Exit;
use crate::failure::{Failure, current_dir};
use crate::output::phrase;
use crate::settings::chosen;
use crate::settings::given::{Given, Origin};
use crate::settings::table;

const STANDARD_INPUT: &str = "-";

#[derive(Debug)]
pub struct ManifestFile {
    /// From the work dir, or absolute if it lies elsewhere.
    path: String,
    /// SHA-256 of its bytes.
    hash: String,
    pub document: Document,
}

/// Reads a manifest, and every file and agent that it names. Settings fill in what it omits.
pub fn read(
    path: &Path,
    given: &Given,
    settings: &Settings,
    workspace: &Workspace,
) -> Result<ManifestFile, Failure> {
    let text = text(path)?;
    let defaults = Defaults {
        timeout: given.need(&table::VERIFY_TIMEOUT)?,
        sessions_max: given.need(&table::MAX_SESSIONS)?,
        turns_max: match given.get(&table::MAX_TURNS)? {
            Some(0) => None,
            turns => turns.or(ekiden_manifest::Defaults::default().turns_max),
        },
        retries: given.need(&table::PLAN_RETRIES)?,
        checks: [
            given.get(&table::VALIDATION_TYPE_CHECK)?,
            given.get(&table::VALIDATION_LINT)?,
            given.get(&table::VALIDATION_TEST)?,
        ],
        review_model: match settings.reviewer {
            None => chosen::model_alone(given, &table::MODELS_REVIEW)?,
            Some(_) => None,
        },
        ..Defaults::default()
    };
    let mut asked = Lookup {
        given,
        agent: &settings.agent,
        manifest: path,
        workspace,
    };
    let syntax = Syntax::of(&path.to_string_lossy(), &text);
    let mut document = ekiden_manifest::read(&text, syntax, &defaults, &mut asked)
        .map_err(|faults| faulty(path, &faults))?;
    document.jobs = document.jobs.or(Some(given.need(&table::PLAN_JOBS)?));
    // A plan may come with a project: it can lower the user's settings, never raise them.
    if given.origin(&table::MAX_SESSIONS.row) != Origin::Default {
        for stage in &mut document.stages {
            stage.sessions_max = stage.sessions_max.min(defaults.sessions_max);
        }
    }
    Ok(ManifestFile {
        path: named_from(&workspace.dir, &current_dir()?, &path.to_string_lossy()),
        hash: sha256_hex(text.as_bytes()),
        document,
    })
}

impl ManifestFile {
    /// What a run of it decides on. `jobs` was typed.
    pub fn into_manifest(self, jobs: Option<u32>, isolation: Isolation) -> Manifest {
        let document = self.document;
        let (name_of_document, architecture) = document
            .architecture
            .map(|architecture| (architecture.name, architecture.summary))
            .unwrap_or_default();
        let rules = PlanRules {
            project: document.project,
            file: self.path,
            hash: self.hash,
            jobs: jobs.or(document.jobs).unwrap_or(limits::JOBS_DEFAULT),
            isolation,
            architecture,
            document: name_of_document,
        };
        Manifest {
            stages: document.stages,
            plan: Some(Box::new(rules)),
        }
    }
}

/// The manifest of a run in this work dir, if its file has changed since.
pub fn edited(rules: &PlanRules, dir: &Path) -> Option<PathBuf> {
    let path = dir.join(&rules.file);
    let now = std::fs::read(&path).ok()?;
    (sha256_hex(&now) != rules.hash).then_some(path)
}

/// A manifest with faults, one per line.
pub fn faulty(path: &Path, faults: &Faults) -> Failure {
    let name = name(path);
    let failure = Failure::new(Exit::InvalidInput, format!("{name} has {}", faults.title()));
    let failure = failure.details(faults.to_string().lines().map(str::to_owned));
    match path.extension().is_some_and(|end| end == "md") {
        true => failure.hint(format!(
            "`ekiden run {name}` runs a task; `ekiden split {name}` turns a document into a manifest"
        )),
        false => failure,
    }
}

/// A manifest's name, for people.
fn name(path: &Path) -> String {
    if path == Path::new(STANDARD_INPUT) {
        "standard input".to_owned()
    } else {
        phrase::path(path)
    }
}

/// The directory of a manifest; for one that a shell passed on, the current directory.
pub(super) fn dir_of(path: &Path) -> PathBuf {
    let dir = path
        .parent()
        .filter(|dir| !dir.as_os_str().is_empty() && !is_passed_on(path));
    dir.unwrap_or(Path::new(".")).to_owned()
}

/// The text of the file, up to the maximum size of a manifest.
fn text(path: &Path) -> Result<String, Failure> {
    let of = format!("the manifest {}", name(path));
    let invalid = |what: String| Failure::new(Exit::InvalidInput, what);
    let mut bytes = Vec::new();
    let most = MANIFEST_BYTES_MAX as u64 + 1;
    let read = if path == Path::new(STANDARD_INPUT) {
        stdin().lock().take(most).read_to_end(&mut bytes)
    } else {
        let hint = "name the manifest's file; `ekiden execute -` reads from standard input";
        refuse_endless(&format!("cannot read {of}"), path, hint)?;
        File::open(path).and_then(|file| file.take(most).read_to_end(&mut bytes))
    };
    read.map_err(|error| {
        if error.kind() != ErrorKind::NotFound {
            return Failure::caused(Exit::InvalidInput, &format!("cannot read {of}"), &error);
        }
        let text = format!("there is no file `{}`", name(path));
        let failure = Failure::new(Exit::MissingInput, text);
        match file_meant(&path.to_string_lossy()) {
            Some(file) => failure.hint(format!("did you mean `{file}`?")),
            None => failure.hint("`ekiden plan IDEA` makes a manifest of an idea"),
        }
    })?;
    if bytes.len() > MANIFEST_BYTES_MAX {
        let most = MANIFEST_BYTES_MAX >> 20;
        return Err(invalid(format!("{of} is larger than {most} MB")));
    }
    String::from_utf8(bytes).map_err(|error| {
        let read = &error.as_bytes()[..error.utf8_error().valid_up_to()];
        let line = 1 + read.iter().filter(|byte| **byte == b'\n').count();
        invalid(format!("{of} is not UTF-8 text: line {line}"))
    })
}
