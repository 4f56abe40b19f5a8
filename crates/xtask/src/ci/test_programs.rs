//! The tests of CI: built once, then run program by program, as `cargo test` would run them.
//!
//! Three rows of programs run at the same time, since most tests wait: for a client, for a server, for a process to end.
//! The programs that wait most have a row of their own. The simulations only compute: they are optimised and have the
//! lowest priority. Of these two rows the output comes last.

use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::real_client::Clients;
use crate::shell::{self, Program};

/// The test program that only computes.
pub(super) const SIMULATION: &str = "simulation";
/// The tests of the contract with a client.
const CONTRACT: &str = "contract";
const OLDER: &str = "contract, older client";
/// Their tests mostly wait, for a server or for an agent that tries again. In this order: the last one has cargo build
/// the program, which waits for the build of the simulations.
const WAITING: [&str; 3] = ["conformance", OLDER, "fleet"];

/// Its tests that run with the pinned client only. They are about how runs of many sessions, stages and agents begin, end and
/// go on; the others are about what a client says and does in a session.
const ONE_CLIENT: [&str; 6] = [
    "both::",
    "cut_off::",
    "plan::",
    "ralph::",
    "review::",
    "two_agents::",
];

/// The test that does what the step `tidy` does.
const TIDY: &str = "tidy::tests::the_project_is_tidy";

/// Names the real client for the tests; if it is then missing, that is a failure.
const CLIENT_VARIABLE: &str = "EKIDEN_REAL_CLIENT";
/// Each of the two seeded simulations may take this long: together a minute.
const SEED_SECONDS: &str = "30";
/// How many losses to try at each crash. Each commit tries different ones; `soak` tries all.
const LOSSES: &str = "30";
/// If more tests fail, they have a reason in common.
const TRIED_AGAIN_MAX: usize = 3;
/// A file system in memory, where tests make their files if it has this much room. They do not lose power, so nothing
/// that they show depends on a disk, and they take a sixth less time.
const IN_MEMORY: &str = "/dev/shm";
const IN_MEMORY_KIB_MIN: u64 = 8 << 20;
/// The summary names the programs that took this long.
const LONG: Duration = Duration::from_secs(30);

/// A program with tests, as cargo built it.
pub(super) struct TestProgram {
    name: String,
    program: PathBuf,
    /// Its package's directory. Cargo runs it there.
    dir: PathBuf,
}

/// All tests.
pub(super) fn every_test() -> Program {
    Program::cargo(&["test", "--locked", "--workspace"])
}

/// One test program, optimised. It names no package: for a single one, cargo would choose other features for the libraries
/// and build them again.
pub(super) fn optimised(test: &str) -> Program {
    every_test()
        .arg("--config")
        .arg(".cargo/optimised.toml")
        .arg("--test")
        .arg(test)
}

/// Builds all test programs. Cargo prints a line of JSON about each.
pub(super) fn build() -> Program {
    every_test()
        .arg("--no-run")
        .arg("--message-format=json-render-diagnostics")
}

pub(super) fn built(programs: &mut Vec<TestProgram>) -> Result<String, String> {
    let told = super::in_target(build()).output()?;
    programs.extend(told.lines().filter_map(test_program));
    // Cargo names them as they are built.
    programs.sort_by(|one, other| (&one.dir, &one.name).cmp(&(&other.dir, &other.name)));
    match programs.len() {
        0 => Err("cargo names no test program".to_owned()),
        count => Ok(format!("{count} test programs")),
    }
}

/// The test program in a message from cargo; none if the message is about something else.
fn test_program(message: &str) -> Option<TestProgram> {
    let message: serde_json::Value = serde_json::from_str(message).ok()?;
    let is_test = message["profile"]["test"] == true;
    let program = message["executable"].as_str().filter(|_| is_test)?;
    let manifest = Path::new(message["manifest_path"].as_str()?);
    Some(TestProgram {
        name: message["target"]["name"].as_str()?.to_owned(),
        program: program.into(),
        dir: manifest.parent()?.to_owned(),
    })
}

