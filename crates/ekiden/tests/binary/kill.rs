//! kill -9 at random moments of a relay: of ekiden, of the agent, of the keepers, of all of them.
//! After each, `resume` carries the run on, and in the end it has come to what an undisturbed run
//! comes to.
//!
//! A moment is a number of records by which the log grows, or a time, whichever comes first: so
//! kills fall into work as well as into waits, on fast machines and on slow ones. `EKIDEN_SEED`
//! repeats the moments and the victims of a run, as far as the machine allows.
#![expect(
    clippy::disallowed_macros,
    reason = "a seed must be seen to be used again"
)]

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::time::{Duration, Instant};

use rustix::process::{Signal, kill_process};
use serde_json::Value;

use crate::environment::{Environment, items};
use crate::processes::{PROMISE, Process, alive, expect_nothing_alive};
use crate::running::{Running, Said, wait_until};

const KILLS: usize = 200;
/// Relays beside each other: most of the time is spent in waiting for keepers and after crashes.
const LANES: usize = 5;
const ITEMS: u32 = 12;
const RECORDS_MAX: u64 = 14;
const MILLIS_MAX: u64 = 1500;

/// Who is killed at the same instant.
#[derive(Debug, Clone, Copy)]
enum Victims {
    Ekiden,
    Agent,
    Keepers,
    EkidenAndKeepers,
    All,
}

const VICTIMS: [Victims; 5] = [
    Victims::Ekiden,
    Victims::Agent,
    Victims::Keepers,
    Victims::EkidenAndKeepers,
    Victims::All,
];

/// What a relay comes to.
#[derive(Debug, PartialEq, Eq)]
struct EndState {
    files: BTreeMap<String, String>,
    ticked: BTreeSet<String>,
    status: String,
}

// shows: DUR-03, DUR-01, RUN-10, RUN-11
#[test]
fn a_relay_that_is_killed_again_and_again_comes_to_the_same_end() {
    let seed = seed();
    eprintln!("EKIDEN_SEED={seed}");
    let undisturbed = Lane::new(seed, 0).relay();
    assert_eq!(undisturbed.ticked.len(), ITEMS as usize, "{undisturbed:?}");
    std::thread::scope(|scope| {
        for lane in 0..LANES {
            let undisturbed = &undisturbed;
            scope.spawn(move || {
                let mut lane = Lane::new(seed.wrapping_add(lane as u64), KILLS / LANES);
                while lane.kills > 0 {
                    assert_eq!(lane.relay(), *undisturbed);
                }
            });
        }
    });
}

/// A tool with a session of its own, when nobody is left to end it. Another run, or an attempt to stop it, does.
// shows: RUN-10
#[cfg(target_os = "linux")]
#[test]
fn what_outlives_everybody_is_ended_by_the_next_command() {
    for next in [
        &["run", "other.md", "--agent", "rehearsal"][..],
        &["run", "other.md", "--agent", "rehearsal", "--new"],
        &["resume"],
        &["stop"],
        &["knowledge", "edit"],
        &["config", "set", "pause", "3"],
        &["init", "new.md"],
        &["handoff"],
        &["checkpoint"],
        &["setup"],
        &["config", "approve"],
        // Of a run in another worktree.
        &["init", "new.md", "-d", "../tree"],
    ] {
        let environment = Environment::with_git();
        environment.git(&["worktree", "add", "--quiet", "../tree"]);
        let line = "setsid sh -c 'trap : TERM; touch begun; while :; do sleep 1; done' & sleep 60";
        let task = format!("- [ ] It\n\n  ```sh\n  [ -e begun ] || {{ {line}; }}\n  ```\n");
        environment.write("task.md", &task);
        environment.write("other.md", &items(1));
        let run = environment.start(&["run", "task.md", "--agent", "rehearsal"]);
        wait_until("the tool", || environment.exists("begun"));
        let ours = |process: &Process| Victims::EkidenAndKeepers.include(process, &run);
        let victims: Vec<Process> = alive(&environment).into_iter().filter(ours).collect();
        for signal in [Signal::STOP, Signal::KILL] {
            for victim in &victims {
                kill_process(victim.pid, signal).unwrap();
            }
        }
        run.end();
        assert!(
            !alive(&environment).is_empty(),
            "{next:?}: nothing was left"
        );
        // A query ends nothing.
        environment.run(&["status"]);
        assert!(
            !alive(&environment).is_empty(),
            "{next:?}: a query ended it"
        );
        let said = environment.run(next);
        assert!(
            said.stderr.contains("that an earlier run left behind"),
            "{next:?}: {said}"
        );
        expect_nothing_alive(&environment);
    }
}

