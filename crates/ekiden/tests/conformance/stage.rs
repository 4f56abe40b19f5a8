//! An agent's stage: a project, an empty home, the fake service, and ekiden on them.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use ekiden_testkit::model_apis::{Answer, Asked, ModelApis};
use serde_json::Value;
use tempfile::TempDir;

use crate::agents::Agent;

/// RUN-10.
const PROMISE: Duration = Duration::from_secs(5);
/// Long beside what anything here takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);
/// The variable that marks every process of a stage.
const MARK: &str = "CONFORMANCE_STAGE";

/// One agent at a time: each takes some hundred megabytes and both cores.
static TURN: Mutex<()> = Mutex::new(());

pub(crate) struct Stage {
    project: TempDir,
    pub(crate) api: ModelApis,
    pub(crate) agent: Agent,
    /// Another one, that goes on for it.
    other: Option<Agent>,
    home: TempDir,
    _turn: MutexGuard<'static, ()>,
}

impl Stage {
    /// A stage, unless the agent is not installed.
    pub(crate) fn set(
        agent: Agent,
        model: impl FnMut(&Asked) -> Answer + Send + 'static,
    ) -> Option<Self> {
        let Some(program) = agent.program() else {
            let line = format!(
                "left out: {} (not installed; `cargo xtask agents` installs it)\n",
                agent.name
            );
            let needed = std::env::var("EKIDEN_NEED_AGENTS").unwrap_or_default();
            assert!(!needed.split(',').any(|name| name == agent.name), "{line}");
            // Nobody to tell: the test is left out either way.
            let _ = std::io::stderr().write_all(line.as_bytes());
            return None;
        };
        let turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
        let mut stage = Self {
            other: None,
            project: tempfile::Builder::new()
                .prefix("ekiden-project-")
                .tempdir()
                .unwrap(),
            api: ModelApis::start(model),
            agent,
            home: tempfile::Builder::new()
                .prefix("ekiden-home-")
                .tempdir()
                .unwrap(),
            _turn: turn,
        };
        for words in [
            "init --quiet --initial-branch=main",
            "commit --quiet --allow-empty --message=begin",
        ] {
            let mut git = Command::new("git");
            git.args([
                "-c",
                "user.name=Test",
                "-c",
                "user.email=test@example.invalid",
            ]);
            let done = git
                .args(words.split(' '))
                .current_dir(stage.dir())
                .status()
                .unwrap();
            assert!(done.success(), "git {words}");
        }
        stage.lead(agent, &program);
        Some(stage)
    }

    /// The project, as the agent sees it.
    pub(crate) fn dir(&self) -> PathBuf {
        self.project.path().canonicalize().unwrap()
    }

    /// What happened in a session, each event by its kind.
    pub(crate) fn course(&self, session: u64) -> Vec<String> {
        let runs = self.dir().join(".git/ekiden/root/runs");
        let run = std::fs::read_dir(runs).unwrap().flatten().next().unwrap();
        let log = std::fs::read_to_string(run.path().join("log.jsonl")).unwrap();
        let records = log.lines().skip(1);
        let records = records.map(|line| serde_json::from_str::<Value>(line).unwrap());
        let kind = |record: Value| {
            let event = &record["event"]["event"];
            let is_of = event["attempt"]["session"] == session;
            let kind = event["event"]["kind"].as_str()?.to_owned();
            is_of.then_some(kind)
        };
        records.filter_map(kind).collect()
    }

    /// The same stage with another agent beside the first, unless it is not installed.
    pub(crate) fn with(mut self, other: Agent) -> Option<Self> {
        let program = other.program()?;
        self.lead(other, &program);
        self.other = Some(other);
        Some(self)
    }

    /// Leads an agent to the service: its files, and its row in the settings.
    fn lead(&mut self, agent: Agent, program: &Path) {
        if let Some((name, text)) = agent.files(&self.api.url()) {
            self.put(name, &text);
        }
        let first = [program.to_str().unwrap()];
        let words: Vec<&str> = first
            .into_iter()
            .chain(agent.command[1..].iter().copied())
            .collect();
        let row = format!(
            "[agents.{}]\nkind = \"{}\"\ncommand = {words:?}\n",
            agent.name, agent.kind
        );
        let name = "settings/ekiden/config.toml";
        let before = std::fs::read_to_string(self.home.path().join(name)).unwrap_or_default();
        self.put(name, &(before + &row));
    }