/// Runs all tests, those of the contract with both clients. Everything runs, whatever fails.
pub(super) fn run(programs: &[TestProgram], clients: Option<Clients>) -> Result<String, String> {
    let seed = super::first_seed();
    shell::say(&format!(
        "the first seed of the simulations is {seed}, from the commit"
    ));
    let temp_dir = temp_dir();
    shell::say(&format!("tests make their files in {}", temp_dir.display()));
    let seeded = |program: Program| {
        super::in_target(program)
            .with("EKIDEN_FIRST_SEED", seed.to_string())
            .with("EKIDEN_SEED_SECONDS", SEED_SECONDS)
            .with("TMPDIR", &temp_dir)
    };
    let suite = |found: &TestProgram| Suite {
        name: found.name.clone(),
        program: seeded(Program::new(&found.program, &[]))
            .with("RUST_TEST_THREADS", threads(&found.name).to_string())
            .within(&found.dir)
            .with("CARGO_MANIFEST_DIR", &found.dir),
        before: &[],
    };
    let others = programs.iter().filter(|found| found.name != SIMULATION);
    // A step of its own has shown that the project is tidy.
    let others = others.map(|found| suite(found).without(TIDY));
    let mut suites: Vec<Suite> = others.collect();
    let simulations = vec![Suite {
        name: SIMULATION.to_owned(),
        program: seeded(optimised(SIMULATION))
            .with("EKIDEN_LOSSES", LOSSES)
            .nice(),
        before: &["--"],
    }];
    let mut older = None;
    if let Some(clients) = clients {
        for suite in suites.iter_mut().filter(|suite| suite.name == CONTRACT) {
            // People who install the client on an older Node.js get the older one. The tests say themselves what it lacks.
            older = Some(suite.of_client(OLDER, &clients.older));
            older = older.map(|older| ONE_CLIENT.into_iter().fold(older, Suite::without));
            *suite = suite.of_client(CONTRACT, &clients.client);
        }
    }
    suites.extend(older);
    suites.push(Suite {
        name: "examples in documents".to_owned(),
        program: super::in_target(Program::cargo(&[
            "test",
            "--locked",
            "--workspace",
            "--doc",
        ])),
        before: &["--"],
    });
    let place = |suite: &Suite| WAITING.iter().position(|name| suite.name == *name);
    let (mut waiting, in_view): (Vec<_>, Vec<_>) =
        suites.into_iter().partition(|suite| place(suite).is_some());
    waiting.sort_by_key(place);
    judged(&all(&in_view, &[waiting, simulations]))
}

fn temp_dir() -> PathBuf {
    let mounts = std::fs::read_to_string("/proc/mounts").unwrap_or_default();
    let free = Program::new("df", &["--output=avail", IN_MEMORY]).output();
    let free = free.as_deref().unwrap_or_default().lines().last();
    let has_room = free.and_then(|kib| kib.trim().parse().ok()) >= Some(IN_MEMORY_KIB_MIN);
    match has_room && may_execute(&mounts, IN_MEMORY) {
        true => IN_MEMORY.into(),
        false => std::env::temp_dir(),
    }
}

/// By the lines of `/proc/mounts`. Tests write scripts and run them.
fn may_execute(mounts: &str, dir: &str) -> bool {
    let mut lines = mounts.lines().map(|line| line.split(' '));
    let options = lines.find_map(|mut words| (words.nth(1) == Some(dir)).then(|| words.nth(1)));
    let options = options.flatten();
    options.is_some_and(|options| !options.split(',').any(|option| option == "noexec"))
}

/// More than there are cores, since tests spend about a third of their time waiting, some of them far more.
fn threads(program: &str) -> usize {
    let more = if WAITING.contains(&program) { 3 } else { 1 };
    std::thread::available_parallelism().map_or(1, usize::from) + more
}

/// Tests that run together.
struct Suite {
    name: String,
    program: Program,
    /// What comes before the names of tests.
    before: &'static [&'static str],
}

/// How a suite went.
struct Ran<'a> {
    suite: &'a Suite,
    counts: TestCounts,
    result: Result<(), String>,
    took: Duration,
}

impl Suite {
    fn of_client(&self, name: &str, client: &Path) -> Self {
        Self {
            name: name.to_owned(),
            program: self.program.clone().with(CLIENT_VARIABLE, client),
            before: self.before,
        }
    }

