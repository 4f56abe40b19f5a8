use std::path::Path;
use std::sync::Arc;

use ekiden_sim::{Fault, SimDisk};
use ekiden_store::disk::Disk;
use ekiden_store::limits::STREAM_BYTES_MAX;
use ekiden_store::stream::*;

const PATH: &str = "/run/events.jsonl";

fn stream() -> (Arc<SimDisk>, StreamWriter) {
    let disk = Arc::new(SimDisk::new());
    disk.plant_dir(Path::new("/run"));
    let stream = StreamWriter::open(disk.clone(), Path::new(PATH)).unwrap();
    (disk, stream)
}

#[test]
fn bytes_are_there_at_once_and_continue_at_the_end() {
    let (disk, mut stream) = stream();
    for _ in 0..1000 {
        stream.write(b"line\n").unwrap();
    }
    assert_eq!(disk.stat(Path::new(PATH)).unwrap().unwrap().len, 5000);
    let mut again = StreamWriter::open(disk.clone(), Path::new(PATH)).unwrap();
    again.write(b"more\n").unwrap();
    let content = disk.read(Path::new(PATH), 1 << 20).unwrap();
    assert_eq!(
        content,
        [b"line\n".repeat(1000), b"more\n".to_vec()].concat()
    );
    assert_eq!(disk.syncs(), 0);
}

/// A kill may cut a line; what comes next is not taken for the rest of it.
// shows: AGT-08, DUR-01
#[test]
fn what_continues_a_stream_begins_its_own_line() {
    let (disk, mut stream) = stream();
    stream.write(b"whole\ncut in the mid").unwrap();
    let open = || StreamWriter::open(disk.clone(), Path::new(PATH)).unwrap();
    open().write(b"next\n").unwrap();
    open().write(b"last\n").unwrap();
    let content = disk.read(Path::new(PATH), 1 << 20).unwrap();
    assert_eq!(content, b"whole\ncut in the mid\nnext\nlast\n");
}

// shows: AGT-08
#[test]
fn a_stream_ends_before_it_fills_the_disk() {
    let (disk, mut stream) = stream();
    let piece = vec![b'x'; usize::try_from(STREAM_BYTES_MAX / 8).unwrap()];
    for _ in 0..8 {
        stream.write(&piece).unwrap();
    }
    assert_eq!(
        stream.write(b"y").unwrap_err().cause.to_string(),
        "it has 67108865 bytes; at most 67108864 may be"
    );
    drop(stream);
    assert_eq!(
        disk.stat(Path::new(PATH)).unwrap().unwrap().len,
        STREAM_BYTES_MAX
    );
}

#[test]
fn after_a_failure_the_stream_goes_on_behind_the_gap() {
    let (disk, mut stream) = stream();
    let mut write = |bytes| stream.write(bytes);
    write(b"12").unwrap();
    disk.fail_at(disk.ops(), Fault::DiskFull);
    write(b"abcd").unwrap_err();
    write(b"efgh").unwrap();
    assert_eq!(disk.read(Path::new(PATH), 100).unwrap(), b"12abefgh");
}

#[test]
fn a_stream_that_could_not_be_made_is_made_with_the_next_bytes() {
    let (disk, mut stream) = stream();
    let mut write = |bytes| stream.write(bytes);
    disk.fail_at(disk.ops(), Fault::DiskFull);
    write(b"abcd").unwrap_err();
    write(b"efgh").unwrap();
    assert_eq!(disk.read(Path::new(PATH), 100).unwrap(), b"efgh");
}
