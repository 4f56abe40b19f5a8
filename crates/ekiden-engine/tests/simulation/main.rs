//! The engine in a simulated world: crash it everywhere, take it up again, and look whether anything
//! was lost or done twice. How to read a failure is said in `docs/design/testing.md`.
#![expect(
    clippy::unwrap_used,
    clippy::wildcard_enum_match_arm,
    clippy::disallowed_macros,
    reason = "a test may stop at what it does not expect, and tell how much it tried"
)]

mod checks;
mod long;
mod plans;
mod seeds;
mod world;

use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;

use ekiden_core::bounds::Bounds;
use ekiden_core::budget::Budget;
use ekiden_core::ends::EndCause;
use ekiden_core::event::{AttemptEnded, AttemptEvent, Event, RelayEvent};
use ekiden_core::handoff::HandoffFile;
use ekiden_core::ids::StageId;
use ekiden_core::outcome::Outcome;
use ekiden_core::run::Run;
use ekiden_core::steering::Steering;
use ekiden_core::time::{Millis, Timestamp};
use ekiden_engine::EngineError;
use ekiden_engine::paths::RunPaths;
use ekiden_engine::run_files::RunFiles;
use ekiden_sim::{AtCrash, Fault, SimDisk, Survivor};
use ekiden_store::disk::Disk as _;

use seeds::{Dice, Disturbance, for_each_seed};
use world::{Deed, Scenario, World, live, live_unless, machine, published};

/// Files that are written again from the log, each by itself, and decide nothing: what people and
/// other programs read. That they decide nothing is checked.
fn is_derived(path: &Path) -> bool {
    let published = published();
    let above = published.dir();
    let is_published =
        path != above && path.starts_with(above) && !path.starts_with(published.handoff());
    is_published
        || path
            .file_name()
            .is_some_and(|name| name.to_string_lossy().contains("verify.log"))
}

/// About how many losses to try at each crash; `None` for all. Without `EKIDEN_LOSSES` only a few, since code that is not
/// optimised is slow.
fn losses_max() -> Option<usize> {
    match std::env::var("EKIDEN_LOSSES") {
        Ok(all) if all == "all" => None,
        Ok(number) => Some(number.parse().expect("EKIDEN_LOSSES is a number or `all`")),
        Err(_) => Some(4),
    }
}

/// How much of one scenario was tried.
#[derive(Debug, Default)]
struct Tried {
    crashes: usize,
    /// Losses that are legal, over all crashes.
    legal: u128,
    /// Disks that were found.
    losses: usize,
    /// Those of them that differed from every other, with the world around them.
    worlds: HashSet<(u64, u64)>,
    futures: Futures,
}

/// How runs go on, by all that decides it, and the log in which it ends: that was checked when it was
/// first seen.
type Futures = HashMap<u64, Rc<str>>;

/// Runs a scenario with a crash of the machine at every operation of the disk; then takes the run up
/// again, once where only the process died and once for each legal loss of a power cut, as far as
/// one can be told from another, and checks everything.
fn crash_everywhere(scenario: &Scenario) {
    let undisturbed = Arc::new(machine(scenario));
    let begun = undisturbed.ops();
    let ended = live_judged(&undisturbed, &Rc::default(), scenario, true);
    ended.expect("an undisturbed run");
    let mut tried = Tried::default();
    for op in begun..=undisturbed.ops() {
        for at in [AtCrash::NotDone, AtCrash::Done] {
            let disk = Arc::new(machine(scenario));
            disk.crash_at(op, at);
            let world = Rc::new(RefCell::new(World::default()));
            let _ = live_on(&disk, &world, scenario);
            tried.crashes += 1;
            go_on(
                disk.after_kill(),
                &world.borrow(),
                scenario,
                true,
                &mut Futures::new(),
            );
            lose_everything_possible(&disk, &world.borrow(), scenario, &mut tried);
        }
    }
    let Tried {
        crashes,
        legal,
        losses,
        worlds,
        futures,
    } = &tried;
    let (worlds, futures) = (worlds.len(), futures.len());
    println!(
        "{crashes} crashes, {legal} legal losses, {losses} tried, {worlds} worlds, {futures} futures"
    );
    assert!(
        worlds > 500 || losses_max().is_some(),
        "only {worlds} worlds"
    );
}

