use std::path::Path;
use std::sync::Arc;

use ekiden_core::ids::RunId;
use ekiden_core::text::in_full;
use ekiden_core::time::Timestamp;
use ekiden_sim::{SimDisk, every_crash, lock};
use ekiden_store::disk::Disk;
use ekiden_store::error::{FileFault, StoreError};
use ekiden_store::layout::StateLayout;
use ekiden_store::lock::Holder;
use ekiden_store::log::Numbered;
use ekiden_store::state::*;
use serde::Deserialize;
use serde::Serialize;

const ROOT: &str = "/p/.git/ekiden/main";

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Note {
    seq: u64,
}

impl Numbered for Note {
    fn seq(&self) -> u64 {
        self.seq
    }
}

fn layout() -> StateLayout {
    StateLayout::new(Path::new(ROOT))
}

fn project() -> SimDisk {
    let disk = SimDisk::new();
    disk.plant_dir(Path::new("/p/.git"));
    disk
}

fn locked(disk: &Arc<SimDisk>) -> Result<LockedStateDir, StoreError> {
    let holder = Holder {
        pid: 1,
        host: "atlas".to_owned(),
        started: Timestamp(0),
        run: None,
    };
    create_state_root(&**disk, &layout())?;
    LockedStateDir::open(disk.clone(), layout(), lock(holder))
}

fn view(disk: &SimDisk) -> StateDir {
    StateDir::open(Arc::new(disk.clone()), layout())
        .unwrap()
        .expect("some state")
}

fn first_run(disk: &Arc<SimDisk>) -> Result<(), StoreError> {
    locked(disk)?.create_run(&RunId::from_bits(7), &Note { seq: 1 })?;
    Ok(())
}

// shows: DUR-01, DUR-02
#[test]
fn a_run_that_began_is_there_after_every_crash_and_one_that_did_not_is_no_obstacle() {
    let explored = every_crash(
        &project(),
        |disk| first_run(disk).is_ok(),
        |disk, began, at| {
            let disk = Arc::new(disk.clone());
            let state = locked(&disk).unwrap_or_else(|error| panic!("{error} at {at:?}"));
            let runs = state.view().runs().unwrap();
            assert!(
                !began || runs == [RunId::from_bits(7)],
                "{runs:?} at {at:?}"
            );
            for run in &runs {
                let log = state.open_log::<Note>(run, |_| ()).unwrap();
                assert_eq!(log.next_seq(), 2, "at {at:?}");
                disk.list(&layout().run(run).relay(None).sessions())
                    .unwrap_or_else(|error| panic!("{error} at {at:?}"));
            }
            state
                .create_run(&RunId::from_bits(8), &Note { seq: 1 })
                .expect("the next run");
        },
    );
    assert!(explored.worlds > 100, "{explored:?}");
}

// shows: DUR-02
#[test]
fn what_a_killed_process_left_in_the_cache_is_made_durable_by_the_next() {
    let whole = Arc::new(project());
    first_run(&whole).unwrap();
    for op in 0..whole.ops() {
        let disk = Arc::new(project());
        disk.crash_at(op, ekiden_sim::AtCrash::Done);
        first_run(&disk).unwrap_err();
        let next = Arc::new(disk.after_kill());
        let state = locked(&next).unwrap();
        state
            .create_run(&RunId::from_bits(8), &Note { seq: 1 })
            .unwrap();
        let records =
            |state: &StateDir, run: &RunId| state.read_log::<Note>(run).unwrap().count() as u64;
        for run in state.view().runs().unwrap() {
            let log = state.open_log::<Note>(&run, |_| ()).unwrap();
            for left in next.survivors() {
                assert_eq!(
                    records(&view(&left), &run),
                    log.next_seq() - 1,
                    "killed at {op}"
                );
            }
        }
    }
}

// shows: DUR-02
#[test]
fn a_second_crash_while_the_first_is_mended_does_no_harm() {
    let whole = Arc::new(project());
    locked(&whole).unwrap();
    for op in 0..whole.ops() {
        let disk = Arc::new(project());
        disk.crash_at(op, ekiden_sim::AtCrash::Done);
        locked(&disk).unwrap_err();
        every_crash(
            &disk.after_kill(),
            |disk| locked(disk).is_ok(),
            |disk, _, at| {
                locked(&Arc::new(disk.clone()))
                    .unwrap_or_else(|error| panic!("{error} after {op} and {at:?}"));
            },
        );
    }
}