    fn put(&self, name: &str, text: &str) {
        let path = self.home.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    /// ekiden with nothing around it but what leads the agent to the service.
    pub(crate) fn ekiden(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_ekiden"));
        let home = self.home.path();
        command
            .current_dir(self.dir())
            .args(args)
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap())
            .env("HOME", home)
            .env("LANG", "C.UTF-8")
            .env(MARK, home)
            .env("EKIDEN_AGENT", self.agent.name)
            .envs(self.agent.variables(&self.api.url(), home));
        let other = self
            .other
            .map(|other| other.variables(&self.api.url(), home));
        command.envs(other.into_iter().flatten());
        let settings = home.join("settings");
        if self.agent.name == "opencode" {
            // It has the same directory for its own settings.
            std::fs::create_dir_all(home.join(".config/ekiden")).unwrap();
            let row = std::fs::read(settings.join("ekiden/config.toml")).unwrap();
            std::fs::write(home.join(".config/ekiden/config.toml"), row).unwrap();
        } else {
            command.env("XDG_CONFIG_HOME", settings);
        }
        for name in ["AUTHOR", "COMMITTER"] {
            command.env(format!("GIT_{name}_NAME"), "Test");
            command.env(format!("GIT_{name}_EMAIL"), "test@example.invalid");
        }
        command
    }

    /// A run to its end: what it said, and its exit code.
    pub(crate) fn run(&self, args: &[&str]) -> Said {
        let common = ["run", "Make three items.", "--skip-permissions"];
        self.said(&[&common, args].concat())
    }

    pub(crate) fn said(&self, args: &[&str]) -> Said {
        self.end_of(&mut self.ekiden(args))
    }

    pub(crate) fn end_of(&self, command: &mut Command) -> Said {
        let output = command.output().unwrap();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        Said {
            agent: self.agent.name,
            code: output.status.code(),
            text: text(&output.stdout) + &text(&output.stderr),
        }
    }

    /// Waits until the agent has made this file.
    #[track_caller]
    pub(crate) fn expect_file(&self, name: &str) {
        let until = Instant::now() + PATIENCE;
        while !self.dir().join(name).exists() {
            assert!(Instant::now() < until, "{}: no {name}", self.agent.name);
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Nothing that this stage started lives any longer. npm's shims leave native children.
    #[track_caller]
    pub(crate) fn expect_nothing_alive(&self) {
        let until = Instant::now() + PROMISE;
        loop {
            let left = alive(self.home.path());
            if left.is_empty() {
                return;
            }
            assert!(
                Instant::now() < until,
                "{}: still alive: {left:?}",
                self.agent.name
            );
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

/// How a run ended.
pub(crate) struct Said {
    agent: &'static str,
    pub(crate) code: Option<i32>,
    pub(crate) text: String,
}

impl Said {
    #[track_caller]
    pub(crate) fn expect(&self, code: i32, words: &str) {
        let so = self.code == Some(code) && self.text.contains(words);
        let (agent, text) = (self.agent, &self.text);
        assert!(
            so,
            "{agent}: {:?}, wanted {code} and `{words}`:\n{text}",
            self.code
        );
    }
}

fn alive(mark: &Path) -> Vec<String> {
    let mark = format!("{MARK}={}", mark.display());
    let processes = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let of = |path: PathBuf| {
        let environ = std::fs::read(path.join("environ")).ok()?;
        let is_ours = environ
            .split(|byte| *byte == 0)
            .any(|one| one == mark.as_bytes());
        let line = std::fs::read(path.join("cmdline")).ok()?;
        is_ours.then(|| String::from_utf8_lossy(&line).replace('\0', " "))
    };
    processes.filter_map(|entry| of(entry.path())).collect()
}
