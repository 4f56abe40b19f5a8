//! The stage of a contract test: a project, the real client's clean environment, the fake API, and
//! ekiden on them.
//!
//! Each client takes some 200 MB and a core while it works, so at most [`CLIENTS_MAX`] tests drive one at a
//! time; the rest of a test costs little.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::sync::{Condvar, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use ekiden_testkit::client::{CleanEnvironment, real_client_for};
use ekiden_testkit::messages_api::{MessagesApi, Reply, Request};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::project::{Project, ekiden, session_dir, text_of};

/// Clients at work at the same time.
const CLIENTS_MAX: u32 = 3;
/// Long beside what anything here takes on a busy machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);
/// The version that `real-client/package.json` pins. Between it and the older one nothing was measured.
pub(crate) const NEW: [u32; 3] = [2, 1, 329];
/// The file of a stage's own task.
const TASK: &str = "task.md";

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

/// A project and an agent in it.
pub(crate) struct Stage {
    pub(crate) project: Project,
    cast: Cast,
}

/// Who plays.
enum Cast {
    /// The built-in agent. What it does is its task and its scenario.
    Rehearsal,
    /// The real client, which talks to a model of ours.
    Client(Box<Client>),
}

struct Client {
    api: MessagesApi,
    environment: CleanEnvironment,
    /// The client's program and its first arguments.
    command: Vec<String>,
    _turn: Turn,
}

/// A scenario as `rehearsal` plays it.
pub(crate) struct Rehearsed {
    /// Items of the task: a session takes three or four, unless an act fills its window.
    pub(crate) items: u32,
    /// The acts, as `docs/rehearsal.md` has them.
    pub(crate) acts: String,
}

impl Stage {
    /// The stages of one scenario, one for each agent: the same test is to pass on both. The real
    /// client's is left out where it is not installed. What the client's model does is what the acts
    /// do with `rehearsal`.
    pub(crate) fn both(
        what: &str,
        rehearsed: &Rehearsed,
        model: impl FnMut(&Request, &str) -> Reply + Send + 'static,
    ) -> Vec<Self> {
        std::iter::once(Self::rehearse(rehearsed))
            .chain(Self::set(what, model))
            .collect()
    }

    fn rehearse(rehearsed: &Rehearsed) -> Self {
        let project = Project::new();
        project.write("scenario.toml", &rehearsed.acts);
        project.write(TASK, &items(rehearsed.items));
        Self {
            project,
            cast: Cast::Rehearsal,
        }
    }

    /// A stage for `what`, or nothing where the real client is not installed. The model is told the
    /// handoff directory.
    pub(crate) fn set(
        what: &str,
        mut model: impl FnMut(&Request, &str) -> Reply + Send + 'static,
    ) -> Option<Self> {
        let client = real_client_for(what)?;
        let turn = Turn::wait();
        let project = Project::new();
        project.write(TASK, &items(1));
        let dir = project
            .path()
            .join(".ekiden/handoff")
            .to_str()
            .unwrap()
            .to_owned();
        let api = MessagesApi::start(move |request| model(request, &dir));
        let environment = CleanEnvironment::new(&api)
            .unwrap()
            .with("CLAUDE_CODE_MAX_RETRIES", "0");
        let command = vec![client.to_str().unwrap().to_owned()];
        let client = Client {
            api,
            environment,
            command,
            _turn: turn,
        };
        Some(Self {
            project,
            cast: Cast::Client(Box::new(client)),
        })
    }

    /// The real client plays.
    pub(crate) fn is_client(&self) -> bool {
        matches!(self.cast, Cast::Client(_))
    }

    fn client(&self) -> &Client {
        match &self.cast {
            Cast::Client(client) => client,
            Cast::Rehearsal => panic!("only the real client has this"),
        }
    }

    fn changed(mut self, change: impl FnOnce(Client) -> Client) -> Self {
        if let Cast::Client(client) = self.cast {
            self.cast = Cast::Client(Box::new(change(*client)));
        }
        self
    }

    /// The same with one more variable in the environment of ekiden and the client.
    pub(crate) fn with(self, name: &str, value: &str) -> Self {
        self.changed(|client| Client {
            environment: client.environment.with(name, value),
            ..client
        })
    }

    /// The same without a variable.
    pub(crate) fn without(self, name: &str) -> Self {
        self.changed(|client| Client {
            environment: client.environment.without(name),
            ..client
        })
    }

    /// The same with one more argument of the client, as a user's `[agents.claude]` may have it.
    pub(crate) fn client_arg(self, arg: &str) -> Self {
        self.changed(|mut client| {
            client.command.push(arg.to_owned());
            client
        })
    }

