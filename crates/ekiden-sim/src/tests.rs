use std::collections::BTreeSet;

use super::*;
use ekiden_store::disk::{Disk, Reach};

fn file(disk: &SimDisk, path: &str) -> Option<String> {
    match disk.read(Path::new(path), 1 << 20) {
        Ok(bytes) => Some(String::from_utf8_lossy(&bytes).into_owned()),
        Err(error) if error.is_not_found() => None,
        Err(error) => panic!("{error}: {:?}", error.cause),
    }
}

fn found(disk: &SimDisk, path: &str) -> Vec<Option<String>> {
    let mut found: Vec<_> = disk.survivors().map(|left| file(&left, path)).collect();
    found.sort();
    found.dedup();
    found
}

fn some(text: &str) -> Option<String> {
    Some(text.to_owned())
}

fn work() -> SimDisk {
    let disk = SimDisk::new();
    disk.plant_dir(Path::new("/work"));
    disk
}

// shows: DUR-02
#[test]
fn a_synced_file_under_a_synced_name_never_changes() {
    let disk = work();
    disk.create_file(Path::new("/work/a"), b"safe", Reach::Disk)
        .unwrap();
    disk.sync_dir(Path::new("/work")).unwrap();
    assert_eq!(found(&disk, "/work/a"), [some("safe")]);
    assert_eq!(disk.syncs(), 2);
}

#[test]
fn a_synced_file_may_lose_its_unsynced_name() {
    let disk = work();
    disk.create_file(Path::new("/work/a"), b"safe", Reach::Disk)
        .unwrap();
    assert_eq!(found(&disk, "/work/a"), [None, some("safe")]);
}

#[test]
fn an_unsynced_file_may_be_empty_torn_or_full_of_zeros() {
    let disk = work();
    disk.create_file(Path::new("/work/a"), b"text", Reach::Cache)
        .unwrap();
    disk.sync_dir(Path::new("/work")).unwrap();
    assert_eq!(
        found(&disk, "/work/a"),
        [some(""), some("\0\0xt"), some("te"), some("text")]
    );
}

#[test]
fn an_unsynced_rename_may_be_lost_but_never_in_part() {
    let disk = work();
    disk.plant_file(Path::new("/work/x"), b"old");
    disk.create_file(Path::new("/work/tmp"), b"new", Reach::Disk)
        .unwrap();
    disk.rename(Path::new("/work/tmp"), Path::new("/work/x"))
        .unwrap();
    let mut seen: Vec<_> = disk
        .survivors()
        .map(|left| (file(&left, "/work/x"), file(&left, "/work/tmp")))
        .collect();
    seen.sort();
    assert_eq!(
        seen,
        [
            (some("new"), None),
            (some("old"), None),
            (some("old"), some("new"))
        ],
        "renamed; nothing at all; created but not renamed"
    );
}

#[test]
fn names_survive_each_on_its_own() {
    let disk = work();
    disk.create_file(Path::new("/work/a"), b"", Reach::Disk)
        .unwrap();
    disk.create_file(Path::new("/work/b"), b"", Reach::Disk)
        .unwrap();
    let survivors = disk.survivors();
    assert!(survivors.is_complete());
    let seen: Vec<_> = survivors
        .map(|left| left.list(Path::new("/work")).unwrap().len())
        .collect();
    assert_eq!(seen, [0, 1, 1, 2]);
}

#[test]
fn a_synced_directory_may_lose_its_own_name() {
    let disk = work();
    disk.create_dir(Path::new("/work/new")).unwrap();
    disk.create_file(Path::new("/work/new/a"), b"x", Reach::Disk)
        .unwrap();
    disk.sync_dir(Path::new("/work/new")).unwrap();
    assert_eq!(found(&disk, "/work/new/a"), [None, some("x")]);
    disk.sync_dir(Path::new("/work")).unwrap();
    assert_eq!(found(&disk, "/work/new/a"), [some("x")]);
}