/// What a keeper keeps is not left behind, whatever it bears.
// shows: RUN-10
#[test]
fn what_works_is_not_taken_for_left_behind() {
    let environment = Environment::with_git();
    let waits = "touch begun; while [ ! -e go ]; do sleep 0.02; done";
    environment.write(
        "task.md",
        &format!("- [ ] It\n\n  ```sh\n  {waits}\n  ```\n"),
    );
    let run = environment.start(&["run", "task.md", "--agent", "rehearsal"]);
    wait_until("the tool", || environment.exists("begun"));
    let said = environment.run(&["init", "new.md"]).expect(0);
    assert!(!said.stderr.contains("left behind"), "{said}");
    environment.write("go", "");
    run.end().expect(0);
    let log = environment.log();
    let started =
        |record: &&serde_json::Value| record["event"]["event"]["event"]["kind"] == "started";
    assert_eq!(log.iter().filter(started).count(), 1, "{log:?}");
}

/// In the copy of a project, its runs are the original's, too.
// shows: RUN-10
#[test]
fn a_run_that_is_resumed_in_a_copy_leaves_the_original_at_work() {
    let environment = Environment::with_git();
    let waits = "echo $PWD >> ../begun; while [ ! -e ../go ]; do sleep 0.02; done";
    environment.write(
        "task.md",
        &format!("- [ ] It\n\n  ```sh\n  {waits}\n  ```\n"),
    );
    let begun = environment.path("begun");
    let places = || std::fs::read_to_string(&begun).unwrap_or_default();
    let run = environment.start(&["run", "task.md", "--agent", "rehearsal"]);
    wait_until("the tool", || places().lines().count() == 1);
    environment.shell("cp -a . ../copy");
    let copy = environment.path("copy").display().to_string();
    let resumed = environment.start(&["resume", "--work-dir", &copy]);
    wait_until("the copy's tool", || places().lines().count() == 2);
    environment.shell("touch ../go");
    resumed.end().expect(0);
    run.end().expect(0);
    let log = environment.log();
    let started =
        |record: &&serde_json::Value| record["event"]["event"]["event"]["kind"] == "started";
    assert_eq!(log.iter().filter(started).count(), 1, "{log:?}");
}

/// The kills that are left for one relay after the other.
struct Lane {
    random: u64,
    kills: usize,
}

impl Lane {
    fn new(seed: u64, kills: usize) -> Self {
        Self {
            random: seed,
            kills,
        }
    }

    /// Carries a relay to its end through as many kills as it meets.
    fn relay(&mut self) -> EndState {
        let environment = Environment::with_git().with("EKIDEN_REHEARSAL_STEP_MS", "5");
        // Slow enough that tools are met at work.
        environment.write("task.md", &items(ITEMS).replace("echo", "sleep 0.03; echo"));
        loop {
            // Killed early, it has not begun.
            let begin = ["run", "task.md", "--agent", "rehearsal", "-m", "200"];
            let resume = ["resume"];
            let args = if environment.runs().is_empty() {
                &begin[..]
            } else {
                &resume
            };
            let (said, kills) = self.disturbed(&environment, environment.start(args));
            match said.code {
                0 => break,
                // Killed; or git was, before it told where the state lies; or three sessions in a row.
                137 | 74 | 1 if kills > 0 => {}
                // Killed when all was done.
                66 if is_complete(&environment) => break,
                _ => panic!("after {kills} kills: {said}"),
            }
        }
        expect_nothing_alive(&environment);
        check_attempts(&environment.log());
        end_state(&environment)
    }

    /// Kills around a program until it is over; says how often.
    fn disturbed(&mut self, environment: &Environment, mut run: Running) -> (Said, usize) {
        let before = self.kills;
        while self.kills > 0 && self.comes_to_a_moment(environment, &mut run) {
            let victims = VICTIMS[self.below(VICTIMS.len() as u64) as usize];
            self.kills -= usize::from(kill(environment, &run, victims));
        }
        (run.end(), before - self.kills)
    }

