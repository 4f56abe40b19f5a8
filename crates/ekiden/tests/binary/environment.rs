//! A project in an empty environment, and the program in it.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use ekiden_core::time::Millis;
use serde_json::Value;
use tempfile::TempDir;

use crate::normal::Normal;
use crate::running::{Running, Said};

/// The variable that every process of one environment has, and its children have from it.
pub(crate) const MARK: &str = "BINARY_TEST_MARK";

/// A work dir of its own, a home of its own, and these variables only. Whatever is left alive when it
/// is dropped is killed.
pub(crate) struct Environment {
    root: TempDir,
    variables: BTreeMap<String, String>,
}

impl Environment {
    /// A work dir that lies in no repository.
    pub(crate) fn new() -> Self {
        let root = tempfile::Builder::new()
            .prefix("ekiden-test-")
            .tempdir()
            .unwrap();
        let mut environment = Self {
            root,
            variables: BTreeMap::new(),
        };
        let (mark, home) = (environment.path(""), environment.path("home"));
        std::fs::create_dir(environment.dir()).unwrap();
        std::fs::create_dir(&home).unwrap();
        environment = environment
            .with("PATH", &std::env::var("PATH").unwrap())
            .with("HOME", home.to_str().unwrap())
            .with("TZ", "UTC")
            .with("LANG", "C.UTF-8")
            .with("GIT_CONFIG_NOSYSTEM", "1")
            .with("EKIDEN_REHEARSAL_STEP_MS", "0")
            .with(MARK, mark.to_str().unwrap());
        environment
    }

    /// A work dir that is a repository with one commit.
    pub(crate) fn with_git() -> Self {
        let environment = Self::new();
        environment.git(&["init", "--quiet", "--initial-branch=main"]);
        environment.commit_all();
        environment
    }

    /// The same with one more variable, or another value of it.
    pub(crate) fn with(mut self, name: &str, value: &str) -> Self {
        self.variables.insert(name.to_owned(), value.to_owned());
        self
    }

    /// A path beside the work dir, links resolved.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.root.path().canonicalize().unwrap().join(name)
    }

    /// The work dir.
    pub(crate) fn dir(&self) -> PathBuf {
        self.path("project")
    }

    /// What all processes of this environment bear.
    pub(crate) fn mark(&self) -> String {
        format!("{MARK}={}", self.variables[MARK])
    }

    /// Writes a file of the work dir.
    pub(crate) fn write(&self, name: &str, text: &str) {
        let path = self.dir().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    /// Writes a program of the work dir: a shell script.
    pub(crate) fn script(&self, name: &str, text: &str) {
        self.write(name, &format!("#!/bin/sh\n{text}"));
        let mode = std::fs::Permissions::from_mode(0o755);
        std::fs::set_permissions(self.dir().join(name), mode).unwrap();
    }

    /// A file of the work dir; empty if there is none.
    pub(crate) fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.dir().join(name)).unwrap_or_default()
    }

    pub(crate) fn exists(&self, name: &str) -> bool {
        self.dir().join(name).symlink_metadata().is_ok()
    }

    /// Runs the program to its end and tells everything that it said, without what differs from run
    /// to run.
    pub(crate) fn told(&self, args: &[&str]) -> String {
        self.normal(&self.run(args))
    }

    /// Runs the program to its end.
    pub(crate) fn run(&self, args: &[&str]) -> Said {
        self.start(args).end()
    }

    /// Runs the program to its end with this on its standard input.
    pub(crate) fn fed(&self, args: &[&str], input: &str) -> Said {
        let mut command = self.command(args);
        let mut child = command.stdin(Stdio::piped()).spawn().unwrap();
        child
            .stdin
            .take()
            .unwrap()
            .write_all(input.as_bytes())
            .unwrap();
        Running::of(child).end()
    }

    /// Starts the program.
    pub(crate) fn start(&self, args: &[&str]) -> Running {
        Running::of(self.command(args).spawn().unwrap())
    }

    /// Runs the program to its end in a directory beside the work dir, which is made if it is missing.
    pub(crate) fn run_in(&self, name: &str, args: &[&str]) -> Said {
        let dir = self.path(name);
        std::fs::create_dir_all(&dir).unwrap();
        let mut command = self.command(args);
        Running::of(command.current_dir(dir).spawn().unwrap()).end()
    }

    pub(crate) fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_ekiden"));
        command
            .args(args)
            .current_dir(self.dir())
            .env_clear()
            .envs(&self.variables);
        command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    }

    /// What was said, without what differs from run to run.
    pub(crate) fn normal(&self, said: &Said) -> String {
        self.normal_text(&said.to_string())
    }

    /// A text, without what differs from run to run.
    pub(crate) fn normal_text(&self, text: &str) -> String {
        let names = [
            (self.dir(), "PROJECT"),
            (self.path("home"), "HOME"),
            (self.path(""), "ROOT"),
        ];
        Normal::new(&names, self.runs()).text(text)
    }

    /// Runs a line of shell in the work dir.
    pub(crate) fn shell(&self, line: &str) {
        let done = self.shell_command(line).status();
        assert!(done.unwrap().success(), "{line}");
    }

    /// A line of shell in the work dir.
    pub(crate) fn shell_command(&self, line: &str) -> Command {
        let mut shell = Command::new("sh");
        shell
            .args(["-c", line])
            .current_dir(self.dir())
            .env_clear()
            .envs(&self.variables);
        shell
    }

    pub(crate) fn git(&self, args: &[&str]) -> String {
        let mut git = Command::new("git");
        git.args([
            "-c",
            "user.name=Test",
            "-c",
            "user.email=test@example.invalid",
        ])
        .args(args);
        let done = git
            .current_dir(self.dir())
            .env_clear()
            .envs(&self.variables)
            .output()
            .unwrap();
        assert!(
            done.status.success(),
            "git {args:?}: {}",
            String::from_utf8_lossy(&done.stderr)
        );
        String::from_utf8(done.stdout).unwrap()
    }

    pub(crate) fn commit_all(&self) {
        self.git(&["add", "--all"]);
        self.git(&["commit", "--quiet", "--allow-empty", "--message=begin"]);
    }
}

