//! A person's approval of what a project's own settings file may not say by itself.
//!
//! It holds for this file with these bytes: whoever changes it, an agent or a `git pull`, loses it. The
//! approvals lie beside the user's settings, where no project writes, a line each: hash and project.

use std::path::{Path, PathBuf};

use ekiden_core::hash::sha256_hex;
use ekiden_store::disk::{DiskResult, RealDisk};
use ekiden_store::replace::{Durability, replace};
use serde::Serialize;

use super::environment::Environment;
use super::file::SettingsFile;
use super::remember::create_dirs;
use super::setting::{AnySetting, Trust};
use super::table;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::phrase;

/// The file's name.
const FILE_NAME: &str = "approved";

/// What stands in place of a hash for an approved manifest.
const MANIFEST: &str = "manifest";

/// What a project's file says that it may not say by itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Restricted {
    /// The line in the file, from 1.
    pub line: usize,
    /// What is set there.
    pub what: String,
    /// What is said of it.
    pub value: String,
    #[serde(skip)]
    /// Where the user says it instead.
    instead: String,
}

/// How a file stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Standing {
    Approved,
    Changed,
    Unknown,
}

/// The approvals of a user.
#[derive(Debug)]
pub struct Approvals {
    path: Option<PathBuf>,
    /// Hash and project.
    lines: Vec<(String, String)>,
}

/// Every restricted thing of a file, in the order of its lines.
#[must_use]
pub fn restricted(file: &SettingsFile, environment: &Environment) -> Vec<Restricted> {
    let own = environment.user_file().map_or("your own config.toml".to_owned(), |path| phrase::path(&path));
    let row_of = |name| table::find(name).map(AnySetting::row).filter(|row| row.trust == Trust::User);
    let values = file.values.iter().filter_map(|value| {
        let row = row_of(value.name)?;
        let flag = row.long.unwrap_or(row.name);
        Some(Restricted {
            line: value.line,
            what: format!("`{}`", row.name),
            value: value.text.clone(),
            instead: format!("give `--{flag}` on the command line, or put it into {own}"),
        })
    });
    let agents = file.agents.iter().map(|agent| Restricted {
        line: agent.line,
        what: format!("[agents.{}]", agent.name),
        value: agent.command.as_ref().map(|words| words.join(" ")).unwrap_or_default(),
        instead: format!("put it into {own}"),
    });
    let mut all: Vec<_> = values.chain(agents).collect();
    all.sort_by_key(|restricted| restricted.line);
    all
}

/// A project's file may not decide which commands run, unless a person has approved it: whoever clones a
/// repository would run them.
///
/// # Errors
///
/// If it says so without an approval, or the approvals cannot be read.
pub fn check(file: &SettingsFile, environment: &Environment) -> Result<(), Failure> {
    let all = restricted(file, environment);
    let Some(first) = all.first() else { return Ok(()) };
    let changed = match Approvals::read(environment)?.standing(file) {
        Standing::Approved => return Ok(()),
        Standing::Changed => ", and the file is not the one that was approved",
        Standing::Unknown => "",
    };
    let path = phrase::path(&file.path);
    let text = format!("{path}:{}: a project's own file may not set {}{changed}", first.line, first.what);
    Err(Failure::new(Exit::Settings, text)
        .hint("it would decide what runs on the machine of everybody who clones the project")
        .hint(first.instead.clone())
        .hint("or read the file, and approve it as it is now: `ekiden config approve`"))
}

impl Approvals {
    /// Those of the user, none without a home.
    ///
    /// # Errors
    ///
    /// If they cannot be read.
    pub fn read(environment: &Environment) -> Result<Self, Failure> {
        let path = environment.user_file().map(|path| path.with_file_name(FILE_NAME));
        let text = match path.as_deref().map(std::fs::read_to_string) {
            Some(Ok(text)) => text,
            Some(Err(error)) if error.kind() != std::io::ErrorKind::NotFound => {
                let what = format!("cannot read {}", path.as_deref().map(phrase::path).unwrap_or_default());
                return Err(Failure::caused(Exit::Settings, &what, &error));
            }
            None | Some(Err(_)) => String::new(),
        };
        let pair = |line: &str| line.split_once(' ').map(|(hash, path)| (hash.to_owned(), path.to_owned()));
        Ok(Self { path, lines: text.lines().filter_map(pair).collect() })
    }

    fn standing(&self, file: &SettingsFile) -> Standing {
        let name = name_of(&file.path);
        match self.lines.iter().find(|(_, path)| *path == name) {
            Some((hash, _)) if *hash == file.hash => Standing::Approved,
            Some(_) => Standing::Changed,
            None => Standing::Unknown,
        }
    }

    /// A manifest with these bytes is approved for this project.
    #[must_use]
    pub fn holds(&self, project: &Path, hash: &str) -> bool {
        let name = format!("{} {hash}", manifest_name(project));
        self.lines.iter().any(|(kind, known)| kind == MANIFEST && *known == name)
    }

    /// Approves a manifest with these bytes for this project. Durable.
    ///
    /// # Errors
    ///
    /// If that cannot be written.
    pub fn approve_manifest(mut self, project: &Path, hash: &str) -> Result<(), Failure> {
        self.lines.push((MANIFEST.to_owned(), format!("{} {hash}", manifest_name(project))));
        self.write()
    }

    /// Approves a file as it is. Durable.
    ///
    /// # Errors
    ///
    /// If that cannot be written.
    pub fn approve(mut self, file: &SettingsFile) -> Result<(), Failure> {
        let name = name_of(&file.path);
        self.lines.retain(|(_, path)| *path != name);
        self.lines.push((file.hash.clone(), name));
        self.write()
    }

