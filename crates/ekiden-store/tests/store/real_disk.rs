//! The real disk does what the simulated one does: the same piece of work on both.

use std::fs::{self};
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::Path;

use ekiden_sim::SimDisk;
use ekiden_store::disk::*;

/// A copy of it could fill the disk.
#[test]
fn a_large_file_of_a_handoff_is_moved_not_copied() {
    use std::os::unix::fs::MetadataExt as _;

    use ekiden_core::limits::HANDOFF_FILE_BYTES_MAX;
    use ekiden_store::handoff::{Keeping, take_handoff};

    let place = tempfile::tempdir().unwrap();
    let file = place.path().join("KNOWLEDGE.md");
    let text = vec![b'x'; HANDOFF_FILE_BYTES_MAX + 1];
    let disk = RealDisk::new();
    disk.create_file(&file, &text, Reach::Cache).unwrap();
    let before = fs::metadata(&file).unwrap().ino();
    let left = place.path().join("left");
    let keeping = Keeping {
        recorded: &[],
        is_same_session: false,
        sessions: &[],
        left: &left,
    };
    take_handoff(&disk, place.path(), keeping).unwrap();
    assert!(!file.exists());
    assert_eq!(
        fs::metadata(left.join("KNOWLEDGE.md")).unwrap().ino(),
        before
    );
}

/// Does a list of operations, good and bad, and tells how each went.
fn told(disk: &dyn Disk, root: &Path) -> Vec<String> {
    let mut told = Vec::new();
    let at = |name: &str| root.join(name);
    let mut tell = |what: &str, result: DiskResult<String>| {
        let result = match result {
            Ok(text) => text,
            Err(error) => format!("{:?}: {}", error.operation, cause(&error.cause, root)),
        };
        told.push(format!("{what}: {result}"));
    };
    let done = |()| "done".to_owned();
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();

    tell("make dir", disk.create_dir(&at("d")).map(done));
    tell("make dir again", disk.create_dir(&at("d")).map(done));
    tell(
        "make dir in nothing",
        disk.create_dir(&at("none/d")).map(done),
    );
    tell(
        "make file",
        disk.create_file(&at("d/a"), b"one ", Reach::Disk).map(done),
    );
    tell(
        "make file again",
        disk.create_file(&at("d/a"), b"x", Reach::Cache).map(done),
    );
    tell(
        "append",
        disk.append(&at("d/a"), 4, b"two", Reach::Cache).map(done),
    );
    tell(
        "append elsewhere",
        disk.append(&at("d/a"), 4, b"x", Reach::Cache).map(done),
    );
    tell(
        "append to nothing",
        disk.append(&at("d/none"), 0, b"x", Reach::Cache).map(done),
    );
    tell(
        "append to a dir",
        disk.append(&at("d"), 0, b"x", Reach::Cache).map(done),
    );
    tell("read", disk.read(&at("d/a"), 7).map(text));
    tell("read too much", disk.read(&at("d/a"), 6).map(text));
    tell("read nothing", disk.read(&at("d/none"), 6).map(text));
    tell("read a dir", disk.read(&at("d"), 6).map(text));
    tell("cut", disk.truncate(&at("d/a"), 3).map(done));
    tell(
        "look",
        disk.stat(&at("d/a")).map(|found| format!("{found:?}")),
    );
    tell(
        "look at nothing",
        disk.stat(&at("d/none/x")).map(|found| format!("{found:?}")),
    );
    tell("rename", disk.rename(&at("d/a"), &at("d/b")).map(done));
    tell(
        "rename nothing",
        disk.rename(&at("d/a"), &at("d/b")).map(done),
    );
    tell("link", disk.create_link(&at("l"), Path::new("d")).map(done));
    tell(
        "link again",
        disk.create_link(&at("l"), Path::new("d")).map(done),
    );
    tell("follow", disk.read(&at("l/b"), 7).map(text));
    tell(
        "resolve",
        disk.resolve(&at("l/b"))
            .map(|path| plain(&path.display().to_string(), root)),
    );
    tell(
        "what link",
        disk.read_link(&at("l"))
            .map(|path| path.display().to_string()),
    );
    tell(
        "write through",
        disk.create_file(&at("l/c"), b"", Reach::Cache).map(done),
    );
    tell(
        "append through",
        disk.append(&at("l/b"), 3, b"", Reach::Cache).map(done),
    );
    tell(
        "rename over link",
        disk.rename(&at("d/b"), &at("l")).map(done),
    );
    tell("remove through", disk.remove(&at("l/b")).map(done));
    tell("sync dir through", disk.sync_dir(&at("l")).map(done));
    tell(
        "dots",
        disk.create_file(&at("d/../e"), b"", Reach::Cache).map(done),
    );
    tell(
        "copy mode",
        disk.copy_mode(&at("d/b"), &at("d/b")).map(done),
    );
    tell("sync", disk.sync_file(&at("d/b")).map(done));
    tell("sync dir", disk.sync_dir(&at("d")).map(done));
    tell("names", disk.list(root).map(|names| format!("{names:?}")));
    tell("remove link", disk.remove(&at("l")).map(done));
    tell("remove", disk.remove(&at("d/b")).map(done));
    tell("remove again", disk.remove(&at("d/b")).map(done));
    tell("make dir", disk.create_dir(&at("d/e")).map(done));
    tell("remove full dir", disk.remove_dir(&at("d")).map(done));
    tell("remove dir", disk.remove_dir(&at("d/e")).map(done));
    tell("remove dir again", disk.remove_dir(&at("d/e")).map(done));
    tell(
        "names",
        disk.list(&at("d")).map(|names| format!("{names:?}")),
    );
    told.push(format!("syncs: {}", disk.syncs()));
    told
}

