use std::path::Path;
use std::sync::Arc;

use ekiden_core::time::Timestamp;
use ekiden_sim::{SimDisk, every_crash};
use ekiden_store::disk::Disk;
use ekiden_store::documents::*;

const MINUTE: &str = "2026-01-07-1045";

fn project() -> Arc<SimDisk> {
    let disk = SimDisk::new().fenced(Path::new("/p"));
    disk.plant_dir(Path::new("/p/.git/ekiden/root"));
    disk.plant_dir(Path::new("/p/.ekiden"));
    Arc::new(disk)
}

fn with<T>(disk: &Arc<SimDisk>, work_dir: &str, ask: impl FnOnce(Documents) -> T) -> T {
    let state = Path::new("/p/.git/ekiden/root");
    ask(Documents::of(disk.clone(), Path::new(work_dir), state))
}

fn add(disk: &Arc<SimDisk>, minute: &str, text: &str) -> String {
    let path = with(disk, "/p", |documents| documents.add(None, minute, text)).unwrap();
    path.file_name().unwrap().to_str().unwrap().to_owned()
}

// shows: HND-001
#[test]
fn two_documents_of_one_minute_have_two_names() {
    let disk = project();
    disk.plant_file(
        Path::new("/p/.ekiden/handoffs/2026-01-07-1045-2.md"),
        b"a person's",
    );
    let names = [
        add(&disk, MINUTE, "one"),
        add(&disk, MINUTE, "two"),
        add(&disk, "2026-01-07-1044", "x"),
    ];
    assert_eq!(
        names,
        [
            "2026-01-07-1045.md",
            "2026-01-07-1045-3.md",
            "2026-01-07-1044.md"
        ]
    );
    disk.plant_file(Path::new("/p/.ekiden/handoffs/notes.md"), b"not ours");
    let mut ten = vec![
        "2026-01-07-1044.md",
        "2026-01-07-1045.md",
        "2026-01-07-1045-2.md",
    ];
    ten.push("2026-01-07-1045-3.md");
    with(&disk, "/p", |documents| {
        assert_eq!(documents.names().unwrap(), ten);
        assert_eq!(
            documents.read("2026-01-07-1045-2.md").unwrap().unwrap(),
            "a person's"
        );
    });
}

// shows: HND-001
#[test]
fn worktrees_that_share_a_state_directory_share_no_name() {
    let disk = project();
    disk.plant_dir(Path::new("/w/.ekiden"));
    add(&disk, MINUTE, "one");
    let other = with(&disk, "/w", |documents| documents.add(None, MINUTE, "two")).unwrap();
    assert_eq!(other, Path::new("/w/.ekiden/handoffs/2026-01-07-1045-2.md"));
}

// shows: HND-07
#[test]
fn a_document_is_loaded_once_and_older_ones_are_out_of_date() {
    let disk = project();
    let (old, new) = (add(&disk, MINUTE, "old"), add(&disk, MINUTE, "new"));
    with(&disk, "/p", |documents| {
        assert_eq!(
            documents.newest_unconsumed(None, None).unwrap(),
            Some(new.clone())
        );
        assert!(documents.consume(&new, "s1").unwrap());
        assert!(!documents.consume(&new, "s2").unwrap());
        assert_eq!(
            documents.newest_unconsumed(None, None).unwrap(),
            None,
            "{old} was passed over"
        );
    });
    let newer = add(&disk, "2026-01-07-1046", "x");
    assert_eq!(
        with(&disk, "/p", |documents| documents
            .newest_unconsumed(None, None))
        .unwrap(),
        Some(newer)
    );
}

