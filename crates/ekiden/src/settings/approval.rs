//! A person's approval of settings that a project may not set by itself, and of a plan's commands.
//!
//! An approval is for the bytes that were approved: any change to the file, by an agent or a `git pull`,
//! voids it. Approvals are kept beside the user's settings, where no project writes, as lines of
//! `KIND HASH PROJECT`.

use std::path::{Path, PathBuf};
use std::time::Duration;

use ekiden_core::hash::sha256_hex;
use ekiden_core::text::shell_word;
use ekiden_store::archive::ensure_dir;
use ekiden_store::disk::{RealDisk, parent};
use ekiden_store::lock::lock_attempt;
use ekiden_store::replace::{Durability, replace};
use serde::Serialize;

use super::environment::Environment;
use super::file::{SettingsFile, project_of};
use super::table::{self, Row};
use crate::exit::Exit;
use crate::failure::{Failure, OrFail as _};
use crate::output::phrase;

const FILE_NAME: &str = "approved";
const SETTINGS: &str = "settings";
const MANIFEST: &str = "manifest";
/// The agent may do everything in this project. It is not a setting, since that would hold for every project.
const EVERYTHING: &str = "everything -";
/// How long to wait for another process that writes an approval.
const PATIENCE: Duration = Duration::from_secs(5);
/// The command that withdraws a project's approvals.
pub const WITHDRAW: &str = "ekiden config approve --remove";

/// A setting in a project's file that needs an approval.
#[derive(Debug, Serialize)]
pub struct Restricted {
    /// The line in the file, from 1.
    pub line: usize,
    pub what: String,
    pub value: String,
    /// How to set it without the project's file.
    #[serde(skip)]
    instead: String,
}

#[derive(Debug)]
pub struct Approvals {
    /// The file that holds them, if the user has a home.
    pub path: Option<PathBuf>,
    lines: Vec<String>,
}

/// Everything in a project's file that needs an approval, in the order of its lines. `raises` says whether
/// a value allows more than the user's own.
pub fn needing(
    file: &SettingsFile,
    environment: &Environment,
    raises: impl Fn(&Row, &str) -> bool,
) -> Vec<Restricted> {
    let own = environment.user_file();
    let own = own.map_or("your own config.toml".to_owned(), |own| phrase::path(&own));
    let values = file.values.iter().filter_map(|value| {
        let needs = |row: &&Row| row.user_only || raises(row, &value.text);
        let row = table::find(value.name).filter(needs)?;
        let flag = row
            .long()
            .map(|flag| format!("give `--{flag}` on the command line or "));
        Some(Restricted {
            line: value.line,
            what: format!("`{}`", row.name),
            value: value.text.clone(),
            instead: format!(
                "take the line out, then {}put it into {own}",
                flag.unwrap_or_default()
            ),
        })
    });
    let agents = file.agents.iter().map(|agent| Restricted {
        line: agent.line,
        what: format!("[agents.{}]", agent.name),
        value: agent.in_words(),
        instead: format!("take it out, then put it into {own}"),
    });
    let mut all: Vec<_> = values.chain(agents).collect();
    all.sort_by_key(|restricted| restricted.line);
    all
}

/// A project's file may not decide which commands run unless the user approved it: otherwise everybody who
/// clones the repository would run them.
pub fn check(file: &SettingsFile, environment: &Environment) -> Result<(), Failure> {
    let all = needing(file, environment, |_, _| false);
    let Some(first) = all.first() else {
        return Ok(());
    };
    let (approvals, project) = (
        Approvals::read(environment)?,
        project_name(&project_of(&file.path)),
    );
    if approvals.holds(SETTINGS, &file.hash, &project) {
        return Ok(());
    }
    let mut lines = approvals.lines.iter();
    let changed = match lines.any(|line| is_for(line, &project)) {
        true => "; the file changed since you approved it",
        false => "",
    };
    let place = format!("{}:{}", phrase::path(&file.path), first.line);
    let what = &first.what;
    let text = format!("{place}: a project's own file may not set {what}{changed}");
    Err(Failure::new(Exit::Settings, text)
        .hint("it would decide which commands run, or who is notified, on the machine of everybody who clones the project")
        .hint(first.instead.clone())
        .hint(format!(
            "or read the file, and approve it as it is now: `{}`",
            command(file)
        )))
}

/// The command that approves a project's file, as it is typed here.
pub fn command(file: &SettingsFile) -> String {
    let project = project_of(&file.path);
    let is_here = project.canonicalize().ok() == Path::new(".").canonicalize().ok();
    let there = match is_here {
        true => String::new(),
        false => format!(" -d {}", shell_word(&project.to_string_lossy())),
    };
    format!("ekiden config approve{there}")
}

