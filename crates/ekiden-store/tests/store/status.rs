use std::path::Path;

use ekiden_core::ids::RunId;
use ekiden_core::time::Timestamp;
use ekiden_sim::SimDisk;
use ekiden_store::disk::Disk;
use ekiden_store::error::{FileFault, StoreError};
use ekiden_store::status::*;

const PATH: &str = "/p/.ekiden/status.json";

fn status() -> Status {
    Status {
        tool: "ekiden".to_owned(),
        version: "0.1.0".to_owned(),
        session: 3,
        max_sessions: 10,
        status: StatusWord::VerifiedComplete,
        message: "Verification passed".to_owned(),
        updated_at: Timestamp(1_780_308_000_000),
        work_dir: "/p".into(),
        completion_marker: "ALL_COMPLETE".to_owned(),
        run: RunId::from_bits(0x7f3a_0b1c),
    }
}

fn with(content: &[u8]) -> SimDisk {
    let disk = SimDisk::new();
    disk.plant_file(Path::new(PATH), content);
    disk
}

// shows: REL-20
#[test]
fn the_nine_keys_come_first_and_in_order() {
    let disk = SimDisk::new();
    disk.plant_dir(Path::new("/p/.ekiden"));
    let file = StatusFile::open(&disk, PATH.into()).unwrap();
    file.write(&disk, &status()).unwrap();
    assert_eq!(disk.syncs(), 1);
    let text = String::from_utf8(disk.read(Path::new(PATH), 1000).unwrap()).unwrap();
    expect_test::expect![[r#"
        {
          "tool": "ekiden",
          "version": "0.1.0",
          "session": 3,
          "max_sessions": 10,
          "status": "verified_complete",
          "message": "Verification passed",
          "updated_at": "2026-06-01T10:00:00Z",
          "work_dir": "/p",
          "completion_marker": "ALL_COMPLETE",
          "run": "7f3a0b1c",
          "format": "ekiden-status",
          "format_version": 1
        }
    "#]]
    .assert_eq(&text);
}

// shows: REL-20
#[test]
fn the_words_are_those_of_the_shell_edition() {
    use StatusWord::{Complete, Error, MaxSessions, Paused, Running, Stuck, VerifiedComplete};
    let words = [
        Running,
        Paused,
        Complete,
        VerifiedComplete,
        Stuck,
        MaxSessions,
        Error,
    ];
    expect_test::expect![[
        r#"["running","paused","complete","verified_complete","stuck","max_sessions","error"]"#
    ]]
    .assert_eq(&serde_json::to_string(&words).unwrap());
}

// shows: DUR-05
#[test]
fn a_newer_file_is_not_written_and_a_foreign_one_is_replaced() {
    let newer = with(br#"{"format":"ekiden-status","format_version":2,"readable_from":1}"#);
    let error = StatusFile::open(&newer, PATH.into()).unwrap_err();
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
    for foreign in [&b""[..], b"\0\0\0", br#"{"tool":"cleave","version":"5"}"#] {
        let disk = with(foreign);
        let file = StatusFile::open(&disk, PATH.into()).unwrap();
        file.write(&disk, &status()).unwrap();
        let written: serde_json::Value =
            serde_json::from_slice(&disk.read(Path::new(PATH), 1000).unwrap()).unwrap();
        assert_eq!(written["run"], "7f3a0b1c");
    }
    let disk = SimDisk::new();
    disk.plant_dir(Path::new(PATH));
    StatusFile::open(&disk, PATH.into()).unwrap();
}
