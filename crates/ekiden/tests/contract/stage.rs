//! The stage of a contract test: a project, the real client's clean environment, the fake API, and
//! ekiden on them.
//!
//! Each client takes some 200 MB and both cores, so at most [`CLIENTS_MAX`] tests drive one at a
//! time; the rest of a test costs little.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Condvar, Mutex, PoisonError};

use ekiden_testkit::client::{CleanEnvironment, real_client_for};
use ekiden_testkit::messages_api::{Message, MessagesApi, Reply, Request};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::project::{Project, ekiden};

/// Clients at work at the same time.
const CLIENTS_MAX: u32 = 2;

static CLIENTS: (Mutex<u32>, Condvar) = (Mutex::new(0), Condvar::new());

/// Leave to drive a client. Dropping it lets the next test go on.
pub(crate) struct Turn;

impl Turn {
    /// Waits for it.
    pub(crate) fn wait() -> Self {
        let (count, freed) = &CLIENTS;
        let count = count.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = freed.wait_while(count, |count| *count >= CLIENTS_MAX);
        *waited.unwrap_or_else(PoisonError::into_inner) += 1;
        Self
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        let (count, freed) = &CLIENTS;
        *count.lock().unwrap_or_else(PoisonError::into_inner) -= 1;
        freed.notify_one();
    }
}

/// A project and a client that talks to a model of ours.
pub(crate) struct Stage {
    pub(crate) project: Project,
    pub(crate) api: MessagesApi,
    environment: CleanEnvironment,
    /// The client's program and its first arguments.
    client: Vec<String>,
    _turn: Turn,
}

impl Stage {
    /// A stage for `what`, or nothing where the real client is not installed. The model is told the
    /// handoff directory.
    pub(crate) fn set(
        what: &str,
        mut model: impl FnMut(&Request, &str) -> Reply + Send + 'static,
    ) -> Option<Self> {
        let client = real_client_for(what)?;
        let turn = Turn::wait();
        let project = Project::new();
        let dir = project.path().join(".ekiden/handoff").to_str().unwrap().to_owned();
        let api = MessagesApi::start(move |request| model(request, &dir));
        let environment = CleanEnvironment::new(&api).unwrap().with("CLAUDE_CODE_MAX_RETRIES", "0");
        let client = vec![client.to_str().unwrap().to_owned()];
        Some(Self { project, api, environment, client, _turn: turn })
    }

    /// The same with one more variable in the environment of ekiden and the client.
    pub(crate) fn with(self, name: &str, value: &str) -> Self {
        Self { environment: self.environment.with(name, value), ..self }
    }

    /// The same without a variable.
    pub(crate) fn without(self, name: &str) -> Self {
        Self { environment: self.environment.without(name), ..self }
    }

    /// The same with one more argument of the client, as a user's `[agents.claude]` may have it.
    pub(crate) fn client_arg(mut self, arg: &str) -> Self {
        self.client.push(arg.to_owned());
        self
    }

    /// The same with another program before the client.
    pub(crate) fn through(mut self, words: &[&str]) -> Self {
        self.client.splice(0..0, words.iter().map(|&word| word.to_owned()));
        self
    }

    /// The client's empty home.
    pub(crate) fn home(&self) -> &Path {
        self.environment.home()
    }

    /// ekiden in the client's clean environment.
    pub(crate) fn ekiden(&self) -> Command {
        let mut command = ekiden(&self.project);
        command.env_clear().envs(self.environment.variables());
        command.env("EKIDEN_AGENT", "claude").env("XDG_CONFIG_HOME", self.home());
        command.env("EKIDEN_PERMISSION_MODE", "default");
        let config = format!("[agents.claude]\nkind = \"claude\"\ncommand = {}\n", json!(self.client));
        let dir = self.home().join("ekiden");
        std::fs::create_dir_all(&dir).unwrap();
        std::fs::write(dir.join("config.toml"), config).unwrap();
        command
    }

    /// `ekiden run` with these arguments, as a process that can be watched.
    pub(crate) fn start(&self, args: &[&str]) -> Running {
        let mut command = self.ekiden();
        Running::of(command.args(args).arg("--json"))
    }
}

/// ekiden at work, told line by line.
pub(crate) struct Running {
    child: Child,
    lines: std::io::Lines<BufReader<std::process::ChildStdout>>,
    /// Every line so far.
    told: Vec<Value>,
}

impl Running {
    /// The command, whose standard output tells what happens as JSON.
    pub(crate) fn of(command: &mut Command) -> Self {
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        Self { child, lines, told: Vec::new() }
    }

    /// Waits for the next line that tells of `event`. It panics at the end of the run.
    #[track_caller]
    pub(crate) fn until(&mut self, event: &str) -> Value {
        match self.next(event) {
            Some(line) => line,
            None => panic!("the run ended without `{event}`: {:#?}", self.told),
        }
    }

    fn next(&mut self, event: &str) -> Option<Value> {
        for line in self.lines.by_ref() {
            let line: Value = serde_json::from_str(&line.unwrap()).unwrap();
            self.told.push(line.clone());
            if line["event"] == event {
                return Some(line);
            }
        }
        None
    }

    /// Sends it a signal.
    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    /// Waits for its end, and tells how it went.
    pub(crate) fn wait(mut self) -> (ExitStatus, Vec<Value>) {
        while self.next("").is_some() {}
        (self.child.wait().unwrap(), self.told)
    }

    /// Waits for its end, which must be this code.
    #[track_caller]
    pub(crate) fn expect_exit(self, code: i32) -> Vec<Value> {
        let (status, told) = self.wait();
        assert_eq!(status.code(), Some(code), "{told:#?}");
        told
    }
}

/// A message that writes a whole handoff. From session 3 on it claims that all is done.
pub(crate) fn write_all(dir: &str, session: u32) -> Message {
    let project = Path::new(dir).ancestors().nth(2).unwrap();
    crate::relay::hand_over(project, session)
}