fn cause(cause: &Cause, root: &Path) -> String {
    if let Cause::Io(error) = cause {
        format!("{:?}", error.kind())
    } else {
        plain(&cause.to_string(), root)
    }
}

fn plain(text: &str, root: &Path) -> String {
    text.replace(&root.display().to_string(), "ROOT")
}

#[test]
fn the_simulated_disk_does_as_the_real_one() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().canonicalize().unwrap();
    let real = told(&RealDisk::fenced(&root), &root);

    let sim = SimDisk::new().fenced(Path::new("/root"));
    sim.plant_dir(Path::new("/root"));
    assert_eq!(told(&sim, Path::new("/root")), real);
    expect_test::expect![[r#"
        make dir: done
        make dir again: CreateDir: AlreadyExists
        make dir in nothing: CreateDir: NotFound
        make file: done
        make file again: Create: AlreadyExists
        append: done
        append elsewhere: Append: it has 7 bytes instead of 4: something else wrote to it
        append to nothing: Append: NotFound
        append to a dir: Append: IsADirectory
        read: one two
        read too much: Read: it has 7 bytes; at most 6 may be
        read nothing: Read: NotFound
        read a dir: Read: it is not a regular file
        cut: done
        look: Some(Stat { kind: File, len: 3 })
        look at nothing: None
        rename: done
        rename nothing: Rename: NotFound
        link: done
        link again: Link: AlreadyExists
        follow: one
        resolve: ROOT/d/b
        what link: d
        write through: Create: `ROOT/l` is a symbolic link to `d`, and ekiden does not write through links
        append through: Append: `ROOT/l` is a symbolic link to `d`, and ekiden does not write through links
        rename over link: Rename: `ROOT/l` is a symbolic link to `d`, and ekiden does not write through links
        remove through: Remove: `ROOT/l` is a symbolic link to `d`, and ekiden does not write through links
        sync dir through: Sync: `ROOT/l` is a symbolic link to `d`, and ekiden does not write through links
        dots: Create: the path is not plain
        copy mode: done
        sync: done
        sync dir: done
        names: ["d", "l"]
        remove link: done
        remove: done
        remove again: Remove: NotFound
        make dir: done
        remove full dir: Remove: DirectoryNotEmpty
        remove dir: done
        remove dir again: Remove: NotFound
        names: []
        syncs: 4
    "#]]
    .assert_eq(&(real.join("\n") + "\n"));
}

// shows: SEC-02
#[test]
fn files_and_directories_are_private() {
    let dir = tempfile::tempdir().unwrap();
    let disk = RealDisk::new();
    let (folder, file) = (dir.path().join("d"), dir.path().join("d/f"));
    disk.create_dir(&folder).unwrap();
    disk.create_file(&file, b"", Reach::Cache).unwrap();
    let mode = |path: &Path| path.metadata().unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(&folder), mode(&file)), (0o700, 0o600));
}

// shows: SEC-02
#[test]
fn links_out_of_the_project_are_refused_and_name_where_they_lead() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().canonicalize().unwrap();
    let (project, outside) = (root.join("p"), root.join("outside"));
    for dir in [&project, &outside, &outside.join("deep")] {
        RealDisk::new().create_dir(dir).unwrap();
    }
    symlink(&outside, project.join(".ekiden")).unwrap();
    let disk = RealDisk::fenced(&project);
    for path in [".ekiden/a", ".ekiden/deep/a"] {
        let error = disk
            .create_file(&project.join(path), b"x", Reach::Cache)
            .unwrap_err();
        assert!(
            matches!(&error.cause, Cause::IsLink { target, .. } if *target == outside),
            "{error:?}"
        );
    }
    assert_eq!(disk.list(&outside).unwrap(), ["deep"]);
    // Above the fence links are the user's own business.
    symlink(&project, root.join("way-in")).unwrap();
    RealDisk::fenced(&root.join("way-in"))
        .create_dir(&root.join("way-in/d"))
        .unwrap();
}

#[cfg(target_os = "linux")] // Elsewhere a pipe takes a call that the library lacks.
#[test]
fn a_pipe_in_place_of_a_file_holds_nobody_up() {
    let dir = tempfile::tempdir().unwrap();
    let pipe = dir.path().join("pipe");
    rustix::fs::mknodat(
        rustix::fs::CWD,
        &pipe,
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR,
        0,
    )
    .unwrap();
    let disk = RealDisk::new();
    assert_eq!(disk.stat(&pipe).unwrap().unwrap().kind, Kind::Other);
    assert!(matches!(
        disk.read(&pipe, 10).unwrap_err().cause,
        Cause::NotAFile
    ));
    disk.append(&pipe, 0, b"x", Reach::Cache).unwrap_err();
}

#[test]
fn a_foreign_file_keeps_its_permissions_and_its_link() {
    let dir = tempfile::tempdir().unwrap();
    let (file, link) = (dir.path().join("file"), dir.path().join("link"));
    let disk = RealDisk::new();
    disk.create_file(&file, b"old", Reach::Cache).unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o644)).unwrap();
    symlink(&file, &link).unwrap();
    ekiden_store::replace::replace_foreign(&disk, &link, b"new").unwrap();
    assert_eq!(fs::read(&file).unwrap(), b"new");
    assert_eq!(file.metadata().unwrap().permissions().mode() & 0o777, 0o644);
    assert!(link.is_symlink());
}