    /// The same with another program before the client.
    pub(crate) fn through(self, words: &[&str]) -> Self {
        self.changed(|mut client| {
            client
                .command
                .splice(0..0, words.iter().map(|&word| word.to_owned()));
            client
        })
    }

    /// What the client asked of its service.
    pub(crate) fn api(&self) -> &MessagesApi {
        &self.client().api
    }

    /// The client's empty home.
    pub(crate) fn home(&self) -> &Path {
        self.client().environment.home()
    }

    /// ekiden with this agent. The client's environment is a clean one.
    pub(crate) fn ekiden(&self) -> Command {
        let mut command = ekiden(&self.project);
        let Cast::Client(client) = &self.cast else {
            command.envs([
                ("EKIDEN_AGENT", "rehearsal"),
                ("EKIDEN_REHEARSAL_SCENARIO", "scenario.toml"),
            ]);
            return command;
        };
        command.env_clear().envs(client.environment.variables());
        command
            .env("EKIDEN_AGENT", "claude")
            .env("XDG_CONFIG_HOME", self.home());
        command.env("EKIDEN_PERMISSION_MODE", "default");
        let config = format!(
            "[agents.claude]\nkind = \"claude\"\ncommand = {}\n",
            json!(client.command)
        );
        let dir = self.home().join("ekiden");
        std::fs::create_dir_all(&dir).unwrap();
        std::fs::write(dir.join("config.toml"), config).unwrap();
        command
    }

    /// `ekiden` with these arguments, as a process that can be watched.
    pub(crate) fn start(&self, args: &[&str]) -> Running {
        let mut command = self.ekiden();
        Running::of(command.args(args).arg("--json"))
    }

    /// `ekiden run` of the stage's own task.
    pub(crate) fn run(&self, args: &[&str]) -> Running {
        self.start(&[&["run", TASK], args].concat())
    }

    /// Waits until this text is in the event stream of session 1: so far has the agent come. The client writes
    /// its transcript a little later, and a conversation can be resumed only from that.
    pub(crate) fn wait_for_events(&self, text: &str) {
        let until = Instant::now() + PATIENCE;
        let stream = || text_of(&session_dir(&self.project, 1).join("events.jsonl"));
        let is_written = || !self.is_client() || self.transcripts().contains(text);
        while !stream().contains(text) || !is_written() {
            assert!(Instant::now() < until, "no `{text}` in {}", stream());
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// What the client has written of its conversations.
    fn transcripts(&self) -> String {
        let projects = self.home().join(".claude/projects");
        let entries = |dir: PathBuf| {
            let entries = dir.read_dir().into_iter().flatten().flatten();
            entries.map(|entry| entry.path())
        };
        let files = entries(projects)
            .flat_map(entries)
            .filter(|path| path.is_file());
        files.map(|path| text_of(&path)).collect()
    }
}

/// The task, as far as `rehearsal` needs one; a model of ours knows by itself what to do.
fn items(count: u32) -> String {
    let item =
        |number| format!("- [ ] Item {number}\n\n  ```sh\n  touch item-{number}.txt\n  ```\n");
    (1..=count).fold("Make some items.\n\n".to_owned(), |task, number| {
        task + &item(number)
    })
}

/// How long a run may print nothing. A test that waits for ever would take CI's time from all others.
const SILENCE_MAX: Duration = Duration::from_secs(240);

/// ekiden at work, told line by line.
pub(crate) struct Running {
    child: Child,
    lines: Receiver<String>,
    /// Every line so far.
    told: Vec<Value>,
}

impl Running {
    /// The command, whose standard output tells what happens as JSON.
    pub(crate) fn of(command: &mut Command) -> Self {
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let stdout = BufReader::new(child.stdout.take().unwrap());
        let (sender, lines) = mpsc::channel();
        thread::spawn(move || {
            stdout
                .lines()
                .map_while(Result::ok)
                .try_for_each(|line| sender.send(line))
        });
        Self {
            child,
            lines,
            told: Vec::new(),
        }
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
        loop {
            let line = match self.lines.recv_timeout(SILENCE_MAX) {
                Ok(line) => line,
                Err(RecvTimeoutError::Disconnected) => return None,
                Err(RecvTimeoutError::Timeout) => {
                    self.signal(Signal::TERM);
                    panic!("nothing happened for {SILENCE_MAX:?}: {:#?}", self.told);
                }
            };
            let line: Value = serde_json::from_str(&line).unwrap();
            self.told.push(line.clone());
            if line["event"] == event {
                return Some(line);
            }
        }
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
