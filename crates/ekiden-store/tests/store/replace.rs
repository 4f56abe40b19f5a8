use std::path::Path;

use ekiden_sim::{SimDisk, every_crash};
use ekiden_store::disk::Disk;
use ekiden_store::replace::*;

const FILE: &str = "/p/status.json";
const OLD: &[u8] = b"old content";
const NEW: &[u8] = b"the new content";

fn explore(
    start: &SimDisk,
    durability: Durability,
    check: impl Fn(&SimDisk, bool, Option<Vec<u8>>, bool),
) {
    let explored = every_crash(
        start,
        |disk| replace(&**disk, Path::new(FILE), NEW, durability).is_ok(),
        |disk, returned, at| {
            let content = disk.read(Path::new(FILE), 100).ok();
            check(disk, *returned, content, at.survivor.is_some());
        },
    );
    assert!(explored.worlds > 8 && explored.sampled == 0, "{explored:?}");
}

fn with_old() -> SimDisk {
    let disk = SimDisk::new();
    disk.plant_file(Path::new(FILE), OLD);
    disk
}

// shows: DUR-02
#[test]
fn a_full_replacement_is_old_or_new_and_new_once_it_returned() {
    explore(&with_old(), Durability::Full, |_, returned, content, _| {
        let content = content.expect("some file");
        assert!(
            content == NEW || (content == OLD && !returned),
            "{content:?}"
        );
    });
}

// shows: DUR-02
#[test]
fn a_full_creation_is_nothing_or_whole() {
    let empty = SimDisk::new();
    empty.plant_dir(Path::new("/p"));
    explore(
        &empty,
        Durability::Full,
        |_, returned, content, _| match content {
            None => assert!(!returned),
            Some(content) => assert_eq!(content, NEW),
        },
    );
}

// shows: REL-20
#[test]
fn a_whole_replacement_is_never_torn() {
    explore(&with_old(), Durability::Whole, |_, _, content, _| {
        let content = content.expect("some file");
        assert!(content == NEW || content == OLD, "{content:?}");
    });
}

#[test]
fn a_derived_replacement_is_whole_unless_the_power_is_cut() {
    let torn = std::cell::Cell::new(0);
    explore(
        &with_old(),
        Durability::Derived,
        |_, _, content, power_cut| {
            let content = content.expect("some file");
            if content != NEW && content != OLD {
                assert!(power_cut, "{content:?}");
                torn.set(torn.get() + 1);
            }
        },
    );
    assert!(
        torn.get() > 0,
        "the simulated disk must show what the missing sync costs"
    );
}

#[test]
fn what_a_crash_leaves_behind_is_in_nobodys_way() {
    explore(&with_old(), Durability::Full, |disk, _, _, _| {
        replace(disk, Path::new(FILE), b"next", Durability::Full).expect("replaced");
        assert_eq!(disk.read(Path::new(FILE), 100).expect("the file"), b"next");
        assert_eq!(
            disk.list(Path::new("/p")).expect("the directory"),
            ["status.json"]
        );
    });
}

// shows: DUR-04
#[test]
fn a_full_disk_keeps_the_old_file_and_no_half_one() {
    for op in 0..4 {
        let disk = with_old();
        disk.fail_at(op, ekiden_sim::Fault::DiskFull);
        replace(&disk, Path::new(FILE), NEW, Durability::Full).unwrap_err();
        assert_eq!(disk.read(Path::new(FILE), 100).unwrap(), OLD);
        assert_eq!(
            disk.list(Path::new("/p")).unwrap(),
            ["status.json"],
            "failed at {op}"
        );
    }
}

#[test]
fn the_syncs_are_as_few_as_promised() {
    for (durability, syncs) in [
        (Durability::Full, 2),
        (Durability::Whole, 1),
        (Durability::Derived, 0),
    ] {
        let disk = with_old();
        replace(&disk, Path::new(FILE), NEW, durability).unwrap();
        assert_eq!(disk.syncs(), syncs);
    }
}