/// Tries the losses of one crash. Disks that read the same, in worlds that are the same, are one.
fn lose_everything_possible(disk: &SimDisk, world: &World, scenario: &Scenario, tried: &mut Tried) {
    let factored = disk.factored(is_derived);
    assert!(factored.is_complete, "too many losses");
    tried.legal += factored.legal;
    let about = hash(&format!("{world:?}"));
    let mut logs: BTreeMap<usize, Rc<str>> = BTreeMap::new();
    // Crashes that follow each other have much the same losses.
    let seed = seeds::first_seed().wrapping_add(tried.crashes as u64);
    let drawn = match losses_max() {
        Some(max) => factored.drawn(max, seed),
        None => factored,
    };
    for Survivor { group, disk: found } in drawn {
        tried.losses += 1;
        if tried.worlds.insert((found.fingerprint(), about)) {
            let log = go_on(found, world, scenario, false, &mut tried.futures);
            let before = logs.entry(group).or_insert_with(|| Rc::clone(&log));
            let differs = before
                .lines()
                .zip(log.lines())
                .find(|(before, now)| before != now);
            assert_eq!(differs, None, "a derived file has decided something");
        }
    }
}

fn hash(text: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    text.hash(&mut hasher);
    hasher.finish()
}

/// Takes a run up again, carries it to its end, checks everything, and gives its log. Goes on only as
/// long as it is not known how.
fn go_on(
    found: SimDisk,
    world: &World,
    scenario: &Scenario,
    kill_only: bool,
    futures: &mut Futures,
) -> Rc<str> {
    let disk = Arc::new(found);
    let world = Rc::new(RefCell::new(world.clone()));
    let mut passed = Vec::new();
    let known = &mut |future| {
        passed.push(future);
        futures.contains_key(&future)
    };
    let judge = &|outcome: &Outcome| judge(&disk, &world.borrow(), scenario, outcome, kill_only);
    let lived = live_on_unless(&disk, &world, scenario, known, judge);
    let log = match lived.unwrap_or_else(|error| panic!("{error}: {error:?}")) {
        Some(_) => Rc::from(checks::log_of(&disk)),
        None => Rc::clone(&futures[passed.last().expect("the one that is known")]),
    };
    futures.extend(passed.into_iter().map(|future| (future, Rc::clone(&log))));
    log
}

/// Lives on until the run is over: a person may have stopped it meanwhile, or want more of it.
fn live_on(
    disk: &Arc<SimDisk>,
    world: &Rc<RefCell<World>>,
    scenario: &Scenario,
) -> Result<Outcome, EngineError> {
    Ok(
        live_on_unless(disk, world, scenario, &mut |_| false, &|_| {})?
            .expect("an end that nobody knew before"),
    )
}

/// The same, where everything is checked at each end.
fn live_judged(
    disk: &Arc<SimDisk>,
    world: &Rc<RefCell<World>>,
    scenario: &Scenario,
    kill_only: bool,
) -> Result<Outcome, EngineError> {
    let judge = &|outcome: &Outcome| judge(disk, &world.borrow(), scenario, outcome, kill_only);
    Ok(
        live_on_unless(disk, world, scenario, &mut |_| false, judge)?
            .expect("an end that nobody knew before"),
    )
}

/// Checks everything at an end, on a copy: whoever goes on does so on the disk as it was.
fn judge(disk: &SimDisk, world: &World, scenario: &Scenario, outcome: &Outcome, kill_only: bool) {
    let copy = Arc::new(disk.clone());
    checks::hold(&copy, world, scenario, outcome, kill_only);
}

/// The same, but nothing once it is known how it goes on.
fn live_on_unless(
    disk: &Arc<SimDisk>,
    world: &Rc<RefCell<World>>,
    scenario: &Scenario,
    known: &mut dyn FnMut(u64) -> bool,
    judge: &dyn Fn(&Outcome),
) -> Result<Option<Outcome>, EngineError> {
    loop {
        let Some(outcome) = live_unless(disk, world, scenario, known)? else {
            return Ok(None);
        };
        judge(&outcome);
        let goal = if scenario.follow_up {
            scenario.items * 2
        } else {
            scenario.items
        };
        if !matches!(outcome, Outcome::Stopped { .. }) && world.borrow().goal == goal {
            return Ok(Some(outcome));
        }
    }
}

