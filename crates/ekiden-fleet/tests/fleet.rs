//! A fleet on the real server: two workers, a plan of five stages, and what is killed on the way.
//!
//! The server is `temporal` in `temporal-server/venv/bin`, or on PATH (temporal-server/README.md). Without it, or with
//! `EKIDEN_NO_FLEET=1`, the tests say that they were left out.

#![expect(
    clippy::disallowed_methods,
    clippy::disallowed_macros,
    clippy::unwrap_used,
    reason = "tests start programs, write files, read the clock and say what was left out"
)]

use std::fs;
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::LazyLock;
use std::thread::sleep;
use std::time::{Duration, Instant};

use prost::Message as _;
use tempfile::TempDir;
use temporalio_client::{
    Client, ClientOptions, Connection, ConnectionOptions, Url, WorkflowFetchHistoryOptions,
};
use temporalio_common::UntypedWorkflow;
use temporalio_common::protos::temporal::api::history::v1::History;

/// What a busy machine may take for anything here.
const PATIENCE: Duration = Duration::from_secs(150);

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

/// Temporal's program; a message if there is none.
fn temporal() -> Option<PathBuf> {
    if std::env::var_os("EKIDEN_NO_FLEET").is_some() {
        eprintln!("left out: EKIDEN_NO_FLEET is set");
        return None;
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = [root().join("temporal-server/venv/bin")]
        .into_iter()
        .chain(std::env::split_paths(&path))
        .map(|dir| dir.join("temporal"))
        .find(|program| program.is_file());
    if found.is_none() {
        eprintln!("left out: there is no `temporal`; see temporal-server/README.md");
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
}

impl World {
    /// A project, and a remote that all reach.
    fn new(temporal: PathBuf) -> Self {
        let free = TcpListener::bind("127.0.0.1:0").unwrap();
        let world = Self {
            dir: tempfile::tempdir().unwrap(),
            temporal,
            port: free.local_addr().unwrap().port(),
        };
        fs::create_dir(world.path("home")).unwrap();
        let config =
            "[user]\nname = Test\nemail = test@example.invalid\n[init]\ndefaultBranch = main\n";
        fs::write(world.path("home/.gitconfig"), config).unwrap();
        fs::create_dir(world.path("project")).unwrap();
        fs::write(world.path("project/plan.toml"), plan()).unwrap();
        world.git("", &["init", "-q", "--bare", "remote"]);
        world.git("project", &["init", "-q"]);
        world.git("project", &["add", "."]);
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
        self.worker_of(name, &["ekiden"])
    }

    fn worker_of(&self, name: &str, queues: &[&str]) -> Process {
        let mut command = self.command(&EKIDEN, "");
        command.arg("worker");
        queues.iter().for_each(|queue| {
            command.args(["--queue", queue]);
        });
        command.args(["--slots", "2", "--dir", name, "--remote"]);
        let worker = self.start(arg(command, &self.path("remote")), &format!("{name}.log"));
        wait_for("a worker", || self.says(name, "waiting for stages"));
        worker
    }

    fn execute(&self, lease: &str) -> Process {
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
        command.args(["--lease", lease]);
        self.start(command, "execute.log")
    }

    /// Writes the workflow's history down, for the test that replays it.
    fn record(&self) {
        if std::env::var_os("UPDATE_EXPECT").is_none() {
            return;
        }
        let said = self.log("execute");
        let run = said.split_whitespace().nth(1).unwrap();
        let server: Url = format!("http://127.0.0.1:{}", self.port).parse().unwrap();
        let runtime = tokio::runtime::Runtime::new().unwrap();
        let events = runtime.block_on(async {
            let connected = Connection::connect(ConnectionOptions::new(server).build()).await;
            let client = Client::new(connected.unwrap(), ClientOptions::new("default").build());
            let id = format!("ekiden-{run}");
            let handle = client.unwrap().get_workflow_handle::<UntypedWorkflow>(id);
            let options = WorkflowFetchHistoryOptions::default();
            handle.fetch_history(options).into_events().await.unwrap()
        });
        let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/history-1.bin");
        fs::write(file, History { events }.encode_to_vec()).unwrap();
    }

    fn log(&self, name: &str) -> String {
        fs::read_to_string(self.path(&format!("{name}.log"))).unwrap_or_default()
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

    /// Processes that work for a worker.
    fn at_work(&self, worker: &str) -> usize {
        let dir = self.path(worker).canonicalize().unwrap();
        let processes = fs::read_dir("/proc").unwrap().flatten();
        let places = processes.filter_map(|process| fs::read_link(process.path().join("cwd")).ok());
        places.filter(|place| place.starts_with(&dir)).count()
    }
}

fn arg(mut command: Command, arg: &Path) -> Command {
    command.arg(arg);
    command
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

// shows: FLT-02
#[test]
fn a_worker_and_the_server_are_killed_and_each_stage_is_merged_once() {
    let Some(temporal) = temporal() else { return };
    let world = World::new(temporal);
    let mut server = world.server();
    let mut workers = [world.worker("one"), world.worker("two")];
    let mut execute = world.execute("5");

    let before = wait_for("a handoff of B", || world.pushed_log("B"));
    let with_b = usize::from(world.says("one", " B: attempt 1").is_none());
    workers[with_b].kill();
    let other = ["two", "one"][with_b];
    wait_for("B elsewhere", || world.says(other, " B: attempt 2"));
    server.kill();
    let _server = world.server();

    assert_eq!(execute.code(), Some(0), "{}", world.log("execute"));
    world.record();
    let format = "--format=%(trailers:key=Ekiden-Effect,valueonly)";
    let merges = world.git("project", &["log", "--first-parent", format]);
    let mut stages: Vec<&str> = merges
        .lines()
        .filter_map(|line| line.split('/').nth(1))
        .collect();
    stages.sort_unstable();
    assert_eq!(stages, ["A", "B", "C", "D", "E"], "{merges}");
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
}

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
    assert!(world.log("execute").contains("it was stopped"));
}

// shows: FLT-04
#[test]
fn a_stage_goes_to_the_workers_of_its_queue_and_one_that_nobody_can_do_is_told_at_once() {
    let Some(temporal) = temporal() else { return };
    let world = World::new(temporal);
    let parts: Vec<String> = plan()
        .split("[[stage]]")
        .take(3)
        .map(str::to_owned)
        .collect();
    let on_gpu = parts[2].replacen("\nname", "\nqueue = \"gpu\"\nname", 1);
    let text = format!("{}[[stage]]{}[[stage]]{on_gpu}", parts[0], parts[1]);
    fs::write(world.path("project/plan.toml"), text).unwrap();
    world.git("project", &["commit", "-qam", "two stages"]);
    let _server = world.server();
    let _one = world.worker("one");
    assert_eq!(
        world.execute("60").code(),
        Some(69),
        "{}",
        world.log("execute")
    );
    let said = world.log("execute");
    assert!(
        said.contains("stages for the queue `gpu`, and no worker takes from it"),
        "{said}"
    );
    let _two = world.worker_of("two", &["gpu"]);
    assert_eq!(
        world.execute("60").code(),
        Some(0),
        "{}",
        world.log("execute")
    );
    assert!(world.says("one", " A: attempt 1").is_some());
    assert!(world.says("two", " B: attempt 1").is_some());
    assert!(world.says("one", " B: attempt 1").is_none() && world.says("two", " A: ").is_none());
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
}