// shows: HND-07
#[test]
fn a_branch_keeps_its_document_whatever_others_left_and_loaded() {
    let disk = project();
    let add_on =
        |minute, branch: &str| add(&disk, minute, &format!("---\nbranch: {branch}\n---\nx"));
    let next = |branch| {
        with(&disk, "/p", |documents| {
            documents.newest_unconsumed(branch, None)
        })
        .unwrap()
    };
    let consume = |name: &str| with(&disk, "/p", |documents| documents.consume(name, "s")).unwrap();
    let older = add_on("2026-01-07-1000", "main");
    let old = add_on("2026-01-07-1001", "feature");
    let new = add_on("2026-01-07-1002", "main");
    assert_eq!(next(Some("feature")), Some(old.clone()));
    assert_eq!(next(Some("main")).as_ref(), Some(&new));
    assert_eq!(next(Some("other")).as_ref(), Some(&new), "to be named");
    consume(&new);
    assert_eq!(next(Some("feature")).as_ref(), Some(&old));
    assert_eq!(next(Some("main")), None, "{older} is out of date");
    assert_eq!(next(Some("other")), Some(old.clone()));
    consume(&old);
    assert_eq!(next(Some("other")), None, "{older} is out of date");
    let newer = add_on("2026-01-07-1003", "main");
    assert_eq!(next(Some("feature")), Some(newer));
    let again = |session| {
        let of_feature =
            |documents: Documents| documents.newest_unconsumed(Some("feature"), session);
        with(&disk, "/p", of_feature).unwrap()
    };
    assert_eq!(again(Some("s")), Some(old), "who loaded it asks again");
    assert_eq!(again(Some("another")), next(Some("feature")));
}

/// As when somebody flew from Tokyo to New York, or the clock was set back for the winter.
// shows: HND-001, HND-07
#[test]
fn the_newest_document_is_the_one_that_was_made_last_whatever_the_local_time_was() {
    let disk = project();
    let a_person_s = Path::new("/p/.ekiden/handoffs/2026-01-07-2100.md");
    disk.plant_file(a_person_s, b"a person's");
    let add = |at, minute, text| {
        let add = |documents: Documents| documents.add(Some(Timestamp(at)), minute, text);
        with(&disk, "/p", add).unwrap();
    };
    add(1_000, "2026-01-07-2300", "in Tokyo");
    add(2_000, "2026-01-07-0900", "in New York");
    with(&disk, "/p", |documents| {
        let ordered = [
            "2026-01-07-2300.md",
            "2026-01-07-2100.md",
            "2026-01-07-0900.md",
        ];
        assert_eq!(documents.names().unwrap(), ordered);
        let newest = documents.newest_unconsumed(None, None).unwrap();
        assert_eq!(newest.as_deref(), Some("2026-01-07-0900.md"));
    });
}

// shows: HND-07, SEC-02
#[test]
fn what_came_with_the_repository_is_not_loaded_by_itself() {
    let disk = project();
    disk.plant_file(
        Path::new("/p/.ekiden/handoffs/2099-01-01-0000.md"),
        b"a stranger's",
    );
    with(&disk, "/p", |documents| {
        assert_eq!(documents.newest_unconsumed(None, None).unwrap(), None)
    });
    let ours = add(&disk, MINUTE, "x");
    with(&disk, "/p", |documents| {
        assert_eq!(documents.newest_unconsumed(None, None).unwrap(), Some(ours))
    });
}

// shows: SEC-02
#[test]
fn links_are_neither_read_nor_written_through() {
    let disk = project();
    disk.plant_file(Path::new("/home/.ssh/id_rsa"), b"secret");
    disk.plant_dir(Path::new("/p/.ekiden/handoffs"));
    let name = "2026-01-07-1045.md";
    disk.create_link(
        &Path::new("/p/.ekiden/handoffs").join(name),
        Path::new("/home/.ssh/id_rsa"),
    )
    .unwrap();
    with(&disk, "/p", |documents| {
        assert_eq!(documents.read(name).unwrap(), None)
    });
    assert_eq!(add(&disk, MINUTE, "x"), "2026-01-07-1045-2.md");
    let disk = project();
    disk.create_link(Path::new("/p/.ekiden/handoffs"), Path::new("/home/.ssh"))
        .unwrap();
    with(&disk, "/p", |documents| {
        documents.add(None, MINUTE, "x").unwrap_err();
        documents.names().unwrap_err();
    });
}

// shows: HND-001, DUR-02
#[test]
fn a_document_is_whole_or_not_there_after_every_crash() {
    every_crash(
        &project(),
        |disk| {
            with(disk, "/p", |documents| {
                documents.add(None, MINUTE, "the document").is_ok()
            })
        },
        |disk, _, _| {
            let disk = &Arc::new(disk.clone());
            let text = with(disk, "/p", |documents| {
                documents.read("2026-01-07-1045.md").unwrap()
            });
            assert!(text.is_none_or(|text| text == "the document"));
            let again = with(disk, "/p", |documents| {
                documents.add(None, MINUTE, "again").unwrap()
            });
            assert_eq!(disk.read(&again, 100).unwrap(), b"again");
        },
    );
}
