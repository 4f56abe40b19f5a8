use std::ffi::OsString;
use std::path::Path;

use ekiden_core::handoff::{FileText, HandoffFile, HandoffFiles, NotText};
use ekiden_core::ids::{RunId, SessionNumber};
use ekiden_core::limits::HANDOFF_FILE_BYTES_MAX;
use ekiden_sim::{SimDisk, every_crash};
use ekiden_store::archive::archive_dir;
use ekiden_store::disk::{Disk, DiskResult, Kind};
use ekiden_store::handoff::*;
use ekiden_store::layout::SessionLayout;
use ekiden_store::layout::StateLayout;

const DIR: &str = "/p/.ekiden/handoff";

fn session() -> SessionLayout {
    StateLayout::new(Path::new("/s"))
        .run(&RunId::from_bits(7))
        .relay(None)
        .session(SessionNumber::FIRST)
}

fn with(files: &[(&str, &[u8])]) -> SimDisk {
    let disk = SimDisk::new();
    disk.plant_dir(Path::new(DIR));
    disk.plant_dir(session().dir());
    for (name, bytes) in files {
        disk.plant_file(&Path::new(DIR).join(name), bytes);
    }
    disk
}

fn archive_progress(disk: &SimDisk, bytes: &[u8]) {
    let path = session().handoff(HandoffFile::Progress);
    let name = path.file_name().unwrap().to_str().unwrap();
    let text = std::str::from_utf8(bytes).unwrap();
    archive_dir(disk, session().dir(), &[(name, text)]).unwrap();
}

fn take(disk: &SimDisk) -> DiskResult<()> {
    take_recorded(disk, &[])
}

fn take_recorded(disk: &SimDisk, recorded: &[&HandoffFiles]) -> DiskResult<()> {
    let keeping = Keeping {
        sessions: &[session()],
        left: &session().left(),
        recorded,
        is_same_session: false,
    };
    take_handoff(disk, Path::new(DIR), keeping)
}

/// The next attempt may have nothing more to learn, and then leaves no knowledge.
// shows: REL-36, DUR-01
#[test]
fn what_an_earlier_attempt_at_the_session_learned_stays() {
    let again = |disk: &SimDisk| {
        let keeping = Keeping {
            sessions: &[session()],
            left: &session().left(),
            recorded: &[],
            is_same_session: true,
        };
        take_handoff(disk, Path::new(DIR), keeping).unwrap();
    };
    let disk = with(&[("PROGRESS.md", b"half"), ("KNOWLEDGE.md", b"- a fact")]);
    again(&disk);
    assert_eq!(disk.list(Path::new(DIR)).unwrap(), ["KNOWLEDGE.md"]);
    assert_eq!(left(&disk), ["PROGRESS.md"]);
    // What the agent could not overwrite does not.
    let disk = with(&[("KNOWLEDGE.md", &huge())]);
    again(&disk);
    assert_eq!(disk.list(Path::new(DIR)).unwrap(), [""; 0]);
}

/// What is kept of the session that left it.
fn left(disk: &SimDisk) -> Vec<OsString> {
    disk.list(&session().left()).unwrap()
}

fn huge() -> Vec<u8> {
    vec![b'x'; HANDOFF_FILE_BYTES_MAX + 1]
}

#[test]
fn files_are_read_as_text_within_their_bounds() {
    let disk = with(&[
        ("PROGRESS.md", b"STATUS: IN_PROGRESS"),
        ("NEXT_PROMPT.md", &huge()),
    ]);
    let found = read_handoff(&disk, Path::new(DIR)).unwrap();
    assert_eq!(
        found.progress,
        FileText::Text("STATUS: IN_PROGRESS".to_owned())
    );
    assert_eq!(
        found.next_prompt,
        FileText::TooLarge {
            bytes: huge().len() as u64
        }
    );
    assert_eq!(found.knowledge, FileText::Absent);
}