/// Refuses every operation of the disk once, in each way, and from each on for a file system that has become
/// read-only. The engine stops with an error or goes on; once the disk works again, the run ends as ever.
// shows: DUR-02, DUR-04
#[test]
fn a_disk_that_refuses() {
    let scenario = Scenario {
        verified: true,
        git: true,
        commits: true,
        ..Scenario::of_items(2)
    };
    let undisturbed = Arc::new(machine(&scenario));
    let begun = undisturbed.ops();
    live_on(&undisturbed, &Rc::default(), &scenario).expect("an undisturbed run");
    let mut stopped = 0;
    let mut published = Vec::new();
    for fault in [
        Fault::DiskFull,
        Fault::NotPermitted,
        Fault::Io,
        Fault::ReadOnly,
    ] {
        for op in begun..=undisturbed.ops() {
            let disk = Arc::new(machine(&scenario));
            match fault {
                Fault::DiskFull | Fault::NotPermitted | Fault::Io => disk.fail_at(op, fault),
                Fault::ReadOnly => disk.fail_from(op, fault),
            }
            let world = Rc::new(RefCell::new(World::default()));
            let lived = live_on(&disk, &world, &scenario);
            stopped += usize::from(lived.is_err());
            let error = lived.err().map(|error| format!("{error:?}"));
            if error.is_some_and(|error| error.contains("/.ekiden/.PROGRESS.md")) {
                published.push(fault);
            }
            let (found, world) = (disk.after_kill(), world.borrow());
            go_on(found, &world, &scenario, true, &mut Futures::new());
        }
    }
    println!("{stopped} runs were stopped by the disk");
    assert!(stopped > 100, "only {stopped} were stopped");
    for shut in [Fault::DiskFull, Fault::NotPermitted, Fault::ReadOnly] {
        let stops = published.contains(&shut);
        assert!(stops, "sessions begin on a disk that refuses: {shut:?}");
    }
    let failing = published.contains(&Fault::Io);
    assert!(!failing, "a published file stopped a run");
}

// shows: DUR-01, DUR-02
#[test]
fn three_sessions() {
    crash_everywhere(&Scenario::of_items(3));
}

// shows: DUR-01, DUR-02
#[test]
fn an_agent_that_does_not_wait_for_its_task() {
    crash_everywhere(&Scenario {
        deeds: vec![(2, Deed::Hasty)],
        ..Scenario::of_items(2)
    });
}

// shows: DUR-02
#[test]
fn a_crash_of_the_agent() {
    crash_everywhere(&Scenario {
        deeds: vec![(1, Deed::Crash)],
        ..Scenario::of_items(2)
    });
}

// shows: DUR-02, REL-07
#[test]
fn a_failing_verification() {
    crash_everywhere(&Scenario {
        verified: true,
        git: true,
        ..Scenario::of_items(2)
    });
}

// shows: DUR-02, REL-18
#[test]
fn commits_after_sessions() {
    let deeds = vec![(2, Deed::Crash)];
    crash_everywhere(&Scenario {
        git: true,
        commits: true,
        deeds,
        ..Scenario::of_items(2)
    });
}

// shows: DUR-02, REL-11
#[test]
fn a_usage_limit() {
    crash_everywhere(&Scenario {
        deeds: vec![(1, Deed::Limit)],
        ..Scenario::of_items(2)
    });
}

// shows: DUR-02, REL-07
#[test]
fn a_claim_that_is_vetoed() {
    let deeds = vec![(1, Deed::ClaimEarly)];
    crash_everywhere(&Scenario {
        verified: true,
        deeds,
        ..Scenario::of_items(2)
    });
}

// shows: DUR-01, DUR-02, RUN-14
#[test]
fn a_pause_and_a_stop_by_message() {
    let steering = vec![(1, Steering::Pause), (2, Steering::Stop { now: true })];
    crash_everywhere(&Scenario {
        steering,
        ..Scenario::of_items(2)
    });
}

// shows: RUN-12
#[test]
fn what_a_person_left_where_we_publish() {
    crash_everywhere(&Scenario {
        found: Some("a person's own\n"),
        ..Scenario::of_items(1)
    });
}

// shows: DUR-01, DUR-02, RUN-13
#[test]
fn follow_up_work() {
    crash_everywhere(&Scenario {
        follow_up: true,
        verified: true,
        ..Scenario::of_items(1)
    });
}

