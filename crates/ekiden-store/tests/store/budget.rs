//! What a new session costs: one sync between one agent's exit and the next one's start, and the others while
//! that one's process starts.

use std::path::Path;
use std::sync::Arc;

use ekiden_core::handoff::{FileText, HandoffFiles};
use ekiden_core::ids::{RunId, SessionNumber};
use ekiden_core::time::Timestamp;
use ekiden_store::archive::{archive_dir, make_dir};
use ekiden_store::disk::{Disk as _, Reach, RealDisk, parent};
use ekiden_store::handoff::{Keeping, take_handoff};
use ekiden_store::layout::{Published, SessionLayout, StateLayout};
use ekiden_store::lock::{Holder, WorkDirLock};
use ekiden_store::log::Numbered;
use ekiden_store::published::prepare_published;
use ekiden_store::replace::{Durability, replace};
use ekiden_store::state::{LockedStateDir, create_state_root};
use ekiden_store::status::{Status, StatusFile, StatusWord};
use serde::Serialize;

#[derive(Serialize)]
struct Note {
    seq: u64,
}

impl Numbered for Note {
    fn seq(&self) -> u64 {
        self.seq
    }
}

fn status(run: &RunId, work_dir: &Path) -> Status {
    Status {
        tool: "ekiden".to_owned(),
        version: "0.1.0".to_owned(),
        session: 2,
        max_sessions: 10,
        status: StatusWord::Running,
        message: "Session #2 active".to_owned(),
        updated_at: Timestamp(1_780_308_000_000),
        work_dir: work_dir.to_owned(),
        completion_marker: "ALL_COMPLETE".to_owned(),
        run: run.clone(),
    }
}

#[test]
fn a_session_starts_with_one_sync_and_is_told_its_task_after_five() {
    let dir = tempfile::tempdir().unwrap();
    let project = dir.path().canonicalize().unwrap();
    let disk = Arc::new(RealDisk::fenced(&project));
    let (published, layout) = (
        Published::new(&project),
        StateLayout::new(&project.join(".ekiden/state")),
    );
    let run = RunId::from_bits(7);
    create_state_root(&*disk, &layout).unwrap();
    prepare_published(&*disk, &published, &layout).unwrap();
    let holder = Holder {
        pid: 1,
        host: "atlas".to_owned(),
        started: Timestamp(0),
        run: None,
    };
    let lock = WorkDirLock::take(&layout.lock(None), holder).unwrap();
    let state = LockedStateDir::open(disk.clone(), layout.clone(), lock).unwrap();
    let mut log = state.create_run(&run, &Note { seq: 1 }).unwrap();

    // The first session has ended. Its handoff is in the record of that, and not in the archive yet.
    let first = layout.run(&run).relay(None).session(SessionNumber::FIRST);
    let prompt = [(SessionLayout::PROMPT, "the task")];
    archive_dir(&*disk, first.dir(), &prompt).unwrap();
    let progress = FileText::Text("STATUS: IN_PROGRESS".to_owned());
    let recorded = HandoffFiles {
        progress,
        ..HandoffFiles::default()
    };
    let written = published.handoff().join("PROGRESS.md");
    disk.create_file(&written, b"STATUS: IN_PROGRESS", Reach::Cache)
        .unwrap();

    let before = disk.syncs();
    log.append(&Note { seq: 2 }).unwrap();
    let second = layout
        .run(&run)
        .relay(None)
        .session(SessionNumber::FIRST.next());
    make_dir(&*disk, second.dir()).unwrap();
    replace(&*disk, &second.prompt(), b"the task", Durability::Derived).unwrap();
    let keeping = Keeping {
        left: &first.left(),
        sessions: std::slice::from_ref(&first),
        recorded: &[&recorded],
        is_same_session: false,
    };
    take_handoff(&*disk, &published.handoff(), keeping).unwrap();
    assert_eq!(disk.list(&published.handoff()).unwrap(), [""; 0]);
    assert_eq!(disk.syncs() - before, 1);

    // The next agent's process runs.
    disk.sync_file(&second.prompt()).unwrap();
    disk.sync_dir(second.dir()).unwrap();
    disk.sync_dir(parent(second.dir())).unwrap();
    disk.sync_dir(&published.handoff()).unwrap();
    assert_eq!(disk.syncs() - before, 5);
    let file = StatusFile::open(&*disk, published.status()).unwrap();
    file.write(&*disk, &status(&run, &project)).unwrap();
    assert_eq!(disk.syncs() - before, 6);
}