#[test]
fn runs_are_found_by_the_start_of_their_id() {
    let disk = Arc::new(project());
    let state = locked(&disk).unwrap();
    for bits in [0x7f3a_0000, 0x7f3b_0000, 0x1234_5678] {
        state
            .create_run(&RunId::from_bits(bits), &Note { seq: 1 })
            .unwrap();
    }
    let state = view(&disk);
    assert_eq!(state.find_run("12").unwrap(), RunId::from_bits(0x1234_5678));
    assert_eq!(
        state.find_run("7f3b").unwrap(),
        RunId::from_bits(0x7f3b_0000)
    );
    expect_test::expect!["choose between the runs that begin with `7f3`: 7f3a0000, 7f3b0000"]
        .assert_eq(&state.find_run("7f3").unwrap_err().to_string());
    expect_test::expect!["find run `9`: there is no such run here"]
        .assert_eq(&state.find_run("9").unwrap_err().to_string());
}

// shows: DUR-04
#[test]
fn a_run_that_lost_its_log_is_listed_and_cannot_be_opened() {
    let disk = Arc::new(project());
    first_run(&disk).unwrap();
    let run = RunId::from_bits(7);
    let files = layout().run(&run);
    disk.create_dir(&files.relay(None).sessions().join("1"))
        .unwrap();
    disk.remove(&files.log()).unwrap();
    assert_eq!(view(&disk).runs().unwrap(), std::slice::from_ref(&run));
    let error = locked(&disk)
        .unwrap()
        .open_log::<Note>(&run, |_| ())
        .unwrap_err();
    assert!(error.hint().unwrap().contains("the log was removed"));
}

// shows: DUR-04
#[test]
fn a_run_of_another_user_is_listed_and_hides_no_other() {
    let disk = Arc::new(project());
    first_run(&disk).unwrap();
    let theirs = RunId::from_bits(8);
    disk.create_dir(layout().run(&theirs).dir()).unwrap();
    disk.forbid(layout().run(&theirs).dir());
    let state = StateDir::open(disk, layout()).unwrap().unwrap();
    assert_eq!(state.runs().unwrap(), [RunId::from_bits(7), theirs.clone()]);
    let error = state.read_log::<Note>(&theirs).err().unwrap();
    assert!(error.hint().unwrap().contains("another user"), "{error}");
}

// shows: DUR-05
#[test]
fn a_newer_state_is_looked_at_and_not_changed() {
    let disk = Arc::new(project());
    first_run(&disk).unwrap();
    disk.remove(&layout().format()).unwrap();
    let newer = br#"{"format":"ekiden-state","version":2,"readable_from":1}"#;
    disk.plant_file(&layout().format(), newer);
    assert_eq!(view(&disk).runs().unwrap().len(), 1);
    let error = locked(&disk).unwrap_err();
    assert!(
        matches!(
            error,
            StoreError::File {
                source: FileFault::ReadOnly,
                ..
            }
        ),
        "{error}"
    );
}

// shows: DUR-04
#[test]
fn runs_without_a_format_are_damage_and_not_a_new_state() {
    let disk = Arc::new(project());
    assert!(
        StateDir::open(disk.clone(), layout()).unwrap().is_none(),
        "nothing ever ran here"
    );
    first_run(&disk).unwrap();
    disk.remove(&layout().format()).unwrap();
    expect_test::expect!["read `/p/.git/ekiden/main/format`: it is not an `ekiden-state` file"]
        .assert_eq(&in_full(&locked(&disk).unwrap_err()));
}

#[test]
fn a_run_of_the_same_id_is_refused() {
    let disk = Arc::new(project());
    let state = locked(&disk).unwrap();
    let run = RunId::from_bits(7);
    state.create_run(&run, &Note { seq: 1 }).unwrap();
    state.create_run(&run, &Note { seq: 1 }).unwrap_err();
}