/// What ends so can be taken up again: then it has as many sessions more.
// shows: DUR-02
#[test]
fn a_run_whose_sessions_are_used_up() {
    crash_everywhere(&Scenario {
        sessions_max: Some(1),
        ..Scenario::of_items(3)
    });
}

// shows: DUR-02, REL-11
#[test]
fn a_usage_limit_that_resets_too_late() {
    let deeds = (1..9).map(|start| (start, Deed::FarLimit)).collect();
    crash_everywhere(&Scenario {
        deeds,
        ..Scenario::of_items(1)
    });
}

/// Each session is asked to hand off by its budget, and every other minute is quiet.
// shows: DUR-02, REL-12, REL-22
#[test]
fn budgets_and_quiet_hours() {
    let bounds = Bounds {
        session: Budget {
            micro_usd: Some(1_000_000),
            tokens: None,
        },
        session_timeout: Some(Millis::from_secs(20)),
        quiet_hours: "01:00-01:30".parse().unwrap(),
        ..Bounds::default()
    };
    let deeds = vec![(1, Deed::Crash)];
    crash_everywhere(&Scenario {
        bounds,
        deeds,
        ..Scenario::of_items(2)
    });
}

/// The clocks changed before a person gave the run its first quiet hours, with a resume.
// shows: REL-12
#[test]
fn quiet_hours_of_a_resume_are_in_the_local_time_of_the_resume() {
    let mut scenario = Scenario {
        sessions_max: Some(1),
        ..Scenario::of_items(2)
    };
    let (disk, world) = (Arc::new(machine(&scenario)), Rc::default());
    live(&disk, &world, &scenario).expect("a run whose session is used up");
    world.borrow_mut().now = 61_000;
    scenario.limits.bounds.quiet_hours = Some("01:00-01:30".parse().unwrap());
    live(&disk, &world, &scenario).expect("a run that ends");
    let log = checks::log_of(&disk);
    let mut records = log.lines();
    let resumed = records.find(|line| line.contains("run_resumed")).unwrap();
    assert!(!resumed.contains("start_attempt"), "{log}");
}

/// They end, because the clocks change, while the engine is dead: what begins by that begins once.
// shows: REL-12, DUR-01
#[test]
fn quiet_hours_that_end_between_two_engines_begin_one_session() {
    let scenario = Scenario {
        bounds: Bounds {
            quiet_hours: "01:00-01:30".parse().unwrap(),
            ..Bounds::default()
        },
        ..Scenario::of_items(2)
    };
    let evening = || {
        let now = 50_000;
        let world = World {
            now,
            ..World::default()
        };
        (Arc::new(machine(&scenario)), Rc::new(RefCell::new(world)))
    };
    let (undisturbed, world) = evening();
    let begun = undisturbed.ops();
    live(&undisturbed, &world, &scenario).expect("an undisturbed run");
    assert!(world.borrow().now > 30 * 60_000, "it waits");
    for op in begun..=undisturbed.ops() {
        let (disk, world) = evening();
        disk.crash_at(op, AtCrash::NotDone);
        let _ = live(&disk, &world, &scenario);
        live(&Arc::new(disk.after_kill()), &world, &scenario).expect("a run that ends");
    }
}

/// What an attempt cost is not charged to the next one too, if the engine dies before that has a process.
// shows: REL-22, DUR-01
#[test]
fn an_attempt_without_a_process_is_charged_nothing() {
    let scenario = Scenario::of_items(1);
    let (at, stage) = (Timestamp(0), StageId::only());
    let mut header = world::header(&scenario, 1);
    header.settings.judging = None;
    let (mut run, _) = Run::begin(at, &header);
    let happens = |run: &mut Run, event| {
        let (attempt, _) = run.relay(&stage).unwrap().attempt().unwrap();
        let (stage, event) = (stage.clone(), RelayEvent::Attempt { attempt, event });
        run.step(at, &Event::Stage { stage, event });
    };
    let (disk, dir) = (machine(&scenario), world::layout().run(&header.run));
    let (attempt, _) = run.relay(&stage).unwrap().attempt().unwrap();
    let stream = dir.relay(None).session(attempt.session).events();
    let response = r#"{"type":"assistant","message":{"id":"m1","model":"x","content":[],"usage":{"input_tokens":1000}},"parent_tool_use_id":null}"#;
    disk.plant_file(&stream, response.as_bytes());
    let files = RunFiles::new(
        Arc::new(disk),
        RunPaths::new(world::workspace(), dir, &header),
    )
    .unwrap();
    let charged = |run: &Run| {
        let (attempt, _) = run.relay(&stage).unwrap().attempt().unwrap();
        files.traces_of(run, &stage, attempt).counters.spend.tokens
    };
    happens(&mut run, AttemptEvent::Started { pid: 1 });
    assert!(charged(&run) >= 1000);
    let lost = AttemptEnded::bare(EndCause::EngineLost);
    happens(&mut run, AttemptEvent::Ended(Box::new(lost)));
    assert_eq!(charged(&run), 0);
}

