//! A project, the program in it, and its log.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;
use tempfile::TempDir;

/// A repository with one commit.
pub(crate) struct Project {
    dir: TempDir,
}

impl Project {
    pub(crate) fn new() -> Self {
        let dir = tempfile::Builder::new()
            .prefix("ekiden-project-")
            .tempdir()
            .unwrap();
        let project = Self { dir };
        project.git(&["init", "--quiet", "--initial-branch=main"]);
        project.git(&["commit", "--quiet", "--allow-empty", "--message=begin"]);
        project
    }

    /// The path with links resolved, as ekiden and the client see it.
    pub(crate) fn path(&self) -> PathBuf {
        self.dir.path().canonicalize().unwrap()
    }

    pub(crate) fn write(&self, name: &str, text: &str) {
        let path = self.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    pub(crate) fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.path().join(name)).unwrap_or_default()
    }

    fn git(&self, args: &[&str]) {
        let mut git = Command::new("git");
        git.args([
            "-c",
            "user.name=Test",
            "-c",
            "user.email=test@example.invalid",
        ]);
        let done = git
            .args(args)
            .current_dir(self.dir.path())
            .status()
            .unwrap();
        assert!(done.success(), "git {args:?}");
    }

    /// The records of the only run.
    pub(crate) fn log(&self) -> Vec<Value> {
        let runs = self.path().join(".git/ekiden/root/runs");
        let run = std::fs::read_dir(runs)
            .unwrap()
            .next()
            .unwrap()
            .unwrap()
            .path();
        let text = std::fs::read_to_string(run.join("log.jsonl")).unwrap();
        text.lines()
            .skip(1)
            .map(|line| serde_json::from_str(line).unwrap())
            .collect()
    }
}

/// The program under test, in a project.
pub(crate) fn ekiden(project: &Project) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ekiden"));
    command.current_dir(project.path());
    command
}

/// Runs it to its end and shows what it said if that is not the expected end.
pub(crate) fn expect_exit(command: &mut Command, code: i32) -> String {
    let output: Output = command.output().unwrap();
    let out = String::from_utf8_lossy(&output.stdout).into_owned();
    let err = String::from_utf8_lossy(&output.stderr);
    assert_eq!(
        output.status.code(),
        Some(code),
        "stdout:\n{out}\nstderr:\n{err}"
    );
    out
}

/// What happened in one session, as words: the events and the effects that talk to the agent.
pub(crate) fn course(log: &[Value], session: u64) -> Vec<String> {
    let mut words = Vec::new();
    for record in log {
        let event = &record["event"]["event"];
        if event["attempt"]["session"] == session {
            words.push(event_word(&event["event"]));
        }
        for effect in record["effects"].as_array().unwrap() {
            let effect = &effect["effect"];
            let said = &effect["effect"]["text"];
            if effect["attempt"]["session"] == session && said.is_string() {
                words.push(format!("say {}", first_words(said.as_str().unwrap())));
            }
        }
    }
    words
}

fn event_word(event: &Value) -> String {
    match event["kind"].as_str().unwrap() {
        "level_crossed" => format!("level {}", event["level"].as_str().unwrap()),
        "ended" => format!("ended {}", event["cause"]),
        other => other.to_owned(),
    }
}

fn first_words(text: &str) -> String {
    text.split_whitespace()
        .take(5)
        .collect::<Vec<_>>()
        .join(" ")
}

/// The directory of the newest run's sessions.
pub(crate) fn session_dir(project: &Project, session: u32) -> PathBuf {
    let runs = project.path().join(".git/ekiden/root/runs");
    let run = std::fs::read_dir(runs)
        .unwrap()
        .next()
        .unwrap()
        .unwrap()
        .path();
    run.join("sessions").join(session.to_string())
}

/// A file's text, empty if there is none.
pub(crate) fn text_of(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_default()
}