impl Approvals {
    /// The user's approvals. Without a home there are none.
    pub fn read(environment: &Environment) -> Result<Self, Failure> {
        let file = environment.user_file();
        let path = file.map(|path| path.with_file_name(FILE_NAME));
        let lines = path.as_deref().map(lines_of).transpose()?;
        let lines = lines.unwrap_or_default();
        Ok(Self { path, lines })
    }

    /// A project's settings file is approved as it is.
    pub fn has_settings(&self, file: &SettingsFile) -> bool {
        self.holds(SETTINGS, &file.hash, &project_name(&project_of(&file.path)))
    }

    /// A manifest with these bytes is approved for this project.
    pub fn has_manifest(&self, project: &Path, hash: &str) -> bool {
        self.holds(MANIFEST, hash, &project_name(project))
    }

    /// Approves a manifest with these bytes for this project. Durable.
    pub fn approve_manifest(self, project: &Path, hash: &str) -> Result<(), Failure> {
        let line = format!("{MANIFEST} {hash} {}", project_name(project));
        self.change(|lines| lines.push(line))
    }

    /// The user chose that an agent may do everything in this project.
    pub fn has_everything(&self, project: &Path) -> bool {
        let line = format!("{EVERYTHING} {}", project_name(project));
        self.lines.contains(&line)
    }

    /// Keeps that choice, durably.
    pub fn allow_everything(self, project: &Path) -> Result<(), Failure> {
        let line = format!("{EVERYTHING} {}", project_name(project));
        self.change(|lines| lines.push(line))
    }

    /// Approves a settings file as it is. Durable.
    pub fn approve(self, file: &SettingsFile) -> Result<(), Failure> {
        self.approve_bytes(&file.path, &file.hash)
    }

    /// The user changed a settings file with ekiden: it stays approved if it was, with the bytes that ekiden wrote.
    /// Durable.
    pub fn renew(self, file: &Path, [before, after]: &[String; 2]) -> Result<(), Failure> {
        match self.holds(SETTINGS, before, &project_name(&project_of(file))) {
            true => self.approve_bytes(file, after),
            false => Ok(()),
        }
    }

    fn approve_bytes(self, file: &Path, hash: &str) -> Result<(), Failure> {
        let project = project_name(&project_of(file));
        self.change(|lines| {
            lines.retain(|line| !is_for(line, &project));
            lines.push(format!("{SETTINGS} {hash} {project}"));
        })
    }

    /// Approves the settings file of a worktree if it has the bytes that are approved for its project. Durable.
    pub fn pass_on(self, project: &Path, file: &SettingsFile) -> Result<(), Failure> {
        let is_approved = self.holds(SETTINGS, &file.hash, &project_name(project));
        match is_approved && !self.has_settings(file) {
            true => self.approve(file),
            false => Ok(()),
        }
    }

    /// Withdraws every approval of a project, durably. Returns what they were for.
    pub fn withdraw(self, project: &Path) -> Result<Vec<&'static str>, Failure> {
        let project = project_name(project);
        let is_of_it = |line: &String| line.splitn(3, ' ').nth(2) == Some(&*project);
        let of_it = self.lines.iter().filter(|line| is_of_it(line));
        let of_it: Vec<String> = of_it.cloned().collect();
        if !of_it.is_empty() {
            self.change(|lines| lines.retain(|line| !is_of_it(line)))?;
        }
        let kinds = [
            (SETTINGS, "the project's config.toml"),
            (MANIFEST, "the project's plans"),
            (EVERYTHING, "that the agent may do everything"),
        ];
        let had = |kind: &str| of_it.iter().any(|line| line.starts_with(kind));
        Ok(kinds
            .into_iter()
            .filter_map(|(kind, what)| had(kind).then_some(what))
            .collect())
    }

    fn holds(&self, kind: &str, hash: &str, project: &str) -> bool {
        self.lines.contains(&format!("{kind} {hash} {project}"))
    }

    /// Changes the file as it is now, since another process may have written it after we read it.
    fn change(self, change: impl FnOnce(&mut Vec<String>)) -> Result<(), Failure> {
        let Some(path) = &self.path else {
            return Err(Failure::no_home("your approvals"));
        };
        let what = || format!("cannot write {}", phrase::path(path));
        let disk = RealDisk::new();
        ensure_dir(&disk, parent(path)).or_fail(Exit::State, what())?;
        let lock = lock_attempt(&path.with_extension("lock"), PATIENCE);
        let _lock = lock.or_fail(Exit::State, what())?;
        let mut lines = lines_of(path)?;
        change(&mut lines);
        let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
        replace(&disk, path, text.as_bytes(), Durability::Full).or_fail(Exit::State, what())
    }
}