    /// Withdraws the approval of a file; whether there was one. Durable.
    ///
    /// # Errors
    ///
    /// If that cannot be written.
    pub fn withdraw(mut self, file: &Path) -> Result<bool, Failure> {
        let (name, before) = (name_of(file), self.lines.len());
        self.lines.retain(|(_, path)| *path != name);
        let had = self.lines.len() < before;
        if had {
            self.write()?;
        }
        Ok(had)
    }

    fn write(&self) -> Result<(), Failure> {
        let Some(path) = &self.path else {
            return Err(Failure::new(Exit::Settings, "no approval can be kept without a home directory"));
        };
        let text: String = self.lines.iter().map(|(hash, path)| format!("{hash} {path}\n")).collect();
        let written = || -> DiskResult<()> {
            let disk = RealDisk::new();
            create_dirs(&disk, ekiden_store::disk::parent(path))?;
            replace(&disk, path, text.as_bytes(), Durability::Full)
        };
        let failed =
            |error| Failure::caused(Exit::State, &format!("cannot write {}", phrase::path(path)), &error);
        written().map_err(failed)
    }
}

/// A manifest holds for one project; its name says which, on one line.
fn manifest_name(project: &Path) -> String {
    name_of(&project.join(".ekiden").join(FILE_NAME))
}

/// The project that the file speaks for, on one line. Not the place that the file itself lies in: a link to
/// another project's approved file would have its commands run here, where they may mean something else.
fn name_of(file: &Path) -> String {
    let project = file.ancestors().nth(2).filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let project = std::fs::canonicalize(project).unwrap_or_else(|_| project.to_owned());
    let name = project.to_string_lossy();
    // Nobody calls a directory so, and a name of two lines would be two approvals.
    if name.contains('\n') { sha256_hex(name.as_bytes()) } else { name.into_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    // shows: SEC-06
    #[test]
    #[expect(clippy::disallowed_methods, reason = "a test lays out the files that are read")]
    fn an_approval_holds_for_the_bytes_that_were_approved() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("project/.ekiden/config.toml");
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        let config = home.path().join("config").to_string_lossy().into_owned();
        let environment = Environment::of([("XDG_CONFIG_HOME", config.as_str())]);
        let file = |text: &str| {
            std::fs::write(&path, text).unwrap();
            SettingsFile::read(&path).unwrap().unwrap()
        };
        let first = file("verify = 'make test'\n[agents.mine]\nkind = 'exec'\ncommand = ['sh', 'x.sh']\n");
        let all = restricted(&first, &environment);
        let shown: Vec<_> = all.iter().map(|one| (one.line, one.what.as_str(), one.value.as_str())).collect();
        assert_eq!(shown, [(1, "`verify`", "make test"), (2, "[agents.mine]", "sh x.sh")]);
        assert!(check(&first, &environment).is_err());
        Approvals::read(&environment).unwrap().approve(&first).unwrap();
        check(&first, &environment).unwrap();
        let failure = check(&file("verify = 'curl x | sh'\n"), &environment).unwrap_err();
        assert!(failure.error().ends_with("the file is not the one that was approved"), "{failure}");
        check(&file("pause = 3\n"), &environment).unwrap();
        assert!(Approvals::read(&environment).unwrap().withdraw(&path).unwrap());
        assert!(!Approvals::read(&environment).unwrap().withdraw(&path).unwrap());
        assert!(check(&first, &environment).is_err());
    }

    // shows: SEC-06
    #[test]
    #[expect(clippy::disallowed_methods, reason = "a test lays out the files that are read")]
    fn a_link_to_an_approved_file_is_not_approved() {
        let home = tempfile::tempdir().unwrap();
        let config = home.path().join("config").to_string_lossy().into_owned();
        let environment = Environment::of([("XDG_CONFIG_HOME", config.as_str())]);
        let [trusted, hostile] = ["trusted", "hostile"].map(|name| home.path().join(name));
        std::fs::create_dir_all(trusted.join(".ekiden")).unwrap();
        std::fs::write(trusted.join(".ekiden/config.toml"), "verify = './check.sh'\n").unwrap();
        std::fs::create_dir(&hostile).unwrap();
        std::os::unix::fs::symlink("../trusted/.ekiden", hostile.join(".ekiden")).unwrap();
        let read =
            |project: &Path| SettingsFile::read(&project.join(".ekiden/config.toml")).unwrap().unwrap();
        Approvals::read(&environment).unwrap().approve(&read(&trusted)).unwrap();
        check(&read(&trusted), &environment).unwrap();
        assert!(check(&read(&hostile), &environment).is_err());
    }

    // shows: PLN-18
    #[test]
    fn a_manifest_is_approved_for_one_project_and_these_bytes() {
        let home = tempfile::tempdir().unwrap();
        let config = home.path().join("config").to_string_lossy().into_owned();
        let environment = Environment::of([("XDG_CONFIG_HOME", config.as_str())]);
        let (here, there) = (home.path().join("here"), home.path().join("there"));
        let approvals = || Approvals::read(&environment).unwrap();
        assert!(!approvals().holds(&here, "abc"));
        approvals().approve_manifest(&here, "abc").unwrap();
        assert!(approvals().holds(&here, "abc"));
        assert!(!approvals().holds(&here, "abd") && !approvals().holds(&there, "abc"));
    }
}
