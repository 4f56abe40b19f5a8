//! A fleet on the real server: two workers, a plan of five stages, and what is killed on the way.
//!
//! The server is `temporal` in `temporal-server/venv/bin`, or on PATH (temporal-server/README.md). Without it, or with
//! `EKIDEN_NO_FLEET=1`, the tests say that they were left out, and with `EKIDEN_NEED_FLEET` they fail.

#![expect(
    clippy::disallowed_methods,
    clippy::disallowed_macros,
    clippy::unwrap_used,
    reason = "tests start programs, write files, read the clock and say what was left out"
)]

use std::collections::VecDeque;
use std::ffi::OsString;
use std::fs;
use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock};
use std::thread::{self, sleep};
use std::time::{Duration, Instant};

use prost::Message as _;
use tempfile::TempDir;
use temporalio_client::{
    Client, ClientOptions, Connection, ConnectionOptions, Url, WorkflowFetchHistoryOptions,
    WorkflowHandle,
};
use temporalio_common::UntypedWorkflow;
use temporalio_common::protos::temporal::api::history::v1::History;
use temporalio_common::protos::temporal::api::history::v1::history_event::Attributes;

/// What a busy machine may take for anything here.
const PATIENCE: Duration = Duration::from_secs(150);
/// How long something is killed every few seconds, for each five stages.
const KILLING: Duration = Duration::from_secs(60);

/// `ekiden` of this tree, beside `ekiden-fleet`.
static EKIDEN: LazyLock<PathBuf> = LazyLock::new(|| {
    let fleet = Path::new(env!("CARGO_BIN_EXE_ekiden-fleet"));
    let profile = match fleet.parent().and_then(Path::file_name) {
        Some(name) if name == "release" => "release",
        _ => "dev",
    };
    let built = Command::new(env!("CARGO"))
        .args([
            "build",
            "--quiet",
            "--package",
            "ekiden",
            "--profile",
            profile,
        ])
        .current_dir(root())
        .status();
    assert!(built.unwrap().success(), "ekiden cannot be built");
    fleet.with_file_name("ekiden")
});

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Temporal's program; a message if there is none, written past the test harness, which would keep it from view.
fn temporal() -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = [root().join("temporal-server/venv/bin")]
        .into_iter()
        .chain(std::env::split_paths(&path))
        .map(|dir| dir.join("temporal"))
        .find(|program| program.is_file())
        .filter(|_| std::env::var_os("EKIDEN_NO_FLEET").is_none());
    if found.is_none() {
        let why = "there is no `temporal` (temporal-server/README.md), or EKIDEN_NO_FLEET is set";
        assert!(std::env::var_os("EKIDEN_NEED_FLEET").is_none(), "{why}");
        let _ = writeln!(
            std::io::stderr(),
            "left out: plans on a Temporal server: {why}"
        );
    }
    found
}

/// A process of ours that must not outlive the test.
struct Process(Child);

impl Process {
    fn kill(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }

    fn signal(&self, name: &str) {
        let pid = self.0.id().to_string();
        assert!(
            Command::new("kill")
                .args([name, &pid])
                .status()
                .unwrap()
                .success()
        );
    }