/// Quiet hours that end because the clocks change begin a session, after a person's edit was read.
// shows: REL-12, REL-30
#[test]
fn an_edit_before_quiet_hours_end_early_counts() {
    let scenario = Scenario {
        edits: true,
        bounds: Bounds {
            quiet_hours: "01:00-01:30".parse().unwrap(),
            ..Bounds::default()
        },
        ..Scenario::of_items(30)
    };
    let disk = Arc::new(machine(&scenario));
    live_on(&disk, &Rc::default(), &scenario).expect("a run that ends");
    let log = checks::log_of(&disk);
    let mut records = log.lines();
    let changes = |line: &&str| line.contains("utc_offset") && line.contains("start_attempt");
    assert!(records.any(|line| changes(&line)), "{log}");
    let path = published().file(HandoffFile::Knowledge);
    let text = String::from_utf8(disk.read(&path, u64::MAX).unwrap()).unwrap();
    assert!(text.contains(world::EDIT), "{text}");
}

/// A clock that goes back an hour again and again: nothing is lost or done twice, and every wait ends.
// shows: DUR-04
#[test]
fn a_clock_that_goes_back() {
    let scenario = Scenario {
        verified: true,
        git: true,
        commits: true,
        deeds: vec![(2, Deed::Limit), (3, Deed::Crash)],
        bounds: Bounds {
            session_timeout: Some(Millis::from_secs(20)),
            ..Bounds::default()
        },
        clock_back: Millis::from_secs(60 * 60),
        ..Scenario::of_items(6)
    };
    let ended = live_judged(
        &Arc::new(machine(&scenario)),
        &Rc::default(),
        &scenario,
        true,
    );
    ended.expect("a run that ends");
}

/// Long relays with several crashes each, drawn by chance. A failure prints its seed.
// shows: DUR-02
#[test]
fn seeded_crashes_of_long_relays() {
    for_each_seed(seeded_world);
}

fn seeded_world(seed: u64) {
    let mut dice = Dice(seed.wrapping_mul(2) + 1);
    let deeds = (1..40).filter_map(|start| match dice.roll(8) {
        0 => Some((start, Deed::Crash)),
        1 => Some((start, Deed::Limit)),
        2 => Some((start, Deed::ClaimEarly)),
        _ => None,
    });
    let deeds = deeds.collect();
    let steering = (1..40).filter_map(|start| match dice.roll(12) {
        0 => Some((start, Steering::Pause)),
        1 => Some((start, Steering::Stop { now: false })),
        2 => Some((start, Steering::Stop { now: true })),
        3 => Some((
            start,
            Steering::Instruct {
                words: "Mind the fixtures.".to_owned(),
            },
        )),
        4 => Some((start, Steering::ChangeLimits(Box::default()))),
        _ => None,
    });
    let scenario = Scenario {
        steering: steering.collect(),
        deeds,
        verified: true,
        git: seed.is_multiple_of(2),
        commits: seed.is_multiple_of(4),
        sessions_max: seed.is_multiple_of(3).then_some(7),
        ..Scenario::of_items(12)
    };
    let world = Rc::new(RefCell::new(World::default()));
    let mut disk = Arc::new(machine(&scenario));
    let mut disturbance = Disturbance::default();
    for _ in 0..dice.roll(6) {
        disturbance.comes(&disk, &mut dice);
        if live_on(&disk, &world, &scenario).is_ok() {
            break;
        }
        disk = Arc::new(disturbance.leaves(&disk, &mut dice));
    }
    let undisturbed = Arc::new(disk.after_kill());
    let ended = live_judged(&undisturbed, &world, &scenario, disturbance.killed_only());
    ended.expect("a run that ends");
}