// shows: REL-36
#[test]
fn what_is_no_text_is_named_and_set_aside() {
    let disk = with(&[("PROGRESS.md", b"\xff\xfe")]);
    disk.plant_dir(&Path::new(DIR).join("NEXT_PROMPT.md"));
    disk.plant_file(Path::new("/home/secret"), b"secret");
    disk.create_link(
        &Path::new(DIR).join("KNOWLEDGE.md"),
        Path::new("/home/secret"),
    )
    .unwrap();
    let found = read_handoff(&disk, Path::new(DIR)).unwrap();
    let what = [NotText::Utf16, NotText::Directory, NotText::Link];
    for (file, what) in HandoffFile::ALL.into_iter().zip(what) {
        assert_eq!(*found.get(file), FileText::NotText(what), "{file}");
    }
    set_aside(&disk, Path::new(DIR), &found, &session()).unwrap();
    assert_eq!(
        disk.list(Path::new(DIR)).unwrap(),
        [""; 0],
        "the next session finds none of it"
    );
    let left = |file: &str| session().left().join(file);
    assert_eq!(disk.read(&left("PROGRESS.md"), 9).unwrap(), b"\xff\xfe");
    let kind = |file: &str| disk.stat(&left(file)).unwrap().unwrap().kind;
    assert_eq!(kind("NEXT_PROMPT.md"), Kind::Dir);
    assert_eq!(kind("KNOWLEDGE.md"), Kind::Link);
}

// shows: REL-36, RUN-12
#[test]
fn a_file_that_may_not_be_read_leaves_the_others_as_they_are_and_is_moved_out() {
    let disk = with(&[("PROGRESS.md", b"STATUS: DONE"), ("KNOWLEDGE.md", b"x")]);
    let theirs = Path::new(DIR).join("KNOWLEDGE.md");
    disk.forbid(&theirs);
    let found = read_handoff(&disk, Path::new(DIR)).unwrap();
    assert_eq!(found.progress.text(), Some("STATUS: DONE"));
    assert_eq!(found.knowledge, FileText::NotText(NotText::Unreadable));
    set_aside(&disk, Path::new(DIR), &found, &session()).unwrap();
    assert_eq!(disk.list(Path::new(DIR)).unwrap(), ["PROGRESS.md"]);
    assert_eq!(disk.list(&session().left()).unwrap(), ["KNOWLEDGE.md"]);
    disk.plant_file(&theirs, b"again");
    take(&disk).unwrap();
    let all = ["2-KNOWLEDGE.md", "KNOWLEDGE.md", "PROGRESS.md"];
    assert_eq!(left(&disk), all);
    assert_eq!(disk.list(Path::new(DIR)).unwrap(), [""; 0]);
}

// shows: MEM-12
#[test]
fn files_of_another_user_do_not_keep_the_rest_from_being_made_private() {
    let disk = with(&[("PROGRESS.md", b"mine"), ("NEXT_PROMPT.md", b"theirs")]);
    disk.forbid(&Path::new(DIR).join("NEXT_PROMPT.md"));
    let before = disk.ops();
    make_private(&disk, Path::new(DIR)).unwrap();
    assert_eq!(disk.ops(), before + 1);
}

// shows: RUN-12
#[test]
fn archived_files_are_removed_others_kept_whole_and_unknown_ones_left() {
    let disk = with(&[
        ("PROGRESS.md", b"done"),
        ("NEXT_PROMPT.md", &huge()),
        ("notes.txt", b"mine"),
    ]);
    archive_progress(&disk, b"done");
    take(&disk).unwrap();
    let copy = session().left().join("NEXT_PROMPT.md");
    assert_eq!(left(&disk), ["NEXT_PROMPT.md"]);
    assert_eq!(disk.read(&copy, 1 << 20).unwrap(), huge());
    assert_eq!(disk.list(Path::new(DIR)).unwrap(), ["notes.txt"]);
}

// shows: RUN-12
#[test]
fn what_a_later_attempt_left_is_archived_too() {
    let disk = with(&[("PROGRESS.md", b"of the second")]);
    archive_progress(&disk, b"of the first");
    archive_dir(
        &disk,
        session().dir(),
        &[("progress.2.md", "of the second")],
    )
    .unwrap();
    take(&disk).unwrap();
    assert!(disk.list(Path::new(DIR)).unwrap().is_empty());
    assert_eq!(disk.stat(&session().left()).unwrap(), None);
}

// shows: RUN-12
#[test]
fn what_stands_in_place_of_a_file_is_moved_out_of_the_way() {
    let disk = with(&[]);
    let place = Path::new(DIR).join("PROGRESS.md");
    for kept in [&["PROGRESS.md"][..], &["2-PROGRESS.md", "PROGRESS.md"]] {
        disk.plant_dir(&place);
        take(&disk).unwrap();
        assert_eq!(left(&disk), kept);
        assert_eq!(disk.stat(&place).unwrap(), None);
    }
}

