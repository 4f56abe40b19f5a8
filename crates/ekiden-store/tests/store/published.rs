use std::path::Path;
use std::sync::Barrier;
use std::thread;

use ekiden_sim::{SimDisk, every_crash};
use ekiden_store::disk::{Disk, DiskResult, Kind, Reach, RealDisk};
use ekiden_store::layout::{Published, StateLayout};
use ekiden_store::published::*;
use ekiden_store::replace::{Durability, replace};

const EXCLUDE: &str = "/p/.git/info/exclude";

fn project() -> SimDisk {
    let disk = SimDisk::new().fenced(Path::new("/p"));
    disk.plant_dir(Path::new("/p/.git/ekiden/main/runs"));
    disk
}

fn prepare(disk: &SimDisk, state: &str) -> DiskResult<()> {
    prepare_published(
        disk,
        &Published::new(Path::new("/p")),
        &StateLayout::new(Path::new(state)),
    )
}

fn text(disk: &SimDisk, path: &str) -> String {
    String::from_utf8(disk.read(Path::new(path), 1000).unwrap()).unwrap()
}

/// Two hooks of a session meet a project in which nothing ran: the file that the other one is about to
/// put in place is left to it.
// shows: OPS-04
#[test]
fn another_process_that_prepares_the_same_place_is_not_disturbed() {
    let disk = project();
    disk.plant_dir(Path::new("/p/.ekiden"));
    let others = Path::new("/p/.ekiden/..gitignore.new");
    disk.create_file(others, b"the other's", Reach::Cache)
        .unwrap();
    prepare(&disk, "/p/.git/ekiden/main").unwrap();
    disk.rename(others, Path::new("/p/.ekiden/.gitignore"))
        .unwrap();
}

/// The link to the runs is there for each of them, whoever made it.
// shows: OPS-04
#[test]
fn many_processes_prepare_the_same_place_at_once() {
    let together = Barrier::new(8);
    for _ in 0..100 {
        let top = tempfile::tempdir().unwrap();
        let (published, state) = (
            Published::new(top.path()),
            StateLayout::new(&top.path().join("state")),
        );
        let disk = RealDisk::new();
        disk.create_dir(published.dir()).unwrap();
        disk.create_file(&published.gitignore(), b"", Reach::Cache)
            .unwrap();
        thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    together.wait();
                    prepare_published(&disk, &published, &state).unwrap();
                });
            }
        });
        assert!(published.runs().is_symlink());
    }
}

