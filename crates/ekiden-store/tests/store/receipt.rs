use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use ekiden_core::hash::sha256_hex;
use ekiden_sim::{SimDisk, every_crash};
use ekiden_store::disk::Disk;
use ekiden_store::error::{FileFault, StoreError};
use ekiden_store::receipt::*;

fn place() -> ReceiptDir {
    ReceiptDir::of(
        Path::new("/home/.local/state/ekiden"),
        Path::new("/home/.claude/settings.json"),
    )
}

fn receipt(written: &[u8]) -> Receipt {
    Receipt {
        settings: "/home/.claude/settings.json".into(),
        written: sha256_hex(written),
        files: BTreeMap::from([("/home/.claude/x".into(), sha256_hex(b"x"))]),
        dirs: vec!["/home/.claude".into()],
        ..Receipt::default()
    }
}

fn receipt_file() -> PathBuf {
    place().original().with_file_name("receipt.json")
}

// shows: OPS-02, DUR-02
#[test]
fn a_receipt_that_is_there_has_its_copy_wherever_the_machine_stops() {
    let start = SimDisk::new();
    start.plant_dir(Path::new("/home"));
    every_crash(
        &start,
        |disk| {
            place()
                .write(&**disk, &receipt(b"with us"), Some(b"without us"))
                .is_ok()
        },
        |disk, returned, _| {
            let found = place().read(disk).expect("whole, or not there");
            assert!(found.is_some() || !returned);
            if let Some(found) = found {
                assert!(found.wrote(b"with us") && found.made(Path::new("/home/.claude/x"), b"x"));
                let copy = place().read_original(disk, 100).expect("the copy");
                assert_eq!(copy.as_deref(), Some(&b"without us"[..]));
            }
        },
    );
}

#[test]
fn what_is_removed_leaves_nothing_and_can_be_removed_again() {
    let disk = SimDisk::new();
    disk.plant_dir(Path::new("/home"));
    place().write(&disk, &receipt(b"a"), Some(b"b")).unwrap();
    place().write(&disk, &receipt(b"a"), None).unwrap();
    assert_eq!(place().read_original(&disk, 100).unwrap(), None);
    place().remove(&disk).unwrap();
    place().remove(&disk).unwrap();
    assert!(
        disk.list(Path::new("/home/.local/state"))
            .unwrap()
            .is_empty()
    );
    assert_eq!(place().read(&disk).unwrap(), None);
}

// shows: DUR-05
#[test]
fn a_receipt_that_cannot_be_read_is_never_none() {
    let disk = SimDisk::new();
    disk.plant_file(&receipt_file(), b"{ torn");
    assert!(matches!(
        place().read(&disk).unwrap_err(),
        StoreError::File {
            source: FileFault::DamagedReceipt(_),
            ..
        }
    ));
    let disk = SimDisk::new();
    place().write(&disk, &receipt(b"a"), None).unwrap();
    let ours = String::from_utf8(disk.read(&receipt_file(), 1000).unwrap()).unwrap();
    let newer = ours.replace("\"version\": 1", "\"version\": 2");
    let newer = newer.replace("\"settings\": ", "\"settings_files\": ");
    assert!(!newer.contains("\"version\": 1") && !newer.contains("\"settings\""));
    disk.remove(&receipt_file()).unwrap();
    disk.plant_file(&receipt_file(), newer.as_bytes());
    assert!(matches!(
        place().read(&disk).unwrap_err(),
        StoreError::File {
            source: FileFault::TooNew { .. },
            ..
        }
    ));
}