    fn without(mut self, tests: &str) -> Self {
        self.program = self.program.arg("--skip").arg(tests);
        self
    }

    /// Runs it, and shows each line that it prints.
    fn run(&self, mut show: impl FnMut(&str)) -> Ran<'_> {
        let mut counts = TestCounts::default();
        let (result, took) = shell::timed(|| {
            self.program.run_seen(|line| {
                show(line);
                counts.note(line);
            })
        });
        Ran {
            suite: self,
            counts,
            result,
            took,
        }
    }

    fn run_unseen(&self) -> (Ran<'_>, Vec<String>) {
        let mut lines = Vec::new();
        let ran = self.run(|line| lines.push(line.to_owned()));
        (ran, lines)
    }

    /// Only these of its tests.
    fn again(&self, tests: &[String]) -> Program {
        let words = self.before.iter().copied().chain(["--exact"]);
        let words = words.chain(tests.iter().map(String::as_str));
        words.fold(self.program.clone(), Program::arg)
    }
}

/// Runs each row at the same time, and the suites of a row one after the other. Only those `in_view` show their output
/// as it comes.
fn all<'a>(in_view: &'a [Suite], beside: &'a [Vec<Suite>]) -> Vec<Ran<'a>> {
    std::thread::scope(|scope| {
        let start = |row: &'a Vec<Suite>| {
            scope.spawn(|| row.iter().map(Suite::run_unseen).collect::<Vec<_>>())
        };
        let beside: Vec<_> = beside.iter().map(start).collect();
        let show = |suite: &'a Suite| {
            shell::say(&format!("── {} ── {}", suite.name, suite.program));
            suite.run(shell::say)
        };
        let mut all: Vec<Ran<'_>> = in_view.iter().map(show).collect();
        for thread in beside {
            for (ran, lines) in thread.join().expect("a thread that runs tests") {
                shell::say(&format!("── {} ── {}", ran.suite.name, ran.suite.program));
                lines.iter().for_each(|line| shell::say(line));
                all.push(ran);
            }
        }
        all
    })
}