impl Drop for Environment {
    fn drop(&mut self) {
        // A test that cares has looked before.
        let _ = ekiden_agent::end_marked(MARK, &self.variables[MARK], Millis::from_secs(5));
    }
}

/// Looking at the state.
impl Environment {
    /// The state directory.
    pub(crate) fn state(&self) -> PathBuf {
        let of_git = self.dir().join(".git");
        if of_git.exists() {
            of_git.join("ekiden/root")
        } else {
            self.dir().join(".ekiden/state")
        }
    }

    /// The ids of all runs that have begun, oldest first.
    pub(crate) fn runs(&self) -> Vec<String> {
        let Ok(entries) = self.state().join("runs").read_dir() else {
            return Vec::new();
        };
        let dirs = entries.map(|entry| entry.unwrap().path());
        let mut runs: Vec<_> = dirs
            .filter_map(|dir| Some((began_at(&dir)?, dir)))
            .collect();
        runs.sort_unstable();
        runs.iter()
            .map(|(_, dir)| dir.file_name().unwrap().to_str().unwrap().to_owned())
            .collect()
    }

    /// The directory of the newest run.
    pub(crate) fn run_dir(&self) -> PathBuf {
        self.state().join("runs").join(self.runs().last().unwrap())
    }

    /// The directory of a session of the newest run.
    pub(crate) fn session(&self, number: u32) -> PathBuf {
        self.run_dir().join("sessions").join(number.to_string())
    }

    /// What one session of the newest run kept under this name.
    pub(crate) fn kept(&self, session: u32, name: &str) -> String {
        let path = self.session(session).join(name);
        std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
    }

    /// The records of the newest run that are whole.
    pub(crate) fn log(&self) -> Vec<Value> {
        let text = std::fs::read_to_string(self.run_dir().join("log.jsonl")).unwrap();
        text.lines()
            .skip(1)
            .filter_map(|line| serde_json::from_str(line).ok())
            .collect()
    }
}

/// The time of a run's first record, if it has one.
fn began_at(run: &Path) -> Option<u64> {
    let text = std::fs::read_to_string(run.join("log.jsonl")).ok()?;
    serde_json::from_str::<Value>(text.lines().nth(1)?).ok()?["time"].as_u64()
}

/// A task of so many items, each of which makes a file: `item-1.txt`, and so on.
pub(crate) fn items(count: u32) -> String {
    let item = |n| format!("- [ ] Item {n}\n\n  ```sh\n  echo made > item-{n}.txt\n  ```\n\n");
    format!(
        "Make the items.\n\n{}",
        (1..=count).map(item).collect::<String>()
    )
}

/// The same behind an item that takes a minute when it is met for the first time, and then makes the
/// file `started`.
pub(crate) fn slow_items(count: u32) -> String {
    let slow = "- [ ] Wait\n\n  ```sh\n  [ -e started ] || { touch started; sleep 60; }\n  ```\n\n";
    items(count).replacen("- [ ]", &format!("{slow}- [ ]"), 1)
}

/// Everything below a directory that is no link, with its mode.
pub(crate) fn modes(dir: &Path) -> Vec<(PathBuf, u32)> {
    let mut found = Vec::new();
    for entry in dir.read_dir().unwrap().map(|entry| entry.unwrap()) {
        let meta = entry.path().symlink_metadata().unwrap();
        if meta.is_symlink() {
            continue;
        }
        found.push((entry.path(), meta.permissions().mode() & 0o7777));
        if meta.is_dir() {
            found.extend(modes(&entry.path()));
        }
    }
    found
}
