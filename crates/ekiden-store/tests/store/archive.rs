use std::path::Path;

use ekiden_sim::{SimDisk, every_crash};
use ekiden_store::archive::*;
use ekiden_store::disk::{Disk, Reach, parent};
use ekiden_store::error::{FileFault, StoreError};
use ekiden_store::handoff::keep;
use ekiden_store::replace::{Durability, replace};

const PROMPT: (&str, &str) = ("prompt.md", "the task, word for word");
const PROTOCOL: (&str, &str) = ("protocol.md", "the fixed instructions");

fn sessions() -> SimDisk {
    let disk = SimDisk::new();
    disk.plant_dir(Path::new("/s/sessions"));
    disk
}

fn archive_session(disk: &SimDisk) -> bool {
    archive_dir(disk, Path::new("/s/sessions/1"), &[PROMPT, PROTOCOL]).is_ok()
}

fn assert_whole(disk: &SimDisk, returned: bool) {
    for (name, text) in [PROMPT, PROTOCOL] {
        match disk.read(&Path::new("/s/sessions/1").join(name), 100) {
            Ok(bytes) => assert_eq!(bytes, text.as_bytes()),
            Err(error) => assert!(error.is_not_found() && !returned, "{error}"),
        }
    }
}

// shows: DUR-01, DUR-02
#[test]
fn an_archive_is_whole_or_absent_and_can_be_repeated_after_every_crash() {
    let explored = every_crash(
        &sessions(),
        |disk| archive_session(disk),
        |disk, returned, _| {
            assert_whole(disk, *returned);
            assert!(archive_session(disk), "repeated");
            disk.survivors().for_each(|left| assert_whole(&left, true));
        },
    );
    assert!(explored.worlds > 50, "{explored:?}");
}

#[test]
fn a_new_directory_of_two_files_costs_four_syncs() {
    let disk = sessions();
    assert!(archive_session(&disk));
    assert_eq!(disk.syncs(), 4);
}

// shows: DUR-01, DUR-02
#[test]
fn a_file_that_is_synced_later_is_found_at_once_and_whole_after_every_crash() {
    let path = Path::new("/s/sessions/1/prompt.md");
    let text = PROMPT.1.as_bytes();
    let put = |disk: &SimDisk| {
        make_dir(disk, parent(path))?;
        replace(disk, path, text, Durability::Derived)
    };
    let sync = |disk: &SimDisk| {
        disk.sync_file(path)?;
        disk.sync_dir(parent(path))?;
        disk.sync_dir(parent(parent(path)))
    };
    let disk = sessions();
    put(&disk).unwrap();
    assert_eq!(
        (disk.read(path, 100).unwrap(), disk.syncs()),
        (text.to_vec(), 0)
    );
    every_crash(
        &sessions(),
        |disk| put(disk).and_then(|()| sync(disk)).is_ok(),
        |disk, returned, at| {
            let whole = disk.read(path, 100).is_ok_and(|found| found == text);
            assert!(!returned || whole, "{at:?}");
        },
    );
}

#[test]
fn another_content_is_never_overwritten() {
    let disk = sessions();
    let path = Path::new("/s/sessions/progress.md");
    let archive = |text| archive_dir(&disk, parent(path), &[("progress.md", text)]);
    archive("one").unwrap();
    archive("one").unwrap();
    let error = archive("two").unwrap_err();
    assert!(matches!(
        error,
        StoreError::File {
            source: FileFault::Differs,
            ..
        }
    ));
    assert_eq!(disk.read(path, 10).unwrap(), b"one");
}

#[test]
fn large_files_are_copied_and_compared_in_pieces() {
    let disk = sessions();
    let large: Vec<u8> = (0..200_000).map(|at| (at % 251) as u8).collect();
    let (file, left) = (Path::new("/s/large"), Path::new("/s/left"));
    disk.plant_file(file, &large);
    for _ in 0..2 {
        keep(&disk, file, left).unwrap();
        assert_eq!(disk.list(left).unwrap(), ["large"]);
        assert_eq!(disk.read(&left.join("large"), 1 << 20).unwrap(), large);
    }
    disk.append(file, large.len() as u64, b"x", Reach::Cache)
        .unwrap();
    keep(&disk, file, left).unwrap();
    assert_eq!(disk.list(left).unwrap(), ["2-large", "large"]);
}

#[test]
fn ensured_directories_are_durable() {
    let dir = Path::new("/s/a/b/c");
    every_crash(
        &sessions(),
        |disk| ensure_dir(&**disk, dir).is_ok(),
        |disk, returned, _| {
            assert!(!returned || disk.stat(dir).unwrap().is_some());
        },
    );
}
