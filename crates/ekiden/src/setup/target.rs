//! Where the guard is installed: the client's directory, its settings file, and the receipt.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use ekiden_store::disk::RealDisk;
use ekiden_store::receipt::ReceiptDir;

use crate::client::settings::{config_dir, state_file};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::settings::environment::Environment;

/// For whom the guard is installed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    User,
    Project,
}

/// The client's directory of a scope, and the files of it.
#[derive(Debug)]
pub struct Target {
    pub scope: Scope,
    pub dir: PathBuf,
    /// The settings file in it, links followed.
    pub settings: PathBuf,
    /// The file in which the client keeps its MCP servers, links followed.
    pub state: PathBuf,
    /// The project as the client names it there.
    pub project: Option<String>,
    /// The client's directory of the other scope: its commands have names too.
    pub other_dir: Option<PathBuf>,
    pub receipt: ReceiptDir,
    /// The receipt of the other scope: both write the client's state.
    pub other_receipt: Option<ReceiptDir>,
    /// In a project nothing is written through a link.
    pub disk: RealDisk,
}

impl Target {
    pub fn find(scope: Scope, environment: &Environment, project: &Path) -> Result<Self, Failure> {
        let user = config_dir(environment).map(|dir| project.join(dir));
        let of_project = project.join(".claude");
        let (named, other_dir) = match scope {
            Scope::User => (user.ok_or_else(no_home)?, Some(of_project)),
            Scope::Project => (of_project, user),
        };
        let above = ekiden_store::disk::parent(&named);
        if !above.is_dir() {
            let text = format!(
                "cannot install into `{}`: there is no such directory",
                above.display()
            );
            return Err(Failure::new(Exit::MissingInput, text)
                .hint("create it, or correct `HOME` or `CLAUDE_CONFIG_DIR`"));
        }
        let dir = resolve(&named)?;
        // `settings.json` of a project is committed, and others have ekiden elsewhere.
        let (name, other_name) = match scope {
            Scope::User => ("settings.json", "settings.local.json"),
            Scope::Project => ("settings.local.json", "settings.json"),
        };
        let file = dir.join(name);
        let settings = resolve(&file)?;
        if scope == Scope::Project {
            for (named, path) in [(&named, &dir), (&file, &settings)] {
                stay_within(project, named, path)?;
            }
        }
        let state = state_file(environment).ok_or_else(no_home)?;
        let own = environment.state_home().ok_or_else(no_home)?.join("ekiden");
        let receipt = ReceiptDir::of(&own, &settings);
        let other = other_dir.as_ref().map(|dir| dir.join(other_name));
        let other = other.and_then(|file| resolve(&file).ok());
        let other_receipt = other.map(|settings| ReceiptDir::of(&own, &settings));
        let disk = match scope {
            Scope::User => RealDisk::new(),
            Scope::Project => RealDisk::fenced(project),
        };
        Ok(Self {
            scope,
            dir,
            settings,
            state: resolve(&project.join(state))?,
            project: (scope == Scope::Project).then(|| project.display().to_string()),
            other_dir,
            receipt,
            other_receipt,
            disk,
        })
    }
}

/// The path with links followed; the path itself if nothing is there.
fn resolve(path: &Path) -> Result<PathBuf, Failure> {
    let failed = |why: &str| {
        let text = format!("cannot use `{}`: {why}", path.display());
        Failure::new(Exit::State, text)
    };
    match (path.canonicalize(), path.read_link()) {
        (Ok(resolved), _) => Ok(resolved),
        (Err(error), Ok(to)) if error.kind() == ErrorKind::NotFound => {
            let why = format!(
                "it is a symbolic link to `{}`, which does not exist",
                to.display()
            );
            Err(failed(&why)
                .hint("create what it leads to, or remove the link; nothing was changed"))
        }
        // The directory above is resolved, so that the path stays the same once it exists.
        (Err(error), Err(_)) if error.kind() == ErrorKind::NotFound => {
            let (above, name) = (path.parent(), path.file_name());
            let above = above.and_then(|above| above.canonicalize().ok());
            let resolved = above.zip(name).map(|(above, name)| above.join(name));
            Ok(resolved.unwrap_or_else(|| path.to_owned()))
        }
        (Err(error), _) => Err(failed(&error.to_string())),
    }
}

/// A cloned repository may contain a link, and nobody who sets up a project wants other files changed.
fn stay_within(project: &Path, named: &Path, path: &Path) -> Result<(), Failure> {
    if path.starts_with(project) {
        return Ok(());
    }
    let text = format!(
        "cannot change `{}`: it is a symbolic link out of the project, to `{}`",
        named.display(),
        path.display()
    );
    Err(Failure::new(Exit::NotPermitted, text).hint(
        "nothing was changed; without `--project` the guard is installed for all your sessions",
    ))
}

fn no_home() -> Failure {
    Failure::no_home("your settings of Claude Code")
}