// shows: OPS-04
#[test]
fn the_published_directory_is_made_once_and_what_a_person_put_there_stays() {
    let disk = project();
    prepare(&disk, "/p/.git/ekiden/main").unwrap();
    assert_eq!(
        disk.list(Path::new("/p/.ekiden")).unwrap(),
        [".gitignore", "handoff", "runs"]
    );
    expect_test::expect![[r#"
        # Made by ekiden. Only the settings belong in the repository.
        *
        !config.toml
    "#]]
    .assert_eq(&text(&disk, "/p/.ekiden/.gitignore"));
    assert_eq!(
        disk.read_link(Path::new("/p/.ekiden/runs")).unwrap(),
        Path::new("../.git/ekiden/main/runs")
    );
    assert!(
        disk.list(Path::new("/p/.ekiden/runs")).unwrap().is_empty(),
        "the link leads there"
    );

    let ops = disk.ops();
    replace(
        &disk,
        Path::new("/p/.ekiden/.gitignore"),
        b"mine",
        Durability::Full,
    )
    .unwrap();
    let changed = disk.ops();
    prepare(&disk, "/p/.git/ekiden/main").unwrap();
    assert_eq!(text(&disk, "/p/.ekiden/.gitignore"), "mine");
    assert_eq!(disk.ops() - changed, 2, "two attempts to make a directory");
    assert!(ops < changed);
}

#[test]
fn the_link_follows_the_state_directory_and_spares_what_is_no_link() {
    let disk = project();
    prepare(&disk, "/p/.git/ekiden/main").unwrap();
    let link = Path::new("/p/.ekiden/runs");
    for (state, target) in [
        ("/var/state", "/var/state/runs"),
        ("/p/.ekiden/state", "state/runs"),
    ] {
        prepare(&disk, state).unwrap();
        assert_eq!(disk.read_link(link).unwrap(), Path::new(target));
    }
    disk.remove(link).unwrap();
    disk.create_dir(link).unwrap();
    prepare(&disk, "/var/state").unwrap();
    let found = disk.stat(link).unwrap().unwrap();
    assert_eq!(found.kind, Kind::Dir, "what a person put there stays");
}

// shows: SEC-02
#[test]
fn nothing_is_written_through_a_link_that_stands_in_the_project() {
    let disk = project();
    disk.plant_dir(Path::new("/home/.ssh"));
    disk.create_link(Path::new("/p/.ekiden"), Path::new("/home/.ssh"))
        .unwrap();
    let error = prepare(&disk, "/var/state").unwrap_err();
    expect_test::expect!["create directory `/p/.ekiden`: `/p/.ekiden` is a symbolic link to `/home/.ssh`, and ekiden does not write through links"]
        .assert_eq(&format!("{error}: {}", error.cause));
    let progress = Path::new("/p/.ekiden/PROGRESS.md");
    replace(&disk, progress, b"x", Durability::Whole).unwrap_err();
    assert!(disk.list(Path::new("/home/.ssh")).unwrap().is_empty());
}

// shows: SEC-02
#[test]
fn a_link_in_place_of_a_published_file_is_refused() {
    let disk = project();
    prepare(&disk, "/var/state").unwrap();
    disk.plant_file(Path::new("/home/.bashrc"), b"mine");
    let published = Path::new("/p/.ekiden/PROGRESS.md");
    disk.create_link(published, Path::new("/home/.bashrc"))
        .unwrap();
    let error = replace(&disk, published, b"x", Durability::Whole).unwrap_err();
    assert!(
        error.cause.to_string().contains("/home/.bashrc"),
        "{}",
        error.cause
    );
    assert_eq!(text(&disk, "/home/.bashrc"), "mine");
}

// shows: SEC-02, REL-17
#[test]
fn what_an_agent_made_of_the_published_places_is_put_right() {
    let disk = project();
    let published = Published::new(Path::new("/p"));
    prepare(&disk, "/var/state").unwrap();
    disk.plant_file(Path::new("/home/.bashrc"), b"mine");
    disk.rename(&published.handoff(), Path::new("/p/.ekiden/old"))
        .unwrap();
    for link in [published.handoff(), published.status()] {
        disk.create_link(&link, Path::new("/home/.bashrc")).unwrap();
    }
    disk.plant_dir(&published.task());
    restore_places(&disk, &published).unwrap();
    let kind = |path: &Path| disk.stat(path).unwrap().map(|found| found.kind);
    assert_eq!(kind(&published.handoff()), Some(Kind::Dir));
    assert_eq!(
        (kind(&published.status()), kind(&published.task())),
        (None, None)
    );
    assert_eq!(kind(Path::new("/p/.ekiden/aside-TASK.md")), Some(Kind::Dir));
    assert_eq!(text(&disk, "/home/.bashrc"), "mine");
}

// shows: OPS-04
#[test]
fn the_exclude_file_keeps_every_foreign_byte() {
    let ours = "**/.ekiden/*\n!**/.ekiden/config.toml\n";
    for (before, between) in [
        ("", ""),
        ("*.log\n", ""),
        ("*.log", "\n"),
        ("\u{feff}# x\r\n\r\n", ""),
    ] {
        let disk = project();
        disk.plant_file(Path::new(EXCLUDE), before.as_bytes());
        for _ in 0..2 {
            exclude_from_git(&disk, Path::new(EXCLUDE)).unwrap();
            assert_eq!(text(&disk, EXCLUDE), format!("{before}{between}{ours}"));
        }
    }
    let disk = project();
    exclude_from_git(&disk, Path::new(EXCLUDE)).unwrap();
    assert_eq!(text(&disk, EXCLUDE), ours, "made where it is missing");
}

#[test]
fn the_exception_comes_last() {
    let disk = project();
    disk.plant_file(Path::new(EXCLUDE), b"!**/.ekiden/config.toml\n");
    exclude_from_git(&disk, Path::new(EXCLUDE)).unwrap();
    assert!(text(&disk, EXCLUDE).ends_with("**/.ekiden/*\n!**/.ekiden/config.toml\n"));
    let ops = disk.ops();
    exclude_from_git(&disk, Path::new(EXCLUDE)).unwrap();
    assert_eq!(disk.ops(), ops);
}

// shows: DUR-02
#[test]
fn the_exclude_file_is_old_or_new_after_every_crash() {
    let disk = project();
    disk.plant_file(Path::new(EXCLUDE), b"*.log");
    let done = "*.log\n**/.ekiden/*\n!**/.ekiden/config.toml\n";
    every_crash(
        &disk,
        |disk| exclude_from_git(&**disk, Path::new(EXCLUDE)).is_ok(),
        |disk, returned, _| {
            let found = text(disk, EXCLUDE);
            assert!(
                found == done || (found == "*.log" && !returned),
                "{found:?}"
            );
        },
    );
}