// shows: RUN-12
#[test]
fn what_the_log_holds_is_removed_without_a_sync_and_anything_else_is_kept() {
    let disk = with(&[
        ("PROGRESS.md", b"done"),
        ("NEXT_PROMPT.md", b"go on, and more"),
    ]);
    let text = |text: &str| FileText::Text(text.to_owned());
    let other = HandoffFiles {
        progress: text("else"),
        ..HandoffFiles::default()
    };
    let recorded = HandoffFiles {
        progress: text("done"),
        next_prompt: text("go on"),
        ..other.clone()
    };
    take_recorded(&disk, &[&other, &recorded]).unwrap();
    assert_eq!(left(&disk), ["NEXT_PROMPT.md"]);
    assert_eq!(disk.list(Path::new(DIR)).unwrap(), [""; 0]);

    let disk = with(&[("PROGRESS.md", b"done"), ("NEXT_PROMPT.md", b"go on")]);
    take_recorded(&disk, &[&other, &recorded]).unwrap();
    assert_eq!(disk.list(Path::new(DIR)).unwrap(), [""; 0]);
    assert_eq!(disk.syncs(), 0);
}

// shows: RUN-12, DUR-02
#[test]
fn what_is_kept_has_its_place_made_whatever_crashes() {
    let disk = SimDisk::new();
    disk.plant_dir(Path::new(DIR));
    disk.plant_dir(session().dir().parent().unwrap());
    let (file, copy) = (
        Path::new(DIR).join("PROGRESS.md"),
        session().left().join("PROGRESS.md"),
    );
    disk.plant_file(&file, b"of an attempt that never counted");
    every_crash(
        &disk,
        |disk| take(disk).is_ok(),
        |disk, returned, at| {
            let kept = disk.read(&copy, 100).is_ok();
            assert!(
                kept || (!returned && disk.stat(&file).unwrap().is_some()),
                "{at:?}"
            );
        },
    );
}

#[test]
fn two_that_differ_are_both_kept() {
    let disk = with(&[]);
    for content in [b"one", b"two", b"one"] {
        disk.plant_file(&Path::new(DIR).join("PROGRESS.md"), content);
        take(&disk).unwrap();
    }
    assert_eq!(left(&disk), ["2-PROGRESS.md", "PROGRESS.md"]);
}

// shows: RUN-12, DUR-02
#[test]
fn no_handoff_file_is_lost_at_any_crash() {
    let files: [(&str, &[u8]); 2] = [
        ("PROGRESS.md", b"archived"),
        ("KNOWLEDGE.md", b"not archived"),
    ];
    let disk = with(&files);
    archive_progress(&disk, b"archived");
    let everywhere = |disk: &SimDisk, content: &[u8]| {
        let places = [Path::new(DIR), session().dir(), &session().left()].map(Path::to_owned);
        places.iter().any(|dir| {
            disk.list(dir).unwrap_or_default().iter().any(|name| {
                disk.read(&dir.join(name), 1000)
                    .is_ok_and(|found| found == content)
                    && !name.to_string_lossy().starts_with('.')
            })
        })
    };
    let explored = every_crash(
        &disk,
        |disk| {
            take(disk)
                .and_then(|()| disk.sync_dir(Path::new(DIR)))
                .is_ok()
        },
        |disk, returned, at| {
            for (name, content) in files {
                assert!(everywhere(disk, content), "{name} is lost at {at:?}");
            }
            assert!(
                !returned || disk.list(Path::new(DIR)).unwrap().is_empty(),
                "{at:?}"
            );
            take(disk).expect("repeated");
            assert!(disk.list(Path::new(DIR)).unwrap().is_empty());
        },
    );
    assert!(explored.worlds > 50, "{explored:?}");
}

// shows: SEC-02
#[test]
fn a_link_is_removed_and_what_it_leads_to_stays() {
    let disk = with(&[]);
    disk.plant_file(Path::new("/home/secret"), b"secret");
    disk.create_link(
        &Path::new(DIR).join("PROGRESS.md"),
        Path::new("/home/secret"),
    )
    .unwrap();
    take(&disk).unwrap();
    assert_eq!(disk.list(Path::new(DIR)).unwrap(), [""; 0]);
    assert_eq!(disk.read(Path::new("/home/secret"), 10).unwrap(), b"secret");
}