    /// Waits for the next moment, unless the program ends before.
    fn comes_to_a_moment(&mut self, environment: &Environment, run: &mut Running) -> bool {
        let enough = records(environment) + 1 + self.below(RECORDS_MAX);
        let until = Instant::now() + Duration::from_millis(1 + self.below(MILLIS_MAX));
        let mut over = false;
        wait_until("a moment", || {
            over = run.is_over();
            over || records(environment) >= enough || Instant::now() >= until
        });
        !over
    }

    /// A number below `end`, by splitmix64.
    fn below(&mut self, end: u64) -> u64 {
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.random ^ (self.random >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % end
    }
}

/// Kills, and sees that what must not outlive the victims does not. False: there was nobody to kill.
fn kill(environment: &Environment, run: &Running, victims: Victims) -> bool {
    let living = alive(environment);
    let chosen: Vec<&Process> = living
        .iter()
        .filter(|process| victims.include(process, run))
        .collect();
    // Stopped first, so that none of them can react to another's death.
    for signal in [Signal::STOP, Signal::KILL] {
        // An error says that it has ended meanwhile.
        let _ = chosen
            .iter()
            .map(|process| kill_process(process.pid, signal))
            .collect::<Vec<_>>();
    }
    let died = Instant::now();
    if chosen.iter().any(|process| process.pid == run.pid()) {
        expect_nothing_alive(environment);
    } else {
        let gone = |process: &Process| {
            process.pid == run.pid() || !alive(environment).iter().any(|p| p.pid == process.pid)
        };
        wait_until("the end of what was alive", || living.iter().all(gone));
    }
    assert!(
        died.elapsed() < PROMISE + Duration::from_secs(1),
        "{victims:?}: {:?}",
        died.elapsed()
    );
    !chosen.is_empty()
}

impl Victims {
    fn include(self, process: &Process, run: &Running) -> bool {
        let ekiden = process.pid == run.pid();
        let keeper = process.command.contains(" __keeper");
        let agent = !keeper && process.command.contains(" __rehearsal ");
        match self {
            Self::Ekiden => ekiden,
            Self::Agent => agent,
            Self::Keepers => keeper,
            Self::EkidenAndKeepers => ekiden || keeper,
            Self::All => ekiden || keeper || agent,
        }
    }
}

fn seed() -> u64 {
    let given = std::env::var("EKIDEN_SEED")
        .ok()
        .and_then(|seed| seed.parse().ok());
    given.unwrap_or_else(|| RandomState::new().build_hasher().finish())
}

/// How many lines the log has, if there is one yet.
fn records(environment: &Environment) -> u64 {
    let Some(run) = environment.runs().pop() else {
        return 0;
    };
    let log = environment.state().join("runs").join(run).join("log.jsonl");
    std::fs::read_to_string(log).map_or(0, |text| text.lines().count() as u64)
}

fn is_complete(environment: &Environment) -> bool {
    let said = environment.run(&["status", "--json"]).stdout;
    serde_json::from_str::<Value>(&said).unwrap()["runs"][0]["state"] == "complete"
}

/// No attempt is started twice, and their numbers only rise.
fn check_attempts(log: &[Value]) {
    let effects = log
        .iter()
        .flat_map(|record| record["effects"].as_array().unwrap());
    let started = effects.filter(|effect| effect["effect"]["kind"] == "start_attempt");
    let number = |value: &Value| value.as_u64().unwrap();
    let attempts: Vec<(u64, u64)> = started
        .map(|effect| &effect["effect"]["attempt"])
        .map(|attempt| (number(&attempt["session"]), number(&attempt["attempt"])))
        .collect();
    assert!(
        !attempts.is_empty() && attempts.is_sorted_by(|one, two| one < two),
        "{attempts:?}"
    );
}

fn end_state(environment: &Environment) -> EndState {
    let names = std::fs::read_dir(environment.dir())
        .unwrap()
        .map(|entry| entry.unwrap().file_name());
    let names = names
        .map(|name| name.into_string().unwrap())
        .filter(|name| name.ends_with(".txt"));
    let status: Value = serde_json::from_str(&environment.read(".ekiden/status.json")).unwrap();
    EndState {
        files: names
            .map(|name| (name.clone(), environment.read(&name)))
            .collect(),
        ticked: environment
            .read(".ekiden/PROGRESS.md")
            .lines()
            .filter_map(|line| line.strip_prefix("- [x] ").map(str::to_owned))
            .collect(),
        status: status["status"].as_str().unwrap().to_owned(),
    }
}
