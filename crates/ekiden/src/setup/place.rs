//! Where the guard is installed: the client's directory and settings file, and the receipt's place.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use ekiden_store::disk::RealDisk;
use ekiden_store::receipt::ReceiptDir;

use crate::client::settings::config_dir;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::settings::environment::Environment;

/// For whom the guard is installed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// For all sessions of the user.
    User,
    /// For sessions in one project.
    Project,
}

/// The client's directory of a scope.
#[derive(Debug)]
pub struct Place {
    /// For whom.
    pub scope: Scope,
    /// `.claude`, links followed.
    pub dir: PathBuf,
    /// `settings.json` in it, links followed.
    pub settings: PathBuf,
    /// The client's directory of the other scope: its commands have names too.
    pub other_dir: Option<PathBuf>,
    /// Where the receipt lies.
    pub receipt: ReceiptDir,
    /// The files. Those of a project are written without passing a link.
    pub disk: RealDisk,
}

impl Place {
    /// Finds out; creates nothing.
    ///
    /// # Errors
    ///
    /// If there is no home, or a link leads nowhere, or out of the project.
    pub fn find(scope: Scope, environment: &Environment, project: &Path) -> Result<Self, Failure> {
        let user = config_dir(environment).map(|dir| project.join(dir));
        let of_project = project.join(".claude");
        let (named, other_dir) = match scope {
            Scope::User => (user.ok_or_else(no_home)?, Some(of_project)),
            Scope::Project => (of_project, user),
        };
        let above = ekiden_store::disk::parent(&named);
        if !above.is_dir() {
            let text = format!("cannot install into `{}`: there is no such directory", above.display());
            return Err(Failure::new(Exit::MissingInput, text));
        }
        let dir = resolve(&named)?;
        let settings = resolve(&dir.join("settings.json"))?;
        if scope == Scope::Project {
            for (named, path) in [(&named, &dir), (&dir.join("settings.json"), &settings)] {
                stay_within(project, named, path)?;
            }
        }
        let receipt = ReceiptDir::of(&state_home(environment).ok_or_else(no_home)?, &settings);
        let disk = match scope {
            Scope::User => RealDisk::new(),
            Scope::Project => RealDisk::fenced(project),
        };
        Ok(Self { scope, dir, settings, other_dir, receipt, disk })
    }
}

/// Where the user's programs keep what is theirs to keep.
fn state_home(environment: &Environment) -> Option<PathBuf> {
    let named = environment.variable("XDG_STATE_HOME").map(PathBuf::from).filter(|dir| dir.is_absolute());
    let in_home = || environment.variable("HOME").map(|home| Path::new(home).join(".local/state"));
    named.or_else(in_home).map(|state| state.join("ekiden"))
}

/// The path with links followed; the path itself if nothing is there.
fn resolve(path: &Path) -> Result<PathBuf, Failure> {
    let failed = |text: String| Failure::new(Exit::State, format!("cannot use `{}`: {text}", path.display()));
    match path.canonicalize() {
        Ok(resolved) => Ok(resolved),
        Err(error) if error.kind() == ErrorKind::NotFound => match path.read_link() {
            Ok(target) => {
                let text = format!("it is a symbolic link to `{}`, which is not there", target.display());
                Err(failed(text).hint("make what it leads to, or remove the link; nothing was changed"))
            }
            Err(_) => Ok(path.to_owned()),
        },
        Err(error) => Err(failed(error.to_string())),
    }
}

/// WHY: a cloned repository may bring a link, and nobody who sets up a project means other files.
fn stay_within(project: &Path, named: &Path, path: &Path) -> Result<(), Failure> {
    if path.starts_with(project) {
        return Ok(());
    }
    let text = format!(
        "cannot change `{}`: it is a symbolic link out of the project, to `{}`",
        named.display(),
        path.display()
    );
    Err(Failure::new(Exit::NotPermitted, text)
        .hint("nothing was changed; `ekiden setup` is for your own settings"))
}

fn no_home() -> Failure {
    Failure::new(Exit::Settings, "cannot tell where your settings of Claude Code are: HOME is not set")
        .hint("set HOME, or CLAUDE_CONFIG_DIR and XDG_STATE_HOME")
}