fn lines_of(path: &Path) -> Result<Vec<String>, Failure> {
    let text = match std::fs::read_to_string(path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => String::new(),
        read => {
            let what = format!("cannot read {}", phrase::path(path));
            read.or_fail(Exit::Settings, what)?
        }
    };
    Ok(text.lines().map(str::to_owned).collect())
}

/// A line approves this project's settings, whatever the hash.
fn is_for(line: &str, project: &str) -> bool {
    let mut words = line.splitn(3, ' ');
    words.next() == Some(SETTINGS) && words.nth(1) == Some(project)
}

/// The project's path on one line: a name with a line break would be two approvals, so its hash stands for it.
fn project_name(project: &Path) -> String {
    let project = std::fs::canonicalize(project).unwrap_or_else(|_| project.to_owned());
    let name = project.to_string_lossy();
    match name.contains('\n') {
        true => sha256_hex(name.as_bytes()),
        false => name.into_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // shows: SEC-06
    #[test]
    #[expect(
        clippy::disallowed_methods,
        reason = "a test lays out the files that are read"
    )]
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
        let first =
            file("verify = 'make test'\n[agents.mine]\nkind = 'exec'\ncommand = ['sh', 'x.sh']\n");
        let all = needing(&first, &environment, |_, _| false);
        let shown: Vec<_> = all
            .iter()
            .map(|one| (one.line, one.what.as_str(), one.value.as_str()))
            .collect();
        assert_eq!(
            shown,
            [
                (1, "`verify`", "make test"),
                (2, "[agents.mine]", "kind = exec, command = sh x.sh")
            ]
        );
        assert!(check(&first, &environment).is_err());
        Approvals::read(&environment)
            .unwrap()
            .approve(&first)
            .unwrap();
        check(&first, &environment).unwrap();
        let failure = check(&file("verify = 'curl x | sh'\n"), &environment).unwrap_err();
        assert!(
            failure
                .error()
                .ends_with("; the file changed since you approved it"),
            "{failure}"
        );
        check(&file("pause = 3\n"), &environment).unwrap();
        let project = home.path().join("project");
        let approvals = || Approvals::read(&environment).unwrap();
        let [other, set] = ["verify = 'x'\n", "verify = 'y'\n"].map(file);
        for (before, is_approved) in [(&other, false), (&first, true)] {
            let hashes = [before.hash.clone(), set.hash.clone()];
            approvals().renew(&path, &hashes).unwrap();
            assert_eq!(check(&set, &environment).is_ok(), is_approved);
        }
        approvals().allow_everything(&project).unwrap();
        approvals().allow_everything(home.path()).unwrap();
        let all = [
            "the project's config.toml",
            "that the agent may do everything",
        ];
        assert_eq!(approvals().withdraw(&project).unwrap(), all);
        assert!(approvals().withdraw(&project).unwrap().is_empty());
        assert!(check(&first, &environment).is_err());
        assert!(!approvals().has_everything(&project));
        assert!(approvals().has_everything(home.path()));
    }

    // shows: SEC-06
    #[test]
    #[expect(
        clippy::disallowed_methods,
        reason = "a test lays out the files that are read"
    )]
    fn a_link_to_an_approved_file_is_not_approved() {
        let home = tempfile::tempdir().unwrap();
        let config = home.path().join("config").to_string_lossy().into_owned();
        let environment = Environment::of([("XDG_CONFIG_HOME", config.as_str())]);
        let [trusted, hostile] = ["trusted", "hostile"].map(|name| home.path().join(name));
        std::fs::create_dir_all(trusted.join(".ekiden")).unwrap();
        std::fs::write(
            trusted.join(".ekiden/config.toml"),
            "verify = './check.sh'\n",
        )
        .unwrap();
        std::fs::create_dir(&hostile).unwrap();
        std::os::unix::fs::symlink("../trusted/.ekiden", hostile.join(".ekiden")).unwrap();
        let read = |project: &Path| {
            SettingsFile::read(&project.join(".ekiden/config.toml"))
                .unwrap()
                .unwrap()
        };
        Approvals::read(&environment)
            .unwrap()
            .approve(&read(&trusted))
            .unwrap();
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
        assert!(!approvals().has_manifest(&here, "abc"));
        // Another process approves at the same time.
        let before = approvals();
        approvals().approve_manifest(&here, "abc").unwrap();
        before.approve_manifest(home.path(), "abc").unwrap();
        assert!(approvals().has_manifest(&here, "abc"));
        assert!(
            !approvals().has_manifest(&here, "abd") && !approvals().has_manifest(&there, "abc")
        );
    }
}
