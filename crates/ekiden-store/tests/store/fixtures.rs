//! One kept file of each version of each format. After the first release they are never edited: a new version adds one.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use ekiden_core::ids::RunId;
use ekiden_core::time::Timestamp;
use ekiden_store::disk::{Disk as _, Reach, RealDisk};
use ekiden_store::layout::StateLayout;
use ekiden_store::log::{LogWriter, Numbered, read_log};
use ekiden_store::state::StateDir;
use ekiden_store::status::StatusFile;
use serde::{Deserialize, Serialize};
use serde_json::Value;

#[derive(Debug, Serialize, Deserialize)]
struct Line {
    seq: u64,
    time: Timestamp,
    logic: u32,
    event: Value,
    effects: Vec<Value>,
}

impl Numbered for Line {
    fn seq(&self) -> u64 {
        self.seq
    }
}

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("fixtures")
        .join(name)
}

/// A copy to change, in a directory of its own.
fn copy(name: &str, to: &Path) {
    let bytes = RealDisk::new()
        .read(&fixture(name), 1 << 20)
        .expect("the fixture");
    RealDisk::new()
        .create_file(to, &bytes, Reach::Cache)
        .expect("a free place");
}

// shows: DUR-05
#[test]
fn a_log_of_version_1_is_read_and_carried_on() {
    let dir = tempfile::tempdir().unwrap();
    let (disk, path) = (Arc::new(RealDisk::new()), dir.path().join("log.jsonl"));
    copy("log-v1.jsonl", &path);
    let mut kinds = Vec::new();
    let show = |line: Line| kinds.push(line.event["kind"].to_string());
    let mut log = LogWriter::open(disk.clone(), &path, show).unwrap();
    assert_eq!(
        kinds,
        [r#""run_started""#, r#""surveyed""#, r#""verified""#]
    );
    assert_eq!(log.next_seq(), 4);
    let more = Line {
        seq: 4,
        time: Timestamp(1),
        logic: 2,
        event: Value::Null,
        effects: vec![],
    };
    log.append(&more).unwrap();
    assert_eq!(
        read_log::<Line>(&*disk, &path)
            .unwrap()
            .map(Result::unwrap)
            .count(),
        4
    );
}

// shows: DUR-05
#[test]
fn a_status_of_version_1_is_replaced() {
    let dir = tempfile::tempdir().unwrap();
    let (disk, path) = (RealDisk::new(), dir.path().join("status.json"));
    copy("status-v1.json", &path);
    let kept: Value = serde_json::from_slice(&disk.read(&path, 4096).unwrap()).unwrap();
    assert_eq!(
        (&kept["session"], &kept["status"]),
        (&3.into(), &"running".into())
    );
    StatusFile::open(&disk, path).unwrap();
}

// shows: DUR-05
#[test]
fn a_state_directory_of_version_1_is_opened() {
    let dir = tempfile::tempdir().unwrap();
    let layout = StateLayout::new(dir.path());
    copy("state-v1", &layout.format());
    let run = RunId::from_bits(0x7f3a_0b1c);
    for dir in [layout.runs(), layout.run(&run).dir().to_owned()] {
        RealDisk::new().create_dir(&dir).unwrap();
    }
    copy("log-v1.jsonl", &layout.run(&run).log());
    let state = StateDir::open(Arc::new(RealDisk::new()), layout)
        .unwrap()
        .expect("some state");
    assert_eq!(state.find_run("7f").unwrap(), run);
    assert_eq!(state.read_log::<Line>(&run).unwrap().count(), 3);
}