#[test]
fn a_killed_process_leaves_its_cache_which_a_power_cut_takes() {
    let disk = work();
    disk.plant_file(Path::new("/work/a"), b"old ");
    disk.crash_at(1, AtCrash::NotDone);
    disk.append(Path::new("/work/a"), 4, b"new", Reach::Disk)
        .unwrap_err();
    let next = disk.after_kill();
    assert_eq!(file(&next, "/work/a"), some("old new"));
    assert!(found(&next, "/work/a").contains(&some("old ")));
    next.sync_file(Path::new("/work/a")).unwrap();
    assert_eq!(found(&next, "/work/a"), [some("old new")]);
}

#[test]
fn after_the_crash_everything_fails() {
    let disk = work();
    disk.crash_at(0, AtCrash::Done);
    let refused = [
        disk.create_dir(Path::new("/work/a")).unwrap_err(),
        disk.stat(Path::new("/work/a")).unwrap_err(),
        disk.create_dir(Path::new("/work/b")).unwrap_err(),
    ];
    for error in refused {
        assert_eq!(error.cause.to_string(), "the simulated machine has crashed");
    }
    assert!(
        disk.after_kill()
            .stat(Path::new("/work/a"))
            .unwrap()
            .is_some(),
        "it was done"
    );
}

#[test]
fn a_full_disk_takes_half_and_a_failed_sync_is_never_made_good() {
    let disk = work();
    disk.plant_file(Path::new("/work/a"), b"");
    disk.fail_at(0, Fault::DiskFull);
    let full = disk
        .append(Path::new("/work/a"), 0, b"abcd", Reach::Cache)
        .unwrap_err();
    assert_eq!(full.to_string(), "append to `/work/a`");
    assert_eq!(file(&disk, "/work/a"), some("ab"));
    disk.fail_at(1, Fault::Io);
    disk.sync_file(Path::new("/work/a")).unwrap_err();
    disk.sync_file(Path::new("/work/a")).unwrap();
    assert!(found(&disk, "/work/a").contains(&some("")));
}

#[test]
fn a_lasting_fault_stays() {
    let disk = work();
    disk.fail_from(1, Fault::ReadOnly);
    disk.create_dir(Path::new("/work/a")).unwrap();
    for _ in 0..3 {
        disk.create_dir(Path::new("/work/b")).unwrap_err();
    }
}

#[test]
fn too_many_losses_are_drawn_the_same_way_each_time() {
    let disk = work();
    for at in 0..20 {
        disk.create_file(Path::new(&format!("/work/{at}")), b"text", Reach::Cache)
            .unwrap();
    }
    let survivors = disk.survivors();
    assert!(!survivors.is_complete());
    let names = |left: SimDisk| left.list(Path::new("/work")).unwrap();
    let sizes: Vec<_> = survivors.map(|left| names(left).len()).collect();
    assert_eq!((sizes[0], sizes[1], sizes.len()), (0, 20, 256));
    assert_eq!(names(disk.survive_seeded(7)), names(disk.survive_seeded(7)));
}

#[test]
fn drawn_losses_come_in_pairs_and_each_comes_with_some_seed() {
    let disk = work();
    for at in 0..4 {
        disk.create_file(Path::new(&format!("/work/{at}")), b"text", Reach::Cache)
            .unwrap();
    }
    let factored = || disk.factored(|path| path == Path::new("/work/3"));
    let all: BTreeSet<u64> = factored().map(|found| found.disk.fingerprint()).collect();
    let mut drawn = BTreeSet::new();
    for seed in 0..factored().len() as u64 {
        let losses: Vec<_> = factored().drawn(8, seed).collect();
        assert!((2..=8).contains(&losses.len()), "{}", losses.len());
        for pair in losses.chunks(2) {
            assert_eq!(pair[0].group, pair[1].group);
        }
        drawn.extend(losses.iter().map(|found| found.disk.fingerprint()));
    }
    assert_eq!(drawn, all);
    assert!(factored().drawn(0, u64::MAX).len() > 0);
}