    fn code(&mut self) -> Option<i32> {
        wait_for("the end of a process", || self.0.try_wait().unwrap()).code()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The run that a fleet was given.
fn run_of(said: &str) -> &str {
    let mut lines = said.lines();
    let line = lines.find(|line| line.contains("is with the fleet"));
    line.unwrap().split_whitespace().nth(1).unwrap()
}

fn wait_for<T>(what: &str, mut found: impl FnMut() -> Option<T>) -> T {
    let until = Instant::now() + PATIENCE;
    loop {
        if let Some(found) = found() {
            return found;
        }
        assert!(Instant::now() < until, "waited in vain for {what}");
        sleep(Duration::from_millis(100));
    }
}

struct World {
    dir: TempDir,
    temporal: PathBuf,
    port: u16,
    /// Where workers believe the server to be.
    workers_port: u16,
    /// After so many events a plan goes on in a new history.
    events_max: Option<&'static str>,
}

/// The network between workers and the server, which can be cut.
struct Network {
    port: u16,
    is_cut: Arc<AtomicBool>,
}

impl Network {
    fn before(server: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let network = Self {
            port: listener.local_addr().unwrap().port(),
            is_cut: Arc::default(),
        };
        let is_cut = Arc::clone(&network.is_cut);
        thread::spawn(move || {
            for caller in listener.incoming().flatten() {
                let Some(server) = TcpStream::connect(("127.0.0.1", server)).ok() else {
                    continue;
                };
                let (back, forth) = (caller.try_clone().unwrap(), server.try_clone().unwrap());
                for (from, to) in [(caller, server), (forth, back)] {
                    let is_cut = Arc::clone(&is_cut);
                    thread::spawn(move || pass(from, to, &is_cut));
                }
            }
        });
        network
    }

    fn cut(&self, time: Duration) {
        self.is_cut.store(true, Ordering::SeqCst);
        sleep(time);
        self.is_cut.store(false, Ordering::SeqCst);
    }
}

/// Passes bytes on until a side ends, or the network is cut.
fn pass(mut from: TcpStream, mut to: TcpStream, is_cut: &AtomicBool) {
    from.set_read_timeout(Some(Duration::from_millis(200)))
        .unwrap();
    let mut bytes = [0; 16 * 1024];
    while !is_cut.load(Ordering::SeqCst) {
        match from.read(&mut bytes) {
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            Ok(read @ 1..) if to.write_all(&bytes[..read]).is_ok() => {}
            Ok(_) | Err(_) => break,
        }
    }
    let _ = (from.shutdown(Shutdown::Both), to.shutdown(Shutdown::Both));
}

impl World {
    /// A project, and a remote that all reach.
    fn new(temporal: PathBuf) -> Self {
        let free = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = free.local_addr().unwrap().port();
        let world = Self {
            dir: tempfile::tempdir().unwrap(),
            temporal,
            port,
            workers_port: port,
            events_max: None,
        };
        fs::create_dir(world.path("home")).unwrap();
        let config =
            "[user]\nname = Test\nemail = test@example.invalid\n[init]\ndefaultBranch = main\n";
        fs::write(world.path("home/.gitconfig"), config).unwrap();
        fs::create_dir(world.path("project")).unwrap();
        fs::write(world.path("project/plan.toml"), plan()).unwrap();
        // Git has a file that it is told to ignore.
        fs::write(world.path("project/.gitignore"), "kept\nready\n").unwrap();
        fs::write(world.path("project/kept"), "kept").unwrap();
        world.git("", &["init", "-q", "--bare", "remote"]);
        world.git("project", &["init", "-q"]);
        world.git("project", &["add", "--force", "."]);
        world.git("project", &["commit", "-qm", "start"]);
        world.git("project", &["remote", "add", "origin", "../remote"]);
        world
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn command(&self, program: &Path, dir: &str) -> Command {
        let mut command = Command::new(program);
        command
            .current_dir(self.path(dir))
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("HOME", self.path("home"))
            .env("EKIDEN_REHEARSAL_STEP_MS", "200")
            .env("EKIDEN_TRACKER_KIND", "local")
            .env("TEMPORAL_ADDRESS", format!("127.0.0.1:{}", self.port))
            .stdin(Stdio::null());
        command
    }

    fn git(&self, dir: &str, args: &[&str]) -> String {
        let output = self
            .command(Path::new("git"), dir)
            .args(args)
            .output()
            .unwrap();
        assert!(output.status.success(), "git {args:?}: {output:?}");
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    }

    fn start(&self, mut command: Command, log: &str) -> Process {
        let log = fs::OpenOptions::new()
            .create(true)
            .append(true)
            .open(self.path(log))
            .unwrap();
        let (out, err) = (log.try_clone().unwrap(), log);
        Process(command.stdout(out).stderr(err).spawn().unwrap())
    }

    /// The server, which keeps what it knows.
    fn server(&self) -> Process {
        let mut command = self.command(&self.temporal, "");
        let port = self.port.to_string();
        command.args(["server", "start-dev", "--headless", "--log-level", "error"]);
        command.args([
            "--ip",
            "127.0.0.1",
            "--port",
            &port,
            "--db-filename",
            "server.db",
        ]);
        let server = self.start(command, "server.log");
        wait_for("the server", || {
            TcpStream::connect(("127.0.0.1", self.port)).ok()
        });
        server
    }

    fn worker(&self, name: &str) -> Process {
        self.worker_with(name, &[], None)
    }

    /// A worker with its labels and with a single slot.
    fn labelled(&self, name: &str, labels: &str) -> Process {
        self.worker_with(name, &["--label", labels, "--slots", "1"], None)
    }

    fn worker_with(&self, name: &str, args: &[&str], scenario: Option<&str>) -> Process {
        let worker = self.begin_worker(name, args, scenario);
        wait_for("a worker", || self.says(name, "waiting for stages"));
        worker
    }

    fn begin_worker(&self, name: &str, args: &[&str], scenario: Option<&str>) -> Process {
        let mut command = self.command(&EKIDEN, "");
        command.arg("worker").args(args);
        if !args.contains(&"--slots") {
            command.args(["--slots", "2"]);
        }
        command.env(
            "TEMPORAL_ADDRESS",
            format!("127.0.0.1:{}", self.workers_port),
        );
        command.env("PATH", self.own_path());
        if let Some(scenario) = scenario {
            let file = format!("{name}.toml");
            fs::write(self.path(&file), scenario).unwrap();
            command.env("EKIDEN_REHEARSAL_SCENARIO", self.path(&file));
        }
        // Both seen from where it starts.
        command.args(["--dir", name, "--remote", "remote"]);
        self.start(command, &format!("{name}.log"))
    }

    fn execute(&self, lease: &str) -> Process {
        self.execute_with(lease, &[])
    }

    fn execute_with(&self, lease: &str, args: &[&str]) -> Process {
        let mut command = self.command(&EKIDEN, "project");
        command.args([
            "execute",
            "plan.toml",
            "--on",
            "fleet",
            "--yes",
            "--agent",
            "rehearsal",
        ]);
        command.args(["--lease", lease, "--new"]).args(args);
        command.envs(self.events_max.map(|max| ("EKIDEN_FLEET_EVENTS_MAX", max)));
        self.start(command, "execute.log")
    }

    /// Runs a command of ekiden to its end. Gives its exit code, and all that it said.
    fn ekiden(&self, dir: &str, args: &[&str]) -> (Option<i32>, String) {
        let output = self.command(&EKIDEN, dir).args(args).output().unwrap();
        let said = [output.stdout, output.stderr].concat();
        (output.status.code(), String::from_utf8(said).unwrap())
    }

    fn expect(&self, dir: &str, args: &[&str], code: i32) -> String {
        let (ended, said) = self.ekiden(dir, args);
        assert_eq!(ended, Some(code), "ekiden {args:?}: {said}");
        said
    }

    /// Says something to the next sessions of the run that is followed in a work dir, as a key of the live view does.
    fn tell(&self, dir: &str, run: &str, words: &str) {
        let runs = self.path(dir).join(".git/ekiden/root/runs");
        let mut follower = UnixStream::connect(runs.join(run).join("steer")).unwrap();
        let message = serde_json::json!({
            "message": "said", "steering": { "kind": "instruct", "words": words },
        });
        follower.write_all(message.to_string().as_bytes()).unwrap();
        follower.shutdown(Shutdown::Write).unwrap();
        let mut told = String::new();
        follower.read_to_string(&mut told).unwrap();
        assert!(told.contains("recorded"), "{told}");
    }

    /// How the newest run stands, as a work dir knows it.
    fn status(&self, dir: &str) -> serde_json::Value {
        let (_, said) = self.ekiden(dir, &["status", "--json"]);
        let status: serde_json::Value = serde_json::from_str(&said).unwrap_or_default();
        status["runs"][0].clone()
    }

    /// All histories of the plan, the first one first. Writes the first two down, for the test that replays them.
    fn histories(&self) -> Vec<History> {
        let said = self.log("execute");
        let run = run_of(&said);
        let server: Url = format!("http://127.0.0.1:{}", self.port).parse().unwrap();
        let runtime = tokio::runtime::Runtime::new().unwrap();
        let (mut found, mut next) = (VecDeque::new(), Some(None));
        while let Some(run_id) = next {
            let events = runtime.block_on(async {
                let options = ConnectionOptions::new(server.clone()).build();
                let connected = Connection::connect(options).await.unwrap();
                let options = ClientOptions::new("default").build();
                let client = Client::new(connected, options).unwrap();
                let handle = client.get_workflow_handle::<UntypedWorkflow>(format!("ekiden-{run}"));
                let mut execution = handle.info().clone();
                execution.run_id = run_id;
                let handle = WorkflowHandle::<_, UntypedWorkflow>::new(client, execution);
                let options = WorkflowFetchHistoryOptions::default();
                handle.fetch_history(options).into_events().await.unwrap()
            });
            let Some(Attributes::WorkflowExecutionStartedEventAttributes(started)) =
                &events[0].attributes
            else {
                panic!("{:?}", events[0]);
            };
            let before = started.continued_execution_run_id.clone();
            next = Some(Some(before.clone())).filter(|_| !before.is_empty());
            found.push_front(History { events });
        }
        for (history, number) in found.iter().zip(1..) {
            let file = format!("tests/history-{number}.bin");
            let file = Path::new(env!("CARGO_MANIFEST_DIR")).join(file);
            if std::env::var_os("EKIDEN_RECORD_HISTORIES").is_some() {
                fs::write(file, history.encode_to_vec()).unwrap();
            }
        }
        found.into()
    }

    fn log(&self, name: &str) -> String {
        fs::read_to_string(self.path(&format!("{name}.log"))).unwrap_or_default()
    }

    /// From now on workers write down which git commands they run, in `git.log`.
    fn count_git(&self) {
        let log = self.path("git.log");
        self.before_git(&format!("echo \"$*\" >> {}", log.display()));
    }

    /// From now on git does this first, for whoever has [`Self::own_path`].
    fn before_git(&self, script: &str) {
        let path = std::env::var_os("PATH").unwrap_or_default();
        let git = std::env::split_paths(&path).map(|dir| dir.join("git"));
        let git = git.into_iter().find(|git| git.is_file()).unwrap();
        let text = format!("#!/bin/sh\n{script}\nexec {} \"$@\"\n", git.display());
        fs::create_dir_all(self.path("bin")).unwrap();
        fs::write(self.path("bin/git"), text).unwrap();
        let executable = fs::Permissions::from_mode(0o755);
        fs::set_permissions(self.path("bin/git"), executable).unwrap();
    }

    fn own_path(&self) -> OsString {
        let path = std::env::var_os("PATH").unwrap_or_default();
        let dirs = [self.path("bin")].into_iter();
        std::env::join_paths(dirs.chain(std::env::split_paths(&path))).unwrap()
    }

    fn says(&self, name: &str, text: &str) -> Option<()> {
        self.log(name).contains(text).then_some(())
    }

    /// What a stage pushed of its own log, at its last handoff.
    fn pushed_log(&self, stage: &str) -> Option<String> {
        let pattern = format!("refs/ekiden/*/stages/{stage}/1");
        let found = self.git("remote", &["for-each-ref", "--format=%(refname)", &pattern]);
        let name = found.lines().next()?.to_owned();
        let files = self.git("remote", &["ls-tree", "-r", "--name-only", &name]);
        let log = files
            .lines()
            .find(|file| file.ends_with("log.jsonl"))?
            .to_owned();
        Some(self.git("remote", &["show", &format!("{name}:{log}")]))
    }

    /// Where a worker works on a stage.
    fn place(&self, worker: &str, stage: &str) -> Option<PathBuf> {
        let mut places = fs::read_dir(self.path(worker)).unwrap().flatten();
        let stage = format!("-{stage}-");
        let place = places.find(|place| place.file_name().to_string_lossy().contains(&stage))?;
        Some(place.path())
    }

    /// The log of a stage at work, as its worker has it.
    fn log_at(&self, worker: &str, stage: &str) -> String {
        let runs = self
            .place(worker, stage)
            .map(|place| place.join("state/runs"));
        let run = runs.and_then(|runs| fs::read_dir(runs).ok()?.flatten().next());
        let log = run.and_then(|run| fs::read_to_string(run.path().join("log.jsonl")).ok());
        log.unwrap_or_default()
    }

    /// Processes that work for a worker.
    fn at_work(&self, worker: &str) -> usize {
        let dir = self.path(worker).canonicalize().unwrap();
        let processes = fs::read_dir("/proc").unwrap().flatten();
        let places = processes.filter_map(|process| fs::read_link(process.path().join("cwd")).ok());
        places.filter(|place| place.starts_with(&dir)).count()
    }
}

/// Five stages; B takes several sessions, each of a few items.
fn plan() -> String {
    let stage = |id: &str, needs: &str, items: u32| {
        let item = |n| {
            let pause = if items > 1 { "sleep 0.5; " } else { "" };
            format!("- [ ] item {n}\n  ```sh\n  {pause}echo {n} >> {id}.txt\n  ```\n")
        };
        let items: String = (1..=items).map(item).collect();
        format!(
            "[[stage]]\nid = \"{id}\"\nname = \"Stage {id}\"\nneeds = [{needs}]\noutputs = [\"{id}.txt\"]\n\
             turns_max = 3\nvalidation = {{ kind = \"command\", command = \"test -s {id}.txt\" }}\n\
             prompt = '''\nDo it.\n\n{items}'''\n"
        )
    };
    [
        "format = 1\nproject = \"five\"\njobs = 4\n".to_owned(),
        stage("A", "", 1),
        stage("B", "\"A\"", 8),
        stage("C", "\"A\"", 1),
        stage("D", "\"A\"", 1),
        stage("E", "\"B\", \"C\", \"D\"", 1),
    ]
    .concat()
}

// shows: FLT-02, TRK-09
#[test]
fn a_worker_and_the_server_are_killed_and_each_stage_is_merged_once() {
    let Some(temporal) = temporal() else { return };
    let world = World::new(temporal);
    let mut server = world.server();
    let mut workers = [world.worker("one"), world.worker("two")];
    world.expect("project", &["issue", "new", "Five"], 0);
    // The first merge of C fails, so C is done anew.
    let once = world.path("once");
    let once = once.display();
    let check =
        format!("test -s C.txt && {{ [ -s {once} ] || ! pwd | grep -e -merge- > {once}; }}");
    let plan = plan().replace("test -s C.txt", &check);
    fs::write(world.path("project/plan.toml"), plan).unwrap();
    world.git("project", &["commit", "-qam", "C is done anew"]);
    let mut execute = world.execute_with("5", &["--issue", "five"]);

    let before = wait_for("a handoff of B", || world.pushed_log("B"));
    let with_b = usize::from(world.says("one", " B: attempt 1").is_none());
    workers[with_b].kill();
    let other = ["two", "one"][with_b];
    wait_for("B elsewhere", || world.says(other, " B: attempt 2"));
    server.kill();
    let _server = world.server();

    assert_eq!(execute.code(), Some(0), "{}", world.log("execute"));
    let format = "--format=%(trailers:key=Ekiden-Effect,valueonly)";
    let merges = world.git("project", &["log", "--first-parent", format]);
    let mut stages: Vec<&str> = merges
        .lines()
        .filter_map(|line| line.split('/').nth(1))
        .collect();
    stages.sort_unstable();
    assert_eq!(stages, ["A", "B", "C", "D", "E"], "{merges}");
    // The last stage is shown what those left that it needs, wherever they were.
    let prompts = ["show", "1", "--stage", "E", "--prompt"];
    let (_, prompt) = world.ekiden("project", &prompts);
    for id in ["B", "C", "D"] {
        assert!(prompt.contains(&format!("{id}: Stage {id}")), "{prompt}");
    }
    let kept = world.git("project", &["ls-tree", "--name-only", "HEAD", "kept"]);
    assert_eq!(kept, "kept");
    // The second attempt went on from the handoff, and did not do again what was done before it.
    let after = world.pushed_log("B").unwrap();
    assert!(after.starts_with(&before), "the stage began anew");
    let made = fs::read_to_string(world.path("project/B.txt")).unwrap();
    assert_eq!(
        made.lines().filter(|line| *line == "1").count(),
        1,
        "{made}"
    );
    let mut lines: Vec<&str> = made.lines().collect();
    lines.dedup();
    assert_eq!(lines, ["1", "2", "3", "4", "5", "6", "7", "8"]);
    let changed = world.git(
        "project",
        &["status", "--porcelain", "--untracked-files=no"],
    );
    assert_eq!(changed, "");
    let told = wait_for("the issue", || {
        let told = fs::read_to_string(world.path("project/.issues/five.md")).unwrap();
        told.contains("Run ended · ").then_some(told)
    });
    for id in ["A", "B", "C", "D", "E"] {
        let first = format!("Stage {id} · Session 1 · ");
        let rounds = 1 + usize::from(id == "C");
        assert_eq!(told.matches(&first).count(), rounds, "{id}: {told}");
    }
}

/// B is done a second time on top of A's work and drops it, and a third time with the reason before it.
// shows: FLT-01, PLN-08, PLN-12
#[test]
fn a_stage_that_does_not_go_together_with_another_is_told_and_cannot_drop_its_work() {
    let Some(temporal) = temporal() else { return };
    let world = World::new(temporal);
    let _server = world.server();
    let (go, dropped) = (world.path("go"), world.path("dropped"));
    let (go, dropped) = (go.display(), dropped.display());
    let stage = |id: &str, command: &str, check: &str| {
        format!(
            "[[stage]]\nid = \"{id}\"\nname = \"Stage {id}\"\n\
             validation = {{ kind = \"command\", command = \"{check}\" }}\n\
             prompt = '''\n- [ ] Do it\n  ```sh\n  {command}\n  ```\n'''\n"
        )
    };
    let drops = format!(
        "until [ -e {go} ]; do sleep 0.1; done; \
         if [ -e a.txt ] && [ ! -e {dropped} ]; then rm a.txt; touch {dropped}; fi; \
         echo b > n; echo b > b.txt"
    );
    let plan = [
        "format = 1\nproject = \"two\"\njobs = 2\n".to_owned(),
        stage("A", "echo a > n; echo a > a.txt", "ls a.txt"),
        stage("B", &drops, "test -f b.txt"),
    ];
    fs::write(world.path("project/plan.toml"), plan.concat()).unwrap();
    world.git("project", &["commit", "-qam", "two stages"]);
    let _worker = world.worker("one");
    let mut execute = world.execute("5");
    wait_for("the merge of A", || {
        let names = world.git("remote", &["for-each-ref", "--format=%(refname)"]);
        let name = names.lines().find(|name| name.ends_with("-merged"))?;
        let found = world.git("remote", &["ls-tree", "--name-only", name]);
        found.contains("a.txt").then_some(())
    });
    fs::write(world.path("go"), "").unwrap();

    assert_eq!(execute.code(), Some(0), "{}", world.log("execute"));
    let made = ["a.txt", "b.txt", "n"].map(|file| {
        let path = world.path("project").join(file);
        fs::read_to_string(path).unwrap_or_default()
    });
    assert_eq!(made, ["a\n", "b\n", "b\n"], "{}", world.log("execute"));
    let prompt = ["show", "1", "--stage", "B", "--prompt"];
    let (_, prompt) = world.ekiden("project", &prompt);
    let (_, why) = prompt.split_once("# Why this stage is done again").unwrap();
    assert!(why.contains("cannot access 'a.txt'"), "{prompt}");
}

// shows: FLT-06
#[test]
fn a_plan_goes_on_in_new_histories_while_workers_are_killed_and_all_of_it_is_seen() {
    let Some(temporal) = temporal() else { return };
    let mut world = World::new(temporal);
    // A stage and its merge have some twelve.
    world.events_max = Some("15");
    world.git("project", &["push", "-q", "origin", "main"]);
    world.git("", &["clone", "-q", "remote", "other"]);
    let _server = world.server();
    let names = ["one", "two"];
    let mut workers = names.map(|name| world.worker(name));
    let mut execute = world.execute("5");
    wait_for("a handoff of B", || world.pushed_log("B"));
    let with_b = usize::from(world.says("one", " B: attempt 1").is_none());
    workers[with_b].kill();
    workers[with_b] = world.worker(names[with_b]);
    wait_for("what is left", || {
        world.says(names[with_b], "directories of stages in ")
    });
    let with_e = wait_for("E", || {
        let is_with = |name: &&str| world.says(name, " E: attempt 1").is_some();
        names.iter().position(is_with)
    });
    workers[with_e].kill();
    assert_eq!(execute.code(), Some(0), "{}", world.log("execute"));
    assert!(world.histories().len() > 2);
    let format = "--format=%(trailers:key=Ekiden-Effect,valueonly)";
    let merges = world.git("project", &["log", "--first-parent", format]);
    let stages = merges.lines().filter_map(|line| line.split('/').nth(1));
    let mut stages: Vec<&str> = stages.collect();
    stages.sort_unstable();
    assert_eq!(stages, ["A", "B", "C", "D", "E"], "{merges}");
    let made = fs::read_to_string(world.path("project/B.txt")).unwrap();
    let mut lines: Vec<&str> = made.lines().collect();
    lines.dedup();
    assert_eq!(lines, ["1", "2", "3", "4", "5", "6", "7", "8"]);

    // Who comes when all is over reads it from the first history.
    let said = world.log("execute");
    let run = run_of(&said);
    world.expect("other", &["fleet", "follow", run], 0);
    for dir in ["project", "other"] {
        let status = world.status(dir);
        assert_eq!(status["state"], "complete", "{status}");
        let at = |what: &str| status[what].as_str().unwrap();
        assert!(at("started") < at("updated"), "{status}");
        let stages = status["stages"].as_array().unwrap();
        let states: Vec<_> = stages.iter().map(|stage| &stage["state"]).collect();
        assert_eq!(states, ["done"; 5], "{status}");
    }
    let sessions = ["sessions", "--stage", "B"];
    assert_eq!(
        world.expect("project", &sessions, 0),
        world.expect("other", &sessions, 0)
    );
}

// shows: FLT-03
#[test]
fn a_worker_that_leaves_passes_its_stages_on_and_a_stop_waits_for_the_agents() {
    let Some(temporal) = temporal() else { return };
    let world = World::new(temporal);
    let _server = world.server();
    // With this lease nobody finds out by silence.
    let mut execute = world.execute("600");
    let mut first = world.worker("one");
    wait_for("B", || world.says("one", " B: attempt 1"));
    let _second = world.worker("two");
    first.signal("-TERM");
    assert_eq!(first.code(), Some(0));
    assert_eq!(world.at_work("one"), 0);
    wait_for("B elsewhere", || world.says("two", " B: attempt 2"));
    wait_for("its agent", || (world.at_work("two") > 0).then_some(()));

    execute.signal("-INT");
    let asked = Instant::now();
    assert_eq!(execute.code(), Some(3), "{}", world.log("execute"));
    let took = asked.elapsed();
    assert!(took < Duration::from_secs(25), "{took:?}");
    assert_eq!(world.at_work("two"), 0);
    assert!(world.log("execute").contains("stopped (3): as you asked"));
}

/// The stage, for workers with that label.
fn on(label: &str, stage: &str) -> String {
    stage.replacen("\nname", &format!("\nruns_on = [\"{label}\"]\nname"), 1)
}

// shows: FLT-02
#[test]
fn a_worker_that_cannot_push_says_so_and_takes_no_stage_until_it_can() {
    let Some(temporal) = temporal() else { return };
    let world = World::new(temporal);
    let _server = world.server();
    fs::rename(world.path("remote"), world.path("away")).unwrap();
    let mut gives_up = world.begin_worker("one", &[], None);
    let why = "this worker takes no stage until that works";
    wait_for("the reason", || world.says("one", why));
    gives_up.signal("-INT");
    assert_eq!(gives_up.code(), Some(0), "{}", world.log("one"));
    let _two = world.begin_worker("two", &[], None);
    wait_for("the reason", || world.says("two", why));
    fs::rename(world.path("away"), world.path("remote")).unwrap();
    wait_for("a worker", || world.says("two", "waiting for stages"));
    let said = world.log("two");
    assert_eq!(said.matches(why).count(), 1, "{said}");
    assert_eq!(world.git("remote", &["for-each-ref", "refs/ekiden"]), "");
    // Who may only read it, or may not push there, is told as well.
    let hook = world.path("remote/hooks/pre-receive");
    let token = format!("ghp_{}", "a1B2c3D4e5F6".repeat(3));
    let text = format!("#!/bin/sh\necho 'only readers here, not {token}'; exit 1\n");
    fs::write(&hook, text).unwrap();
    fs::set_permissions(&hook, fs::Permissions::from_mode(0o755)).unwrap();
    let _three = world.begin_worker("three", &[], None);
    wait_for("the reason", || world.says("three", "only readers here"));
    wait_for("the rest", || world.says("three", why));
    assert!(world.says("three", &token).is_none());
    fs::remove_file(hook).unwrap();
    // As one before 2.38.
    let old =
        "case \"$*\" in *\" --write-tree \"*) echo 'usage: git merge-tree' >&2; exit 129; esac";
    world.before_git(old);
    let _four = world.begin_worker("four", &[], None);
    wait_for("the reason", || world.says("four", "git has to be 2.38"));
    wait_for("the rest", || world.says("four", why));
}

// shows: FLT-03, FLT-04
#[test]
fn a_setup_ends_with_its_worker_and_with_a_stop() {
    let Some(temporal) = temporal() else { return };
    let world = World::new(temporal);
    let begun = world.path("begun");
    let parts: Vec<String> = plan().split("[[stage]]").map(str::to_owned).collect();
    let setup = format!("touch {}; sleep 300", begun.display());
    let rules = format!("{}[worktree]\nsetup = '{setup}'\n", parts[0]);
    let text = [rules.as_str(), &parts[1]].join("[[stage]]");
    fs::write(world.path("project/plan.toml"), text).unwrap();
    world.git("project", &["commit", "-qam", "a long setup"]);
    let _server = world.server();
    let mut execute = world.execute("600");
    let mut first = world.worker("one");
    let setup_begins = || {
        wait_for("a setup", || begun.exists().then_some(()));
        fs::remove_file(&begun).unwrap();
    };
    setup_begins();
    let asked = Instant::now();
    first.signal("-TERM");
    assert_eq!(first.code(), Some(0), "{}", world.log("one"));
    let _second = world.worker("two");
    setup_begins();
    execute.signal("-INT");
    assert_eq!(execute.code(), Some(3), "{}", world.log("execute"));
    for worker in ["one", "two"] {
        wait_for("its end", || (world.at_work(worker) == 0).then_some(()));
    }
    let took = asked.elapsed();
    assert!(took < Duration::from_secs(60), "{took:?}");
}

// shows: FLT-04
#[test]
fn a_stage_goes_to_a_worker_that_has_what_it_runs_on_and_one_that_nobody_can_do_is_told_at_once() {
    let Some(temporal) = temporal() else { return };
    let world = World::new(temporal);
    let parts: Vec<String> = plan()
        .split("[[stage]]")
        .take(3)
        .map(str::to_owned)
        .collect();
    // Each work tree is made ready, that of a merge as well; the first time that B is merged this fails.
    // What validates it is on the workers that it runs on, whether they do it or merge it.
    let validation = "test -s B.txt && test -s ready && pwd | grep -q /two/";
    let ready = parts[2].replace("test -s B.txt", validation);
    let once = world.path("once");
    let rules = format!(
        "[worktree]\nsetup = 'if [ -e B.txt ] && [ ! -e {0} ]; then touch {0}; exit 7; fi; echo ready > ready'\n",
        once.display()
    );
    let stages = [on("linux", &parts[1]), on("gpu", &ready)].join("[[stage]]");
    let text = format!("{}{rules}[[stage]]{stages}", parts[0]);
    fs::write(world.path("project/plan.toml"), text).unwrap();
    world.git("project", &["commit", "-qam", "two stages"]);
    let _server = world.server();
    // Whoever does not wait for the end does not hear that all is done.
    let mut left = world.execute("60");
    wait_for("the fleet", || world.says("execute", "is with the fleet"));
    left.signal("-INT");
    wait_for("a stop", || world.says("execute", "stopping: "));
    left.signal("-INT");
    assert_eq!(left.code(), Some(130), "{}", world.log("execute"));
    let _one = world.labelled("one", "linux");
    assert_eq!(
        world.execute("60").code(),
        Some(69),
        "{}",
        world.log("execute")
    );
    let said = world.log("execute");
    let why = "no worker can do the stage B: it runs on gpu, and the workers have: linux";
    assert!(said.contains(why), "{said}");
    let small = fs::read_to_string(world.path("project/plan.toml")).unwrap();
    let large = small.replacen("Stage A", &"A".repeat(100_000), 1);
    fs::write(world.path("project/plan.toml"), large).unwrap();
    world.git("project", &["commit", "-qam", "a long name"]);
    assert_eq!(world.execute("60").code(), Some(78));
    let said = world.log("execute");
    assert!(said.contains("too large for a fleet"), "{said}");
    fs::write(world.path("project/plan.toml"), small).unwrap();
    world.git("project", &["commit", "-qam", "a short one"]);
    let _two = world.labelled("two", "gpu,fast");
    assert_eq!(
        world.execute("60").code(),
        Some(0),
        "{}",
        world.log("execute")
    );
    let said = world.log("execute");
    let end = said
        .lines()
        .find(|line| line.starts_with("verified complete"));
    let end = end.unwrap_or_else(|| panic!("{said}"));
    assert!(!end.contains("not committed"), "{end}");
    assert!(
        said.contains("B  done · ") && said.contains("report.html"),
        "{said}"
    );
    assert!(world.says("one", " A: attempt 1").is_some());
    assert!(world.says("two", " B: attempt 1").is_some());
    assert!(world.says("one", " B: attempt 1").is_none() && world.says("two", " A: ").is_none());
    // It was tried again, and the stage was not done again.
    let failed = " B: not merged: the worktree's setup `";
    assert_eq!(world.log("two").matches(failed).count(), 1);
    assert!(world.says("two", " B: attempt 2").is_none());

    // What was done before is not done again, and what was not is told.
    let mut only = world.execute_with("60", &["--only", "B"]);
    assert_eq!(only.code(), Some(0), "{}", world.log("execute"));
    let status = world.status("project");
    assert_eq!(status["stages"][0]["state"], "done", "{status}");
    assert!(
        world.log("one").matches(" A: attempt").count() == 1
            && world.log("two").matches(" B: attempt").count() == 2
    );
    fs::remove_file(world.path("project/A.txt")).unwrap();
    world.git("project", &["commit", "-qam", "without A"]);
    let mut from = world.execute_with("60", &["--from", "B"]);
    assert_eq!(from.code(), Some(1), "{}", world.log("execute"));
    let said = world.log("execute");
    assert!(said.contains("its validation failed"), "{said}");

    // Of two queues the worker takes a stage each, and has one slot.
    let gate = world.path("gate");
    let wait = format!("until [ -e {} ]; do sleep 0.1; done", gate.display());
    let [first, second] = [("X", "gpu"), ("Y", "fast")].map(|(id, label)| {
        let stage = parts[2].replace("needs = [\"A\"]", "needs = []");
        let stage = stage.replace("\"B\"", &format!("\"{id}\""));
        let stage = stage.replace("B.txt", &format!("{id}.txt"));
        on(label, &stage.replacen("sleep 0.5", &wait, 1))
    });
    let text = [parts[0].as_str(), &first, &second].join("[[stage]]");
    fs::write(world.path("project/plan.toml"), text).unwrap();
    world.git("project", &["commit", "-qam", "two labels"]);
    let main = world.git("project", &["rev-parse", "main"]);
    let mut both = world.execute_with("60", &["--pull-request"]);
    wait_for("a stage without a slot", || world.says("two", "given back"));
    let begun = || [" X: attempt", " Y: attempt"].map(|what| world.says("two", what).is_some());
    assert_eq!(begun().iter().filter(|begun| **begun).count(), 1);
    // A remote that is away for a while is waited for, also at a stage's end.
    fs::rename(world.path("remote"), world.path("away")).unwrap();
    fs::write(&gate, "").unwrap();
    wait_for("a remote that is away", || {
        world.says("two", "waiting for it")
    });
    fs::rename(world.path("away"), world.path("remote")).unwrap();
    assert_eq!(both.code(), Some(0), "{}", world.log("execute"));
    assert_eq!(begun(), [true, true]);
    let tries = world.log("two").matches(": attempt ").count();

    // A pull request has a branch of its own.
    assert_eq!(world.git("project", &["rev-parse", "main"]), main);
    let branch = world.git("project", &["branch", "--list", "ekiden/pull-request-*"]);
    let made = world.git("project", &["ls-tree", "--name-only", branch.trim()]);
    assert!(made.contains("X.txt") && made.contains("Y.txt"), "{made}");
    wait_for("a pull request", || {
        let mut files = fs::read_dir(world.path("project/.issues")).ok()?.flatten();
        let is_it = |text: String| text.contains("ekiden:pull-request").then_some(());
        files.find_map(|file| is_it(fs::read_to_string(file.path()).ok()?))
    });

    // Of a repository in the work tree nothing would be merged.
    let nested = first.replacen(
        &wait,
        "git init -q app && cp plan.toml app && git -C app add . && git -C app commit -qm x",
        1,
    );
    let text = [parts[0].as_str(), &nested].join("[[stage]]");
    fs::write(world.path("project/plan.toml"), text).unwrap();
    world.git("project", &["commit", "-qam", "a repository"]);
    assert_eq!(
        world.execute("60").code(),
        Some(1),
        "{}",
        world.log("execute")
    );
    let said = world.log("execute");
    assert!(
        said.contains("`app` is a separate git repository"),
        "{said}"
    );
    assert_eq!(world.log("two").matches(": attempt ").count(), tries + 1);
    let kept = world.place("two", "X").unwrap();
    assert!(
        kept.join("tree/app/plan.toml").exists(),
        "{}",
        kept.display()
    );
}

/// Two chains of stages: each needs the one before it in its chain, and does three items.
fn long_plan(stages: usize) -> String {
    let stage = |at: usize| {
        let needs = at.checked_sub(2).map(|before| format!("\"S{before}\""));
        let needs = needs.unwrap_or_default();
        let items: String = (1..=3)
            .map(|n| {
                format!("- [ ] item {n}\n  ```sh\n  sleep 0.2; echo {n} >> S{at}.txt\n  ```\n")
            })
            .collect();
        format!(
            "[[stage]]\nid = \"S{at}\"\nname = \"Stage {at}\"\nneeds = [{needs}]\noutputs = [\"S{at}.txt\"]\nturns_max = 2\n\
             validation = {{ kind = \"command\", command = \"test -s S{at}.txt\" }}\nprompt = '''\nDo it.\n\n{items}'''\n"
        )
    };
    let stages: String = (0..stages).map(stage).collect();
    format!("format = 1\nproject = \"long\"\njobs = 8\n{stages}")
}

/// `cargo xtask torture` does this with a hundred stages.
// shows: FLT-02
#[test]
fn whatever_is_killed_whenever_each_stage_is_merged_once_and_nothing_is_lost() {
    let Some(temporal) = temporal() else { return };
    let of =
        |name: &str, unless: u64| std::env::var(name).map_or(unless, |text| text.parse().unwrap());
    let stages = usize::try_from(of("EKIDEN_FLEET_STAGES", 5)).unwrap();
    let now = std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .unwrap();
    let mut seed = of("EKIDEN_FIRST_SEED", now.as_secs());
    eprintln!("EKIDEN_FIRST_SEED={seed}");
    let mut random = move |below: usize| {
        seed = seed
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(seed >> 33).unwrap() % below
    };
    let mut world = World::new(temporal);
    fs::write(world.path("project/plan.toml"), long_plan(stages)).unwrap();
    world.git("project", &["commit", "-qam", "a long plan"]);
    let mut server = world.server();
    let network = Network::before(world.port);
    world.workers_port = network.port;
    let names = ["one", "two", "three", "four"];
    let mut workers = names.map(|name| world.worker(name));
    let mut execute = world.execute("5");
    let lots = u32::try_from(stages.div_ceil(5)).unwrap();
    let (began, until) = (Instant::now(), Instant::now() + PATIENCE * lots);
    while execute.0.try_wait().unwrap().is_none() {
        assert!(Instant::now() < until, "{}", world.log("execute"));
        // A stage whose workers are killed again and again waits ever longer: in the end there is peace.
        if began.elapsed() > KILLING * lots {
            sleep(Duration::from_millis(100));
            continue;
        }
        sleep(Duration::from_millis(
            500 + 250 * u64::try_from(random(16)).unwrap(),
        ));
        match random(6) {
            0 => {
                server.kill();
                sleep(Duration::from_secs(1));
                server = world.server();
            }
            1 => network.cut(Duration::from_secs(
                1 + 2 * u64::try_from(random(4)).unwrap(),
            )),
            how => {
                for _ in 0..how / 2 {
                    let which = random(names.len());
                    workers[which].kill();
                    workers[which] = world.worker(names[which]);
                }
            }
        }
    }
    assert_eq!(execute.code(), Some(0), "{}", world.log("execute"));
    let merges = world.git(
        "project",
        &[
            "log",
            "--first-parent",
            "--format=%(trailers:key=Ekiden-Effect,valueonly)",
        ],
    );
    let mut merged: Vec<&str> = merges
        .lines()
        .filter_map(|line| line.split('/').nth(1))
        .collect();
    merged.sort_unstable();
    let mut all: Vec<String> = (0..stages).map(|at| format!("S{at}")).collect();
    all.sort_unstable();
    assert_eq!(merged, all);
    for stage in all {
        let made = fs::read_to_string(world.path(&format!("project/{stage}.txt"))).unwrap();
        let mut lines: Vec<&str> = made.lines().collect();
        lines.dedup();
        assert_eq!(lines, ["1", "2", "3"], "{stage}");
    }
    assert_eq!(world.status("project")["state"], "complete");
    world.expect("project", &["log"], 0);
}

// shows: FLT-03
#[test]
fn a_budget_holds_for_all_workers_together_and_a_larger_one_lets_the_run_go_on() {
    let Some(temporal) = temporal() else { return };
    let world = World::new(temporal);
    let parts: Vec<String> = plan().split("[[stage]]").map(str::to_owned).collect();
    let each = [1, 2, 3].map(|n| {
        let id = format!("B{n}");
        let stage = parts[2].replace("needs = [\"A\"]", "needs = []");
        stage
            .replace("\"B\"", &format!("\"{id}\""))
            .replace("B.txt", &format!("{id}.txt"))
    });
    let text = [&parts[0], &each[0], &each[1], &each[2]].map(String::as_str);
    fs::write(world.path("project/plan.toml"), text.join("[[stage]]")).unwrap();
    world.git("project", &["commit", "-qam", "three stages"]);
    let _server = world.server();
    let _workers = [world.worker("one"), world.worker("two")];
    let budgets = ["--run-tokens", "150k", "--agent-tokens", "rehearsal=200k"];
    let mut execute = world.execute_with("60", &budgets);
    assert_eq!(execute.code(), Some(3), "{}", world.log("execute"));
    let status = world.status("project");
    assert_eq!(status["outcome"]["kind"], "budget_spent", "{status}");
    // Of the plan, and not the part of the stage that ended last.
    assert_eq!(status["outcome"]["budget"]["tokens"], 150_000, "{status}");
    let spent = |status: &serde_json::Value| {
        let stages = status["stages"].as_array().unwrap().clone();
        stages
            .iter()
            .map(|stage| stage["tokens"].as_u64().unwrap())
            .sum::<u64>()
    };
    // A stage alone would not have spent that.
    assert!((75_000..=150_000).contains(&spent(&status)), "{status}");
    world.expect(
        "project",
        &["resume", "--permission-mode", "acceptEdits"],
        78,
    );
    // The agent's budget holds for all, too. Each stage alone would have enough of it.
    let resume = ["resume", "--run-tokens", "2M", "-m", "9"];
    world.expect("project", &resume, 3);
    let status = world.status("project");
    assert_eq!(
        status["outcome"]["agents"][0]["agent"], "rehearsal",
        "{status}"
    );
    // It is told the budget of all, not its part. A stage may pass its part by the end of a turn.
    assert_eq!(
        status["outcome"]["agents"][0]["budget"]["tokens"], 200_000,
        "{status}"
    );
    assert!((150_000..=210_000).contains(&spent(&status)), "{status}");
    // The remote is away when the run's new state is looked for first.
    let once = world.path("once");
    world.before_git(&format!(
        "case \"$*\" in *fetch*/stages/*) [ -e {0} ] || {{ touch {0}; echo away; exit 128; }} ; esac",
        once.display()
    ));
    let mut resume = world.command(&EKIDEN, "project");
    resume.env("PATH", world.own_path());
    resume.args(["resume", "--agent-tokens", "rehearsal=2M"]);
    let mut resume = world.start(resume, "resume.log");
    assert_eq!(resume.code(), Some(0), "{}", world.log("resume"));
    assert!(once.exists());
    let status = world.status("project");
    assert_eq!(status["state"], "complete", "{status}");
    assert!(spent(&status) > 200_000, "{status}");
}

// shows: FLT-02, FLT-03, PLN-24
#[test]
fn a_stage_that_fails_on_its_worker_costs_what_it_spent_and_its_work_is_found() {
    let Some(temporal) = temporal() else { return };
    let world = World::new(temporal);
    let parts: Vec<String> = plan().split("[[stage]]").map(str::to_owned).collect();
    let nested = parts[1].replace(
        "echo 1 >> A.txt",
        "echo 1 >> A.txt; d=ghp_$(printf 'a1B2c3D4e5F6%.0s' 1 2 3); git init -q $d; touch $d/x",
    );
    let text = [&parts[0], &nested].map(String::as_str).join("[[stage]]");
    fs::write(world.path("project/plan.toml"), text).unwrap();
    world.git("project", &["commit", "-qam", "one stage"]);
    let _server = world.server();
    let _worker = world.worker("one");
    let mut execute = world.execute_with("60", &["--run-tokens", "2M"]);
    assert_eq!(execute.code(), Some(1), "{}", world.log("execute"));
    let status = world.status("project");
    let why = status["stages"][0]["why"].to_string();
    let place = world.path("one").canonicalize().unwrap();
    for text in [
        "its worker could not carry it out: on ",
        &place.to_string_lossy(),
    ] {
        assert!(status.to_string().contains(text), "{why}: {status:#}");
    }
    // It went through the server, and what it names looks like a secret.
    let run = status["run"].as_str().unwrap();
    let log = world.path(&format!("project/.git/ekiden/root/runs/{run}/log.jsonl"));
    let log = fs::read_to_string(log).unwrap();
    assert!(log.contains("`[masked: github token]` is a separate git repository"));
    // The next try has the rest of the budget.
    let said = world.expect("project", &["resume"], 1);
    assert!(!said.contains("budget"), "{said}");
}

// shows: FLT-02
#[test]
fn a_file_of_the_users_that_git_ignores_is_not_overwritten_at_the_end() {
    let Some(temporal) = temporal() else { return };
    let world = World::new(temporal);
    let one: Vec<String> = plan()
        .split("[[stage]]")
        .take(2)
        .map(str::to_owned)
        .collect();
    fs::write(world.path("project/plan.toml"), one.join("[[stage]]")).unwrap();
    world.git("project", &["commit", "-qam", "one stage"]);
    fs::write(world.path("project/.git/info/exclude"), "A.txt\n").unwrap();
    fs::write(world.path("project/A.txt"), "mine").unwrap();
    let _server = world.server();
    let _worker = world.worker("one");
    let mut execute = world.execute("60");
    assert_eq!(execute.code(), Some(5), "{}", world.log("execute"));
    let said = world.log("execute");
    assert!(
        said.contains("git merge --no-overwrite-ignore ekiden/"),
        "{said}"
    );
    let kept = fs::read_to_string(world.path("project/A.txt")).unwrap();
    assert_eq!(kept, "mine");
}

// shows: FLT-03
#[test]
fn a_usage_limit_holds_the_workers_of_its_account_and_no_others() {
    let Some(temporal) = temporal() else { return };
    let world = World::new(temporal);
    let parts: Vec<String> = plan().split("[[stage]]").map(str::to_owned).collect();
    // A session of the second waits until its worker knows of the limit; the next one must not begin.
    let gate = world.path("gate");
    let each = ["one", "two", "three"].map(|name| {
        let mut stage = parts[2].replace("needs = [\"A\"]", "needs = []");
        if name == "two" {
            let wait = format!("until [ -e {} ]; do sleep 0.1; done", gate.display());
            stage = stage.replacen("sleep 0.5", &wait, 1);
        }
        let stage = on(name, &stage);
        stage
            .replace("\"B\"", &format!("\"{name}\""))
            .replace("B.txt", &format!("{name}.txt"))
    });
    let text = [&parts[0], &each[0], &each[1], &each[2]].map(String::as_str);
    fs::write(world.path("project/plan.toml"), text.join("[[stage]]")).unwrap();
    world.git("project", &["commit", "-qam", "three stages"]);
    let _server = world.server();
    let limit = "[[act]]\nsession = 1\nat = \"call\"\ndo = { limit = 120 }\n";
    let worker = |name: &str, account: &str, scenario| {
        world.worker_with(name, &["--label", name, "--account", account], scenario)
    };
    let _workers = [
        worker("one", "max", Some(limit)),
        worker("two", "max", None),
        worker("three", "other", None),
    ];
    let mut execute = world.execute("60");
    wait_for("a note on the other worker", || {
        let limits = world.place("two", "two")?.join("limits");
        limits.read_dir().ok()?.next().map(drop)
    });
    fs::write(&gate, "").unwrap();
    wait_for("a session that is not begun", || {
        world
            .log_at("two", "two")
            .contains("limit_known")
            .then_some(())
    });
    assert!(world.log_at("one", "one").contains("rate_limited"));
    wait_for("the third", || {
        world.says("three", "three: verification passed")
    });
    assert!(
        world.says("two", "two: verification").is_none(),
        "it was not held"
    );
    execute.signal("-INT");
    assert_eq!(execute.code(), Some(3), "{}", world.log("execute"));
}

/// A login that has expired on one machine, and a limit of one account that resets too late.
// shows: FLT-03, FLT-04
#[test]
fn a_stage_goes_to_another_worker_if_the_agent_of_one_cannot_work() {
    let Some(temporal) = temporal() else { return };
    let world = World::new(temporal);
    let parts: Vec<String> = plan().split("[[stage]]").map(str::to_owned).collect();
    let two = parts[2]
        .replace("needs = [\"A\"]", "needs = []")
        .replace("sleep 0.5; ", "");
    let text = [&parts[0], &parts[1], &two]
        .map(String::as_str)
        .join("[[stage]]");
    fs::write(world.path("project/plan.toml"), text).unwrap();
    world.git("project", &["commit", "-qam", "two stages"]);
    let _server = world.server();
    let act = |deed: &str| format!("[[act]]\nat = \"prompt\"\ndo = {{ {deed} }}\n");
    let (expired, limited) = (act("fail = 401"), act("limit = 90000"));
    let worker = |name: &str, scenario| {
        let args = ["--account", name, "--slots", "1"];
        world.worker_with(name, &args, scenario)
    };
    let one = worker("one", Some(&expired));
    // If there is no other one, the plan ends.
    assert_eq!(world.execute("60").code(), Some(69));
    let two = worker("two", Some(&limited));
    let mut execute = world.execute("60");
    for (name, mut worker) in [("one", one), ("two", two)] {
        wait_for("a stage that is given back", || {
            world.says(name, "; it goes to another worker")
        });
        worker.signal("-TERM");
        assert_eq!(worker.code(), Some(0));
    }
    let _three = worker("three", None);
    assert_eq!(execute.code(), Some(0), "{}", world.log("execute"));
    assert_eq!(world.log("three").matches(": attempt ").count(), 2);
}

// shows: FLT-05
#[test]
fn a_worker_runs_only_what_a_trusted_key_has_signed() {
    let Some(temporal) = temporal() else { return };
    let world = World::new(temporal);
    for name in ["key", "other"] {
        let mut keygen = world.command(Path::new("ssh-keygen"), "");
        keygen.args(["-q", "-t", "ed25519", "-N", "", "-f", name]);
        assert!(keygen.status().unwrap().success());
    }
    let public = fs::read_to_string(world.path("key.pub")).unwrap();
    fs::write(
        world.path("trusted"),
        format!("me@example.invalid {public}"),
    )
    .unwrap();
    let configure = |sign: Option<&str>| {
        let at = |name: &str| world.path(name).to_str().unwrap().to_owned();
        let sign = sign.map(|key| format!("sign_key = {:?}\n", at(key)));
        let text = format!("[fleet]\ntrusted_keys = {:?}\n", at("trusted"));
        let dir = world.path("home/.config/ekiden");
        fs::create_dir_all(&dir).unwrap();
        fs::write(dir.join("config.toml"), text + &sign.unwrap_or_default()).unwrap();
    };
    let one = plan()
        .split("[[stage]]")
        .take(2)
        .collect::<Vec<_>>()
        .join("[[stage]]");
    fs::write(world.path("project/plan.toml"), one).unwrap();
    world.git("project", &["commit", "-qam", "one stage"]);
    configure(None);
    let _server = world.server();
    let _worker = world.worker("one");
    for sign in [None, Some("other")] {
        configure(sign);
        assert_ne!(world.execute("60").code(), Some(0));
        let said = world.log("execute");
        assert!(
            said.contains("is not signed by a key that this worker trusts"),
            "{said}"
        );
        assert!(world.pushed_log("A").is_none() && !world.path("project/A.txt").exists());
        fs::remove_file(world.path("execute.log")).unwrap();
    }
    configure(Some("key"));
    assert_eq!(
        world.execute("60").code(),
        Some(0),
        "{}",
        world.log("execute")
    );
    assert!(world.path("project/A.txt").exists());
}

impl World {
    /// Somebody who may write to the remote changes a file of what lies at a ref. Gives the commit that was there.
    fn tamper(&self, name: &str, file: &str, change: impl Fn(String) -> String) -> String {
        if !self.path("evil").exists() {
            self.git("", &["clone", "-q", "remote", "evil"]);
        }
        let git = |args: &[&str]| self.git("evil", args);
        git(&["fetch", "-q", "origin", name]);
        git(&["checkout", "-q", "--force", "--detach", "FETCH_HEAD"]);
        let path = self.path("evil").join(file);
        let text = fs::read_to_string(&path).unwrap();
        let changed = change(text.clone());
        assert_ne!(text, changed);
        fs::write(path, changed).unwrap();
        git(&["add", "--force", file]);
        let (tree, before) = (git(&["write-tree"]), git(&["rev-parse", "HEAD"]));
        let parents = git(&["rev-parse", "HEAD^@"]);
        let parents = parents.lines().flat_map(|parent| ["-p", parent]);
        let args = ["commit-tree", "-m", "changed", &tree].into_iter();
        let commit = git(&args.chain(parents).collect::<Vec<_>>());
        git(&["push", "-qf", "origin", &format!("{commit}:{name}")]);
        before
    }
}

// shows: FLT-05
#[test]
fn a_log_at_the_remote_decides_neither_what_runs_nor_what_an_agent_may() {
    let Some(temporal) = temporal() else { return };
    let world = World::new(temporal);
    let parts: Vec<String> = plan().split("[[stage]]").map(str::to_owned).collect();
    let alone = parts[2].replace("needs = [\"A\"]", "needs = []");
    let text = [&parts[0], &alone].map(String::as_str).join("[[stage]]");
    fs::write(world.path("project/plan.toml"), text).unwrap();
    world.git("project", &["commit", "-qam", "one stage"]);
    let _server = world.server();
    let _worker = world.worker("one");
    let mut execute = world.execute("60");
    wait_for("a handoff", || world.pushed_log("B"));
    execute.signal("-INT");
    assert_eq!(execute.code(), Some(3), "{}", world.log("execute"));

    let said = world.log("execute");
    let run = run_of(&said);
    let (name, log) = (
        format!("refs/ekiden/{run}/stages/B/1"),
        format!("state/runs/{run}/log.jsonl"),
    );
    let mark = world.path("mark");
    let command = format!("touch {} && test -s", mark.display());
    let before = world.tamper(&name, &log, |log| log.replacen("test -s", &command, 1));
    // One that goes on where it should not may never end.
    let resume = |log: &str| {
        let mut command = world.command(&EKIDEN, "project");
        command.arg("resume");
        let code = world.start(command, &format!("{log}.log")).code();
        (code, world.log(log))
    };
    let (code, said) = resume("first");
    assert!(said.contains("is not of this plan"), "{code:?} {said}");

    let restore = |commit: &str| {
        world.git("remote", &["update-ref", &name, commit]);
    };
    restore(&before);
    let guided = |log: String| log.replacen("\"guided\":false", "\"guided\":true", 1);
    world.tamper(&name, &log, guided);
    let (code, said) = resume("settings");
    assert!(said.contains("is not of this plan"), "{code:?} {said}");

    restore(&before);
    let wider = |log: String| {
        let last: serde_json::Value = serde_json::from_str(log.lines().last().unwrap()).unwrap();
        let seq = last["seq"].as_u64().unwrap() + 1;
        let event = serde_json::json!({
            "kind": "run_resumed", "ekiden": "0.1.0", "task": null, "answer": null,
            "permissions": { "mode": null, "skip": true, "allowed_tools": [] },
        });
        let record = serde_json::json!({
            "seq": seq, "time": last["time"], "logic": 1, "event": event, "effects": [],
        });
        format!("{log}{record}\n")
    };
    world.tamper(&name, &log, wider);
    let (code, said) = resume("second");
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("changes what was approved"), "{said}");
    assert!(!world.path("project/B.txt").exists());

    restore(&before);
    world.expect("project", &["resume"], 0);
    assert!(world.path("project/B.txt").exists() && !mark.exists());
}

// shows: FLT-05
#[test]
fn whoever_follows_keeps_to_the_remote_and_the_run_that_they_named() {
    let Some(temporal) = temporal() else { return };
    let world = World::new(temporal);
    let parts: Vec<String> = plan().split("[[stage]]").map(str::to_owned).collect();
    let one = parts[..2].join("[[stage]]");
    fs::write(world.path("project/plan.toml"), one).unwrap();
    world.git("project", &["commit", "-qam", "one stage"]);
    world.git("project", &["push", "-q", "origin", "main"]);
    world.git("", &["clone", "-q", "remote", "other"]);
    let mut server = world.server();
    // Another run, which somebody looked at there.
    let submit = ["execute", "plan.toml", "--on", "fleet", "--yes", "--detach"];
    let said = world.expect(
        "project",
        &[&submit[..], &["--agent", "rehearsal"]].concat(),
        0,
    );
    let first = run_of(&said).to_owned();
    let mut command = world.command(&EKIDEN, "other");
    command.args(["fleet", "follow", &first]);
    let mut follower = world.start(command, "first.log");
    wait_for("why it waits", || {
        world.says(
            "first",
            "no worker takes stages from `ekiden`; the plan waits",
        )
    });
    assert_eq!(world.status("other")["state"], "running");
    follower.kill();
    let _worker = world.worker("one");
    assert_eq!(
        world.execute("60").code(),
        Some(0),
        "{}",
        world.log("execute")
    );
    let said = world.log("execute");
    let run = run_of(&said);
    let name = format!("refs/ekiden/{run}/plan");
    let follow = ["fleet", "follow", run];

    let before = world.tamper(&name, "plan.json", |plan| plan.replace(run, "0badcafe"));
    let mut command = world.command(&EKIDEN, "other");
    command.args(follow);
    assert_eq!(world.start(command, "follow.log").code(), Some(78));
    let said = world.log("follow");
    assert!(said.contains("is that of another run"), "{said}");
    world.git("remote", &["update-ref", &name, &before]);

    let mark = world.path("mark");
    let theirs = format!("ext::touch {}", mark.display());
    world.tamper(&name, "plan.json", |plan| {
        let mut plan: serde_json::Value = serde_json::from_str(&plan).unwrap();
        // Its user's address of the remote may contain a key.
        assert_eq!(plan["header"]["fleet"]["remote"], "");
        plan["header"]["fleet"]["remote"] = theirs.clone().into();
        plan.to_string()
    });
    world.git("other", &["config", "protocol.ext.allow", "always"]);
    let mine = world.path("other/.git/FETCH_HEAD");
    fs::write(&mine, "mine").unwrap();
    world.expect("other", &follow, 0);
    assert_eq!(fs::read_to_string(mine).unwrap(), "mine");
    assert_eq!(world.status("other")["state"], "complete");
    let log = world.path(&format!("other/.git/ekiden/root/runs/{run}/log.jsonl"));
    let log = fs::read_to_string(log).unwrap();
    assert!(!mark.exists() && !log.contains("ext::"), "{log}");

    // A server that has lost all runs has not got this one either.
    server.kill();
    for name in ["server.db", "server.db-shm", "server.db-wal"] {
        let _ = fs::remove_file(world.path(name));
    }
    let _server = world.server();
    let said = world.expect("other", &["fleet", "follow", &first], 66);
    assert!(said.contains("perhaps it has forgotten it"), "{said}");
    assert!(!said.contains("shows it"), "{said}");
}

// shows: FLT-01
#[test]
fn a_run_is_seen_and_steered_from_any_machine_as_one_of_its_own() {
    let Some(temporal) = temporal() else { return };
    let world = World::new(temporal);
    let parts: Vec<String> = plan().split("[[stage]]").map(str::to_owned).collect();
    let (ready, allowed) = (world.path("ready"), world.path("allowed"));
    // Its item fails until somebody allows it, so it asks, once somebody follows the run.
    let asks = format!(
        "until test -f {}; do sleep 0.2; done; test -f {} && echo 1 ",
        ready.display(),
        allowed.display()
    );
    let asking = parts[1].replace("echo 1 ", &asks);
    // It waits until it may go on, so that it is at work when the run is stopped.
    let go = world.path("go");
    let waits = format!("until test -f {}; do sleep 0.2; done", go.display());
    let slow = parts[2].replace("needs = [\"A\"]", "needs = []");
    let slow = slow.replace("sleep 0.5", &waits);
    let last = parts[5].replace("\"B\", \"C\", \"D\"", "\"A\", \"B\"");
    let text = [&parts[0], &asking, &slow, &last]
        .map(String::as_str)
        .join("[[stage]]");
    fs::write(world.path("project/plan.toml"), text).unwrap();
    world.git("project", &["commit", "-qam", "a stage that asks"]);
    world.git("project", &["push", "-q", "origin", "main"]);
    world.git("", &["clone", "-q", "remote", "other"]);
    let (tell, told) = (world.path("tell"), world.path("told"));
    let script = format!("#!/bin/sh\ncat >> {}\n", told.display());
    fs::write(&tell, script).unwrap();
    fs::set_permissions(&tell, fs::Permissions::from_mode(0o755)).unwrap();
    let config = world.path("home/.config/ekiden");
    fs::create_dir_all(&config).unwrap();
    let settings = format!("[notify]\ncommand = [{:?}]\n", tell.display().to_string());
    fs::write(config.join("config.toml"), settings).unwrap();
    let _server = world.server();
    let _worker = world.worker("one");
    let args = [
        "execute",
        "plan.toml",
        "--on",
        "fleet",
        "--yes",
        "--agent",
        "rehearsal",
    ];
    let said = world.expect("project", &[&args[..], &["--detach"]].concat(), 0);
    let run = run_of(&said).to_owned();
    assert_eq!(world.status("project")["state"], "with_the_fleet");
    let refused = world.expect("project", &["stop"], 69);
    assert!(refused.contains("ekiden fleet follow"), "{refused}");

    let follow = |log: &str| {
        let mut command = world.command(&EKIDEN, "other");
        command.args(["fleet", "follow", &run]);
        world.start(command, log)
    };
    let mut follower = follow("follow.log");
    wait_for("a follower", || {
        world.says("follow", "ctrl-c leaves it alone")
    });
    fs::write(&ready, "").unwrap();
    let stage = |dir: &str, id: &str| {
        let status = world.status(dir);
        let stages = status["stages"].as_array().cloned().unwrap_or_default();
        stages
            .into_iter()
            .find(|stage| stage["id"] == id)
            .unwrap_or_default()
    };
    wait_for("a question", || {
        world
            .expect("other", &["status"], 0)
            .contains("asks")
            .then_some(())
    });
    assert_eq!(world.status("other")["state"], "running");
    let kinds = || {
        let told = fs::read_to_string(&told).unwrap_or_default();
        let kinds = told.lines().map(|line| {
            let told: serde_json::Value = serde_json::from_str(line).unwrap();
            format!("{} {}", told["stage"], told["kind"])
        });
        kinds.collect::<Vec<_>>()
    };
    let question = r#""A" "needs_you""#;
    wait_for("a notification", || (kinds() == [question]).then_some(()));
    wait_for("B at work", || {
        (stage("other", "B")["state"] == "running").then_some(())
    });
    // Before it hands off, and wherever it is.
    wait_for("what B does", || {
        let status = world.status("other");
        let doing = status["activity"].as_str()?;
        doing.starts_with("on ").then_some(())
    });
    world.expect("other", &["next"], 0);
    world.expect("other", &["limits", "--session-timeout", "2h"], 0);
    world.tell("other", &run, "Count from one.");
    wait_for("what B is told", || {
        let log = world.log_at("one", "B");
        let told = ["\"kind\":\"say\"", "7200000", "Count from one."];
        told.iter().all(|told| log.contains(told)).then_some(())
    });
    world.expect("other", &["pause"], 0);
    assert_eq!(world.status("other")["paused"], true);
    world.expect("other", &["unpause"], 0);
    assert_eq!(world.status("other")["paused"], false);
    fs::write(&allowed, "").unwrap();
    world.expect("other", &["answer", "--stage", "A", "It is allowed."], 0);
    wait_for("A", || {
        (stage("other", "A")["state"] == "done").then_some(())
    });

    // Whoever follows may be killed, and goes on where the log is.
    follower.kill();
    assert_eq!(world.status("other")["state"], "with_the_fleet");
    follower = follow("follow.log");
    wait_for("the next follower", || {
        (world.status("other")["state"] == "running").then_some(())
    });
    world.expect("other", &["stop"], 0);
    assert_eq!(follower.code(), Some(3), "{}", world.log("follow"));
    assert_eq!(world.at_work("one"), 0);
    assert_eq!(world.status("other")["exit_code"], 3);
    fs::write(&go, "").unwrap();
    // The other machine knows nothing of that, and goes on with it all the same.
    world.expect("project", &["resume"], 0);
    assert!(world.path("project/E.txt").exists());
    let done = r#"null "done""#;
    // Nobody is told again what happened before.
    assert_eq!(kinds(), [question, done]);
    // Here it was stopped, as far as anybody knows, and has been complete since.
    world.expect("other", &["resume"], 0);
    assert!(world.path("other/E.txt").exists());
    assert_eq!(kinds(), [question, done, done]);
    for dir in ["project", "other"] {
        let status = world.status(dir);
        assert_eq!(status["state"], "complete", "{status}");
        let states = ["A", "B", "E"].map(|id| stage(dir, id)["state"].clone());
        assert_eq!(states, ["done", "done", "done"], "{status}");
        let log = world.expect(dir, &["log"], 0);
        for said in ["It is allowed.", "Count from one.", "2h a session"] {
            assert!(log.contains(said), "{said}: {log}");
        }
        let report = world.expect(dir, &["report", "--json"], 0);
        let report: serde_json::Value = serde_json::from_str(&report).unwrap();
        let report = fs::read_to_string(report["markdown"].as_str().unwrap()).unwrap();
        for name in ["Stage A", "Stage B", "Stage E"] {
            assert!(report.contains(name), "{report}");
        }
    }
    assert_eq!(
        world.expect("project", &["sessions", "--stage", "B"], 0),
        world.expect("other", &["sessions", "--stage", "B"], 0)
    );
    // What was said to the sessions before the stop is in one prompt of a stage at work, and in that of one that began later.
    let prompts = |id: &str| {
        let prompts = (1..9).map(|session: u32| {
            let session = session.to_string();
            let show = ["show", &session, "--stage", id, "--prompt"];
            world.ekiden("project", &show).1
        });
        prompts
            .filter(|prompt| prompt.contains("Count from one."))
            .count()
    };
    assert_eq!((prompts("B"), prompts("E")), (1, 1));
}

/// Stages that each need the one before it, on workers that take turns.
fn chain(stages: usize) -> String {
    let stage = |at: usize| {
        let needs = at.checked_sub(1).map(|before| format!("\"S{before}\""));
        let (needs, worker) = (needs.unwrap_or_default(), ["one", "two"][at % 2]);
        format!(
            "[[stage]]\nid = \"S{at}\"\nname = \"Stage {at}\"\nruns_on = [\"{worker}\"]\nneeds = [{needs}]\n\
             outputs = [\"S{at}.txt\"]\nvalidation = {{ kind = \"command\", command = \"test -s S{at}.txt\" }}\n\
             prompt = '''\nDo it.\n\n- [ ] item 1\n  ```sh\n  echo 1 >> S{at}.txt\n  ```\n'''\n"
        )
    };
    let stages: String = (0..stages).map(stage).collect();
    format!("format = 1\nproject = \"chain\"\n{stages}")
}

/// `cargo xtask bench fleet` runs it, with so many stages: from an agent's end to the start of the next stage's on the other
/// worker, with the merge between them.
#[test]
fn measure_what_lies_between_two_agents() {
    let Ok(stages) = std::env::var("EKIDEN_BENCH_CHAIN") else {
        return;
    };
    let Some(temporal) = temporal() else { return };
    let stages: usize = stages.parse().unwrap();
    let world = World::new(temporal);
    fs::write(world.path("project/plan.toml"), chain(stages)).unwrap();
    world.git("project", &["commit", "-qam", "a chain"]);
    let _server = world.server();
    let workers = ["one", "two"].map(|name| world.labelled(name, name));
    assert_eq!(
        world.execute("60").code(),
        Some(0),
        "{}",
        world.log("execute")
    );
    let mut gaps: Vec<u64> = Vec::new();
    let mut before = None;
    for at in 0..stages {
        let log = world.pushed_log(&format!("S{at}")).unwrap();
        let mut records = log
            .lines()
            .map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
        let of_attempt = |kind: &'static str| {
            move |record: &serde_json::Value| record["event"]["event"]["event"]["kind"] == kind
        };
        let mut started = records.clone().filter(of_attempt("started"));
        let ended = records.rfind(of_attempt("ended")).unwrap();
        let started = started.next().unwrap()["time"].as_u64().unwrap();
        gaps.extend(before.map(|before| started - before));
        before = ended["time"].as_u64();
    }
    eprintln!("{gaps:?}");
    gaps.sort_unstable();
    let resident = workers.iter().map(resident_kb).max();
    let figures = serde_json::json!({
        "agent_to_agent_ms": gaps[gaps.len() / 2],
        "worker_kb": resident,
    });
    println!("{figures}");
}

/// What a process has in memory, in kB.
fn resident_kb(process: &Process) -> u64 {
    let status = fs::read_to_string(format!("/proc/{}/status", process.0.id())).unwrap();
    let mut lines = status.lines();
    let line = lines.find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

/// Of an agent's end to the start of the next stage's, most is git.
// shows: FLT-06
#[test]
fn from_stage_to_stage_there_are_few_git_commands_and_fewer_that_reach_the_remote() {
    let Some(temporal) = temporal() else { return };
    let world = World::new(temporal);
    let stages = 4;
    fs::write(world.path("project/plan.toml"), chain(stages)).unwrap();
    world.git("project", &["commit", "-qam", "a chain"]);
    world.count_git();
    let _server = world.server();
    let _workers = ["one", "two"].map(|name| world.labelled(name, name));
    assert_eq!(
        world.execute("60").code(),
        Some(0),
        "{}",
        world.log("execute")
    );
    let log = world.log("git");
    // A worker's push on trial, once when it starts.
    let trial = [
        "hash-object -w -t tree",
        "a worker tries whether",
        "refs/ekiden/probe/",
    ];
    // The stages' own engines call it otherwise.
    let of_workers = log
        .lines()
        .filter_map(|line| line.strip_prefix("-c gc.auto=0 -c maintenance.auto=false "))
        .filter(|line| !trial.iter().any(|text| line.contains(text)));
    let count =
        |wanted: &dyn Fn(&&str) -> bool| of_workers.clone().filter(|line| wanted(line)).count();
    // A handoff whose stage goes on for a while after it, as where a validation is slow, is pushed by itself.
    let handoffs = count(&|line| line.contains("ekiden: a handoff of"));
    let (apart, of_one) = (handoffs - stages, 10);
    let results: usize = (0..stages).sum();
    let all = count(&|_| true) - apart * of_one - results;
    let remote = count(&|line| line.starts_with("push") || line.starts_with("fetch")) - apart;
    // Workers begin with a look for git's settings, a merge, a repository of their own, and the plan.
    assert!(all <= 30 * stages + 10, "{all}: {log}");
    assert!(remote <= 5 * stages + 2, "{remote}: {log}");
}

#[test]
fn without_a_server_it_says_what_to_do() {
    let world = World::new(PathBuf::new());
    let mut execute = world.execute("60");
    assert_eq!(execute.code(), Some(69), "{}", world.log("execute"));
    let said = world.log("execute");
    assert!(
        said.contains("the Temporal server does not answer"),
        "{said}"
    );
    assert!(said.contains("ekiden fleet dev"), "{said}");
    assert!(said.contains("answer: Connection refused"), "{said}");
    // Whatever a worker keeps is its user's alone.
    let mut worker = world.begin_worker("one", &[], None);
    assert_eq!(worker.code(), Some(69), "{}", world.log("one"));
    let mode = world.path("one").metadata().unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o700);
}