/// If only a few tests failed, they run once more: real clients, servers and terminals on a busy machine are beyond
/// our control. The summary names those that then pass, so that somebody fixes them.
fn judged(all: &[Ran<'_>]) -> Result<String, String> {
    let mut sum = TestCounts::default();
    all.iter().for_each(|ran| sum.add(&ran.counts));
    for ran in all {
        let Err(failure) = &ran.result else {
            continue;
        };
        let failed = &ran.counts.failed_tests;
        if failed.is_empty() || sum.failed_tests.len() > TRIED_AGAIN_MAX {
            return Err(format!(
                "{failure}; failed: {}",
                sum.failed_tests.join(", ")
            ));
        }
        let again = ran.suite.again(failed);
        shell::say(&format!("── once more ── {again}"));
        again.run_seen(shell::say)?;
    }
    let long = all.iter().filter(|ran| ran.took >= LONG);
    let long = long.map(|ran| format!("{} {}", ran.suite.name, super::seconds(ran.took)));
    let mut told = vec![sum.to_string()];
    told.extend(long);
    if !sum.failed_tests.is_empty() {
        told.push(format!("flaky: {}", sum.failed_tests.join(", ")));
    }
    Ok(told.join("; "))
}

/// The closing lines of all test programs, added up.
#[derive(Debug, Default, PartialEq, Eq)]
struct TestCounts {
    programs: u32,
    passed: u32,
    failed: u32,
    ignored: u32,
    failed_tests: Vec<String>,
}

impl TestCounts {
    /// Takes in a line if it reports a failure or ends a test program:
    /// `test result: ok. 3 passed; 0 failed; ...`
    fn note(&mut self, line: &str) {
        let test = line.strip_prefix("test ");
        if let Some(name) = test.and_then(|line| line.strip_suffix(" ... FAILED")) {
            self.failed_tests.push(name.to_owned());
        }
        let Some(counts) = line.strip_prefix("test result: ") else {
            return;
        };
        self.programs += 1;
        for count in counts.split(['.', ';']) {
            let mut words = count.split_whitespace();
            let (Some(Ok(number)), Some(what)) =
                (words.next().map(str::parse::<u32>), words.next())
            else {
                continue;
            };
            match what {
                "passed" => self.passed += number,
                "failed" => self.failed += number,
                "ignored" => self.ignored += number,
                _ => {}
            }
        }
    }
}

impl TestCounts {
    fn add(&mut self, other: &Self) {
        self.programs += other.programs;
        self.passed += other.passed;
        self.failed += other.failed;
        self.ignored += other.ignored;
        self.failed_tests.extend(other.failed_tests.iter().cloned());
    }
}

impl std::fmt::Display for TestCounts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self {
            programs,
            passed,
            failed,
            ignored,
            failed_tests: _,
        } = self;
        write!(
            f,
            "{passed} passed; {failed} failed; {ignored} ignored; in {programs} test programs"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn closing_lines_are_added_up() {
        let mut counts = TestCounts::default();
        counts.note(
            "test result: ok. 12 passed; 0 failed; 1 ignored; 0 measured; 3 filtered out; finished in 0.02s",
        );
        counts.note("test a::b ... ok");
        counts.note("test a::c ... FAILED");
        counts.note("test result: FAILED. 2 passed; 1 failed; 0 ignored; 0 measured; 0 filtered out; finished in 1.10s");
        assert_eq!(
            counts,
            TestCounts {
                programs: 2,
                passed: 14,
                failed: 1,
                ignored: 1,
                failed_tests: vec!["a::c".to_owned()],
            }
        );
    }

    fn suite(name: &str, script: &str) -> Suite {
        Suite {
            name: name.to_owned(),
            program: Program::new("sh", &["-c", script, "sh"]),
            before: &[],
        }
    }

    #[test]
    fn a_test_that_fails_once_is_named_and_one_that_fails_twice_fails() {
        let tests = |second: &str| {
            let script = format!(
                "test \"$1\" = --exact && exit {second}; echo 'test a::b ... FAILED'; exit 1"
            );
            judged(&all(&[suite("one", &script), suite("two", "true")], &[]))
        };
        assert_eq!(
            tests("0").unwrap(),
            "0 passed; 0 failed; 0 ignored; in 0 test programs; flaky: a::b"
        );
        assert!(tests("1").unwrap_err().contains("a::b"));
    }

    #[test]
    fn a_program_that_dies_or_fails_in_many_tests_is_not_tried_again() {
        let killed = [suite("one", "kill -9 $$")];
        let died = all(&killed, &[]);
        assert!(judged(&died).unwrap_err().contains("signal: 9"));
        let many = "for i in 1 2 3 4; do echo test $i ... FAILED; done; exit 1";
        let failed = judged(&all(&[suite("one", many)], &[])).unwrap_err();
        assert!(failed.ends_with("failed: 1, 2, 3, 4"), "{failed}");
    }

    #[test]
    fn what_runs_beside_the_others_counts_too() {
        let failing = suite("simulation", "echo 'test world ... FAILED'; exit 1");
        let beside = [vec![suite("two", "true")], vec![failing]];
        let one = [suite("one", "true")];
        let ran = all(&one, &beside);
        assert_eq!(ran.len(), 3);
        assert!(judged(&ran).unwrap_err().contains("world"));
    }

    #[test]
    fn a_file_system_from_which_nothing_may_be_run_is_not_used() {
        let mounts =
            |options: &str| format!("/dev/vda / ext4 rw 0 0\ntmpfs /dev/shm tmpfs {options} 0 0\n");
        assert!(may_execute(&mounts("rw,nosuid"), IN_MEMORY));
        assert!(!may_execute(&mounts("rw,noexec,nosuid"), IN_MEMORY));
        assert!(!may_execute("", IN_MEMORY));
    }

    #[test]
    fn a_message_names_a_test_program_and_its_package() {
        let message = |test: bool| {
            format!(
                r#"{{"target":{{"name":"binary"}},"manifest_path":"/p/a/Cargo.toml","profile":{{"test":{test}}},"executable":"/t/binary-1"}}"#
            )
        };
        let found = test_program(&message(true)).unwrap();
        assert_eq!((&*found.name, &*found.dir), ("binary", Path::new("/p/a")));
        assert!(test_program(&message(false)).is_none());
        assert!(test_program("Compiling").is_none());
    }
}
